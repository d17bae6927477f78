"""Encode the data of buttons and modals, and parse Slack's payloads strictly; start with
Interaction.

Buttons contain opaque ids with a version. The parsers trust nothing else in a payload.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from gateway.ports import Identity, MessageRef

Json = dict[str, Any]

PLATFORM = "slack"
_BUTTON = re.compile(r"v1:([0-9a-f]{32}):([0-9]{1,9}):([0-9a-z]{1,64})")
_PLACE = re.compile(
    r"(?P<kind>(shared|origin)/)?(?P<team>[A-Z0-9]{2,32})/(?P<channel>[A-Z0-9]{2,32})(/(?P<thread>[0-9]{1,12}\.[0-9]{6}))?"
)
ANSWER_SHORTCUT = "answer_request"
NO_COPY = "none"  # in buttons that are not on a posted card
BATCH_VIEW = "batch"  # the modal with several requests, each with its buttons


class Malformed(Exception):
    """The payload is not from this gateway, or from a version that is no longer supported."""


class Act(StrEnum):
    """The action ids of the gateway's buttons."""

    DENY = "deny_form"
    DENY_BECAUSE = "deny_because_"  # a one-tap reason; its number follows
    DECLINE = "decline_"  # a suggestion; its offer id follows
    EDIT = "edit_form"
    EDIT_JSON = "edit_json"
    EDIT_AGAIN = "edit_again"
    RESPOND = "respond_form"
    ANSWER = "answer_form"
    ABORT = "abort_form"
    REMEMBER = "remember_form"
    REVOKE = "revoke"
    REVOKE_SESSION = "revoke_session"
    REVOKE_ALL = "revoke_all"
    STOP_ALL = "stop_all"
    ALLOW_AGAIN = "allow_again"
    APPROVE = "approve"
    NUMBER = "number_form"
    APPROVE_SURE = "approve_confirmed"  # sent after the client asked for confirmation
    DETAILS = "details"
    CLAIM = "claim"
    UNCLAIM = "unclaim"
    MORE = "more"
    BATCH = "batch"
    BATCH_APPROVE = "batch_approve"
    BATCH_DENY = "batch_deny"
    NEXT = "next_page"
    BACK = "previous_page"
    OPEN = "open_inbox"  # a link: Slack opens it, and reports the click


@dataclass(frozen=True, slots=True)
class SlackButton:
    """The value of a button: a request, its revision and the nonce of its card (`copy`)."""

    request_id: str
    revision: int
    copy: str

    def encode(self) -> str:
        """Return the value as text, for a button's `value`."""
        return f"v1:{self.request_id}:{self.revision}:{self.copy}"


def read_button(value: object) -> SlackButton:
    """Parse a button's value. Raises Malformed."""
    found = _BUTTON.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Malformed("the button is not from this gateway")
    return SlackButton(found[1], int(found[2]), found[3])


@dataclass(frozen=True, slots=True)
class ModalMetadata:
    """A modal's private metadata.

    It names the request, the card it was opened from (`copy`, `channel`, `message`) and the page.
    `kept` is the key of stored values; `high` says that the modal warns of high risk.
    """

    request_id: str
    revision: int
    copy: str
    channel: str = ""
    message: str = ""
    page: int = 0
    kept: str = ""
    high: bool = False

    @property
    def button(self) -> SlackButton:
        """The value of the modal's buttons."""
        return SlackButton(self.request_id, self.revision, self.copy)

    def ref(self, team: str) -> MessageRef | None:
        """Return the card that the modal was opened from; None if it was not opened from one."""
        if not self.channel:
            return None
        return build_ref(team, self.channel, self.message)

    def encode(self) -> str:
        """Return the metadata as JSON text."""
        values = {"v": 1, **asdict(self)}
        if not self.high:
            del values["high"]
        return json.dumps(values, separators=(",", ":"))


def read_metadata(metadata: object) -> ModalMetadata:
    """Parse a modal's metadata. Raises Malformed."""
    try:
        values = json.loads(metadata) if isinstance(metadata, str) else None
        if not isinstance(values, dict) or values.pop("v", None) != 1:
            raise Malformed("the modal is not from this gateway")
        form = ModalMetadata(**values)
    except (ValueError, TypeError) as error:
        raise Malformed("the modal is not from this gateway") from error
    read_button(form.button.encode())
    return form


def build_ref(team: str, channel: str, ts: str) -> MessageRef:
    """Build the reference of a message. It includes the team, because channel ids are not unique
    across workspaces."""
    return MessageRef(adapter=PLATFORM, channel=f"{team}/{channel}", message=ts)


class SlackPlace(NamedTuple):
    """A place for messages. `thread` is the timestamp of the thread's first message, or empty.
    `shared` says that other organisations may read there, `origin` that an agent named it.
    """

    team: str
    channel: str
    thread: str = ""
    shared: bool = False
    origin: bool = False


def read_place(target: str) -> SlackPlace:
    """Parse a target, or the channel of a reference. Raises Malformed.

    A target is `slack:TEAM/CHANNEL` or `slack:TEAM/CHANNEL/THREAD`. `shared/` before TEAM allows
    channels that other organisations read. The gateway writes `origin/` for an agent's
    conversation.
    """
    found = _PLACE.fullmatch(target.removeprefix(f"{PLATFORM}:"))
    if found is None:
        raise Malformed(f"{target!r} is not a Slack target; write slack:TEAM/CHANNEL")
    shared, origin = (found["kind"] == kind for kind in ("shared/", "origin/"))
    return SlackPlace(found["team"], found["channel"], found["thread"] or "", shared, origin)


# --- Slack's payloads -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Actor:
    """The user of an interaction, the workspace it happened in, and the user's home workspace.

    `confirmed` holds the identity after a lookup in Slack; every interaction makes one. `names`
    holds the handle and the name from that lookup.
    """

    team: str
    user: str
    user_team: str
    confirmed: list[Identity] = field(default_factory=list, compare=False, repr=False)
    names: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def identity(self) -> Identity:
        """The identity, without groups."""
        return Identity(platform=PLATFORM, id=f"{self.team}/{self.user}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """One click, submission or command. `nonce` stays the same if Slack delivers it again."""

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
        """The id of the modal or Home tab; empty for a message or a command."""
        return str(self.view.get("id") or "")

    @property
    def in_modal(self) -> bool:
        """Whether the interaction happened in a modal."""
        return self.view.get("type") == "modal"

    @property
    def ref(self) -> MessageRef | None:
        """The message of the interaction; None for a modal, the Home tab or a command."""
        if not self.message:
            return None
        return build_ref(self.actor.team, self.channel, self.message)

    def form(self) -> ModalMetadata:
        """Return the metadata of the modal, or of the button. Raises Malformed.

        A button in a modal refers to the card that the modal was opened from.
        """
        if self.in_modal:
            form = read_metadata(self.view.get("private_metadata"))
            if self.view.get("callback_id") == BATCH_VIEW and self.value:
                return self._form_of_item(form, read_button(self.value))
            if self.value and read_button(self.value) != form.button:
                raise Malformed("the button is not one of this modal's buttons")
            return form
        button: SlackButton = read_button(self.value)
        if not self.message and button.copy != NO_COPY:
            raise Malformed("the button names a card, but the click is not on that card")
        return ModalMetadata(
            button.request_id, button.revision, button.copy, self.channel, self.message
        )

    @staticmethod
    def _form_of_item(form: ModalMetadata, button: SlackButton) -> ModalMetadata:
        """Return the metadata for a button of one request in a batch, or of the whole batch."""
        if button == form.button:
            return form
        if button.copy != NO_COPY:
            raise Malformed("the button is not one of this modal's buttons")
        return ModalMetadata(button.request_id, button.revision, NO_COPY)


def read_click(body: Json) -> Interaction:
    """Parse a click on a button. Raises Malformed."""
    action = _read_only_item(body, "actions")
    act, value = _read_text(action, "action_id"), str(action.get("value") or "")
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
    """Parse a submitted modal. Raises Malformed."""
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
    """Parse a slash command. Raises Malformed."""
    team = _read_text(body, "team_id")
    # A command does not name the user's home workspace; users.info does.
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


def read_shortcut(body: Json) -> Interaction:
    """Parse the shortcut on a message as a click on the card's *Details*. Raises Malformed.

    `value` is empty if the message is not one of the gateway's cards. The message only names the
    request; the click handler checks the right to see it.
    """
    actor, message = _read_actor(body), body.get("message") or {}
    trigger = _read_text(body, "trigger_id")
    return Interaction(
        actor=actor,
        app_id=_read_text(body, "api_app_id"),
        nonce=_build_nonce("shortcut", actor, trigger),
        trigger_id=trigger,
        response_url=str(body.get("response_url") or ""),
        channel=_read_text(body.get("channel"), "id"),
        message=_read_text(message, "ts"),
        act=Act.DETAILS,
        value=_find_request(message),
    )


def _find_request(message: Json) -> str:
    """Return the value of a card's buttons, or build one from the request in its metadata."""
    rows = [one for one in message.get("blocks") or () if isinstance(one, dict)]
    for element in (one for block in rows for one in block.get("elements") or ()):
        value = element.get("value") if isinstance(element, dict) else None
        if isinstance(value, str) and _BUTTON.fullmatch(value):
            return value
    payload = (message.get("metadata") or {}).get("event_payload") or {}
    value = SlackButton(str(payload.get("request")), 1, NO_COPY).encode()
    return value if _BUTTON.fullmatch(value) else ""


def _read_actor(body: Json) -> Actor:
    """Parse the actor. The top-level team is the place; the user's home team may differ."""
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
        raise Malformed(f"{name} is not a list with one item")
    only: Json = found[0]
    return only
