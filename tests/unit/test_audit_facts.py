"""What an event of the audit says, a line for each member."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.records import AuditEvent
from gateway.ports import list_facts


def facts(**data: Any) -> list[str]:
    """Return the facts of an event with these members."""
    return list_facts(AuditEvent(id="1-0", type="reported", at=1, data=data))


def test_members_are_said_in_words_and_moments_as_such() -> None:
    """Of an object each member has a line of its own."""
    assert facts(decided_at=1_795_721_078_572, decided_by={"kind": "person", "name": "bob"}) == [
        "decided at: 2026-11-26 19:24:38 UTC",
        "decided by kind: person",
        "decided by name: bob",
    ]
    assert facts(done_at=True, left_at=10**20, tools=["a", "b"], none={}) == [
        "done at: yes",
        f"left at: {10**20}",
        "tools: a, b",
        "none: nothing",
    ]


def test_nothing_in_a_value_or_a_name_passes_for_another_fact() -> None:
    """Both are written as in JSON where they are more than a word."""
    forged = "no\ndecided by name: bob"
    assert facts(why=forged, **{forged: {"x\ny": 1}}) == [
        'why: "no\\ndecided by name: bob"',
        '"no\\ndecided by name: bob" "x\\ny": 1',
    ]


def test_nobody_reads_signatures_or_brackets() -> None:
    """Bytes are in the export; lists and objects are words; what is not set is not said."""
    people = [{"name": "ann", "admin": True, "identities": ["token:ann"]}, {"name": "b, c"}]
    assert facts(signature="bX4e0ngQpOup+5w==", action=None, people=people) == [
        "signature: there is one",
        'people: (name: ann; admin: yes; identities: token:ann), (name: "b, c")',
    ]


@pytest.mark.parametrize(
    "name", ["password", "api_key", "private_key", "aws_secret_access_key", "access_token"]
)
def test_a_secret_is_known_by_the_name_that_its_member_has(name: str) -> None:
    """Not by the words that people read instead."""
    for said in (facts(**{name: "sdlkfj3948sdf9834"}), facts(given={name: "sdlkfj3948sdf9834"})):
        assert "sdlkfj3948sdf9834" not in str(said)
