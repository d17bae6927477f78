"""Interactions of the wire-level Discord: what a person starts, and the app's one answer in 3 s."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field

from tests.discord.limits import EPHEMERAL, check_modal
from tests.discord.messages import LARGEST_FILE, Board, Upload
from tests.discord.town import (
    DIRECT,
    Application,
    Calendar,
    Channel,
    DiscordError,
    Json,
    Town,
    User,
)

ANSWER_SECONDS, TOKEN_SECONDS = 3, 900
COMMAND, COMPONENT, COMPLETION, MODAL = 2, 3, 4, 5
MESSAGE, THINKING, DEFERRED_UPDATE, UPDATE, CHOICES, OPEN_MODAL = 4, 5, 6, 7, 8, 9


@dataclass
class Interaction:
    """One click, command or modal: who, on which message, and what the app has answered."""

    id: str
    token: str
    app: Application
    user: User
    channel: Channel
    kind: int
    data: Json
    created_ms: int
    message: Json | None = None  # the clicked message itself, not the copy sent out
    answer: int | None = None
    answer_data: Json = field(default_factory=dict)
    response: Json | None = None  # the message that the answer created or changed
    followups: list[Json] = field(default_factory=list)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    completed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def private(self) -> list[Json]:
        """Return the messages that only this person sees."""
        found = [self.response] if self.response and self.answer in (MESSAGE, THINKING) else []
        return [one for one in found + self.followups if one["flags"] & EPHEMERAL]

    @property
    def failed(self) -> bool:
        """Whether the client shows "This interaction failed"."""
        return self.answer is None


class Desk:
    """Makes interactions and takes their answers."""

    def __init__(self, town: Town, board: Board, calendar: Calendar) -> None:
        self.town, self.board, self.calendar = town, board, calendar
        self.by_id: dict[str, Interaction] = {}
        self.by_token: dict[str, Interaction] = {}
        self.strict_clock = True

    def start(
        self,
        app: Application,
        user: User,
        channel: Channel,
        kind: int,
        data: Json,
        message: Json | None = None,
    ) -> tuple[Interaction, Json]:
        """Return an interaction and the payload that the app gets."""
        made = Interaction(
            id=self.calendar.snowflake(),
            token=secrets.token_urlsafe(48),
            app=app,
            user=user,
            channel=channel,
            kind=kind,
            data=data,
            created_ms=self.calendar.now_ms(),
            message=message,
        )
        self.by_id[made.id] = self.by_token[made.token] = made
        return made, self._payload(made)

    def _payload(self, made: Interaction) -> Json:
        channel = made.channel
        payload: Json = {
            "id": made.id,
            "application_id": made.app.id,
            "type": made.kind,
            "token": made.token,
            "version": 1,
            "data": made.data,
            "channel_id": channel.id,
            "channel": {**channel.json(), "permissions": "0"},
            "locale": "en-US",
            "entitlements": [],
            "app_permissions": "0",
            "authorizing_integration_owners": {},
            "attachment_size_limit": LARGEST_FILE,
            "context": 1 if channel.kind == DIRECT else 0,
        }
        if made.message is not None:
            payload["message"] = {**made.message}
        if channel.kind == DIRECT:
            return {**payload, "user": made.user.json()}
        guild = channel.guild
        assert guild is not None
        member = guild.members[made.user.id]
        held = guild.permissions(made.user, channel.parent or channel)
        return {
            **payload,
            "guild_id": guild.id,
            "guild_locale": "en-US",
            "guild": {"id": guild.id, "features": [], "locale": "en-US"},
            "app_permissions": str(guild.permissions(made.app.user, channel.parent or channel)),
            "member": {**member.json(), "permissions": str(held)},
        }

    def _age(self, made: Interaction) -> float:
        return (self.calendar.now_ms() - made.created_ms) / 1000

    def callback(self, interaction_id: str, token: str, body: Json, uploads: list[Upload]) -> Json:
        """Take the app's answer; return the reply to `with_response=1`."""
        made = self.by_id.get(interaction_id)
        if made is None or made.token != token:
            raise DiscordError(404, 10062, "Unknown interaction")
        if made.answer is not None:
            raise DiscordError(400, 40060, "Interaction has already been acknowledged.")
        if self.strict_clock and self._age(made) > ANSWER_SECONDS:
            raise DiscordError(404, 10062, "Unknown interaction")
        kind, data = body["type"], body.get("data") or {}
        self._apply(made, kind, data, uploads)
        made.answer, made.answer_data = kind, data
        made.answered.set()
        if kind not in (THINKING, DEFERRED_UPDATE):
            made.completed.set()
        return self._reply(made)

    def _apply(self, made: Interaction, kind: int, data: Json, uploads: list[Upload]) -> None:
        if kind == OPEN_MODAL:
            if made.kind == MODAL:
                raise DiscordError(400, 50035, "a modal cannot answer a modal")
            check_modal(data)
        elif kind == THINKING:
            if data.get("flags", 0) & ~EPHEMERAL:
                raise DiscordError(400, 50035, "only the ephemeral flag")
            made.response = self.board.compose(
                made.app.user, made.channel, {"content": "thinking", **data}, [], human=True
            )
        elif kind == MESSAGE:
            made.response = self._posted(made, data, uploads)
        elif kind == UPDATE:
            if made.message is None:
                raise DiscordError(400, 50035, "there is no message to update")
            made.response = self.board.revise(made.channel, made.message, data, uploads)
        elif kind == CHOICES and len(data.get("choices", [])) > 25:
            raise DiscordError(400, 50035, "Must be 25 or fewer in length.")

    def _posted(self, made: Interaction, data: Json, uploads: list[Upload]) -> Json:
        message = self.board.compose(made.app.user, made.channel, data, uploads, human=True)
        if not message["flags"] & EPHEMERAL:
            made.channel.messages[message["id"]] = message
            self.town.tell("MESSAGE_CREATE", message, made.channel)
        return message

    def _reply(self, made: Interaction) -> Json:
        reply: Json = {"interaction": {"id": made.id, "type": made.kind}}
        if made.answer is None or made.response is None:
            return reply
        reply["interaction"] |= {
            "response_message_id": made.response["id"],
            "response_message_loading": made.answer == THINKING,
            "response_message_ephemeral": bool(made.response["flags"] & EPHEMERAL),
        }
        reply["resource"] = {"type": made.answer, "message": made.response}
        return reply

    def usable(self, token: str) -> Interaction:
        """Return the interaction of a webhook token, while the token lives."""
        made = self.by_token.get(token)
        if made is None or made.answer is None:
            raise DiscordError(404, 10015, "Unknown Webhook")
        if self._age(made) > TOKEN_SECONDS:
            raise DiscordError(401, 50027, "Invalid Webhook Token")
        return made

    def follow_up(self, token: str, body: Json, uploads: list[Upload]) -> Json:
        made = self.usable(token)
        message = self._posted(made, body, uploads)
        made.followups.append(message)
        made.completed.set()
        return message

    def original(self, token: str) -> Json:
        """Return the message that `@original` names."""
        made = self.usable(token)
        found = made.message if made.answer == DEFERRED_UPDATE else made.response
        if found is None:
            raise DiscordError(404, 10008, "Unknown Message")
        return found

    def edit(self, token: str, message_id: str, body: Json, uploads: list[Upload]) -> Json:
        made = self.usable(token)
        known = {one["id"]: one for one in made.followups}
        message = self.original(token) if message_id == "@original" else known.get(message_id)
        if message is None:
            raise DiscordError(404, 10008, "Unknown Message")
        found = self.board.revise(made.channel, message, body, uploads)
        made.completed.set()
        return found
