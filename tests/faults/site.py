"""One namespace with its gateways, its approver and its agent: what faults are tried on.

Settings are the gateway's own environment variables (`Site.env`), so that a test of an adapter adds
the adapter and its settings there and has the rest as it is.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError

from gateway.approvals.claims import ClaimService
from gateway.approvals.request_writer import FOLLOWUPS
from gateway.client.http_connection import HttpPool
from gateway.domain.policy_document import Budget, ToolRow
from gateway.domain.records import REVIEWS, AuditEvent, Identity
from gateway.domain.time_and_tasks import SystemClock, cancel_and_wait
from gateway.errors import GatewayError
from gateway.models import ApprovalRequest, digest_of, new_id
from gateway.policy.grants.grant import Answer, Effect, Grant, Match, Rule, RuleKind, Shape
from gateway.stores.archive_folder import Archive
from gateway.stores.claims import RedisClaims
from gateway.stores.connect import connect, disconnect
from gateway.stores.credentials import RedisCredentials
from gateway.stores.grants import RedisGrants
from gateway.stores.ingress import MOST_ATTEMPTS, MOST_BYTES
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from gateway.wire.codec import JsonObject, plain
from tests.faults import roles
from tests.faults.processes import Child, child
from tests.faults.wall import ANN, CHANNEL, Wall
from tests.ports import free_port
from tests.waiting import moment

DECISIONS: dict[str, JsonObject] = {
    "write": {"action": "approve"},
    "later": {"action": "approve"},
    "edit": {"action": "edit", "arguments": {"n": 99}},
    "refuse": {"action": "deny"},
}
"""How the approver answers, by tool. What is not here is answered on the wall, or at the end."""

CROWDED = "crowd-"
"""How the name of an agent begins that may post one card a minute."""
QUEUES = ("wall", "board", FOLLOWUPS, REVIEWS)


class Site:
    """One namespace of a Redis server, and everything that runs on it.

    Gateway and agent reach Redis by `through`, the approver and whoever watches by `redis_url`.
    """

    def __init__(
        self, redis_url: str, namespace: str, folder: Path, *, through: str | None = None
    ) -> None:
        self.agent = f"agent-{namespace}"
        self.folder = folder
        self.env = {
            "REDIS_URL": through or redis_url,
            "GATEWAY_NAMESPACE": namespace,
            "GATEWAY_DATA_DIR": str(folder),
            "GATEWAY_ARCHIVE": str(folder / "archive"),
            "GATEWAY_PORT": str(free_port()),
            "GATEWAY_AGENT": self.agent,
            "GATEWAY_ADAPTERS": '["web","wall"]',
            # Nobody listens there; it is enough that webhooks run.
            "GATEWAY_WEBHOOK_URL": "http://localhost:9/",
            "GATEWAY_WEBHOOK_HOSTS": '["localhost:9"]',
            "GATEWAY_WEBHOOK_SECRET": "whsec_" + 32 * "A",
        }
        archive = Archive(folder / "archive" / namespace)
        self.store = RedisStore(connect(redis_url), Keys(namespace), archive=archive)
        self.url = ""
        self.ready = asyncio.Event()
        self._blocking = connect(redis_url, blocking=True)
        self._token = ""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Site:
        """Be ready to start processes."""
        self._stack.push_async_callback(disconnect, self.store.redis)
        self._stack.push_async_callback(disconnect, self._blocking)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End every process that is left."""
        await self._stack.aclose()

    # ---------------------------------------------------------------- processes

    async def gateway(
        self, step: str = roles.ANY, nth: int = roles.NEVER, lease_ms: int | None = None
    ) -> Child:
        """Start a gateway; return it when it is ready, or dead at its step."""
        gateway = await self._stack.enter_async_context(
            child(roles.gateway, self.env, step, nth, lease_ms)
        )
        if url := await gateway.heard():
            self.url = url
            self.ready.set()
        else:
            assert await gateway.ended() == -signal.SIGKILL
        return gateway

    @asynccontextmanager
    async def succession(
        self, steps: Sequence[str], nth: int = 1
    ) -> AsyncIterator[asyncio.Task[Child]]:
        """Have a gateway that dies at a step, then one that dies at the next, and so on.

        Each dies at the nth passing. The task is done when the one after the last step is ready.
        """
        first = await self.gateway(steps[0], nth)
        last = asyncio.create_task(self._successors(first, steps[1:], nth))
        try:
            yield last
        finally:
            await cancel_and_wait(last)

    async def _successors(self, gateway: Child, steps: Sequence[str], nth: int) -> Child:
        for step in steps:
            gateway = await self._successor(gateway, step, nth)
        return await self._successor(gateway, roles.ANY, roles.NEVER)

    async def _successor(self, dying: Child, step: str, nth: int) -> Child:
        assert await dying.ended() == -signal.SIGKILL
        # Nobody else lives here, so no lease of the dead need run out first.
        await self.store.forget_replicas()
        for lease in (("changing", "agent", self.agent), ("archive", "claim")):
            await self.store.redis.delete(self.store.keys.of(*lease))
        await self.release_cards()
        return await self.gateway(step, nth)

    async def release_cards(self) -> None:
        """End the leases on cards that a dead gateway holds."""
        for queue in QUEUES:
            for one in await self.store.redis.zrange(self.store.keys.dirty(queue), 0, -1):
                await self.store.redis.zadd(self.store.keys.dirty(queue), {one: 0})

    @asynccontextmanager
    async def agent_at_work(self) -> AsyncIterator[Child]:
        """Run an agent process that asks for everything there is; it ends by itself."""
        async with child(roles.agent, self.env, self.folder) as agent:
            assert await agent.heard() == self.agent
            yield agent

    async def stopped(self, gateway: Child) -> list[str]:
        """End a gateway in order; return the steps that it passed."""
        gateway.let_go()
        steps: list[str] = await gateway.heard()
        assert await gateway.ended() == 0
        return steps

    # ---------------------------------------------------------------- what may come in

    async def add_approver(
        self,
        identity: Identity = ANN,
        targets: tuple[str, ...] = (CHANNEL,),
        notify: tuple[str, ...] = (),
    ) -> None:
        """Let ann decide, over HTTP and on the wall, or wherever else her cards are posted."""
        new = await RedisCredentials(self.store, SystemClock()).add_approver("ann", admin=True)
        self._token = new.token
        policy = await self.store.policy()
        ann = replace(policy.people[0], identities=("token:ann", identity.written))
        route = replace(policy.routes[0], targets=targets, notify=notify)
        crowded = Budget(name="crowded", agents=(f"{CROWDED}*",), cards=1)
        made = replace(policy, people=(ann,), routes=(route,), budgets=(crowded,))
        await self.store.apply(made, by="test")

    async def leave_poison(self) -> None:
        """Leave an entry on which the gateway has died before, as often as it is tried."""
        keys, agent = self.store.keys, f"poison-{self.agent}"[:64]
        await self.store.register_agent(agent)
        await self.store.redis.hset(keys.attempts, f"{agent} 1-1", MOST_ATTEMPTS)
        await self.store.redis.xadd(keys.ingress(agent), {"v": "1"}, id="1-1")

    async def send_nonsense(self) -> None:
        """Write an entry that no gateway can read, and one that is too large to be read."""
        queue = self.store.keys.ingress(self.agent)
        await self.store.redis.xadd(queue, {"v": "0"})
        await self.store.redis.xadd(queue, {f"f{n}": "x" * MOST_BYTES for n in range(2)})

    async def lose_a_waiter(self) -> str:
        """Submit as a process that then is gone, lease and all; return the request's id."""
        request_id, process = await self.submit("orphan")
        await self.store.redis.zadd(self.store.keys.processes, {f"{self.agent} {process}": 0})
        return request_id

    async def submit(self, tool: str, agent: str = "") -> tuple[str, str]:
        """Submit as a process that never asks again; return the ids of request and process."""
        process = new_id()
        draft = ApprovalRequest(
            id=new_id(), agent=agent or self.agent, tool=tool, arguments={}, digest="0" * 64
        )
        body = plain(draft) | {"digest": digest_of(draft)}
        await self._send(draft.agent, "submit", process, body)
        await self.until("submitted", draft.id)
        return draft.id, process

    async def crowd(self) -> None:
        """Have another agent ask for more than its one card, and twice for the same; then have the
        first of these withdrawn, and time pass until the next card."""
        store, agent = self.store, f"{CROWDED}{self.agent}"[:64]
        await RedisCredentials(store, SystemClock()).add_agent(agent)
        await self._reviewed("lift", agent)
        first, process = await self._reviewed("same", agent)
        second, _ = await self._reviewed("same", agent)
        while await store.redis.hget(store.keys.record(second), "behind") != first:
            await moment()
        await self._send(agent, "cancel", process, {"id": first})
        while await store.redis.hget(store.keys.record(second), "behind") != f"~{agent}":
            await moment()
        await store.redis.hdel(store.keys.load(agent), "free")
        await store.redis.zadd(store.keys.dirty(FOLLOWUPS), {f"~{agent}": 0})
        await self._reviewed("bell", self.agent)  # whatever happens has queues looked at
        await self.until("shown", second)

    async def _reviewed(self, tool: str, agent: str) -> tuple[str, str]:
        """Submit, and wait until slow deciders, if there are any, have left it to people.

        Until then it stands behind nothing, and others may overtake it."""
        request_id, process = await self.submit(tool, agent)
        while (record := await self.store.load(request_id)) is None or record.unreviewed:
            await moment()
        return request_id, process

    async def remember(self) -> None:
        """Have something remembered that covers nothing here, and its end come near."""
        grant = {"agent": self.agent, "effect": "deny", "example": {"tool": "unheard"}}
        exact = (await self._call("POST", "/v1/grants/offers", grant))["offers"][0]["id"]
        made = await self._call("POST", "/v1/grants", {**grant, "offer": exact})
        await self.store.redis.zadd(self.store.keys.grants_ending, {made["id"]: 0})
        await self.until("grant_ending")
        await self._reviewed("remembered", self.agent)  # what is remembered is looked up for it

    async def join(self) -> None:
        """Have ann claim her channel with a code, and say yes to it as the operator."""
        clock = SystemClock()
        claims = ClaimService(self.store, RedisClaims(self.store, clock), clock, ANN.platform)
        _, code = await claims.invite(route="default")
        Wall(self.folder).invitation.write_text(code, encoding="utf-8")
        await self.submit("join")
        await self.until("claimed")
        ((invitation, claim),) = await claims.list_waiting()
        await claims.approve(invitation, claim, await claims.preview(invitation, claim), by="test")

    async def declare(self, request_id: str) -> None:
        """Declare a tool otherwise than when something was remembered of a request."""
        rule = Rule(name="$.x", kind=RuleKind.ANY)
        match = Match(
            shape=Shape.PATTERN, tool="unheard", rules=(rule,), answer=Answer.TEXT, fingerprint="x"
        )
        grant = Grant(
            id=new_id(),
            effect=Effect.ALLOW,
            agent=self.agent,
            match=match,
            made_by="ann",
            made_at=SystemClock().now_ms(),
            from_request=request_id,
        )
        assert await RedisGrants(self.store).add(grant) == "ok"
        tools = (ToolRow(name="unheard"),)
        await self.store.apply(replace(await self.store.policy(), tools=tools), by="test")
        await self.until("grant_outdated")

    async def _send(self, agent: str, verb: str, process: str, body: JsonObject) -> None:
        entry = {"v": "1", "verb": verb, "process": process, "nonce": new_id()}
        entry["body"] = json.dumps(body)
        await self.store.redis.xadd(self.store.keys.ingress(agent), entry)

    # ---------------------------------------------------------------- the approver

    async def approve(self) -> None:
        """Answer what comes, as `DECISIONS` says, until cancelled."""
        cursor = "0-0"
        while True:
            cursor, _ = await self._events(cursor)
            for item in await self.pending():
                if decision := DECISIONS.get(item["request"]["tool"]):
                    await self.decide(item, decision)

    async def deny_the_rest(self) -> None:
        """Deny whatever is left."""
        while left := await self.pending():
            for item in left:
                await self.decide(item, {"action": "deny"})

    async def pending(self) -> list[Any]:
        """Return what waits, as an approver sees it."""
        page = await self._call("GET", "/v1/requests?status=pending")
        items: list[Any] = page["items"]
        return items

    async def decide(self, item: Any, decision: JsonObject) -> None:
        """Decide as ann, by one and the same click however often it is sent."""
        request_id = item["request"]["id"]
        body = {"revision": item["revision"], "nonce": request_id, **decision}
        try:
            await self._call("POST", f"/v1/requests/{request_id}/decide", body)
        except GatewayError as error:
            # Someone was faster, or it has changed: it is looked at again.
            assert error.code == "conflict", error

    async def _call(self, method: str, path: str, body: Any = None) -> Any:
        async def call() -> Any:
            with HttpPool(self.url, self._token) as http:
                return await asyncio.to_thread(http.call, method, path, body)

        return await roles.persisted(call)

    # ---------------------------------------------------------------- what is left to read

    async def until(self, kind: str, request_id: str | None = None) -> None:
        """Wait for an event, of one request or of any."""
        cursor = "0-0"
        while True:
            cursor, events = await self._events(cursor)
            if any(one.type == kind and request_id in (None, one.request_id) for one in events):
                return

    async def _events(self, cursor: str) -> tuple[str, list[AuditEvent]]:
        """Wait a second at most for events after a cursor; return the new cursor, and them."""
        try:
            found = await self.store.history(cursor, 1000)
            if not found:
                await self._blocking.xread({self.store.keys.events: cursor}, block=1000)
                found = await self.store.history(cursor, 1000)
        except (RedisError, OSError):
            await moment()  # it may be down for the test's own reasons
            found = []
        return found[-1].id if found else cursor, found

    async def until_shown(self) -> None:
        """Wait until every copy of every card is as it should be."""
        for queue in QUEUES:
            while await self.store.redis.zcard(self.store.keys.dirty(queue)):
                await moment()

    async def export(self) -> list[str]:
        """Return the lines of `gateway audit export`."""
        path = self.folder / "audit.jsonl"
        async with child(roles.export, self.env, path) as exporting:
            assert await exporting.ended() == 0
        return path.read_text(encoding="utf-8").splitlines()

    def logs(self) -> Sequence[list[str]]:
        """Return the lines that each agent process wrote."""
        paths = sorted(self.folder.glob("*.log"))
        return [path.read_text(encoding="utf-8").splitlines() for path in paths]

    def cards(self) -> list[JsonObject]:
        """Return what was posted on the wall, and every change of it."""
        return Wall(self.folder).lines()
