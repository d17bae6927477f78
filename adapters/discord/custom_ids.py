"""Encode and parse button custom_ids, and parse targets; start with DiscordButton."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, replace

PLATFORM = "discord"
VERSION = "ag1"
_OURS = re.compile(r"ag\d+:")
_SNOWFLAKE = re.compile(r"[0-9]{1,20}")
_ORIGIN = re.compile(r"origin/(\d{1,20})/(\d{1,20})(?:/(\d{1,20}))?", re.ASCII)
_PARTS = 7
_ID_BYTES = 16


class OldButton(Exception):
    """The button was made by another version of the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordButton:
    """The content of a custom_id: an action, a request and the revision that the person saw.

    `copy` is the nonce of the posted card, empty if the button is not on one. In a private message
    `card` is the message id of that card. `more` is data specific to the verb.
    """

    verb: str
    request_id: str
    revision: int
    copy: str = ""
    card: str = ""
    more: str = ""

    @property
    def custom_id(self) -> str:
        """The custom_id; at most 100 characters."""
        packed = base64.urlsafe_b64encode(bytes.fromhex(self.request_id)).decode().rstrip("=")
        parts = (VERSION, self.verb, packed, str(self.revision), self.copy, self.card, self.more)
        return ":".join(parts)

    def with_verb(self, verb: str, *, more: str = "") -> DiscordButton:
        """Return the same button with another action."""
        return replace(self, verb=verb, more=more)


def read_button(custom_id: str) -> DiscordButton | None:
    """Parse a custom_id; return None if the gateway did not make it. Raises OldButton."""
    if not _OURS.match(custom_id):
        return None
    parts = custom_id.split(":")
    if parts[0] != VERSION or len(parts) != _PARTS:
        raise OldButton
    try:
        raw = base64.urlsafe_b64decode(parts[2] + "==")
        revision = int(parts[3])
    except (ValueError, binascii.Error):
        raise OldButton from None
    if len(raw) != _ID_BYTES:
        raise OldButton
    return DiscordButton(
        verb=parts[1],
        request_id=raw.hex(),
        revision=revision,
        copy=parts[4],
        card=parts[5],
        more=parts[6],
    )


@dataclass(frozen=True, slots=True)
class DiscordPlace:
    """A place for cards: a channel or thread of a server, or a user's direct messages. With
    `origin`, an agent named it, as a channel and perhaps a `thread` in it."""

    guild: str | None = None
    channel: str | None = None
    user: str | None = None
    thread: str | None = None
    origin: bool = False

    @property
    def posts(self) -> str:
        """The name of the rate limit for messages to this place."""
        return f"posts {self.thread or self.channel or self.user}"


def link_message(place: DiscordPlace, channel: str, message: str) -> str:
    """Return the web address of a message, or "" for a malformed id."""
    channel = place.channel or channel
    if not (_SNOWFLAKE.fullmatch(channel) and _SNOWFLAKE.fullmatch(message)):
        return ""
    return f"https://discord.com/channels/{place.guild or '@me'}/{channel}/{message}"


def read_target(target: str) -> DiscordPlace | None:
    """Return the place of `discord:GUILD/CHANNEL`, `discord:@USER` or `discord:USER`. The gateway
    writes `discord:origin/GUILD/CHANNEL[/THREAD]` for an agent's conversation."""
    rest = target.removeprefix(f"{PLATFORM}:")
    if found := _ORIGIN.fullmatch(rest):
        return DiscordPlace(guild=found[1], channel=found[2], thread=found[3], origin=True)
    guild, slash, channel = rest.partition("/")
    if slash and _SNOWFLAKE.fullmatch(guild) and _SNOWFLAKE.fullmatch(channel):
        return DiscordPlace(guild=guild, channel=channel)
    user = rest.removeprefix("@")
    return DiscordPlace(user=user) if _SNOWFLAKE.fullmatch(user) else None
