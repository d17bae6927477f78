"""What the page does when things are not as they should be, in a real Chromium."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gateway.domain.risk import RiskRule
from gateway.domain.store import MessageContext
from gateway.models import Action, Execution, Report, RiskLevel, Status
from tests.web.chromium import Browser, Page
from tests.web.inbox import (
    AGENT,
    COMMAND,
    CONNECTED,
    FILE_CHANGE,
    HIGH_RISK,
    QUESTION,
    Inbox,
    card,
    inbox,
    line,
    see,
)
from tests.web.proxy import line as tunnel_to
from tests.world import PROCESS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

DEAD = "[...document.querySelectorAll('[data-decides]')].every((one) => one.disabled)"
LATER = "(() => { const now = Date.now; Date.now = () => now() + 60000; return true })()"


async def test_nothing_can_be_decided_while_disconnected(tmp_path: Path, browser: Browser) -> None:
    """When the gateway is gone the page says so aloud, and no button lives."""
    page = await browser.tab()
    async with inbox(tmp_path) as box:
        await box.sign_in(page)
        record = await box.ask(**COMMAND)
        await page.until(f"{card(record)}.querySelector('.approve:not(:disabled)')")
    await page.until("!document.getElementById('offline').hidden")
    assert await page.evaluate(DEAD)
    assert await page.evaluate("document.getElementById('offline').getAttribute('role')") == "alert"


async def test_a_line_that_dies_in_silence_is_noticed(box: Inbox, browser: Browser) -> None:
    """No beat, no trust: the buttons die; once the line lives, everything is read anew.

    The minute in between is the page's own clock, set forward.
    """
    page = await browser.tab()
    port = urlsplit(box.gateway.url).port
    assert port is not None
    async with tunnel_to(port) as tunnel:
        code = await box.gateway.backend.logins.invite("ann")
        await page.goto(f"http://127.0.0.1:{tunnel.port}/inbox/login#code={code}")
        await page.press("Sign in as ann")
        await page.until(CONNECTED)
        record = await box.ask(**COMMAND)
        await see(page, record)
        tunnel.silence()
        await box.decide(record)
        missed = await box.ask(**FILE_CHANGE)
        assert await page.evaluate(f"{card(record)}.classList.contains('pending')")
        await page.evaluate(LATER)
        await page.until("!document.getElementById('offline').hidden")
        assert await page.evaluate(DEAD)
        tunnel.mend()
        await page.until("document.getElementById('offline').hidden")
        await page.until(f"{line(missed)} && !{line(record)}")
        await page.until(f"!{card(record)}.classList.contains('pending')")


async def test_what_was_typed_survives_a_redraw(box: Inbox, page: Page) -> None:
    """Text, place of the cursor and focus stay when the same card, or another, changes."""
    record = await box.ask(**COMMAND)
    await page.press("Deny with a reason")
    await page.fill("[data-key=reason]", "because of the freeze")
    await page.evaluate("document.activeElement.setSelectionRange(7, 7)")
    await box.claim(record)
    await page.until(f"{card(record)}.textContent.includes('bob is looking at it')")
    other = await box.ask(**FILE_CHANGE)
    await page.until(line(other))
    typed = "(() => { const at = document.activeElement; return [at.value, at.selectionStart] })()"
    assert await page.evaluate(typed) == ["because of the freeze", 7]


async def test_a_form_survives_a_redraw_and_a_lost_line(box: Inbox, page: Page) -> None:
    """Answers typed halfway are there after a change and after a reload of the list."""
    record = await box.ask(**QUESTION)
    await page.fill(".card input[type=text]", "Aurora")
    await page.fill("input[type=password]", "hunter2")
    await box.claim(record)
    await page.until(f"{card(record)}.textContent.includes('bob is looking at it')")
    await page.press("History")
    await page.until("document.querySelector('.empty')")
    await page.evaluate("document.querySelector('[data-view=pending]').click()")
    await page.until(f"{card(record)}.querySelector('input[type=text]').value === 'Aurora'")
    assert await page.evaluate("document.querySelector('[type=password]').value") == "hunter2"


async def test_what_was_prepared_for_the_old_text_is_not_sent(box: Inbox, page: Page) -> None:
    """When a partner edits, an open confirmation closes: it was for something else."""
    await box.route(quorum=2)
    record = await box.ask(**HIGH_RISK)
    await page.press("Review…")
    await page.until(f"{card(record)}.querySelector('[data-key=confirm]')")
    await box.decide(record, Action.EDIT, arguments={"amount": 1})
    await page.until(f"{card(record)}.textContent.includes('Changed by bob')")
    assert not await page.evaluate(f"Boolean({card(record)}.querySelector('[data-key=confirm]'))")
    await page.press("Review…")
    await page.press("Yes, approve, 2 of 2")
    await page.until(f"{card(record)}.classList.contains('approved')")
    assert (await box.get(record)).edited == {"amount": 1}


async def test_a_stale_tap_is_explained(box: Inbox, page: Page) -> None:
    """Who lost the race reads who won, on the card itself."""
    record = await box.ask(**COMMAND)
    await page.press("Edit")
    await page.press("As JSON")
    await page.until(f"{card(record)}.querySelector('[data-key=edit]')")
    # The page hears of the change and cannot read it: it still shows the buttons.
    await page.send("Network.enable")
    await page.send("Network.setBlockedURLs", urls=["*?whole=1"])
    await box.decide(record, Action.DENY)
    await page.press("Back")
    await page.press("Approve")
    await page.until(f"{card(record)}.textContent.includes('Denied by bob')")
    assert await page.evaluate(
        f"{card(record)}.querySelector('[role=alert]').textContent.includes('decided already')"
    )
    await page.until("document.title === 'Approvals'")


async def test_a_double_tap_decides_once_and_hits_nothing_else(box: Inbox, page: Page) -> None:
    """The second tap of a double one decides no other request: the open one stays in its place."""
    decided, waits = await box.ask(**FILE_CHANGE), await box.ask(**COMMAND)
    await see(page, decided)
    await page.until(line(waits))
    x, y = await page.evaluate(
        f"(() => {{ const one = {card(decided)}.querySelector('.approve')"
        ".getBoundingClientRect(); return [one.x + 9, one.y + 9] })()"
    )
    await page.press("Approve", card(decided))
    await page.tap(x, y)
    await page.until(f"{card(decided)}.classList.contains('approved')")
    await page.until(f"!{line(decided)}")
    await page.tap(x, y)
    assert (await box.get(waits)).status is Status.PENDING
    assert not await page.evaluate(f"Boolean({card(waits)})")


async def test_signing_out_ends_every_tab(box: Inbox, browser: Browser, page: Page) -> None:
    """Both tabs say that they are signed out, and a new link signs in from there."""
    second = await browser.tab()
    await second.goto(f"{box.gateway.url}/inbox")
    await second.until(CONNECTED)
    await page.evaluate("document.getElementById('signout').click()")
    for tab in (page, second):
        await tab.until("document.body.textContent.includes('You are signed out')")
    code = await box.gateway.backend.logins.invite("ann")
    await second.goto(f"{box.gateway.url}/inbox/login#code={code}")
    await second.press("Sign in as ann")
    await second.until(CONNECTED)


async def test_a_removed_approver_sees_nothing_any_more(box: Inbox, browser: Browser) -> None:
    """The open page leaves for the sign-in page by itself."""
    page = await browser.tab()
    await box.sign_in(page, "bob")
    record = await box.ask(**COMMAND)
    await see(page, record)
    await box.gateway.backend.credentials.revoke_approver("bob")
    await page.until("document.body.textContent.includes('You are signed out')")


async def test_too_many_tabs_are_told(box: Inbox, browser: Browser, page: Page) -> None:
    """The fifth page says why it is not connected, and shows no live button."""
    for _ in range(3):
        tab = await browser.tab()
        await tab.goto(f"{box.gateway.url}/inbox")
        await tab.until(CONNECTED)
    fifth = await browser.tab()
    await fifth.goto(f"{box.gateway.url}/inbox")
    await fifth.until("document.getElementById('offline').textContent.includes('too many tabs')")


async def test_a_used_link_says_so(box: Inbox, browser: Browser) -> None:
    """And signs nobody in."""
    logins = box.gateway.backend.logins
    code = await logins.invite("ann")
    await logins.redeem(code, address="")
    page = await browser.tab()
    await page.goto(f"{box.gateway.url}/inbox/login#code={code}")
    await page.until("document.body.textContent.includes('already used')")
    await page.until(
        "document.getElementById('login').hidden && !document.getElementById('how').hidden"
    )
    assert await page.evaluate("location.href") == f"{box.gateway.url}/inbox/login"


async def test_who_may_not_decide_has_no_buttons(box: Inbox, browser: Browser) -> None:
    """The request is shown, with the reason."""
    page = await browser.tab()
    await box.sign_in(page, "eve")
    record = await box.ask(**COMMAND)
    await see(page, record)
    await page.until(f"{card(record)}.textContent.includes('You cannot decide this')")
    assert await page.evaluate(f"{card(record)}.querySelectorAll('.controls').length") == 0


async def test_nobody_waits_any_more(box: Inbox, page: Page) -> None:
    """It is said, and it can still be decided."""
    record = await box.ask(**COMMAND)
    await see(page, record)
    await box.leave()
    await page.until(f"{card(record)}.textContent.includes('Agent gone')")
    said = "If the agent asks again, it gets your decision."
    assert said in await page.evaluate(f"{card(record)}.textContent")
    await page.press("Approve")
    await page.until(f"{card(record)}.classList.contains('approved')")


async def test_what_became_of_it_is_told_in_the_words_of_the_card(box: Inbox, page: Page) -> None:
    """In one sentence that says who says so; the page adds nothing to it."""
    record = await box.ask(tool="pay", arguments={"amount": 900})
    await box.decide(record)
    agent = MessageContext(agent=AGENT, process=PROCESS)
    report = Report(execution=Execution.SUCCEEDED)
    await box.gateway.core.approvals.report(record.id, report, agent)
    await page.press("History")
    said = f"{card(record)}.querySelector('.result')?.textContent"
    await page.until(f"{said} === 'The agent reports that the call ran and succeeded'")


@pytest.mark.parametrize("how", [Execution.FAILED, Execution.NEVER_FETCHED])
async def test_what_did_not_run_is_no_good_end(box: Inbox, page: Page, how: Execution) -> None:
    """An approval that failed, or was never fetched, has neither the tick nor the colour of one
    that ran."""
    ran, failed = await box.ask(**COMMAND), await box.ask(**HIGH_RISK)
    for record, execution in ((ran, Execution.SUCCEEDED), (failed, how)):
        await box.decide(record)
        agent = MessageContext(agent=AGENT, process=PROCESS)
        report = Report(execution=execution)
        await box.gateway.core.approvals.report(record.id, report, agent)
    await page.press("History")
    await page.until("document.querySelectorAll('#list .card').length === 2")
    looks = [
        await page.evaluate(
            f"(() => {{ const card = {card(record)}, state = card.querySelector('.state');"
            " return [state.textContent.split(' ')[0], getComputedStyle(state).color,"
            " getComputedStyle(card).borderTopColor] })()"
        )
        for record in (ran, failed)
    ]
    assert [icon for icon, *_ in looks] == ["✅", "⚠️"]
    assert not set(looks[0]) & set(looks[1])


async def test_a_flood_is_read_as_a_list(box: Inbox, page: Page) -> None:
    """Many requests at once all appear, a page at a time, and the page stays whole."""
    for number in range(60):
        await box.ask(tool=f"tool-{number}", arguments={"n": number})
    await page.until("document.title === '(60) Approvals'")
    lines = "document.querySelectorAll('.row-link').length"
    await page.until(f"{lines} >= 50")
    await page.evaluate("document.getElementById('older').scrollIntoView()")
    await page.until(f"{lines} === 60")


async def test_an_edit_that_makes_it_high_risk_is_confirmed_as_such(box: Inbox, page: Page) -> None:
    """The first tap decides nothing: only then does the page know what it is, and says it."""
    store = box.gateway.backend.store
    rule = RiskRule(name="r", level=RiskLevel.HIGH, reason="enormous", contains=("900000",))
    await store.apply(replace(await store.policy(), risks=(rule,)), by="test")
    box.gateway.core.writer.forget_policy()
    record = await box.ask(tool="pay", arguments={"amount": 900})
    await page.press("Edit")
    await page.press("As JSON")
    await page.fill("[data-key=edit]", '{"amount": 900000}')
    await page.press("Show the changes")
    await page.press("Approve with these changes")
    await page.until(
        f"{card(record)}.querySelector('.sure')?.textContent.includes('the risk is high')"
    )
    assert (await box.get(record)).status is Status.PENDING
    await page.press("Approve with these changes")
    await page.until(f"{card(record)}.classList.contains('approved')")
