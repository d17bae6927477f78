"""The inbox asks for the number that is shown where the agent waits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.domain.records import StoredRequest
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.models import Risk, RiskLevel, Status
from tests.approvals.test_step_up import other_than
from tests.web.chromium import Browser, Page
from tests.web.inbox import COMMAND, Inbox, card, inbox
from tests.web.test_passkeys import add_authenticator, open_devices

pytestmark = [pytest.mark.browser]

DANGEROUS = {**COMMAND, "risk": Risk(level=RiskLevel.HIGH, reasons=("touches prod",))}
FIELD = "[data-key=number]"
SAYS = "{card}.textContent.includes({words})"


async def asked(box: Inbox, page: Page, *ways: StepUp) -> tuple[StoredRequest, str]:
    """Open a dangerous request under a route that takes one of these; return it and its number."""
    await box.route(risk=RulesByRisk(high=LevelRules(step_up=ways)))
    record = await box.ask(**DANGEROUS)
    await page.goto(f"{box.gateway.url}/inbox/r/{record.id}")
    number = await box.gateway.backend.store.number_of(record.id)
    return record, number or ""


async def says(page: Page, record: StoredRequest, words: str) -> None:
    """Return once the card says this."""
    await page.until(SAYS.format(card=card(record), words=json.dumps(words)))


async def test_the_number_is_asked_for_and_a_wrong_one_is_told(box: Inbox, page: Page) -> None:
    """Two taps and three digits; a wrong one says how many tries are left, and the field is empty
    again; what was decided says how it was confirmed."""
    record, number = await asked(box, page, StepUp.NUMBER)
    await says(page, record, "Approving requires the number that is shown where the agent waits.")
    await page.press("Review…", card(record))
    await page.fill(FIELD, other_than(number))
    await page.press("Yes, approve")
    await says(page, record, "2 tries are left")
    await page.press("Review…", card(record))
    assert await page.until(f"document.querySelector('{FIELD}')") is not None
    assert await page.evaluate(f"document.querySelector('{FIELD}').value") == ""
    await page.fill(FIELD, number)
    await page.press("Yes, approve")
    await says(page, record, "pproved by ann, confirmed by number")
    assert (await box.get(record)).status is Status.APPROVED


async def test_an_empty_number_approves_only_where_a_second_person_may(
    box: Inbox, page: Page
) -> None:
    """Without the number nothing is decided; beside the other way it is the first of two votes."""
    record, _ = await asked(box, page, StepUp.NUMBER)
    await says(page, record, "Approving requires")
    await page.press("Review…", card(record))
    await page.press("Yes, approve")
    await says(page, record, "ype the number that is shown where deployer waits")
    either, _ = await asked(box, page, StepUp.NUMBER, StepUp.PERSON)
    await says(page, either, "or a second person")
    await page.press("Review…", card(either))
    await says(page, either, "If you leave it empty, a second person must approve too.")
    await page.press("Yes, approve", card(either))
    await says(page, either, "You approved; waits for 1 more: bob")


async def test_an_edit_into_danger_asks_for_the_number(box: Inbox, page: Page) -> None:
    """When the gateway says that the edited call takes it, the field stands beside the changes."""
    record, number = await asked(box, page, StepUp.NUMBER)
    await page.press("Edit", card(record))
    await page.press("As JSON")
    await page.fill("[data-key=edit]", '{"command": "make deploy"}')
    await page.press("Show the changes")
    await page.fill(FIELD, number)
    await page.press("Approve with these changes")
    await page.until(f"{card(record)}.classList.contains('approved')")
    after = await box.get(record)
    assert (after.arguments, after.status) == ({"command": "make deploy"}, Status.APPROVED)


async def test_a_passkey_confirms_in_the_inbox(tmp_path: Path, browser: Browser) -> None:
    """A real browser with a device of its own: one press, one look at the device, and the card says
    with what; whoever has no passkey is told where to make one."""
    async with inbox(tmp_path, named=True) as box:
        page = await browser.tab()
        await box.sign_in(page)
        record, _ = await asked(box, page, StepUp.PASSKEY)
        await says(page, record, "Approving requires a passkey.")
        await page.press("Review…", card(record))
        assert not await page.evaluate(f"{card(record)}.textContent.includes('Yes, approve')")
        await page.press("Confirm with a passkey")
        await says(page, record, "create a passkey under Devices first")
        await add_authenticator(page)
        await open_devices(box, page, "without a link")
        await page.press("Add a passkey")
        await page.until("document.body.textContent.includes('The passkey was added.')")
        await page.goto(f"{box.gateway.url}/inbox/r/{record.id}")
        await says(page, record, "Approving requires")
        await page.press("Review…", card(record))
        await page.press("Confirm with a passkey")
        await says(page, record, "pproved by ann, confirmed by passkey")
        done = await box.get(record)
        assert [one.way for one in done.stepped] == [StepUp.PASSKEY]
        assert page.errors == []
