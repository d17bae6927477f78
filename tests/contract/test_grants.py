"""What every adapter that posts the cards of remembered decisions must keep, alone and with the
core."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from gateway.cards.grant_cards import GrantCard, grant_card_of
from gateway.domain.records import Remember
from gateway.models import Action, Kind, Status
from gateway.policy.grants.grant import Effect, End, Grant, Match, Shape
from gateway.ports.outgoing import (
    GRANT,
    CopyGone,
    CopyState,
    DeliveryFailed,
    Notice,
    NoticeKind,
)
from gateway.server.background import adapter_api
from tests.contract.stages import GRANTING, Granting, Stage, until
from tests.contract.test_adapter import HOSTILE, NONCE, patiently
from tests.contract.test_cards import Play, playing
from tests.waiting import moment
from tests.world import AGENT, World, identity

GRANTED = Grant(
    id="2e" * 16,
    effect=Effect.ALLOW,
    agent=AGENT,
    match=Match(shape=Shape.EXACT, tool="shell", kind=Kind.COMMAND, digest="0" * 64),
    made_by="ann",
    made_at=1_795_000_000_000,
    expires_at=1_795_086_400_000,
    words="exactly this, and nothing else",
)
OVER = replace(GRANTED, generation=2, end=End(why="revoked", by="bob", at=1_795_000_060_000))


@dataclass
class Running:
    """An adapter that runs, and its stage."""

    adapter: Any
    stage: Granting


@pytest.fixture
async def run(granting: Granting, world: World) -> AsyncIterator[Running]:
    """Yield each adapter, running with its API without the core behind it."""
    api = adapter_api(granting.target.partition(":")[0], world.core, world.store)
    adapter = granting.adapter(api)
    async with adapter.run(api):
        yield Running(adapter, granting)


def card(grant: Grant = GRANTED) -> GrantCard:
    """Return the card as the core makes it."""
    return grant_card_of(grant)


async def test_every_adapter_that_posts_is_asked(
    stage: Stage, world: World, request: pytest.FixtureRequest
) -> None:
    """The core posts them where it posts cards; none of ours is left out here."""
    adapter = stage.adapter(adapter_api("x", world.core, world.store))
    assert adapter.posts is (request.node.callspec.params["stage"] in GRANTING)


async def test_a_grant_is_one_message_that_says_what_it_covers(run: Running) -> None:
    """What, who and until when; the reference names the place."""
    ref = await run.adapter.deliver(run.stage.target, card(), NONCE)
    (text,) = run.stage.texts()
    for part in ("Approval remembered", "shell", GRANTED.words, "ann"):
        assert part in text, part
    assert run.stage.moment(1_795_086_400_000) in text
    assert (ref.adapter, bool(ref.channel), bool(ref.message)) == (run.adapter.name, True, True)


async def test_an_update_says_who_took_it_back_and_takes_the_button(run: Running) -> None:
    """The same message, however often; no second one appears."""
    ref = await run.adapter.deliver(run.stage.target, card(), NONCE)
    for _ in range(2):
        await run.adapter.update(ref, card(OVER), NONCE)
    (text,) = run.stage.texts()
    assert "revoked by bob" in text.lower()
    assert "Approval remembered" not in text
    with pytest.raises(AssertionError):
        await run.stage.revoke()


async def test_a_repeatable_post_makes_one_message(run: Running) -> None:
    """Only an adapter that says so is asked to post twice."""
    refs = [await run.adapter.deliver(run.stage.target, card(), NONCE)]
    if run.adapter.repeatable:
        refs.append(await run.adapter.deliver(run.stage.target, card(), NONCE))
    assert len(set(refs)) == len(run.stage.texts()) == 1


async def test_a_deleted_message_is_told_as_gone(run: Running) -> None:
    """So that the core stops editing it."""
    ref = await run.adapter.deliver(run.stage.target, card(), NONCE)
    run.stage.delete()
    with pytest.raises(CopyGone):
        await run.adapter.update(ref, card(OVER), NONCE)


async def test_a_place_that_is_not_there_is_told_as_failed(run: Running) -> None:
    """For good."""
    with pytest.raises(DeliveryFailed):
        await run.adapter.deliver(run.stage.nowhere, card(), NONCE)


async def test_hostile_words_are_posted_as_the_card_has_them(run: Running) -> None:
    """Nothing brings back what the card made visible."""
    hostile = replace(GRANTED, words=HOSTILE, match=replace(GRANTED.match, tool="t\u200b"))
    await run.adapter.deliver(run.stage.target, card(hostile), NONCE)
    (text,) = run.stage.texts()
    assert not {"\u202e", "\u200b", "\x1b"} & set(text)
    assert "202E" in text


async def test_its_end_is_announced_beside_it(run: Running) -> None:
    """An edit rings no bell: what the card says newly is said again."""
    ref = await run.adapter.deliver(run.stage.target, card(), NONCE)
    notice = Notice(kind=NoticeKind.REMINDER, target=run.stage.target, nonce=NONCE, ref=ref)
    ending = card(replace(GRANTED, notices=1))
    await patiently(partial(run.adapter.tell, notice, ending))
    (said,) = run.stage.announced()
    assert "This grant ends soon" in said


# ---------------------------------------------------------------- with the core


async def remembered(play: Play) -> str:
    """Have bob remember a request elsewhere; return the id of the grant once its card stands."""
    record = await play.asked()
    await play.decided(record, Action.APPROVE, remember=Remember(lifetime="1d"))
    await until(lambda: any("Approval remembered" in text for text in play.stage.texts()))
    (grant,) = await play.api.grants.newest()
    await settled(play, grant.id)
    return grant.id


async def settled(play: Play, grant_id: str, state: CopyState = CopyState.POSTED) -> None:
    """Wait until the copy of a grant's card has come so far."""
    async with asyncio.timeout(40):
        while (await known(play, grant_id)) is not state:
            await moment()


async def known(play: Play, grant_id: str) -> CopyState | None:
    """Return how far the one copy of a grant's card has come."""
    copy = (await play.world.core.outbox.copies(GRANT + grant_id)).get(play.stage.target)
    return copy.state if copy else None


async def gone(play: Play, grant_id: str) -> Any:
    """Return how a grant ended, once it has."""
    async with asyncio.timeout(40):
        while (
            found := await play.world.core.grants.view(grant_id)
        ) is None or found.grant.end is None:
            await moment()
    return found.grant.end


async def test_one_press_takes_it_back_and_the_card_says_who(
    granting: Granting, world: World
) -> None:
    """Pressed twice at once it ends once; from then on people are asked again."""
    async with playing(granting, world) as play:
        grant = await remembered(play)
        await asyncio.gather(granting.revoke(), granting.revoke())
        assert (await gone(play, grant)).by == "ann"
        await until(lambda: any("revoked by ann" in text.lower() for text in granting.texts()))
        assert (await world.submit()).status is Status.PENDING
    ends = [one for one in await world.events() if one.type == "grant_ended"]
    assert len(ends) == 1


async def test_what_ended_while_the_adapter_was_away_comes_to_show(
    granting: Granting, world: World
) -> None:
    """And no second card appears for it."""
    async with playing(granting, world) as play:
        grant = await remembered(play)
        before = len(granting.texts())
    await play.api.grants.revoke(grant, identity("bob"))
    async with playing(granting, world):
        await until(lambda: any("revoked by bob" in text.lower() for text in granting.texts()))
        assert not any("Approval remembered" in text for text in granting.texts())
        assert len(granting.texts()) == before


async def test_a_deleted_card_of_a_grant_is_let_go(granting: Granting, world: World) -> None:
    """It is noted as gone, and none is posted again."""
    async with playing(granting, world) as play:
        grant = await remembered(play)
        granting.delete()
        await play.api.grants.revoke(grant, identity("bob"))
        await settled(play, grant, CopyState.GONE)
        assert not any("revoked" in text.lower() for text in granting.texts())
