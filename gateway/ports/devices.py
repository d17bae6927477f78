"""Devices that take web pushes: their values, and the calls of an adapter's pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gateway.domain.records import Identity
from gateway.models import Action
from gateway.wire.codec import Wire

# A device is a browser of a signed-in person that takes web pushes. It lives as long as its
# session.

PUSH = "push"
"""The outbox of requests that devices are told about."""
MOST_DEVICES = 10
"""Of one person."""

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_MOST_ZONE = 64  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class PushDevice(Wire):
    """One browser of a person. `id` follows from its `endpoint`, by which its push service knows
    it.

    `key` and `auth` encrypt for it; `server_key` is our public key that it was made for. It belongs
    to the adapter `place`, and to a `session`, by its hash. With `discreet` it shows nothing of
    what would run. `failure` says what went wrong last, at `failed_at`; "" after what went well.
    """

    id: str
    person: str
    place: str
    label: str
    endpoint: str
    key: str
    auth: str
    server_key: str
    session: str
    added: int
    discreet: bool = False
    failure: str = ""
    failed_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours(Wire):
    """When a person is not to be rung: from `begin` to `end`, as 22:00, in a time zone such as
    Europe/Berlin. With `high`, requests of high risk ring all the same."""

    begin: str
    end: str
    zone: str
    high: bool = False

    def problem(self) -> str:
        """Return what is wrong with them, "" for nothing."""
        if not (_CLOCK.fullmatch(self.begin) and _CLOCK.fullmatch(self.end)):
            return "write times as 22:00"
        if self.begin == self.end:
            return "they begin and end at the same time"
        return "" if _zone(self.zone) else "this time zone is not known here"

    def seconds_left(self, now_ms: int) -> float:
        """Return for how long they still are, 0 outside them."""
        zone = _zone(self.zone)
        if zone is None:  # it was known when it was written: better to ring than to be silent
            return 0.0
        here = datetime.fromtimestamp(now_ms / 1000, zone)
        begin, end, now = _minutes(self.begin), _minutes(self.end), here.hour * 60 + here.minute
        within = begin <= now < end if begin < end else now >= begin or now < end
        if not within:
            return 0.0
        ends = here.replace(hour=end // 60, minute=end % 60, second=0, microsecond=0)
        if ends <= here:
            ends += timedelta(days=1)
        return max(ends.timestamp() - now_ms / 1000, 1.0)


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if 0 < len(name) <= _MOST_ZONE else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _minutes(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[3:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a browser hands out to be pushed to, as it writes it, and what to call the device."""

    endpoint: str
    key: str
    auth: str
    label: str


class DeviceCalls(Protocol):
    """The devices of whoever is signed in: a person, or an identity that a route itself admits."""

    @property
    def missing(self) -> str:
        """Why nothing can be pushed here, as a sentence; "" where it can."""

    def server_key(self) -> str:
        """Return the public key that browsers subscribe with. Raises Conflict with `missing`."""

    async def subscribe(self, identity: Identity, session: str, wish: Subscription) -> PushDevice:
        """Have a browser told of requests as long as this session lives.

        Raises Conflict with `missing` or when the person has too many, InvalidRequest for what no
        browser hands out, or an address that must not be called.
        """

    async def devices(self, identity: Identity) -> Sequence[PushDevice]:
        """Return the person's devices, the oldest first."""

    def is_of(self, device: PushDevice, session: str) -> bool:
        """Whether a device was signed in with this session."""

    async def set_discreet(self, identity: Identity, device_id: str, *, on: bool) -> None:
        """Have a device show nothing of what would run, or show it. Raises NotFound."""

    async def remove(self, identity: Identity, device_id: str) -> None:
        """Forget a device of the person. Raises NotFound."""

    async def test(self, identity: Identity, device_id: str) -> None:
        """Send a notification that says that it is a test. Raises NotFound, and DeliveryFailed,
        which says what the push service answered."""

    async def quiet(self, identity: Identity) -> QuietHours | None:
        """Return the person's quiet hours."""

    async def set_quiet(self, identity: Identity, hours: QuietHours | None) -> None:
        """Keep the person's quiet hours, or none. Raises InvalidRequest."""

    async def check_answer(
        self,
        identity: Identity,
        session: str,
        *,
        request_id: str,
        revision: int,
        digest: str,
        action: Action,
    ) -> None:
        """Check that a notification could be answered so: what it showed is what would run, and an
        approval was offered to a device of this session, and still would be.

        It decides nothing: `decide` has the last word. Raises NotFound, Conflict.
        """


# Names a browser and its system in words, from what the browser says of itself.

_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("Python", "Python"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def name_device(user_agent: str) -> str:
    """Return browser and system of a `User-Agent`, as "Firefox on Linux". It is what the browser
    claims, made only of words of ours: a help to recognise a device, and no proof."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "A browser")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return f"{browser} on {system}" if system else browser
