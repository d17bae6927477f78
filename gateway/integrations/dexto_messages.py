"""What Dexto asks as a request to the gateway, and what became of it as Dexto's answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.client import Outcome, OutcomeKind, session_name
from gateway.models import (
    Action,
    Context,
    FieldKind,
    Kind,
    Option,
    Origin,
    Preview,
    Question,
    Reason,
)
from gateway.wire.codec import JsonObject

APPROVAL_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_ATTEMPT_SECONDS = 12  # what a delivery that failed may have taken, with the pause behind it
_LONGEST_MARGIN = 30.0
_TOOL_MEMBERS = {"toolName": str, "toolCallId": str, "args": dict}
_COMMAND_MEMBERS = {"toolName": str, "command": str}
_FORM_MEMBERS = {"schema": dict, "prompt": str, "serverName": str}
# Said about the call, or offers of Dexto's own to remember it: not what would run.
_ABOUT = {
    *("description", "displayPreview", "presentationSnapshot"),
    *("approvalKey", "suggestedPatterns"),
}
_SECRET_FORMATS = ("password",)
_KINDS = {"boolean": FieldKind.BOOLEAN, "integer": FieldKind.NUMBER, "number": FieldKind.NUMBER,
          "string": FieldKind.TEXT}  # fmt: skip
# What the arguments of Dexto's own tools are.
_OWN = ("", "internal", "custom")
_ROLES = {
    "bash_exec": {"command": "command", "cwd": "working_folder", "description": "remark"},
    "read_file": {"file_path": "read", "limit": "part", "offset": "part"},
    "write_file": {"file_path": "write", "content": "data", "create_dirs": "part"},
    "edit_file": {"file_path": "write", "old_string": "data", "new_string": "data"},
}
_COMMAND_TOOLS = ("bash_exec",)


class BadMessage(Exception):
    """A message that does not fit the contract; its text says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An `approval:request`. `details` are those of `gateway.client.AsyncClient.request`."""

    approval: str
    session: str
    tool: str
    arguments: JsonObject
    call: str | None
    integers: frozenset[str] = frozenset()
    details: JsonObject = field(default_factory=dict)


def read_request(data: Any, *, attempt: int = 1) -> Asked:
    """Return what an event of type `approval:request` asks. Raises BadMessage.

    `attempt` counts deliveries: what the earlier ones took is no longer there to wait.
    """
    members = _take(data, {"approvalId": str, "type": str, "metadata": dict})
    approval, metadata = members["approvalId"], members["metadata"]
    if not APPROVAL_ID.fullmatch(approval):
        raise BadMessage("approvalId is no UUID")
    session = data.get("sessionId")
    if session is not None and not isinstance(session, str):
        raise BadMessage("sessionId is no text")
    read = _READERS.get(members["type"])
    if read is None:
        raise BadMessage(f"nothing is known about requests of type {members['type'][:40]!r}")
    tool, arguments, details = read(metadata)
    call = metadata.get("toolCallId")
    origin = Origin(framework="dexto", tool_call_id=call if isinstance(call, str) else None)
    name = session_name(session) if session else "default"
    common = {
        "session": name,
        "call_id": approval,
        "context": Context(),
        "origin": origin,
        "timeout": _time_left(data.get("timeout"), attempt),
        "allowed": (Action.APPROVE, Action.DENY),
    }
    whole = {one.id for one in details.get("questions", ()) if _of(metadata, one.id) == "integer"}
    return Asked(
        approval=approval,
        session=name,
        tool=tool,
        arguments=arguments,
        call=origin.tool_call_id,
        integers=frozenset(whole),
        details={**common, **details},
    )


def write_answer(asked: Asked, outcome: Outcome) -> JsonObject | None:
    """Return the body for `POST /api/approvals/{id}`; None where Dexto knows already.

    Only what ran as Dexto asked it is approved: it cannot take other arguments, nor a result.
    """
    decision = outcome.decision
    if decision is not None and decision.reason is Reason.RESOLVED_ELSEWHERE:
        return None
    if outcome.kind is OutcomeKind.APPROVED:
        return {"status": "approved"}
    if outcome.kind is OutcomeKind.ANSWERED:
        return {"status": "approved", "formData": _write_form(asked, outcome.result)}
    if outcome.kind in (OutcomeKind.EDITED, OutcomeKind.RESPONDED):
        instead = outcome.arguments if outcome.kind is OutcomeKind.EDITED else outcome.result
        what = "call it with" if outcome.kind is OutcomeKind.EDITED else "use this result"
        said = f"{outcome.message}; it did not run: {what} {json.dumps(instead)}"
        return refuse("denied", "system_denied", said)
    if outcome.kind in (OutcomeKind.DENIED, OutcomeKind.ABORTED):
        people = decision is not None and decision.reason in (Reason.PERSON, Reason.FEEDBACK)
        return refuse("denied", "user_denied" if people else "system_denied", outcome.message)
    timeout = outcome.kind is OutcomeKind.EXPIRED
    return refuse("cancelled", "timeout" if timeout else "system_cancelled", outcome.message)


def refuse(status: str, reason: str, message: str) -> JsonObject:
    """Return a body that approves nothing."""
    return {"status": status, "reason": reason, "message": message}


def _take(data: Any, members: Mapping[str, type]) -> JsonObject:
    if not isinstance(data, dict):
        raise BadMessage("this is no JSON object")
    for name, kind in members.items():
        if not isinstance(data.get(name), kind):
            raise BadMessage(f"{name} is missing, or of another type")
    return data


def _time_left(timeout: Any, attempt: int) -> float | None:
    """Return our seconds, which end before Dexto's; None takes the gateway's route."""
    if timeout is None:
        return None
    if not isinstance(timeout, int) or isinstance(timeout, bool) or timeout <= 0:
        raise BadMessage("timeout is not a number of milliseconds")
    left = timeout / 1000 - _ATTEMPT_SECONDS * (attempt - 1)
    if left <= 0:
        raise BadMessage("it arrived after its timeout")
    return max(left / 2, left - max(2.0, min(_LONGEST_MARGIN, left / 10)))


def _read_tool(metadata: JsonObject) -> tuple[str, JsonObject, JsonObject]:
    members = _take(metadata, _TOOL_MEMBERS)
    tool, arguments = members["toolName"], members["args"]
    rest = {
        name: value for name, value in metadata.items() if name not in _ABOUT | set(_TOOL_MEMBERS)
    }
    home, _, name = tool.rpartition("--")
    own = name if home in _OWN else ""
    roles = {one: role for one, role in _ROLES.get(own, {}).items() if one in arguments}
    details = {
        "kind": Kind.COMMAND if own in _COMMAND_TOOLS else Kind.TOOL,
        "roles": roles,
        "hint": _text(metadata.get("description")),
        "preview": _read_preview(metadata.get("displayPreview")),
        "payload": rest or None,  # such as the access to a folder that comes with it
    }
    return tool, arguments, details


def _read_command(metadata: JsonObject) -> tuple[str, JsonObject, JsonObject]:
    members = _take(metadata, _COMMAND_MEMBERS)
    # Both are shown: which of them runs is not said.
    arguments = {
        name: value
        for name in ("command", "originalCommand")
        if (value := metadata.get(name)) is not None
    }
    return (
        members["toolName"],
        arguments,
        {
            "kind": Kind.COMMAND,
            "roles": dict.fromkeys(arguments, "command"),
        },
    )


def _read_custom(metadata: JsonObject) -> tuple[str, JsonObject, JsonObject]:
    return "dexto_custom", metadata, {}


def _read_form(metadata: JsonObject) -> tuple[str, JsonObject, JsonObject]:
    members = _take(metadata, _FORM_MEMBERS)
    arguments = {"question": members["prompt"], "server": members["serverName"]}
    questions = tuple(_read_fields(members["schema"]))
    if not questions:
        raise BadMessage("the form has no fields")
    allowed = (Action.ANSWER, Action.DENY)
    return (
        "elicitation",
        arguments,
        {
            "kind": Kind.QUESTION,
            "questions": questions,
            "allowed": allowed,
        },
    )


_READERS = {
    "tool_approval": _read_tool,
    "command_approval": _read_command,
    "elicitation": _read_form,
    "custom": _read_custom,
}


def _read_fields(schema: JsonObject) -> Iterator[Question]:
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise BadMessage("the form is no schema of an object")
    for name, one in properties.items():
        if not isinstance(one, dict):
            raise BadMessage(f"the field {name[:40]!r} is no schema")
        title, more = _text(one.get("title")) or name, _text(one.get("description"))
        kind, options = _read_kind(name, one)
        yield Question(
            id=name,
            text=f"{title}: {more}" if more else title,
            kind=kind,
            options=options,
            required=name in required,
            secret=one.get("format") in _SECRET_FORMATS,
        )


def _read_kind(name: str, one: JsonObject) -> tuple[FieldKind, tuple[Option, ...]]:
    kind = one.get("type")
    listed = one.get("items") if kind == "array" else one
    values = listed.get("enum") if isinstance(listed, dict) else None
    if values is not None and kind in ("string", "array"):
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise BadMessage(f"the choices of {name[:40]!r} are no texts")
        names = one.get("enumNames")
        labels = names if isinstance(names, list) and len(names) == len(values) else values
        options = tuple(Option(value=v, label=str(s)) for v, s in zip(values, labels, strict=True))
        return (FieldKind.CHOICES if kind == "array" else FieldKind.CHOICE), options
    if not isinstance(kind, str) or kind not in _KINDS or values is not None:
        raise BadMessage(f"the field {name[:40]!r} is of a type that no card can ask for")
    return _KINDS[kind], ()


def _write_form(asked: Asked, answers: Any) -> JsonObject:
    """Return the answers that were given; JSON has one kind of number, and Dexto's schema two."""
    form = {name: value for name, value in (answers or {}).items() if value is not None}
    for name in asked.integers & form.keys():
        if not float(form[name]).is_integer():
            raise BadMessage(f"{name[:40]!r} takes a whole number, and {form[name]} was answered")
        form[name] = int(form[name])
    return form


def _of(metadata: JsonObject, name: str) -> Any:
    return metadata["schema"]["properties"][name].get("type")


def _read_preview(display: Any) -> Preview | None:
    if isinstance(display, dict) and display.get("type") == "diff":
        text = _text(display.get("unified"))
        return Preview(format="diff", text=text) if text else None
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
