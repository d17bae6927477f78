"""The fields of an edit: typed, put together again, and no secret in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.cards.blocks import changes
from gateway.cards.forms import EditKind, WrongField, edit_as_text, edit_fields, put_together
from gateway.domain.records import StoredRequest
from tests.slack.states import asked

SECRET = "s3cr3t-Token-0123456789"
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "amount": {"type": "number", "maximum": 100},
        "mode": {"enum": ["fast", "safe"]},
        "level": {"enum": [1, 2, 3]},
    },
}
ARGUMENTS: dict[str, Any] = {
    "path": "/tmp/x",
    "amount": 12.0,
    "force": True,
    "mode": "safe",
    "level": 2,
    "text": "one\ntwo\n",
    "tags": ["a", "b"],
    "none": None,
}


def of(arguments: dict[str, Any], **more: Any) -> StoredRequest:
    """Return a request with these arguments."""
    return asked(arguments=arguments, **more)


def ids(record: StoredRequest) -> dict[str, str]:
    """Return the ids of its fields by the arguments' names."""
    return {one.name: one.id for one in edit_fields(record)}


def test_each_argument_is_a_field_of_its_own_type() -> None:
    """Text, number, yes or no, a choice of the schema; a list as JSON; a long text has lines."""
    record = of(ARGUMENTS, schema=SCHEMA)
    found = {one.name: (one.kind, one.value) for one in edit_fields(record)}
    assert found == {
        "path": (EditKind.TEXT, "/tmp/x"),
        "amount": (EditKind.NUMBER, "12.0"),
        "force": (EditKind.BOOLEAN, "true"),
        "mode": (EditKind.CHOICE, "1"),
        "level": (EditKind.CHOICE, "1"),
        "text": (EditKind.LINES, "one\ntwo\n"),
        "tags": (EditKind.JSON, '[\n  "a",\n  "b"\n]'),
        "none": (EditKind.JSON, "null"),
    }
    labels = [one.label.text for one in edit_fields(record)]
    assert all(label.startswith('"') and label.endswith('"') for label in labels)


def test_what_nobody_touched_stays_to_the_last_digit() -> None:
    """Line ends and blanks at the ends are written by clients in their own way; 12.0 stays 12.0,
    and a text keeps its last line end."""
    record = of(ARGUMENTS, schema=SCHEMA)
    typed = {one.id: one.value.replace("\n", "\r\n").strip() for one in edit_fields(record)}
    assert json.dumps(put_together(record, typed)) == json.dumps(ARGUMENTS)
    assert json.dumps(put_together(record, {})) == json.dumps(ARGUMENTS)


def test_what_was_typed_is_what_runs() -> None:
    """Each kind is read as what it is."""
    record = of(ARGUMENTS, schema=SCHEMA)
    names = ids(record)
    typed = {
        "path": "",
        "amount": "7",
        "force": "false",
        "mode": "0",
        "level": "2",
        "text": 'a "b"\r\nc',
        "tags": "[1]",
        "none": '"x"',
    }
    made = put_together(record, {names[name]: text for name, text in typed.items()})
    assert made == {
        "path": "",
        "amount": 7,
        "force": False,
        "mode": "fast",
        "level": 3,
        "text": 'a "b"\nc',
        "tags": [1],
        "none": "x",
    }
    assert isinstance(made["amount"], int)


@pytest.mark.parametrize(
    ("name", "typed", "said"),
    [
        ("amount", "many", "not a number"),
        ("amount", "true", "not a number"),
        ("amount", "NaN", "not a number"),
        ("amount", "1000", "do not fit"),
        ("force", "maybe", "yes or no"),
        ("mode", "7", "one of the offered"),
        ("mode", "-1", "one of the offered"),
        ("tags", '["a"', "not valid JSON"),
        ("tags", '{"a": 1, "a": 2}', "not valid JSON"),
        ("path", "a\x00b", "cannot be sent"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(name: str, typed: str, said: str) -> None:
    """No value of its type, or none that the schema takes: the field is named, nothing is made."""
    record = of(ARGUMENTS, schema=SCHEMA)
    with pytest.raises(WrongField, match=said) as wrong:
        put_together(record, {ids(record)[name]: typed})
    assert wrong.value.field == ids(record)[name]


def test_a_field_that_is_not_there_is_refused() -> None:
    """Whoever sends it did not see this request."""
    with pytest.raises(WrongField):
        put_together(of({"a": 1}), {"arg7": "2"})


@pytest.mark.parametrize(
    "arguments",
    [
        {"token": SECRET, "n": 1},
        {"command": f"curl -H 'Authorization: Bearer {SECRET}' https://x", "n": 1},
        {"argv": ["deploy", "--password", SECRET], "n": 1},
        {"name": "password", "value": SECRET, "n": 1},
        {"flag": "--token", "value": SECRET, "n": 1},
        {"deep": {"api_key": SECRET}, "n": 1},
    ],
)
def test_a_secret_is_never_handed_out_and_stays_unless_it_is_typed_anew(
    arguments: dict[str, Any],
) -> None:
    """Also where another argument, or a line above, tells that it is one. Its field begins empty;
    left so, the same bytes run; typed anew, the new ones."""
    record = of(arguments)
    fields = edit_fields(record)
    assert SECRET not in str(fields)
    assert any(one.masked for one in fields)
    typed = {one.id: one.value for one in fields} | {ids(record)["n"]: "2"}
    assert put_together(record, typed) == {**arguments, "n": 2}
    assert SECRET in str([one.value for one in edit_fields(record, reveal=True)])
    masked = next(one for one in fields if one.masked)
    anew = '["x"]' if isinstance(arguments[masked.name], list | dict) else "other"
    made = put_together(record, {masked.id: anew})
    assert made[masked.name] in (["x"], "other")


def test_a_diff_shows_no_secret_that_a_line_above_tells() -> None:
    """A flag and its value stand on two lines of a diff; it is masked all the same."""
    before = {"argv": ["deploy", "--password", SECRET], "n": 1}
    rows = changes(before, {**before, "n": 2})
    assert rows
    assert SECRET not in "".join(row.text.text for row in rows)


def test_a_text_that_does_not_show_whole_is_edited_as_json() -> None:
    """Nobody edits what they cannot see: each such character is written as an escape."""
    (field,) = edit_fields(of({"command": "ls \u202egnp.exe"}))
    assert (field.kind, field.value) == (EditKind.JSON, '"ls \\u202egnp.exe"')


def test_fields_become_raw_json() -> None:
    """With what was typed so far, or as it was where that is no value yet."""
    record = of({"n": 1, "path": "x"})
    names = ids(record)
    assert json.loads(edit_as_text(record, {names["n"]: "2"})) == {"n": 2, "path": "x"}
    assert json.loads(edit_as_text(record, {names["n"]: "two"})) == {"n": 1, "path": "x"}


def test_what_is_too_large_has_no_fields() -> None:
    """Nobody edits it on a card."""
    assert edit_fields(of({"text": "x" * 200_001})) == ()
