"""Slack: from a tap to the waiter, and a burst that must stay under Slack's rate limits.

The real slack-bolt and slack-sdk talk to the wire-level Slack of the tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, monotonic_ns

from adapters.slack import SlackAdapter
from benchmarks.children import Child
from benchmarks.stage import APPROVER, ASK_TOOL, Stage, click, stage
from benchmarks.table import Row, p50, percentile
from benchmarks.wake import agent, elapsed, fill
from gateway import outbox
from gateway.records import Person
from gateway.rulebook import Route
from gateway.storage import Origin
from gateway.stores.outbox import RedisOutbox
from tests.slack.counterpart.person import Human
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Hands, Message
from tests.slack.office import environment, shown
from tests.world import request

_CHANNELS = 80
_CARDS = 2  # to each channel: one is tapped, one decided directly
_WARM_UP = 10
_US = 1000
_LOOK_SECONDS = 0.002
_BURST, _SPREAD, _AGENTS = 1000, 3, 50
_SPEED = 15.0  # the burst's clock: both Slack's limits and the adapter's turns run so much faster
_POSTS_A_SECOND, _EDITS_A_MINUTE = 1.0, 50.0


async def slack_click_to_wake() -> list[Row]:
    """Time a tap until the waiter in another process goes on, beside a decision made directly."""
    tapped: list[int] = []
    direct: list[int] = []
    slack = Slack()
    ann = slack.person("UANN")
    async with slack.running():
        with environment(slack):
            async with stage(adapters=("slack",)) as scene, agent(scene) as asking:
                for number in range(_CHANNELS):
                    channel = slack.channel(f"C{number}", "UANN").id
                    await _towards(scene, ASK_TOOL, channel)
                    await _batch(scene, slack, ann, channel, asking, tapped, direct)
    tapped, direct = tapped[_WARM_UP:], direct[_WARM_UP:]
    slow = percentile(tapped, 99)
    samples = {
        "count": len(tapped),
        "p50_us": p50(tapped) / _US,
        "p99_us": slow / _US,
        "direct_p50_us": p50(direct) / _US,
        "direct_p99_us": percentile(direct, 99) / _US,
    }
    return [
        Row(
            name="slack_click_to_wake_ratio",
            value=p50(tapped) / p50(direct),
            unit="of direct",
            target="<= 2",
            p99=slow / p50(direct),
            samples=samples,
        )
    ]


async def slack_burst() -> list[Row]:
    """Ask for 1,000 approvals at once, towards three channels, then decide all of them.

    Reports how long it took until every card was true, over the least that Slack's limits allow,
    and how often Slack had to say "too many".
    """
    hands = Hands(speed=_SPEED)
    slack = Slack(hands)
    channels = [slack.channel(f"C{number}", "UANN").id for number in range(_SPREAD)]
    async with slack.running():
        with environment(slack), _hurried():
            async with stage(adapters=("slack",)) as scene:
                for number, channel in enumerate(channels):
                    await _towards(scene, f"tool{number}", channel)
                began = hands.now()
                await _poured(scene, slack, channels)
                posted = hands.now()
                await _decided(scene, slack, channels)
                took = hands.now() - began
    least = _BURST / _SPREAD / _POSTS_A_SECOND + _BURST / _EDITS_A_MINUTE * 60
    samples = {
        "cards": sum(len(slack.messages(channel)) for channel in channels),
        "posting_s": posted - began,
        "all_true_s": took,
        "least_s": least,
    }
    refused = float(len(slack.rates.refused))
    return [
        Row(
            name="slack_burst_over_limits",
            value=took / least,
            unit="of least",
            target="<= 1.2",
            samples=samples,
        ),
        Row(name="slack_burst_429", value=refused, unit="refusals", target="<= 0"),
    ]


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
    for number, request_id in enumerate(ids):
        card = await _card(scene, slack, channel, request_id)
        if number % 2:
            began = monotonic_ns()
            await scene.gateway.approvals.decide(click(request_id))
            direct.append(await elapsed(asking, began))
            continue
        began = monotonic_ns()
        tap = asyncio.create_task(ann.click(card, "Approve"))
        tapped.append(await elapsed(asking, began))
        await tap


async def _card(scene: Stage, slack: Slack, channel: str, request_id: str) -> Message:
    """Return the posted card of a request, once the gateway knows where it stands."""

    def posted() -> Message | None:
        cards = slack.messages(channel)
        return next((card for card in cards if request_id[:8] in shown(card)), None)

    card: Message = await slack.until(posted, seconds=60)
    store = RedisOutbox(scene.gateway.backend.store)
    known = False
    while not known:
        copies = await store.copies(request_id)
        known = bool(copies) and all(copy.ref is not None for copy in copies.values())
        await asyncio.sleep(_LOOK_SECONDS)
    return card


async def _towards(scene: Stage, tool: str, channel: str) -> None:
    """Send what is asked for with this tool to a channel."""
    store = scene.gateway.backend.store
    policy = await store.policy()
    ann = Person(name=APPROVER, identities=(f"token:{APPROVER}", "slack:T1/UANN"))
    others = tuple(route for route in policy.routes if route.name.startswith("tool"))
    route = Route(name=tool, tools=(tool,), approvers=(APPROVER,), targets=(f"slack:T1/{channel}",))
    routes = (*(one for one in others if one.name != tool), route)
    await store.apply(replace(policy, people=(ann,), routes=routes), by="bench")
    scene.gateway.approvals.forget_policy()


async def _poured(scene: Stage, slack: Slack, channels: list[str]) -> None:
    """Submit the burst and wait until every card is posted."""
    for number in range(_BURST):
        name = f"agent-{number % _AGENTS}"
        asked = request(agent=name, tool=f"tool{number % _SPREAD}", timeout=0)
        await scene.gateway.approvals.submit(asked, Origin(agent=name))
    await slack.until(
        lambda: sum(len(slack.messages(channel)) for channel in channels) >= _BURST, seconds=300
    )


async def _decided(scene: Stage, slack: Slack, channels: list[str]) -> None:
    """Decide everything and wait until every card says so."""
    cards = [card for channel in channels for card in slack.messages(channel)]
    for card in cards:
        metadata = card.metadata or {}
        await scene.gateway.approvals.decide(click(metadata["event_payload"]["request"]))
    began = monotonic()
    while not all(card.text.startswith("Approved") for card in cards):
        assert monotonic() - began < 300, "the cards did not become true"
        await asyncio.sleep(_LOOK_SECONDS * 10)


@contextmanager
def _hurried() -> Iterator[None]:
    """Let the adapter's turns and the courier's pauses run as fast as the burst's clock."""
    before = (SlackAdapter.speed, outbox.IDLE_SECONDS)
    SlackAdapter.speed = _SPEED
    outbox.IDLE_SECONDS /= _SPEED
    try:
        yield
    finally:
        SlackAdapter.speed, outbox.IDLE_SECONDS = before
