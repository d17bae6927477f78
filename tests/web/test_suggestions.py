"""What people approved before, where an approval is remembered in the inbox."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from gateway.models import Kind, Status
from tests.web.chromium import Page
from tests.web.inbox import Inbox, card, see
from tests.world import identity

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
CHOSEN = ".querySelector('.panel input[name^=scope]:checked')"
SEND = ".querySelector('[data-key=send-remember]')"
USUAL = "Chosen first: it covers the last 10 similar requests."


async def asked(box: Inbox, command: str = "git log -n 99", **more: Any) -> StoredRequest:
    """Return a waiting command."""
    return await box.ask(kind=Kind.COMMAND, arguments={"command": command}, **more)


async def approved(box: Inbox, count: int, who: str = "ann") -> None:
    """Have somebody approve so many similar commands elsewhere."""
    for number in range(count):
        await box.decide(await asked(box, f"git log -n {number}"), identity=identity(who))


async def hold(page: Page, path: str) -> None:
    """Keep the answers of a call from the page until `release`."""
    await page.send("Network.enable")
    await page.send("Fetch.enable", patterns=[{"urlPattern": path, "requestStage": "Response"}])


async def release(page: Page) -> None:
    """Let the answers through."""
    await page.send("Fetch.disable")


async def test_the_usual_choice_is_there_before_the_button(box: Inbox, page: Page) -> None:
    """Until the gateway has answered nothing is chosen, and the button sends nothing."""
    await approved(box, 10)
    record = await asked(box)
    await see(page, record)
    await hold(page, "*/usual")
    await page.press("Remember…", card(record))
    assert await page.until(f"{card(record)}{SEND}?.disabled")
    assert await page.evaluate(f"{card(record)}{CHOSEN}") is None
    await page.evaluate(f"(({card(record)}{SEND}).disabled = false, {card(record)}{SEND}.click())")
    await release(page)
    chosen = await page.until(f"{card(record)}{CHOSEN}?.dataset.key")
    assert chosen == "scope-approve-1"
    await page.until(
        f"{card(record)}.querySelector('.panel .notice')?.textContent.startsWith('{USUAL}')"
    )
    assert (await box.get(record)).status is Status.PENDING
    await page.press("Approve and remember", card(record))
    await page.until(f"{card(record)}.classList.contains('approved')")
    await box.remembered()
    (grant,) = await box.gateway.core.grants.all()
    assert "exactly this" not in grant.words


async def test_what_was_chosen_meanwhile_stays(box: Inbox, page: Page) -> None:
    """The answer of the gateway changes no choice of a person."""
    await approved(box, 10)
    record = await asked(box)
    await see(page, record)
    await hold(page, "*/usual")
    await page.press("Remember…", card(record))
    await page.until(f"{card(record)}.querySelector('[data-key=scope-approve-0]')")
    await page.evaluate(f"{card(record)}.querySelector('[data-key=scope-approve-0]').click()")
    await page.until(f"{card(record)}{SEND} && !{card(record)}{SEND}.disabled")
    await release(page)
    await page.until("document.readyState === 'complete'")
    assert await page.evaluate(f"{card(record)}{CHOSEN}.dataset.key") == "scope-approve-0"


async def test_without_an_answer_the_narrowest_is_chosen(box: Inbox, page: Page) -> None:
    """A failure there hinders nobody."""
    record = await asked(box)
    await see(page, record)
    await page.send("Network.enable")
    await page.send("Network.setBlockedURLs", urls=["*/usual"])
    await page.press("Remember…", card(record))
    chosen = await page.until(f"{card(record)}{CHOSEN}?.dataset.key")
    assert chosen == "scope-approve-0"
    await page.until(f"!{card(record)}{SEND}.disabled")
    page.errors.clear()
