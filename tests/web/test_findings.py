"""What the guardrails find, on the page: shown in amber, and nothing but text."""

from __future__ import annotations

import pytest

from gateway.models import Action, Risk, RiskLevel
from tests.danger import FOUND, HOSTILE, QUOTED, REMOVES
from tests.web.chromium import Page
from tests.web.inbox import Inbox, card

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


async def test_a_finding_is_on_the_card_opened_or_not(box: Inbox, page: Page) -> None:
    """In the colour of a warning, before what would run; a harmless request has none."""
    lines = "\n".join(f"echo {number}" for number in range(400))
    long = {"command": f"rm -rf build\n{lines}"}
    record = await box.ask(**{**REMOVES, "arguments": long})
    finding = f"{card(record)}.querySelector('.finding')"
    assert await page.until(f"{finding}?.textContent") == FOUND
    warns = "getComputedStyle(document.documentElement).getPropertyValue('--warn').trim()"
    colour = f"getComputedStyle({finding}).color"
    probe = (
        f"(() => {{ const one = document.createElement('i'); one.style.color = {warns};"
        f" document.body.append(one); const found = getComputedStyle(one).color;"
        f" one.remove(); return found === {colour} }})()"
    )
    assert await page.evaluate(probe)
    await page.press("Open everything")
    await page.until(f"{card(record)}.textContent.includes('echo 399')")
    assert await page.evaluate(f"{finding}.textContent") == FOUND
    await box.decide(record, Action.DENY)
    harmless = await box.ask()
    await page.until(card(harmless))
    assert not await page.evaluate(f"{card(harmless)}.textContent.includes('Guardrail')")


async def test_a_hostile_path_is_text(box: Inbox, page: Page) -> None:
    """On the card, and again where high risk is confirmed."""
    record = await box.ask(**HOSTILE, risk=Risk(level=RiskLevel.HIGH))
    finding = await page.until(f"{card(record)}.querySelector('.finding')?.textContent")
    assert finding == f"⚠️ {QUOTED}"
    assert (
        await page.evaluate(f"{card(record)}.querySelectorAll('.finding b, .finding a').length")
        == 0
    )
    await page.press("Approve")
    said = await page.until(f"{card(record)}.querySelector('.sure')?.textContent")
    assert f"⚠️ {QUOTED}." in said
