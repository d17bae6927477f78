"""What Slack sends when people do something, read strictly: nothing is taken on trust."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from adapters.slack.card_blocks import Act
from adapters.slack.payloads import (
    NO_COPY,
    Malformed,
    ModalMetadata,
    SlackButton,
    build_ref,
    read_button,
    read_metadata,
)
from adapters.slack.text_objects import Json
from adapters.slack.users import Actor
from gateway.ports import MessageRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """One click, submission or command. `nonce` is the same when Slack delivers it again."""

    actor: Actor
    app_id: str
    nonce: str
    trigger_id: str
    response_url: str = ""
    channel: str = ""
    message: str = ""
    act: str = ""
    value: str = ""
    text: str = ""
    view: Json = field(default_factory=dict)

    @property
    def view_id(self) -> str:
        """The modal or Home tab it came from, empty for a message or a command."""
        return str(self.view.get("id") or "")

    @property
    def in_modal(self) -> bool:
        """Whether a modal is open in front of the person."""
        return self.view.get("type") == "modal"

    @property
    def ref(self) -> MessageRef | None:
        """The message it was made on."""
        if not self.message:
            return None
        return build_ref(self.actor.team, self.channel, self.message)

    def form(self) -> ModalMetadata:
        """Return what the button or the modal carries; raises Malformed.

        A button of a modal stands for the copy that the modal was opened from.
        """
        if self.in_modal:
            form = read_metadata(self.view.get("private_metadata"))
            if self.value and read_button(self.value) != form.button:
                raise Malformed("the button does not belong to its modal")
            return form
        button: SlackButton = read_button(self.value)
        if not self.message and button.copy != NO_COPY:
            raise Malformed("a button of a copy, but not on it")
        return ModalMetadata(
            button.request_id, button.revision, button.copy, self.channel, self.message
        )


def read_click(body: Json) -> Interaction:
    """Return a click on a button or a menu; raises Malformed."""
    action = _read_only_item(body, "actions")
    act, value = _read_text(action, "action_id"), str(action.get("value") or "")
    if act == Act.MORE:
        act, _, value = _read_text(action.get("selected_option"), "value").partition(" ")
    container = body.get("container") or {}
    on_message = container.get("type") == "message"
    actor = _read_actor(body)
    return Interaction(
        actor=actor,
        app_id=_read_text(body, "api_app_id"),
        nonce=_build_nonce("action", actor, _read_text(action, "action_ts"), act, value),
        trigger_id=str(body.get("trigger_id") or ""),
        response_url=str(body.get("response_url") or ""),
        channel=_read_text(container, "channel_id") if on_message else "",
        message=_read_text(container, "message_ts") if on_message else "",
        act=act,
        value=value,
        view=body.get("view") or {},
    )


def read_submission(body: Json) -> Interaction:
    """Return a submitted modal; raises Malformed."""
    view = body.get("view") or {}
    actor = _read_actor(body)
    trigger = _read_text(body, "trigger_id")
    return Interaction(
        actor=actor,
        app_id=_read_text(body, "api_app_id"),
        nonce=_build_nonce("view", actor, _read_text(view, "id"), trigger),
        trigger_id=trigger,
        act=str(view.get("callback_id") or ""),
        view=view,
    )


def read_command(body: Json) -> Interaction:
    """Return a slash command; raises Malformed."""
    team = _read_text(body, "team_id")
    # A command names no workspace of its own for the user; users.info tells.
    actor = Actor(team, _read_text(body, "user_id"), team)
    trigger = _read_text(body, "trigger_id")
    return Interaction(
        actor=actor,
        app_id=_read_text(body, "api_app_id"),
        nonce=_build_nonce("command", actor, trigger),
        trigger_id=trigger,
        response_url=str(body.get("response_url") or ""),
        channel=_read_text(body, "channel_id"),
        text=str(body.get("text") or "")[:3000],
    )


def _read_actor(body: Json) -> Actor:
    """Return who did it. The top-level team is where; the user's own team may be another one."""
    user = body.get("user") or {}
    team = _read_text(body.get("team"), "id")
    return Actor(team, _read_text(user, "id"), str(user.get("team_id") or ""))


def _build_nonce(*parts: Any) -> str:
    written = "\0".join(
        f"{part.team} {part.user}" if isinstance(part, Actor) else str(part) for part in parts
    )
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _read_text(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, str) or not found:
        raise Malformed(f"{name} is missing")
    return found


def _read_only_item(value: Json, name: str) -> Json:
    found = value.get(name)
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
        raise Malformed(f"{name} is not a list of one")
    only: Json = found[0]
    return only
