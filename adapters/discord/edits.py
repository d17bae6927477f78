"""Editing in Discord: modals and their fields, the raw JSON, and the changes that follow.

What was typed is kept for an hour, so that a refusal loses nothing: Discord shows no modal twice.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import discord
from discord import ui

from adapters.discord.cards import (
    AS_JSON,
    MessageContent,
    clip,
    count_units,
    escape_line,
    fence,
    render_head,
)
from adapters.discord.custom_ids import DiscordButton
from gateway.cards.blocks import changes
from gateway.cards.card import Card, Control, Field
from gateway.cards.forms import (
    UNCHANGED,
    EditField,
    EditKind,
    WrongField,
    check_edit,
    edit_fields,
    put_together,
)
from gateway.cards.words import (
    ANOTHER_PLAN,
    DENIALS,
    NUMBER_OPTIONAL,
    SAY_THE_PLAN,
    SECRET_ASKED,
    join_reason,
)
from gateway.cards.words import BECAUSE as DENY_BECAUSE
from gateway.errors import Conflict, InvalidRequest
from gateway.models import Action, FieldKind, RiskLevel
from gateway.ports import Desk, JsonObject, Record, parse_json

# Modals: their fields, and reading what was submitted.

LONGEST_INPUT = 4000
_MOST_FORM_FIELDS = 5
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
    if many or len(fields) > _MOST_FORM_FIELDS:
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


APPLY = "ok"  # approve the changes that were shown
_KEPT, _SURE = "k", "!"
_KEPT_SECONDS = 3600.0
_MOST_FIELDS = 4  # a modal has room for five things; the first says what it is about
_FEW = 10
_YES_NO = (("true", "Yes"), ("false", "No"))
_DIFF_UNITS = 2500
_SENTENCE = 1000

Typed = Mapping[str, str] | str
"""What was typed: into fields, by their ids, or the raw JSON."""


class EditMessages:
    """Opens the modals of an edit, keeps what was typed, and shows what that changes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def build_modal(self, record: Record, card: Card, button: DiscordButton) -> ui.Modal:
        """Return the modal, with what was typed before where the button says so. Raises Unfit, and
        Conflict when that is gone."""
        typed: Typed = {}
        if button.more.startswith(_KEPT):
            typed = await self._read_kept(button.more.removeprefix(_KEPT))
        return build_edit_modal(record, card, button, typed)

    async def show_changes(
        self, record: Record, button: DiscordButton, interaction: discord.Interaction
    ) -> MessageContent:
        """Return what was typed as a diff, to be approved, or what is wrong with it."""
        given = read_values(interaction.data)
        raw = button.more == AS_JSON
        typed: Typed = str(given.get(ARGUMENTS) or "") if raw else _read_fields(record, given)
        key = base64.urlsafe_b64encode(interaction.id.to_bytes(8, "big")).decode().rstrip("=")
        await self._desk.notes.put(_note(key), json.dumps(typed), seconds=_KEPT_SECONDS)
        try:
            arguments = _read(record, typed)
            if not changes(record.arguments, arguments):
                raise WrongField("", "nothing is changed: approve it as it is")
        except InvalidRequest as wrong:
            return build_refused_edit(button, key, str(wrong))
        return build_changes(record, button, key, arguments)

    async def read_arguments(self, record: Record, button: DiscordButton) -> JsonObject:
        """Return the arguments whose changes were shown. Raises Conflict when they are gone."""
        return _read(record, await self._read_kept(button.more.removesuffix(_SURE)))

    async def _read_kept(self, key: str) -> Typed:
        text = await self._desk.notes.get(_note(key))
        if text is None:
            raise Conflict("this edit was left for too long; edit it again")
        kept: Typed = json.loads(text)
        return kept


def is_sure(button: DiscordButton) -> bool:
    """Whether the changes were shown as high risk."""
    return button.more.endswith(_SURE)


def build_edit_modal(record: Record, card: Card, button: DiscordButton, typed: Typed) -> ui.Modal:
    """Return the modal of an edit, with what was `typed` before. Raises Unfit."""
    fields = edit_fields(record)
    more = AS_JSON
    if isinstance(typed, str):
        parts = [ui.TextDisplay(render_head(card)), _build_json_field(typed)]
    elif button.more == AS_JSON or not fields:
        parts = [ui.TextDisplay(render_head(card)), _build_json_field(card.editable)]
    else:
        parts, more = _build_parts(card, fields, dict(typed)), ""
    modal = ui.Modal(
        title="Approve with changes",
        custom_id=button.with_verb(Action.EDIT.value, more=more).custom_id,
    )
    for part in parts:
        modal.add_item(part)
    modal.stop()  # submissions are read raw; discord.py need not keep it
    return modal


def build_changes(
    record: Record, button: DiscordButton, key: str, arguments: JsonObject, *, high: bool = False
) -> MessageContent:
    """Return a private message with what an edit changes, and the buttons to approve it."""
    rows = changes(record.arguments, arguments)
    text, whole = fence(
        "\n".join(f"{row.sign} {row.text.text}" for row in rows), "diff", _DIFF_UNITS
    )
    high = high or record.risk.level is RiskLevel.HIGH
    lead = "🔴 With these changes it is high risk. Have you read all of it?\n" if high else ""
    apply = button.with_verb(APPLY, more=f"{key.removesuffix(_SURE)}{_SURE if high else ''}")
    approve: ui.Button[Any] = ui.Button(
        label="Approve these changes",
        style=discord.ButtonStyle.success,
        custom_id=apply.custom_id,
        disabled=not whole,
    )
    cut = "" if whole else "\n⚠️ Discord cannot show all of the changes: edit it in the inbox."
    said = f"{lead}This is what you changed. It runs exactly so.\n{text}{cut}"
    return _build_private(said, [approve, _build_again(button, key)])


def build_refused_edit(button: DiscordButton, key: str, why: str) -> MessageContent:
    """Return a private message that says what is wrong with an edit, which is kept."""
    said = escape_line(f"{why[:1].upper()}{why[1:].rstrip('.')}.", _SENTENCE)
    text = f"✏️ {said} Nothing was decided; what you typed is kept."
    return _build_private(text, [_build_again(button, key)])


def _build_again(button: DiscordButton, key: str) -> ui.Button[Any]:
    wanted = button.with_verb(Action.EDIT.value, more=f"{_KEPT}{key.removesuffix(_SURE)}")
    return ui.Button(label="Edit again", custom_id=wanted.custom_id)


def _build_private(text: str, buttons: list[ui.Button[Any]]) -> MessageContent:
    view = ui.LayoutView(timeout=None)
    view.add_item(ui.TextDisplay(text)).add_item(ui.ActionRow(*buttons))
    view.stop()
    return MessageContent(view)


def _note(key: str) -> str:
    return f"edit {key}"


# --- the modals -------------------------------------------------------------------------------


def _build_parts(card: Card, fields: Sequence[EditField], typed: dict[str, str]) -> list[Any]:
    shown = _list_shown(fields)
    if not shown:
        raise Unfit("It is too long to be edited in Discord. Edit it in the inbox.")
    rest = [one for one in fields if one not in shown]
    about = render_head(card)
    if rest:
        names = ", ".join(escape_line(one.label.text, LABEL) for one in rest[:3])
        more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""  # noqa: PLR2004 (those named)
        about += f"\n-# Not shown here, and unchanged: {names}{more}. "
        about += "“Edit as JSON” has all." if card.editable is not None else "The inbox has all."
    return [ui.TextDisplay(about), *(_build_field(one, typed.get(one.id)) for one in shown)]


def _list_shown(fields: Sequence[EditField]) -> list[EditField]:
    return [one for one in fields if count_units(one.value) <= LONGEST_INPUT][:_MOST_FIELDS]


def _build_field(field: EditField, typed: str | None) -> ui.Label[Any]:
    value = field.value if typed is None else typed
    if not field.choices and field.kind is not EditKind.BOOLEAN:
        long = field.kind in (EditKind.LINES, EditKind.JSON)
        return build_text_field(
            field.label.text,
            field.id,
            UNCHANGED if field.masked else _SAYS.get(field.kind, ""),
            value=value or None,
            style=discord.TextStyle.paragraph if long else discord.TextStyle.short,
        )
    named = [(str(at), one.text) for at, one in enumerate(field.choices)] or list(_YES_NO)
    chosen: Any = (
        _build_radio(field, named, value)
        if len(named) <= _FEW
        else _build_select(field, named, value)
    )
    return ui.Label(text=clip(field.label.text, LABEL), component=chosen)


_SAYS = {EditKind.NUMBER: "A number", EditKind.JSON: "As JSON"}


def _build_radio(field: EditField, named: list[tuple[str, str]], value: str) -> ui.RadioGroup[Any]:
    return ui.RadioGroup(
        custom_id=field.id,
        options=[
            discord.RadioGroupOption(
                label=clip(text or "(empty)", TEXT), value=number, default=number == value
            )
            for number, text in named
        ],
    )


def _build_select(field: EditField, named: list[tuple[str, str]], value: str) -> ui.Select[Any]:
    return ui.Select(
        custom_id=field.id,
        options=[
            discord.SelectOption(
                label=clip(text or "(empty)", TEXT), value=number, default=number == value
            )
            for number, text in named
        ],
    )


def _build_json_field(text: str | None) -> ui.Label[Any]:
    if text is None:
        raise Unfit("It holds secrets that are not shown here. Edit it in the inbox.")
    if count_units(text) > LONGEST_INPUT:
        raise Unfit("It is too long to be edited in Discord. Edit it in the inbox.")
    says = "What will run."
    return build_text_field("Arguments (JSON)", ARGUMENTS, says, value=text, required=True)


def _read_fields(record: Record, given: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for field in _list_shown(edit_fields(record)):
        if field.id in given:
            value = given[field.id]
            found[field.id] = str((value[0] if isinstance(value, list) and value else value) or "")
    return found


def _read(record: Record, typed: Typed) -> JsonObject:
    """Return the arguments as typed. Raises InvalidRequest."""
    if not isinstance(typed, str):
        return put_together(record, typed)
    value = parse_json(typed.encode("utf-8", "surrogatepass"))
    if not isinstance(value, dict):
        raise InvalidRequest("the arguments must be a JSON object")
    check_edit(record, value)
    return value
