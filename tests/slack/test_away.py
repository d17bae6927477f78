"""`/approvals away` and `back` in Slack, and groups that a rota keeps: who is called, and who is
not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import pytest

from gateway.domain.policy_document import Route
from gateway.models import Status
from tests.slack.counterpart.person import Human
from tests.slack.counterpart.slack import Slack
from tests.slack.office import Office, at_work, put_in_force, shown
from tests.world import World

ROUTE = Route(approvers=("ann", "bob"), targets=("slack:T1/C1",), mention=True, remind_after=(0.1,))


@pytest.fixture
async def office(slack: Slack, world: World) -> AsyncIterator[Office]:
    """Yield a gateway at work in a channel where ann and bob are called."""
    slack.workspace().channels["C1"].members.add("UBOB")
    async with at_work(slack, world, ROUTE, steps=True) as made:
        yield made


async def says(human: Human, text: str) -> str:
    """Type a command of ours; return the private reply."""
    before = len(human.private())
    await human.slash("/approvals", text, "C1")
    await human.state.until(lambda: human.told_more_than(before))
    return human.private()[-1]


async def test_the_delegate_is_called_instead(office: Office) -> None:
    """Ann is away in her own zone: cards and reminders call bob alone, and say why. Back again, she
    is called, and the card that waits says so no more."""
    told = await says(office.ann, "away until Mon 09:00 to @bob")
    assert "ann is away until " in told and " 09:00 CE" in told
    record, message = await office.asked(tool="deploy")
    assert "<@UBOB>" in shown(message) and "<@UANN>" not in shown(message)
    assert "; bob is asked instead." in shown(message)
    await office.slack.until(lambda: office.slack.thread("C1", message.ts), seconds=15)
    (reminder, *_) = office.slack.thread("C1", message.ts)
    assert reminder.text.startswith("<@UBOB> <@UBOB2> Still pending, until <!date^")
    assert "deploy" in reminder.text and "bob may decide it. ann is away until " in reminder.text
    assert "You are back" in await says(office.ann, "back")
    await office.slack.until(lambda: "asked instead" not in shown(message))
    assert "<@UANN>" in shown(message)
    await office.ann.click(message, "Approve")
    assert (await office.ended(record)).status is Status.APPROVED


async def test_who_is_away_still_decides_and_eve_does_not(office: Office) -> None:
    """An absence moves no right: a click by the wrong person is refused as ever, twice too."""
    office.slack.workspace().channels["C1"].members.add("UEVE")
    eve = office.slack.person("UEVE", name="eve")
    await says(office.ann, "away until Mon to bob")
    record, message = await office.asked()
    for _ in range(2):
        before = len(eve.private())
        await eve.click(message, "Approve")
        await eve.state.until(partial(eve.told_more_than, before))
        assert "not an approver" in eve.private()[-1]
    await asyncio.gather(*(office.ann.click(message, "Approve") for _ in range(2)))
    assert (await office.ended(record)).status is Status.APPROVED
    assert len(await office.events("approved")) == 1


@pytest.mark.parametrize(
    ("typed", "reply"),
    [
        ("away", "away until Mon 09:00 to @ben"),
        ("away @bob until Mon to @ann", "away until Mon 09:00 to @ben"),
        ("away until yesterday to @bob", "away until Mon 09:00 to @ben"),
        ("away until 2020-01-01 to @bob", "away until Mon 09:00 to @ben"),
        ("away until 2199-01-01 to @bob", "not within the next 60 days"),
        ("away until Mon to @ann", "may approve nothing that you may"),
        ("away until Mon to @eve", "may approve nothing that you may"),
        ("away until Mon to <!channel>", "may approve nothing that you may"),
        ("back", "You are not away"),
    ],
)
async def test_what_is_refused_changes_nothing(office: Office, typed: str, reply: str) -> None:
    """Each refusal says what is wrong, to the person alone."""
    assert reply in await says(office.ann, typed)
    assert await office.events("away_begun", "away_ended") == []


async def test_somebody_else_cannot_send_ann_away(office: Office) -> None:
    """A member whom the policy does not know names no delegate; bob's command is about bob."""
    office.slack.workspace().channels["C1"].members.add("UNEW")
    new = office.slack.person("UNEW", name="new")
    assert "only people in the policy" in (await says(new, "away until Mon to @bob")).lower()
    assert "bob is away until" in await says(office.bob, "away until Mon to @ann")
    _, message = await office.asked()
    assert "<@UANN>" in shown(message) and "<@UBOB>" not in shown(message)


async def test_a_delegate_who_loses_the_right_is_called_no_more(office: Office) -> None:
    """The card that waits calls ann again, and bob decides nothing."""
    await says(office.ann, "away until Mon to @bob")
    _, message = await office.asked()
    await put_in_force(office.world, replace(ROUTE, approvers=("ann", "eve")))
    await office.slack.until(lambda: "asked instead" not in shown(message))
    assert "<@UANN>" in shown(message) and "<@UBOB>" not in shown(message)
    before = len(office.bob.private())
    await office.bob.click(message, "Approve")
    await office.slack.until(lambda: office.bob.told_more_than(before))
    assert "not an approver" in office.bob.private()[-1]


async def test_two_in_a_circle_are_both_called(office: Office) -> None:
    """The second is refused, so that somebody is asked."""
    await says(office.ann, "away until Mon to @bob")
    assert "name somebody else" in await says(office.bob, "away until Mon to @ann")
    _, message = await office.asked()
    assert "<@UBOB>" in shown(message)


async def test_a_group_that_a_rota_keeps_is_called_and_decides(slack: Slack, world: World) -> None:
    """On call is who is in the group now: the card calls the group, the shift changes in Slack, and
    the right goes with it. An absence does not touch the group."""
    slack.workspace().channels["C1"].members.add("UBOB")
    route = Route(approvers=("slack:T1/S1",), targets=("slack:T1/C1",), mention=True)
    async with at_work(slack, world, route) as office:
        slack.workspace().groups["S1"] = ["UANN"]
        record, message = await office.asked()
        assert "<!subteam^S1>" in shown(message)
        told = await says(office.ann, "away until Mon to @bob")
        assert "may approve nothing that you may" in told
        slack.workspace().groups["S1"] = ["UBOB"]
        event = {"type": "subteam_members_changed", "subteam_id": "S1"}
        await slack.deliveries.event(slack.workspace(), event)
        before = len(office.ann.private())
        await office.ann.click(message, "Approve")
        await slack.until(lambda: office.ann.told_more_than(before))
        assert "not an approver" in office.ann.private()[-1]
        await office.bob.click(message, "Approve")
        assert (await office.ended(record)).status is Status.APPROVED
