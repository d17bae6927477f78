"""The queue in a real Chromium: short lines, soonest first, whose they are, and what is open."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.models import Risk, RiskLevel, Status
from tests.web.chromium import DESK, PHONE, Browser, Page
from tests.web.inbox import (
    AGENT,
    COMMAND,
    FILE_CHANGE,
    HIGH_RISK,
    HOSTILE,
    LONG,
    MASKED,
    QUESTION,
    Inbox,
    card,
    line,
    see,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

LINES = "[...document.querySelectorAll('.row-link')].map((one) => one.dataset.row)"
# Heads of which a part is out of sight.
_CUT = (
    "[...document.querySelectorAll('.row-head')]"
    ".filter((one) => one.scrollHeight > one.clientHeight && one.textContent.length < 60)"
    ".map((one) => one.textContent)"
)
TOP = "document.getElementById('rows').getBoundingClientRect().top"
FOURTEEN: tuple[dict[str, Any], ...] = (
    COMMAND,
    FILE_CHANGE,
    HIGH_RISK,
    HOSTILE,
    LONG,
    MASKED,
    QUESTION,
)


def side(name: str) -> str:
    """Return the JavaScript expression for the button of a side."""
    return f"document.querySelector('[data-side={name}]')"


async def test_the_soonest_deadline_stands_first(box: Inbox, page: Page) -> None:
    """Whatever was asked first, and also when it comes while one looks."""
    late = await box.ask(**COMMAND, timeout=900)
    await page.until(line(late))
    soon = await box.ask(**FILE_CHANGE, timeout=300)
    await page.until(f"{LINES}.length === 2")
    assert await page.evaluate(LINES) == [soon.id, late.id]
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until(f"{LINES}.length === 2")
    assert await page.evaluate(LINES) == [soon.id, late.id]


async def test_fourteen_requests_are_an_overview(box: Inbox, page: Page) -> None:
    """On about one and a half screens of a phone, each in one line or two of its head."""
    await page.size(PHONE)
    for number in range(14):
        await box.ask(**{**FOURTEEN[number % 7], "session": f"s{number}"})
    await page.until(f"{LINES}.length === 14")
    assert await page.evaluate("document.documentElement.scrollHeight") <= 1.6 * PHONE[1]
    heads = "[...document.querySelectorAll('.row-head')].map((one) => one.offsetHeight)"
    assert max(await page.evaluate(heads)) <= 46
    assert await page.evaluate(_CUT) == []
    assert not await page.evaluate("Boolean(document.querySelector('.card')?.checkVisibility())")


async def test_sides_tell_mine_from_others(box: Inbox, page: Page) -> None:
    """What I approved and what I may not decide waits for others; the counts stand on the sides."""
    await box.route(quorum=2)
    voted, fresh = await box.ask(**COMMAND), await box.ask(**FILE_CHANGE)
    await see(page, voted)
    await page.press("Approve", card(voted))
    await page.until(f"!{line(voted)} && {line(fresh)}")
    await page.until("document.title === '(1) Approvals'")
    for name, wanted in (("mine", "1"), ("others", "1"), ("all", "2")):
        assert await page.until(f"{side(name)}.lastElementChild.textContent") == wanted
    await page.evaluate(f"{side('others')}.click()")
    await page.until(f"{line(voted)} && !{line(fresh)}")
    assert "1 of 2 approved" in await page.evaluate(f"{line(voted)}.textContent")
    await page.evaluate(f"{side('all')}.click()")
    await page.until(f"{line(voted)} && {line(fresh)}")
    await box.route(approvers=("bob",))
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until("document.body.textContent.includes('You have no pending requests')")
    await page.until("document.title === 'Approvals'")


async def test_time_that_runs_out_has_a_colour_and_words(box: Inbox, page: Page) -> None:
    """In the last minute and in the last fifth; before that neither."""
    soon = await box.ask(**COMMAND, timeout=59)
    calm = await box.ask(**FILE_CHANGE, timeout=900)
    await page.until(f"{line(soon)} && {line(calm)}")

    async def look(record_line: str) -> list[bool]:
        shown: list[bool] = await page.evaluate(
            f"(() => {{ const one = {record_line}; return [getComputedStyle(one.querySelector("
            "'.row-soon')).visibility === 'visible', one.querySelector('.row-left').matches("
            "'.soon')] })()"
        )
        return shown

    assert await look(line(soon)) == [True, True]
    assert await look(line(calm)) == [False, False]
    await see(page, soon)
    said = f"{card(soon)}.querySelector('.countdown').textContent"
    assert (await page.evaluate(said)).startswith("ends soon: 0:")
    # The page's clock goes on: of fifteen minutes, the last three are the last fifth.
    later = "(() => { const now = Date.now; Date.now = () => now() + 721000; return true })()"
    await page.evaluate(later)
    await page.until(f"{line(calm)}.querySelector('.row-left').matches('.soon')")


async def test_a_tap_opens_it_and_back_leads_to_the_place(box: Inbox, page: Page) -> None:
    """On a phone the request stands alone at its own address; back is where one was."""
    await page.size(PHONE)
    made = [await box.ask(tool=f"tool-{n}", arguments={"n": n}, timeout=900 + n) for n in range(20)]
    last = made[-1]
    await page.until(f"{LINES}.length === 20")
    await page.evaluate(f"{line(last)}.scrollIntoView({{block: 'center'}})")
    at = await page.evaluate("scrollY")
    assert at > 0
    await page.until("!document.querySelector('.settling')")
    await page.evaluate(f"{line(last)}.click()")
    await page.until(f"{card(last)}?.checkVisibility()")
    assert await page.evaluate("location.pathname") == f"/inbox/r/{last.id}"
    assert await page.evaluate("[scrollY, document.activeElement.dataset.id]") == [0, last.id]
    assert not await page.evaluate(f"{line(made[0])}.checkVisibility()")
    await page.press("All requests")
    await page.until(f"{line(made[0])}.checkVisibility()")
    assert await page.evaluate("[location.pathname, scrollY]") == ["/inbox", at]
    assert await page.evaluate(f"document.activeElement === {line(last)}")


async def test_two_panes_on_a_desk(box: Inbox, page: Page) -> None:
    """The list stays beside what is open, and says which that is; an ended one stays in sight, and
    no other takes its place."""
    first, second = await box.ask(**COMMAND, timeout=300), await box.ask(**FILE_CHANGE)
    await page.until(f"{card(first)}?.checkVisibility() && {line(second)}")
    await page.press("Approve", card(first))
    await page.until(f"{card(first)}.classList.contains('approved') && !{line(first)}")
    assert await page.evaluate(f"{line(second)}.checkVisibility()")
    assert not await page.evaluate(f"Boolean({card(second)})")
    await see(page, second)
    assert await page.evaluate(f"{line(second)}.getAttribute('aria-current')") == "true"
    left, right = (
        f"{line(second)}.getBoundingClientRect()",
        f"{card(second)}.getBoundingClientRect()",
    )
    assert await page.evaluate(f"{left}.right < {right}.left")


async def test_letters_walk_from_one_to_the_next(box: Inbox, page: Page) -> None:
    """On a desk j and k open the next and the one before; on a phone they go along the lines."""
    first, second = await box.ask(**COMMAND, timeout=300), await box.ask(**FILE_CHANGE)
    await page.until(f"{card(first)} && {line(second)}")
    await page.key("j")
    await page.until(f"document.activeElement === {card(first)}")
    await page.key("j")
    await page.until(f"document.activeElement === {card(second)} && {card(second)}")
    await page.key("k")
    await page.until(f"document.activeElement === {card(first)} && {card(first)}")
    await page.key("d")
    await page.until(f"{card(first)}.classList.contains('denied')")
    assert (await box.get(second)).status is Status.PENDING
    await page.size(PHONE)
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until(line(second))
    await page.until("document.getElementById('who').textContent")
    await page.key("j")
    await page.until(f"document.activeElement === {line(second)}")
    await page.key("d")  # nothing is open: nothing is decided
    await page.key("Enter")
    await page.until(f"document.activeElement === {card(second)} && {card(second)}")
    assert (await box.get(second)).status is Status.PENDING


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_nothing_slides_when_lines_come(
    box: Inbox, page: Page, size: tuple[int, int]
) -> None:
    """The lines begin where they began, with one agent to review together or none; a line that
    comes above cannot be hit for a moment, and no tap on a line decides anything."""
    await page.size(size)
    before = await page.evaluate(TOP)
    first = await box.ask(**COMMAND)
    await page.until(line(first))
    assert await page.evaluate(TOP) == before
    second = await box.ask(**FILE_CHANGE, timeout=300)
    await page.until(f"document.querySelector('.together') && {line(second)}")
    assert await page.evaluate(TOP) == before
    assert await page.evaluate("Boolean(document.querySelector('#rows.settling'))")
    hit = f"getComputedStyle({line(second)}).pointerEvents"
    assert await page.evaluate(hit) == "none"
    await page.until(f"{hit} === 'auto'")
    assert await page.evaluate("document.getElementById('together').scrollHeight <= 60")


async def test_several_are_reviewed_together_from_the_queue(box: Inbox, page: Page) -> None:
    """Those that are mine, and not what is decided alone."""
    kinds: tuple[dict[str, Any], ...] = (COMMAND, FILE_CHANGE, HIGH_RISK, QUESTION)
    for number, kind in enumerate(kinds):
        await box.ask(**{**kind, "session": f"s{number}"})
    await page.press(f"Review 2 from {AGENT} together")
    await page.until("location.pathname === '/inbox/batch'")
    await page.until("document.querySelectorAll('.card').length === 2")


async def test_more_than_a_page_comes_while_one_scrolls(box: Inbox, page: Page) -> None:
    """Fifty lines at first; each stands once, in order, when the end is reached."""
    made = [await box.ask(tool=f"t{n}", arguments={"n": n}, timeout=500 + n) for n in range(70)]
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until(f"{LINES}.length >= 50")
    await page.evaluate("document.getElementById('older').scrollIntoView()")
    await page.until(f"{LINES}.length === 70")
    assert await page.evaluate(LINES) == [one.id for one in made]


async def test_whoever_may_decide_nothing_sees_what_waits(box: Inbox, browser: Browser) -> None:
    """Eve's badge is empty, and the queue of others is one tap away."""
    page = await browser.tab()
    await box.sign_in(page, "eve")
    record = await box.ask(**COMMAND, risk=Risk(level=RiskLevel.LOW))
    await page.until(f"{side('others')}.lastElementChild.textContent === '1'")
    assert await page.evaluate("document.title") == "Approvals"
    assert not await page.evaluate(f"Boolean({line(record)})")
    await page.evaluate(f"{side('others')}.click()")
    await page.until(line(record))
