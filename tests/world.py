"""A gateway without HTTP for the tests, and the few things that they do to it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.api.agent_verbs import Intake
from gateway.approvals.agent_service import Approvals
from gateway.approvals.deadlines import Sweeper
from gateway.approvals.services import Core
from gateway.domain.policy_document import PolicyDocument, Route, ToolRow
from gateway.domain.records import AuditEvent, Click, Identity, Person, StoredRequest
from gateway.domain.store import MessageContext
from gateway.domain.time_and_tasks import Clock, SystemClock
from gateway.models import Action, ApprovalRequest, digest_of, new_id
from gateway.policy.chain import ModeDecider
from gateway.policy.verdict import Decider
from gateway.server.connections import core_over
from gateway.stores.connect import connect, line_to
from gateway.stores.credentials import RedisCredentials
from gateway.stores.event_feed import RedisFeed
from gateway.stores.ingress import Ingress
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import At, ignore_step
from gateway.wire.codec import JsonObject
from gateway.wire.signatures import Signer

AGENT = "bot"
PROCESS = "p" * 16
SEED = base64.b64encode(b"s" * 32).decode()
ALL_ACTIONS = (Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT)
PEOPLE = tuple(Person(name=name, identities=(f"token:{name}",)) for name in ("ann", "bob", "eve"))


def request(**changes: Any) -> ApprovalRequest:
    """Return a request of agent `bot` with its right digest."""
    values: JsonObject = {
        "id": new_id(),
        "agent": AGENT,
        "tool": "shell",
        "arguments": {"command": "ls"},
        "digest": "0" * 64,
        "allowed": ALL_ACTIONS,
    }
    draft = ApprovalRequest(**{**values, **changes})
    return replace(draft, digest=digest_of(draft)) if "digest" not in changes else draft


def click(record: StoredRequest, action: Action = Action.APPROVE, **changes: Any) -> Click:
    """Return a click of ann on the record as it stands."""
    values: JsonObject = {
        "request_id": record.id,
        "revision": record.revision,
        "identity": identity("ann"),
        "action": action,
        "nonce": new_id(),
    }
    return Click(**{**values, **changes})


def identity(name: str) -> Identity:
    """Return the identity that a person's token gives."""
    return Identity(platform="token", id=name)


def over_http(process: str | None = PROCESS, agent: str = AGENT) -> MessageContext:
    """Return the origin of a message that came over HTTP."""
    return MessageContext(agent=agent, process=process)


@dataclass
class World:
    """The parts of one gateway process on a namespace of its own."""

    store: RedisStore
    feed: RedisFeed
    core: Core
    intake: Intake
    blocking: Any
    signer: Signer
    credentials: RedisCredentials
    cursors: dict[str, str] = field(default_factory=dict)

    @property
    def approvals(self) -> Approvals:
        """What agents do."""
        return self.core.approvals

    @property
    def clock(self) -> SystemClock:
        """The clock of this gateway."""
        return SystemClock()

    @property
    def sweeper(self) -> Sweeper:
        """A sweeper that is driven by hand."""
        return Sweeper(self.core, self.store, session_idle_hours=1)

    def ingress(self, handle: Any = None) -> Ingress:
        """Return a reader of the agents' streams."""
        store = self.store
        return Ingress(
            store.redis,
            self.blocking,
            store.keys,
            handle or self.intake.handle,
            self.intake.dead_letter,
        )

    async def submit(self, **changes: Any) -> StoredRequest:
        """Submit a request over HTTP, waiting as process PROCESS."""
        record, _ = await self.approvals.submit(request(**changes), over_http())
        return record

    async def put(self, **members: Any) -> None:
        """Put these members of the policy in force, and leave the others as they are."""
        await self.store.apply(replace(await self.store.policy(), **members), by="test")
        self.core.writer.forget_policy()

    async def route(self, *routes: Route, harmless: str = "") -> None:
        """Put these routes in force, as `policy` does."""
        await policy(self.store, *routes, harmless=harmless)
        self.core.writer.forget_policy()

    async def send(
        self,
        verb: str,
        body: JsonObject | str,
        *,
        process: str = PROCESS,
        agent: str = AGENT,
        entry: str = "*",
        **more: str,
    ) -> str:
        """Write an ingress entry as an agent does; return its nonce."""
        nonce = new_id()
        text = body if isinstance(body, str) else json.dumps(body)
        fields = {"v": "1", "verb": verb, "process": process, "nonce": nonce, "body": text, **more}
        await self.store.redis.xadd(self.store.keys.ingress(agent), fields, id=entry)
        return nonce

    async def reply(self, *, process: str = PROCESS, agent: str = AGENT) -> JsonObject:
        """Return the next reply to a process: its fields, with state and error as values."""
        key = self.store.keys.replies(agent, process)
        found = await self.blocking.xread({key: self.cursors.get(key, "0")}, count=1, block=40_000)
        assert found, "no reply came"
        entry, fields = found[0][1][0]
        self.cursors[key] = entry
        return {
            name: json.loads(value) if name in ("state", "error") else value
            for name, value in fields.items()
        }

    async def handled(self, agent: str = AGENT) -> None:
        """Handle everything in an agent's ingress stream once, without a reader."""
        rows = await self.store.redis.xrange(self.store.keys.ingress(agent))
        for entry, fields in rows:
            await self.intake.handle(agent, entry, fields)

    async def events(self, request_id: str | None = None) -> list[AuditEvent]:
        """Return all events, or those of one request."""
        found = await self.store.history(None, 10_000)
        return [event for event in found if request_id in (None, event.request_id)]

    async def until(self, holds: Callable[[list[AuditEvent]], bool]) -> list[AuditEvent]:
        """Return the events once they hold what a test waits for."""
        async with asyncio.timeout(40), self.core.feed.changes() as changes:
            while not holds(events := await self.events()):
                await anext(changes)
        return events


@asynccontextmanager
async def assembled(
    url: str,
    namespace: str,
    deciders: tuple[Decider, ...] = (),
    *,
    at: At = ignore_step,
    denial_minutes: int = 0,
    clock: Clock | None = None,
) -> AsyncIterator[World]:
    """Assemble a gateway as gateway.app does, without HTTP; ann and bob may approve.

    A denial answers the same call again only for `denial_minutes`, which are 5 in the product.
    """
    redis, blocking = connect(url), connect(url, blocking=True)
    async with line_to(url) as line:
        store = RedisStore(redis, Keys(namespace), at=at, line=line)
        feed = RedisFeed(blocking, store.keys)
        signer = Signer(SEED)
        judges = [*deciders, ModeDecider()]
        time = clock or SystemClock()
        core = core_over(store, feed, judges, time, signer, denial_minutes=denial_minutes)
        credentials = RedisCredentials(store, SystemClock())
        await store.check_schema()
        if not (await store.policy()).routes:
            await policy(store, Route(approvers=("ann", "bob")))
            await credentials.add_agent(AGENT)
        async with feed.running():
            intake = Intake(core, store, credentials)
            yield World(store, feed, core, intake, blocking, signer, credentials)
    await redis.aclose()
    await blocking.aclose()


async def policy(store: RedisStore, *routes: Route, harmless: str = "") -> None:
    """Put these routes in force, with ann, bob and eve as people; `harmless` is one tool."""
    current = await store.policy()
    tools = (ToolRow(name=harmless, harmless=True),) if harmless else ()
    document = PolicyDocument(
        generation=current.generation, people=PEOPLE, routes=routes, tools=tools
    )
    await store.apply(document, by="test")
