"""Takes the picture of docs/guides/reduce-prompts.md from the real cards.

`python -m tests.approvals.pictures`.

The overflow card, also of a paused agent, in Slack and in Discord, at a phone's width. Look at it
afterwards.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from adapters.discord.cards import build_card_view
from adapters.slack.cards import build_message
from gateway.approvals.duplicates_and_overflow import Overflow
from gateway.cards.card import Card
from gateway.delivery.overflow_cards import build_overflow_card
from tests.discord import pictures as discord_pictures
from tests.picture_files import picture_file
from tests.slack import pictures as slack_pictures
from tests.slack import render
from tests.web.chromium import PHONE, chromium
from tests.web.sheets import sheet

INBOX = "https://approvals.example/inbox"
COPY = "0" * 22


async def main() -> None:
    """Take the picture."""
    records = tuple(discord_pictures.pending_with(command=f"make {one}") for one in range(7))
    overflow = Overflow(agent="ci", revision=7, records=records)
    paused = Overflow(agent="ci", revision=8, records=(), paused=discord_pictures.NOW + 1_800_000)
    taken: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "card.png"
        async with chromium() as page:
            for name, one in {"": overflow, ", paused": paused}.items():
                html = render.page(render.message(*build_message(card(one), COPY)))
                await slack_pictures.shot(page, html, path, PHONE[0])
                taken[f"Slack{name}"] = path.read_bytes()
            for name, one in {"": overflow, ", paused": paused}.items():
                size = discord_pictures.NARROW
                view = build_card_view(card(one), COPY)
                await discord_pictures.photographed(page, view, path, size, word="ci")
                taken[f"Discord{name}"] = path.read_bytes()
    await asyncio.to_thread(
        sheet, taken, picture_file("fatigue-digest-phone.png"), columns=4, dark=False
    )


def card(overflow: Overflow) -> Card:
    """Return a crowd's card, where the inbox has an address."""
    return build_overflow_card(overflow, INBOX, "")


if __name__ == "__main__":
    asyncio.run(main())
