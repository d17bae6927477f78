"""The card that somebody clicked shows the end at once, whatever else waits for Slack's limit."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace

import pytest

from gateway.domain.policy_document import Route
from gateway.models import Status
from gateway.ports import Rate
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import BUTTONS, Office, at_work, form, labels, shown, told, use_up
from tests.world import World, click, identity


async def test_a_clicked_card_changes_at_once_in_a_burst(office: Office) -> None:
    """No edit is left in Slack's limit: the clicked card loses its buttons all the same, and the
    person needs no word of its own."""
    record, message = await office.asked()
    await use_up(office)
    await office.ann.click(message, "Approve")
    await office.card_says(message, "Approved by ann")
    assert labels(office.ann, message) == ["Details"]
    await office.settled()
    assert office.ann.private() == []
    assert office.slack.state.called("chat.update") == []
    assert (await office.ended(record)).status is Status.APPROVED


@pytest.mark.slow
async def test_two_dozen_clicked_cards_change_at_once(office: Office) -> None:
    """24 cards are approved at once, at Slack's own limits: each loses its buttons without waiting
    for them. Prints the counts for tests/verification.md."""
    cards = [await office.asked(arguments={"n": number}) for number in range(24)]
    now = asyncio.get_running_loop().time
    office.slack.rates.refused.clear()
    before = len(office.slack.state.called("chat.update"))
    began = now()

    async def decide(message: Message) -> float:
        await office.ann.click(message, "Approve")
        await office.card_says(message, "Approved by ann")
        assert labels(office.ann, message) == ["Details"]
        return now() - began

    took = await asyncio.gather(*(decide(message) for _, message in cards))
    counts = {
        "cards": len(took),
        "first_s": round(min(took), 1),
        "last_s": round(max(took), 1),
        "edits": len(office.slack.state.called("chat.update")) - before,
        "refused": len(office.slack.rates.refused),
    }
    sys.stdout.write(f"burst of Slack: {json.dumps(counts)}\n")
    assert counts["refused"] == 0


async def test_who_cannot_be_shown_the_card_is_told(office: Office) -> None:
    """Slack takes neither the edit nor the replacement: a private word says what was recorded."""
    record, message = await office.asked()
    await use_up(office)
    office.slack.faults.plan("response_url", Fault.UNAVAILABLE)
    await office.ann.click(message, "Approve")
    await told(office.ann, "The card will update soon")
    assert "approved by ann" in office.ann.private()[0].lower()
    assert (await office.ended(record)).status is Status.APPROVED


async def test_who_was_too_late_is_told_and_the_card_repaired(office: Office) -> None:
    """Somebody was faster, and the card had not heard of it: it has once it is clicked."""
    record, message = await office.asked()
    await use_up(office)
    by_ann = click(await office.api.requests.get(record.id), identity=identity("ann"))
    await office.api.requests.decide(by_ann)
    assert labels(office.bob, message) == BUTTONS
    await office.bob.click(message, "Approve")
    await told(office.bob, "decided already")
    await office.card_says(message, "Approved by ann")
    assert labels(office.bob, message) == ["Details"]


async def test_an_old_modal_button_repairs_the_card_too(office: Office) -> None:
    """Deny on a card that was decided meanwhile: the modal says so, and the card as well."""
    record, message = await office.asked()
    await use_up(office)
    await office.api.requests.decide(click(await office.api.requests.get(record.id)))
    await office.bob.click(message, "Deny…")
    await office.card_says(message, "Approved by ann")
    await office.slack.until(lambda: "decided already" in office.modal_says(office.bob))


async def test_a_denial_in_a_modal_goes_first(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait for an edit since earlier: the card whose modal was submitted is the first."""
    monkeypatch.setattr("adapters.slack.posting.UPDATES", Rate(1, 0.5))
    others = [await office.asked(arguments={"n": n}) for n in range(3)]
    _, message = await office.asked(arguments={"n": "mine"})
    await office.api.notes.shut("update T1", seconds=3.0)
    for record, _ in others:
        await office.api.requests.decide(click(await office.api.requests.get(record.id)))
    await office.ann.click(message, "Deny…")
    await form(office.ann, "deny")
    await office.ann.submit()
    await office.slack.until(lambda: len(office.slack.state.called("chat.update")) > 1)
    edited = [call["ts"] for call in office.slack.state.called("chat.update")]
    assert edited[0] == message.ts
    assert "Denied by ann" in shown(message)


async def test_who_decided_is_named_as_slack_names_people(slack: Slack, world: World) -> None:
    """On the pressed card at once and after the edit, one account of theirs; wherever they decided,
    and nobody who is not known to Slack. Nothing new is posted that could notify them."""
    route = Route(approvers=("ann", "bob", "root"), targets=("slack:T1/C1",))
    async with at_work(slack, world, route) as office:
        for who, named in (("ann", True), ("root", False)):
            record, message = await office.asked(arguments={"command": who})
            await office.api.requests.decide(replace(click(record), identity=identity(who)))
            await office.card_says(message, f"Approved by {who}")
            assert ("<@UANN>" in shown(message)) is named
        _, message = await office.asked()
        await use_up(office)
        await office.bob.click(message, "Approve")
        await office.card_says(message, "<@UBOB>")
        assert "<@UBOB2>" not in shown(message)
    assert not any("<@" in str(one) for one in slack.state.called("chat.postMessage"))
