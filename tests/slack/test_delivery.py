"""Cards reach Slack, or the agent is told: scenarios 1 to 8, by their numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from adapters.slack.payloads import Act
from adapters.slack.posting import POSTS
from gateway.domain.policy_document import Budget, Escalation, Route
from gateway.models import Reason, Status
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import ROUTE, Office, at_work, form, labels, put_in_force, shown, use_up
from tests.world import World, click, identity, over_http

LONG = {"command": "echo start\n" + "".join(f"line {n}\n" for n in range(2000)) + "rm -rf /"}


async def test_01_every_target_gets_a_copy_whose_place_is_kept(slack: Slack, world: World) -> None:
    """Two channels and a direct message: channel id and ts of each are stored."""
    slack.channel("C2", "UBOB")
    targets = ("slack:T1/C1", "slack:T1/C2", "slack:T1/UANN")
    async with at_work(slack, world, Route(approvers=("ann",), targets=targets)) as office:
        record = await office.ask()
        await slack.until(lambda: slack.workspace().channels.get("DANN"))
        places = {"C1": "slack:T1/C1", "C2": "slack:T1/C2", "DANN": "slack:T1/UANN"}
        for channel, target in places.items():
            await slack.until(partial(slack.messages, channel))
            await office.until_kept(record, target)
            copy = (await office.world.core.outbox.copies(record.id))[target]
            assert copy.ref is not None
            (message,) = slack.messages(channel)
            assert (copy.ref.channel, copy.ref.message) == (f"T1/{channel}", message.ts)


async def test_a_discreet_route_notifies_without_what_would_run(slack: Slack, world: World) -> None:
    """The notification has the agent and the risk, the card what would run; another route's has
    the head."""
    slack.channel("C2")
    discreet = Route(approvers=("ann",), targets=("slack:T1/C1",), discreet=True, tools=("shy",))
    async with at_work(slack, world, discreet, replace(ROUTE, targets=("slack:T1/C2",))) as office:
        await office.ask(tool="shy", arguments={"command": "rm -rf build"})
        await office.ask(tool="shell", arguments={"command": "rm -rf build"})
        await slack.until(partial(slack.messages, "C1"))
        await slack.until(partial(slack.messages, "C2"))
        (shy,), (other,) = slack.messages("C1"), slack.messages("C2")
        assert shy.text == "bot asks for approval, medium risk"
        assert "rm -rf build" in shown(shy)
        assert other.text == 'bot wants to delete "build" · removes folders whole'


@pytest.mark.parametrize("problem", ["not_in_channel", "channel_not_found", "is_archived", "user"])
async def test_02_what_nobody_can_see_goes_to_the_next_target(
    slack: Slack, world: World, problem: str
) -> None:
    """A refused post is recorded and the next target gets the card."""
    target = "slack:T1/C9"
    slack.channel("C9")
    if problem == "not_in_channel":
        slack.workspace().channels["C9"].members.clear()
    elif problem == "is_archived":
        slack.workspace().channels["C9"].archived = True
    elif problem == "user":
        slack.person("UGONE").user.deleted = True
        target = "slack:T1/UGONE"
    else:
        del slack.workspace().channels["C9"]
    step = Escalation(after=600, targets=("slack:T1/C1",))
    route = Route(approvers=("ann",), targets=(target,), escalations=(step,))
    async with at_work(slack, world, route, steps=True) as office:
        record, message = await office.asked()
        assert (await office.world.core.outbox.copies(record.id))[target].why.startswith(
            "Slack returned the error"
        )
        await office.ann.click(message, "Approve")
        assert (await office.ended(record)).status is Status.APPROVED


async def test_02_nobody_anywhere_is_told_to_the_agent_at_once(slack: Slack, world: World) -> None:
    """When no target takes it, the request ends as undeliverable, never as denied by a person."""
    route = Route(approvers=("ann",), targets=("slack:T1/C404", "slack:T9/C1", "slack:nonsense"))
    async with at_work(slack, world, route, steps=True) as office:
        done = await office.ended(await office.ask())
        assert done.decision is not None
        assert done.decision.reason is Reason.UNDELIVERABLE


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an adapter that starts from now on wait for half a second, instead of ten."""
    monkeypatch.setattr("adapters.slack.web_api.CALL_SECONDS", 0.5)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.LOST])
async def test_03_a_post_without_an_answer_is_not_sent_again(office: Office, fault: Fault) -> None:
    """One card, marked uncertain; its first click adopts it, and from then on it is true."""
    office.slack.faults.plan("chat.postMessage", fault)
    record, message = await office.asked()
    await office.until_event("delivery_uncertain")
    await office.ann.click(message, "Approve")
    assert (await office.ended(record)).status is Status.APPROVED
    await office.card_says(message, "Approved by ann")
    assert len(office.slack.messages("C1")) == 1


async def test_03_a_failure_of_slack_is_tried_once_more(office: Office) -> None:
    """One internal_error: the card is there all the same, and is answered."""
    office.slack.faults.plan("chat.postMessage", Fault.ERROR, error="internal_error")
    record, message = await office.asked()
    await office.until_kept(record, "slack:T1/C1")
    await office.ann.click(message, "Approve")
    assert (await office.ended(record)).status is Status.APPROVED
    assert await office.events("delivery_uncertain", "undelivered") == []


async def test_03_a_lasting_failure_of_slack_is_told(slack: Slack, world: World) -> None:
    """It fails again: the agent hears at once that nobody was reached, and the audit why."""
    slack.faults.plan("chat.postMessage", Fault.ERROR, error="internal_error", times=2)
    async with at_work(slack, world, steps=True) as office:
        done = await office.ended(await office.ask())
        assert done.decision is not None
        assert done.decision.reason is Reason.UNDELIVERABLE
        (told,) = await office.events("undelivered")
        assert "internal_error; a second try failed too" in told.data["why"]


async def test_04_a_limit_is_waited_out_and_starves_nobody(slack: Slack, world: World) -> None:
    """One channel at its limit: the others get their cards at once, and it gets its own later."""
    slack.channel("C2", "UANN")
    slow = Route(name="slow", agents=("bot",), tools=("slow",), targets=("slack:T1/C1",))
    fast = Route(name="fast", approvers=("ann",), targets=("slack:T1/C2",))
    slack.faults.plan(
        "chat.postMessage", Fault.LIMITED, times=2, fits=lambda call: call["channel"] == "C1"
    )
    async with at_work(slack, world, slow, fast) as office:
        await office.ask(tool="slow")
        await office.ask(tool="other")
        await slack.until(lambda: slack.messages("C2"))
        assert not slack.messages("C1")
        await slack.until(lambda: slack.messages("C1"), seconds=15)
        assert len(slack.messages("C1")) == 1


async def test_04_withdrawn_requests_keep_nobody_waiting(slack: Slack, world: World) -> None:
    """Of thirty requests most are taken back before they have a card: the card of one that waited
    behind them, and that of a later one, take the channel's next turns."""
    async with at_work(slack, world) as office:
        await put_in_force(world, ROUTE, budgets=(Budget(cards=1000),))
        records = [await office.ask(arguments={"n": n}) for n in range(30)]
        await office.ask(tool="one_behind")
        await slack.until(lambda: len(slack.messages("C1")) == POSTS.most + 1)
        for record in records:
            by_agent = Reason.CANCELLED_BY_AGENT
            await world.approvals.cancel(record.id, over_http(), reason=by_agent)
        await office.ask(tool="one_later")
        # In the line that the others left, both would wait for more than twenty seconds.
        for tool in ("one_behind", "one_later"):
            await slack.until(partial(_has_card, slack, tool), seconds=3 * POSTS.seconds)


def _has_card(slack: Slack, tool: str) -> bool:
    return any(tool in shown(message) for message in slack.messages("C1"))


async def test_04_a_decision_is_shown_before_other_edits(office: Office) -> None:
    """When the turns for other edits are used up, the edit that shows a decision still goes."""
    record, message = await office.asked()
    await use_up(office, leave=16)
    await office.ann.click(message, "Approve")
    await office.ended(record)
    await office.card_says(message, "Approved by ann")


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.HTML])
async def test_05_an_outage_is_survived(office: Office, fault: Fault) -> None:
    """Error pages before the post: nothing was posted, so it is tried again, with pauses."""
    office.slack.faults.plan("chat.postMessage", fault, times=1)
    record, message = await office.asked()
    assert len(office.slack.messages("C1")) == 1
    office.slack.faults.plan("chat.update", fault, times=1)
    await office.ann.click(message, "Approve")
    await office.ended(record)
    await office.slack.until(lambda: "Approved by ann" in shown(message), seconds=20)


async def test_07_what_does_not_fit_is_attached_and_approved_from_the_full_view(
    office: Office,
) -> None:
    """The card has no Approve; the file holds every byte; the last page of Details approves."""
    record, message = await office.asked(arguments=LONG)
    await office.card_says(message, "The full text is attached in the thread.")
    assert labels(office.ann, message) == ["Read full text…", "Deny…", "More…"]
    (reply,) = office.slack.thread("C1", message.ts)
    file = office.slack.workspace().files[reply.files[0]]
    assert file.content is not None
    assert file.content.decode().endswith("rm -rf /")
    assert record.digest in file.title

    ann = office.ann
    await ann.click(message, "Read full text…")
    await form(ann, "read")
    await office.slack.until(lambda: "Page 1" in office.modal_says(ann))
    assert "Approve" not in [e["text"]["text"] for _, e in ann.buttons(ann.modal.view["blocks"])]
    page = 1
    while "Next ▶" in office.modal_buttons(ann):
        await ann.click_modal("Next ▶")
        page += 1
        await office.page(ann, page)
    assert "rm -rf /" in office.modal_says(ann)
    await ann.click_modal("Approve")
    assert (await office.ended(record)).status is Status.APPROVED


async def test_08_without_its_file_the_card_leads_to_the_inbox(slack: Slack, world: World) -> None:
    """Reading it here is no main button, as it approves nothing; the link is where one approves."""
    slack.faults.plan("files.completeUploadExternal", Fault.ERROR, error="channel_not_found")
    async with at_work(slack, world, inbox="https://approvals.example/inbox") as office:
        record, message = await office.asked(arguments=LONG)
        await office.card_says(
            message, "you cannot approve this in Slack. Approve it in the inbox."
        )
        pressed = {one["text"]["text"]: one for _, one in office.ann.buttons(message.blocks)}
        assert "style" not in pressed["Read full text…"]
        leads = pressed["Open in the inbox"]
        assert leads["url"] == f"https://approvals.example/inbox/r/{record.id}"
        await office.ann.click(message, "Read full text…")
        await office.page(office.ann, 1)
        page = 1
        while "Next ▶" in office.modal_buttons(office.ann):
            await office.ann.click_modal("Next ▶")
            page += 1
            await office.page(office.ann, page)
        assert "Open in the inbox" in office.modal_buttons(office.ann)


async def test_08_without_its_file_a_long_request_cannot_be_approved(office: Office) -> None:
    """The upload fails: the card says so, and nothing approves: Details, the command, or a click
    that is forged from the button beside."""
    office.slack.faults.plan("files.completeUploadExternal", Fault.ERROR, error="channel_not_found")
    record, message = await office.asked(arguments=LONG)
    await office.card_says(message, "you cannot approve this in Slack")
    ann = office.ann
    await ann.click(message, "Read full text…")
    await office.slack.until(lambda: ann.has_modal and "Page 1" in office.modal_says(ann))
    page = 1
    while "Next ▶" in office.modal_buttons(ann):
        await ann.click_modal("Next ▶")
        page += 1
        await office.page(ann, page)
    assert "Approve" not in office.modal_buttons(ann)
    assert "cannot approve this here" in office.modal_says(ann)
    await ann.slash("/approvals", f"approve {record.id}", "C1")
    await office.slack.until(lambda: any("cannot approve this here" in t for t in ann.private()))
    block, button = next(
        pair for pair in ann.buttons(message.blocks) if pair[1]["text"]["text"] == "Read full text…"
    )
    forged = {**button, "action_id": Act.APPROVE.value}
    payload = ann.payloads.on_message("C1", message, block, forged)
    told = len(ann.private())
    assert (await office.slack.deliveries.interaction(payload)).ok
    await office.settled()
    assert (await office.api.requests.get(record.id)).status is Status.PENDING
    await office.slack.until(lambda: len(ann.private()) > told)
    assert "cannot approve this here" in ann.private()[-1]


async def test_reminders_and_escalation_call_the_approvers(slack: Slack, world: World) -> None:
    """A reminder stands in the thread and mentions the approvers' people and groups, by id."""
    slack.channel("C2", "UANN")
    route = Route(
        approvers=("ann", "slack:T1/S1", "slack:T2/S2"),
        targets=("slack:T1/C1",),
        remind_after=(0.1,),
        escalations=(Escalation(after=0.3, targets=("slack:T1/C2",)),),
    )
    async with at_work(slack, world, route, steps=True) as office:
        _, message = await office.asked()
        await slack.until(lambda: slack.thread("C1", message.ts), seconds=15)
        said = slack.thread("C1", message.ts)[0].text
        assert said.startswith("<@UANN> <!subteam^S1> Still pending, until <!date^")
        assert said.endswith("ann, somebody in Slack (S1) or somebody in Slack (S2) may decide it.")
        await slack.until(lambda: slack.messages("C2"), seconds=15)


async def test_a_thread_takes_the_card_its_file_and_its_replies(slack: Slack, world: World) -> None:
    """A target may be a thread; who may decide is called by name when the route says so."""
    root = Message(ts=slack.state.stamp(), user="UANN", text="Deployments of today")
    slack.workspace().channel("C1").messages[root.ts] = root
    target = f"slack:T1/C1/{root.ts}"
    route = Route(
        approvers=("ann", "bob", "slack:T1/S1"), quorum=2, targets=(target,), mention=True
    )
    async with at_work(slack, world, route) as office:
        record = await office.ask(arguments=LONG)
        await slack.until(lambda: len(slack.thread("C1", root.ts)) > 1)
        card, *_ = slack.thread("C1", root.ts)
        assert "<@UANN> <@UBOB> <@UBOB2> <!subteam^S1>" in shown(card)
        assert [len(one.files) for one in slack.thread("C1", root.ts)[1:]] == [1]
        await office.until_kept(record, target)
        await office.api.requests.decide(click(await office.api.requests.get(record.id)))
        await slack.until(lambda: "1 of 2 approvals: ann" in shown(slack.thread("C1", root.ts)[-1]))
        await office.api.requests.decide(
            click(await office.api.requests.get(record.id), identity=identity("bob"))
        )
        await office.card_says(card, "Approved by")
        # Nobody is called any more: these two decided.
        assert "<@UANN>" in shown(card)
        assert "<@UBOB>" in shown(card)
        assert "<@UBOB2>" not in shown(card)
        assert "<!subteam" not in shown(card)
        assert slack.messages("C1") == [root]


async def test_a_thread_that_is_gone_is_a_place_that_nobody_sees(
    slack: Slack, world: World
) -> None:
    """The card goes to the next target of the route."""
    gone = "slack:T1/C1/1790000000.000001"
    step = Escalation(after=600, targets=("slack:T1/C1",))
    route = Route(approvers=("ann",), targets=(gone,), escalations=(step,))
    async with at_work(slack, world, route, steps=True) as office:
        record, message = await office.asked()
        assert "thread_not_found" in (await office.world.core.outbox.copies(record.id))[gone].why
        assert message.thread_ts is None


async def test_the_requester_is_told_the_outcome(slack: Slack, world: World) -> None:
    """Who asked gets the outcome as a direct message, as words that ping nobody."""
    route = Route(approvers=("ann",), targets=("slack:T1/C1",), notify=("slack:T1/UBOB",))
    async with at_work(slack, world, route) as office:
        record, message = await office.asked(tool="shell <!channel>")
        await office.ann.click(message, "Approve")
        await office.ended(record)
        await slack.until(lambda: slack.workspace().channels.get("DBOB") and slack.messages("DBOB"))
        (told,) = slack.messages("DBOB")
        assert "approved by ann" in shown(told).lower()
        assert "<!channel>" not in told.text


async def test_a_discreet_route_tells_outcomes_without_what_ran(slack: Slack, world: World) -> None:
    """Whoever wants to know reads that it was approved, and neither tool nor arguments."""
    route = replace(ROUTE, notify=("slack:T1/UBOB",), discreet=True)
    async with at_work(slack, world, route) as office:
        record, message = await office.asked(tool="pay_out", arguments={"to": "mallory"})
        await office.ann.click(message, "Approve")
        await office.ended(record)
        await slack.until(lambda: slack.workspace().channels.get("DBOB") and slack.messages("DBOB"))
        (told,) = slack.messages("DBOB")
        said = shown(told).lower()
        assert "bot" in said
        assert "approved" in said
        assert "pay_out" not in said
        assert "mallory" not in said


async def test_a_new_policy_needs_no_restart(office: Office) -> None:
    """The target of the next request is read from the policy in force."""
    office.slack.channel("C2", "UANN")
    await office.asked()
    await put_in_force(office.world, Route(approvers=("ann",), targets=("slack:T1/C2",)))
    await office.ask()
    await office.slack.until(lambda: office.slack.messages("C2"))
    assert ROUTE.targets == ("slack:T1/C1",)
