"""What takes a step-up: the number that is shown where the agent waits, or a passkey."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace

import pytest

from gateway.cards.shared_texts import NO_LINK
from gateway.domain.records import Identity, StoredRequest
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import Busy
from gateway.models import Status
from gateway.stores.sign_in import RedisLogins
from tests.approvals.test_step_up import other_than
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import HIGH, ROUTE, Office, at_work, form, labels, put_in_force, shown
from tests.world import World

BY_NUMBER = RulesByRisk(high=LevelRules(step_up=(StepUp.NUMBER,)))
LABEL = "The number that is shown where the agent waits"


async def asked(office: Office) -> tuple[StoredRequest, Message, str]:
    """Return a dangerous request, its card, and its number."""
    await put_in_force(office.world, replace(ROUTE, risk=BY_NUMBER))
    record, message = await office.asked(risk=HIGH)
    return record, message, await office.world.store.number_of(record.id) or ""


async def test_the_number_is_typed_in_the_form_behind_the_full_view(office: Office) -> None:
    """A wrong one is told below its field; the right one approves, and the card says so."""
    record, message, number = await asked(office)
    await office.card_says(message, "Approving requires the number")
    await office.ann.click(message, "Review…")
    await office.modal_offers(office.ann, "Approve…")
    await office.ann.click_modal("Approve…")
    await form(office.ann, "number")
    office.ann.fill(LABEL, other_than(number))
    await office.ann.submit()
    assert "2 tries are left" in office.ann.modal.view["errors"]["text"]
    office.ann.fill(LABEL, number)
    await office.ann.submit()
    assert (await office.ended(record)).status is Status.APPROVED
    await office.card_says(message, "confirmed by number")


async def test_the_form_says_how_many_tries_are_left(office: Office) -> None:
    """Before the first and after a wrong one, and that the third wrong number denies."""
    _, message, number = await asked(office)
    ann = office.ann
    for left in ("3 tries are left", "2 tries are left", "1 try is left"):
        await ann.click(message, "Review…")
        await office.modal_offers(ann, "Approve…")
        await ann.click_modal("Approve…")
        await form(ann, "number")
        assert f"{left}: the third wrong number denies the request." in office.modal_says(ann)
        ann.fill(LABEL, other_than(number))
        await ann.submit()
        while ann.has_modal:
            await ann.close()


@pytest.mark.parametrize("address", ["https://approvals.example/inbox", ""])
async def test_what_takes_a_passkey_is_approved_in_the_inbox(
    slack: Slack, world: World, address: str
) -> None:
    """A link to the request stands in the place of Approve, on the card, behind Details and in
    Home; without an address the card says how one gets there. A forged press decides nothing."""
    passkey = RulesByRisk(high=LevelRules(step_up=(StepUp.PASSKEY,)))
    async with at_work(slack, world, inbox=address) as office:
        await put_in_force(office.world, replace(ROUTE, risk=passkey))
        record, message = await office.asked(risk=HIGH)
        leads = ["Approve in the inbox"] if address else []
        ann = office.ann
        assert labels(ann, message) == [*leads, "Deny…", "More…"]
        assert (f"{address}/r/{record.id}" in str(message.blocks)) == bool(address)
        assert "requires a passkey in the inbox" in shown(message)
        assert (NO_LINK in shown(message)) != bool(address)
        await ann.open_home()
        await slack.until(lambda: "UANN" in slack.workspace().homes)
        home = [one["text"]["text"] for _, one in ann.buttons(ann.home["blocks"])]
        assert home == [*leads, "Deny…", "More…"]
        await ann.more(message, "Details")
        await office.page(ann, 1)
        assert office.modal_buttons(ann) == [*leads, "Deny…"]
        block, button = next(
            one for one in ann.buttons(message.blocks) if one[1]["text"]["text"] == "Deny…"
        )
        forged = {**button, "action_id": "approve_confirmed"}
        await slack.deliveries.interaction(ann.payloads.on_message("C1", message, block, forged))
        await office.settled()
        assert (await office.api.requests.get(record.id)).status is Status.PENDING


async def test_another_answer_that_takes_it_leads_to_the_inbox(office: Office) -> None:
    """An edit into danger decides nothing there."""
    await put_in_force(office.world, replace(ROUTE, risk=BY_NUMBER))
    record, message, _ = await asked(office)
    await office.ann.click(message, "Review…")
    await office.modal_offers(office.ann, "Approve…")
    await office.ann.more(message, "Respond instead…")
    await form(office.ann, "respond")
    office.ann.fill("Result that the agent gets; the call is not run", "done")
    await office.ann.submit()
    assert "Extra verification needed" in office.modal_says(office.ann)
    assert (await office.api.requests.get(record.id)).status is Status.PENDING


@pytest.mark.parametrize("often", [False, True], ids=["a link", "too many links"])
async def test_what_takes_a_step_up_leads_there_by_a_link_that_works_once(
    slack: Slack, world: World, often: bool
) -> None:
    """The button signs its person in, once, and goes to the request; who asked for too many gets
    the request's address. Only they see the modal that has it; nothing is decided."""
    address = "https://approvals.example/inbox"
    async with at_work(slack, world, inbox=address) as office:
        record, message, _ = await asked(office)
        await office.ann.more(message, "Respond instead…")
        await form(office.ann, "respond")
        office.ann.fill("Result that the agent gets; the call is not run", "done")
        ann = Identity(platform="slack", id="T1/UANN")
        with suppress(Busy):
            while often:
                await office.api.links.make(ann)
        await office.ann.submit()
        assert "Extra verification needed" in office.modal_says(office.ann)
        (url,) = re.findall(r'"url": "([^"]+)"', json.dumps(office.ann.modal.view))
        found = re.fullmatch(rf"{address}/login#code=([\w-]+)&to={record.id}", url)
        assert (found is None) == often
        if found is None:
            assert url == f"{address}/r/{record.id}"
        else:
            logins = RedisLogins(world.store, SystemClock())
            assert await logins.find_holder(found[1], address="") == "ann"
        assert (await office.api.requests.get(record.id)).status is Status.PENDING
