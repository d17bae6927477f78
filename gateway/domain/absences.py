"""People who are away, and the delegates asked instead of them; start at `Absence`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gateway.wire.codec import Wire

_MOST_ZONE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence(Wire):
    """A person who is away until a time, in ms since the epoch. `delegate` is the person who is
    asked instead; that gives them no right. `zone` is the time zone in which people read it."""

    person: str
    delegate: str
    until: int
    zone: str = ""

    def __str__(self) -> str:
        ends = datetime.fromtimestamp(self.until / 1000, find_zone(self.zone) or UTC)
        until = f"{ends:%a %d %b %H:%M %Z}"
        return f"{self.person} is away until {until}; {self.delegate} is asked instead"


def find_zone(name: str) -> ZoneInfo | None:
    """Return the time zone with this name, or None."""
    try:
        return ZoneInfo(name) if 0 < len(name) <= _MOST_ZONE else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
