"""Requests that an agent asks as one group come as one card, and each is answered on it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.records import Identity, Record
from gateway.models import Action, Kind, Risk, RiskLevel, Status
from gateway.ports.outgoing import Copy
from tests.discord.interactions import Interaction
from tests.discord.limits import BUTTON, walk
from tests.discord.messages import shown_text
from tests.discord.person import Person
from tests.discord.stage import Stage, private_text, told_privately
from tests.discord.town import Json
from tests.waiting import moment
from tests.world import ascending_ids, click

CALLS: tuple[dict[str, Any], ...] = (
    {"kind": Kind.FILE_CHANGE, "tool": "write_file", "arguments": {"path": "a", "content": "1"}},
    {"kind": Kind.FILE_CHANGE, "tool": "write_file", "arguments": {"path": "b", "content": "2"}},
    {"kind": Kind.COMMAND, "arguments": {"command": "make release"}},
)
ONE = ["Approve", "Deny", "More…"]
HIGH = Risk(level=RiskLevel.HIGH)


async def batch(stage: Stage, *calls: dict[str, Any]) -> list[Record]:
    """Ask for all of it as one group."""
    wanted = calls or CALLS
    ids = ascending_ids(len(wanted))
    return [
        await stage.ask(**{"id": one, **call}, group="turn-7")
        for one, call in zip(ids, wanted, strict=True)
    ]


async def copy_of(stage: Stage, record: Record) -> Copy | None:
    """Return the copy of a request in the channel of approvals."""
    return (await stage.core.outbox.copies(record.id)).get(stage.target)


async def placed(stage: Stage, records: list[Record]) -> None:
    """Wait until it is written down where each of them stands."""
    async with asyncio.timeout(30):
        for record in records:
            while not (copy := await copy_of(stage, record)) or copy.ref is None:
                await moment()


async def carded(stage: Stage, *calls: dict[str, Any]) -> tuple[list[Record], Json]:
    """Ask for a group and return it with its card."""
    records = await batch(stage, *calls)
    await placed(stage, records)
    (message,) = stage.server.channel.messages.values()
    return records, message


def pressable(message: Json) -> list[Json]:
    """Return the buttons of a message."""
    return [one for one in walk(message["components"]) if one["type"] == BUTTON]


def labels(message: Json) -> list[str]:
    """Return the labels of the buttons of a message, in their order."""
    return [one["label"] for one in pressable(message)]


async def press(
    stage: Stage, who: Person, message: Json, label: str, number: int = 0, data: Any = None
) -> Interaction:
    """Press the n-th button with this label; or one forged from it."""
    button = [one for one in pressable(message) if one["label"] == label][number]
    sent = {"custom_id": button["custom_id"], "component_type": 2, "id": 1, **(data or {})}
    server = stage.server
    made = await server.discord.raw(server.app, who.user, server.channel, sent, message=message)
    return await who.outcome(made)


async def states(stage: Stage, records: list[Record]) -> list[Status]:
    """Return how the requests stand."""
    return [(await stage.core.requests.get(record.id)).status for record in records]


async def test_a_group_is_one_card_and_all_of_it_is_approved_at_once(stage: Stage) -> None:
    """Three calls of one turn are one message, each with its head, what runs and its answers; one
    tap approves all, and the card says so in a line each."""
    records, message = await carded(stage)
    says = shown_text(message)
    for part in ("3 requests of", "2 file changes, 1 command", "make release", '"content": "2"'):
        assert part in says
    assert labels(message) == [*ONE * 3, "Approve all 3", "Deny all 3"]
    await press(stage, stage.server.ann, message, "Approve all 3")
    assert await states(stage, records) == [Status.APPROVED] * 3
    assert labels(message) == ["Details"] * 3
    assert shown_text(message).count("Approved by ann") == 3
    assert len(stage.server.channel.messages) == 1


async def test_each_is_answered_alone_and_keeps_its_place(stage: Stage) -> None:
    """The second is approved: at once it is a line between the others, which keep their buttons."""
    records, message = await carded(stage)
    await press(stage, stage.server.ann, message, "Approve", 1)
    assert await states(stage, records) == [Status.PENDING, Status.APPROVED, Status.PENDING]
    says = await stage.shows(message, "Approved by ann")
    assert says.index('"content": "1"') < says.index("Approved by ann") < says.index("make release")
    assert labels(message) == [*ONE, "Details", *ONE, "Approve all 2", "Deny all 2"]
    await press(stage, stage.server.ann, message, "Deny all 2")
    assert await states(stage, records) == [Status.DENIED, Status.APPROVED, Status.DENIED]
    await stage.seen(lambda: labels(message) == ["Details"] * 3)
    view = await press(stage, stage.server.ann, message, "Details", 1)
    assert "Approved by ann" in await told_privately(view)


@pytest.mark.parametrize(
    "alone",
    [
        {"arguments": {"command": "drop"}, "risk": HIGH},
        {"arguments": {"command": "x" * 5_000}},
        {"arguments": {"command": "echo password=shutdown-now | sh"}},
    ],
    ids=["high risk", "too long", "hiding"],
)
async def test_what_is_decided_alone_has_a_card_of_its_own(
    stage: Stage, alone: dict[str, Any]
) -> None:
    """The group's card has the rest of the group, and never what needs more than one tap."""
    records = await batch(stage, *CALLS[:2], alone)
    await placed(stage, records)
    own = await stage.card(records[2])
    (group,) = [one for one in stage.server.channel.messages.values() if one is not own]
    assert labels(group) == [*ONE * 2, "Approve all 2", "Deny all 2"]


async def test_what_finds_no_room_comes_in_cards_of_its_own(stage: Stage) -> None:
    """Forty components hold five requests: of seven, all are shown, each on one card."""
    calls = [{"arguments": {"command": f"ls {number}"}} for number in range(7)]
    records = await batch(stage, *calls)
    await placed(stage, records)
    texts = [shown_text(one) for one in stage.server.channel.messages.values()]
    for number in range(7):
        assert sum(f"ls {number}" in text for text in texts) == 1
    assert sum("5 requests of" in text for text in texts) == 1


async def test_somebody_was_faster_with_one_and_nothing_is_decided(stage: Stage) -> None:
    """The second ends elsewhere while "Approve all" is pressed: none of the others is approved, who
    pressed is told, and the card shows what changed."""
    records, message = await carded(stage)
    forged = {"custom_id": pressable(message)[-2]["custom_id"]}
    second = await stage.core.requests.get(records[1].id)
    bob = Identity(platform="discord", id=stage.server.bob.id)
    await stage.core.requests.decide(replace(click(second, Action.DENY), identity=bob))
    done = await press(stage, stage.server.ann, message, "Deny", 0, forged)
    await stage.seen(lambda: "othing was decided" in private_text(done))
    await stage.shows(message, "Denied by bob")
    assert await states(stage, records) == [Status.PENDING, Status.DENIED, Status.PENDING]


async def test_two_press_at_once_and_one_of_them_wins(stage: Stage) -> None:
    """Ann approves all while Bob denies all: every request ends by the same one of them."""
    records, message = await carded(stage)
    server = stage.server
    await asyncio.gather(
        press(stage, server.ann, message, "Approve all 3"),
        press(stage, server.bob, message, "Deny all 3"),
    )
    found = set(await states(stage, records))
    assert len(found) == 1
    winner = "ann" if found == {Status.APPROVED} else "bob"
    await stage.seen(lambda: shown_text(message).count(f"by {winner}") == 3)


async def test_a_stranger_decides_none_of_it(stage: Stage) -> None:
    """Who may not decide approves nothing of a group, alone or at once; it is told and audited."""
    records, message = await carded(stage)
    for label in ("Approve all 3", "Approve"):
        done = await press(stage, stage.server.eve, message, label)
        assert await told_privately(done)
    assert await states(stage, records) == [Status.PENDING] * 3
    assert len(await stage.events("refused")) >= 2


@pytest.mark.parametrize("revisions", ["", "1.1", "1.1.1.1", "0.0.0", "9.9.9", "1.x.1", "1.1.0"])
async def test_a_forged_button_for_all_decides_what_it_shows_or_nothing(
    stage: Stage, revisions: str
) -> None:
    """Revisions that the card never had decide nothing; fewer of those that it has decide these."""
    records, message = await carded(stage)
    head = pressable(message)[-2]["custom_id"].rpartition(":")[0]
    await press(stage, stage.server.ann, message, "Deny", 0, {"custom_id": f"{head}:{revisions}"})
    ended = 2 if revisions == "1.1.0" else 0
    found = await states(stage, records)
    assert found == [Status.APPROVED] * ended + [Status.PENDING] * (3 - ended)


async def test_a_line_cut_in_the_middle_makes_one_card(stage: Stage) -> None:
    """The answer to the POST never comes; it is sent again with the same nonce, and is one card, on
    which each is answered."""
    fault = stage.server.discord.rest.stage("POST", "/messages", drop=True)
    records = await batch(stage)
    await fault.reached.wait()
    await placed(stage, records)
    (message,) = stage.server.channel.messages.values()
    await press(stage, stage.server.ann, message, "Approve", 2)
    assert (await stage.ended(records[2])).status is Status.APPROVED
    await stage.shows(message, "Approved by ann")


async def test_what_moderation_refuses_is_shown_without_it(stage: Stage) -> None:
    """A word that AutoMod blocks: the card has no text of the agent, nothing is approved on it at
    once, and each can be reviewed."""
    stage.server.channel.blocked_words = ("make",)
    records, message = await carded(stage)
    assert labels(message) == ["Review…", "Deny", "More…"] * 3 + ["Deny all 3"]
    assert await states(stage, records) == [Status.PENDING] * 3


async def test_what_is_not_whole_on_the_card_is_not_approved_with_the_others(stage: Stage) -> None:
    """One of it became too long for the card: it keeps its place without Approve, and a press on a
    button for all that is forged from what the card had decides nothing."""
    records, message = await carded(stage)
    head = pressable(message)[-2]["custom_id"].rpartition(":")[0]
    second = await stage.core.requests.get(records[1].id)
    after = replace(second, edited={"path": "b", "content": "x" * 20_000})
    assert await stage.core.requests.progress(second, after, "reminded", {})
    rest = ["Review…", "Deny", "More…"]
    await stage.seen(lambda: labels(message) == [*ONE, *rest, *ONE, "Deny all 3"])
    forged = {"custom_id": f"{head}:1.2.1"}
    done = await press(stage, stage.server.ann, message, "Deny", 0, forged)
    assert "all of them can be read" in await told_privately(done)
    assert await states(stage, records) == [Status.PENDING] * 3
    await press(stage, stage.server.ann, message, "Deny all 3")
    await stage.seen(lambda: labels(message) == ["Details"] * 3)
    assert await states(stage, records) == [Status.DENIED] * 3
