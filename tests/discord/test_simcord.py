"""A second Discord, made by others, for what people do: simcord. And it draws a channel.

It has no sockets and refuses what a person could not do; what our own wire-level Discord believes
about buttons, modals and time is so seen twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import discord
import pytest
import simcord

from adapters.discord.adapter import DiscordAdapter
from adapters.discord.clicks import InteractionHandler
from adapters.discord.connection import Bot, Lease, Losses, Sessions
from adapters.discord.posting import Posting
from gateway.delivery.request_cards import CardKeeper
from gateway.domain.policy_document import Route
from gateway.domain.records import Person, StoredRequest
from gateway.domain.time_and_tasks import SystemClock
from gateway.models import Status
from gateway.ports import AdapterApi
from gateway.server.background import adapter_api
from tests.discord.messages import buttons, shown_text
from tests.discord.test_wire import card
from tests.web.chromium import DESK, chromium
from tests.world import World

DAY = 86_400


def bot(api: AdapterApi) -> Bot:
    """Return a client that answers clicks with this API, as a gateway that has just started."""
    return Bot(InteractionHandler(api).handle, Losses(api), Lease(api.notes), Sessions(api.notes))


def as_json(message: Any) -> dict[str, Any]:
    """Return a message of the simulator as our own Discord keeps them."""
    parts = [
        part.to_dict() if isinstance(part, discord.Component) else part
        for part in message.components
    ]
    return {"content": message.content, "components": parts}


async def test_people_do_in_the_simulator_what_they_do_in_ours(world: World) -> None:
    """A card; a stranger refused; everything read; a modal opened before a restart and submitted
    after it; and a button that works after three days, when every token has long died."""
    api = adapter_api("discord", world.core, world.store)
    async with simcord.run(bot(api)) as env:
        guild = env.create_guild(name="Acme")
        channel = guild.create_text_channel("approvals")
        ann, bob, eve = (guild.add_member(env.create_user(one)) for one in ("ann", "bob", "eve"))
        people = tuple(
            Person(name=who.name, identities=(f"discord:{who.id}",)) for who in (ann, bob, eve)
        )
        target = f"discord:{guild.id}/{channel.id}"
        route = Route(approvers=("ann", "bob"), targets=(target,))
        await world.put(people=people, routes=(route,))
        adapter = DiscordAdapter()
        adapter._posting = Posting(lambda: env.bot, api.notes)
        courier = CardKeeper(adapter, api, world.core, SystemClock())

        async def asked(command: str) -> tuple[StoredRequest, Any]:
            record = await world.submit(arguments={"command": command}, timeout=4 * DAY)
            await courier.look(record.id)
            return record, channel.last_message

        async def status(record: StoredRequest) -> Status:
            return (await world.core.requests.get(record.id)).status

        record, card = await asked("make deploy")
        assert "make deploy" in shown_text(as_json(card))
        refused = await eve.click(card, label="Approve")
        assert refused.response is not None and refused.response.ephemeral
        assert "not an approver" in shown_text(as_json(refused.response))
        more = await ann.click(card, label="More…")
        assert more.response is not None and more.response.ephemeral
        view = await ann.click(more.response, label="Details")
        assert view.response is not None and view.response.ephemeral
        assert [one.filename for one in view.response.attachments] == ["request.txt"]

        opened = await bob.click(card, label="Deny")
        assert opened.modal is not None
        await env.restart_bot(bot(api))
        await bob.submit_modal(opened, {"reason": "not on a Friday"})
        assert await status(record) is Status.DENIED
        shown = as_json(channel.last_message)
        assert "not on a Friday" in shown_text(shown) and set(buttons(shown)) == {"Details"}

        record, card = await asked("make clean")
        await env.advance_time(3 * DAY)
        done = await ann.click(card, label="Approve")
        assert done.acknowledged
        assert await status(record) is Status.APPROVED
        assert "Approved" in shown_text(as_json(channel.last_message))


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
