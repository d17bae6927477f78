"""Build modals, read what people submit, and show an edit before it is approved; start with
`build_modal`.

Discord cannot reopen a modal, so a refused edit gets a message with a button that opens it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import discord
from discord import ui

from adapters.discord.cards import (
    AS_JSON,
    MessageContent,
    escape_line,
    fence,
    render_summary,
)
from adapters.discord.custom_ids import DiscordButton
from gateway.cards.card import Card, Control, Field
from gateway.cards.forms import UNCHANGED, EditField, EditKind, edit_fields
from gateway.cards.shared_texts import (
    ANOTHER_PLAN,
    DENIALS,
    NUMBER_LABEL,
    NUMBER_OPTIONAL,
    SECRET_ASKED,
    clip,
    count_units,
)
from gateway.cards.shared_texts import BECAUSE as DENY_BECAUSE
from gateway.chat.answering import (
    KEPT_NOTE,
    NO,
    REASON,
    YES,
    YES_NO,
    EditState,
    Typed,
    name_left_out,
    read_answers,
    read_denial,
    warn_of_tries,
)
from gateway.chat.remembering import AGAIN, ASK
from gateway.models import Action, FieldKind
from gateway.ports import JsonObject, StoredRequest

# Modals: their fields, and their submitted values.

LONGEST_INPUT = 4000
_MOST_FORM_FIELDS = 5
_MOST_CHOICES = 25
LABEL, TEXT = 45, 100
NOTE, ARGUMENTS, RESULT = "note", "arguments", "result"
STOPS, NEXT, BECAUSE = "stops", "next", "because"
REPLAN = "replan"
TYPED = "number"
_SHOWS = (Action.DENY, Action.ABORT, Action.RESPOND)
_TITLES = {
    Action.DENY: "Deny",
    Action.ABORT: "Deny and stop",
    Action.RESPOND: "Answer instead of running it",
    Action.ANSWER: "Answer",
}


class Unfit(Exception):
    """A Discord modal cannot show this; the message says where the person can do it instead."""


def build_modal(
    action: Action, card: Card | None, button: DiscordButton, *, about: str = ""
) -> ui.Modal:
    """Build the modal of an action, with the text `about` above its fields. A denial needs no card.
    Raises Unfit."""
    modal = ui.Modal(title=_TITLES[action], custom_id=button.custom_id)
    if about and action in _SHOWS:
        modal.add_item(ui.TextDisplay(about))
    for label in _build_fields(action, card):
        modal.add_item(label)
    modal.stop()  # the handler reads the raw submission; discord.py need not keep the modal
    return modal


def build_number_modal(
    control: Control, button: DiscordButton, guesses: int, *, about: str
) -> ui.Modal:
    """Build the modal that asks for the verification code. `guesses` counts wrong codes so far;
    `about` is the text above the field."""
    modal = ui.Modal(title="Approve", custom_id=button.custom_id)
    modal.add_item(ui.TextDisplay(f"{about}\n{warn_of_tries(guesses)}"))
    field = build_text_field(
        NUMBER_LABEL,
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
            build_text_field("Reason", REASON, "The agent sees this. Optional."),
            build_text_field("Note for the record", NOTE, "The agent never sees this."),
        ]
        if action is Action.ABORT:
            return [*said, _build_stop_menu()]
        return [_build_reasons(), *said, _build_next_menu(card)]
    if card is None:
        raise Unfit("The gateway could not read the request. Try again.")
    if action is Action.RESPOND:
        return [build_text_field("Result", RESULT, "The agent gets this instead.", required=True)]
    return [_build_answer_field(at, field) for at, field in enumerate(_check_fields(card.fields))]


def _build_reasons() -> ui.Label[Any]:
    """Build a choice of common reasons for a denial."""
    options = [discord.RadioGroupOption(label=why, value=why) for why in DENIALS]
    chips: ui.RadioGroup[Any] = ui.RadioGroup(custom_id=BECAUSE, options=options, required=False)
    return ui.Label(text=DENY_BECAUSE, component=chips)


def _build_next_menu(card: Card | None) -> ui.Label[Any]:
    """Build one menu for another plan and for a denial's grant: a modal has room for one more."""
    options = [
        discord.SelectOption(label="Deny", value="deny", default=True),
        discord.SelectOption(label=ANOTHER_PLAN, value=REPLAN),
    ]
    if card is not None and Action.DENY in card.remembers:
        again = {value: words for value, words in AGAIN.items() if value != ASK}
        options += [discord.SelectOption(label=said, value=value) for value, said in again.items()]
    menu: ui.Select[Any] = ui.Select(custom_id=NEXT, options=options, required=False)
    return ui.Label(text="What the agent does next", component=menu)


def _build_stop_menu() -> ui.Label[Any]:
    options = [
        discord.SelectOption(label="Stop the turn", value="turn", default=True),
        discord.SelectOption(label="Stop the agent", value="agent"),
    ]
    return ui.Label(text="What to stop", component=ui.Select(custom_id=STOPS, options=options))


def build_text_field(
    label: str,
    name: str,
    says: str,
    *,
    value: str | None = None,
    required: bool = False,
    style: discord.TextStyle = discord.TextStyle.paragraph,
) -> ui.Label[Any]:
    """Build a text field; the label and `says`, the text below it, are cut to Discord's limits."""
    typed: ui.TextInput[Any] = ui.TextInput(
        custom_id=name, style=style, default=value, required=required, max_length=LONGEST_INPUT
    )
    return ui.Label(text=clip(label, LABEL), description=clip(says, TEXT) or None, component=typed)


def _check_fields(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    if any(field.secret for field in fields):
        raise Unfit(SECRET_ASKED)
    many = any(len(field.choices) > _MOST_CHOICES for field in fields)
    if many or len(fields) > _MOST_FORM_FIELDS:
        raise Unfit("This form is too long for Discord. Answer it in the inbox.")
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
        options = [discord.SelectOption(label=one.title(), value=one) for one in (YES, NO)]
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
    """Return the values of a submitted modal by field id."""
    found: dict[str, Any] = {}
    for part in data.get("components", []):
        component = part.get("component") or {}
        name = component.get("custom_id")
        if isinstance(name, str):
            found[name] = component.get("values", component.get("value"))
    return found


def read_content(action: Action, data: Any, fields: tuple[Field, ...]) -> JsonObject:
    """Convert a submitted modal to the content of a decision. Raises InvalidRequest."""
    given = read_values(data)
    if action is Action.RESPOND:
        return {"result": str(given.get(RESULT) or "")}
    if action is Action.ANSWER:
        return {
            "answers": read_answers(fields, [given.get(f"field{at}") for at in range(len(fields))])
        }
    chosen = "".join((given.get(NEXT) or [])[:1])
    said = read_denial(
        tapped=next((one for one in DENIALS if given.get(BECAUSE) == one), ""),
        reason=str(given.get(REASON) or ""),
        note=str(given.get(NOTE) or ""),
        replan=chosen == REPLAN,
        again=chosen,
    )
    stops = {"abort": str((given.get(STOPS) or ["turn"])[0])} if action is Action.ABORT else {}
    return said | stops


def read_typed(record: StoredRequest, button: DiscordButton, data: Any) -> Typed:
    """Return the text typed into an edit's modal: raw JSON, or the text of each field by id."""
    given = read_values(data)
    if button.more == AS_JSON:
        return str(given.get(ARGUMENTS) or "")
    found: dict[str, str] = {}
    for field in _list_shown(edit_fields(record)):
        if field.id in given:
            value = given[field.id]
            found[field.id] = str((value[0] if isinstance(value, list) and value else value) or "")
    return found


APPLY = "ok"  # approve the shown changes
KEPT, SURE = "k", "!"
_MOST_FIELDS = 4  # a modal has room for five parts; the first is the summary
_FEW = 10
_DIFF_UNITS = 2500
_SENTENCE = 1000


def build_edit_modal(
    record: StoredRequest, card: Card, button: DiscordButton, typed: Typed
) -> ui.Modal:
    """Build the modal of an edit, filled with text that was `typed` before. Raises Unfit."""
    fields = edit_fields(record)
    more = AS_JSON
    if isinstance(typed, str):
        parts = [ui.TextDisplay(render_summary(card)), _build_json_field(typed)]
    elif button.more == AS_JSON or not fields:
        parts = [ui.TextDisplay(render_summary(card)), _build_json_field(card.editable)]
    else:
        parts, more = _build_parts(card, fields, dict(typed)), ""
    modal = ui.Modal(
        title="Approve with changes",
        custom_id=button.with_verb(Action.EDIT.value, more=more).custom_id,
    )
    for part in parts:
        modal.add_item(part)
    modal.stop()  # the handler reads the raw submission; discord.py need not keep the modal
    return modal


def build_edit_state(button: DiscordButton, state: EditState) -> MessageContent:
    """Build a private message with the changes of an edit and a button to approve them, or with the
    reason why the edit was refused."""
    again = _build_again(button, state.key)
    if state.refusal:
        why = escape_line(state.refusal, _SENTENCE)
        return _build_private(f"✏️ {why} {KEPT_NOTE}", [again])
    text, whole = fence(state.diff, "diff", _DIFF_UNITS)
    lead = "🔴 With these changes the risk is high. Read every change.\n" if state.high else ""
    apply = button.with_verb(APPLY, more=f"{state.key}{SURE if state.high else ''}")
    approve: ui.Button[Any] = ui.Button(
        label="Approve these changes",
        style=discord.ButtonStyle.success,
        custom_id=apply.custom_id,
        disabled=not whole,
    )
    cut = "" if whole else "\n⚠️ Discord cannot show all changes. Edit the call in the inbox."
    said = f"{lead}Your changes. The call runs exactly like this.\n{text}{cut}"
    return _build_private(said, [approve, again])


def _build_again(button: DiscordButton, key: str) -> ui.Button[Any]:
    wanted = button.with_verb(Action.EDIT.value, more=f"{KEPT}{key}")
    return ui.Button(label="Edit again", custom_id=wanted.custom_id)


def _build_private(text: str, buttons: list[ui.Button[Any]]) -> MessageContent:
    view = ui.LayoutView(timeout=None)
    view.add_item(ui.TextDisplay(text)).add_item(ui.ActionRow(*buttons))
    view.stop()
    return MessageContent(view)


# --- the modals -------------------------------------------------------------------------------


def _build_parts(card: Card, fields: Sequence[EditField], typed: dict[str, str]) -> list[Any]:
    shown = _list_shown(fields)
    if not shown:
        raise Unfit("The call is too long to edit in Discord. Edit it in the inbox.")
    about = render_summary(card)
    if rest := name_left_out(fields, shown):
        where = "“Edit as JSON” has" if card.editable is not None else "The inbox has"
        about += f"\n-# {escape_line(rest, _SENTENCE)}. {where} all fields."
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
    named = [(str(at), one.text) for at, one in enumerate(field.choices)] or list(YES_NO)
    few = len(named) <= _FEW
    option = discord.RadioGroupOption if few else discord.SelectOption
    kind: Any = ui.RadioGroup if few else ui.Select
    options = [
        option(label=clip(text or "(empty)", TEXT), value=number, default=number == value)
        for number, text in named
    ]
    chosen = kind(custom_id=field.id, options=options)
    return ui.Label(text=clip(field.label.text, LABEL), component=chosen)


_SAYS = {EditKind.NUMBER: "A number", EditKind.JSON: "As JSON"}


def _build_json_field(text: str | None) -> ui.Label[Any]:
    if text is None:
        raise Unfit("The call contains secrets that are masked here. Edit it in the inbox.")
    if count_units(text) > LONGEST_INPUT:
        raise Unfit("The call is too long to edit in Discord. Edit it in the inbox.")
    says = "What will run."
    return build_text_field("Arguments (JSON)", ARGUMENTS, says, value=text, required=True)
