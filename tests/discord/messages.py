"""Posting, editing and deleting messages in the wire-level Discord, with its refusals."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.discord.limits import FILE, TEXT, check_message, walk
from tests.discord.town import DIRECT, FORUM, Calendar, Channel, DiscordError, Json, Town, User

LARGEST_FILE = 10 * 1024 * 1024
NONCE_SECONDS = 300
OLD_SECONDS = 3600
_MENTION = re.compile(r"<@(&?)!?(\d+)>|(@everyone|@here)")
_PARSED = {"": "users", "&": "roles"}
_EDITABLE = ("content", "components", "embeds")


@dataclass(frozen=True)
class Upload:
    """One file of a multipart request."""

    name: str
    content: bytes


@dataclass
class Board:
    """All messages. `pinged` holds whom each message notified; `old_edits` limits edits of messages
    older than an hour (None: no limit)."""

    town: Town
    calendar: Calendar
    files: dict[str, bytes] = field(default_factory=dict)
    pinged: dict[str, set[str]] = field(default_factory=dict)
    nonces: dict[tuple[str, str], tuple[int, Json]] = field(default_factory=dict)
    old_edits: int | None = None
    base: str = ""

    def find(self, channel: Channel, message_id: str) -> Json:
        if message_id not in channel.messages:
            raise DiscordError(404, 10008, "Unknown Message")
        return channel.messages[message_id]

    def create(
        self, author: User, channel: Channel, body: Json, uploads: list[Upload]
    ) -> tuple[Json, bool]:
        """Post a message; return it and whether it is a new one."""
        self._may_post(author, channel, body, uploads)
        nonce = (author.id, str(body.get("nonce")))
        if body.get("enforce_nonce") and nonce in self.nonces:
            at, before = self.nonces[nonce]
            if self.calendar.now_ms() - at < NONCE_SECONDS * 1000:
                return before, False
        message = self.compose(author, channel, body, uploads)
        if body.get("enforce_nonce"):
            self.nonces[nonce] = (self.calendar.now_ms(), message)
        channel.messages[message["id"]] = message
        self.town.tell("MESSAGE_CREATE", message, channel)
        return message, True

    def _may_post(self, author: User, channel: Channel, body: Json, uploads: list[Upload]) -> None:
        if channel.kind == DIRECT:
            if not all(one.takes_direct for one in channel.recipients if one is not author):
                raise DiscordError(403, 50007, "Cannot send messages to this user")
        else:
            self._may_speak(author, channel, uploads)
        if channel.kind == FORUM:
            raise DiscordError(400, 50008, "Cannot send messages in a non-text channel")
        shown = json.dumps(body, ensure_ascii=False)
        if any(word in shown for word in channel.blocked_words):
            raise DiscordError(400, 200000, "Message was blocked by automatic moderation")

    def _may_speak(self, author: User, channel: Channel, uploads: list[Upload]) -> None:
        def needs(permission: str) -> None:
            if not self.town.allows(author, channel, permission):
                raise DiscordError(403, 50013, "Missing Permissions")

        if not self.town.allows(author, channel, "view_channel"):
            raise DiscordError(403, 50001, "Missing Access")
        needs("send_messages" if channel.parent is None else "send_messages_in_threads")
        if uploads:
            needs("attach_files")
        if channel.archived:
            if channel.locked:
                needs("manage_threads")
            channel.archived = False  # speaking wakes a thread

    def compose(
        self,
        author: User,
        channel: Channel,
        body: Json,
        uploads: list[Upload],
        *,
        human: bool = False,
    ) -> Json:
        """Return a message in Discord's form, checked, with its files stored."""
        attachments = self._stored(body, uploads)
        check_message(body, files={one["filename"] for one in attachments})
        if not any(body.get(one) for one in ("content", "embeds", "components")) and not uploads:
            raise DiscordError(400, 50006, "Cannot send an empty message")
        message: Json = {
            "id": self.calendar.snowflake(),
            "channel_id": channel.id,
            "author": author.json(),
            "content": body.get("content") or "",
            "timestamp": self.calendar.iso(),
            "edited_timestamp": None,
            "tts": False,
            "pinned": False,
            "type": 0,
            "flags": body.get("flags") or 0,
            "embeds": body.get("embeds") or [],
            "components": _numbered(body.get("components") or []),
            "attachments": attachments,
            "mentions": [],
            "mention_roles": [],
            "mention_everyone": False,
        }
        if channel.guild is not None:
            message["guild_id"] = channel.guild.id
        if "nonce" in body:
            message["nonce"] = body["nonce"]
        self._link_files(message)
        self.pinged[message["id"]] = self._pings(message, body, human=human)
        return message

    def _stored(self, body: Json, uploads: list[Upload]) -> list[Json]:
        """Store uploaded files; return the attachments, kept ones and new ones."""
        if sum(len(one.content) for one in uploads) > LARGEST_FILE:
            raise DiscordError(413, 40005, "Request entity too large")
        kept = [one for one in body.get("attachments", []) if "url" in one]
        return kept + [self._attachment(one) for one in uploads]

    def _attachment(self, upload: Upload) -> Json:
        found = self.calendar.snowflake()
        self.files[found] = upload.content
        url = f"{self.base}/attachments/{found}/{upload.name}"
        return {
            "id": found,
            "filename": upload.name,
            "size": len(upload.content),
            "url": url,
            "proxy_url": url,
            "content_type": "text/plain",
        }

    def _link_files(self, message: Json) -> None:
        """Turn `attachment://name` of file components into addresses, as Discord does."""
        urls = {one["filename"]: one["url"] for one in message["attachments"]}
        for one in walk(message["components"]):
            if one["type"] == FILE:
                name = one["file"]["url"].removeprefix("attachment://")
                one["file"] = {"url": urls.get(name, one["file"]["url"])}
                one["name"] = name.rsplit("/", 1)[-1]

    def _pings(self, message: Json, body: Json, *, human: bool) -> set[str]:
        allowed = body.get("allowed_mentions")
        if allowed is None:
            allowed = {"parse": ["users"] if human else ["users", "roles", "everyone"]}
        texts = [message["content"]]
        texts += [one["content"] for one in walk(message["components"]) if one["type"] == TEXT]
        found = set()
        for text in texts:
            for role, who, everyone in _MENTION.findall(text):
                kind = "everyone" if everyone else _PARSED[role]
                if kind in allowed.get("parse", []) or who in map(str, allowed.get(kind, [])):
                    found.add(everyone or who)
        return found

    def edit(self, channel: Channel, message_id: str, body: Json, uploads: list[Upload]) -> Json:
        """Edit a message by the bot's own right."""
        message = self.find(channel, message_id)
        if channel.archived:
            code = 160005 if channel.locked else 50083
            raise DiscordError(403, code, "Thread is locked" if channel.locked else "archived")
        self._may_edit_old(message)
        return self.revise(channel, message, body, uploads)

    def _may_edit_old(self, message: Json) -> None:
        age = self.calendar.now_ms() - ((int(message["id"]) >> 22) + 1_420_070_400_000)
        if self.old_edits is not None and age > OLD_SECONDS * 1000:
            if self.old_edits == 0:
                raise DiscordError(
                    429, 30046, "Maximum number of edits to messages older than 1 hour"
                )
            self.old_edits -= 1

    def revise(self, channel: Channel, message: Json, body: Json, uploads: list[Upload]) -> Json:
        """Change a message in place. Discord's clients notify nobody of an edit; whom it permits to
        be notified counts here all the same."""
        draft = {**message, **{one: body[one] for one in _EDITABLE if body.get(one) is not None}}
        draft["flags"] = message["flags"] | (body.get("flags") or 0)  # neither can be taken back
        known = {one["id"]: one for one in message["attachments"]}
        named = [str(one["id"]) for one in body.get("attachments", [])]
        kept = [known[one] for one in named if one in known]
        if "attachments" not in body:
            kept = message["attachments"]
        draft["attachments"] = kept + self._stored({}, uploads)
        draft.pop("nonce", None)
        check_message(draft, files={one["filename"] for one in draft["attachments"]})
        draft["components"] = _numbered(draft["components"])
        self._link_files(draft)
        message.update(draft, edited_timestamp=self.calendar.iso())
        if "components" in body:
            pinged = self._pings(message, body, human=False)
            self.pinged[message["id"]] = self.pinged.get(message["id"], set()) | pinged
        if message["id"] in channel.messages:
            self.town.tell("MESSAGE_UPDATE", message, channel)
        return message

    def delete(self, channel: Channel, message_id: str) -> None:
        self.find(channel, message_id)
        del channel.messages[message_id]
        self.town.tell("MESSAGE_DELETE", {"id": message_id, "channel_id": channel.id}, channel)

    def sha256_of(self, attachment: Json) -> str:
        """Return the SHA-256 of what a person downloads."""
        return hashlib.sha256(self.files[attachment["id"]]).hexdigest()


def _numbered(components: list[Json]) -> list[Json]:
    """Copy components and give each the id that Discord gives."""
    made = json.loads(json.dumps(components))
    for number, one in enumerate(walk(made), 1):
        one.setdefault("id", number)
    return list(made)


def shown_text(message: Json) -> str:
    """Return all text that a person reads in a message."""
    texts = [message["content"]] if message["content"] else []
    texts += [one["content"] for one in walk(message["components"]) if one["type"] == TEXT]
    return "\n".join(texts)


def buttons(message: Json) -> dict[str, Any]:
    """Return the buttons of a message by label, those that can be pressed."""
    return {
        one.get("label", ""): one
        for one in walk(message["components"])
        if one["type"] == 2 and not one.get("disabled")
    }
