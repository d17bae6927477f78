"""Absences in the inbox: the form on the page Notifications, its calls, and silent devices."""

from __future__ import annotations

from functools import partial

import pytest

from gateway.domain.time_and_tasks import SystemClock
from gateway.models import Risk, RiskLevel
from tests.web.chromium import Browser, Page
from tests.web.inbox import COMMAND, Inbox
from tests.web.phone import until
from tests.web.test_access import flaws
from tests.web.visitor import Visitor, visitor

pytestmark = pytest.mark.timeout(240)

HOUR_MS = 3_600_000


def later(hours: float = 1) -> int:
    """Return a time so many hours from now, in ms."""
    return SystemClock().now_ms() + int(hours * HOUR_MS)


async def leave(who: Visitor, to: str = "bob", hours: float = 1) -> tuple[int, str]:
    """Name a delegate as the page does; return the status and what is said."""
    body = {"delegate": to, "until": later(hours), "zone": "Europe/Berlin"}
    status, said = await who.post("away/leave", body)
    return status, said.get("says") or said["detail"]


@pytest.mark.browser
async def test_the_page_begins_and_ends_an_absence(
    box: Inbox, browser: Browser, page: Page
) -> None:
    """Ann picks bob and a time; the card says so; with one press she is back."""
    record = await box.ask(**COMMAND)
    await box.sign_in(page)
    await page.goto(f"{box.gateway.url}/inbox/notifications")
    await page.until("document.getElementById('away-says').textContent === 'You are not away.'")
    assert await flaws(page) == []
    await page.evaluate(
        "document.getElementById('until').value ="
        " new Date(Date.now() + 864e5).toISOString().slice(0, 16)"
    )
    await page.press("I am away")
    await page.until(
        "document.getElementById('away-says').textContent.includes('bob is asked instead')"
    )
    async with visitor(box) as ann:

        async def says(away: bool) -> bool:
            shown = str(await ann.shown(record))
            return away is ("ann is away until " in shown and "; bob is asked instead." in shown)

        await until(partial(says, True))
        await page.press("I am back")
        await page.until("document.getElementById('come-back').hidden")
        await until(partial(says, False))


async def test_who_is_named_and_who_is_not(box: Inbox) -> None:
    """The list holds those who share a route; whoever writes another name is refused, and so is a
    time that is past or far; nothing is kept."""
    async with visitor(box) as ann:
        assert await ann.get("away") == {"away": None, "names": ["bob"]}
        for to, hours in (("eve", 1), ("ann", 1), ("<b>", 1), ("bob", -1), ("bob", 24 * 61)):
            assert (await leave(ann, to, hours))[0] == 422
        for body in ({"delegate": "bob"}, {"delegate": 1, "until": later(), "zone": ""}, {}):
            assert (await ann.post("away/leave", body))[0] in (400, 422)
        for until in (10**400, -(10**400), True):
            body = {"delegate": "bob", "until": until, "zone": ""}
            assert (await ann.post("away/leave", body))[0] in (400, 422)
        more = {"delegate": "bob", "until": later(), "zone": "", "person": "bob"}
        assert (await ann.post("away/leave", more))[0] in (400, 422)
        assert (await ann.get("away"))["away"] is None
    assert await box.events("away_begun") == []


async def test_an_absence_is_ones_own(box: Inbox) -> None:
    """Bob's call ends nothing of ann's, a stolen tab without the token is refused, and what is said
    twice is kept once."""
    async with visitor(box) as ann, visitor(box, "bob") as bob:
        body = {"delegate": "bob", "until": later(), "zone": "Mars/Base" * 900}
        refused = await ann.post("away/leave", body, **{"X-CSRF-Token": "x"})
        assert refused[0] == 403
        for _ in range(2):
            status, said = await ann.post("away/leave", body)
            assert status == 200 and " UTC; bob is asked instead" in said["says"]
        assert await bob.post("away/back", {}) == (200, {"says": "You are not away."})
        assert (await leave(bob, "ann"))[0] == 422
        assert "ann is away until" in (await ann.get("away"))["away"]
        assert (await ann.post("away/back", {}))[0] == 200
        assert (await ann.get("away"))["away"] is None
    assert len(await box.events("away_begun")) == len(await box.events("away_ended")) == 1


async def test_the_queue_stays_as_it_is(box: Inbox) -> None:
    """Both may still decide, and high risk asks ann as ever."""
    async with visitor(box) as ann, visitor(box, "bob") as bob:
        await leave(ann)
        record = await box.ask(**COMMAND, risk=Risk(level=RiskLevel.HIGH))
        assert "asked instead" not in str(await ann.shown(record))
        record = await box.ask(**COMMAND)
        for who in (bob, ann):
            assert "asked instead" in str(await who.shown(record))
        assert (await ann.decide(record))[0] == 200
