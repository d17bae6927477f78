"""Who may decide is asked afresh each time, and nobody may when that is unknown: 18 to 23."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from adapters.slack.payloads import Act
from gateway.domain.policy_document import Route
from gateway.models import Origin as Claimed
from gateway.models import Risk, RiskLevel, Status
from gateway.policy.authorization import approver
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.office import (
    BUTTONS,
    HIGH,
    PEOPLE,
    ROUTE,
    Office,
    at_work,
    form,
    labels,
    put_in_force,
    told,
)
from tests.world import World

GROUP = Route(approvers=("slack:T1/S1",), targets=("slack:T1/C1",))


async def test_18_a_stranger_is_told_privately_and_written_down(office: Office) -> None:
    """Eve is in the channel but no approver: refused in private, audited, buttons stay."""
    eve = office.slack.person("UEVE")
    office.slack.workspace().channels["C1"].members.add("UEVE")
    record, message = await office.asked()
    await eve.click(message, "Approve")
    await told(eve, "You are not an approver")
    assert "does not know" not in eve.private()[-1]
    assert (await office.api.requests.get(record.id)).status is Status.PENDING
    assert labels(office.ann, message) == BUTTONS
    refused = await office.until_event("refused")
    assert (refused.agent, refused.data["request_id"]) == ("slack:T1/UEVE", record.id)
    assert office.ann.private() == []


async def test_18_an_unknown_person_is_told_their_own_id(office: Office) -> None:
    """As the policy would name them, so that they can say it to whoever writes the policy."""
    zoe = office.slack.person("UZOE")
    office.slack.workspace().channels["C1"].members.add("UZOE")
    _, message = await office.asked()
    await zoe.click(message, "Approve")
    await told(zoe, "You are not an approver")
    assert "the policy does not know slack:T1/UZOE" in zoe.private()[-1]


async def test_18_a_stranger_gets_no_form_and_no_details(office: Office) -> None:
    """Deny and More open a modal that says no, and shows nothing of the request."""
    eve = office.slack.person("UEVE")
    office.slack.workspace().channels["C1"].members.add("UEVE")
    _, message = await office.asked(arguments={"command": "ls -la"})
    for label in ("Deny…", "More…"):
        await eve.click(message, label)
        await office.slack.until(lambda: "not an approver" in office.modal_says(eve))
        assert "submit" not in eve.modal.view
        assert "ls -la" not in office.modal_says(eve)
        await eve.close()


async def test_18_a_stranger_who_knows_an_id_learns_nothing_of_its_risk(office: Office) -> None:
    """A command that names a whole id is refused like a click, and written down."""
    eve = office.slack.person("UEVE")
    office.slack.workspace().channels["C1"].members.add("UEVE")
    record, _ = await office.asked(risk=Risk(level=RiskLevel.HIGH))
    await eve.slash("/approvals", f"approve {record.id}", "C1")
    await told(eve, "You are not an approver")
    assert (await office.until_event("refused")).data["request_id"] == record.id


async def test_19_an_empty_list_means_nobody(slack: Slack, world: World) -> None:
    """Without approvers on the route, no click decides, on a card of before neither."""
    nobody = Route(targets=("slack:T1/C1",))
    async with at_work(slack, world, replace(nobody, approvers=("ann",))) as office:
        record, message = await office.asked()
        await put_in_force(world, nobody)
        await office.ann.click(message, "Approve")
        await told(office.ann, "You are not an approver")
        assert (await office.api.requests.get(record.id)).status is Status.PENDING


async def test_20_who_asked_may_not_approve_high_risk(office: Office) -> None:
    """Bob asked, from one of his two Slack accounts; he may not approve with the other one."""
    other = office.slack.person("UBOB2")
    office.slack.workspace().channels["C1"].members.add("UBOB2")
    origin = Claimed(channel="slack", sender="T1/UBOB")
    record, message = await office.asked(risk=HIGH, origin=origin)
    for human in (office.bob, other):
        await human.click(message, "Review…")
        await office.told_in_modal(human, "ou submitted this request yourself")
    await office.ann.click(message, "Review…")
    await office.modal_offers(office.ann, "Approve")
    await office.ann.click_modal("Approve")
    assert (await office.ended(record)).status is Status.APPROVED


async def test_20_high_risk_asks_are_you_sure(office: Office) -> None:
    """The client asks before it sends the click; who backs out decides nothing, and neither does a
    click that says of itself that nobody was asked."""
    record, message = await office.asked(risk=HIGH)
    office.ann.confirms = False
    await office.ann.click(message, "Review…")
    await office.modal_offers(office.ann, "Approve")
    with pytest.raises(AssertionError):
        await office.ann.click_modal("Approve")
    assert (await office.api.requests.get(record.id)).status is Status.PENDING
    block, button = office.ann.buttons(message.blocks)[0]
    forged = {**button, "action_id": Act.APPROVE.value}
    payload = office.ann.payloads.on_message("C1", message, block, forged)
    assert (await office.slack.deliveries.interaction(payload)).ok
    await office.settled()
    assert (await office.api.requests.get(record.id)).status is Status.PENDING
    await told(office.ann, "confirm")
    office.ann.confirms = True
    await office.ann.click_modal("Approve")
    assert (await office.ended(record)).status is Status.APPROVED


async def test_21_a_group_is_read_at_the_click(slack: Slack, world: World) -> None:
    """Ann leaves the group between card and click and is refused; Bob, who joined, may decide."""
    slack.workspace().groups["S1"] = ["UANN"]
    async with at_work(slack, world, GROUP) as office:
        record, message = await office.asked()
        slack.workspace().groups["S1"] = ["UBOB"]
        await office.ann.click(message, "Approve")
        await told(office.ann, "You are not an approver")
        await office.bob.click(message, "Approve")
        assert (await office.ended(record)).status is Status.APPROVED


@pytest.mark.parametrize("method", ["usergroups.list", "users.info"])
async def test_21_when_slack_does_not_say_nobody_may(
    slack: Slack, world: World, method: str
) -> None:
    """An error of the directory decides nothing, says so, and a later click works."""
    slack.workspace().groups["S1"] = ["UANN"]
    async with at_work(slack, world, GROUP) as office:
        record, message = await office.asked()
        slack.faults.plan(method, Fault.ERROR, error="internal_error_of_ours")
        await office.ann.click(message, "Approve")
        await told(office.ann, "Slack did not confirm who you are")
        assert (await office.api.requests.get(record.id)).status is Status.PENDING
        await office.ann.click(message, "Approve")
        assert (await office.ended(record)).status is Status.APPROVED


async def test_21_many_clicks_share_one_question(slack: Slack, world: World) -> None:
    """Ten clicks at once ask Slack for its groups a few times, not ten: that method is scarce."""
    slack.workspace().groups["S1"] = ["UANN"]
    async with at_work(slack, world, GROUP) as office:
        asked = [await office.asked(arguments={"command": f"ls {n}"}) for n in range(3)]
        before = len(slack.state.called("usergroups.list"))
        await asyncio.gather(
            *(office.ann.click(message, "Approve") for _, message in asked for _ in range(4))
        )
        for record, _ in asked:
            assert (await office.ended(record)).status is Status.APPROVED
        assert len(slack.state.called("usergroups.list")) - before <= 2


async def test_21_lists_and_clicks_share_one_answer(slack: Slack, world: World) -> None:
    """Home, the list and clicks within some seconds cost one call of the scarce method."""
    slack.workspace().groups["S1"] = ["UANN"]
    async with at_work(slack, world, GROUP) as office:
        asked = [await office.asked(arguments={"command": f"ls {n}"}) for n in range(3)]
        for record, message in asked:
            await office.ann.open_home()
            await office.ann.slash("/approvals", "list", "C1")
            await office.ann.click(message, "Approve")
            assert (await office.ended(record)).status is Status.APPROVED
        await office.settled()
        calls = slack.state.called("usergroups.list")
        assert len(calls) <= 3, "one for each five seconds that this takes"


async def test_21_a_change_of_a_group_holds_at_once(slack: Slack, world: World) -> None:
    """Slack tells that the members changed: what was kept of them is not believed any more."""
    slack.workspace().groups["S1"] = ["UANN"]
    async with at_work(slack, world, GROUP) as office:
        _, first = await office.asked(arguments={"n": 1})
        record, second = await office.asked(arguments={"n": 2})
        await office.ann.click(first, "Approve")
        await office.card_says(first, "Approved by")
        slack.workspace().groups["S1"] = ["UBOB"]
        told_of = {"type": "subteam_members_changed", "subteam_id": "S1"}
        await slack.deliveries.event(slack.workspace(), told_of)
        await office.ann.click(second, "Approve")
        await told(office.ann, "You are not an approver")
        assert (await office.api.requests.get(record.id)).status is Status.PENDING


@pytest.mark.parametrize("method", ["usergroups.list", "users.info"])
async def test_21_a_limit_is_called_a_limit(
    slack: Slack, world: World, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack wants a longer pause than a click can wait: who clicks is told so, and for how long,
    and not that nobody knows them."""
    monkeypatch.setattr("adapters.slack.users_and_rights._CHECK_SECONDS", 0.5)
    slack.workspace().groups["S1"] = ["UANN"]
    async with at_work(slack, world, GROUP) as office:
        record, message = await office.asked()
        slack.faults.plan(method, Fault.LIMITED)
        await office.ann.click(message, "Approve")
        await told(office.ann, "limit for user lookups is reached")
        assert "Try again in 1 s" in office.ann.private()[-1]
        await office.ann.click(message, "Approve")
        assert (await office.ended(record)).status is Status.APPROVED


async def test_a_click_asks_once_who_somebody_is(slack: Slack, world: World) -> None:
    """Whatever a click or a command shows or decides; the next one asks again, so that whoever is
    deactivated while a form is open is refused when they submit it."""
    slack.workspace().groups["S1"] = ["UANN"]
    async with at_work(slack, world, GROUP) as office:
        record, message = await office.asked()
        ann, calls = office.ann, list[int]()

        async def count() -> None:
            await office.settled()
            calls.append(len(slack.state.called("users.info")))

        await ann.click(message, "More…")
        await count()
        for label in ("Details", "Remember…"):
            await ann.more(message, label)  # two clicks
            await count()
        ann.user.deleted = True
        await ann.submit()
        await count()
        assert not (await office.api.requests.get(record.id)).final
        ann.user.deleted = False
        for words in ("show", "approve"):
            await ann.slash("/approvals", f"{words} {record.id}", "C1")
            await count()
        assert (await office.ended(record)).status is Status.APPROVED
        assert calls == [1, 3, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "trait", ["deleted", "is_bot", "is_restricted", "is_ultra_restricted", "connect"]
)
async def test_22_bots_guests_and_strangers_are_refused(office: Office, trait: str) -> None:
    """Even someone named as approver, once deactivated, a guest, a bot or of another company."""
    record, message = await office.asked()
    if trait == "connect":
        office.ann.user.team = "T777"
    else:
        setattr(office.ann.user, trait, True)
    await office.ann.click(message, "Approve")
    await told(office.ann, "may not decide")
    assert (await office.api.requests.get(record.id)).status is Status.PENDING
    assert (await office.until_event("refused")).data["request_id"] == record.id


async def test_23_rights_are_checked_again_when_a_modal_is_submitted(office: Office) -> None:
    """Bob opens the form, loses his right, submits: refused, and told in the modal."""
    record, message = await office.asked()
    await office.bob.click(message, "Deny…")
    await form(office.bob, "deny")
    people = tuple(person for person in PEOPLE if person.name != "bob")
    await put_in_force(
        office.world, Route(approvers=("ann",), targets=ROUTE.targets), people=people
    )
    await office.bob.submit()
    await office.slack.until(lambda: "not an approver" in office.modal_says(office.bob))
    assert (await office.api.requests.get(record.id)).status is Status.PENDING


async def test_ids_of_another_workspace_are_other_people(slack: Slack, world: World) -> None:
    """UANN of workspace T2 is not UANN of T1, though the ids are equal."""
    slack.channel("C1", "UANN", team="T2")
    stranger = slack.person("UANN", team="T2")
    async with at_work(slack, world) as office:
        record, message = await office.asked()
        slack.workspace("T2").channels["C1"].messages[message.ts] = message
        await stranger.click(message, "Approve")
        await office.settled()
        assert (await office.api.requests.get(record.id)).status is Status.PENDING


async def test_row_49_a_name_like_an_approvers_admits_nobody(office: Office) -> None:
    """Eve calls herself what Ann is called: her id is what counts."""
    workspace = office.slack.workspace()
    eve = office.slack.person("UEVE")
    workspace.channels["C1"].members.add("UEVE")
    workspace.users["UEVE"].name = workspace.users["UANN"].name
    record, message = await office.asked()
    await eve.click(message, "Approve")
    await told(eve, "You are not an approver")
    assert (await office.api.requests.get(record.id)).status is Status.PENDING


async def test_row_51_a_reaction_decides_nothing(office: Office) -> None:
    """Not even an approver's: only a button is an answer."""
    record, message = await office.asked()
    reaction = {"type": "reaction_added", "user": "UANN", "reaction": "white_check_mark",
                "item": {"type": "message", "channel": "C1", "ts": message.ts}}  # fmt: skip
    await office.slack.deliveries.event(office.slack.workspace(), reaction)
    # A stranger's click is handled after it, on the same line.
    eve = office.slack.person("UEVE")
    office.slack.workspace().channels["C1"].members.add("UEVE")
    await eve.click(message, "Approve")
    await told(eve, "You are not an approver")
    assert (await office.api.requests.get(record.id)).status is Status.PENDING


@contextmanager
def counting(function: Callable[..., Any]) -> Iterator[list[str]]:
    """Note each call of a function, by the name of who calls it."""
    callers: list[str] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code is function.__code__ and frame.f_back is not None:
            callers.append(frame.f_back.f_code.co_name)

    sys.setprofile(note)
    try:
        yield callers
    finally:
        sys.setprofile(None)


async def test_rights_are_asked_once_per_tap(office: Office) -> None:
    """The core asks, at the moment of the click; the adapter does not ask it beforehand."""
    record, message = await office.asked()
    with counting(approver) as callers:
        await office.ann.click(message, "Approve")
        assert (await office.ended(record)).status is Status.APPROVED
        await office.settled()
    assert callers == ["_approver"]
    record, message = await office.asked(arguments={"command": "pwd"})
    with counting(approver) as callers:
        await office.bob.click(message, "Deny…")
        await form(office.bob, "deny")
        await office.bob.submit()
        assert (await office.ended(record)).status is Status.DENIED
        await office.settled()
    assert callers == ["may_decide", "_approver"]  # who opens a form, and who sends it


async def test_who_may_not_claim_is_written_down(office: Office) -> None:
    """A claim changes what others see: who tried without the right to is audited."""
    eve = office.slack.person("UEVE")
    office.slack.workspace().channels["C1"].members.add("UEVE")
    record, message = await office.asked()
    block, button = eve.buttons(message.blocks)[-1]
    forged = {**button, "action_id": Act.CLAIM.value}
    await office.slack.deliveries.interaction(eve.payloads.on_message("C1", message, block, forged))
    await told(eve, "You are not an approver")
    refused = await office.until_event("refused")
    assert (refused.agent, refused.data["request_id"]) == ("slack:T1/UEVE", record.id)
    assert (await office.api.requests.get(record.id)).claim is None
