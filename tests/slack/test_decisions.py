"""People decide in Slack: scenarios 24 to 31, by their numbers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from gateway.domain.policy_document import Route
from gateway.domain.store import MessageContext
from gateway.errors import Unreachable
from gateway.models import Action, Execution, Reason, Report, Status
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.office import (
    BUTTONS,
    ROUTE,
    Office,
    at_work,
    form,
    labels,
    put_in_force,
    shown,
    told,
)
from tests.world import AGENT, World, click


async def test_one_tap_approves(office: Office) -> None:
    """Approve: the agent may go on, and the card shows who decided, without buttons."""
    record, message = await office.asked()
    assert labels(office.ann, message) == BUTTONS
    assert (await office.ann.click(message, "Approve")).ok
    done = await office.ended(record)
    assert done.status is Status.APPROVED
    await office.card_says(message, "Approved by ann")
    assert labels(office.ann, message) == ["Details"]
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
    await office.card_says(message, 'Denied by bob: "too risky"')
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
    await office.slack.until(
        lambda: sum("decided already" in t for t in office.ann.private()) >= losers
    )
    if done.status is Status.APPROVED:
        await office.slack.until(lambda: "decided already" in office.modal_says(office.bob))


async def test_24_two_replicas_make_one_decision(slack: Slack, world: World) -> None:
    """Two gateways with one app: each click reaches one of them, one decision, one card."""
    async with at_work(slack, world) as office, at_work(slack, world):
        await slack.until(lambda: len(slack.sockets.open) == 2)
        record, message = await office.asked()
        await asyncio.gather(
            *(human.click(message, "Approve") for human in (office.ann, office.bob) * 2)
        )
        assert (await office.ended(record)).status is Status.APPROVED
        await office.card_says(message, "Approved by")
        assert len(slack.messages("C1")) == 1
        assert len(await office.events("approved")) == 1


async def test_25_a_click_races_expiry_and_cancel(office: Office) -> None:
    """Whoever is first wins; the other is told, and the card agrees."""
    record, message = await office.asked()
    origin = MessageContext(agent=AGENT)
    await asyncio.gather(
        office.ann.click(message, "Approve"),
        office.world.approvals.cancel(record.id, origin, reason=Reason.CANCELLED_BY_AGENT),
    )
    done = await office.ended(record)
    word = {"approved": "Approved by ann", "cancelled": "Cancelled"}[done.status.value]
    await office.card_says(message, word)
    record, message = await office.asked(timeout=0.2)
    await office.world.sweeper.sweep()
    await office.ann.click(message, "Approve")
    async with asyncio.timeout(40):
        while not (done := await office.api.requests.get(record.id)).final:
            await office.world.sweeper.sweep()
    assert done.status in (Status.APPROVED, Status.EXPIRED)
    await office.card_says(message, done.status.value.title())


async def test_26_clicks_survive_a_restart(slack: Slack, world: World) -> None:
    """A card posted by a process that is gone is answered by the next one."""
    async with at_work(slack, world) as first:
        record, message = await first.asked()
    async with at_work(slack, world) as office:
        await office.ann.click(message, "Approve")
        assert (await office.ended(record)).status is Status.APPROVED
        await office.card_says(message, "Approved by ann")


async def test_26_a_click_on_a_decided_card_is_explained(office: Office) -> None:
    """Decided elsewhere while the card could not be edited: the late click is told who did it."""
    record, message = await office.asked()
    old = list(message.blocks)
    await office.world.core.requests.decide(click(record, Action.DENY))
    await office.card_says(message, "Denied by ann")
    message.blocks = old
    await office.bob.click(message, "Approve")
    await told(office.bob, "This request was decided already: denied by ann")


async def test_27_a_quorum_counts_people(slack: Slack, world: World) -> None:
    """Two of two: the same person twice, from two accounts, counts once; a denial ends it."""
    route = replace(ROUTE, quorum=2)
    async with at_work(slack, world, route) as office:
        other = slack.person("UBOB2")
        slack.workspace().channels["C1"].members.add("UBOB2")
        record, message = await office.asked()
        await office.bob.click(message, "Approve")
        await office.card_says(message, "1 of 2 approvals: bob")
        assert labels(office.ann, message) == BUTTONS
        await slack.until(lambda: slack.thread("C1", message.ts))
        assert "1 of 2 approvals: bob" in shown(slack.thread("C1", message.ts)[0])
        await other.click(message, "Approve")
        await told(other, "You approved; waits for 1 more: ann")
        assert (await office.api.requests.get(record.id)).status is Status.PENDING
        await office.card_says(message, "1 of 2 approvals: bob; waits for ann")
        await office.ann.click(message, "Approve")
        assert (await office.ended(record)).status is Status.APPROVED
        await office.card_says(message, "Approved by bob and ann")
        record, message = await office.asked()
        await office.bob.click(message, "Approve")
        await office.card_says(message, "1 of 2 approvals: bob")
        await office.ann.click(message, "Deny…")
        await form(office.ann, "deny")
        await office.ann.submit()
        assert (await office.ended(record)).status is Status.DENIED


async def test_after_my_vote_details_offer_me_no_approve(slack: Slack, world: World) -> None:
    """A modal is one person's: it says that they approved and who is missing. The others still
    have the button, there and on the card."""
    async with at_work(slack, world, replace(ROUTE, quorum=2)) as office:
        _, message = await office.asked()
        await office.bob.click(message, "Approve")
        await office.card_says(message, "1 of 2 approvals: bob")
        for human, offered in ((office.bob, False), (office.ann, True)):
            await human.more(message, "Details")
            await office.page(human, 1)
            assert ("Approve" in office.modal_buttons(human)) == offered
            assert ("You approved; waits for 1 more: ann" in office.modal_says(human)) != offered


async def test_what_nobody_may_approve_has_no_approve(slack: Slack, world: World) -> None:
    """The route names no approvers: the card says so, and Deny stands there alone."""
    async with at_work(slack, world, replace(ROUTE, approvers=())) as office:
        _, message = await office.asked()
        await office.card_says(message, "Nobody may approve this: its route has no approvers.")
        assert labels(office.ann, message)[:1] == ["Deny…"]
        assert "Approve" not in labels(office.ann, message)


async def test_28_the_deny_form_in_all_its_ways(office: Office) -> None:
    """Closed, empty reason, 3,000 characters, after somebody else, and with an expired trigger."""
    bob = office.bob
    record, message = await office.asked()
    await bob.click(message, "Deny…")
    await form(bob, "deny")
    await bob.close()
    assert (await office.api.requests.get(record.id)).status is Status.PENDING

    await bob.click(message, "Deny…")
    await form(bob, "deny")
    bob.fill("Reason, for the agent", "r" * 3000)
    await bob.submit()
    done = await office.ended(record)
    assert done.decision is not None
    assert len(done.decision.message) == 3000
    await office.card_says(message, "Denied by bob")

    record, message = await office.asked()
    await bob.click(message, "Deny…")
    await form(bob, "deny")
    await office.ann.click(message, "Approve")
    await office.ended(record)
    await bob.submit()
    await office.slack.until(lambda: "decided already" in office.modal_says(bob))
    await bob.close()

    record, message = await office.asked()
    office.slack.faults.plan("views.open", Fault.ERROR, error="expired_trigger_id")
    await bob.click(message, "Deny…")
    await told(bob, "Press the button again")
    await bob.click(message, "Deny…")
    await form(bob, "deny")
    await bob.submit()
    assert (await office.ended(record)).status is Status.DENIED


async def test_29_without_its_store_nothing_is_recorded(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store does not answer: the click is acked, the person told, nothing approved."""
    record, message = await office.asked()

    async def unreachable(*_: object) -> None:
        raise Unreachable("Redis does not respond")

    for name in ("load", "change"):
        monkeypatch.setattr(office.world.store, name, unreachable)
    assert (await office.ann.click(message, "Approve")).ok
    await told(office.ann, "Not recorded")
    monkeypatch.undo()
    assert (await office.api.requests.get(record.id)).status is Status.PENDING
    await office.ann.click(message, "Approve")
    assert (await office.ended(record)).status is Status.APPROVED


async def test_30_decided_elsewhere_every_copy_shows_it(slack: Slack, world: World) -> None:
    """Decided in the console: channel and direct message both name who did it."""
    route = Route(approvers=("ann",), targets=("slack:T1/C1", "slack:T1/UBOB"))
    async with at_work(slack, world, route) as office:
        record, message = await office.asked()
        await slack.until(lambda: "DBOB" in slack.workspace().channels and slack.messages("DBOB"))
        await world.core.requests.decide(click(record))
        for copy in (message, slack.messages("DBOB")[0]):
            await office.card_says(copy, "Approved by ann")
            assert labels(office.bob, copy) == ["Details"]


async def test_31_the_result_is_appended_and_rings(office: Office) -> None:
    """Buttons go at once; when the agent reports, the card and its thread tell how it went."""
    record, message = await office.asked()
    await office.ann.click(message, "Approve")
    await office.card_says(message, "Approved by ann")
    report = Report(execution=Execution.SUCCEEDED, duration_ms=1840, detail="<!channel> done")
    await office.world.approvals.report(record.id, report, MessageContext(agent=AGENT))
    await office.card_says(message, "ran for 1.8 s")
    await office.slack.until(lambda: office.slack.thread("C1", message.ts))
    (reply,) = office.slack.thread("C1", message.ts)
    assert "ran for 1.8 s" in shown(reply)
    assert "<!channel>" not in reply.text


async def test_claiming_tells_the_others(office: Office) -> None:
    """I'm looking at it: everybody sees who is."""
    _, message = await office.asked()
    await office.bob.more(message, "I'm looking at it")
    await office.card_says(message, "bob is looking at it")


async def test_a_stale_form_is_refused(office: Office) -> None:
    """Somebody edits while the form is open under quorum: the old form decides nothing."""
    await put_in_force(office.world, replace(ROUTE, quorum=2))
    record, message = await office.asked()
    bob = office.bob
    await bob.more(message, "Remember…")
    await form(bob, "remember")
    edited = click(record, Action.EDIT, arguments={"command": "ls -la"})
    await office.world.core.requests.decide(edited)
    await bob.submit()
    await office.slack.until(lambda: "has changed" in office.modal_says(bob))
    assert (
        json.dumps((await office.api.requests.get(record.id)).arguments) == '{"command": "ls -la"}'
    )
