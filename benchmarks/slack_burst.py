"""A burst of requests to Slack, in simulated time: how well posting uses Slack's limits."""

from __future__ import annotations

import asyncio

from benchmarks.simulated import Loop, run
from benchmarks.slack import route_to_channel
from benchmarks.stage import Stage, argument, click, stage
from benchmarks.table import Row
from gateway.domain.store import MessageContext
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Hands
from tests.slack.office import environment
from tests.world import request

_BURST, _SPREAD, _AGENTS = 1000, 3, 50
_POSTS_A_SECOND, _EDITS_A_MINUTE = 1.0, 50.0
_LOOK_SECONDS = 1.0


async def slack_burst() -> list[Row]:
    """Ask for 1,000 approvals at once, towards three channels, then decide all of them.

    Reports how long it took until every card was true, over the least that Slack's limits allow,
    and how often Slack had to say "too many".
    """
    return await asyncio.to_thread(run, _burst)


async def _burst(loop: Loop) -> list[Row]:
    slack = Slack(_Hands())
    channels = [slack.channel(f"C{number}", "UANN").id for number in range(_SPREAD)]
    async with slack.running():
        with environment(slack):
            async with stage(adapters=("slack",)) as scene:
                for number, channel in enumerate(channels):
                    await route_to_channel(scene, f"tool{number}", channel)
                with loop.simulate_time(scene.redis_url):
                    began = loop.time()
                    await _submit_all(scene, slack, channels)
                    posted = loop.time()
                    await _decide_all(scene, slack, channels)
                    took = loop.time() - began
    least = _BURST / _SPREAD / _POSTS_A_SECOND + _BURST / _EDITS_A_MINUTE * 60
    samples = {
        "cards": sum(len(slack.messages(channel)) for channel in channels),
        "posting_s": posted - began,
        "all_true_s": took,
        "least_s": least,
    }
    return [
        Row(
            name="slack_burst_over_limits",
            value=took / least,
            unit="of least",
            target="<= 1.2",
            samples=samples,
        ),
        Row(
            name="slack_burst_429",
            value=float(len(slack.rates.refused)),
            unit="refusals",
            target="<= 0",
        ),
    ]


class _Hands(Hands):
    """Slack's clock is that of the loop."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()


async def _submit_all(scene: Stage, slack: Slack, channels: list[str]) -> None:
    """Submit the burst and wait until every card is posted."""
    for number in range(_BURST):
        name = f"agent-{number % _AGENTS}"
        arguments = {"command": argument()}
        asked = request(agent=name, tool=f"tool{number % _SPREAD}", arguments=arguments, timeout=0)
        await scene.gateway.core.approvals.submit(asked, MessageContext(agent=name))
    await slack.until(
        lambda: sum(len(slack.messages(channel)) for channel in channels) >= _BURST, seconds=3600
    )


async def _decide_all(scene: Stage, slack: Slack, channels: list[str]) -> None:
    """Decide everything and wait until every card says so."""
    cards = [card for channel in channels for card in slack.messages(channel)]
    for card in cards:
        metadata = card.metadata or {}
        await scene.gateway.core.requests.decide(click(metadata["event_payload"]["request"]))
    async with asyncio.timeout(7200):
        while not all(card.text.startswith("Approved") for card in cards):  # noqa: ASYNC110 (fake Slack tells nobody)
            await asyncio.sleep(_LOOK_SECONDS)
