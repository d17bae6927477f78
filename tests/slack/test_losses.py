"""What is lost in Slack: only what it calls gone is gone, and requests go elsewhere at once."""

from __future__ import annotations

import pytest

from adapters.slack.users_and_rights import LOSSES
from gateway.delivery.outbox_worker import Timings
from gateway.domain.policy_document import Escalation, Route
from gateway.ports.outgoing import CopyState
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.office import Office, at_work, labels, shown
from tests.world import World, click

STEP = Escalation(after=900, targets=("slack:T1/C2",))
ROUTE = Route(approvers=("ann",), targets=("slack:T1/C1",), escalations=(STEP,))


@pytest.mark.parametrize("event", LOSSES)
async def test_a_lost_channel_sends_its_requests_elsewhere(
    slack: Slack, world: World, event: str
) -> None:
    """Slack tells that a channel was archived, deleted or left: the route's next step at once."""
    slack.channel("C2", "UANN")
    async with at_work(slack, world, ROUTE, steps=True) as office:
        record, _ = await office.asked()
        await office.until_kept(record, "slack:T1/C1")
        slack.workspace().channels["C1"].archived = True
        told = {"type": event, "channel": "C1", "user": "UANN"}
        await slack.deliveries.event(slack.workspace(), told)
        await slack.until(lambda: slack.messages("C2"))
        (gone,) = await office.events("copy_gone")
        assert gone.data["why"] == LOSSES[event]


async def test_another_channel_that_is_lost_changes_nothing(office: Office) -> None:
    """Nor does one of the same id in another workspace."""
    record, message = await office.asked()
    for channel in ("C9", "C1"):
        told = {"type": "channel_archive", "channel": channel}
        slack = office.slack
        team = slack.workspace() if channel == "C9" else slack.workspace("T2")
        await slack.deliveries.event(team, told)
    await office.ann.click(message, "Approve")
    await office.card_says(message, "Approved by ann")
    assert await office.events("copy_gone") == []
    assert (await office.ended(record)).final


@pytest.mark.parametrize(
    "why", ["is_archived", "is_inactive", "not_in_channel", "channel_not_found"]
)
async def test_a_passing_loss_heals(office: Office, why: str) -> None:
    """An archived channel is opened again, the app invited back: the card comes true."""
    record, message = await office.asked()
    office.slack.faults.plan("chat.update", Fault.ERROR, error=why)
    who = click(record).identity
    record = await office.api.requests.claim(record.id, who)
    await office.slack.until(lambda: office.slack.faults.happened)
    await office.api.requests.decide(click(record))
    await office.card_says(message, "Approved by ann")
    assert labels(office.ann, message) == ["Details"]


async def test_a_deleted_card_is_posted_again(office: Office) -> None:
    """Slack tells nobody, so it is found at the next edit: another card stands there then."""
    record, message = await office.asked()
    await office.until_kept(record, "slack:T1/C1")
    del office.slack.workspace().channels["C1"].messages[message.ts]
    await office.api.requests.claim(record.id, click(record).identity)
    await office.slack.until(lambda: office.slack.messages("C1"))
    (again,) = office.slack.messages("C1")
    await office.slack.until(lambda: "Approval needed" in shown(again))
    copies = await office.world.core.outbox.copies(record.id)
    assert copies["slack:T1/C1"].state in (CopyState.POSTED, CopyState.INTENDED)
    await office.ann.click(again, "Approve")
    await office.card_says(again, "Approved by ann")


async def test_a_deleted_card_is_found_without_an_edit(slack: Slack, world: World) -> None:
    """Slack tells nobody and the gateway edits nothing: it asks, and posts the card again."""
    async with at_work(slack, world, timings=Timings(check=0.3)) as office:
        record, message = await office.asked()
        await office.until_kept(record, "slack:T1/C1")
        del slack.workspace().channels["C1"].messages[message.ts]
        await slack.until(lambda: slack.messages("C1"))
        (again,) = slack.messages("C1")
        (gone,) = await office.events("copy_gone")
        assert gone.data["why"] == "Slack returned the error message_not_found"
        await office.until_kept(record, "slack:T1/C1")
        assert slack.state.called("chat.update") == []
        await office.ann.click(again, "Approve")
        await office.card_says(again, "Approved by ann")


async def test_a_card_that_slack_says_nothing_of_stays(slack: Slack, world: World) -> None:
    """A refusal that is not about the message, and an outage, are no deletion."""
    async with at_work(slack, world, timings=Timings(check=0.3)) as office:
        _, message = await office.asked()
        for fault in (Fault.ERROR, Fault.UNAVAILABLE, Fault.LIMITED):
            slack.faults.plan("chat.getPermalink", fault, error="channel_not_found")
        await slack.until(lambda: len(slack.faults.happened) == 3)
        assert slack.messages("C1") == [message]
        assert not await office.events("copy_gone")
        await office.ann.click(message, "Approve")
        await office.card_says(message, "Approved by ann")
