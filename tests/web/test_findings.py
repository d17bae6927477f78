"""What the guardrails find, on the page: shown in amber, and nothing but text."""

from __future__ import annotations

import pytest

from gateway.domain.policy_document import Guardrails
from gateway.models import Action, Risk, RiskLevel
from tests.danger import ALARM, HOSTILE, QUOTED, RAISED, REMOVES, UNSEEN, watch
from tests.web.chromium import Page
from tests.web.inbox import Inbox, card, see

SHORT = "⚠️ removes folders whole"
"""As it stands before the one text that it was found in."""

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


def stands_in(one: str, name: str) -> str:
    """Return an expression: whether an element is written in a colour of the page's."""
    wanted = f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()"
    return (
        f"(() => {{ const probe = document.createElement('i'); probe.style.color = {wanted};"
        f" document.body.append(probe); const found = getComputedStyle(probe).color;"
        f" probe.remove(); return found === getComputedStyle({one}).color }})()"
    )


async def test_a_finding_is_red_where_guardrails_are_in_force(box: Inbox, page: Page) -> None:
    """The risk is high, and the confirmation repeats it; a harmless request is as ever."""
    await watch(box.gateway.core, box.gateway.backend.store, Guardrails.ASK)
    record = await box.ask(**REMOVES)
    finding = f"{card(record)}.querySelector('.finding')"
    assert await page.until(f"{finding}?.textContent")
    assert await page.evaluate(stands_in(finding, "--stop"))
    # Before what runs as much as there is room for, and the rest after it.
    said = await page.evaluate(f"[...{card(record)}.children].map((one) => one.textContent)")
    assert said[1].startswith("High risk")
    assert said[2] == SHORT
    assert RAISED in "".join(said[1:5])
    await page.press("Review…")
    said = await page.until(f"{card(record)}.querySelector('.sure')?.textContent")
    assert f"{ALARM}." in said
    await box.decide(record, Action.DENY)
    harmless = await box.ask()
    await see(page, harmless)
    text = await page.evaluate(f"{card(harmless)}.textContent")
    assert not [word for word in ("Guardrail", "🔴", "⚠️", "High risk") if word in text]


async def test_rules_in_shadow_are_seen_nowhere(box: Inbox, page: Page) -> None:
    """Neither while it waits, nor in what the page was sent; findings of the guardrails are."""
    await watch(box.gateway.core, box.gateway.backend.store, Guardrails.SHADOW)
    record = await box.ask(**REMOVES)
    assert await page.until(f"{card(record)}.querySelector('.finding')?.textContent") == SHORT
    assert UNSEEN not in await page.evaluate("document.documentElement.outerHTML")
    sent = await page.evaluate(
        f"fetch('/inbox/api/requests/{record.id}').then((answer) => answer.text())"
    )
    assert ("removes folders whole" in sent, UNSEEN in sent) == (True, False)


async def test_a_finding_is_on_the_card_opened_or_not(box: Inbox, page: Page) -> None:
    """In the colour of a warning; a harmless request has none."""
    lines = "\n".join(f"echo {number}" for number in range(400))
    long = {"command": f"rm -rf build\n{lines}"}
    record = await box.ask(**{**REMOVES, "arguments": long})
    finding = f"{card(record)}.querySelector('.finding')"
    assert await page.until(f"{finding}?.textContent") == SHORT
    assert await page.evaluate(stands_in(finding, "--warn"))
    await page.press("Open everything")
    await page.until(f"{card(record)}.textContent.includes('echo 399')")
    assert await page.evaluate(f"{finding}.textContent") == SHORT
    await box.decide(record, Action.DENY)
    harmless = await box.ask()
    await see(page, harmless)
    assert not await page.evaluate(f"{card(harmless)}.textContent.includes('Guardrail')")


async def test_a_hostile_path_is_text(box: Inbox, page: Page) -> None:
    """On the card, and again where high risk is confirmed."""
    record = await box.ask(**HOSTILE, risk=Risk(level=RiskLevel.HIGH))
    finding = await page.until(f"{card(record)}.querySelector('.finding')?.textContent")
    assert finding == f"⚠️ {QUOTED.removeprefix('Guardrail: ')}"
    assert (
        await page.evaluate(f"{card(record)}.querySelectorAll('.finding b, .finding a').length")
        == 0
    )
    await page.press("Review…")
    said = await page.until(f"{card(record)}.querySelector('.sure')?.textContent")
    assert f"⚠️ {QUOTED}." in said
