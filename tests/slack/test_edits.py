"""Every copy converges to the truth: scenarios 32 to 34, 6, 11 and 12, by their numbers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.domain.policy_document import Route
from gateway.models import Action, Status
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.office import (
    ROUTE,
    Office,
    at_work,
    form,
    labels,
    put_in_force,
    shown,
    told,
    use_up,
)
from tests.world import World, click

TWO = Route(approvers=("ann", "bob"), targets=("slack:T1/C1", "slack:T1/C2"))


@pytest.mark.parametrize("fate", ["deleted", "locked"])
async def test_32_a_dead_copy_is_dropped_and_the_others_are_true(
    slack: Slack, world: World, fate: str
) -> None:
    """Deleted, or past the time for edits: recorded once, not tried for ever. What may come back
    (an archived channel, the app kicked out) is another matter: see test_losses."""
    slack.channel("C2", "UANN")
    async with at_work(slack, world, TWO) as office:
        record, message = await office.asked()
        await slack.until(lambda: slack.messages("C2"))
        channel = slack.workspace().channels["C2"]
        (dead,) = slack.messages("C2")
        if fate == "deleted":
            del channel.messages[dead.ts]
        dead.locked = True
        await office.until_kept(record, "slack:T1/C2")
        await office.ann.click(message, "Approve")
        await office.card_says(message, "Approved by ann")
        gone = await office.until_event("copy_gone")
        assert gone.data["target"] == "slack:T1/C2"
        tries = len([c for c in slack.state.called("chat.update") if c["channel"] == "C2"])
        await world.core.requests.decide(click(await office.ask()))
        assert tries <= 1


async def test_33_a_late_edit_never_undoes_a_decision(office: Office) -> None:
    """Many changes while edits fail: the card ends with the decision and who made it."""
    await put_in_force(office.world, replace(ROUTE, quorum=2))
    office.slack.faults.plan("chat.update", Fault.UNAVAILABLE, times=1)
    record, message = await office.asked()
    await office.bob.more(message, "I'm looking at it")
    await office.bob.click(message, "Approve")
    await office.ann.click(message, "Approve")
    await office.ended(record)
    await office.slack.until(lambda: "Approved by bob and ann" in shown(message), seconds=20)
    assert labels(office.ann, message) == ["Details"]


async def test_34_what_was_decided_before_a_crash_is_shown_after_it(
    slack: Slack, world: World
) -> None:
    """Decided, and the process gone before the edit: the next one makes the card true."""
    async with at_work(slack, world) as first:
        record, message = await first.asked()
        await first.until_kept(record, "slack:T1/C1")
    await world.core.requests.decide(click(record))
    assert "Approval needed" in shown(message)
    async with at_work(slack, world) as office:
        await office.card_says(message, "Approved by ann")


async def test_06_a_crowd_of_edits_is_coalesced(office: Office) -> None:
    """A card that changed often is edited to its latest state, not once for each change."""
    record, message = await office.asked()
    await use_up(office, leave=16)
    for on in (True, False) * 5:
        record = await office.api.requests.claim(record.id, click(record).identity, on=on)
    await office.ann.click(message, "Approve")
    await office.card_says(message, "Approved by ann")
    assert message.edits <= 3


async def test_11_other_surfaces_parse_nothing_either(office: Office) -> None:
    """Details, lists, Home, thread replies and private answers show markup as text."""
    tool = "rm <!channel> <@U1>"
    record, message = await office.asked(tool=tool, hint="*bold* <!here>")
    ann = office.ann
    await ann.more(message, "Details")
    await form(ann, "read")
    await office.slack.until(lambda: "Page 1" in office.modal_says(ann))
    assert tool in office.modal_says(ann)
    await ann.slash("/approvals", "list", "C1")
    await told(ann, "1 pending")
    await ann.open_home()
    await office.slack.until(lambda: office.slack.workspace().homes)
    for method, where in (("chat.postMessage", "text"), ("chat.update", "text")):
        for call in office.slack.state.called(method):
            assert "<!channel>" not in call[where]
            assert "<@U1>" not in call[where]
    for surface in (ann.modal.view, ann.home):
        assert "mrkdwn" not in str([b for b in surface["blocks"] if tool in str(b)])
    assert (await office.api.requests.get(record.id)).status is Status.PENDING


async def test_12_a_reviewers_reason_pings_nobody(office: Office) -> None:
    """Mentions in the reason stand as text on the card, and in what the requester is told."""
    route = replace(ROUTE, notify=("slack:T1/UBOB",))
    await put_in_force(office.world, route)
    _, message = await office.asked()
    await office.ann.click(message, "Deny…")
    await form(office.ann, "deny")
    office.ann.fill("Reason, for the agent", "<!channel> <@UBOB> *no*")
    await office.ann.submit()
    await office.card_says(message, "<!channel> <@UBOB> *no*")
    parsed = [b for b in message.blocks if "mrkdwn" in str(b) and "<!channel>" in str(b)]
    assert not parsed
    await office.slack.until(lambda: "DBOB" in office.slack.workspace().channels)
    await office.slack.until(lambda: office.slack.messages("DBOB"))
    assert "<!channel>" not in office.slack.messages("DBOB")[0].text


async def test_two_replicas_keep_one_card_true(slack: Slack, world: World) -> None:
    """Requests, votes and decisions under two replicas: one card each, and each is right."""
    async with at_work(slack, world) as office, at_work(slack, world):
        records = [await office.ask(tool=f"tool{n}") for n in range(4)]
        await slack.until(lambda: len(slack.messages("C1")) == 4, seconds=20)
        await asyncio.gather(*(world.core.requests.decide(click(r, Action.DENY)) for r in records))
        await slack.until(
            lambda: all("Denied by ann" in shown(m) for m in slack.messages("C1")), seconds=20
        )
        assert len(slack.messages("C1")) == 4
