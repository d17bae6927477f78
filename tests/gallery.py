"""Draws every state of a card on a phone, light and dark: `python -m tests.gallery [slack …]`.

Each surface by its own renderer, of the same requests, into build/pictures/gallery: artefacts to be
looked at, not committed.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI

from adapters.terminal.card_text import render_card
from adapters.terminal.screen import CARD_CHARS, CARD_LINES
from adapters.web.card_json import Viewer, add_viewer, build_row, build_whole
from gateway.domain.records import Approvers, Record
from gateway.domain.step_up import StepUp
from gateway.ports.cards import card_of
from gateway.ports.remember_options import LIFETIME_WORDS, PASS_LIFETIME_WORDS
from gateway.ports.words import ANOTHER_PLAN, DENIALS
from tests.discord import modal_page, scenes
from tests.discord.pictures import NARROW, photographed
from tests.picture_files import BUILT
from tests.slack import render, states
from tests.slack.pictures import PHONE, shot
from tests.terminal.scenes import drawn_screen, terminal_scenes
from tests.web.chromium import Page, chromium

FOLDER = BUILT / "gallery"
STATIC = Path(__file__).resolve().parents[1] / "adapters" / "web" / "static"
TALL = (NARROW[0], 3200)  # the longest is drawn whole
WIDTHS = {80: 820, 45: 480}  # characters, pixels
_LOOKS = (("light", False), ("dark", True))
_SCREEN = 844  # a phone's height
_PANELS = ("reason", "edit", "respond", "abort", "remember")
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>card</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/inbox.css"><main><div id="list"></div></main>
<script type="module">
import { card } from "/static/card.js";
import { setClock } from "/static/dom.js";
const { item, facts, panel } = await (await fetch("/item")).json();
setClock(item.created + 90_000);
const acts = new Proxy({}, { get: () => () => "" });
const asked = { action: "approve" };
const draft = { panel, asked, more: Boolean(panel), text: {}, reaches: new Map() };
const view = { draft, online: true, busy: false, acts, ...facts };
document.getElementById("list").append(card(item, view));
document.title = "drawn";
</script></html>"""


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
    """Draw every card, what is behind More…, and a group."""
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
            for look, theme in (("light", DEFAULT_TERMINAL_THEME), ("dark", MONOKAI)):
                console = Console(file=io.StringIO(), record=True, width=columns)
                console.print(render_card(card, now_ms=states.MADE))
                html = console.export_html(inline_styles=True, theme=theme)
                html = html.replace("<head>", "<head><title>Slack</title>", 1)
                path = FOLDER / f"terminal-{name}-{columns}-{look}.png"
                await shot(page, html, path, pixels)
    for name, make in terminal_scenes().items():
        for columns, pixels in WIDTHS.items():
            svg = await drawn_screen(make(), columns)
            html = f"<!doctype html><title>Slack</title><body style='margin:0'>{svg}"
            path = FOLDER / f"terminal-screen-{name}-{columns}-dark.png"
            await shot(page, html, path, pixels)


async def draw_inbox(page: Page) -> None:
    """Draw every card by the page's own script, and the panels of one that waits."""
    scenes: list[tuple[str, Record, str | None]] = [
        (name, record, None) for name, record in states.RECORDS.items()
    ]
    scenes += [(f"panel-{one}", states.RECORDS["pending-git"], one) for one in _PANELS]
    scenes.append(("panel-edit-money", states.PAYMENT, "edit"))
    scenes.append(("panel-confirm", states.PAYMENT, "confirm"))
    scenes += [(f"panel-step-up-{way}", stepped(way), "confirm") for way in StepUp]
    async with _serving() as (address, shown):
        for name, record, panel in scenes:
            view = (build_whole if panel else build_row)(record)
            seen = add_viewer(view, record, Viewer(name="ann", may_pass=True))
            shown["item"] = {**seen, "seen": "shown whole" if view["complete"] else None}
            shown["panel"] = panel
            for look, dark in _LOOKS:
                await page.size((PHONE, _SCREEN), dark=dark, still=True)
                await page.goto(address)
                await page.until("document.title === 'drawn'")
                high = int(await page.evaluate("document.documentElement.scrollHeight"))
                if high > _SCREEN:  # the answers stand at the end of what a phone shows
                    path = FOLDER / f"inbox-{name}-first-{look}.png"
                    path.write_bytes(await page.picture())
                bottom = "document.querySelector('.card').getBoundingClientRect().bottom"
                tall = int(await page.evaluate(bottom)) + 24
                await page.size((PHONE, tall), dark=dark, still=True)
                path = FOLDER / f"inbox-{name}-{look}.png"
                path.write_bytes(await page.picture())


def stepped(way: StepUp) -> Record:
    """Return a request that takes this step-up."""
    may = Approvers(names=("ann", "bob"), step_up=(way,))
    return states.PAYMENT.copy_with(approvers=may, numbered=way is StepUp.NUMBER)


@asynccontextmanager
async def _serving() -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Serve the page with one card at a time; yield its address, and what it shows."""
    shown: dict[str, Any] = {
        "facts": {
            "lifetimes": LIFETIME_WORDS,
            "passLifetimes": PASS_LIFETIME_WORDS,
            "roles": [],
            "denials": DENIALS,
            "anotherPlan": ANOTHER_PLAN,
            "admin": False,
        }
    }

    async def item(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(shown), content_type="application/json")

    async def start(_: web.Request) -> web.Response:
        return web.Response(text=_PAGE, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", start)
    app.router.add_get("/item", item)
    app.router.add_static("/static", STATIC)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/", shown
    finally:
        await runner.cleanup()


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
