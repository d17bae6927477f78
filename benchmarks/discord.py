"""From a tap in Discord to the waiter: real discord.py on a gateway websocket of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns
from typing import Any

from benchmarks.children import Child
from benchmarks.stage import APPROVER, ASK_TOOL, Stage, click, stage
from benchmarks.table import Row
from benchmarks.taps import compare, route_to, wait_until_recorded
from benchmarks.wake import agent, fill, time_to_wake
from gateway.domain.policy_document import Route
from tests.discord.furnished import Server, furnished
from tests.discord.messages import buttons, shown_text
from tests.discord.server import running_discord
from tests.discord.town import Channel, Json

_CHANNELS = 40
_CARDS = 4  # to each channel, half of them tapped: what is posted at once without a pause


async def discord_click_to_wake() -> list[Row]:
    """Time a tap until the waiter in another process goes on, beside a decision made directly."""
    tapped: list[int] = []
    direct: list[int] = []
    async with running_discord() as fake:
        server = furnished(fake)
        fake.rest.limits.overall.limit = 10_000
        with _environment(server):
            async with stage(adapters=("discord",)) as scene, agent(scene) as asking:
                await fake.gateway.until(lambda: fake.gateway.connected == 1)
                for number in range(_CHANNELS):
                    channel = fake.town.channel(server.guild, f"approvals-{number}")
                    await _route_to(scene, server, channel)
                    await _batch(scene, server, channel, asking, tapped, direct)
    return compare("discord_click_to_wake_ratio", tapped, direct)


async def _batch(
    scene: Stage,
    server: Server,
    channel: Channel,
    asking: Child,
    tapped: list[int],
    direct: list[int],
) -> None:
    """Post some cards; tap half of them, decide the others directly."""
    ids = await fill(scene, asking, _CARDS)
    cards = [await _card(server, channel, request_id) for request_id in ids]
    for request_id in ids:
        await wait_until_recorded(scene, request_id)
    for number, (request_id, card) in enumerate(zip(ids, cards, strict=True)):
        if number % 2:
            began = monotonic_ns()
            await scene.gateway.core.requests.decide(click(request_id))
            direct.append(await time_to_wake(asking, began))
            continue
        data = {
            "custom_id": buttons(card)["Approve"]["custom_id"],
            "component_type": 2,
            "id": 1,
        }
        made, payload = server.discord.api.start(
            server.app, server.ann.user, channel, 3, data, card
        )
        began = monotonic_ns()
        await server.discord.deliver(server.app, payload)
        tapped.append(await time_to_wake(asking, began))
        await server.ann.outcome(made)


async def _card(server: Server, channel: Channel, request_id: str) -> Json:
    """Return the posted card of a request."""
    while True:
        for message in channel.messages.values():
            if request_id[:8] in shown_text(message):
                return message
        await server.discord.rest.posted.wait()
        server.discord.rest.posted.clear()


async def _route_to(scene: Stage, server: Server, channel: Channel) -> None:
    """Send what the agent asks to this channel."""
    route = Route(
        name="discord",
        tools=(ASK_TOOL,),
        approvers=(APPROVER,),
        targets=(f"discord:{server.guild.id}/{channel.id}",),
    )
    await route_to(scene, f"discord:{server.ann.id}", route, lambda _: False)


@contextmanager
def _environment(server: Server) -> Iterator[None]:
    values: dict[str, Any] = {
        "GATEWAY_DISCORD_TOKEN": server.app.token,
        "GATEWAY_DISCORD_API_BASE": server.discord.api_base,
        "GATEWAY_DISCORD_GATEWAY_URL": server.discord.gateway_url,
    }
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
