"""What the operator reads of somebody who claims something: names that they chose themselves."""

from __future__ import annotations

import pytest

from gateway.chat.claiming import describe_member, describe_place


@pytest.mark.parametrize(
    "name",
    [
        "Ana (@ana, full member, U1) in #ops",
        "Ana \uff08@ana, full member, U1\uff09 in #ops",
        "Ana\n\u2028(@ana, full member, U1)\x1b[2K",
        "Ana \u207d@ana, full member, U1\u207e",
    ],
)
def test_a_name_imitates_no_words_of_ours(name: str) -> None:
    """Round brackets, of whatever width, stand around our own words alone; all is in one line."""
    said = describe_member(name, "eve", "U2")
    assert said.count("(") == said.count(")") == 1
    assert said.endswith(" (@eve, full member, U2)") and "\n" not in said and "\x1b" not in said
    assert not {"\uff08", "\uff09", "\u207d", "\u207e", "\u2028"} & set(said)
    place = describe_place(name, name, "3 members")
    assert place.count("(") == 1 and place.endswith(" (3 members)")
