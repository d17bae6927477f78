"""The fields of an edit: one for each argument, of its own type, and how they become arguments
again.

Whatever nobody touched stays the value that it was, to the last digit and blank. A masked value is
never handed out: its field begins empty, and stays as it was unless something is typed into it.
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

UNCHANGED = "masked: stays as it is unless you type another value"
MOST_CHOICES = 25
_LONG = 80  # characters of a text that gets several lines
_MOST_CHARS = 200_000  # nobody edits more, and each look would have to read it
_ON, _OFF = "true", "false"


class EditKind(StrEnum):
    """How an argument is typed. `JSON` is a value written as JSON."""

    TEXT = "text"
    LINES = "lines"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditField:
    """One argument as a field. `id` is ours; `label` is its name, quoted. `value` is what stands in
    it at first: "true" or "false" of a boolean, the number of a choice, else the text. `choices`
    are what may be chosen."""

    id: str
    name: str
    label: Visible
    kind: EditKind
    value: str
    choices: tuple[Visible, ...] = ()
    masked: bool = False


class WrongField(InvalidRequest):
    """What was typed does not do; `field` is the id of the field, "" where it is none alone."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field


def edit_fields(record: StoredRequest, *, reveal: bool = False) -> tuple[EditField, ...]:
    """Return the fields by which the arguments of a request are edited, in reading order; none
    where there is too much to edit."""
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
    """Return the arguments as they were typed, by the ids of fields. What is not among them, and
    what stands there as it stood at first, is unchanged.

    Raises WrongField for what is no value of its type, or does not fit the request's schema.
    """
    fields = {one.id: one for one in edit_fields(record, reveal=reveal)}
    if strange := typed.keys() - fields.keys():
        raise WrongField("", f"there is no field {min(strange)!r}")
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
    """Return when these arguments fit the request's schema. Raises WrongField, which names the
    field in which the trouble is, by `ids` of arguments."""
    try:
        check_schema(record.request.schema, arguments)
    except Misfit as misfit:
        raise WrongField((ids or {}).get(misfit.member, ""), str(misfit)) from misfit


def edit_as_text(record: StoredRequest, typed: Mapping[str, str]) -> str:
    """Return what was typed into fields as the raw JSON, or the arguments where it is no value."""
    try:
        arguments = put_together(record, typed)
    except InvalidRequest:
        arguments = record.arguments
    return ascii_escaped(pretty(arguments))


def _list_masked(arguments: JsonObject) -> set[str]:
    """Return the arguments of which something is masked where all of them stand together: what
    tells that a value is a secret may be another argument."""
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
    """Return how a value is typed, what stands in its field, and the choices."""
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
    # Also a text in which something does not show: as JSON each character of it can be read.
    return EditKind.JSON, ascii_escaped(pretty(value)), ()


def _choices(schema: Any) -> Iterator[Any]:
    """Yield what the schema lets one choose, nothing where it is no plain list."""
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
    """Whether a field holds what it held at first. Clients write line ends their own way, and some
    drop blanks at the ends; only what is more than that is a change."""
    return _plain(given) == _plain(field.value)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _read(field: EditField, given: str, record: StoredRequest) -> Any:
    if field.kind in (EditKind.TEXT, EditKind.LINES):
        text = given.replace("\r\n", "\n")
        return _parse(field, json.dumps(text), "this text cannot be sent")
    if field.kind is EditKind.BOOLEAN:
        if given not in (_ON, _OFF):
            raise WrongField(field.id, "it is yes or no")
        return given == _ON
    if field.kind is EditKind.CHOICE:
        offered = list(_choices(_properties(record.request.schema).get(field.name)))
        if not given.isdecimal() or int(given) >= len(offered):
            raise WrongField(field.id, "this was not offered")
        return offered[int(given)]
    value = _parse(field, given.strip(), "this is no JSON")
    if field.kind is EditKind.NUMBER and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        raise WrongField(field.id, "this is not a number")
    return value


def _parse(field: EditField, text: str, why: str) -> Any:
    try:
        return parse(text.encode("utf-8", "surrogatepass"))
    except InvalidRequest as error:
        said = "this is not a number" if field.kind is EditKind.NUMBER else f"{why}: {error}"
        raise WrongField(field.id, said) from error
