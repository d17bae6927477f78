"""The doors of the core: what it needs from the outside, and what adapters may ask of it.

All are structural protocols: an adapter, a decider or a store needs no base class.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from gateway.domain.records import (
    Click,
    Event,
    Identity,
    MessageRef,
    Page,
    Paused,
    Person,
    Query,
    Record,
    Session,
)
from gateway.domain.statistics import Report
from gateway.policy.decider import Decider, Verdict
from gateway.policy.grants.grant import Grant
from gateway.ports.checks import Finding
from gateway.ports.grant_cards import GrantCard
from gateway.ports.outgoing import Notes

__all__ = [
    "Adapter",
    "Credential",
    "Credentials",
    "Decider",
    "Desk",
    "Feed",
    "HasChecks",
    "HasCommands",
    "HasProblems",
    "HasRoutes",
    "HasStreams",
    "Logins",
    "Verdict",
    "Watch",
]


class Watch(Protocol):
    """Tells when something happened to what is watched."""

    async def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; return whether an event came since the last call."""


class Feed(Protocol):
    """The event stream as it grows, from all replicas."""

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Subscribe to events from now on; entering has registered, so read state after it."""

    def watch(self, request_id: str | None) -> AbstractAsyncContextManager[Watch]:
        """Watch one request, or with None whatever happens; entering has registered."""


class Desk(Protocol):
    """What an adapter may ask of the core. Whoever clicks is checked here, at that moment."""

    async def decide(self, click: Click) -> Record:
        """Apply a click; return the request as it then stands.

        Raises NotFound, Unauthorized (no approver, or the requester), Conflict (ended, or an older
        revision was seen), InvalidRequest (action not allowed, bad arguments).
        """

    async def decide_all(self, clicks: Sequence[Click]) -> list[Record]:
        """Apply the clicks of one person, all of them or none: one answer to requests of one agent.

        Raises BatchRefused, which says for each request why not, and InvalidRequest.
        """

    async def get(self, request_id: str) -> Record:
        """Return a request; raises NotFound."""

    async def seen(self, request_id: str, revision: int) -> Record:
        """Return a request that a card shows at this revision; raises NotFound.

        It may have changed since: `decide` has the last word, and refuses what the card is too old
        for.
        """

    async def page(self, query: Query) -> Page:
        """Return one page of requests, newest first."""

    async def sessions(self, agent: str | None) -> list[Session]:
        """Return the sessions that have not ended."""

    async def claim(self, request_id: str, identity: Identity, *, on: bool = True) -> Record:
        """Say that this person is looking at a request, or is not any more.

        Raises as `decide` does.
        """

    async def reveal(self, request_id: str, identity: Identity) -> Record:
        """Return a request whose masked secrets this person is about to see; that is audited.

        Raises NotFound, and Unauthorized unless they may decide it, or are an admin.
        """

    async def refuse(self, request_id: str, identity: Identity, why: str) -> None:
        """Write down that somebody was turned away before a click was made of what they did."""

    async def end_session(self, agent: str, session: str, identity: Identity) -> list[str]:
        """End an agent's session, cancel what waits in it, return the ids. Raises Unauthorized
        unless the person is an admin, or an approver of the agent."""

    async def paused(self) -> list[Paused]:
        """Return the agents that ask nobody for now, as people denied too much of them in a row."""

    async def lift(self, agent: str, identity: Identity) -> bool:
        """Let an agent ask again; return whether it was paused. Raises Unauthorized unless the
        person is an admin, or an approver of the agent."""

    async def stopped(self) -> bool:
        """Tell whether the kill switch is on."""

    async def stop_all(self, identity: Identity, *, on: bool) -> None:
        """Deny everything from now on, or lift that again. Raises Unauthorized unless they are an
        admin; that somebody else tried is audited."""

    async def grants(self, *, ended: bool = False) -> list[Grant]:
        """Return the newest remembered decisions with their uses, 500 at most; with `ended` the
        last 50 that ended."""

    async def revocable(self, identity: Identity) -> list[Grant]:
        """Return those of the newest remembered decisions that this person may take back."""

    async def grant_card(self, grant_id: str) -> GrantCard:
        """Return the card of a remembered decision, also of one that ended. Raises NotFound."""

    async def revoke(
        self, grant_id: str, identity: Identity, *, copy: str = "", ref: MessageRef | None = None
    ) -> Grant:
        """Take a remembered decision back: from then on it decides nothing.

        `copy` and `ref` say on which posted card it was pressed. Raises NotFound, Conflict, which
        says how it ended before, and Unauthorized unless they are an admin, made it, or may approve
        there.
        """

    async def revoke_all(
        self, identity: Identity, *, agent: str | None = None, session: str | None = None
    ) -> list[Grant]:
        """Take back all that this person may, or an agent's, or a session's; return those."""

    async def let_through(
        self, agent: str, session: str, identity: Identity, *, edits: bool, hours: float
    ) -> Grant:
        """Let a session's file changes, or all that it does, through for 8 hours at most.

        Raises Unauthorized unless they are an admin, or approve all of the agent's requests.
        """

    async def reach(self, request_id: str, offer: str) -> str:
        """Say how many recent requests an offer would have covered, and what people said to
        those. Raises NotFound, InvalidRequest."""

    async def report(self, identity: Identity) -> Report:
        """Return how people decided in the last 30 days. Raises Unauthorized for all but admins."""

    async def person(self, identity: Identity) -> Person | None:
        """Return the person whom an identity belongs to."""

    async def may_decide(self, identity: Identity, record: Record) -> str | None:
        """Return None when this identity may decide the request, else the reason as a sentence."""

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Subscribe to events from now on; entering has registered, so read state after it."""

    @property
    def notes(self) -> Notes:
        """What the adapter keeps for itself, shared by all its replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """Who a credential belongs to. `kind` is agent or approver; `owner` is an agent's person.

    `since` is when the agent was given its name, in ms since the epoch by the server's clock: what
    another holder of the name asked before is not its own.
    """

    kind: str
    name: str
    key_id: str
    owner: str | None = None
    since: int = 0


class Credentials(Protocol):
    """Checks bearer tokens. Tokens are stored hashed and compared in constant time."""

    async def authenticate(self, token: str) -> Credential | None:
        """Return whom the token belongs to; None for anything unknown, malformed or revoked."""

    async def holder(self, agent: str) -> Credential:
        """Return the credential of an agent; raises Unauthorized when it has none."""


class Logins(Protocol):
    """Browser logins: a one-time code becomes a session, a session names an identity."""

    async def redeem(self, code: str) -> str:
        """Use up a one-time login code; return a session token. Raises Unauthorized."""

    async def who(self, session: str) -> Identity | None:
        """Return whom the session belongs to; None when it ended."""

    async def end(self, session: str) -> None:
        """End the session."""


class Adapter(Protocol):
    """A place where people answer. Built by its entry point with no arguments."""

    @property
    def name(self) -> str:
        """The adapter's name, as in settings and message references."""

    def run(self, desk: Desk) -> AbstractAsyncContextManager[None]:
        """Serve until left. Entering means connected and healthy."""


@runtime_checkable
class HasRoutes(Protocol):
    """An adapter that serves web pages beside the HTTP API."""

    def routes(self, desk: Desk, logins: Logins, *, secure: bool) -> Sequence[Any]:
        """Return aiohttp route definitions. `secure` tells whether browsers reach us over TLS."""


@runtime_checkable
class HasStreams(Protocol):
    """An adapter whose pages keep answers open, which the web server would wait for."""

    def end_streams(self) -> None:
        """End them: the web server stops."""


@runtime_checkable
class HasCommands(Protocol):
    """An adapter with commands of its own, called as `gateway COMMAND NAME`."""

    def commands(self, verbs: Any) -> None:
        """Add a parser for each command to `verbs`, which argparse's `add_subparsers` returned.

        Each sets the default `run`, an async function of the parsed options that returns the exit
        code. The adapter is not running, and perhaps not configured.
        """


@runtime_checkable
class HasProblems(Protocol):
    """An adapter that knows when people cannot answer through it."""

    def problems(self) -> Sequence[str]:
        """Return what is wrong, in sentences; while there is any, the gateway is not ready."""


@runtime_checkable
class HasChecks(Protocol):
    """An adapter that can be examined by `gateway doctor`. It is not running then."""

    async def checks(
        self, targets: Sequence[str], notes: Notes, *, live: bool
    ) -> Sequence[tuple[str, Finding]]:
        """Return what is found, by name. `targets` are those of the routes in force that are this
        adapter's, `notes` are what it keeps. With `live` it may post, and takes away what it
        posted."""
