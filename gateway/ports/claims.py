"""Connect a chat: its setup in a terminal, and claims by people in it. Start reading at
`ChatSetup`.

The operator's terminal shows an invitation code. A person who types it in a chat claims a channel
or an account for the policy. The operator must confirm the claim before anything changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.domain.records import Identity
from gateway.wire.codec import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedPlace:
    """A channel that can receive requests.

    `target` is the name used in routes, `adapter:place`. `words` describes the channel to the
    operator, such as `#ops of Acme (34 members, not shared)`.
    """

    target: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A person whom the chat verified as a full member: not a bot, a guest or an external user.

    `handle` is their short name in the chat. `words` describes them to the operator, such as `Ana
    Perez (@ana, full member, U024BE7LH)`.
    """

    identity: Identity
    handle: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutePlaces:
    """A route and the targets of its requests."""

    name: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation(Wire):
    """An unused invitation code. `id` is the hash of the code, and `platform` the chat where a
    person must type it.

    An invitation for a channel names the `route` to extend; an invitation for an account names the
    `person`. Times are in ms since the epoch.
    """

    id: str
    platform: str
    made: int
    ends: int
    route: str = ""
    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatClaim(Wire):
    """A claim made with an invitation, pending until the operator confirms it.

    `identity` has the form `platform:id`. `target` and `place` are empty for an account. Both the
    person and the operator see `number`, so that the operator confirms the right claim.
    """

    identity: str
    handle: str
    words: str
    number: str
    at: int
    target: str = ""
    place: str = ""


class ClaimStore(Protocol):
    """Stores invitations and claims for all replicas. Both expire automatically."""

    async def invite(self, invitation: Invitation) -> None:
        """Save an invitation until it expires."""

    async def find(self, invitation_id: str) -> tuple[Invitation, ChatClaim | None] | None:
        """Return an unexpired invitation and its claim, or None."""

    async def claim(self, invitation: Invitation, claim: ChatClaim, facts: dict[str, str]) -> bool:
        """Save a claim for a day, and record it in the audit log with these facts. Return False if
        the invitation already has a claim."""

    async def list_all(self) -> list[tuple[Invitation, ChatClaim | None]]:
        """Return all unexpired invitations with their claims, oldest first."""

    async def remove(self, invitation_id: str) -> bool:
        """Delete an invitation and its claim. Return whether this call deleted it."""

    async def count_wrong(self, platform: str) -> int:
        """Count a wrong code. Return the number of recent wrong codes in this chat."""

    async def end_all(self, platform: str) -> None:
        """End the unused invitations of a chat."""

    async def list_departed(self) -> set[str]:
        """Return the names of people removed from the policy. Their past actions keep these
        names."""

    async def is_file_in_force(self) -> bool:
        """Return whether the policy comes only from the file named in the settings."""


class ClaimCalls(Protocol):
    """Add channels and accounts from a chat to the policy."""

    async def claim(self, code: str, by: Claimant, place: ClaimedPlace | None = None) -> str:
        """Claim a channel with a setup code. Without `place`, claim an account with a code from
        `gateway approver link`. Return a two-digit number that the operator also sees.

        Raises Unauthorized if the code is wrong, expired or used, or if a channel's code is used
        for an account or the reverse. After five wrong codes, all codes of this chat are invalid.
        """

    async def list_routes(self, identity: Identity) -> tuple[RoutePlaces, ...]:
        """Return the routes, for an admin who wants requests in a channel. Raises Unauthorized for
        people who are not admins, and InvalidRequest if a policy file is active."""

    async def add_place(self, identity: Identity, route: str, place: ClaimedPlace) -> str:
        """Add a channel to a route, for an admin. Return a sentence that confirms it. Raises the
        same errors as `list_routes`, and NotFound for an unknown route."""

    async def list_admins(self) -> tuple[str, ...]:
        """Return the names of the admins."""


class SetupTerminal(Protocol):
    """The terminal of the person who connects a chat."""

    def say(self, line: str) -> None:
        """Print a line."""

    def open(self, url: str) -> None:
        """Print a link, and open it in a browser if there is one."""

    def keep(self, variable: str, value: str) -> None:
        """Save a checked setting, so that an interrupted setup can continue."""

    async def ask_secret(self, question: str, variable: str) -> str:
        """Return a secret that the person types without echo, or the value of the setting
        `variable`. Raises InvalidRequest if there is neither input nor a new value."""


class ChatSetup:
    """Base class for the setup of one chat with `gateway NAME setup`.

    `variables` lists the settings that the setup determines. The people type `invite` in a channel
    first, unless it is "". Then they type `command`, followed by `here` or `me`, by `option` unless
    it is "", and by the code.
    """

    variables: tuple[str, ...] = ()
    invite: str = ""
    command: str = ""
    option: str = ""

    async def connect(self, terminal: SetupTerminal, known: Mapping[str, str]) -> dict[str, str]:
        """Guide the operator through creating and installing the app. Return the checked settings.

        `known` are settings from an earlier or interrupted setup; do not ask for those that still
        work. Print one line for each step. If a token is wrong, say why and ask again.
        """
        raise NotImplementedError
