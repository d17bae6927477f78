"""Looking for what ended, is remembered or happened: by fields, from the keyboard, by address."""

from __future__ import annotations

import re

import pytest

from gateway.domain.records import Remember
from gateway.models import Action
from tests.sweeps import sweep
from tests.web.chromium import Page
from tests.web.inbox import COMMAND, FILE_CHANGE, Inbox, card
from tests.web.visitor import visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

LOOKED = "document.getElementById('looked').textContent"


async def test_the_history_is_searched_from_the_keyboard(box: Inbox, page: Page) -> None:
    """Words and Enter; what was looked for stands in the address, which leads there again."""
    wanted, other = await box.ask(**FILE_CHANGE), await box.ask(**COMMAND)
    await box.decide(wanted, Action.DENY)
    await box.decide(other)
    await page.press("History")
    await page.until(f"{card(wanted)} && {card(other)}")
    await page.evaluate("document.querySelector('.find summary').focus()")
    await page.key("Enter")
    await page.until("document.querySelector('.find').open")
    await page.key("Tab")
    await page.until("document.activeElement.name === 'text'")
    await page.send("Input.insertText", text="SHOP/tax.py")
    await page.key("Enter")
    await page.until(f"{card(wanted)} && !{card(other)}")
    assert await page.until(LOOKED) == "1 found among all 2."
    assert await page.evaluate("location.search") == "?view=final&text=SHOP%2Ftax.py"
    address = await page.evaluate("location.href")
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until("location.search === '' && document.getElementById('who').textContent")
    await page.goto(address)
    await page.until(f"{card(wanted)} && !{card(other)}")
    assert await page.evaluate("document.getElementById('find-text').value") == "SHOP/tax.py"
    await page.press("Show all")
    await page.until(f"{card(wanted)} && {card(other)}")


@sweep(
    ("query", "found"),
    [
        ("outcome=denied", "denied"),
        ("who=bob&outcome=approved", "approved"),
        ("agent=nobody", ""),
        ("from=2999-01-01", ""),
        ("to=2999-01-01&text=rsync", "approved"),
        ("from=nonsense&outcome=denied", "denied"),
    ],
    few=2,
)
async def test_an_address_says_what_is_looked_for(
    box: Inbox, page: Page, query: str, found: str
) -> None:
    """Outcome, who, agent and days, alone and together."""
    denied, approved = await box.ask(**FILE_CHANGE), await box.ask(**COMMAND)
    await box.decide(denied, Action.DENY)
    await box.decide(approved)
    await page.goto(f"{box.gateway.url}/inbox?view=final&{query}")
    await page.until(LOOKED)
    wanted = {"denied": [denied.id], "approved": [approved.id]}.get(found, [])
    shown = "[...document.querySelectorAll('#list .card')].map((one) => one.dataset.id)"
    assert await page.evaluate(shown) == wanted
    if not found:
        assert await page.evaluate(LOOKED) == "Nothing found among all 2."


async def test_a_search_says_how_far_it_looked(
    box: Inbox, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than the newest so many; one press looks further back."""
    monkeypatch.setattr("gateway.approvals.search_and_report._MOST", 2)
    monkeypatch.setattr("gateway.approvals.search_and_report._PAGE", 2)
    old = await box.ask(**FILE_CHANGE)
    await box.decide(old)
    for number in range(2):
        await box.decide(await box.ask(tool=f"t{number}", arguments={}))
    await page.goto(f"{box.gateway.url}/inbox?view=final&text=tax.py")
    said = "Nothing found among the newest 2. Older requests were not searched."
    assert await page.until(LOOKED) == said
    await page.press("Search older requests")
    await page.until(card(old))


async def test_grants_and_the_audit_are_searched(box: Inbox, page: Page) -> None:
    """By the same fields; the audit leads to its request."""
    record = await box.ask(**FILE_CHANGE)
    await box.decide(record, remember=Remember(lifetime="1h"))
    await box.remembered()
    grants = "document.querySelectorAll('.grant').length"
    for query, count in (("text=tax.py", 1), ("who=ann", 0), ("who=bob&outcome=in+force", 1)):
        await page.goto(f"{box.gateway.url}/inbox?view=grants&{query}")
        await page.until(LOOKED)
        assert await page.evaluate(grants) == count, query
    await page.goto(f"{box.gateway.url}/inbox?view=audit&outcome=approved&who=bob")
    await page.until(LOOKED)
    rows = "[...document.querySelectorAll('.audit summary')].map((one) => one.textContent)"
    (sentence,) = await page.evaluate(rows)
    assert re.match(r'bob approved the request of agent "[^"]+", \d+ s after it asked: ', sentence)
    assert not await page.evaluate("document.querySelector('.audit details').open")
    facts = "[...document.querySelectorAll('.event-fact')].map((one) => one.textContent)"
    said = await page.evaluate(facts)
    assert {"event: approved", "decided by kind: person", "decided by name: bob"} <= set(said)
    assert any(re.fullmatch(r"decided at: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", one) for one in said)
    for text in ("decided+by+name", "bob+approved+the+request"):
        await page.goto(f"{box.gateway.url}/inbox?view=audit&text={text}")
        await page.until(LOOKED)
        assert await page.evaluate(rows) == [sentence]
    await page.goto(f"{box.gateway.url}/inbox?view=audit&outcome=grant+made")
    await page.until(LOOKED)
    (made,) = await page.evaluate(rows)
    assert made.startswith("bob made a grant for agent ")
    await page.goto(f"{box.gateway.url}/inbox?view=audit&outcome=approved&who=bob")
    await page.until(LOOKED)
    href = await page.evaluate("document.querySelector('.audit a').getAttribute('href')")
    assert href == f"/inbox/r/{record.id}"


async def test_who_is_no_admin_has_no_audit(box: Inbox) -> None:
    """Neither the tab nor, by its address, the events."""
    async with visitor(box, "bob") as bob:
        async with bob.http.get(f"{bob.url}/inbox/api/audit") as answer:
            assert answer.status == 403
        assert not (await bob.get("me"))["admin"]
