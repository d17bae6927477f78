"""What is lost: only what Discord calls gone is gone, and the request goes on elsewhere at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.domain.policy_document import Escalation
from gateway.domain.records import StoredRequest
from gateway.models import Reason, Status
from gateway.ports.outgoing import Copy, CopyState
from tests.discord.stage import Stage, labels, private_text
from tests.discord.town import Channel, Json
from tests.waiting import moment
from tests.world import click, identity

_HIDDEN = (0, 1 << 10)


async def look_at(stage: Stage, record: StoredRequest) -> None:
    """Have ann look at a request, which changes its card."""
    who = replace(identity("ann"), platform="discord", id=str(stage.server.ann.id))
    await stage.core.requests.claim(record.id, who)


async def decide(stage: Stage, record: StoredRequest) -> None:
    """Have ann approve it, and not on a card."""
    who = replace(identity("ann"), platform="discord", id=str(stage.server.ann.id))
    await stage.core.requests.decide(click(await stage.core.requests.get(record.id), identity=who))


async def refused(stage: Stage) -> None:
    """Wait until Discord has refused an edit."""
    made = stage.server.discord.rest
    await stage.seen(lambda: made.made("PATCH", "/channels/#/messages/#") and made.invalid)


async def lose(stage: Stage, event: str, data: Json) -> None:
    """Have Discord tell of a loss."""
    await stage.server.discord.gateway.send_raw(event, data)


def other(stage: Stage) -> tuple[Channel, str]:
    """Return a second channel, and how a route names it."""
    made = stage.server.discord.town.channel(stage.server.guild, "elsewhere")
    return made, f"discord:{stage.server.guild.id}/{made.id}"


@pytest.mark.parametrize("loss", ["view", "lock"])
async def test_a_passing_loss_heals(stage: Stage, loss: str) -> None:
    """View taken away and given back, a thread locked and unlocked: the card comes true again."""
    place, who = stage.server.channel, stage.server.guild.id
    if loss == "lock":
        place = stage.server.discord.town.thread(place, "a thread")
        await stage.policy(stage.route(targets=(f"discord:{who}/{place.id}",)))
    record = await stage.ask()
    card = await stage.card(record, place)
    place.archived = place.locked = loss == "lock"
    if loss == "view":
        place.overwrites[who] = _HIDDEN
    await look_at(stage, record)
    await refused(stage)
    place.archived = place.locked = False
    place.overwrites.clear()
    await decide(stage, record)
    assert "Approved" in await stage.shows(card, "Approved")
    assert labels(card) == {"Details"}


async def test_a_deleted_card_is_posted_again(stage: Stage) -> None:
    """Discord tells of it: another stands there at once, and is answered."""
    record, card = await stage.asked()
    board = stage.server.discord.board
    board.delete(stage.server.channel, card["id"])
    again = await stage.card(record)
    assert again["id"] != card["id"]
    await stage.click(stage.server.ann, again, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(again, "Approved")


async def test_who_deletes_cards_again_and_again_sends_them_elsewhere(stage: Stage) -> None:
    """Two more cards at that place; then the route's next step, and the audit says why."""
    elsewhere, target = other(stage)
    step = Escalation(after=900, targets=(target,))
    await stage.policy(stage.route(escalations=(step,)))
    record = await stage.ask()
    for _ in range(3):
        card = await stage.card(record)
        copies: dict[str, Copy] = {}
        while not copies.get(stage.target) or copies[stage.target].ref is None:
            await moment()
            copies = await stage.outbox.copies(record.id)
        stage.server.discord.board.delete(stage.server.channel, card["id"])
    await stage.card(record, elsewhere)
    assert len(await stage.events("copy_gone")) == 3
    assert (await stage.outbox.copies(record.id))[stage.target].state is CopyState.GONE


async def test_messages_that_are_no_cards_cost_nothing(stage: Stage) -> None:
    """What others delete is not looked for among the requests."""
    _, card = await stage.asked()
    data = {"id": "1234", "channel_id": stage.server.channel.id}
    await lose(stage, "MESSAGE_DELETE", data)
    bulk = {"ids": ["1234", "1235"], "channel_id": stage.server.channel.id}
    await lose(stage, "MESSAGE_DELETE_BULK", bulk)
    await stage.click(stage.server.ann, card, "Approve")
    await stage.shows(card, "Approved")
    assert not await stage.events("copy_gone")


@pytest.mark.parametrize("kind", ["channel", "thread"])
async def test_a_deleted_channel_sends_its_requests_elsewhere(stage: Stage, kind: str) -> None:
    """The next step of the route is taken at once, not after its time."""
    town, guild = stage.server.discord.town, stage.server.guild
    place, target = other(stage)
    if kind == "thread":
        place = town.thread(place, "a thread")
        target = f"discord:{guild.id}/{place.id}"
    step = Escalation(after=900, targets=(stage.target,))
    await stage.policy(stage.route(targets=(target,), escalations=(step,)))
    record = await stage.ask()
    await stage.card(record, place)
    told = place.json()
    if kind == "channel":
        await lose(stage, "CHANNEL_CREATE", told)  # Discord tells of each, before it is gone
    del town.channels[place.id], guild.channels[place.id]
    await lose(stage, f"{kind.upper()}_DELETE", told)
    await stage.card(record)


async def test_a_bot_that_was_removed_is_told_to_the_agent(stage: Stage) -> None:
    """Nobody can answer there and the route knows no other place: undeliverable, at once."""
    record, _ = await stage.asked()
    guild = stage.server.guild
    del guild.members[stage.server.app.user.id]
    await lose(stage, "GUILD_DELETE", {"id": guild.id})
    ended = await stage.ended(record)
    assert ended.decision is not None and ended.decision.reason is Reason.UNDELIVERABLE
    (gone,) = await stage.events("copy_gone")
    assert "removed from the server" in gone.data["why"]


async def test_a_server_that_is_down_is_no_loss(stage: Stage) -> None:
    """Discord's own outage says `unavailable`: nothing is given up."""
    record, card = await stage.asked()
    await lose(stage, "GUILD_DELETE", {"id": stage.server.guild.id, "unavailable": True})
    await stage.click(stage.server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED


async def test_a_refused_tap_repairs_the_card(stage: Stage) -> None:
    """Edits are refused, so that the card still has its buttons: who presses one is told that it
    is too late, and the card says so from then on."""
    record, card = await stage.asked()
    stage.server.discord.rest.stage(
        "PATCH", "/messages", times=100, status=403, body={"code": 50013, "message": "no"}
    )
    await decide(stage, record)
    assert "Approve" in labels(card)
    done = await stage.click(stage.server.bob, card, "Approve")
    await stage.shows(card, "Approved")
    assert labels(card) == {"Details"}
    async with asyncio.timeout(20):
        while "decided already" not in private_text(done):
            await moment()


async def test_an_old_denial_repairs_the_card_too(stage: Stage) -> None:
    """No form is opened for what was decided: the card changes instead."""
    record, card = await stage.asked()
    stage.server.discord.rest.stage(
        "PATCH", "/messages", times=100, status=403, body={"code": 50013, "message": "no"}
    )
    await decide(stage, record)
    await stage.click(stage.server.bob, card, "Deny")
    await stage.shows(card, "Approved")
