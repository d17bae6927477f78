"""Cards in the thread where the conversation began, and how agents could abuse that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.delivery.outbox_worker import Timings
from gateway.domain.policy_document import Escalation, Route
from gateway.domain.records import Identity, Remember
from gateway.domain.store import MessageContext
from gateway.errors import Unauthorized
from gateway.models import Origin, Reason, Status, digest_of
from gateway.ports.outgoing import CopyState
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import PEOPLE, Office, at_work, labels, put_in_force, shown, told
from tests.slack.test_grant_cards import is_grant
from tests.slack.test_surfaces import OAUTH, install
from tests.waiting import moment
from tests.world import AGENT, World, click, over_http, request

ROUTE = Route(
    agents=(AGENT,),
    approvers=("ann",),
    targets=("origin", "slack:T1/C1"),
    origins=("slack:T1/CTALK",),
)
OPEN = replace(ROUTE, origins=("slack:T1/",))
THREAD = "1780000000.000100"
TALK = Origin(channel="slack", chat="T1/CTALK", thread=THREAD, sender="T1/UEVE")
ANN = Identity(platform="slack", id="T1/UANN")
TARGET = f"slack:origin/T1/CTALK/{THREAD}"


@pytest.fixture
def talk(slack: Slack) -> Iterator[list[Message]]:
    """Have eve ask the agent something in CTALK; yield what stands in that thread, live."""
    begin(slack, "CTALK")
    slack.person("UEVE", name="eve")
    yield slack.workspace().channels["CTALK"].messages  # type: ignore[misc]


def begin(slack: Slack, channel: str, team: str = "T1") -> None:
    """Have a conversation begin in a channel."""
    there = slack.channel(channel, "UANN", "UEVE", team=team)
    there.messages[THREAD] = Message(ts=THREAD, user="UEVE", text="clean up, please")


def thread(slack: Slack, channel: str = "CTALK") -> list[Message]:
    """Return the replies where the conversation began."""
    return slack.thread(channel, THREAD)


async def in_thread(office: Office, **changes: Any) -> tuple[Any, Message]:
    """Ask from the conversation; return the request and its card there."""
    record = await office.ask(**{"origin": TALK, **changes})
    (message,) = await office.slack.until(lambda: thread(office.slack))
    await office.until_kept(record, TARGET)
    return await office.api.requests.get(record.id), message


async def elsewhere(office: Office, origin: Origin, **changes: Any) -> Any:
    """Ask from a place that takes no card; return the request once its card is in C1."""
    record = await office.ask(origin=origin, **changes)
    (message,) = await office.slack.until(lambda: office.slack.messages("C1"))
    assert "Approval needed" in shown(message)
    return record


async def why(office: Office, record: Any) -> str:
    """Return why a card is not where its conversation is, as the audit has it."""
    for event in await office.events("submitted", "undelivered", "rerouted"):
        about = record.id in (event.request_id, event.data.get("request_id"))
        said = event.data.get("origin_refused") or event.data.get("why")
        if about and said:
            return str(said)
    raise AssertionError("the audit has no reason")


@pytest.mark.usefixtures("talk")
async def test_the_card_is_in_the_thread_and_only_approvers_decide_there(
    slack: Slack, world: World
) -> None:
    """Nothing is in C1; eve, who talks with the agent, may not decide, ann may."""
    async with at_work(slack, world, ROUTE, steps=True) as office:
        record, message = await in_thread(office)
        assert slack.messages("C1") == []
        eve = slack.person("UEVE")
        await eve.click(message, "Approve")
        await told(eve, "not an approver")
        await office.ann.click(message, "Approve")
        await office.card_says(message, "Approved by ann")
        assert (await office.ended(record)).status is Status.APPROVED
        assert slack.messages("C1") == []


@pytest.mark.usefixtures("talk")
async def test_who_asked_may_not_approve_their_own_where_a_route_says_so(
    slack: Slack, world: World
) -> None:
    """The sender that the agent names only excludes."""
    async with at_work(slack, world, replace(ROUTE, self_approval=False)) as office:
        record, message = await in_thread(office, origin=replace(TALK, sender="T1/UANN"))
        assert "Approve" not in labels(office.ann, message)
        with pytest.raises(Unauthorized, match="submitted this request yourself"):
            await office.api.requests.decide(click(record, identity=ANN))


@pytest.mark.usefixtures("talk")
async def test_targets_before_it_get_a_card_too(slack: Slack, world: World) -> None:
    """Only the channels after `origin` stand in for it."""
    route = replace(ROUTE, targets=("slack:T1/C1", "origin"))
    async with at_work(slack, world, route) as office:
        await in_thread(office)
        await slack.until(lambda: slack.messages("C1"))


@pytest.mark.usefixtures("talk")
async def test_reminders_and_discretion_hold_there(slack: Slack, world: World) -> None:
    """The reminder is in the thread of the conversation; notifications say no more than agreed."""
    route = replace(ROUTE, discreet=True, remind_after=(0.1,))
    async with at_work(slack, world, route, steps=True) as office:
        await office.ask(origin=TALK)
        await slack.until(lambda: len(thread(slack)) == 2)
        card, reminder = thread(slack)
        assert card.text == "bot asks for approval, medium risk"
        assert "Still pending" in reminder.text


@pytest.mark.usefixtures("talk")
async def test_posts_keep_the_pace_of_the_channel(slack: Slack, world: World) -> None:
    """A conversation shares the line of its channel with the route's own cards."""
    fixed = Route(tools=("fixed",), approvers=("ann",), targets=("slack:T1/CTALK",))
    async with at_work(slack, world, fixed, ROUTE) as office:
        for number in range(3):
            await office.ask(tool="fixed", arguments={"command": f"ls {number}"})
        await slack.until(lambda: len(slack.messages("CTALK")) == 4)
        record = await office.ask(origin=TALK)
        due = None
        while due is None or due.state is not CopyState.DUE:
            await moment()
            due = (await world.core.outbox.copies(record.id)).get(TARGET)
            assert due is None or due.state is not CopyState.POSTED
        await slack.until(lambda: thread(slack))


HOSTILE = (
    "T1/CTALK/../C9",
    "shared/T1/CTALK",
    "origin/T1/CTALK",
    "T1/CTALK\n",
    "T1/CTALK ",
    "T1/CTALK9",
    "T1/CTAL",
    "T1",
    "T1/",
    "/CTALK",
    "<!channel>",
    "T1/\uff23TALK",
    "x" * 100_000,
)


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize("chat", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_text_names_no_conversation(slack: Slack, world: World, chat: str) -> None:
    """It goes where the route says; the audit does not repeat it."""
    async with at_work(slack, world, OPEN if "CTAL" not in chat else ROUTE) as office:
        record = await elsewhere(office, replace(TALK, chat=chat))
        said = await why(office, record)
        assert thread(slack) == []
        assert len(said) < 200
        assert said.isascii()


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize("thread_", ["1.2/../x", "1780000000.000100\n", "../C9", "x" * 9999])
async def test_hostile_text_names_no_thread(slack: Slack, world: World, thread_: str) -> None:
    """Nor is the rest of such an origin used."""
    async with at_work(slack, world, ROUTE) as office:
        await elsewhere(office, replace(TALK, thread=thread_))
        assert len(slack.messages("CTALK")) == 1


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("slack:T1/COTHER", "slack:T1/COTHER is not in the `origins` of route default"),
        ("slack:T2/CTALK", "slack:T2/CTALK is not in the `origins` of route default"),
        ("discord:T1/CTALK", "discord:T1/CTALK is not in the `origins` of route default"),
    ],
)
async def test_what_is_not_on_the_list_gets_no_card(
    slack: Slack, world: World, place: str, said: str
) -> None:
    """A foreign channel, workspace or platform: the next target, and the audit says why."""
    begin(slack, "COTHER")
    begin(slack, "CTALK", team="T2")
    channel, _, chat = place.partition(":")
    async with at_work(slack, world, ROUTE) as office:
        record = await elsewhere(office, replace(TALK, channel=channel, chat=chat))
        assert await why(office, record) == said
        assert thread(slack) == thread(slack, "COTHER") == slack.thread("CTALK", THREAD, "T2") == []


@pytest.mark.usefixtures("talk")
async def test_nothing_is_allowed_unless_the_policy_says_so(slack: Slack, world: World) -> None:
    """`origin` alone is no permission."""
    async with at_work(slack, world, replace(ROUTE, origins=())) as office:
        record = await elsewhere(office, TALK)
        assert "not in the `origins`" in await why(office, record)


@pytest.mark.parametrize("kind", ["DANN", "UANN", "group"])
async def test_direct_messages_are_no_origin(slack: Slack, world: World, kind: str) -> None:
    """The whole workspace is on the list; somebody's direct messages get no card all the same."""
    channel = "CGROUP" if kind == "group" else kind
    if kind == "DANN":
        slack.workspace().direct("UANN").messages[THREAD] = Message(ts=THREAD, user="UANN", text="")
    if kind == "group":
        begin(slack, channel)
        slack.workspace().channels[channel].group = True
    async with at_work(slack, world, OPEN, steps=True) as office:
        record = await elsewhere(office, replace(TALK, chat=f"T1/{channel}"))
        assert await why(office, record) in (
            f"slack:T1/{channel} is not a channel",
            f"slack:T1/{channel} is a direct message",
        )
        direct = [one for one in slack.workspace().channels.values() if one.direct]
        assert all(THREAD in one.messages and len(one.messages) == 1 for one in direct)


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("external", "is shared with another organisation"),
        ("inviting", "is about to be shared with another organisation"),
        ("archived", "slack:T1/CTALK is archived"),
    ],
)
async def test_a_channel_that_is_not_ours_alone_gets_no_card(
    slack: Slack, world: World, member: str, said: str
) -> None:
    """Shared with others, or archived: the next target, at once."""
    setattr(slack.workspace().channels["CTALK"], member, True)
    async with at_work(slack, world, ROUTE, steps=True) as office:
        record = await elsewhere(office, TALK)
        assert said in await why(office, record)
        assert thread(slack) == []
        (step,) = await office.events("escalated")
        assert step.data == {"targets": ["slack:T1/C1"], "unreached": True}


@pytest.mark.usefixtures("talk")
async def test_a_deleted_first_message_gets_no_card(slack: Slack, world: World) -> None:
    """Where Slack would take the reply, nobody would see it."""
    del slack.workspace().channels["CTALK"].messages[THREAD]
    async with at_work(slack, world, ROUTE, steps=True) as office:
        record = await elsewhere(office, TALK)
        assert await why(office, record) == "the conversation's first message was deleted"
        assert slack.state.called("chat.postMessage", "T1")[0]["channel"] == "C1"


async def test_another_workspace_without_the_app_gets_no_card(slack: Slack, world: World) -> None:
    """Also where the list has a typing error."""
    route = replace(ROUTE, origins=("slack:T9/",))
    async with at_work(slack, world, route, steps=True) as office:
        record = await elsewhere(office, replace(TALK, chat="T9/CTALK"))
        assert "not installed in the Slack workspace T9" in await why(office, record)


@pytest.mark.usefixtures("talk")
async def test_without_another_target_the_agent_is_told(slack: Slack, world: World) -> None:
    """A refused conversation, and none at all: undeliverable at once, or the escalation."""
    alone = replace(ROUTE, targets=("origin",))
    async with at_work(slack, world, alone, steps=True) as office:
        for origin in (replace(TALK, chat="T1/COTHER"), Origin()):
            ended = await office.ended(await office.ask(origin=origin))
            assert ended.decision is not None
            assert ended.decision.reason is Reason.UNDELIVERABLE
        step = Escalation(after=900, targets=("slack:T1/C1",))
        await put_in_force(world, replace(alone, escalations=(step,)))
        await elsewhere(office, Origin(), arguments={"command": "other"})


@pytest.mark.usefixtures("talk")
async def test_a_channel_that_is_archived_later_sends_the_request_on(
    slack: Slack, world: World
) -> None:
    """Slack tells of it: the next target gets a card, once, and it is answered there."""
    async with at_work(slack, world, ROUTE, steps=True) as office:
        record, _ = await in_thread(office)
        slack.workspace().channels["CTALK"].archived = True
        await slack.deliveries.event(
            slack.workspace(), {"type": "channel_archive", "channel": "CTALK"}
        )
        (message,) = await slack.until(lambda: slack.messages("C1"))
        await office.ann.click(message, "Approve")
        assert (await office.ended(record)).status is Status.APPROVED


@pytest.mark.usefixtures("talk")
async def test_a_policy_that_allows_it_no_more_sends_it_on(slack: Slack, world: World) -> None:
    """Allowed when it was asked, not when it would be posted: the next target, with why."""
    async with at_work(slack, world, ROUTE) as office:
        origin = MessageContext(agent=AGENT)
        record, _ = world.core.writer.new_record(
            request(origin=TALK), (await world.store.policy()).ruling_on(request()), origin, None
        )
        assert record.conversation == TARGET
        narrowed = replace(ROUTE, origins=("slack:T1/COTHER",))
        ruling = replace(await world.store.policy(), routes=(narrowed,)).ruling_on(record.request)
        assert ruling.places(record) == ("slack:T1/C1",)
        kept, message = await in_thread(office)
        await put_in_force(world, narrowed, people=PEOPLE)
        await office.ask(origin=TALK, arguments={"command": "second"})
        await slack.until(lambda: slack.messages("C1"))
        assert thread(slack) == [message]
        assert (await office.api.requests.get(kept.id)).status is Status.PENDING


@pytest.mark.usefixtures("talk")
async def test_a_policy_that_allows_it_later_opens_nothing(slack: Slack, world: World) -> None:
    """What was refused when it was asked stays so."""
    async with at_work(slack, world, replace(ROUTE, origins=())) as office:
        record = await elsewhere(office, TALK)
        await put_in_force(world, ROUTE)
        ruling = (await world.store.policy()).ruling_on(record.request)
        assert ruling.places(await office.api.requests.get(record.id)) == ("slack:T1/C1",)


@pytest.mark.usefixtures("talk")
async def test_a_repeated_call_moves_no_card(slack: Slack, world: World) -> None:
    """The same call id with another origin: the first one counts, and there is one card."""
    begin(slack, "COTHER")
    async with at_work(slack, world, OPEN) as office:
        record, message = await in_thread(office, call_id="call-1")
        moved = replace(record.request, origin=replace(TALK, chat="T1/COTHER"))
        assert digest_of(moved) == record.digest
        again, new = await world.approvals.submit(moved, over_http())
        assert not new
        assert again.conversation == TARGET
        await office.ann.click(message, "Approve")
        await office.ended(record)
        assert thread(slack, "COTHER") == slack.messages("C1") == []


async def test_a_token_of_an_organisation_opens_no_other_workspace(
    slack: Slack, world: World
) -> None:
    """T1 is on the list; the same token could post in T2, which the agent calls T1."""
    for team in (slack.workspace("T1"), slack.workspace("T2")):
        team.org, team.org_token, team.bot_token = "E1", True, "xoxb-E1-secret"
        team.bot_id, team.bot_user = "BORG", "UBOTT1"
    begin(slack, "CNEAR")
    begin(slack, "CFAR", team="T2")
    async with at_work(slack, world, OPEN, env=OAUTH, steps=True) as office:
        assert await install(slack, "T1") == 200
        await office.ask(origin=replace(TALK, chat="T1/CNEAR"), arguments={"command": "near"})
        await slack.until(lambda: thread(slack, "CNEAR"))
        record = await elsewhere(office, replace(TALK, chat="T1/CFAR"))
        assert await why(office, record) == "slack:T1/CFAR is in another workspace"
        assert slack.thread("CFAR", THREAD, "T2") == []


@pytest.mark.usefixtures("talk")
async def test_what_is_remembered_there_is_shown_there(slack: Slack, world: World) -> None:
    """The card of the grant is in the same thread, with its button."""
    async with at_work(slack, world, ROUTE) as office:
        record, _ = await in_thread(office)
        remember = Remember(lifetime="1d")
        await office.api.requests.decide(click(record, identity=ANN, remember=remember))
        grant = await slack.until(lambda: next(filter(is_grant, thread(slack)), None))
        await office.ann.click(grant, "Revoke")
        await office.card_says(grant, "evoked")


@pytest.mark.usefixtures("talk")
async def test_a_first_message_that_is_deleted_later_changes_nothing(
    slack: Slack, world: World
) -> None:
    """The card is still in the thread: it is decided there, and shows it."""
    async with at_work(slack, world, ROUTE, steps=True) as office:
        record, message = await in_thread(office)
        del slack.workspace().channels["CTALK"].messages[THREAD]
        await office.ann.click(message, "Approve")
        await office.card_says(message, "Approved by ann")
        assert (await office.ended(record)).status is Status.APPROVED


@pytest.mark.usefixtures("talk")
async def test_a_card_that_people_keep_deleting_there_goes_elsewhere(
    slack: Slack, world: World
) -> None:
    """It is posted there twice more; then the next target."""
    timings = Timings(check=0.3)
    async with at_work(slack, world, ROUTE, steps=True, timings=timings) as office:
        await office.ask(origin=TALK)
        for _ in range(3):
            (card,) = await slack.until(lambda: thread(slack))
            del slack.workspace().channels["CTALK"].messages[card.ts]
        await slack.until(lambda: slack.messages("C1"))
        assert thread(slack) == []
