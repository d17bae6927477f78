"""How a chat is connected: its set-up in a terminal, and the claims of people in it.

Somebody shows a code from the operator's terminal in a chat. That claims a channel, or an account,
for the policy. Nothing changes until the operator says yes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.domain.records import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedPlace:
    """A channel that requests may come to.

    `target` is what a route names, `adapter:place`. `words` describe the channel for the operator,
    such as `#ops of Acme (34 members, not shared)`.
    """

    target: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A person whom a chat has verified: a full member, no bot, no guest, nobody from elsewhere.

    `handle` is the short name that the chat gives them. `words` describe them for the operator,
    such as `Ana Perez (@ana, full member, U024BE7LH)`.
    """

    identity: Identity
    handle: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutePlaces:
    """A route, and the targets that its requests go to."""

    name: str
    targets: tuple[str, ...]


class ClaimCalls(Protocol):
    """Who and what joins the policy from a chat."""

    async def claim(self, code: str, by: Claimant, place: ClaimedPlace | None = None) -> str:
        """Claim a channel with a code of a set-up, or without `place` an account with a code of
        `gateway approver link`. Return a number of two digits, which the operator sees too.

        Raises Unauthorized for a code that is wrong, over, used, or for the other thing; and
        InvalidRequest where a policy file is in force, with the lines to add to it.
        """

    async def list_routes(self, identity: Identity) -> tuple[RoutePlaces, ...]:
        """Return the routes for an admin who wants requests in a channel. Raises Unauthorized for
        others, InvalidRequest where a policy file is in force."""

    async def add_place(self, identity: Identity, route: str, place: ClaimedPlace) -> str:
        """Send the requests of a route to a channel too, for an admin; return a sentence that says
        so. Raises as `list_routes` does, and NotFound for no such route."""

    async def list_admins(self) -> tuple[str, ...]:
        """Return the names of the admins."""


class SetupTerminal(Protocol):
    """The terminal of whoever connects a chat."""

    def say(self, line: str) -> None:
        """Print a line."""

    def open(self, url: str) -> None:
        """Print a link, and open it in the browser where there is one."""

    async def ask_secret(self, question: str, variable: str) -> str:
        """Return what somebody types, unseen, or what the setting `variable` says already. Raises
        InvalidRequest where nobody can type."""


class ChatSetup(Protocol):
    """How one chat is connected by `gateway NAME setup`.

    `variables` are the settings that it finds out. `invite` is what people type in a channel first,
    "" where nothing is. `command` is what they type then, before the code.
    """

    variables: tuple[str, ...]
    invite: str
    command: str

    async def connect(self, terminal: SetupTerminal, known: Mapping[str, str]) -> dict[str, str]:
        """Have an app made and installed, and return the settings to keep, each checked.

        `known` are settings that an earlier, perhaps broken off, set-up kept: those that still work
        are not asked for again. Says one line for each step, and one for each way that a token is
        wrong before it asks again.
        """
