"""The strict way in, without HTTP: what the Redis intake uses as well."""

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.parsing import LARGE_BYTES, parse_message, parse_off_loop, parse_request
from gateway.errors import InvalidRequest
from gateway.models import ApprovalRequest, Report
from gateway.wire.codec import plain
from tests.api.replica import made


def test_a_request_comes_back_as_it_was() -> None:
    """Writing and parsing are inverse."""
    request = made(
        hint="why",
        preview={"format": "shell", "text": "ls"},
        context={"cwd": "/tmp", "env": {"A": "b"}},
        allowed=["approve", "edit"],
        risk={"level": "high", "reasons": ["it deletes"]},
        timeout=5,
    )
    assert parse_request(json.dumps(plain(request)).encode()) == request


def test_a_wrong_digest_is_refused() -> None:
    """The bytes that are shown are the bytes that are hashed."""
    values = plain(made())
    values["arguments"] = {"command": "rm -rf /"}
    with pytest.raises(InvalidRequest, match="digest"):
        parse_request(json.dumps(values).encode())


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b'{"execution": "started", "x": 1}', "x is not a known member"),
        (b"{}", "execution is missing"),
        (b'{"execution": "started", "duration_ms": 1.5}', "duration_ms: "),
        (b'{"execution": "started", "duration_ms": true}', "duration_ms: "),
        (b"[]", "the message: "),
    ],
)
def test_the_sentence_names_the_member(raw: bytes, sentence: str) -> None:
    """An error can be acted on without seeing the schema."""
    with pytest.raises(InvalidRequest) as caught:
        parse_message(Report, raw)
    assert str(caught.value).startswith(sentence)


def test_a_long_member_name_is_cut() -> None:
    """A refusal does not repeat what it was flooded with."""
    with pytest.raises(InvalidRequest) as caught:
        parse_message(Report, json.dumps({"execution": "started", "x" * 10_000: 1}).encode())
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "number", ["1e999", "-1e0999", "9007199254740993", "1" * 400, "-9007199254740993", "9.9e+400"]
)
def test_numbers_that_libraries_read_differently_are_refused(number: str) -> None:
    """Also where no digest covers them."""
    raw = json.dumps(plain(made(schema={"maximum": "N"}))).encode()
    with pytest.raises(InvalidRequest):
        parse_request(raw.replace(b'"N"', number.encode()))


@given(st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_that_all_libraries_read_alike_are_taken(number: float) -> None:
    """The check for doubtful numbers refuses no good one."""
    request = made(arguments={"n": number}, schema={"maximum": number})
    assert parse_request(json.dumps(plain(request)).encode()).arguments == {"n": number}


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(raw: bytes) -> None:
    """Nothing but InvalidRequest comes out of rubbish."""
    with pytest.raises(InvalidRequest):
        parse_message(ApprovalRequest, raw)


async def test_large_messages_are_parsed_off_the_loop() -> None:
    """A megabyte of JSON does not stop the others; a small message costs no thread."""

    def where(raw: bytes) -> int:
        return threading.get_ident()

    assert await parse_off_loop(where, b"x" * LARGE_BYTES) == threading.get_ident()
    assert await parse_off_loop(where, b"x" * (LARGE_BYTES + 1)) != threading.get_ident()
