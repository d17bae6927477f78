"""What a phone's first screen has of a request: what was found, what runs, and the answers."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.models import Status
from tests.danger import REMOVES
from tests.sweeps import sweep
from tests.web.chromium import PHONE, Page
from tests.web.inbox import (
    COMMAND,
    FILE_CHANGE,
    HIDING,
    HIGH_RISK,
    LONG,
    MASKED,
    QUESTION,
    Inbox,
    card,
    read_on,
    see,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

TALL: dict[str, Any] = {
    **COMMAND,
    "arguments": {"command": "\n".join(f"echo step {n}" for n in range(120))},
}
ANSWERS = "[...{card}.querySelectorAll('.main > button')].map((one) => one.textContent)"
ON_SCREEN = (
    "[...{card}.querySelectorAll('.main > button')].every((one) => {{"
    " const box = one.getBoundingClientRect();"
    " return box.top >= 0 && box.bottom <= innerHeight &&"
    " document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2) === one }})"
)


async def open_alone(box: Inbox, page: Page, details: dict[str, Any]) -> Any:
    """Open a request at its own address, on a phone; return it."""
    await page.size(PHONE)
    record = await box.ask(**details)
    await page.goto(f"{box.gateway.url}/inbox/r/{record.id}")
    await see(page, record)
    await page.until("!document.querySelector('.settling')")
    return record


@sweep("details", [COMMAND, FILE_CHANGE, HIGH_RISK, MASKED, TALL], few=2)
async def test_the_answers_are_on_the_first_screen(
    box: Inbox, page: Page, details: dict[str, Any]
) -> None:
    """However long the text is, none of them lies under another thing."""
    record = await open_alone(box, page, details)
    assert await page.evaluate(ON_SCREEN.format(card=card(record)))
    await page.evaluate("scrollBy(0, 400)")
    await page.until(ON_SCREEN.format(card=card(record)))


@pytest.mark.parametrize("gone", [False, True], ids=["waiting", "gone"])
@sweep(
    ("details", "label"),
    [
        (QUESTION, "Send answer"),
        (HIDING, "Reveal secrets"),
        (LONG, "Open everything"),
        (HIGH_RISK, "Review…"),
    ],
    few=2,
)
async def test_what_is_pressed_first_is_in_the_bar(
    box: Inbox, page: Page, details: dict[str, Any], label: str, gone: bool
) -> None:
    """Whatever that is, so that the bar covers none of it; of an idle request it says that."""
    await page.size(PHONE)
    record = await box.ask(**details)
    if gone:
        await box.leave()
    await see(page, record)
    shown = card(record)
    await page.until(f"!document.querySelector('.settling') && {ON_SCREEN.format(card=shown)}")
    assert await page.evaluate(ANSWERS.format(card=shown)) == [label, "Deny", "More…"]
    labels = f"[...{shown}.querySelectorAll('button')].map((one) => one.textContent)"
    assert (await page.evaluate(labels)).count(label) == 1
    idle = await page.evaluate(f"{shown}.querySelector('.main > .idle-word')?.textContent")
    assert idle == ("💤 Agent gone" if gone else None)
    bar = f"getComputedStyle({shown}.querySelector('.main')).position"
    assert await page.evaluate(bar) == "sticky"


async def test_what_was_not_on_the_screen_is_not_approved_by_a_tap(box: Inbox, page: Page) -> None:
    """Neither by a tap nor by a letter, which lead on instead; to deny it nothing must be read.
    Another's edit makes it unread."""
    await box.route(quorum=2)
    record = await open_alone(box, page, TALL)
    assert await page.evaluate(ANSWERS.format(card=card(record))) == ["Read on", "Deny", "More…"]
    before = await page.evaluate("scrollY")
    await page.evaluate(f"{card(record)}.focus({{preventScroll: true}})")
    await page.key("a")
    await page.until(f"scrollY > {before}")
    assert (await box.get(record)).votes == ()
    await read_on(page, record)
    assert await page.evaluate(ANSWERS.format(card=card(record))) == ["Approve", "Deny", "More…"]
    longer = {"command": "\n".join(f"echo other {n}" for n in range(400))}
    await box.change(record, longer)
    await page.until(f"{card(record)}.textContent.includes('echo other 399')")
    await page.evaluate("scrollTo(0, 0)")
    assert await page.evaluate(f"{card(record)}.querySelector('.approve')") is None
    assert (await box.get(record)).status is Status.PENDING


@sweep("details", [COMMAND, FILE_CHANGE, REMOVES, HIGH_RISK, MASKED], few=2)
async def test_little_is_read_before_what_runs(
    box: Inbox, page: Page, details: dict[str, Any]
) -> None:
    """In the page as it is drawn, twelve words at most beside what was found."""
    record = await open_alone(box, page, details)
    words = await page.evaluate(
        f"(() => {{ const range = document.createRange(); range.setStart({card(record)}, 0);"
        f" range.setEndBefore({card(record)}.querySelector('pre'));"
        " const parts = [...range.cloneContents().children];"
        " for (const one of parts) one.querySelectorAll('.finding').forEach((it) => it.remove());"
        " const rest = parts.filter((one) => !one.matches('.finding'));"
        " const text = rest.map((one) => one.textContent);"
        " return text.join(' ').split(/\\s+/).filter((one) => /[\\p{L}\\p{N}]/u.test(one)) })()"
    )
    assert 0 < len(words) <= 12, words
    found = await page.evaluate(f"{card(record)}.querySelector('.finding')?.textContent ?? ''")
    assert ("removes folders whole" in found) == (details is REMOVES)
    assert ("High risk" in " ".join(words)) == (details is HIGH_RISK)


async def test_only_what_was_opened_by_hand_is_made_small_again(box: Inbox, page: Page) -> None:
    """Where the address names one request it stands whole, and there is nothing to go back to."""
    record = await open_alone(box, page, TALL)
    assert "Show less" not in await page.evaluate(f"{card(record)}.textContent")
    await page.goto(f"{box.gateway.url}/inbox")
    await see(page, record)
    await page.press("Open everything")
    await page.until(f"{card(record)}.textContent.includes('step 119')")
    await page.evaluate(f"{card(record)}.querySelector('[data-key=less]').click()")
    await page.until(f"!{card(record)}.textContent.includes('step 119')")


async def test_ids_stand_behind_details(box: Inbox, page: Page) -> None:
    """Open are who asks, the tool, and where it runs; the rest is one tap away, and stays open when
    the card is drawn anew."""
    record = await open_alone(box, page, COMMAND)
    shown = f"[...{card(record)}.querySelectorAll('dt')].filter((one) => one.checkVisibility())"
    names = f"{shown}.map((one) => one.textContent)"
    assert await page.evaluate(names) == ["Agent", "Tool", "Host", "Folder"]
    digest = f"{card(record)}.querySelector('.mono').checkVisibility()"
    assert not await page.evaluate(digest)
    await page.evaluate(f"{card(record)}.querySelector('.about summary').click()")
    await page.until(digest)
    await box.claim(record)
    await page.until(f"{card(record)}.textContent.includes('bob is looking at it')")
    assert await page.evaluate(digest)
    assert await page.evaluate(f"{names}.includes('Session')")


async def test_nothing_runs_past_the_cards_edge(box: Inbox, page: Page) -> None:
    """Not its facts either, on the narrowest phone."""
    record = await open_alone(box, page, {**MASKED, "session": "a-session-" + "x" * 80})
    await page.size((320, 640))
    await page.evaluate(f"{card(record)}.querySelector('.about summary').click()")
    past = f"""(() => {{
      const edge = {card(record)}.getBoundingClientRect();
      return [...{card(record)}.querySelectorAll('*')].filter((one) => {{
        const box = one.getBoundingClientRect();
        return one.className !== 'unseen' && box.width &&
          (box.right > edge.right - 1 || box.left < edge.left + 1);
      }}).map((one) => one.outerHTML.slice(0, 80));
    }})()"""
    assert await page.evaluate(past) == []


async def test_the_ring_of_what_has_the_focus_is_whole(box: Inbox, page: Page) -> None:
    """What stands still at the top of the page clips it nowhere, nor does its own scrolling."""
    await page.size(PHONE)
    await box.ask(**COMMAND)
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until("document.querySelector('.row-link')")
    clipped = """(() => {
      const nav = document.querySelector('nav').getBoundingClientRect(), ring = 5;
      const under = [...document.querySelectorAll('.sides button')].filter((one) =>
        one.getBoundingClientRect().top - ring < nav.bottom);
      const beside = [...document.querySelectorAll('nav button')].filter((one) =>
        one.checkVisibility() && one.getBoundingClientRect().left - ring < nav.left);
      return [...under, ...beside].map((one) => one.textContent);
    })()"""
    assert await page.evaluate(clipped) == []
