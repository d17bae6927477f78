"""Answers to `away until Mon 09:00 to @ben` and `back` in a chat: `change_absence`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from gateway.domain.absences import find_zone
from gateway.errors import InvalidRequest
from gateway.ports import AdapterApi, Identity, SystemClock

AWAY, BACK = "away", "back"
"""The words after a chat's command, or its subcommands."""
_FORM = re.compile(r"until\s+(.+?)\s+to\s+@?(\S.*)", re.IGNORECASE)
_WHEN = re.compile(r"([a-z]{3,9}|\d{4}-\d\d-\d\d)?\s*(\d{1,2}:\d\d)?")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_USAGE = "write it as: away until Mon 09:00 to @ben, with a day such as Mon or 2030-12-24 to come"


async def change_absence(
    api: AdapterApi, identity: Identity, verb: str, typed: str, zone: str = ""
) -> str:
    """Begin or end a person's absence, with times in a zone; return the text for them. Raises
    InvalidRequest, Unauthorized."""
    if verb == BACK:
        return await api.away.come_back(identity)
    if (found := _FORM.fullmatch(typed)) is None:
        raise InvalidRequest(_USAGE)
    here = datetime.fromtimestamp(SystemClock().now_ms() / 1000, find_zone(zone) or UTC)
    return await api.away.leave(identity, found[2], read_time(found[1], here), zone)


def read_time(typed: str, now: datetime) -> int:
    """Return a typed day, clock time or both in ms, in the zone of `now`. A weekday is the next
    one, and a day begins at 9:00. Raises InvalidRequest."""
    day, clock = found.groups() if (found := _WHEN.fullmatch(typed.lower())) else ("", "")
    week = (now.date() + timedelta(days=ahead) for ahead in range(8))
    try:
        at = time.fromisoformat((clock or "09:00").zfill(5))
        days = [one for one in week if _DAYS[one.weekday()].startswith(day or "")]
        days = days if not day or day.isalpha() else [date.fromisoformat(day)]
    except ValueError as error:
        raise InvalidRequest(_USAGE) from error
    times = [datetime.combine(one, at, tzinfo=now.tzinfo) for one in days if day or clock]
    if (later := next((one for one in times if one > now), None)) is None:
        raise InvalidRequest(_USAGE)
    return int(later.timestamp() * 1000)
