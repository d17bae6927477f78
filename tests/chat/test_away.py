"""Times as people type them in a chat, and what is no time."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from gateway.chat.away import _FORM, read_time
from gateway.domain.absences import Absence, find_zone
from gateway.errors import InvalidRequest

BERLIN = ZoneInfo("Europe/Berlin")
FRIDAY = datetime(2026, 3, 27, 12, 0, tzinfo=BERLIN)  # two days before the clocks change


@pytest.mark.parametrize(
    ("typed", "then"),
    [
        ("Mon", "2026-03-30 09:00"),
        ("monday 9:30", "2026-03-30 09:30"),
        ("Fri", "2026-04-03 09:00"),
        ("fri 17:00", "2026-03-27 17:00"),
        ("17:00", "2026-03-27 17:00"),
        ("11:59", "2026-03-28 11:59"),
        ("2026-03-29", "2026-03-29 09:00"),
        ("2026-04-01 18:30", "2026-04-01 18:30"),
    ],
)
def test_times_that_people_type(typed: str, then: str) -> None:
    """The next such day and time in the person's zone, on both sides of a change of the clocks."""
    when = datetime.fromisoformat(then).replace(tzinfo=BERLIN)
    assert read_time(typed, FRIDAY) == when.timestamp() * 1000


@pytest.mark.parametrize(
    "typed",
    [
        *("", "soon", "mo", "25:00", "9", "2026-02-30", "2026-03-27 11:00", "1999-01-01"),
        *("mon tue", "2026-04-01T10:00", "mon 9:60", "None", "m" * 5000),
    ],
)
def test_what_is_no_time_to_come(typed: str) -> None:
    """It is refused with an example."""
    with pytest.raises(InvalidRequest, match="away until Mon 09:00 to @ben"):
        read_time(typed, FRIDAY)


def test_a_form_has_no_place_for_another_person() -> None:
    """The caller is the one who is away."""
    assert _FORM.fullmatch("until Mon 09:00 to @ben") is not None
    for typed in ("@ana until Mon to @ben", "until Mon", "to @ben", "for ana until Mon to ben"):
        assert _FORM.fullmatch(typed) is None


def test_an_absence_reads_in_its_zone() -> None:
    """A zone that nobody knows is UTC."""
    until = int(datetime(2026, 12, 7, 9, tzinfo=BERLIN).timestamp() * 1000)
    said = str(Absence(person="ana", delegate="ben", until=until, zone="Europe/Berlin"))
    assert said == "ana is away until Mon 07 Dec 09:00 CET; ben is asked instead"
    for zone in ("", "../../etc/passwd", "Mars/Base", "x" * 5000, "a\0b"):
        assert find_zone(zone) is None
        other = str(Absence(person="ana", delegate="ben", until=until, zone=zone))
        assert "Mon 07 Dec 08:00 UTC" in other
