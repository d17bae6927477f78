"""Slack: from a tap to the waiter in another process.

The real slack-bolt and slack-sdk talk to the wire-level Slack of the tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns
from unittest.mock import patch

from slack_sdk.socket_mode.aiohttp import SocketModeClient

from benchmarks.children import Child
from benchmarks.stage import APPROVER, ASK_TOOL, Stage, click, stage
from benchmarks.table import Row
from benchmarks.taps import compare, route_to, wait_until_recorded
from benchmarks.wake import agent, fill, time_to_wake
from gateway.domain.policy_document import Route
from tests.slack.counterpart.person import Human
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import environment, shown

_CHANNELS = 95  # Slack says who somebody is a hundred times a minute
_CARDS = 2  # to each channel: one is tapped, one decided directly


async def slack_click_to_wake() -> list[Row]:
    """Time from the envelope of a tap having come until the waiter in another process goes on,
    beside a decision made directly."""
    tapped: list[int] = []
    direct: list[int] = []
    slack = Slack()
    ann = slack.person("UANN")
    async with slack.running():
        with environment(slack):
            async with stage(adapters=("slack",)) as scene, agent(scene) as asking:
                for number in range(_CHANNELS):
                    channel = slack.channel(f"C{number}", "UANN").id
                    await route_to_channel(scene, ASK_TOOL, channel)
                    await _batch(scene, slack, ann, channel, asking, tapped, direct)
    return compare("slack_click_to_wake_ratio", tapped, direct)


async def _batch(
    scene: Stage,
    slack: Slack,
    ann: Human,
    channel: str,
    asking: Child,
    tapped: list[int],
    direct: list[int],
) -> None:
    """Post some cards; tap half of them, decide the others directly."""
    ids = await fill(scene, asking, _CARDS)
    heard: list[int] = []
    for number, request_id in enumerate(ids):
        card = await _card(scene, slack, channel, request_id)
        if number % 2:
            direct_click = click(request_id)
            began = monotonic_ns()
            await scene.gateway.core.requests.decide(direct_click)
            direct.append(await time_to_wake(asking, began))
            continue
        with _record_arrivals(heard):
            tap = asyncio.create_task(ann.click(card, "Approve"))
            woken = await time_to_wake(asking, 0)
            await tap
        tapped.append(woken - heard[0])


@contextmanager
def _record_arrivals(heard: list[int]) -> Iterator[None]:
    """Record in ns when the SDK has received an envelope, before it is processed."""
    taken_in = SocketModeClient.enqueue_message

    async def enqueue(client: SocketModeClient, message: str) -> None:
        heard.append(monotonic_ns())
        await taken_in(client, message)

    with patch.object(SocketModeClient, "enqueue_message", enqueue):
        yield


async def _card(scene: Stage, slack: Slack, channel: str, request_id: str) -> Message:
    """Return the posted card of a request, once the gateway knows where it stands."""

    def find_card() -> Message | None:
        cards = slack.messages(channel)
        return next((card for card in cards if request_id[:8] in shown(card)), None)

    card: Message = await slack.until(find_card, seconds=60)
    await wait_until_recorded(scene, request_id)
    return card


async def route_to_channel(scene: Stage, tool: str, channel: str) -> None:
    """Send what is asked for with this tool to a channel."""
    route = Route(name=tool, tools=(tool,), approvers=(APPROVER,), targets=(f"slack:T1/{channel}",))
    await route_to(scene, "slack:T1/UANN", route, lambda one: one.name.startswith("tool"))
