"""What every adapter that posts must keep by itself, asked of it directly: post, update, tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from gateway.cards.card import Card, card_of
from gateway.models import Risk, RiskLevel
from gateway.ports import Adapter, CopyGone, DeliveryFailed, Notice, NoticeKind, RetryLater
from gateway.server.background import adapter_api
from tests.contract.stages import Stage
from tests.waiting import moment
from tests.world import World, click

NONCE = "a" * 22
HOSTILE = "ls \u202e\u200b; @everyone <!channel> \x1b[31m"


@dataclass
class Running:
    """An adapter that runs, and its stage."""

    adapter: Any
    stage: Stage


@pytest.fixture
async def run(stage: Stage, world: World) -> AsyncIterator[Running]:
    """Yield each adapter, running with its API without the core behind it."""
    api = adapter_api(stage.target.partition(":")[0], world.core, world.store)
    adapter = stage.adapter(api)
    async with adapter.run(api):
        yield Running(adapter, stage)


async def patiently(call: Callable[[], Awaitable[None]]) -> None:
    """Have the adapter do something, as often as it asks to be called later."""
    while True:
        try:
            return await call()
        except RetryLater:
            await moment()


def card(record: Any, adapter: Any) -> Card:
    """Return the card as the core makes it for an adapter."""
    return card_of(record, lines=adapter.card_lines, chars=adapter.card_chars)


async def test_it_is_an_adapter_that_posts(run: Running) -> None:
    """The core keeps its cards."""
    assert isinstance(run.adapter, Adapter) and run.adapter.posts
    assert run.stage.target.startswith(f"{run.adapter.name}:")


async def test_a_card_is_one_message_that_says_what_would_run(run: Running, world: World) -> None:
    """Tool and arguments stand in it, and the reference names the place."""
    record = await world.submit()
    ref = await run.adapter.deliver(run.stage.target, card(record, run.adapter), NONCE)
    (text,) = run.stage.texts()
    assert "shell" in text
    assert "ls" in text
    assert (ref.adapter, bool(ref.channel), bool(ref.message)) == (run.adapter.name, True, True)


async def test_an_update_replaces_what_was_there(run: Running, world: World) -> None:
    """The same message shows the outcome, and no second one appears."""
    record = await world.submit()
    ref = await run.adapter.deliver(run.stage.target, card(record, run.adapter), NONCE)
    decided = await world.core.requests.decide(click(record))
    for _ in range(2):
        await run.adapter.update(ref, card(decided, run.adapter), NONCE)
    (text,) = run.stage.texts()
    assert "Approved" in text
    assert "Approval needed" not in text


async def test_a_repeatable_post_makes_one_message(run: Running, world: World) -> None:
    """Only an adapter that says so is asked to post twice."""
    if run.adapter.repeatable:
        record = await world.submit()
        refs = [
            await run.adapter.deliver(run.stage.target, card(record, run.adapter), NONCE)
            for _ in range(2)
        ]
        assert refs[0] == refs[1]
        assert len(run.stage.texts()) == 1


async def test_a_deleted_message_is_told_as_gone(run: Running, world: World) -> None:
    """So that the core stops editing it."""
    record = await world.submit()
    ref = await run.adapter.deliver(run.stage.target, card(record, run.adapter), NONCE)
    run.stage.delete()
    with pytest.raises(CopyGone):
        await run.adapter.update(ref, card(record, run.adapter), NONCE)


async def test_a_place_that_is_not_there_is_told_as_failed(run: Running, world: World) -> None:
    """For good: the core goes on to the next place."""
    record = await world.submit()
    with pytest.raises(DeliveryFailed):
        await run.adapter.deliver(run.stage.nowhere, card(record, run.adapter), NONCE)


async def test_hostile_text_is_posted_as_the_card_has_it(run: Running, world: World) -> None:
    """Nothing brings back what the card made visible."""
    record = await world.submit(arguments={"command": HOSTILE}, hint=HOSTILE, tool="t\u200b")
    await run.adapter.deliver(run.stage.target, card(record, run.adapter), NONCE)
    (text,) = run.stage.texts()
    assert not {"\u202e", "\u200b", "\x1b"} & set(text)
    assert "U+202E" in text


async def test_a_cut_card_offers_no_approval(run: Running, world: World) -> None:
    """Approving is possible only from the full view."""
    record = await world.submit(arguments={"command": "true\n" * 2000 + "rm -rf /"})
    made = card(record, run.adapter)
    assert not made.complete
    await run.adapter.deliver(run.stage.target, made, NONCE)
    (text,) = run.stage.texts()
    assert "Approve /" not in text


async def test_notices_are_told(run: Running, world: World) -> None:
    """A reminder beside a copy, an outcome to whoever wants to know."""
    record = await world.submit()
    made = card(record, run.adapter)
    ref = await run.adapter.deliver(run.stage.target, made, NONCE)
    for kind, about in ((NoticeKind.REMINDER, ref), (NoticeKind.OUTCOME, None)):
        notice = Notice(kind=kind, target=run.stage.target, nonce=NONCE, ref=about)
        await patiently(partial(run.adapter.tell, notice, made))


async def test_high_risk_is_said(run: Running, world: World) -> None:
    """The level reaches the one who reads the card."""
    record = await world.submit(risk=Risk(level=RiskLevel.HIGH, reasons=("deletes",)))
    made = card(record, run.adapter)
    assert made.risk is RiskLevel.HIGH
    await run.adapter.deliver(run.stage.target, made, NONCE)
    assert len(run.stage.texts()) == 1
