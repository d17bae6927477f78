"""Whatever builds something that people see in Slack, Discord or the terminal is in the gallery."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

import adapters.discord
import adapters.slack
import adapters.terminal
from adapters.terminal.cards import render_card
from gateway.cards.card import card_of
from tests.discord import scenes
from tests.slack import states
from tests.terminal.scenes import drawn_screen, terminal_scenes

SEEN_BY_NOBODY = {
    "build_bolt_app", "build_click", "build_client", "build_create_link", "build_group_query",
    "build_invite_link",
    "build_manifest", "build_ref", "build_whole_card",
}  # fmt: skip
BUILDERS = ("build_", "render_")


def builders() -> Iterator[tuple[str, CodeType]]:
    """Yield every function of the adapters that builds what people see."""
    for package in (adapters.slack, adapters.discord, adapters.terminal):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            for name, one in inspect.getmembers(module, inspect.isfunction):
                ours = one.__module__ == module.__name__ and name.startswith(BUILDERS)
                if ours and name not in SEEN_BY_NOBODY:
                    yield f"{found.name}.{name}", one.__code__


def called_by(draw: Callable[[], Any]) -> set[CodeType]:
    """Return the code of all that is called."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        draw()
    finally:
        sys.setprofile(before)
    return seen


async def test_every_builder_has_a_picture() -> None:
    """A new modal, private reply or card that the gallery does not draw fails here."""

    def draw() -> None:
        for kept in (states.messages, states.views):
            kept.__wrapped__()  # anew, also where they were drawn before
        for make_all in (states.replies, scenes.modals):
            make_all()
        for make in scenes.messages().values():
            make()
        for screen in terminal_scenes().values():
            screen()
        for record in states.RECORDS.values():
            render_card(card_of(record, lines=60, chars=6000), now_ms=states.MADE)

    seen = called_by(draw)
    assert [name for name, code in builders() if code not in seen] == []


@pytest.mark.thorough
async def test_every_screen_is_drawn() -> None:
    """Also where a terminal is narrow."""
    for name, make in terminal_scenes().items():
        assert "<svg" in await drawn_screen(make(), 45), name
