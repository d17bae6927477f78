"""A batch in one private message: each request whole, answered alone, or all at once."""

from __future__ import annotations

import base64
from typing import Any

from gateway.domain.records import StoredRequest
from gateway.models import Kind, Risk, RiskLevel, Status
from tests.discord.interactions import Interaction
from tests.discord.messages import buttons
from tests.discord.stage import Stage, labels, private_text
from tests.discord.town import Json

CALLS: tuple[dict[str, Any], ...] = (
    {"kind": Kind.FILE_CHANGE, "tool": "write_file", "arguments": {"path": "a", "content": "1"}},
    {"kind": Kind.FILE_CHANGE, "tool": "write_file", "arguments": {"path": "b", "content": "2"}},
    {"kind": Kind.COMMAND, "arguments": {"command": "make release"}},
)


async def several(stage: Stage, *more: dict[str, Any]) -> list[tuple[StoredRequest, Json]]:
    """Ask for all of it and return the requests with their cards."""
    return [await stage.asked(**call) for call in (*CALLS, *more)]


async def states(stage: Stage, asked: list[tuple[StoredRequest, Json]]) -> list[Status]:
    """Return how the requests stand."""
    return [(await stage.core.requests.get(record.id)).status for record, _ in asked]


async def opened(stage: Stage, card: Json, count: int) -> Json:
    """Open the batch from one of its cards; return the private message."""
    return (await tapped(stage, card, count))[0]


async def tapped(stage: Stage, card: Json, count: int) -> tuple[Json, Interaction]:
    """Open the batch from one of its cards; return the private message and the tap."""
    more = await stage.click(stage.server.ann, card, "More…")
    return more.private[0], await stage.click(stage.server.ann, more.private[0], f"All {count}…")


async def test_all_of_a_batch_is_read_and_approved_at_once(stage: Stage) -> None:
    """Each with its head and exactly what runs; one tap approves all; every card says so."""
    asked = await several(stage)
    batch = await opened(stage, asked[0][1], 3)
    text = await stage.shows(batch, "3 requests of", "2 file changes, 1 command", "make release")
    assert '"content": "2"' in text
    await stage.click(stage.server.ann, batch, "Approve all 3")
    assert await states(stage, asked) == [Status.APPROVED] * 3
    await stage.shows(batch, "All 3 are approved")
    for _, card in asked:
        await stage.shows(card, "Approved by ann")


async def test_each_of_a_group_has_a_card_which_opens_the_group_alone(stage: Stage) -> None:
    """What was asked as one group is posted one by one, and opened without the rest of the session,
    from the first card and from the last."""
    asked = [await stage.asked(**call, group="turn-7") for call in CALLS]
    await stage.asked(arguments={"command": "ls other"})
    assert len(stage.server.channel.messages) == 4
    for _, card in (asked[0], asked[-1]):
        batch = await opened(stage, card, 3)
        assert "ls other" not in await stage.shows(batch, "3 requests of")
    await stage.click(stage.server.ann, batch, "Approve all 3")
    assert await states(stage, asked) == [Status.APPROVED] * 3


async def test_one_of_a_batch_is_answered_alone(stage: Stage) -> None:
    """The others wait on; the message shows what is left of them."""
    asked = await several(stage)
    batch = await opened(stage, asked[0][1], 3)
    await stage.click(stage.server.ann, batch, "Approve")
    await stage.shows(batch, "2 requests of")
    found = sorted(await states(stage, asked))
    assert found == [Status.APPROVED, Status.PENDING, Status.PENDING]
    assert "Approve all 2" in labels(batch)


async def test_what_is_decided_alone_is_never_approved_with_others(stage: Stage) -> None:
    """With one of high risk no button approves all of them, and a forged press decides nothing;
    all are denied at once."""
    risky = {"arguments": {"command": "drop"}, "risk": Risk(level=RiskLevel.HIGH)}
    asked = await several(stage, risky)
    batch, tap = await tapped(stage, asked[0][1], 4)
    await stage.shows(batch, "4 requests of")
    assert not [one for one in labels(batch) if "Approve all" in one]
    server = stage.server
    kept = base64.urlsafe_b64encode(int(tap.id).to_bytes(8, "big")).decode().rstrip("=")
    deny = buttons(batch)["Deny"]["custom_id"].split(":")
    forged = ":".join([deny[0], "all", *deny[2:6], kept])
    data = {"custom_id": forged, "component_type": 2, "id": 1}
    made = await server.discord.raw(
        server.app, server.ann.user, server.channel, data, message=batch
    )
    assert "Not all of these requests" in private_text(await server.ann.outcome(made))
    assert await states(stage, asked) == [Status.PENDING] * 4
    await stage.click(server.ann, batch, "Deny all 4")
    assert await states(stage, asked) == [Status.DENIED] * 4


async def test_a_batch_that_finds_no_room_says_how_many_are_left_out(stage: Stage) -> None:
    """Forty components hold five requests with their buttons: nine of them are opened all the
    same, the others are counted, and nothing is answered at once."""
    asked = [await stage.asked(arguments={"command": f"ls {number}"}) for number in range(9)]
    batch = await opened(stage, asked[0][1], 9)
    await stage.shows(batch, "4 more do not fit here")
    assert not [one for one in labels(batch) if "all" in one]
