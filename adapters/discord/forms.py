"""Modals: their fields, and reading what was submitted."""

from __future__ import annotations

from typing import Any

import discord
from discord import ui

from adapters.discord.custom_ids import DiscordButton
from adapters.discord.markup import clip
from gateway.errors import InvalidRequest
from gateway.models import Action, FieldKind
from gateway.ports import (
    ANOTHER_PLAN,
    DENIALS,
    NUMBER_OPTIONAL,
    SAY_THE_PLAN,
    SECRET_ASKED,
    Card,
    Control,
    Field,
    JsonObject,
    join_reason,
    parse_json,
)
from gateway.ports import BECAUSE as DENY_BECAUSE

LONGEST_INPUT = 4000
_MOST_FIELDS = 5
_MOST_CHOICES = 25
LABEL, TEXT = 45, 100
REASON, NOTE, ARGUMENTS, RESULT = "reason", "note", "arguments", "result"
STOPS, NEXT, BECAUSE = "stops", "next", "because"
REPLAN = "replan"
TYPED = "number"
_YES, _NO = "yes", "no"
_SHOWS = (Action.DENY, Action.ABORT, Action.RESPOND)
_TITLES = {
    Action.DENY: "Deny",
    Action.ABORT: "Deny and stop",
    Action.RESPOND: "Answer instead of running it",
    Action.ANSWER: "Answer",
}


class Unfit(Exception):
    """A Discord modal cannot show this; the text says where it can be done instead."""


def build_modal(
    action: Action, card: Card | None, button: DiscordButton, *, about: str = ""
) -> ui.Modal:
    """Return the modal that an action needs, below what it is `about`. Denying needs no card.
    Raises Unfit."""
    modal = ui.Modal(title=_TITLES[action], custom_id=button.custom_id)
    if about and action in _SHOWS:
        modal.add_item(ui.TextDisplay(about))
    for label in _build_fields(action, card):
        modal.add_item(label)
    modal.stop()  # submissions are read raw; discord.py need not keep it
    return modal


def build_number_modal(control: Control, button: DiscordButton, *, about: str) -> ui.Modal:
    """Return the modal that asks for the number of a step-up, below what it is `about`."""
    modal = ui.Modal(title="Approve", custom_id=button.custom_id)
    modal.add_item(ui.TextDisplay(about))
    field = build_text_field(
        "Number shown where the agent waits",
        TYPED,
        NUMBER_OPTIONAL if control.optional else "",
        required=not control.optional,
        style=discord.TextStyle.short,
    )
    modal.add_item(field)
    modal.stop()
    return modal


def _build_fields(action: Action, card: Card | None) -> list[ui.Label[Any]]:
    if action in (Action.DENY, Action.ABORT):
        said = [
            build_text_field("Reason", REASON, "The agent is told. May be empty."),
            build_text_field("Note for the record", NOTE, "The agent is never told."),
        ]
        if action is Action.ABORT:
            return [*said, _build_stop_menu()]
        return [_build_reasons(), *said, _build_next_menu()]
    if card is None:
        raise Unfit("This needs the request, and it could not be read. Try again.")
    if action is Action.RESPOND:
        return [build_text_field("Result", RESULT, "The agent gets this instead.", required=True)]
    return [_build_answer_field(at, field) for at, field in enumerate(_check_fields(card.fields))]


def _build_reasons() -> ui.Label[Any]:
    """Return the reasons that take one tap."""
    options = [discord.RadioGroupOption(label=why, value=why) for why in DENIALS]
    chips: ui.RadioGroup[Any] = ui.RadioGroup(custom_id=BECAUSE, options=options, required=False)
    return ui.Label(text=DENY_BECAUSE, component=chips)


def _build_next_menu() -> ui.Label[Any]:
    options = [
        discord.SelectOption(label="Deny", value="deny", default=True),
        discord.SelectOption(label=ANOTHER_PLAN, value=REPLAN),
    ]
    menu: ui.Select[Any] = ui.Select(custom_id=NEXT, options=options, required=False)
    return ui.Label(text="What then", component=menu)


def _build_stop_menu() -> ui.Label[Any]:
    options = [
        discord.SelectOption(label="Stop the turn", value="turn", default=True),
        discord.SelectOption(label="Stop the agent", value="agent"),
    ]
    return ui.Label(text="What stops", component=ui.Select(custom_id=STOPS, options=options))


def build_text_field(
    label: str,
    name: str,
    says: str,
    *,
    value: str | None = None,
    required: bool = False,
    style: discord.TextStyle = discord.TextStyle.paragraph,
) -> ui.Label[Any]:
    """Return a text field."""
    typed: ui.TextInput[Any] = ui.TextInput(
        custom_id=name, style=style, default=value, required=required, max_length=LONGEST_INPUT
    )
    return ui.Label(text=clip(label, LABEL), description=clip(says, TEXT) or None, component=typed)


def _check_fields(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    if any(field.secret for field in fields):
        raise Unfit(SECRET_ASKED)
    many = any(len(field.choices) > _MOST_CHOICES for field in fields)
    if many or len(fields) > _MOST_FIELDS:
        raise Unfit("It asks for more than fits into Discord. Answer it in the inbox.")
    return fields


def _build_answer_field(at: int, field: Field) -> ui.Label[Any]:
    name, text = f"field{at}", field.text.text
    rest = text[LABEL - 1 :] if len(text) > LABEL else ""
    if field.kind in (FieldKind.TEXT, FieldKind.NUMBER):
        short = field.kind is FieldKind.NUMBER
        style = discord.TextStyle.short if short else discord.TextStyle.paragraph
        says = rest or ("A number." if short else "Your answer.")
        return build_text_field(text, name, says, required=field.required, style=style)
    if field.kind is FieldKind.BOOLEAN:
        options = [discord.SelectOption(label=one.title(), value=one) for one in (_YES, _NO)]
    else:
        options = [
            # The index instead of the value, which may be too long for Discord.
            discord.SelectOption(label=clip(choice.label.text or "(empty)", TEXT), value=str(index))
            for index, choice in enumerate(field.choices)
        ]
    most = len(options) if field.kind is FieldKind.CHOICES else 1
    select: ui.Select[Any] = ui.Select(
        custom_id=name,
        options=options,
        required=field.required,
        min_values=1 if field.required else 0,
        max_values=most,
    )
    return ui.Label(text=clip(text, LABEL), description=clip(rest, TEXT) or None, component=select)


def read_values(data: Any) -> dict[str, Any]:
    """Return the values of a submitted modal by the ids of its fields."""
    found: dict[str, Any] = {}
    for part in data.get("components", []):
        component = part.get("component") or {}
        name = component.get("custom_id")
        if isinstance(name, str):
            found[name] = component.get("values", component.get("value"))
    return found


def read_content(action: Action, data: Any, fields: tuple[Field, ...]) -> JsonObject:
    """Return the members of a click from a submitted modal. Raises InvalidRequest."""
    given = read_values(data)
    if action in (Action.DENY, Action.ABORT):
        tapped = next((one for one in DENIALS if given.get(BECAUSE) == one), "")
        reason = join_reason(tapped, str(given.get(REASON) or ""))
        said: JsonObject = {"message": reason, "note": str(given.get(NOTE) or "")}
        if action is Action.DENY:
            return {**said, "feedback": check_plan(REPLAN in (given.get(NEXT) or []), reason)}
        return {**said, "abort": str((given.get(STOPS) or ["turn"])[0])}
    if action is Action.RESPOND:
        return {"result": str(given.get(RESULT) or "")}
    return {"answers": _read_answers(given, fields)}


def check_plan(wanted: bool, reason: str) -> bool:
    """Return whether another plan is wanted. Raises InvalidRequest for one without words."""
    if wanted and not reason:
        raise InvalidRequest(SAY_THE_PLAN)
    return wanted


def _read_answers(given: dict[str, Any], fields: tuple[Field, ...]) -> JsonObject:
    found = {
        field.id: _read_answer(given.get(f"field{at}"), field) for at, field in enumerate(fields)
    }
    return {name: value for name, value in found.items() if value is not None}


def _read_answer(value: Any, field: Field) -> Any:
    if value in (None, "", []):
        return None
    if field.kind is FieldKind.TEXT:
        return str(value)
    if field.kind is FieldKind.NUMBER:
        return _parse_number(str(value), field)
    if field.kind is FieldKind.BOOLEAN:
        return value[0] == _YES
    try:
        chosen = [field.choices[int(index)].value for index in value]
    except (ValueError, IndexError):
        raise InvalidRequest(f"the answer to {field.text.text!r} was not offered") from None
    return chosen if field.kind is FieldKind.CHOICES else chosen[0]


def _parse_number(text: str, field: Field) -> int | float:
    try:
        value = parse_json(text.strip().encode())
    except InvalidRequest:
        value = None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidRequest(f"the answer to {field.text.text!r} is not a number")
    return value
