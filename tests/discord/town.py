"""What exists in the wire-level Discord of the tests: users, servers, roles, channels, messages.

Values are kept in Discord's own JSON shapes where Discord sends them out. Facts: discord-api-docs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.domain.time_and_tasks import SystemClock

Json = dict[str, Any]

EPOCH_MS = 1_420_070_400_000
TEXT, DIRECT, FORUM, THREAD = 0, 1, 15, 11
PERMISSIONS = {
    "administrator": 1 << 3,
    "view_channel": 1 << 10,
    "send_messages": 1 << 11,
    "manage_messages": 1 << 13,
    "embed_links": 1 << 14,
    "attach_files": 1 << 15,
    "read_message_history": 1 << 16,
    "mention_everyone": 1 << 17,
    "manage_threads": 1 << 34,
    "send_messages_in_threads": 1 << 38,
}
GUEST = 1 << 4
LIMITED_INTENTS = 1 << 13 | 1 << 15 | 1 << 19  # as the portal sets them for a small bot
EVERYTHING = sum(PERMISSIONS.values())
ORDINARY = sum(
    PERMISSIONS[name]
    for name in (
        "view_channel",
        "send_messages",
        "embed_links",
        "attach_files",
        "read_message_history",
        "send_messages_in_threads",
    )
)


class DiscordError(Exception):
    """An answer that is not a success: HTTP status, Discord's code and words."""

    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.errors = status, code, message, errors

    def body(self) -> Json:
        found: Json = {"message": self.message, "code": self.code}
        return found if self.errors is None else {**found, "errors": self.errors}


class Calendar:
    """Discord's time: the host's, moved by what a test adds. Ids carry it."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._count = itertools.count(1)

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.ahead_ms

    def advance(self, seconds: float) -> None:
        self.ahead_ms += int(seconds * 1000)

    def snowflake(self) -> str:
        return str((self.now_ms() - EPOCH_MS) << 22 | next(self._count) & 0x3FFFFF)

    def iso(self) -> str:
        """Return the present as Discord writes times."""
        import datetime  # noqa: PLC0415 (only the conversion; the time is the calendar's)

        moment = datetime.datetime.fromtimestamp(self.now_ms() / 1000, datetime.UTC)
        return moment.isoformat()


@dataclass
class User:
    id: str
    name: str
    bot: bool = False
    takes_direct: bool = True

    def json(self) -> Json:
        return {
            "id": self.id,
            "username": self.name,
            "global_name": self.name.capitalize(),
            "discriminator": "0",
            "avatar": None,
            "bot": self.bot,
            "public_flags": 0,
        }


@dataclass
class Application:
    """A bot: its user, its token, its signing key, and whether Discord pushes to a URL instead."""

    id: str
    user: User
    owner: User
    token: str
    verify_key: str
    endpoint: str | None = None
    privileged: bool = False
    code_grant: bool = False  # then a link alone adds it to no server
    commands: dict[str, list[Json]] = field(default_factory=dict)

    def json(self) -> Json:
        found: Json = {
            "id": self.id,
            "name": self.user.name,
            "icon": None,
            "description": "",
            "bot_public": False,
            "bot_require_code_grant": self.code_grant,
            "owner": self.owner.json(),
            "verify_key": self.verify_key,
            "flags": LIMITED_INTENTS if self.privileged else 0,
            "team": None,
            "rpc_origins": [],
        }
        return {**found, "interactions_endpoint_url": self.endpoint} if self.endpoint else found


@dataclass
class Member:
    user: User
    roles: list[str] = field(default_factory=list)
    nick: str | None = None
    timed_out_until: str | None = None
    pending: bool = False  # has not accepted the server's rules
    guest: bool = False  # invited to one voice channel

    def json(self) -> Json:
        return {
            "user": self.user.json(),
            "roles": list(self.roles),
            "nick": self.nick,
            "joined_at": "2024-01-01T00:00:00+00:00",
            "deaf": False,
            "mute": False,
            "pending": self.pending,
            "flags": GUEST if self.guest else 0,
            "communication_disabled_until": self.timed_out_until,
        }


@dataclass
class Channel:
    id: str
    kind: int
    name: str = ""
    guild: Guild | None = None
    recipients: list[User] = field(default_factory=list)
    overwrites: dict[str, tuple[int, int]] = field(default_factory=dict)
    parent: Channel | None = None
    archived: bool = False
    locked: bool = False
    blocked_words: tuple[str, ...] = ()
    messages: dict[str, Json] = field(default_factory=dict)

    def json(self) -> Json:
        found: Json = {"id": self.id, "type": self.kind, "last_message_id": None}
        if self.kind == DIRECT:
            return {**found, "recipients": [user.json() for user in self.recipients]}
        assert self.guild is not None
        found |= {"guild_id": self.guild.id, "name": self.name, "nsfw": False}
        if self.parent is not None:
            return found | self._thread_json(self.parent)
        return found | {
            "position": 0,
            "parent_id": None,
            "topic": None,
            "rate_limit_per_user": 0,
            "permission_overwrites": [
                {"id": who, "type": 0, "allow": str(allow), "deny": str(deny)}
                for who, (allow, deny) in self.overwrites.items()
            ],
        }

    def _thread_json(self, parent: Channel) -> Json:
        return {
            "parent_id": parent.id,
            "owner_id": self.id,
            "message_count": len(self.messages),
            "member_count": 1,
            "rate_limit_per_user": 0,
            "thread_metadata": {
                "archived": self.archived,
                "locked": self.locked,
                "auto_archive_duration": 1440,
                "archive_timestamp": "2024-01-01T00:00:00+00:00",
            },
        }


@dataclass
class Guild:
    id: str
    name: str
    owner: User
    members: dict[str, Member] = field(default_factory=dict)
    roles: dict[str, Json] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    unavailable: bool = False

    def json(self) -> Json:
        return {
            "id": self.id,
            "name": self.name,
            "icon": None,
            "owner_id": self.owner.id,
            "roles": list(self.roles.values()),
            "emojis": [],
            "features": [],
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "mfa_level": 0,
            "premium_tier": 0,
            "preferred_locale": "en-US",
            "nsfw_level": 0,
            "system_channel_flags": 0,
            "afk_timeout": 300,
        }

    def created(self, bot: User) -> Json:
        """Return what GUILD_CREATE says to a bot."""
        plain = [channel for channel in self.channels.values() if channel.parent is None]
        threads = [one for one in self.channels.values() if one.parent is not None]
        return {
            **self.json(),
            "large": False,
            "member_count": len(self.members),
            "members": [self.members[bot.id].json()],
            "channels": [channel.json() for channel in plain],
            "threads": [one.json() for one in threads if not one.archived],
            "presences": [],
            "voice_states": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
        }

    def permissions(self, user: User, channel: Channel) -> int:
        """Return what a member may do in a channel, computed as Discord computes it."""
        member = self.members.get(user.id)
        if member is None:
            return 0
        held = [self.id, *member.roles]
        base = 0
        for role in held:
            base |= int(self.roles[role]["permissions"])
        if user is self.owner or base & PERMISSIONS["administrator"]:
            return EVERYTHING
        for group in ([self.id], member.roles, [user.id]):
            pairs = [channel.overwrites[one] for one in group if one in channel.overwrites]
            for _, deny in pairs:
                base &= ~deny
            for allow, _ in pairs:
                base |= allow
        return base if base & PERMISSIONS["view_channel"] else 0


class Town:
    """All of it, with the ways to add to it."""

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar
        self.users: dict[str, User] = {}
        self.guilds: dict[str, Guild] = {}
        self.channels: dict[str, Channel] = {}
        self.applications: dict[str, Application] = {}  # by token
        self.changed: list[Callable[[str, Json, Channel | None], None]] = []

    def tell(self, event: str, data: Json, channel: Channel | None = None) -> None:
        """Tell everyone who listens (the gateway) that something happened."""
        for listener in self.changed:
            listener(event, data, channel)

    def user(self, name: str, *, bot: bool = False) -> User:
        made = User(self.calendar.snowflake(), name, bot)
        self.users[made.id] = made
        return made

    def guild(self, name: str, owner: User) -> Guild:
        guild = Guild(self.calendar.snowflake(), name, owner)
        self.guilds[guild.id] = guild
        self.role(guild, "@everyone", permissions=ORDINARY, role_id=guild.id)
        self.join(guild, owner)
        return guild

    def join(self, guild: Guild, user: User, *roles: str) -> Member:
        member = guild.members[user.id] = Member(user, list(roles))
        return member

    def role(
        self, guild: Guild, name: str, *, permissions: int = 0, role_id: str | None = None
    ) -> str:
        found = role_id or self.calendar.snowflake()
        guild.roles[found] = {
            "id": found,
            "name": name,
            "color": 0,
            "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
            "hoist": False,
            "position": len(guild.roles),
            "permissions": str(permissions),
            "managed": False,
            "mentionable": False,
            "flags": 0,
        }
        return found

    def channel(self, guild: Guild, name: str, kind: int = TEXT) -> Channel:
        made = Channel(self.calendar.snowflake(), kind, name, guild)
        self.channels[made.id] = guild.channels[made.id] = made
        return made

    def thread(self, parent: Channel, name: str) -> Channel:
        assert parent.guild is not None
        made = Channel(self.calendar.snowflake(), THREAD, name, parent.guild, parent=parent)
        self.channels[made.id] = parent.guild.channels[made.id] = made
        self.tell("THREAD_CREATE", made.json(), made)
        return made

    def direct(self, *users: User) -> Channel:
        """Return the one direct-message channel of these users."""
        wanted = {user.id for user in users}
        for channel in self.channels.values():
            if channel.kind == DIRECT and {user.id for user in channel.recipients} == wanted:
                return channel
        made = Channel(self.calendar.snowflake(), DIRECT, recipients=list(users))
        self.channels[made.id] = made
        return made

    def allows(self, user: User, channel: Channel, permission: str) -> bool:
        """Tell whether a user has a permission in a channel; in direct messages, takes part."""
        if channel.kind == DIRECT:
            return user in channel.recipients
        assert channel.guild is not None
        held = channel.guild.permissions(user, channel.parent or channel)
        return bool(held & PERMISSIONS[permission])
