"""The calls that an adapter with pages of its own makes about devices that take web pushes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.domain.devices import PushDevice, QuietHours
from gateway.domain.records import Identity
from gateway.models import Action


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
