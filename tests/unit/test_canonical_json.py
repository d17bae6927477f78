"""The strict way into JSON and the canonical way out."""

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.wire.canonical_json import canonical, parse, sha256_hex

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
_numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-(2**53) + 1, 2**53 - 1)
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _numbers | _text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_text, inner, max_size=5),
    max_leaves=20,
)


@given(_json)
def test_canonical_bytes_parse_back_to_the_same_value(value: Any) -> None:
    """What is hashed is what was meant: writing and reading give the same value."""
    assert parse(canonical(value)) == value


@given(_json)
def test_the_canonical_bytes_are_those_of_rfc_8785(value: Any) -> None:
    """The short way through the standard library writes what the standard's own library writes."""
    assert canonical(value) == rfc8785.dumps(value)


@given(_json)
def test_key_order_and_spacing_do_not_change_the_canonical_bytes(value: Any) -> None:
    """The same value has one digest, however it was written."""
    again = json.loads(json.dumps(value, indent=3, sort_keys=True))
    assert canonical(again) == canonical(value)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"cmd":"ls","cmd":"rm -rf /"}', "twice"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "Infinity"),
        (b'{"a":1e999}', "too large"),
        (b'{"a":[-9.9e+400]}', "too large"),
        (b"9007199254740992", "beyond"),
        (b'{"a":-9007199254740992}', "beyond"),
        (b'{"a":' + b"1" * 5000 + b"}", "beyond"),
        (b'{"a":"\\ud800"}', "canonical"),
        (b'{"a":"\\u0000"}', "NUL"),
        (b'{"a":"\x00"}', "NUL"),
        (b'{"a":1', "strict JSON"),
        (b"\xff\xfe", "strict JSON"),
        (b"", "strict JSON"),
        (b"[" * 65 + b"]" * 65, "deeper"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "deeper"),
    ],
)
def test_what_parsers_disagree_about_is_refused(raw: bytes, why: str) -> None:
    """Ambiguous or broken JSON never reaches anyone."""
    with pytest.raises(InvalidRequest, match=why):
        parse(raw)


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    """Only real nesting is bounded."""
    assert parse(json.dumps(["[" * 500]).encode()) == ["[" * 500]


def test_size_is_bounded_before_parsing() -> None:
    """An oversized message is refused by its length alone, even when it is no JSON."""
    with pytest.raises(InvalidRequest, match="bytes"):
        parse(b"x" * 11, max_bytes=10)


def test_integers_that_other_languages_would_round_are_refused() -> None:
    """A 64-bit id must travel as a string, or two parties would hash different numbers."""
    for refused, shown in ((2**53, "9007199254740992"), (-(10**30), f"-1{'0' * 30}")):
        for held in ({"id": refused}, {"a": [{"b": refused}], "c": 1.5}):
            with pytest.raises(
                InvalidRequest, match=f"the integer {shown} .* send the number as a string"
            ):
                canonical(held)
        with pytest.raises(
            InvalidRequest, match=f"the integer {shown} .* send the number as a string"
        ):
            parse(f'{{"id": {refused}}}'.encode())
    with pytest.raises(InvalidRequest, match=r"the integer of \d+ bits"):
        canonical({"id": 10**9999})
    with pytest.raises(InvalidRequest, match=r"the integer 1{40}… is"):
        parse(b"1" * 9999)


@pytest.mark.parametrize("value", [{1: "a"}, {"a": {None: 1}}, {"a", "b"}, b"a", {"a": "\ud800"}])
def test_what_json_cannot_hold_has_no_canonical_bytes(value: Any) -> None:
    """No key is turned into text on the quiet: two different values would share a digest."""
    with pytest.raises(InvalidRequest):
        canonical(value)


def test_rfc_8785_number_and_key_order() -> None:
    """The example properties of the standard: ES6 numbers, keys by UTF-16 code units."""
    value = {"b": 1e30, "a": 4.50, "\ufb33": 1, "\U0001f600": 2}
    assert canonical(value) == '{"a":4.5,"b":1e+30,"\U0001f600":2,"\ufb33":1}'.encode()


@pytest.mark.parametrize("length", [0, 1, 64, 16_384, 16_385, 1_000_000])
def test_small_and_large_data_have_the_same_hash(length: int) -> None:
    """Small data is hashed without OpenSSL, which `gateway ask` need not load then."""
    data = bytes(range(256)) * (length // 256 + 1)
    assert sha256_hex(data[:length]) == hashlib.sha256(data[:length]).hexdigest()
