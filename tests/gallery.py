"""Draws every state of a card on a phone, light and dark: `python -m tests.gallery [slack …]`.

Each surface by its own renderer, of the same requests, into build/pictures/gallery: artefacts to be
looked at, not committed.
"""

from __future__ import annotations

import asyncio
import io
import sys

from rich.console import Console

from adapters.terminal.cards import DARK, LIGHT, render_card
from adapters.terminal.screen import CARD_CHARS, CARD_LINES
from gateway.cards.card import card_of
from tests.discord import modal_page, scenes
from tests.discord.pictures import NARROW, photographed
from tests.picture_files import BUILT
from tests.slack import render, states
from tests.slack.pictures import PHONE, shot
from tests.terminal.scenes import drawn_main, drawn_screen, main_scenes, terminal_scenes
from tests.web.chromium import Page, chromium
from tests.web.gallery import draw_cards, draw_pages

FOLDER = BUILT / "gallery"
TALL = (NARROW[0], 3200)  # the longest is drawn whole
WIDTHS = {80: 820, 45: 480}  # characters, pixels
_LOOKS = (("light", False), ("dark", True))


async def draw_slack(page: Page) -> None:
    """Draw every card, modal and the Home tab."""
    pages = {name: render.message(*one) for name, one in states.messages().items()}
    pages |= {name: render.message(*one) for name, one in states.replies().items()}
    pages |= {f"modal-{name}": render.modal(view) for name, view in states.views().items()}
    for name, html in pages.items():
        for look, dark in _LOOKS:
            path = FOLDER / f"slack-{name}-{look}.png"
            await shot(page, render.page(html), path, PHONE, dark=dark)


async def draw_discord(page: Page) -> None:
    """Draw every card, what is behind More…, and a batch."""
    for name, make in scenes.messages().items():
        for look, dark in _LOOKS:
            # Each anew: sending uses a view up.
            path = FOLDER / f"discord-{name}-{look}.png"
            await photographed(page, make(), path, TALL, word="", dark=dark)
    for name, modal in scenes.modals().items():
        for look, dark in _LOOKS:
            path = FOLDER / f"discord-modal-{name}-{look}.png"
            await shot(page, modal_page.draw(modal, dark=dark), path, PHONE, dark=dark)


async def draw_terminal(page: Page) -> None:
    """Draw every card as Rich writes it, wide and narrow, and every screen as Textual does."""
    for name, record in states.RECORDS.items():
        card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
        for columns, pixels in WIDTHS.items():
            for look, theme in (("light", LIGHT), ("dark", DARK)):
                console = Console(file=io.StringIO(), record=True, width=columns)
                console.print(render_card(card, now_ms=states.MADE))
                html = console.export_html(inline_styles=True, theme=theme)
                html = html.replace("<head>", "<head><title>Slack</title>", 1)
                path = FOLDER / f"terminal-{name}-{columns}-{look}.png"
                await shot(page, html, path, pixels)
    for columns, pixels in WIDTHS.items():
        for look, _ in _LOOKS:
            drawn = {
                f"screen-{name}": await drawn_screen(make(), columns, look)
                for name, make in terminal_scenes().items()
            }
            for name, main_screen in main_scenes().items():
                drawn[f"main-{name}"] = await drawn_main(main_screen(), columns, look)
            for name, svg in drawn.items():
                html = f"<!doctype html><title>Slack</title><body style='margin:0'>{svg}"
                await shot(page, html, FOLDER / f"terminal-{name}-{columns}-{look}.png", pixels)


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
