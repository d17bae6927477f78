"""What stands beside requests in the inbox: remembered decisions as cards, and the kill switch."""

from __future__ import annotations

from dataclasses import replace

from gateway.domain.policy_document import ToolRow
from gateway.domain.records import Remember
from gateway.models import Action, HostRule, Origin, Status
from tests.outdated import outdated
from tests.web.chromium import Page, visiting
from tests.web.inbox import COMMAND, Inbox, card, see
from tests.web.visitor import visitor
from tests.world import click, identity

EMPTY = "document.querySelector('#rows .empty p:last-child')?.textContent"
SWITCH = "document.querySelector('#switch button')"
GRANTS = "document.querySelectorAll('.grant:not(.ended)').length"


async def remembered(box: Inbox, who: str = "ann", **details: object) -> str:
    """Have somebody remember a request; return the grant's id."""
    record = await box.ask(**{**COMMAND, **details})
    tap = click(record, Action.APPROVE, identity=identity(who), remember=Remember(lifetime="1d"))
    await box.gateway.core.requests.decide(tap)
    return (await box.gateway.core.grants.all())[0].id


async def test_a_grant_is_a_card_that_says_how_far_it_reaches_and_ends_live(
    box: Inbox, page: Page
) -> None:
    """Who, what, where, until when; what somebody else takes back is shown as ended by itself."""
    grant = await remembered(box, "bob")
    await page.until("document.getElementById('told').textContent.includes('Approval remembered')")
    await page.press("Show")
    await page.until(f"{GRANTS} === 1")
    text = await page.evaluate("document.querySelector('.grant').textContent")
    for part in ("Approval remembered", "shell", "exactly this", "bob", "session", "not used yet"):
        assert part in text, part
    await page.press("Matches in history")
    await page.until("document.querySelector('.grant').textContent.includes('of the last 1 req')")
    await box.gateway.core.grant_service.revoke(grant, identity("bob"))
    await page.until("document.querySelector('.grant.ended')?.textContent.includes('by bob')")
    assert await page.evaluate("document.querySelectorAll('.grant button').length") == 0


async def test_a_sessions_grants_and_all_of_them_are_taken_back_together(
    box: Inbox, page: Page
) -> None:
    """Each asks once more before it does it."""
    for number in range(2):
        await remembered(box, arguments={"command": f"ls {number}"})
    await remembered(box, session="other")
    await page.evaluate("document.querySelector('[data-view=grants]').click()")
    await page.until(f"{GRANTS} === 3")
    await page.press_twice("Revoke the session's 2: deployer, default")
    await page.until(f"{GRANTS} === 1")
    await page.press_twice("Revoke all 1 that you can")
    await page.until(f"{GRANTS} === 0")
    assert await box.gateway.core.grants.all() == []


async def test_what_rests_is_counted_above_the_cards_and_says_why(box: Inbox, page: Page) -> None:
    """Its tool was declared otherwise: the page says how many rest, each card why and what to
    do."""
    kept = await remembered(box)
    for text in ("cat a", "head a"):
        record = await box.ask(**{**COMMAND, "arguments": {"command": text}})
        await outdated(box.gateway.backend.store, record)
    store = box.gateway.backend.store
    declared = replace(await store.policy(), tools=(ToolRow(name="note"),))
    await store.apply(declared, by="ann")
    await box.gateway.core.grants.suspend_outdated()
    await page.evaluate("document.querySelector('[data-view=grants]').click()")
    await page.until(f"{GRANTS} === 3 && document.querySelector('.grants > .notice') !== null")
    said = await page.evaluate("document.querySelector('.grants > .notice').textContent")
    assert said.startswith("2 grants are suspended, because the declarations of")
    assert "1 stays active." in said
    cards = await page.evaluate(
        "[...document.querySelectorAll('.grant')].map((card) => card.textContent)"
    )
    assert (
        sum("Approval suspended" in text and "let the agent ask again" in text for text in cards)
        == 2
    )
    for grant in await box.gateway.core.grants.all():
        if grant.id != kept:
            await box.gateway.core.grant_service.revoke(grant.id, identity("ann"))
    await page.until(f"{GRANTS} === 1")
    assert await page.evaluate("document.querySelector('.grants > .notice') === null")


async def test_what_was_pressed_stays_asked_when_the_list_is_drawn_anew(
    box: Inbox, page: Page
) -> None:
    """On the card that was pressed and on no other, though all of them are of one agent."""
    for number in range(2):
        await remembered(box, arguments={"command": f"ls {number}"})
    await page.evaluate("document.querySelector('[data-view=grants]').click()")
    await page.until(f"{GRANTS} === 2")
    pressed = await page.evaluate(
        "(() => { const card = document.querySelectorAll('[data-grant]')[1];"
        " card.querySelector('.sure button').click(); return card.dataset.grant; })()"
    )
    await remembered(box, arguments={"command": "ls 2"})
    await page.until(f"{GRANTS} === 3")
    asked = "[...document.querySelectorAll('.sure .deny')]"
    await page.until(f"{asked}.length === 1")
    assert await page.evaluate(f"{asked}[0].closest('[data-grant]').dataset.grant") == pressed


async def test_an_admin_stops_everything_and_allows_it_again(
    box: Inbox, page: Page, browser_address: str
) -> None:
    """After a second press; all pages say so, what waits is denied, and others get no switch."""
    async with visiting(browser_address) as browser:
        other = await browser.tab()
        await box.sign_in(other, "bob")
        await _switched(box, page, other)


async def _switched(box: Inbox, page: Page, other: Page) -> None:
    assert await other.evaluate(f"{SWITCH} === null")
    waiting = await box.ask(**COMMAND)
    await page.evaluate("location.reload()")
    does = "document.getElementById('switch').textContent"
    await page.until(f"{SWITCH} && {does}.includes('This will deny the pending request')")
    await page.evaluate(f"document.querySelector('.menu').open = true; {SWITCH}.click()")
    assert not await box.gateway.backend.store.is_stopped()
    await page.press("Really stop everything")
    for tab in (page, other):
        await tab.until(
            "document.getElementById('stop').textContent"
            ".includes('denied: ann turned on the kill switch at')"
        )
    await page.until(
        "document.getElementById('stop').textContent.includes('Denied requests stay denied')"
    )
    assert await other.evaluate("document.querySelector('#stop button') === null")
    for tab in (page, other):
        await tab.until(f"{EMPTY} === 'The kill switch is on: every request is denied at once.'")
    await page.until(f"document.querySelector('[data-id=\"{waiting.id}\"].denied')")
    assert (await box.ask(**COMMAND)).status is Status.DENIED
    await page.press_twice("Let agents ask again")
    for tab in (page, other):
        await tab.until("document.getElementById('stop').hidden")
        await tab.until(f"{EMPTY} === 'When an agent asks for approval, its request appears here.'")
    assert (await box.ask(**COMMAND)).status is Status.PENDING
    events = await box.gateway.backend.store.history(None, 1000)
    switched = [(one.type, one.data["by"]) for one in events if one.type in ("stopped", "resumed")]
    assert switched == [("stopped", "ann"), ("resumed", "ann")]


async def test_nobody_else_stops_anything(box: Inbox) -> None:
    """The switch is refused by the core, and that is audited; a second press changes nothing."""
    async with visitor(box, "bob") as bob:
        assert (await bob.post("stop", {"on": True}))[0] == 403
    assert not await box.gateway.backend.store.is_stopped()
    async with visitor(box, "ann") as ann:
        for _ in range(2):
            assert (await ann.post("stop", {"on": True}))[0] == 200
    events = [one.type for one in await box.gateway.backend.store.history(None, 1000)]
    assert (events.count("refused"), events.count("stopped")) == (1, 1)


async def test_admins_see_what_is_wrong_with_the_gateway(box: Inbox, page: Page) -> None:
    """As long as it is, without a new page; nobody else is told."""
    health = box.gateway.core.health
    health.note("target", "slack:C1 takes no cards: channel_not_found")
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await page.until("document.getElementById('wrong').textContent.includes('takes no cards')")
    async with visitor(box, "bob") as bob:
        assert (await bob.get("me"))["troubles"] == []
    health.note("target", None)
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await page.until("document.getElementById('wrong').hidden")


async def test_what_the_host_keeps_is_chosen_without_a_place_and_a_time(
    box: Inbox, page: Page
) -> None:
    """It says who alone takes it back, also on the card of the answer; nothing is listed here."""
    rule = HostRule(rule="Bash(npm test *)", scope="in this project")
    origin = Origin(framework="claude-code")
    record = await box.ask(
        **{**COMMAND, "arguments": {"command": "npm test"}, "host_rules": (rule,), "origin": origin}
    )
    await see(page, record)
    await page.press("Remember…", card(record))
    await page.until(f"{card(record)}.querySelectorAll('[name*=lifetime]').length > 1")
    await page.evaluate(f"{card(record)}.querySelector('input[value=\"host:0\"]').click()")
    await page.until(f"!{card(record)}.querySelector('[name*=lifetime]')")
    assert not await page.evaluate(f"Boolean({card(record)}.querySelector('[name*=where]'))")
    text = await page.evaluate(f"{card(record)}.textContent")
    for part in ("will not ask here again", "Bash(npm test *)", "only it can revoke that"):
        assert part in text, part
    await page.press("Approve and remember", card(record))
    await page.until(f"{card(record)}.classList.contains('approved')")
    done = await box.gateway.core.requests.get(record.id)
    assert done.decision is not None
    assert done.decision.host_rule == rule
    assert await box.gateway.core.grants.all() == []
