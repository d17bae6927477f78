"""The pinned simulator that behaviour and pictures rely on: it runs, and draws a channel."""

from __future__ import annotations

from pathlib import Path

import discord
import pytest
import simcord

from tests.discord.test_wire import card
from tests.web.chromium import DESK, chromium


@pytest.mark.browser
async def test_a_channel_is_drawn_in_chromium(tmp_path: Path) -> None:
    """A card sent by real discord.py appears, with its button, in a rendered channel."""
    client = discord.Client(intents=discord.Intents(guilds=True))
    async with simcord.run(client) as env:
        guild = env.create_guild(name="Acme")
        channel = guild.create_text_channel("approvals")
        ann = guild.add_member(env.create_user("ann"))
        target = client.get_channel(channel.id)
        assert isinstance(target, discord.TextChannel)
        await target.send(view=card("yes", "no"))
        async with (
            env.preview(channel, viewers=[ann], layout="channel") as preview,
            chromium() as page,
        ):
            await page.size(DESK)
            await page.goto(preview.url)
            await page.until("document.body.innerText.includes('Shall I?')")
            assert ("button", "Yes") in await page.controls()
            await page.screenshot(tmp_path / "channel.png", whole=False)
