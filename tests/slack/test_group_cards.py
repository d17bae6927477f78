"""Requests that an agent asks as one group come as one card, and each is answered on it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from adapters.slack.cards import CARD_CHARS, CARD_LINES, MOST_UNITS, build_group_message
from gateway.cards.batch_cards import posted_group_of
from gateway.cards.card import card_of
from gateway.delivery.outbox_worker import Timings
from gateway.domain.records import Record
from gateway.models import Action, Execution, Kind, Report, Status
from gateway.ports.outgoing import Copy
from tests.slack import states as states_of_cards
from tests.slack.counterpart.blocks import check_message, elements_of
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import HIGH, ROUTE, Office, at_work, form, labels, shown, told
from tests.waiting import moment
from tests.world import World, ascending_ids, click, over_http

CALLS: tuple[dict[str, Any], ...] = (
    {"kind": Kind.FILE_CHANGE, "tool": "write_file", "arguments": {"path": "a", "content": "1"}},
    {"kind": Kind.FILE_CHANGE, "tool": "write_file", "arguments": {"path": "b", "content": "2"}},
    {"kind": Kind.COMMAND, "arguments": {"command": "make release"}},
)
ONE = ["Approve", "Deny…", "More…"]
ALL = ["Approve all 3", "Deny all 3"]
ENDED = ["Details"] * 3


async def batch(office: Office, *calls: dict[str, Any], group: str = "turn-7") -> list[Record]:
    """Ask for all of it as one group, one after the other."""
    wanted = calls or CALLS
    ids = ascending_ids(len(wanted))
    return [
        await office.ask(**{"id": one, **call}, group=group)
        for one, call in zip(ids, wanted, strict=True)
    ]


async def carded(office: Office, *calls: dict[str, Any]) -> tuple[list[Record], Message]:
    """Ask for a group and return it with its card, once its place is known for all."""
    records = await batch(office, *calls)
    await office.slack.until(lambda: office.slack.messages("C1"))
    await placed(office, records)
    (message,) = office.slack.messages("C1")
    return records, message


async def placed(office: Office, records: list[Record]) -> None:
    """Wait until it is written down where each of them stands."""
    async with asyncio.timeout(30):
        for record in records:
            while not (copy := await _copy(office, record)) or copy.ref is None:
                await moment()


async def _copy(office: Office, record: Record) -> Copy | None:
    return (await office.world.core.outbox.copies(record.id)).get("slack:T1/C1")


async def states(office: Office, records: list[Record]) -> list[Status]:
    """Return how the requests stand."""
    return [(await office.desk.requests.get(record.id)).status for record in records]


async def press(
    office: Office, message: Message, label: str, number: int = 0, *, times: int = 1
) -> None:
    """Press the n-th button with this label, which Slack tells of so many times."""
    ann = office.ann
    found = [one for one in ann.buttons(message.blocks) if one[1]["text"]["text"] == label]
    block, button = found[number]
    pressed = ann.payloads.on_message("C1", message, block, button)
    for _ in range(times):
        await office.slack.deliveries.interaction(pressed)


async def test_a_group_is_one_card_and_all_of_it_is_approved_at_once(office: Office) -> None:
    """Three calls of one turn are one message, each with its head, what runs and its answers; one
    confirmed tap, delivered twice, approves each once, and the card says so in a line each."""
    records, message = await carded(office)
    says = shown(message)
    title = '3 requests of "bot": 2 file changes, 1 command'
    for part in (title, "make release", '"content": "2"'):
        assert part in says
    assert labels(office.ann, message) == ONE * 3 + ALL
    await press(office, message, "Approve all 3", times=2)
    await office.slack.until(lambda: labels(office.ann, message) == ENDED)
    assert await states(office, records) == [Status.APPROVED] * 3
    assert len(await office.events("approved")) == 3
    assert shown(message).count("Approved by ann") == 3
    assert len(office.slack.messages("C1")) == 1


async def test_each_is_answered_alone_and_keeps_its_place(office: Office) -> None:
    """The second is approved: it becomes a line between the others, which keep their buttons, and
    what is answered at once is what still waits."""
    records, message = await carded(office)
    await press(office, message, "Approve", 1)
    await office.card_says(message, "Approved by ann")
    assert await states(office, records) == [Status.PENDING, Status.APPROVED, Status.PENDING]
    says = shown(message)
    assert says.index('"content": "1"') < says.index("Approved by ann") < says.index("make release")
    assert '"content": "2"' not in says
    assert labels(office.ann, message) == [*ONE, "Details", *ONE, "Approve all 2", "Deny all 2"]
    await press(office, message, "Deny all 2")
    await office.slack.until(lambda: labels(office.ann, message) == ENDED)
    assert await states(office, records) == [Status.DENIED, Status.APPROVED, Status.DENIED]


async def test_what_was_approved_can_be_read_on_the_card_of_a_group(office: Office) -> None:
    """An ended one has Details, as an ended card has: what ran, whole, and that it ended."""
    _, message = await carded(office)
    await press(office, message, "Approve", 1)
    await office.card_says(message, "Approved by ann")
    await press(office, message, "Details")
    await office.told_in_modal(office.ann, '"content": "2"')
    assert "Approved by ann" in office.modal_says(office.ann)
    assert office.modal_buttons(office.ann) == []


def test_a_group_of_twelve_that_ended_keeps_slacks_limit() -> None:
    """Each has its line and its Details; there are no more blocks than Slack takes."""
    ids = [f"{number:032x}" for number in range(12)]
    records = [states_of_cards.RECORDS["approved-ran"]] * 12
    records = [
        replace(one, request=replace(one.request, id=name))
        for one, name in zip(records, ids, strict=True)
    ]
    drawn = [(one, card_of(one, lines=CARD_LINES, chars=CARD_CHARS)) for one in records]
    _, made = build_group_message(posted_group_of(drawn), "c" * 22, lambda _: "")
    check_message(made, MOST_UNITS)
    pressed = [one["value"] for block in made for one in elements_of(block) if "value" in one]
    assert [value.split(":")[1] for value in pressed] == ids


async def test_a_denial_and_details_of_one_work_from_the_group(office: Office) -> None:
    """The form of a denial is about the request whose button was pressed, and so is More…."""
    records, message = await carded(office)
    await press(office, message, "More…", 2)
    await office.told_in_modal(office.ann, "make")
    await press(office, message, "Deny…", 2)
    await form(office.ann, "deny")
    assert "make release" in office.modal_says(office.ann)
    await office.ann.submit()
    await office.card_says(message, "Denied by ann")
    assert await states(office, records) == [Status.PENDING, Status.PENDING, Status.DENIED]


@pytest.mark.parametrize(
    "alone",
    [
        {"arguments": {"command": "drop"}, "risk": HIGH},
        {"arguments": {"command": "x" * 20_000}},
        {"arguments": {"command": "echo password=shutdown-now | sh"}},
    ],
    ids=["high risk", "too long", "hiding"],
)
async def test_what_is_decided_alone_has_a_card_of_its_own(
    office: Office, alone: dict[str, Any]
) -> None:
    """The group's card has the rest of the group, and never what needs more than one tap."""
    records = await batch(office, *CALLS[:2], alone)
    await office.slack.until(lambda: len(office.slack.messages("C1")) == 2)
    await placed(office, records)
    (group,) = [one for one in office.slack.messages("C1") if "2 requests" in shown(one)]
    assert records[2].id[:8] not in shown(group)
    assert labels(office.ann, group) == ONE * 2 + ["Approve all 2", "Deny all 2"]


async def test_a_quorum_is_no_group(slack: Slack, world: World) -> None:
    """Where two have to approve, each request has its own card with its own count."""
    async with at_work(slack, world, replace(ROUTE, quorum=2)) as office:
        await batch(office)
        await slack.until(lambda: len(slack.messages("C1")) == 3)


async def test_one_that_comes_late_has_a_card_of_its_own(office: Office) -> None:
    """The set of a posted card never changes."""
    _, message = await carded(office)
    before = labels(office.ann, message)
    late = await office.ask(arguments={"command": "ls late"}, group="turn-7")
    await office.slack.until(lambda: len(office.slack.messages("C1")) == 2)
    await placed(office, [late])
    assert "ls late" in shown(office.slack.messages("C1")[1])
    assert labels(office.ann, message) == before


async def test_somebody_was_faster_with_one_and_nothing_is_decided(office: Office) -> None:
    """The second ends elsewhere while "Approve all" is pressed: none of the others is approved, who
    pressed is told, and the card shows what changed."""
    records, message = await carded(office)
    pressed = next(
        pair
        for pair in office.ann.buttons(message.blocks)
        if pair[1]["text"]["text"] == "Approve all 3"
    )
    payload = office.ann.payloads.on_message("C1", message, *pressed)
    second = await office.desk.requests.get(records[1].id)
    await office.desk.requests.decide(click(second, Action.DENY))
    await office.slack.deliveries.interaction(payload)
    await told(office.ann, "othing was decided")
    await office.card_says(message, "Denied by ann")
    assert await states(office, records) == [Status.PENDING, Status.DENIED, Status.PENDING]


async def test_two_press_at_once_and_one_of_them_wins(office: Office) -> None:
    """Ann approves all while Bob denies all: every request ends by the same one of them."""
    records, message = await carded(office)
    sent = []
    for human, label in ((office.ann, "Approve all 3"), (office.bob, "Deny all 3")):
        pair = next(one for one in human.buttons(message.blocks) if one[1]["text"]["text"] == label)
        payload = human.payloads.on_message("C1", message, *pair)
        sent.append(office.slack.deliveries.interaction(payload))
    await asyncio.gather(*sent)
    await office.slack.until(lambda: labels(office.ann, message) == ENDED)
    found = set(await states(office, records))
    assert len(found) == 1
    winner = "ann" if found == {Status.APPROVED} else "bob"
    assert shown(message).count(f"by {winner}") == 3


async def test_a_stranger_decides_none_of_it(office: Office) -> None:
    """Who may not decide approves nothing of a group, alone or at once, and is told why; it is
    audited."""
    records, message = await carded(office)
    eve = office.slack.person("UEVE")
    office.slack.workspace().channels["C1"].members.add("UEVE")
    await eve.click(message, "Approve all 3")
    await office.slack.until(lambda: eve.told_more_than(0))
    assert "othing was decided" in eve.private()[0]
    await eve.click(message, "Approve")
    await office.slack.until(lambda: eve.told_more_than(1))
    assert await states(office, records) == [Status.PENDING] * 3
    assert len(await office.events("refused")) >= 2


@pytest.mark.parametrize("revisions", ["", "1.1", "1.1.1.1", "0.0.0", "9.9.9", "1.x.1", "1.1.0"])
async def test_a_forged_button_for_all_decides_what_it_shows_or_nothing(
    office: Office, revisions: str
) -> None:
    """Revisions that the card never had decide nothing; fewer of those that it has decide these."""
    records, message = await carded(office)
    block, button = office.ann.buttons(message.blocks)[-2]
    head = button["value"].rpartition(":")[0]
    forged = {**button, "value": f"{head}:{revisions}" if revisions else head}
    payload = office.ann.payloads.on_message("C1", message, block, forged)
    await office.slack.deliveries.interaction(payload)
    await office.settled()
    ended = 2 if revisions == "1.1.0" else 0
    found = await states(office, records)
    assert found == [Status.APPROVED] * ended + [Status.PENDING] * (3 - ended)


async def test_a_button_of_the_group_elsewhere_decides_nothing(office: Office) -> None:
    """The same buttons on another message, as somebody may forge them, are not accepted."""
    records, message = await carded(office)
    other, place = await office.asked(arguments={"command": "ls other"})
    for number, button in enumerate(("Approve", "Approve all 3")):
        pair = next(
            one for one in office.ann.buttons(message.blocks) if one[1]["text"]["text"] == button
        )
        payload = office.ann.payloads.on_message("C1", place, *pair)
        await office.slack.deliveries.interaction(payload)
        await office.slack.until(partial(office.ann.told_more_than, number))
    assert await states(office, [*records, other]) == [Status.PENDING] * 4


@pytest.mark.parametrize("label", ["Approve", "Approve all 3"])
async def test_posted_before_a_crash_the_first_tap_adopts_the_card(
    slack: Slack, world: World, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack has the card and its answer never came: whose button it is is known by the nonce, from
    the leader's and from any other's, and the card is true from then on."""
    monkeypatch.setattr("adapters.slack.web_api.CALL_SECONDS", 0.5)
    slack.faults.plan("chat.postMessage", Fault.DROPPED)
    async with at_work(slack, world) as office:
        records = await batch(office)
        await slack.until(lambda: slack.messages("C1"))
        await office.until_event("delivery_uncertain")
        (message,) = slack.messages("C1")
        await press(office, message, label, 2 if label == "Approve" else 0)
        await office.card_says(message, "Approved by ann")
        await office.ended(records[2])
        await placed(office, records)
        assert len(slack.messages("C1")) == 1


async def test_a_group_that_slack_refuses_comes_as_single_cards(slack: Slack, world: World) -> None:
    """What refuses the card of several takes each of them alone; nobody is told that it failed."""
    slack.faults.plan("chat.postMessage", Fault.ERROR, error="msg_blocks_too_long")
    async with at_work(slack, world, steps=True) as office:
        records = await batch(office)
        await slack.until(lambda: len(slack.messages("C1")) == 3)
        await placed(office, records)
        assert await office.events("undelivered") == []
        assert await states(office, records) == [Status.PENDING] * 3


async def test_a_group_that_reaches_nobody_is_told_to_the_agent(slack: Slack, world: World) -> None:
    """No channel takes it, together or alone: each request ends as undeliverable."""
    async with at_work(slack, world, replace(ROUTE, targets=("slack:T1/C404",)), steps=True) as o:
        for record in await batch(o):
            assert (await o.ended(record)).status is Status.DENIED


async def test_a_deleted_group_is_posted_again_with_those_that_wait(office: Office) -> None:
    """The message is deleted: what still waits is posted again, and is answered there."""
    records, message = await carded(office)
    await press(office, message, "Approve", 0)
    await office.card_says(message, "Approved by ann")
    channel = office.slack.workspace().channels["C1"]
    del channel.messages[message.ts]
    second = await office.desk.requests.get(records[1].id)
    identity = replace(click(second).identity)
    await office.desk.requests.claim(second.id, identity)
    await office.slack.until(lambda: office.slack.messages("C1"))
    (again,) = office.slack.messages("C1")
    assert "2 requests" in shown(again)
    await press(office, again, "Approve all 2")
    await office.slack.until(lambda: labels(office.ann, again) == ENDED[:2])
    assert await states(office, records) == [Status.APPROVED] * 3


async def test_a_deleted_group_is_found_without_an_edit(slack: Slack, world: World) -> None:
    """Slack tells nobody: it is asked, and the group is posted again."""
    async with at_work(slack, world, timings=Timings(check=0.5)) as office:
        records, message = await carded(office)
        del slack.workspace().channels["C1"].messages[message.ts]
        await slack.until(lambda: slack.messages("C1"))
        (again,) = slack.messages("C1")
        assert "3 requests" in shown(again)
        await placed(office, records)
        await press(office, again, "Approve all 3")
        await slack.until(lambda: labels(office.ann, again) == ENDED)
        assert await states(office, records) == [Status.APPROVED] * 3


async def test_what_the_agent_reports_stands_in_the_line(office: Office) -> None:
    """The card of a group says what became of each, as the agent's word."""
    records, message = await carded(office)
    await press(office, message, "Approve", 2)
    await office.ended(records[2])
    await office.world.approvals.report(
        records[2].id, Report(execution=Execution.SUCCEEDED), over_http()
    )
    await office.card_says(message, "The agent says that it ran")


async def test_an_edit_that_makes_one_risky_takes_the_button_for_all(office: Office) -> None:
    """What was changed while it stands in a group is shown as it is now; where it takes more than a
    tap, it is reviewed, and nothing is approved at once any more."""
    records, message = await carded(office)
    second = await office.desk.requests.get(records[1].id)
    after = replace(second, risk=HIGH)
    raised = await office.world.core.requests.progress(second, after, "reminded", {})
    assert raised
    await office.slack.until(lambda: "Review…" in labels(office.ann, message))
    rest = ["Review…", "Deny…", "More…"]
    assert labels(office.ann, message) == [*ONE, *rest, *ONE, "Deny all 3"]


async def test_what_is_not_whole_on_the_card_is_not_approved_with_the_others(
    office: Office,
) -> None:
    """One of it became too long for the card: it keeps its place without Approve, and a press on a
    button for all that is forged from what the card had decides nothing."""
    records, message = await carded(office)
    block, button = office.ann.buttons(message.blocks)[-2]
    second = await office.desk.requests.get(records[1].id)
    after = replace(second, edited={"path": "b", "content": "x" * 20_000})
    assert await office.world.core.requests.progress(second, after, "reminded", {})
    await office.slack.until(lambda: "Read it all…" in labels(office.ann, message))
    rest = ["Read it all…", "Deny…", "More…"]
    assert labels(office.ann, message) == [*ONE, *rest, *ONE, "Deny all 3"]
    head = button["value"].rpartition(":")[0]
    forged = {**button, "value": f"{head}:1.2.1"}
    payload = office.ann.payloads.on_message("C1", message, block, forged)
    await office.slack.deliveries.interaction(payload)
    await told(office.ann, "Not all of them")
    assert await states(office, records) == [Status.PENDING] * 3
    await press(office, message, "Deny all 3")
    await office.slack.until(lambda: labels(office.ann, message) == ENDED)
    assert await states(office, records) == [Status.DENIED] * 3
