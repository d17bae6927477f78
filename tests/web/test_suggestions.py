"""What people approved before, where an approval is remembered in the inbox."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from gateway.models import Action, Kind, Status
from gateway.policy.grants.grant import Effect
from tests.web.chromium import Page
from tests.web.inbox import Inbox, card, see
from tests.world import identity

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
CHOSEN = ".querySelector('.panel input[name^=scope]:checked')"
BANNER = ".querySelector('.controls .claimed')"
USUAL = "Preselected: it covers the last 10 similar requests."


async def asked(box: Inbox, command: str = "git log -n 99", **more: Any) -> StoredRequest:
    """Return a waiting command."""
    return await box.ask(kind=Kind.COMMAND, arguments={"command": command}, **more)


async def approved(box: Inbox, count: int, who: str = "ann") -> None:
    """Have somebody approve so many similar commands elsewhere."""
    for number in range(count):
        await box.decide(await asked(box, f"git log -n {number}"), identity=identity(who))


async def test_the_usual_choice_comes_first_and_says_so(box: Inbox, page: Page) -> None:
    """It came with the request, so nothing changes once the panel is open."""
    await approved(box, 10)
    record = await asked(box)
    await see(page, record)
    await page.press("Remember…", card(record))
    assert await page.until(f"{card(record)}{CHOSEN}?.dataset.key") == "scope-approve-1"
    said = f"{card(record)}.querySelector('.panel .notice')?.textContent"
    assert (await page.until(said)).startswith(USUAL)
    assert await page.evaluate(f"{card(record)}{BANNER}") is None
    await box.decide(await asked(box, "git log -n 50"), Action.DENY)
    await box.claim(record)
    await page.until(f"{card(record)}.textContent.includes('bob is looking')")
    assert await page.evaluate(f"{card(record)}{CHOSEN}.dataset.key") == "scope-approve-1"
    await page.press("Approve and remember", card(record))
    await page.until(f"{card(record)}.classList.contains('approved')")
    await box.remembered()
    made = [one.words for one in await box.gateway.core.grants.all() if one.effect is Effect.ALLOW]
    assert len(made) == 1 and "exactly this" not in made[0]


async def test_a_failure_there_hinders_nobody(
    box: Inbox, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card comes all the same, with the narrowest choice first and no banner."""

    async def fail(*_: object, **__: object) -> list[str]:
        raise RuntimeError("the store is gone")

    await approved(box, 12)
    monkeypatch.setattr(box.gateway.backend.store, "list_decided", fail)
    record = await asked(box)
    await see(page, record)
    await page.press("Remember…", card(record))
    assert await page.until(f"{card(record)}{CHOSEN}?.dataset.key") == "scope-approve-0"
    assert await page.evaluate(f"{card(record)}{BANNER}") is None
    await page.press("Approve and remember", card(record))
    await page.until(f"{card(record)}.classList.contains('approved')")


async def test_a_suggestion_is_taken_with_the_form_of_remember(box: Inbox, page: Page) -> None:
    """It stands below the answers, with what it would have let through; nothing is approved yet."""
    await approved(box, 12)
    record = await asked(box)
    await see(page, record)
    said = await page.until(f"{card(record)}{BANNER}?.textContent")
    assert "You approved this 12 times in 14 days, and nobody denied it." in said
    assert said.count('Runs "git log -n ') == 5
    order = f"{card(record)}.querySelector('.main').compareDocumentPosition"
    assert await page.evaluate(f"{order}({card(record)}{BANNER})") == 4
    await page.press("Remember…", f"{card(record)}{BANNER}")
    assert await page.until(f"{card(record)}{CHOSEN}?.dataset.key") == "scope-approve-1"
    assert (await box.get(record)).status is Status.PENDING
    await page.press("Approve and remember", card(record))
    await page.until(f"{card(record)}.classList.contains('approved')")
    await box.remembered()
    assert (await asked(box, "git log -n 500")).status is Status.APPROVED


async def test_a_no_takes_the_suggestion_away(box: Inbox, page: Page) -> None:
    """The request waits on, and the no is kept; there is no banner on the next one."""
    await approved(box, 12)
    record = await asked(box)
    await see(page, record)
    await page.press("Not again", f"{card(record)}{BANNER}")
    await page.until(f"!{card(record)}{BANNER}")
    store = box.gateway.backend.store
    keys = store.keys.note("suggestions", "no *")
    assert len([key async for key in store.redis.scan_iter(match=keys)]) == 1
    assert (await box.get(record)).status is Status.PENDING
    await store.redis.delete(store.keys.note("suggestions", "week ann"))
    other = await asked(box, "git log -n 98")
    await see(page, other)
    await page.until(f"{card(other)}.querySelector('[data-key=approve]')")
    assert await page.evaluate(f"{card(other)}{BANNER}") is None


async def test_another_approver_is_suggested_nothing(box: Inbox, page: Page) -> None:
    """What bob approved is nothing that ann keeps approving."""
    await approved(box, 12, who="bob")
    record = await asked(box)
    await see(page, record)
    await page.until(f"{card(record)}.querySelector('[data-key=approve]')")
    assert await page.evaluate(f"{card(record)}{BANNER}") is None
