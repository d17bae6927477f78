"""After an answer the inbox leads on, offers no second Yes, and trusts no line that is cut."""

from __future__ import annotations

import pytest

from gateway.domain.records import Remember
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.models import Risk, RiskLevel, Status
from tests.web.chromium import PHONE, Browser, Page
from tests.web.inbox import (
    COMMAND,
    CONNECTED,
    FILE_CHANGE,
    HIGH_RISK,
    Inbox,
    card,
    line,
    see,
)
from tests.world import identity

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

NEXT = "{card}.querySelector('.next')"
# Holds back what the gateway answers to one path, from the second time on, until it is let go.
HOLD = """
(() => {
  const real = window.fetch, asked = {};
  window.held = 0;
  window.letGo = null;
  const gate = new Promise((done) => { window.letGo = done });
  window.fetch = async (path, ...more) => {
    const answer = await real(path, ...more);
    if (!String(path).startsWith("%s")) return answer;
    asked[path] = (asked[path] ?? 0) + 1;
    if (asked[path] > %d) { window.held += 1; await gate; window.passed = true; }
    return answer;
  };
})()
"""
SESSIONS = "document.querySelector('table.sessions')?.textContent.includes('night-run')"
# Everything that waited for the answer has had its turn.
DRAWN = "window.passed && new Promise((done) => setTimeout(() => done(true), 300))"


async def test_a_vote_takes_its_yes_along(box: Inbox, page: Page) -> None:
    """Of two who must approve, the first sees that one more is needed, and nothing that approves:
    no Yes, no Approve, no approval to remember."""
    await box.route(risk=RulesByRisk(high=LevelRules(step_up=(StepUp.PERSON,))))
    high = Risk(level=RiskLevel.HIGH, reasons=("touches prod",))
    record = await box.ask(**{**COMMAND, "risk": high})
    await see(page, record)
    await page.press("Review…", card(record))
    await page.press("Yes, approve, 1 of 2", card(record))
    await page.until(f"{card(record)}.textContent.includes('You approved; waits for 1 more')")
    assert not await page.evaluate(f"Boolean({card(record)}.querySelector('.approve, .panel'))")


async def test_a_vote_of_another_tab_closes_what_would_approve(box: Inbox, page: Page) -> None:
    """The panel was open already when the same person voted elsewhere."""
    await box.route(quorum=2)
    for opener, panel in (("Review…", "confirm"), ("Remember…", "remember")):
        details = HIGH_RISK if panel == "confirm" else COMMAND
        record = await box.ask(**details)
        await see(page, record)
        await page.press(opener, card(record))
        await page.until(f"{card(record)}.querySelector('[data-panel={panel}]')")
        await box.decide(record, identity=identity("ann"))
        await page.until(f"{card(record)}.textContent.includes('You approved')")
        approves = f"{card(record)}.querySelector('.approve, [data-key=effect-0][value=approve]')"
        assert not await page.evaluate(f"Boolean({approves})")


async def test_one_tap_leads_to_the_next(box: Inbox, page: Page) -> None:
    """On a phone, from one that was answered to the one that ends soonest; with none left there is
    no such link."""
    await page.size(PHONE)
    first = await box.ask(**COMMAND, timeout=300)
    second = await box.ask(**FILE_CHANGE, timeout=600)
    await see(page, first)
    await page.press("Approve", card(first))
    await page.until(f"{card(first)}.classList.contains('approved')")
    await page.press("Next request", card(first))
    await page.until(f"{card(second)}?.checkVisibility()")
    assert await page.evaluate("location.pathname") == f"/inbox/r/{second.id}"
    assert await page.evaluate(f"document.activeElement === {card(second)}")
    await page.press("Approve", card(second))
    await page.until(f"{card(second)}.classList.contains('approved')")
    assert await page.evaluate(f"{NEXT.format(card=card(second))}.hidden")
    await box.ask(**HIGH_RISK)
    await page.until(f"!{NEXT.format(card=card(second))}.hidden")
    await page.press("All requests")
    await page.until("location.pathname === '/inbox'")


async def test_a_vote_leads_on_too(box: Inbox, page: Page) -> None:
    """What waits for somebody else keeps nobody: the way on stands where Approve stood."""
    await box.route(quorum=2)
    first, second = await box.ask(**COMMAND, timeout=300), await box.ask(**FILE_CHANGE)
    await see(page, first)
    await page.press("Approve", card(first))
    await page.until(f"{card(first)}.textContent.includes('You approved')")
    await page.press("Next request", f"{card(first)}.querySelector('.main')")
    await page.until(f"{card(second)}?.checkVisibility()")


async def test_letters_act_on_what_a_click_opened(box: Inbox, page: Page) -> None:
    """On a desk, from a line and from the way on alike; nothing else has to be pressed first."""
    first, second = await box.ask(**COMMAND, timeout=300), await box.ask(**FILE_CHANGE)
    await page.until(f"{card(first)}?.checkVisibility() && {line(second)}")
    await page.press_on(line(first))
    await page.until(f"document.activeElement === {card(first)} && {card(first)}")
    await page.until("!document.querySelector('.settling')")
    await page.key("a")
    await page.until(f"{card(first)}.classList.contains('approved')")
    await page.press("Next request", card(first))
    await page.until(f"document.activeElement === {card(second)} && {card(second)}")
    await page.key("d")
    await page.until(f"{card(second)}.classList.contains('denied')")
    assert (await box.get(first)).status is Status.APPROVED


async def test_who_types_in_a_card_stays_there(box: Inbox, page: Page) -> None:
    """An answer about a card that comes late takes neither the focus from a field in it nor the
    field."""
    first, second = await box.ask(**FILE_CHANGE, timeout=300), await box.ask(**COMMAND)
    await page.until(f"{card(first)}?.checkVisibility() && {line(second)}")
    await page.evaluate(HOLD % (f"/inbox/api/requests/{second.id}", 1))
    await page.until("document.getElementById('who').textContent")
    await page.evaluate(f"{card(first)}.focus()")
    await page.key("j")
    await page.until(f"window.held && {card(second)}?.checkVisibility()")
    await page.press("Edit", card(second))
    field = f"{card(second)}.querySelector('textarea[data-key^=arg0]')"
    await page.until(field)
    await page.evaluate(f"{field}.focus()")
    await page.evaluate("window.letGo()")
    await page.until(DRAWN)
    assert await page.evaluate(f"document.activeElement === {field}")


async def test_a_plain_denial_leaves_no_box(box: Inbox, page: Page) -> None:
    """It answers the same call for five minutes, which is said on its card; nothing is remembered
    that somebody would have to dismiss."""
    first, second = await box.ask(**COMMAND, timeout=300), await box.ask(**FILE_CHANGE)
    await see(page, first)
    await page.evaluate(
        "window.told = ''; const box = document.getElementById('told');"
        " new MutationObserver(() => { window.told += box.textContent })"
        ".observe(box, { childList: true })"
    )
    await page.press("Deny", card(first))
    await page.until(f"{card(first)}.classList.contains('denied')")
    assert (await box.ask(**COMMAND)).status is Status.DENIED
    await box.decide(second, remember=Remember())
    await page.until("window.told.includes('Approval remembered')")
    assert "Denial" not in await page.evaluate("window.told")


async def test_the_ring_is_for_the_keyboard(box: Inbox, page: Page) -> None:
    """A card that a tap opened has none; who walks with letters sees where they are."""
    record = await box.ask(**COMMAND)
    ring = f"getComputedStyle({card(record)}).outlineStyle"
    await page.goto(f"{box.gateway.url}/inbox/r/{record.id}")
    await page.until(f"document.activeElement === {card(record)} && {card(record)}")
    assert await page.evaluate(ring) == "none"
    await page.until("document.getElementById('who').textContent")
    await page.key("j")
    await page.until(f"document.activeElement === {card(record)} && {ring} === 'solid'")


async def test_nothing_lives_once_the_browser_is_offline(box: Inbox, page: Page) -> None:
    """At once, not when the line has been silent for long; and again only when everything was read
    anew, with what happened meanwhile."""
    record, gone = await box.ask(**COMMAND, timeout=300), await box.ask(**FILE_CHANGE)
    await see(page, record)
    lives = f"{card(record)}.querySelector('.approve:not(:disabled)')"
    await page.until(lives)
    await page.evaluate(
        "addEventListener('offline', () => setTimeout(() => {"
        f" window.lived = Boolean({lives}); window.looked = true }}, 100))"
    )
    await page.send("Network.enable")
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    await page.send("Network.emulateNetworkConditions", offline=True, **network)
    await page.until("window.looked")
    assert not await page.evaluate("window.lived")
    assert not await page.evaluate("document.getElementById('offline').hidden")
    await box.decide(gone)
    await page.evaluate(
        "addEventListener('online', () => { const look = () => {"
        f" if ({lives}) {{ window.stale = Boolean({line(gone)}); return }} setTimeout(look, 5) }};"
        " look() })"
    )
    await page.send("Network.emulateNetworkConditions", offline=False, **network)
    await page.until("window.stale !== undefined && true")
    assert not await page.evaluate("window.stale")


async def test_a_late_queue_draws_over_no_other_view(box: Inbox, browser: Browser) -> None:
    """The queue's answer is held back while another view is chosen; it changes nothing there."""
    page = await browser.tab()
    await box.sign_in(page)
    await box.ask(**COMMAND, session="night-run")
    await page.until("document.querySelector('.card')")
    hold = HOLD % ("/inbox/api/queue?", 1)
    await page.send("Page.addScriptToEvaluateOnNewDocument", source=hold)
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until("window.held")
    await page.press("Sessions")
    await page.until(SESSIONS)
    await page.evaluate("window.letGo()")
    await page.until(DRAWN)
    assert await page.evaluate(SESSIONS)
    assert not await page.evaluate("Boolean(document.querySelector('#list .card'))")


async def test_a_late_request_draws_over_no_other_view(box: Inbox, page: Page) -> None:
    """Nor does the answer about one request that was opened before."""
    record = await box.ask(**COMMAND, session="night-run")
    other = await box.ask(**FILE_CHANGE, session="night-run")
    await page.until(f"{card(record)} && {line(other)}")
    await page.evaluate(HOLD % (f"/inbox/api/requests/{other.id}", 0))
    await page.evaluate(f"{line(other)}.click()")
    await page.until("window.held")
    await page.press("Sessions")
    await page.until(SESSIONS)
    await page.evaluate("window.letGo()")
    await page.until(DRAWN)
    assert await page.evaluate(SESSIONS)


async def test_a_late_ending_draws_over_no_other_view(box: Inbox, page: Page) -> None:
    """Nor does one that ended while the history was looked at."""
    record = await box.ask(**COMMAND)
    await box.ask(**FILE_CHANGE, session="night-run")
    await page.press("History")
    await page.until("document.body.textContent.includes('Nothing was decided yet')")
    await page.evaluate(HOLD % (f"/inbox/api/requests/{record.id}", 0))
    await box.decide(record)
    await page.until("window.held")
    await page.press("Sessions")
    await page.until(SESSIONS)
    await page.evaluate("window.letGo()")
    await page.until(DRAWN)
    assert await page.evaluate(SESSIONS)
    assert not await page.evaluate("Boolean(document.querySelector('#list .card'))")


async def test_a_link_or_a_code_is_pasted(box: Inbox, browser: Browser) -> None:
    """An installed app opens no links: the page takes one, or its code, says whom it signs in, and
    sends nobody anywhere else. A used one leads back to the field."""
    logins = box.gateway.backend.logins
    page = await browser.tab()
    record = await box.ask(**COMMAND)
    await page.goto(f"{box.gateway.url}/inbox/login")
    await page.until("!document.getElementById('paste').hidden")
    link = f"https://elsewhere.example/inbox/login#code={await logins.invite('ann')}&to={record.id}"
    await page.fill("#link", f" {link} ")
    await page.press("Continue")
    await page.press("Sign in as ann")
    await page.until(f"location.pathname === '/inbox/r/{record.id}'")
    assert await page.evaluate("location.origin") == box.gateway.url
    await page.goto(f"{box.gateway.url}/inbox/login")
    await page.until("!document.getElementById('paste').hidden")
    await page.fill("#link", link)
    await page.press("Continue")
    await page.until("document.body.textContent.includes('already used')")
    await page.until("document.body.textContent.includes('gateway login owner')")
    await page.fill("#link", await logins.invite("bob"))
    await page.press("Continue")
    await page.until("document.body.textContent.includes('you are now ann')")
    await page.press("Sign in as bob")
    await page.until(CONNECTED)
    assert await page.evaluate("document.getElementById('who').textContent") == "bob"


async def test_a_command_is_edited_in_a_field_of_several_lines(box: Inbox, page: Page) -> None:
    """A long command can be read while it is changed."""
    record = await box.ask(**COMMAND)
    await see(page, record)
    await page.press("Edit", card(record))
    await page.until(f"{card(record)}.querySelector('textarea[data-key^=arg0]')")
