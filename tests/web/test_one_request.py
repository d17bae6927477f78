"""The page of one request, to which chats, webhooks and agents lead."""

from __future__ import annotations

import pytest

from gateway.cards.card import TO_ORIGIN
from gateway.models import Origin, Status, new_id
from gateway.ports import MessageRef
from tests.web.chromium import PHONE, Page
from tests.web.inbox import COMMAND, FILE_CHANGE, Inbox, card, line, see

pytestmark = [pytest.mark.browser]


async def test_a_link_opens_this_request_whole_and_no_other(box: Inbox, page: Page) -> None:
    """It can be decided there; on a phone, what else waits and what comes is not shown."""
    await page.size(PHONE)
    record = await box.ask(**COMMAND)
    other = await box.ask(**FILE_CHANGE)
    await page.goto(f"{box.gateway.url}/inbox/r/{record.id}")
    await see(page, record)
    later = await box.ask(**FILE_CHANGE)
    await page.press("Approve")
    await page.until(f"{card(record)}.classList.contains('approved')")
    assert (await box.get(record)).status is Status.APPROVED
    for one in (other, later):
        assert not await page.evaluate(f"Boolean({card(one)} || {line(one)}?.checkVisibility())")
    await page.press("All requests")
    await page.until("location.pathname === '/inbox'")
    await see(page, other)


async def test_a_link_to_nothing_says_so(box: Inbox, page: Page) -> None:
    """An id of no request, as of one that was erased."""
    await page.goto(f"{box.gateway.url}/inbox/r/{new_id()}")
    await page.until("document.body.textContent.includes('Request not found')")


async def test_who_signs_in_goes_on_where_they_were(box: Inbox, page: Page) -> None:
    """The link opened the sign-in page; after it the request stands there, and once only."""
    record = await box.ask(**COMMAND)
    await page.evaluate("document.getElementById('signout').click()")
    await page.until("location.pathname === '/inbox/login'")
    await page.goto(f"{box.gateway.url}/inbox/r/{record.id}")
    await page.until("location.pathname === '/inbox/login'")
    await page.goto("about:blank")  # the link is opened by itself
    code = await box.gateway.backend.logins.invite("ann")
    await page.goto(f"{box.gateway.url}/inbox/login#code={code}")
    await page.press("Sign in as ann")
    await page.until(f"location.pathname === '/inbox/r/{record.id}' && {card(record)}")
    assert await page.evaluate("localStorage.getItem('after-sign-in')") is None


@pytest.mark.parametrize("evil", ["", "../../../evil", "%2e%2e/login", "x"])
async def test_a_link_of_a_chat_leads_to_its_request(box: Inbox, page: Page, evil: str) -> None:
    """Who was led from a chat signs in once and stands before the request; a link that was
    tampered with leads to the inbox."""
    record = await box.ask(**COMMAND)
    await page.evaluate("document.getElementById('signout').click()")
    await page.until("location.pathname === '/inbox/login'")
    await page.goto("about:blank")
    code = await box.gateway.backend.logins.invite("ann")
    await page.goto(f"{box.gateway.url}/inbox/login#code={code}&to={evil or record.id}")
    await page.press("Sign in as ann")
    where = "/inbox" if evil else f"/inbox/r/{record.id}"
    await page.until(f"location.pathname === '{where}'")


@pytest.mark.parametrize("path", ["https://evil.example/x", "/inbox/r/../login", "/inbox"])
async def test_nothing_else_is_where_they_go_on(box: Inbox, page: Page, path: str) -> None:
    """What some page put into the store leads nowhere but to the inbox."""
    kept = f"JSON.stringify({{path: {path!r}, at: Date.now()}})"
    await page.evaluate(f"localStorage.setItem('after-sign-in', {kept})")
    found = await page.evaluate("import('/inbox/static/api.js').then((one) => one.whereTo())")
    assert found == "/inbox"


async def test_it_leads_to_its_cards_and_to_where_the_agent_was_asked(
    box: Inbox, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits and after; the addresses are the gateway's."""
    place = "https://t1.slack.test/archives"

    async def link(target: str, ref: MessageRef) -> str:
        return f"{place}/{ref.channel}/{ref.message}"

    async def link_cards(request_id: str) -> dict[str, str]:
        return {f"{place}/C1/p1": "Open the card in Slack"}

    monkeypatch.setitem(box.gateway.core.copies.links.links, "slack", link)
    monkeypatch.setattr(box.gateway.core.copies.links, "link_cards", link_cards)
    origin = Origin(channel="slack", chat="C7", message="p7")
    record = await box.ask(**COMMAND, origin=origin)
    await page.goto(f"{box.gateway.url}/inbox/r/{record.id}")
    await see(page, record)
    listed = (
        f"[...{card(record)}.querySelectorAll('a[target]')].map((a) => [a.textContent, a.href])"
    )
    expected = [["Open the card in Slack", f"{place}/C1/p1"], [TO_ORIGIN, f"{place}/C7/p7"]]
    assert await page.evaluate(listed) == expected
    await page.press("Approve")
    await page.until(f"{card(record)}.classList.contains('approved')")
    await page.goto("about:blank")
    await page.goto(f"{box.gateway.url}/inbox/r/{record.id}")
    await page.until(f"{card(record)}?.classList.contains('approved')")
    assert await page.evaluate(listed) == expected
