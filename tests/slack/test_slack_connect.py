"""Channels that people of other organisations read: no card there unless its route says so."""

from __future__ import annotations

import pytest

from adapters.slack.users_and_rights import EVENTS
from gateway.domain.policy_document import Escalation, Route
from gateway.ports.adapters import FAIL, OK
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.office import Office, at_work, shown, told
from tests.slack.test_checks import results
from tests.world import World, click

STEP = Escalation(after=900, targets=("slack:T1/C2",))
ROUTE = Route(approvers=("ann",), targets=("slack:T1/C1",), escalations=(STEP,))
ALLOWED = Route(approvers=("ann",), targets=("slack:shared/T1/C1",))


async def why_elsewhere(office: Office, channel: str = "C1") -> str:
    """Ask; return why its card is in C2 and not in the channel."""
    await office.ask()
    await office.slack.until(lambda: office.slack.messages("C2"))
    assert office.slack.messages(channel) == []
    (refused,) = await office.events("undelivered")
    return str(refused.data["why"])


@pytest.mark.parametrize("how", ["external", "inviting"])
async def test_no_card_goes_where_others_read(slack: Slack, world: World, how: str) -> None:
    """Shared, or an invitation is on its way: the route's next step at once, with what to do."""
    slack.channel("C2", "UANN")
    setattr(slack.workspace().channels["C1"], how, True)
    async with at_work(slack, world, ROUTE, steps=True) as office:
        why = await why_elsewhere(office)
    assert "shared with another organisation" in why
    assert "slack:shared/T1/C1" in why


async def test_where_slack_does_not_say_nothing_is_posted(slack: Slack, world: World) -> None:
    """Without the scope to ask, or with an answer that does not tell, it counts as shared."""
    slack.channel("C2", "UANN")
    slack.faults.plan("conversations.info", Fault.ERROR, error="missing_scope")
    async with at_work(slack, world, ROUTE, steps=True) as office:
        assert (
            "is shared with other organisations: Slack returned the error missing_scope"
            in await why_elsewhere(office)
        )


async def test_a_person_of_elsewhere_is_no_target(slack: Slack, world: World) -> None:
    """A direct message to somebody whom a shared channel made known goes out to nobody."""
    slack.channel("C2", "UANN")
    slack.person("UFAR").user.team = "T777"
    route = Route(approvers=("ann",), targets=("slack:T1/UFAR",), escalations=(STEP,))
    async with at_work(slack, world, route, steps=True) as office:
        await office.ask()
        await slack.until(lambda: slack.messages("C2"))
        (refused,) = await office.events("undelivered")
    assert refused.data["why"] == "slack:T1/UFAR belongs to another organisation"
    assert [channel.direct for channel in slack.workspace().channels.values()] == [False, False]


async def test_a_route_may_allow_it_and_others_still_decide_nothing(
    slack: Slack, world: World
) -> None:
    """The card is posted; a tap of another organisation is refused, ann's counts."""
    slack.channel("C1", "UANN", "UFAR").external = True
    far = slack.person("UFAR", name="far")
    far.user.team = "T777"
    async with at_work(slack, world, ALLOWED) as office:
        _, message = await office.asked()
        await far.click(message, "Approve")
        await told(far, "people from other organisations may not decide here".capitalize())
        await office.ann.click(message, "Approve")
        await office.card_says(message, "Approved by ann")


@pytest.mark.parametrize("event", EVENTS)
async def test_slack_is_asked_once_a_minute_and_after_news(office: Office, event: str) -> None:
    """Two cards, one question; once Slack tells that it is shared, the next card is refused."""
    slack = office.slack
    for name in ("one", "two"):
        await office.asked(arguments={"command": name})
    assert len(slack.state.called("conversations.info")) == 1
    slack.workspace().channels["C1"].external = True
    await slack.deliveries.event(slack.workspace(), {"type": event, "channel": "C1"})
    await office.ask(arguments={"command": "three"})
    await office.until_event("undelivered")
    assert len(slack.messages("C1")) == 2


async def test_outcomes_go_there_neither(slack: Slack, world: World) -> None:
    """Who is told the outcome is not another organisation."""
    slack.channel("C2", "UANN")
    slack.channel("C3", "UANN").external = True
    notify = ("slack:T1/C3", "slack:T1/C2")
    route = Route(approvers=("ann",), targets=("slack:T1/C1",), notify=notify)
    async with at_work(slack, world, route) as office:
        record, _ = await office.asked()
        await office.api.requests.decide(click(record))
        await slack.until(lambda: slack.messages("C2"))
        await office.until_event("undelivered")
    assert slack.messages("C3") == []


async def test_doctor_looks_at_it(slack: Slack, world: World) -> None:
    """A channel that others read fails, and takes no sample; one that may be read so is said."""
    slack.channel("C1", "UANN").external = True
    found = await results(slack, live=True)
    assert found["slack channels"][0] == FAIL
    assert "shared with another organisation" in found["slack channels"][1]
    assert slack.state.called("chat.postMessage") == []
    allowed = await results(slack, "slack:shared/T1/C1")
    assert allowed["slack channels"] == (
        OK,
        "1 reachable; people of other organisations can read slack:shared/T1/C1",
    )


async def test_a_channel_that_is_shared_no_more_takes_cards_again(
    slack: Slack, world: World
) -> None:
    """Nothing of the refusal is kept once Slack tells that others are gone."""
    slack.channel("C1", "UANN").external = True
    async with at_work(slack, world) as office:
        await office.ask()
        await office.until_event("undelivered")
        slack.workspace().channels["C1"].external = False
        told_of = {"type": "channel_unshared", "channel": "C1"}
        await slack.deliveries.event(slack.workspace(), told_of)
        _, message = await office.asked(arguments={"command": "later"})
    assert "Approval needed" in shown(message)
