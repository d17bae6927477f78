"""Draws every state of a card on a phone, light and dark: `python -m tests.gallery [slack …]`.

Each surface by its own renderer, of the same requests, into build/pictures/gallery: artefacts to be
looked at, not committed.
"""

from __future__ import annotations

import asyncio
import io
import sys
from typing import Any

from rich.console import Console
from rich.terminal_theme import MONOKAI

from adapters.discord import card_views
from adapters.discord.card_views import MessageContent, build_card_view, build_more_view
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.group_cards import build_group_view
from adapters.discord.groups import GROUP_CHARS, build_group, list_drawn
from adapters.terminal.card_text import render_card
from adapters.terminal.screen import CARD_CHARS, CARD_LINES
from gateway.domain.records import Record
from gateway.ports.cards import card_of
from gateway.ports.group_cards import group_card_of, posted_group_of
from tests.discord.pictures import NARROW, photographed
from tests.picture_files import BUILT
from tests.slack import render, states
from tests.slack.pictures import PHONE, shot
from tests.web.chromium import Page, chromium
from tests.web.gallery import draw_cards, draw_pages

FOLDER = BUILT / "gallery"
COLUMNS, TERMINAL = 80, 820  # characters, pixels
_LOOKS = (("light", False), ("dark", True))


async def draw_slack(page: Page) -> None:
    """Draw every card, modal and the Home tab."""
    pages = {name: render.message(*one) for name, one in states.messages().items()}
    pages |= {f"modal-{name}": render.modal(view) for name, view in states.views().items()}
    for name, html in pages.items():
        for look, dark in _LOOKS:
            path = FOLDER / f"slack-{name}-{look}.png"
            await shot(page, render.page(html), path, PHONE, dark=dark)


async def draw_discord(page: Page) -> None:
    """Draw every card, what is behind More…, and a group."""
    for name, make in _discord_scenes().items():
        for look, dark in _LOOKS:
            # Each anew: sending uses a view up.
            path = FOLDER / f"discord-{name}-{look}.png"
            await photographed(page, make(), path, NARROW, word="", dark=dark)


def _discord_scenes() -> dict[str, Any]:
    made: dict[str, Any] = {
        name: lambda record=record: _discord_card(record) for name, record in states.RECORDS.items()
    }
    pending = states.RECORDS["pending"]
    button = DiscordButton(verb="more", request_id=pending.id, revision=1, copy="0" * 22)
    made["more"] = lambda: build_more_view(_discord_sized(pending), button, group=3)
    made["group"] = lambda: _discord_group(states.GROUP, button)
    made["group-alone"] = lambda: _discord_group(
        (*states.GROUP, states.known_as(states.PAYMENT, "3a")), button
    )
    for name, records in states.GROUP_CARDS.items():
        made[name] = lambda records=records: build_group_view(
            posted_group_of([(one, _discord_sized(one)) for one in records]), states.GROUP_COPY
        )
    return made


def _discord_sized(record: Record) -> Any:
    return card_of(record, lines=card_views.CARD_LINES, chars=card_views.CARD_CHARS)


def _discord_card(record: Record) -> MessageContent:
    return build_card_view(_discord_sized(record), "0" * 22)


def _discord_group(records: tuple[Record, ...], button: DiscordButton) -> MessageContent:
    group = group_card_of(records, chars=GROUP_CHARS, each=1500)
    shown = list_drawn(group)
    together = group.together and len(shown) == len(group.items)
    return build_group(group, shown, button, "k" * 11, together=together)


async def draw_terminal(page: Page) -> None:
    """Draw every card as Rich writes it, in the dark colours of a terminal."""
    for name, record in states.RECORDS.items():
        console = Console(file=io.StringIO(), record=True, width=COLUMNS)
        card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
        console.print(render_card(card, now_ms=states.MADE))
        html = console.export_html(inline_styles=True, theme=MONOKAI)
        html = html.replace("<head>", "<head><title>Slack</title>", 1)
        await shot(page, html, FOLDER / f"terminal-{name}-dark.png", TERMINAL)


async def draw_inbox(page: Page) -> None:
    """Draw every card and panel by the page's own scripts, and every page of a real gateway."""
    await draw_cards(page, FOLDER)
    await draw_pages(FOLDER)


SURFACES = {
    "slack": draw_slack,
    "discord": draw_discord,
    "terminal": draw_terminal,
    "inbox": draw_inbox,
}


async def main() -> None:
    """Draw the surfaces that were named, or all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    async with chromium() as page:
        for name in sys.argv[1:] or SURFACES:
            await SURFACES[name](page)
    sys.stdout.write(f"{len(list(FOLDER.glob('*.png')))} pictures in {FOLDER}\n")


if __name__ == "__main__":
    asyncio.run(main())
