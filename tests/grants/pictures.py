"""Takes the pictures of docs/explanation/grants.md from the real cards.

`python -m tests.grants.pictures`.

One sheet: the inbox, Slack and Discord at a phone's width. Look at it afterwards.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from adapters.discord.grants import build_grant_view
from adapters.slack.posting import build_grant_message
from gateway.cards.grant_cards import GrantCard
from gateway.domain.records import Remember
from gateway.models import Action, Kind
from gateway.policy.grants.offers import offers
from tests.discord import pictures as discord_pictures
from tests.picture_files import picture_file
from tests.slack import pictures as slack_pictures
from tests.slack import render
from tests.web.chromium import PHONE, chromium, running, visiting
from tests.web.inbox import Inbox, inbox
from tests.web.sheets import cropped, sheet
from tests.world import click

COMMAND: dict[str, Any] = {"kind": Kind.COMMAND, "arguments": {"command": "git log --oneline -n 5"}}
COPY = "0" * 22
HEIGHT = 950


async def main() -> None:
    """Take every picture."""
    taken: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder, running() as address:
        async with inbox(Path(folder)) as box, visiting(address) as browser:
            live, ended = await made(box)
            page = await browser.tab(PHONE)
            await box.sign_in(page)
            await page.evaluate("document.querySelector('[data-view=grants]').click()")
            await page.until("document.querySelectorAll('.grant').length === 2")
            await page.press("Matches in history")
            await page.until("document.querySelector('.grant').textContent.includes('of the last')")
            await page.until("!document.querySelector('.settling')")
            await page.evaluate("scrollTo(0, 0)")
            taken["the inbox"] = cropped(await page.picture(HEIGHT), HEIGHT)
        async with chromium() as page:
            for name, card in (("Slack", live), ("Slack, taken back", ended)):
                path = Path(folder) / "slack.png"
                html = render.page(render.message(*build_grant_message(card, COPY)))
                await slack_pictures.shot(page, html, path, PHONE[0])
                taken[name] = path.read_bytes()
            path = Path(folder) / "discord.png"
            view = build_grant_view(live, COPY)
            size = discord_pictures.NARROW
            await discord_pictures.photographed(page, view, path, size, word="remembered")
            taken["Discord"] = path.read_bytes()
    await asyncio.to_thread(
        sheet, taken, picture_file("grants-cards-phone.png"), columns=4, dark=False
    )


async def made(box: Inbox) -> tuple[GrantCard, GrantCard]:
    """Remember a pattern and an exact command; take the second back."""
    api = box.gateway.core.grants
    cards = []
    for number, details in enumerate((COMMAND, {"arguments": {"command": "make deploy"}})):
        record = await box.ask(**details)
        wish = Remember(offer=offers(record)[-1 if not number else 0].id, lifetime="1d")
        await box.gateway.core.requests.decide(click(record, Action.APPROVE, remember=wish))
        grant = (await api.all())[0]
        if number:
            await box.gateway.core.grant_service.revoke(grant.id, click(record).identity)
        shown = await api.view(grant.id)
        assert shown is not None
        cards.append(shown.card)
    return cards[0], cards[1]


if __name__ == "__main__":
    asyncio.run(main())
