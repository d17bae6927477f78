"""What every adapter that posts must keep, over the ones that need no account.

A stage is an adapter with the place where its messages appear; another adapter joins by adding its
stage to STAGES.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.cards import Card, card_of
from gateway.delivery import CopyGone, DeliveryFailed, Notice, NoticeKind, Posts
from gateway.models import Risk, RiskLevel
from gateway.serving import desk_of
from tests.recording import RecordingAdapter
from tests.world import World, click

PAGE = Path(__file__).parents[2] / "docs" / "write-an-adapter.md"
NONCE = "a" * 22
HOSTILE = "ls \u202e\u200b; @everyone <!channel> \x1b[31m"


@dataclass
class Stage:
    """An adapter and its place. `texts` are the messages that people see there now."""

    adapter: Any
    target: str
    nowhere: str
    texts: Callable[[], list[str]]
    delete: Callable[[], None]


@asynccontextmanager
async def recording(world: World, folder: Path) -> AsyncIterator[Stage]:
    """Yield the recording adapter."""
    adapter = RecordingAdapter()

    def texts() -> list[str]:
        return [f"{one.card.title} {one.card.blocks}" for one in adapter.messages.values()]

    yield Stage(adapter, "rec:a", "", texts, adapter.messages.clear)


@asynccontextmanager
async def toy(world: World, folder: Path) -> AsyncIterator[Stage]:
    """Yield the adapter of the page for authors."""
    (folder / "team").mkdir()
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found.group(1), names)  # the page is ours
    adapter = names["FolderAdapter"]()
    os.environ["FOLDER_ROOT"] = str(folder)

    def texts() -> list[str]:
        return [path.read_text() for path in (folder / "team").glob("*.txt")]

    def delete() -> None:
        for path in (folder / "team").glob("*.txt"):
            path.unlink()

    async with adapter.run(desk_of("folder", world.approvals, world.store)):
        yield Stage(adapter, "folder:team", "folder:nowhere", texts, delete)
    del os.environ["FOLDER_ROOT"]


STAGES: dict[str, Callable[[World, Path], AbstractAsyncContextManager[Stage]]] = {
    "recording": recording,
    "toy": toy,
}


@pytest.fixture(params=list(STAGES))
async def stage(
    request: pytest.FixtureRequest, world: World, tmp_path: Path
) -> AsyncIterator[Stage]:
    """Yield each adapter on its stage."""
    async with STAGES[request.param](world, tmp_path) as made:
        yield made


def card(record: Any, adapter: Any) -> Card:
    """Return the card as the core makes it for an adapter."""
    return card_of(record, lines=adapter.card_lines, chars=adapter.card_chars)


async def test_it_is_an_adapter_that_posts(stage: Stage) -> None:
    """The core recognises it by its shape."""
    assert isinstance(stage.adapter, Posts)
    assert stage.target.startswith(f"{stage.adapter.name}:")


async def test_a_card_is_one_message_that_says_what_would_run(stage: Stage, world: World) -> None:
    """Tool and arguments stand in it, and the reference names the place."""
    record = await world.submit()
    ref = await stage.adapter.deliver(stage.target, card(record, stage.adapter), NONCE)
    (text,) = stage.texts()
    assert "shell" in text
    assert "ls" in text
    assert (ref.adapter, bool(ref.channel), bool(ref.message)) == (stage.adapter.name, True, True)


async def test_an_update_replaces_what_was_there(stage: Stage, world: World) -> None:
    """The same message shows the outcome, and no second one appears."""
    record = await world.submit()
    ref = await stage.adapter.deliver(stage.target, card(record, stage.adapter), NONCE)
    decided = await world.approvals.decide(click(record))
    for _ in range(2):
        await stage.adapter.update(ref, card(decided, stage.adapter), NONCE)
    (text,) = stage.texts()
    assert "Approved" in text
    assert "Approval needed" not in text


async def test_a_repeatable_post_makes_one_message(stage: Stage, world: World) -> None:
    """Only an adapter that says so is asked to post twice."""
    if stage.adapter.repeatable:
        record = await world.submit()
        refs = [
            await stage.adapter.deliver(stage.target, card(record, stage.adapter), NONCE)
            for _ in range(2)
        ]
        assert refs[0] == refs[1]
        assert len(stage.texts()) == 1


async def test_a_deleted_message_is_told_as_gone(stage: Stage, world: World) -> None:
    """So that the core stops editing it."""
    record = await world.submit()
    ref = await stage.adapter.deliver(stage.target, card(record, stage.adapter), NONCE)
    stage.delete()
    with pytest.raises(CopyGone):
        await stage.adapter.update(ref, card(record, stage.adapter), NONCE)


async def test_a_place_that_is_not_there_is_told_as_failed(stage: Stage, world: World) -> None:
    """For good: the core goes on to the next place."""
    if stage.nowhere:
        record = await world.submit()
        with pytest.raises(DeliveryFailed):
            await stage.adapter.deliver(stage.nowhere, card(record, stage.adapter), NONCE)


async def test_hostile_text_is_posted_as_the_card_has_it(stage: Stage, world: World) -> None:
    """Nothing brings back what the card made visible."""
    record = await world.submit(arguments={"command": HOSTILE}, hint=HOSTILE, tool="t\u200b")
    await stage.adapter.deliver(stage.target, card(record, stage.adapter), NONCE)
    (text,) = stage.texts()
    assert not {"\u202e", "\u200b", "\x1b"} & set(text)
    assert "U+202E" in text


async def test_a_cut_card_offers_no_approval(stage: Stage, world: World) -> None:
    """Approving is possible only from the full view."""
    record = await world.submit(arguments={"command": "true\n" * 2000 + "rm -rf /"})
    made = card(record, stage.adapter)
    assert not made.complete
    await stage.adapter.deliver(stage.target, made, NONCE)
    (text,) = stage.texts()
    assert "Approve /" not in text


async def test_notices_are_told(stage: Stage, world: World) -> None:
    """A reminder beside a copy, an outcome to whoever wants to know."""
    record = await world.submit()
    made = card(record, stage.adapter)
    ref = await stage.adapter.deliver(stage.target, made, NONCE)
    for kind, about in ((NoticeKind.REMINDER, ref), (NoticeKind.OUTCOME, None)):
        notice = Notice(kind=kind, target=stage.target, nonce=NONCE, ref=about)
        await stage.adapter.tell(notice, made)


async def test_high_risk_is_said(stage: Stage, world: World) -> None:
    """The level reaches the one who reads the card."""
    record = await world.submit(risk=Risk(level=RiskLevel.HIGH, reasons=("deletes",)))
    made = card(record, stage.adapter)
    assert made.risk is RiskLevel.HIGH
    await stage.adapter.deliver(stage.target, made, NONCE)
    assert len(stage.texts()) == 1
