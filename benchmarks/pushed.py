"""From an agent's call to the notification on a desktop: the gateway encrypts and posts, a push
service of this machine takes it, and a whole Chromium shows it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import monotonic_ns

from benchmarks.table import Row, p50, percentile
from tests.web.chromium import at_home, running
from tests.web.desktop import Desktop, desktop
from tests.web.inbox import COMMAND, inbox
from tests.web.notified import turned_on
from tests.web.phone import push_service

_ROUNDS, _WARM_UP = 40, 3
_PAUSE_AT = 12  # notifications a minute: the budget of one device begins anew with each
_MS = 1_000_000


async def pushed() -> list[Row]:
    """Measure a push."""
    shown: list[int] = []
    sent: list[int] = []
    with tempfile.TemporaryDirectory(prefix="agw-bench-") as folder, desktop() as api:
        place = {"DBUS_SESSION_BUS_ADDRESS": api.address}
        with running(whole=True, environment=place) as address:
            while len(shown) < _ROUNDS:
                await _measure(Path(folder) / str(len(shown)), address, api, shown, sent)
    return [
        Row(
            name="push_to_shown_ms",
            value=p50(shown) / _MS,
            unit="ms",
            p99=percentile(shown, 99) / _MS,
            samples={
                "count": len(shown),
                "sent_p50_ms": p50(sent) / _MS,
                "sent_p99_ms": percentile(sent, 99) / _MS,
            },
        )
    ]


async def _measure(
    folder: Path, address: str, api: Desktop, shown: list[int], sent: list[int]
) -> None:
    """Time as many as one device is sent in a minute."""
    async with (
        push_service() as service,
        inbox(folder, push_hosts=(service.host,)) as box,
        at_home(address) as browser,
    ):
        device = await turned_on(box, browser, service)
        for number in range(_PAUSE_AT):
            began = monotonic_ns()
            await box.ask(**{**COMMAND, "arguments": {"command": f"make {number}"}})
            told = (await device.phone.pushed(number + 1))[number]
            taken = monotonic_ns()
            await device.deliver(told)
            await api.shows(f'make {number}"')
            if number >= _WARM_UP:
                shown.append(monotonic_ns() - began)
                sent.append(taken - began)
        await device.page.send("Page.close")
