"""A mask that could hide what acts: approved in the inbox only, after the reveal."""

from __future__ import annotations

import pytest

from gateway.models import Status
from tests.web.chromium import Page
from tests.web.inbox import AGENT, COMMAND, HIDING, MASKED, SECRET, Inbox, card, see
from tests.web.test_batches import TICKS
from tests.web.visitor import visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
APPROVING = ", ".join(f"[data-key={key}]" for key in ("approve", "to-edit", "to-remember"))


async def test_approve_appears_with_what_was_masked(box: Inbox, page: Page) -> None:
    """Until then there is none, nor Edit or Remember; who revealed it is written down."""
    record = await box.ask(**HIDING)
    buttons = f'{card(record)}.querySelectorAll("{APPROVING}").length'
    await page.until(
        f"{card(record)}.textContent.includes('A masked value could change what runs')"
    )
    assert await page.evaluate(buttons) == 0
    await page.press("Reveal secrets")
    await page.until(f"{card(record)}.textContent.includes('/srv/evil/install.sh')")
    assert await page.evaluate(buttons) == 3
    (event,) = await box.events("revealed")
    assert (event.data["person"], event.data["request_id"]) == ("ann", record.id)
    await page.press("Approve")
    await page.until(f"{card(record)}.classList.contains('approved')")


async def test_what_is_revealed_is_marked_where_it_stands(box: Inbox, page: Page) -> None:
    """And stands nowhere else: the head says that it is below, and titles never have it."""
    command = f"curl -H 'Authorization: Bearer {SECRET}'"
    record = await box.ask(**{**MASKED, "arguments": {"command": command}})
    await see(page, record)
    head, marks = (
        f"{card(record)}.querySelector('h2').textContent",
        f"[...{card(record)}.querySelectorAll('pre mark')].map((one) => one.textContent)",
    )
    assert "⟨secret⟩" in await page.evaluate(head)
    await page.press("Reveal secrets")
    await page.until(f"{card(record)}.textContent.includes('{SECRET}')")
    assert await page.evaluate(marks) == [SECRET]
    said = await page.evaluate(head)
    assert "⟨secret, shown below⟩" in said
    for told in (said, *await page.evaluate(_TITLES)):
        assert SECRET not in told


_TITLES = (
    "[document.title, document.getElementById('announce').textContent,"
    " document.getElementById('rows').textContent,"
    " ...[...document.querySelectorAll('[aria-label], [title]')]"
    ".map((one) => `${one.ariaLabel} ${one.title}`)]"
)


async def test_what_was_not_revealed_is_not_approved(box: Inbox) -> None:
    """Not with what came with the masked view, nor with another's; a reveal is of one revision."""
    record = await box.ask(**HIDING)
    async with visitor(box, "ann") as ann, visitor(box, "bob") as bob:
        for one in (await ann.shown(record), await ann.shown(record, whole=False)):
            assert (one["seen"], one["hides"]) == (None, True)
        revealed = (await ann.post(f"requests/{record.id}/reveal", {}))[1]
        status, answer = await bob.decide(record, seen=revealed["seen"])
        assert (status, answer["code"]) == (409, "not_seen")
        assert "reveal" in answer["detail"]
        await box.claim(record)
        status, _ = await ann.decide(record, seen=revealed["seen"])
        assert (status, (await box.get(record)).status) == (409, Status.PENDING)
        again = (await ann.post(f"requests/{record.id}/reveal", {}))[1]
        assert (await ann.decide(record, seen=again["seen"]))[0] == 200


async def test_it_is_apart_where_several_are_reviewed(box: Inbox, page: Page) -> None:
    """No tick for what is masked: the page says to reveal it, and to approve it alone."""
    for asked in (HIDING, COMMAND, {**COMMAND, "tool": "other"}):
        await box.ask(**asked)
    await page.press(f"Review 3 from {AGENT} together")
    await page.until(f"location.pathname === '/inbox/batch' && {TICKS} === 2")
    apart = await page.evaluate("document.getElementById('apart').textContent")
    assert (
        "a masked value could change what runs: reveal it, and approve the request alone" in apart
    )
