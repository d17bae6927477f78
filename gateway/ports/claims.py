"""How a chat is connected: its set-up in a terminal, and the claims of people in it.

An invitation is a code in the operator's terminal. Who types it in a chat claims a channel, or an
account, for the policy. Nothing changes until the operator says yes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.domain.records import Identity
from gateway.wire.codec import Wire


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation(Wire):
    """A code that waits for somebody to type it in a chat: `id` is its hash, `platform` the chat.

    One for a channel names the `route` that it joins. One for an account names the `person` that it
    joins. Times are in ms since the epoch.
    """

    id: str
    platform: str
    made: int
    ends: int
    route: str = ""
    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatClaim(Wire):
    """What somebody claimed with an invitation, and waits for the operator.

    `identity` is written `platform:id`. `target` and `place` are empty for an account. Both sides
    see `number`, so that the operator says yes to the right one.
    """

    identity: str
    handle: str
    words: str
    number: str
    at: int
    target: str = ""
    place: str = ""


class ClaimStore(Protocol):
    """Keeps invitations and claims for all replicas. Both go by themselves in time."""

    async def invite(self, invitation: Invitation) -> None:
        """Keep an invitation until it ends."""

    async def find(self, invitation_id: str) -> tuple[Invitation, ChatClaim | None] | None:
        """Return an invitation that has not ended, and what was claimed with it."""

    async def claim(self, invitation: Invitation, claim: ChatClaim, facts: dict[str, str]) -> bool:
        """Keep the claim of an invitation, for a day, and note it with these facts; return False
        where it has one already."""

    async def list_all(self) -> list[tuple[Invitation, ChatClaim | None]]:
        """Return what has not ended, the oldest first."""

    async def remove(self, invitation_id: str) -> bool:
        """Forget an invitation and its claim; return whether this call did."""

    async def count_wrong(self, platform: str) -> int:
        """Count a wrong code; return how many there were lately in this chat."""

    async def end_all(self, platform: str) -> None:
        """End the invitations of a chat that nobody has used."""

    async def list_departed(self) -> set[str]:
        """Return the names of people who left the policy: what they did bears them still."""

    async def is_file_in_force(self) -> bool:
        """Whether the policy comes from the file of the settings, and from nowhere else."""


class ClaimCalls(Protocol):
    """Who and what joins the policy from a chat."""

    async def claim(self, code: str, by: Claimant, place: ClaimedPlace | None = None) -> str:
        """Claim a channel with a code of a set-up, or without `place` an account with a code of
        `gateway approver link`. Return a number of two digits, which the operator sees too.

        Raises Unauthorized for a code that is wrong, over, used, or for the other thing. After five
        wrong ones the codes of this chat end.
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

    def keep(self, variable: str, value: str) -> None:
        """Keep a setting that was checked, for a set-up that is broken off and run again."""

    async def ask_secret(self, question: str, variable: str) -> str:
        """Return what somebody types, unseen, or what the setting `variable` says already. Raises
        InvalidRequest where nobody can type, and no other value comes."""


class ChatSetup:
    """How one chat is connected by `gateway NAME setup`; each chat extends it.

    `variables` are the settings that it finds out. `invite` is what people type in a channel first,
    "" where nothing is. `command` is what they type then, before `here` or `me`; and `option` comes
    right before the code, "" for nothing.
    """

    variables: tuple[str, ...] = ()
    invite: str = ""
    command: str = ""
    option: str = ""

    async def connect(self, terminal: SetupTerminal, known: Mapping[str, str]) -> dict[str, str]:
        """Have an app made and installed, and return the settings to keep, each checked.

        `known` are settings that an earlier, perhaps broken off, set-up kept: those that still work
        are not asked for again. Says one line for each step, and one for each way that a token is
        wrong before it asks again.
        """
        raise NotImplementedError
