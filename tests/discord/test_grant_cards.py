"""Remembered decisions and the kill switch in Discord: cards, commands and buttons, on the wire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.domain.records import Remember
from gateway.models import Action, Status
from tests.discord.messages import shown_text
from tests.discord.stage import Stage, labels, private_text
from tests.discord.town import Json
from tests.world import click


async def remembered(stage: Stage, **details: Any) -> tuple[str, Json]:
    """Have ann remember a request; return the grant's id and its card."""
    record = await stage.ask(**details)
    tap = click(record, Action.APPROVE, remember=Remember(lifetime="1d"))
    ann = (await stage.gateway.backend.store.policy()).people[0].identities[0]
    platform, _, name = ann.partition(":")
    who = replace(tap.identity, platform=platform, id=name)
    await stage.core.requests.decide(replace(tap, identity=who))
    grant = (await stage.core.grants.all())[0].id
    messages = stage.server.channel.messages

    def card() -> Json | None:
        return next((m for m in messages.values() if f"`{grant[:8]}`" in shown_text(m)), None)

    return grant, await stage.seen(card, 40)


async def test_a_grant_has_a_card_whose_button_takes_it_back(stage: Stage) -> None:
    """Who, what, how far; a stranger's press does nothing; then it says who took it back."""
    server = stage.server
    _, card = await remembered(stage, arguments={"command": "make lint"})
    text = shown_text(card)
    for part in ("Approval remembered", "exactly this", "It would have covered", "not used yet"):
        assert part in text, part
    assert "⛔" in private_text(await stage.click(server.eve, card, "Revoke"))
    member = server.guild.members[server.bob.id]
    member.timed_out_until = "2100-01-01T00:00:00+00:00"
    assert "timed out" in private_text(await stage.click(server.bob, card, "Revoke"))
    member.timed_out_until = None
    await stage.click(server.bob, card, "Revoke")
    await stage.shows(card, "Approval no longer remembered", "Revoked by bob")
    assert not labels(card)
    again = await stage.ask(arguments={"command": "make lint"})
    assert again.status is Status.PENDING


async def test_the_end_to_come_is_said_in_answer_to_the_card(stage: Stage) -> None:
    """Once, though several replicas may look."""
    grant, card = await remembered(stage)
    store = stage.gateway.backend.store
    await store.redis.zadd(store.keys.grants_ending, {grant: 1})
    await stage.shows(card, "This grant ends soon")
    messages = stage.server.channel.messages

    def said() -> list[Json]:
        return [one for one in messages.values() if "⏰" in shown_text(one)]

    await stage.seen(said)
    assert len(said()) == 1


async def test_a_sessions_grants_and_all_are_taken_back_by_command(stage: Stage) -> None:
    """They are offered while `/revoke` is typed, and take only what the person may."""
    server = stage.server
    for number in range(2):
        await remembered(stage, arguments={"command": f"ls {number}"})
    await remembered(stage, session="other")
    offered = await server.bob.complete(server.app, server.channel, "revoke", "grant", "")
    values = [one["value"] for one in offered]
    assert {"all", "session bot default", "session bot other"} <= set(values)
    refused = await server.eve.command(server.app, server.channel, "revoke", grant="all")
    assert "no grants that you may revoke" in private_text(refused)
    one = await server.bob.command(
        server.app, server.channel, "revoke", grant="session bot default"
    )
    assert "Revoked\\: 2" in private_text(one)
    rest = await server.bob.command(server.app, server.channel, "revoke", grant="all")
    assert "Revoked\\: 1" in private_text(rest)
    assert await stage.core.grants.all() == []


async def test_an_admin_stops_everything_behind_a_second_press_and_lifts_it(stage: Stage) -> None:
    """Others are refused at the command, and at the button that an admin had before."""
    server, store = stage.server, stage.gateway.backend.store
    current = await store.policy()
    people = tuple(replace(one, admin=n == 0) for n, one in enumerate(current.people))
    await store.apply(replace(current, people=people), by="test")
    refused = await server.bob.command(server.app, server.channel, "stop-all")
    assert "⛔" in private_text(refused)
    record, card = await stage.asked()
    shown = await server.ann.command(server.app, server.channel, "stop-all")
    assert not await store.is_stopped()
    assert "This will deny the pending request and every new one" in private_text(shown)
    assert "Stop everything" in labels(shown.private[0])
    await stage.click(server.ann, shown.private[0], "Stop everything")
    assert await store.is_stopped()
    assert (await stage.ended(record)).status is Status.DENIED
    await stage.shows(card, "kill switch")
    shown = await server.ann.command(server.app, server.channel, "stop-all")
    assert "All requests are denied\\: ann turned on the kill switch at" in private_text(shown)
    assert "Denied requests stay denied" in private_text(shown)
    await store.apply(replace(await store.policy(), people=current.people), by="test")
    assert "⛔" in private_text(
        await stage.click(server.ann, shown.private[0], "Let agents ask again")
    )
    assert await store.is_stopped()
    await store.apply(replace(await store.policy(), people=people), by="test")
    await stage.click(server.ann, shown.private[0], "Let agents ask again")
    assert not await store.is_stopped()
    assert (await stage.ask()).status is Status.PENDING
