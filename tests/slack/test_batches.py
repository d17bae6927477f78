"""A batch in one modal: each request whole, answered alone, or all at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.domain.records import StoredRequest
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.models import Kind, Status
from tests.slack.counterpart.person import Human
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import HIGH, ROUTE, Office, at_work, form, put_in_force, shown
from tests.world import World

CALLS: tuple[dict[str, Any], ...] = (
    {"kind": Kind.FILE_CHANGE, "tool": "write_file", "arguments": {"path": "a", "content": "1"}},
    {"kind": Kind.FILE_CHANGE, "tool": "write_file", "arguments": {"path": "b", "content": "2"}},
    {"kind": Kind.COMMAND, "arguments": {"command": "make release"}},
)


async def several(office: Office, *more: dict[str, Any]) -> list[tuple[StoredRequest, Message]]:
    """Ask for all of it and return the requests with their cards."""
    return [await office.asked(**call) for call in (*CALLS, *more)]


async def opened(office: Office, human: Human, message: Message, count: int) -> None:
    """Open the batch from one of its cards."""
    await human.more(message, f"All {count}…")
    await form(human, "batch")


async def states(office: Office, asked: list[tuple[StoredRequest, Message]]) -> list[Status]:
    """Return how the requests stand."""
    return [(await office.api.requests.get(record.id)).status for record, _ in asked]


async def test_all_of_a_batch_is_read_and_approved_at_once(office: Office) -> None:
    """Each with its head and exactly what runs; one confirmed tap approves all, once, and every
    card comes to say so."""
    asked = await several(office)
    ann = office.ann
    await opened(office, ann, asked[0][1], 3)
    says = office.modal_says(ann)
    title = '3 requests of "bot": 2 file changes, 1 command'
    for part in (title, "make release", '"content": "2"'):
        assert part in says
    block, button = next(
        pair
        for pair in ann.buttons(ann.modal.view["blocks"])
        if pair[1]["text"]["text"] == "Approve all 3"
    )
    payload = ann.payloads.on_view(ann.modal, block, button)
    for _ in range(2):  # Slack delivers it twice
        await office.slack.deliveries.interaction(payload)
    await office.told_in_modal(ann, "All 3 are approved")
    assert await states(office, asked) == [Status.APPROVED] * 3
    assert len(await office.events("approved")) == 3
    for _, message in asked:
        await office.card_says(message, "Approved by ann")


async def test_each_of_a_group_has_a_card_which_opens_the_group_alone(office: Office) -> None:
    """What was asked as one group is posted one by one, and opened without the rest of the session,
    from the first card and from the last."""
    asked = [await office.asked(**call, group="turn-7") for call in CALLS]
    await office.asked(arguments={"command": "ls other"})
    assert len(office.slack.messages("C1")) == 4
    for _, message in (asked[0], asked[-1]):
        await opened(office, office.ann, message, 3)
        assert "ls other" not in office.modal_says(office.ann)
    await office.ann.click_modal("Approve all 3")
    await office.told_in_modal(office.ann, "All 3 are approved")
    assert await states(office, asked) == [Status.APPROVED] * 3


async def test_one_of_a_batch_is_answered_alone(office: Office) -> None:
    """The others wait on; the modal shows what is left of them."""
    asked = await several(office)
    await opened(office, office.ann, asked[0][1], 3)
    await office.ann.click_modal("Approve")
    await office.told_in_modal(office.ann, '2 requests of "bot"')
    assert await states(office, asked) == [Status.APPROVED, Status.PENDING, Status.PENDING]
    assert "Approve all 2" in office.modal_buttons(office.ann)


async def test_what_is_decided_alone_is_never_approved_with_others(office: Office) -> None:
    """With one of high risk no button approves all of them, and a forged press decides nothing;
    all are denied at once."""
    asked = await several(office, {"arguments": {"command": "drop"}, "risk": HIGH})
    ann = office.ann
    await opened(office, ann, asked[0][1], 4)
    assert not [one for one in office.modal_buttons(ann) if "Approve all" in one]
    block, button = ann.buttons(ann.modal.view["blocks"])[0]
    leader = f"v1:{asked[0][0].id}:{asked[0][0].revision}"
    copy = ann.buttons(asked[0][1].blocks)[0][1]["value"].rpartition(":")[2]
    forged = {**button, "action_id": "batch_approve", "value": f"{leader}:{copy}"}
    payload = ann.payloads.on_view(ann.modal, block, forged)
    await office.slack.deliveries.interaction(payload)
    await office.settled()
    assert await states(office, asked) == [Status.PENDING] * 4
    assert "not all of these requests" in office.modal_says(ann).lower()
    await opened(office, ann, asked[0][1], 4)
    await ann.click_modal("Deny all 4")
    await office.told_in_modal(ann, "All 4 are denied")


async def test_a_stranger_reads_no_batch(office: Office) -> None:
    """Who may decide none of them is shown none of them."""
    eve = office.slack.person("UEVE")
    office.slack.workspace().channels["C1"].members.add("UEVE")
    asked = await several(office)
    message = asked[0][1]
    block, button = eve.buttons(message.blocks)[-1]
    forged = {**button, "action_id": "batch"}
    await office.slack.deliveries.interaction(eve.payloads.on_message("C1", message, block, forged))
    await office.settled()
    assert "make release" not in office.modal_says(eve)
    assert "Approved" not in shown(message)


async def test_one_that_takes_a_passkey_leads_to_the_inbox(slack: Slack, world: World) -> None:
    """In the place of its Approve stands the link to it; the others are approved there."""
    address = "https://approvals.example/inbox"
    passkey = RulesByRisk(high=LevelRules(step_up=(StepUp.PASSKEY,)))
    async with at_work(slack, world, inbox=address) as office:
        await put_in_force(office.world, replace(ROUTE, risk=passkey))
        _, message = await office.asked()
        record, _ = await office.asked(risk=HIGH)
        await opened(office, office.ann, message, 2)
        pressed = office.modal_buttons(office.ann)
        assert [one for one in pressed if "Approve" in one] == ["Approve", "Approve in the inbox"]
        assert f"{address}/r/{record.id}" in str(office.ann.modal.view["blocks"])
