"""Remembered decisions and the kill switch in Slack: cards, Home and command, over the wire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.records import Remember
from gateway.models import Action, Status
from gateway.policy.grants.grant import Grant
from tests.slack.counterpart.state import Message
from tests.slack.office import Office, shown, told, use_up
from tests.world import click


async def remembered(office: Office, **details: Any) -> tuple[Grant, Message]:
    """Have ann remember a request at her terminal; return the grant and its card in C1."""
    record, _ = await office.asked(**details)
    await office.api.requests.decide(
        click(record, Action.APPROVE, remember=Remember(lifetime="1d"))
    )
    channel = office.slack.messages("C1")
    await office.slack.until(lambda: any(is_grant(one) for one in office.slack.messages("C1")))
    grant = (await office.api.grants.newest())[0]
    short = grant.id[:8]
    await office.slack.until(
        lambda: any(is_grant(one) and short in shown(one) for one in office.slack.messages("C1"))
    )
    channel = office.slack.messages("C1")
    return grant, next(one for one in channel if is_grant(one) and short in shown(one))


def is_grant(message: Message) -> bool:
    """Whether a message is the card of a remembered decision."""
    return "remembered" in shown(message)


async def home(office: Office, who: str, part: str) -> str:
    """Open somebody's Home tab and return it once it says something."""
    human = getattr(office, who)
    await human.open_home()
    homes = office.slack.workspace().homes
    await office.slack.until(lambda: human.user.id in homes and part in str(human.home))
    return str(human.home)


async def test_a_grant_has_a_card_whose_button_takes_it_back(office: Office) -> None:
    """Who, what, until when, how far; a stranger's press does nothing; then it says who did."""
    grant, message = await remembered(office)
    text = shown(message)
    for part in ("Approval remembered", "ann", "exactly this", "It would have covered", "Until"):
        assert part in text, part
    eve = office.slack.person("UEVE", name="eve")
    office.slack.workspace().channels["C1"].members.add("UEVE")
    await eve.click(message, "Revoke")
    await told(eve, "Only an admin or an approver")
    assert (await office.api.grants.newest())[0].id == grant.id
    await office.bob.click(message, "Revoke")
    await office.card_says(message, "Revoked by bob")
    assert office.bob.buttons(message.blocks) == []
    assert (await office.ask()).status is Status.PENDING


async def test_a_clicked_grant_card_changes_at_once(office: Office) -> None:
    """No edit is left in Slack's limit: it says all the same who took it back."""
    _, message = await remembered(office)
    await use_up(office)
    await office.bob.click(message, "Revoke")
    await office.card_says(message, "Revoked by bob")
    assert office.bob.buttons(message.blocks) == []


async def test_the_end_to_come_is_said_in_the_cards_thread_once(office: Office) -> None:
    """An edit rings no bell, so it is told beside the card; two sweeps tell it once."""
    grant, message = await remembered(office)
    keys = office.world.store.keys
    await office.world.store.redis.zadd(keys.grants_ending, {grant.id: 1})
    for _ in range(2):
        await office.world.sweeper.sweep()
    await office.card_says(message, "This grant ends soon")

    def replies() -> list[str]:
        said = map(shown, office.slack.thread("C1", message.ts))
        return [one for one in said if "ends soon" in one]

    await office.slack.until(lambda: bool(replies()))
    assert len(replies()) == 1


async def test_a_sessions_grants_and_all_are_taken_back_from_home_and_by_command(
    office: Office,
) -> None:
    """Both ways, each only what the person may."""
    for number in range(2):
        await remembered(office, arguments={"command": f"ls {number}"})
    await remembered(office, session="other")
    await home(office, "ann", "3 grants")
    await office.ann.click_home("Revoke all of this session", 1)
    await office.slack.until(lambda: "'Revoke all'" not in str(office.ann.home))
    assert [one.session for one in await office.api.grants.newest()] == ["other"]
    await remembered(office)
    await home(office, "ann", "2 grants")
    await office.ann.click_home("Revoke all")
    await office.slack.until(lambda: "remembered" not in str(office.ann.home))
    assert await office.api.grants.newest() == []
    await remembered(office)
    await remembered(office, session="other")
    await office.ann.slash("/approvals", "revoke session bot other", "C1")
    await told(office.ann, "Revoked: 1.")
    await office.ann.slash("/approvals", "revoke all", "C1")
    await office.slack.until(lambda: sum("Revoked: 1." in x for x in office.ann.private()) == 2)
    assert await office.api.grants.newest() == []


@pytest.fixture
async def boss(office: Office) -> Office:
    """Return the office with ann as an admin."""
    policy = await office.world.store.policy()
    people = tuple(replace(one, admin=one.name == "ann") for one in policy.people)
    await office.world.put(people=people)
    return office


async def test_an_admin_stops_everything_on_home_and_lifts_it(boss: Office) -> None:
    """Behind Slack's own confirmation; everybody's Home says so, and others have no switch."""
    assert "Stop everything" not in await home(boss, "bob", "You have no pending")
    await home(boss, "ann", "Stop everything")
    record, message = await boss.asked()
    await home(boss, "ann", "This will deny the pending request")
    await boss.ann.click_home("Stop everything")
    said = str(boss.ann.confirmed[-1])
    assert "This will deny the pending request and every new one" in said
    await boss.slack.until(
        lambda: "All requests are denied: ann turned the kill switch on, " in str(boss.ann.home)
    )
    await boss.world.sweeper.sweep()
    assert (await boss.ended(record)).status is Status.DENIED
    assert (await boss.ask()).status is Status.DENIED
    assert "Let agents ask again" not in await home(boss, "bob", "All requests are denied")
    await boss.ann.click_home("Let agents ask again")
    await boss.slack.until(lambda: "Stop everything" in str(boss.ann.home))
    assert (await boss.ask()).status is Status.PENDING
    switched = [(one.type, one.data["by"]) for one in await boss.events("stopped", "resumed")]
    assert switched == [("stopped", "ann"), ("resumed", "ann")]
    await boss.card_says(message, "kill switch")


async def test_a_forged_press_of_somebody_else_stops_nothing(office: Office) -> None:
    """The button is not shown to them; sent all the same, the core refuses it."""
    await home(office, "ann", "You have no pending")
    button = {"type": "button", "action_id": "stop_all", "value": "-", "text": {"text": "x"}}
    view = office.slack.workspace().homes["UANN"].view
    view["blocks"].append({"type": "actions", "block_id": "b", "elements": [button]})
    await office.ann.click_home("x")
    await office.until_event("refused")
    assert not await office.world.store.is_stopped()
