"""Define the devices that receive web push messages, and the calls for web pages in
`DeviceCalls`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from gateway.domain.absences import find_zone
from gateway.domain.records import Identity
from gateway.models import Action
from gateway.wire.codec import Wire

# A device is the browser of a signed-in person that receives web push. It ends with its session.

PUSH = "push"
"""Name of the outbox queue for web push."""
MOST_DEVICES = 10
"""Limit for one person."""

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushDevice(Wire):
    """One browser of a person. `id` is derived from its push `endpoint`.

    `key` and `auth` encrypt messages for the browser. `server_key` is the gateway's public key that
    it subscribed with. `place` is the adapter, `session` the hash of the session. A `discreet`
    device shows nothing of the call. `failure` is the last error, which occurred at `failed_at`, or
    "" after a success.
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
    """The hours in which a person gets no notifications: from `begin` to `end`, such as 22:00, in a
    time zone such as Europe/Berlin. If `high` is set, high-risk requests still notify."""

    begin: str
    end: str
    zone: str
    high: bool = False

    def problem(self) -> str:
        """Return why the values are invalid, or ""."""
        if not (_CLOCK.fullmatch(self.begin) and _CLOCK.fullmatch(self.end)):
            return "write each time as HH:MM, for example 22:00"
        if self.begin == self.end:
            return "quiet hours must not begin and end at the same time"
        return (
            "" if find_zone(self.zone) else "unknown time zone; write a name such as Europe/Berlin"
        )

    def seconds_left(self, now_ms: int) -> float:
        """Return the seconds until the quiet hours end, or 0 outside them."""
        zone = find_zone(self.zone)
        if zone is None:  # known when saved: better notify than be silent
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


def _minutes(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[3:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The push subscription that the browser returned, and a label for the device."""

    endpoint: str
    key: str
    auth: str
    label: str


class DeviceCalls(Protocol):
    """Manage the devices of the signed-in person, or of an identity that a route admits
    directly."""

    @property
    def missing(self) -> str:
        """A sentence that says why web push is unavailable, or ""."""

    def server_key(self) -> str:
        """Return the public key for browser subscriptions. Raises Conflict with the sentence of
        `missing`."""

    async def subscribe(self, identity: Identity, session: str, wish: Subscription) -> PushDevice:
        """Send this browser notifications until the session ends.

        Raises Conflict with the sentence of `missing`, or if the person has too many devices.
        Raises InvalidRequest if the subscription is malformed or the gateway may not call its
        address.
        """

    async def devices(self, identity: Identity) -> Sequence[PushDevice]:
        """Return the person's devices, oldest first."""

    def is_of(self, device: PushDevice, session: str) -> bool:
        """Return whether a device subscribed in this session."""

    async def set_discreet(self, identity: Identity, device_id: str, *, on: bool) -> None:
        """Choose whether a device shows nothing of the call. Raises NotFound."""

    async def remove(self, identity: Identity, device_id: str) -> None:
        """Remove a device of the person. Raises NotFound."""

    async def test(self, identity: Identity, device_id: str) -> None:
        """Send a test notification. Raises NotFound, and DeliveryFailed with the push service's
        response."""

    async def quiet(self, identity: Identity) -> QuietHours | None:
        """Return the person's quiet hours, or None."""

    async def set_quiet(self, identity: Identity, hours: QuietHours | None) -> None:
        """Save the person's quiet hours, or remove them. Raises InvalidRequest."""

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
        """Check that a notification may decide a request. It must have shown the current call, and
        this session's device was offered an approval and still is.

        This decides nothing: call `decide` afterwards. Raises NotFound, Conflict.
        """


# Names of browsers and systems in a `User-Agent`.

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
    """Return the browser and system that a `User-Agent` names, such as "Firefox on Linux". Anybody
    can forge the header, so the result contains only names from the lists in this module."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "A browser")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return f"{browser} on {system}" if system else browser
