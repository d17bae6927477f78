"""Real replicas for the tests of the API: real server, real store, real HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import redis.asyncio
from aiohttp import ClientResponse, ClientSession, TCPConnector, web
from redis.exceptions import RedisError

from gateway.api.api_call import Enrolment, Limits
from gateway.api.app import SERVICES, PublicAddress, build_api, runner
from gateway.approval_protocol.webhooks import ProtocolReceivers
from gateway.approvals.agent_service import Approvals
from gateway.approvals.services import Core
from gateway.domain.health_and_metrics import Readiness
from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import Person, Query, StoredRequest
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import Unauthorized
from gateway.integrations.coding_agents.claude_code import HTTP_HOOKS
from gateway.models import ApprovalRequest, digest_of, new_id
from gateway.policy.chain import ModeDecider
from gateway.ports import Credential
from gateway.server.app import protocol_of
from gateway.server.connections import core_over
from gateway.stores.credentials import RedisCredentials
from gateway.stores.event_feed import RedisFeed
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore, measure_store
from gateway.wire.codec import JsonObject, build, plain
from gateway.wire.signatures import Signer
from tests.waiting import moment

SEED = "A" * 43 + "="
AGENT_TOKEN = "agw_agent1_secretsecretsecret"
OTHER_TOKEN = "agw_agent2_secretsecretsecret"
ANN_TOKEN = "agw_ann_secretsecretsecret"
EVE_TOKEN = "agw_eve_secretsecretsecret"
ENROL_SECRET = "enrol-secret"
AGENT = "agent1"
PROCESS = "process0001"

POLICY = PolicyDocument(
    people=(
        Person(name="ann", identities=("token:ann",)),
        Person(name="eve", identities=("token:eve",)),
    ),
    routes=(Route(approvers=("ann",)),),
)


@dataclass
class TokenList:
    """Credentials in memory; taking one out revokes it."""

    known: dict[str, Credential] = field(
        default_factory=lambda: {
            AGENT_TOKEN: Credential(kind="agent", name="agent1", key_id="agent1", owner="bob"),
            OTHER_TOKEN: Credential(kind="agent", name="agent2", key_id="agent2"),
            ANN_TOKEN: Credential(kind="approver", name="ann", key_id="ann"),
            EVE_TOKEN: Credential(kind="approver", name="eve", key_id="eve"),
        }
    )
    asked: int = 0

    async def authenticate(self, token: str) -> Credential | None:
        """Return whom a token belongs to, and count the question."""
        self.asked += 1
        return self.known.get(token)

    async def holder(self, agent: str) -> Credential:
        """Return an agent's credential; raises Unauthorized."""
        for one in self.known.values():
            if (one.kind, one.name) == ("agent", agent):
                return one
        raise Unauthorized(f"the agent {agent} has no credential")


@dataclass
class Answer:
    """A finished answer: status, headers and JSON (or text) body."""

    status: int
    headers: Any
    text: str

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)

    @property
    def problem(self) -> tuple[int, str]:
        """Status and code of a problem document, which it must be."""
        assert self.headers["Content-Type"].startswith("application/problem+json"), self.text
        body = self.json
        assert set(body) == {"type", "title", "status", "code", "detail"}
        assert body["status"] == self.status
        return self.status, body["code"]


@dataclass
class Replica:
    """One gateway process as far as the API goes, and a client for it."""

    url: str
    store: RedisStore
    core: Core
    credentials: TokenList
    http: ClientSession
    app: web.Application
    served: web.AppRunner
    problems: list[str]

    @property
    def approvals(self) -> Approvals:
        """What agents do."""
        return self.core.approvals

    @property
    def hanging(self) -> int:
        """How many calls wait on this replica."""
        return len(self.app[SERVICES].open_calls)

    async def put(self, **members: Any) -> None:
        """Put these members of the policy in force, and leave the others as they are."""
        await self.store.apply(replace(await self.store.policy(), **members), by="test")
        self.core.writer.forget_policy()

    async def waiting(self, count: int = 1) -> tuple[StoredRequest, ...]:
        """Return the requests that wait, once there are so many."""
        return await self._listed(Query(), count)

    async def ended(self, count: int = 1) -> tuple[StoredRequest, ...]:
        """Return the requests that ended, once there are so many."""
        return await self._listed(Query(final=True), count)

    async def _listed(self, query: Query, count: int) -> tuple[StoredRequest, ...]:
        while len(items := (await self.core.requests.page(query)).items) < count:
            await moment()
        return items

    async def lapse(self, process: str) -> None:
        """Let the waiter lease of a process of agent1 run out."""
        await self.store.redis.zadd(self.store.keys.processes, {f"agent1 {process}": 0})
        await self.store.expire_process("agent1", process)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = AGENT_TOKEN,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Call the API; `raw` is sent as it is, `body` as JSON."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        async with self.opened(method, path, data, token=token, headers=headers) as answer:
            return Answer(answer.status, answer.headers, await answer.text())

    @asynccontextmanager
    async def opened(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        *,
        token: str | None = AGENT_TOKEN,
        headers: dict[str, str] | None = None,
    ) -> AsyncIterator[ClientResponse]:
        """Open a call whose body is read by the test."""
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        if data is not None:
            sent["Content-Type"] = "application/json"
        async with self.http.request(
            method, self.url + path, data=data, headers={**sent, **(headers or {})}
        ) as answer:
            yield answer

    async def submitted(self, request: ApprovalRequest | None = None, **more: Any) -> Answer:
        """Submit a request through the API."""
        request = request or made()
        body = {"request": plain(request), "process": PROCESS, **more}
        return await self.call("POST", "/v1/requests", body)

    async def decided(self, request_id: str, action: str = "approve", **more: Any) -> Answer:
        """Decide a request through the API as Ann."""
        body = {"revision": 1, "action": action, **more}
        return await self.call("POST", f"/v1/requests/{request_id}/decide", body, token=ANN_TOKEN)


def made(agent: str = "agent1", **more: Any) -> ApprovalRequest:
    """Return a request with the right digest."""
    values: JsonObject = {
        "id": new_id(),
        "agent": agent,
        "tool": "shell",
        "arguments": {"command": "ls"},
        **more,
    }
    unsigned = build(ApprovalRequest, {**values, "digest": ""})
    return replace(unsigned, digest=digest_of(unsigned))


async def until(condition: Callable[[], Any]) -> None:
    """Let the loop turn until the condition holds; the test's own timeout bounds it."""
    while not condition():
        await moment()


async def enroll_anyone(agent: str) -> JsonObject:
    """Enrol without a registry: the token names the agent."""
    return {
        "agent": agent,
        "token": f"agw_{agent}_x",
        "redis_url": None,
        "public_key": Signer(SEED).public_key,
        "namespace": "gw",
    }


@asynccontextmanager
async def replica(
    url: str,
    namespace: str,
    *,
    enrolment: bool = False,
    limits: Limits | None = None,
    pages: Sequence[web.AbstractRouteDef] = (),
    secure: bool = False,
    registered: bool = False,
    receivers: ProtocolReceivers | None = None,
) -> AsyncIterator[Replica]:
    """Run one replica on the namespace of a server, with the list of tokens, or the registry."""
    keys, problems, credentials = Keys(namespace), list[str](), TokenList()

    async def ready() -> Readiness:
        await store.redis.ping()
        return Readiness(down=tuple(problems))

    async with AsyncExitStack() as stack:
        # A pool that waits: the ordinary one fails the 101st command at a time.
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url, decode_responses=True, max_connections=32, timeout=5
        )
        client = redis.asyncio.Redis.from_pool(pool)
        blocking = redis.asyncio.Redis.from_url(url, decode_responses=True, socket_timeout=None)
        await stack.enter_async_context(client)
        await stack.enter_async_context(blocking)
        store = RedisStore(client, keys)
        await store.check_schema()
        feed = RedisFeed(blocking, keys)
        await stack.enter_async_context(feed.running())
        core = core_over(store, feed, [ModeDecider()], SystemClock(), Signer(SEED))
        registry = RedisCredentials(store, SystemClock())
        called = receivers or ProtocolReceivers(SystemClock(), hosts=(), production=False)
        app = build_api(
            core=core,
            reads=store,
            credentials=registry if registered else credentials,
            ready=ready,
            store_errors=(RedisError, OSError),
            site=PublicAddress(
                hosts=frozenset({"gateway.example"}),
                secure=secure,
                pages=tuple(pages),
                protocol=protocol_of(core, store, registry, Signer(SEED), called),
                host_hooks=HTTP_HOOKS,
                measure=partial(measure_store, store),
            ),
            enrolment=Enrolment(secret=ENROL_SECRET, enroll=enroll_anyone) if enrolment else None,
            limits=limits,
        )
        served = runner(app)
        await served.setup()
        stack.push_async_callback(served.cleanup)
        await web.TCPSite(served, "127.0.0.1", 0).start()
        port = served.addresses[0][1]
        http = await stack.enter_async_context(ClientSession(connector=TCPConnector(limit=0)))
        yield Replica(
            f"http://127.0.0.1:{port}", store, core, credentials, http, app, served, problems
        )
