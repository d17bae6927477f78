"""People decide in Slack: scenarios 24 to 31, by their numbers."""

from __future__ import annotations

import asyncio

from gateway.models import Action, Status
from tests.slack.counterpart.person import Human
from tests.slack.office import Office, labels, shown


async def form(human: Human, kind: str) -> None:
    """Wait until somebody's modal is filled."""
    await human.state.until(lambda: human.has_modal and human.modal.view.get("callback_id") == kind)


async def test_one_tap_approves(office: Office) -> None:
    """Approve: the agent may go on, and the card shows who decided, without buttons."""
    record, message = await office.asked()
    assert labels(office.ann, message) == ["Approve", "Deny…", "Details"]
    assert (await office.ann.click(message, "Approve")).ok
    done = await office.ended(record)
    assert done.status is Status.APPROVED
    await office.card_says(message, "Approved by ann")
    assert labels(office.ann, message) == []
    assert "ls" in shown(message)


async def test_denying_asks_for_a_reason(office: Office) -> None:
    """Deny: a modal asks why, the agent is told, and the modal closes."""
    record, message = await office.asked()
    await office.bob.click(message, "Deny…")
    await form(office.bob, "deny")
    office.bob.fill("Reason, for the agent", "too risky")
    await office.bob.submit()
    done = await office.ended(record)
    assert done.decision is not None
    assert (done.decision.action, done.decision.message) == (Action.DENY, "too risky")
    await office.card_says(message, "Denied by bob: too risky")
    assert not office.bob.has_modal


async def test_24_one_decision_from_a_double_click_and_two_people(office: Office) -> None:
    """Ann clicks twice while bob denies: one decision, and everybody else is told which."""
    record, message = await office.asked()
    await office.bob.click(message, "Deny…")
    await form(office.bob, "deny")
    await asyncio.gather(
        office.ann.click(message, "Approve"),
        office.ann.click(message, "Approve"),
        office.bob.submit(),
    )
    done = await office.ended(record)
    assert done.status in (Status.APPROVED, Status.DENIED)
    assert len(await office.events("approved", "denied")) == 1
    losers = 1 if done.status is Status.APPROVED else 2
    await office.slack.until(lambda: len(office.ann.private()) + office.bob.has_modal >= losers)
