"""Editing in Slack: a field for each argument, the raw JSON one tap away, and the changes shown
before they are approved. What was typed is kept for an hour, so that a refusal loses nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from adapters.slack import modals
from adapters.slack.card_blocks import INPUT_UNITS, button, context, count_units, link, plain, row
from adapters.slack.card_blocks import option as build_option
from adapters.slack.modals import SubmittedValues
from adapters.slack.payloads import Act, Json, ModalMetadata
from gateway.errors import Conflict, InvalidRequest
from gateway.models import RiskLevel
from gateway.ports import (
    UNCHANGED,
    Card,
    Desk,
    EditField,
    EditKind,
    JsonObject,
    Record,
    WrongField,
    changes,
    check_edit,
    edit_as_text,
    edit_fields,
    put_together,
)

_KEPT_SECONDS = 3600.0
_MOST_FIELDS = 20
_YES_NO = (("true", "Yes"), ("false", "No"))
_WHOLE_NUMBER_CHARS = 15  # what a number field of a client keeps to the last digit

Typed = Mapping[str, str] | str
"""What was typed: into fields, by their ids, or the raw JSON."""


class EditModals:
    """Opens the forms of an edit, and keeps what was typed into them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def build(
        self, record: Record, card: Card, form: ModalMetadata, typed: Typed = "", refusal: str = ""
    ) -> Json:
        """Return the form: of fields, or of the raw JSON where that was typed."""
        fields = edit_fields(record)
        if isinstance(typed, str) and (typed or not fields):
            return build_json_form(card, form, typed or card.editable, refusal)
        return build_field_form(card, fields, form, dict(typed or {}), refusal)

    def build_as_json(self, record: Record, card: Card, form: ModalMetadata, view: Json) -> Json:
        """Return the raw JSON of what stands in an open form of fields."""
        typed = read_typed(SubmittedValues(view), edit_fields(record))
        text = edit_as_text(record, typed) if card.editable is not None else None
        return build_json_form(card, form, text)

    async def check(self, record: Record, form: ModalMetadata, nonce: str, typed: Typed) -> Json:
        """Return the modal that shows an edit as a diff. Confirming it decides, with exactly these
        arguments. Raises WrongField."""
        arguments = _read(record, typed)
        rows = changes(record.arguments, arguments)
        if not rows:
            raise WrongField("", "Nothing is changed: approve it as it is.")
        await self._desk.notes.put(_key(nonce), json.dumps(typed), seconds=_KEPT_SECONDS)
        high = record.risk.level is RiskLevel.HIGH
        return self.build_check(record, arguments, replace(form, kept=nonce, high=high))

    def build_check(self, record: Record, arguments: JsonObject, form: ModalMetadata) -> Json:
        """Return the modal that shows an edit as a diff, to be confirmed."""
        rows = changes(record.arguments, arguments)
        shown = "\n".join(f"{row.sign} {row.text.text}" for row in rows)
        return modals.build_edit_check(shown, form)

    async def read_kept(self, form: ModalMetadata) -> Typed:
        """Return what was typed into the form before. Raises Conflict when it is gone."""
        text = await self._desk.notes.get(_key(form.kept))
        if text is None:
            raise Conflict("this edit was left for too long; edit it again")
        kept: Typed = json.loads(text)
        return kept

    async def read_arguments(self, record: Record, form: ModalMetadata) -> JsonObject:
        """Return the arguments that were shown as a diff. Raises Conflict when they are gone."""
        return _read(record, await self.read_kept(form))


def build_field_form(
    card: Card,
    fields: Sequence[EditField],
    form: ModalMetadata,
    typed: Mapping[str, str],
    refusal: str = "",
) -> Json:
    """Return the modal with a field for each argument, as far as Slack has room for it."""
    shown = list_shown(fields)
    if not shown:
        return build_json_form(card, form, None)
    rest = [one for one in fields if one not in shown]
    inputs = [_build_input(one, typed.get(one.id)) for one in shown]
    blocks = [modals.render_summary_head(card), *_render_refusal(refusal), *inputs]
    if rest:
        names = ", ".join(one.label.text for one in rest[:5])
        more = f" and {len(rest) - 5} more" if len(rest) > 5 else ""  # noqa: PLR2004 (those named)
        blocks.append(context(plain(f"Not shown here, and unchanged: {names}{more}")))
    if card.editable is not None and count_units(card.editable) <= INPUT_UNITS:
        blocks.append(row("json", button("As JSON", Act.EDIT_JSON, form.button.encode())))
    elif card.inbox:
        blocks.append(row("json", link("As JSON, in the inbox", Act.OPEN, card.inbox)))
    return modals.build_modal(
        "Edit", blocks, form=form, kind=modals.EDIT_FIELDS, submit="Show the changes"
    )


def build_json_form(card: Card, form: ModalMetadata, text: str | None, refusal: str = "") -> Json:
    """Return the modal to edit the raw JSON."""
    if text is None or count_units(text) > INPUT_UNITS:
        why = "This is too long, or holds secrets: edit it in the inbox."
        return modals.build_referral("Edit", why, card.inbox)
    typed = {**modals.build_text_input(), "initial_value": text}
    blocks = [
        modals.render_summary_head(card),
        *_render_refusal(refusal),
        modals.build_input(modals.TEXT, "Arguments, as JSON", typed),
    ]
    return modals.build_modal(
        "Edit", blocks, form=form, kind=modals.EDIT, submit="Show the changes"
    )


def list_shown(fields: Sequence[EditField]) -> list[EditField]:
    """Return the fields that a modal has room for."""
    return [one for one in fields if count_units(one.value) <= INPUT_UNITS][:_MOST_FIELDS]


def read_typed(values: SubmittedValues, fields: Sequence[EditField]) -> dict[str, str]:
    """Return what was typed into a form of fields, by their ids."""
    found: dict[str, str] = {}
    for field in list_shown(fields):
        if not values.has(field.id):
            continue
        if field.choices or field.kind is EditKind.BOOLEAN:
            found[field.id] = values.read_choice(field.id) or ""
        else:
            found[field.id] = values.read_text(field.id)
    return found


def _read(record: Record, typed: Typed) -> JsonObject:
    """Return the arguments as typed. Raises WrongField."""
    if not isinstance(typed, str):
        return put_together(record, typed)
    try:
        arguments = modals.read_arguments(typed)
    except InvalidRequest as error:
        raise WrongField("", str(error)) from error
    check_edit(record, arguments)
    return arguments


def _build_input(field: EditField, typed: str | None) -> Json:
    value = field.value if typed is None else typed
    # One that is masked stays as it is where nothing is typed; one that was empty may stay so.
    may_be_empty = field.masked or not field.value.strip()
    made = modals.build_input(
        field.id, field.label.text, _build_element(field, value), optional=may_be_empty
    )
    if field.masked:
        made["hint"] = plain(UNCHANGED)
    return made


def _build_element(field: EditField, value: str) -> Json:
    if field.choices or field.kind is EditKind.BOOLEAN:
        named = [(str(at), one.text) for at, one in enumerate(field.choices)]
        options = [build_option(text, number) for number, text in named or _YES_NO]
        chosen = [one for one in options if one["value"] == value]
        initial = {"initial_option": chosen[0]} if chosen else {}
        few = len(options) <= modals.FEW_OPTIONS
        kind = "radio_buttons" if few else "static_select"
        return {**modals.build_choice(kind, options), **initial}
    standing: Json = {"initial_value": value} if value.strip() else {}
    if field.kind is EditKind.NUMBER and _fits_number_field(value):
        return {
            "type": "number_input",
            "action_id": modals.TEXT,
            "is_decimal_allowed": True,
            **standing,
        }
    element = {**modals.build_text_input(), **standing}
    element["multiline"] = field.kind in (EditKind.LINES, EditKind.JSON)
    return element


def _fits_number_field(value: str) -> bool:
    return "e" not in value.lower() and len(value) <= _WHOLE_NUMBER_CHARS


def _render_refusal(refusal: str) -> list[Json]:
    said = f"⚠️ {refusal[:1].upper()}{refusal[1:]}. Nothing was decided; what you typed is kept."
    return [context(plain(said))] if refusal else []


def _key(name: str) -> str:
    return f"edit {name}"
