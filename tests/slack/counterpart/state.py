"""What the counterpart remembers: workspaces, people, channels, messages, views, files, tokens."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

ALL_SCOPES = "chat:write,commands,users:read,usergroups:read,channels:read,groups:read,files:write"


class Refused(Exception):
    """Slack's answer is `ok: false` with this error."""

    def __init__(self, error: str, *messages: str, **fields: Any) -> None:
        super().__init__(error, *messages)
        self.error, self.messages, self.fields = error, messages, fields


class Hands:
    """The counterpart's clock: real time, or one that the test moves."""

    def __init__(self, *, simulated: bool = False) -> None:
        self._simulated = simulated
        self._moved = 0.0
        self.grace = 0.0 if simulated else 40.0
        """Seconds that Slack's limits are longer here: on a loaded machine all takes longer."""

    def now(self) -> float:
        """Return seconds, never going back."""
        return self._moved if self._simulated else time.monotonic() + self._moved

    def advance(self, seconds: float) -> None:
        """Let time pass at once."""
        self._moved += seconds


@dataclass(kw_only=True)
class User:
    """One member as users.info shows them."""

    id: str
    name: str
    team: str
    real_name: str = ""
    deleted: bool = False
    is_bot: bool = False
    is_restricted: bool = False
    is_ultra_restricted: bool = False
    is_stranger: bool = False

    def shown(self) -> Json:
        """Return the user object of the Web API."""
        return {
            "id": self.id,
            "team_id": self.team,
            "name": self.name,
            "real_name": self.real_name or self.name.title(),
            "deleted": self.deleted,
            "is_bot": self.is_bot,
            "is_restricted": self.is_restricted,
            "is_ultra_restricted": self.is_ultra_restricted,
            "is_stranger": self.is_stranger,
            "is_app_user": False,
            "tz": "Europe/Vienna",
            "tz_offset": 3600,
            "profile": {"display_name": self.name, "real_name": self.name.title()},
        }


@dataclass(kw_only=True)
class Message:
    """One message as people see it now; `edits` counts what chat.update did."""

    ts: str
    user: str
    text: str
    blocks: list[Json] = field(default_factory=list)
    thread_ts: str | None = None
    metadata: Json | None = None
    files: list[str] = field(default_factory=list)
    edits: int = 0
    locked: bool = False
    arguments: Json = field(default_factory=dict)


@dataclass(kw_only=True)
class Channel:
    """A channel or a direct message and what stands in it."""

    id: str
    name: str
    members: set[str] = field(default_factory=set)
    archived: bool = False
    direct: bool = False
    group: bool = False
    across: bool = False  # other workspaces of the organisation read it
    external: bool = False
    inviting: bool = False
    messages: dict[str, Message] = field(default_factory=dict)


@dataclass(kw_only=True)
class View:
    """A modal on someone's screen, or their Home tab."""

    id: str
    user: str
    view: Json
    hash: str
    root: str
    previous: str | None = None
    state: Json = field(default_factory=dict)


@dataclass(kw_only=True)
class File:
    """An uploaded file; shared once completeUploadExternal was called."""

    id: str
    name: str
    length: int
    content: bytes | None = None
    shared: list[str] = field(default_factory=list)
    title: str = ""


@dataclass(kw_only=True)
class Workspace:
    """One team: everything keyed by Slack's ids."""

    id: str
    bot_token: str
    bot_user: str
    bot_id: str
    scopes: str = ALL_SCOPES
    org_token: bool = False
    org: str = ""
    users: dict[str, User] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    paid: bool = True
    views: dict[str, View] = field(default_factory=dict)
    homes: dict[str, View] = field(default_factory=dict)
    files: dict[str, File] = field(default_factory=dict)
    ephemerals: list[tuple[str, str, Json]] = field(default_factory=list)
    error: str | None = None  # what every call with its token gets: token_revoked, invalid_auth …

    def channel(self, channel_id: Any) -> Channel:
        """Return a channel or refuse."""
        found = self.channels.get(channel_id) if isinstance(channel_id, str) else None
        if found is None:
            raise Refused("channel_not_found")
        return found

    def user(self, user_id: Any) -> User:
        """Return a member or refuse."""
        found = self.users.get(user_id) if isinstance(user_id, str) else None
        if found is None:
            raise Refused("user_not_found")
        return found

    def direct(self, user_id: str) -> Channel:
        """Return the direct message channel of the app with a user."""
        person = self.user(user_id)
        if person.is_bot:
            raise Refused("cannot_dm_bot")
        if person.deleted:
            raise Refused("user_disabled")
        found = Channel(
            id=f"D{user_id[1:]}", name="", members={user_id, self.bot_user}, direct=True
        )
        return self.channels.setdefault(found.id, found)

    def message(self, channel_id: str, ts: str) -> Message:
        """Return a message or refuse."""
        found = self.channel(channel_id).messages.get(ts)
        if found is None:
            raise Refused("message_not_found")
        return found


@dataclass(kw_only=True)
class Trigger:
    """A trigger_id: who made it, when, and whether it was used."""

    team: str
    user: str
    at: float
    used: bool = False
    view: str | None = None


@dataclass(kw_only=True)
class ResponseUrl:
    """A response_url: where it answers, and how often it did."""

    team: str
    channel: str
    user: str
    ts: str | None
    at: float
    uses: int = 0


class State:
    """All workspaces of one app, and the bell that rings at every change."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self.url = ""  # where it serves, ending in a slash
        self.app_id = "A0GATEWAY"
        self.app_token = "xapp-1-A0GATEWAY-test"
        self.signing_secret = "8f742231b10e8888abcd99yyyzzz85a5"
        self.client_id, self.client_secret = "111.222", "client-secret"
        self.workspaces: dict[str, Workspace] = {}
        self.triggers: dict[str, Trigger] = {}
        self.response_urls: dict[str, ResponseUrl] = {}
        self.codes: dict[str, str] = {}  # OAuth code → team
        self.calls: list[tuple[str, str, Json]] = []  # (method, team, arguments)
        self.most_text = 13_200  # counted characters in the blocks of one message
        self._numbers = itertools.count(1)
        self._stamps = itertools.count(1)
        self._bell = asyncio.Event()

    def number(self) -> int:
        """Return a number that was never used."""
        return next(self._numbers)

    def stamp(self) -> str:
        """Return the `ts` of a new message."""
        return f"1790000000.{next(self._stamps):06d}"

    def ring(self) -> None:
        """Tell those who wait that something changed."""
        self._bell.set()
        self._bell = asyncio.Event()

    async def until(self, holds: Callable[[], Any], seconds: float = 40) -> Any:
        """Return what `holds` returns once it is true; look again at every change."""
        async with asyncio.timeout(seconds):
            while not (value := holds()):
                await self._bell.wait()
        return value

    def by_token(self, token: str, arguments: Json) -> Workspace:
        """Return the workspace of a bot token, or refuse. That of an organisation has many: what is
        asked about tells which."""
        found = [one for one in self.workspaces.values() if one.bot_token == token]
        if not found:
            raise Refused("not_authed" if not token else "invalid_auth")
        team, channel, user = (arguments.get(name) for name in ("team_id", "channel", "user"))
        meant = [one for one in found if one.id == team or channel in one.channels]
        meant += [one for one in found if user in one.users]
        workspace = (meant or found)[0]
        if workspace.error:
            raise Refused(workspace.error)
        return workspace

    def called(self, method: str, team: str | None = None) -> list[Json]:
        """Return the arguments of every call of a method that was answered."""
        return [a for name, t, a in self.calls if name == method and team in (None, t)]
