"""Convert arguments to the typed fields of an edit form, and back. Start reading at `edit_fields`.

A field that nobody changed keeps the exact value. A masked value is never shown: its field is empty
at first, and the value stays unless the person types a new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.cards.blocks import FORMATS, call_name, pretty
from gateway.domain.argument_order import put_short_first
from gateway.domain.parsing import Misfit, check_schema
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import mask, render_safe, secrets_in
from gateway.domain.safe_text import Visible, ascii_escaped, make_visible
from gateway.errors import InvalidRequest
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject

UNCHANGED = "masked: leave the field empty to keep its value"
MOST_CHOICES = 25
_LONG = 80  # characters: a longer text gets several lines
_MOST_CHARS = 200_000  # nobody edits more, and each view would have to read it
_ON, _OFF = "true", "false"


class EditKind(StrEnum):
    """The type of an edit field. `JSON` is a value written as JSON."""

    TEXT = "text"
    LINES = "lines"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditField:
    """One argument as a field of a form. `id` is chosen by the gateway; `label` is the argument's
    name, quoted. `value` is the field's initial content: "true" or "false", the index of a choice,
    else the text."""

    id: str
    name: str
    label: Visible
    kind: EditKind
    value: str
    choices: tuple[Visible, ...] = ()
    masked: bool = False


class WrongField(InvalidRequest):
    """A typed value is not valid; `field` is the id of its field, "" if several are at fault."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field


def edit_fields(record: StoredRequest, *, reveal: bool = False) -> tuple[EditField, ...]:
    """Return the fields to edit a request's arguments, in reading order. The list is empty if the
    arguments are too long."""
    arguments = record.arguments
    if len(pretty(arguments)) > _MOST_CHARS:
        return ()
    hidden = set() if reveal else _list_masked(arguments)
    schema = _properties(record.request.schema)
    return tuple(
        _field(f"arg{number}", name, arguments[name], schema.get(name), name in hidden)
        for number, name in enumerate(put_short_first(arguments))
    )


def put_together(
    record: StoredRequest, typed: Mapping[str, str], *, reveal: bool = False
) -> JsonObject:
    """Return the arguments with the values that a person typed, given by field id. All other values
    stay unchanged.

    Raises WrongField if a value has the wrong type or does not fit the request's schema.
    """
    fields = {one.id: one for one in edit_fields(record, reveal=reveal)}
    if strange := typed.keys() - fields.keys():
        raise WrongField("", f"unknown field {min(strange)!r}")
    arguments = dict(record.arguments)
    for name, given in typed.items():
        field = fields[name]
        if not _is_unchanged(field, given):
            arguments[field.name] = _read(field, given, record)
    check_edit(record, arguments, {one.name: one.id for one in fields.values()})
    return arguments


def check_edit(
    record: StoredRequest, arguments: JsonObject, ids: Mapping[str, str] | None = None
) -> None:
    """Raise WrongField unless the arguments fit the request's schema. `ids` maps argument names to
    field ids, so that the error can name the field."""
    try:
        check_schema(record.request.schema, arguments)
    except Misfit as misfit:
        raise WrongField((ids or {}).get(misfit.member, ""), str(misfit)) from misfit


def edit_as_text(record: StoredRequest, typed: Mapping[str, str]) -> str:
    """Return the arguments, with the typed values, as JSON. If a typed value is invalid, return the
    current arguments."""
    try:
        arguments = put_together(record, typed)
    except InvalidRequest:
        arguments = record.arguments
    return ascii_escaped(pretty(arguments))


def _list_masked(arguments: JsonObject) -> set[str]:
    """Return the arguments that are masked when all arguments are shown together, because one
    argument may reveal that another is a secret."""
    masked = mask(arguments)
    found = {name for name, value in arguments.items() if masked.get(name) != value}
    spans = list(secrets_in(pretty(arguments)))
    begin = len("{\n")
    for name, value in arguments.items():
        end = begin + len(pretty({name: value})) - len("{\n\n}")
        if any(start < end and begin < stop for start, stop in spans):
            found.add(name)
        begin = end + len(",\n")
    return found


def _properties(schema: JsonObject | None) -> JsonObject:
    found = schema.get("properties") if schema else None
    return found if isinstance(found, dict) else {}


def _field(name_of_field: str, name: str, value: Any, schema: Any, masked: bool) -> EditField:
    label = call_name(name)
    kind, text, choices = _kind(name, value, schema)
    if masked:
        text, choices = "", ()
        kind = EditKind.JSON if kind in (EditKind.BOOLEAN, EditKind.CHOICE) else kind
    return EditField(
        id=name_of_field,
        name=name,
        label=label,
        kind=kind,
        value=text,
        choices=choices,
        masked=masked,
    )


def _kind(name: str, value: Any, schema: Any) -> tuple[EditKind, str, tuple[Visible, ...]]:
    """Return the type of the field for a value, the field's initial content, and the choices."""
    offered = list(_choices(schema))
    if any(_same(value, one) for one in offered):
        at = next(number for number, one in enumerate(offered) if _same(value, one))
        return EditKind.CHOICE, str(at), tuple(map(_say_choice, offered))
    if isinstance(value, bool):
        return EditKind.BOOLEAN, _ON if value else _OFF, ()
    if isinstance(value, int | float):
        return EditKind.NUMBER, json.dumps(value), ()
    if isinstance(value, str) and not make_visible(value).suspicious and "\r" not in value:
        long = name in FORMATS or len(value) > _LONG or "\n" in value or "\t" in value
        return EditKind.LINES if long else EditKind.TEXT, value, ()
    # Also a text with invisible characters: as JSON, each of them can be read.
    return EditKind.JSON, ascii_escaped(pretty(value)), ()


def _choices(schema: Any) -> Iterator[Any]:
    """Yield the choices of a schema, or nothing if it has no plain list of choices."""
    found = schema.get("enum") if isinstance(schema, dict) else None
    if not isinstance(found, list) or not 1 < len(found) <= MOST_CHOICES:
        return
    if all(isinstance(one, str | int | float | bool) for one in found):
        yield from found


def _say_choice(value: Any) -> Visible:
    return render_safe(value if isinstance(value, str) and value else json.dumps(value))


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _is_unchanged(field: EditField, given: str) -> bool:
    """Whether a field still has its initial content. Line ends, and blanks at both ends, do not
    count, because clients change them."""
    return _plain(given) == _plain(field.value)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _read(field: EditField, given: str, record: StoredRequest) -> Any:
    if field.kind in (EditKind.TEXT, EditKind.LINES):
        text = given.replace("\r\n", "\n")
        return _parse(field, json.dumps(text), "this text contains characters that cannot be sent")
    if field.kind is EditKind.BOOLEAN:
        if given not in (_ON, _OFF):
            raise WrongField(field.id, "choose yes or no")
        return given == _ON
    if field.kind is EditKind.CHOICE:
        offered = list(_choices(_properties(record.request.schema).get(field.name)))
        if not given.isdecimal() or int(given) >= len(offered):
            raise WrongField(field.id, "choose one of the offered values")
        return offered[int(given)]
    value = _parse(field, given.strip(), "the answer is not valid JSON")
    if field.kind is EditKind.NUMBER and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        raise WrongField(field.id, "the answer is not a number")
    return value


def _parse(field: EditField, text: str, why: str) -> Any:
    try:
        return parse(text.encode("utf-8", "surrogatepass"))
    except InvalidRequest as error:
        said = "the answer is not a number" if field.kind is EditKind.NUMBER else f"{why}: {error}"
        raise WrongField(field.id, said) from error
