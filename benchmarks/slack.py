"""Slack: from a tap to the waiter in another process.

The real slack-bolt and slack-sdk talk to the wire-level Slack of the tests.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import monotonic_ns

from benchmarks.children import Child
from benchmarks.stage import APPROVER, ASK_TOOL, Stage, click, stage
from benchmarks.table import Row, p50, percentile
from benchmarks.wake import agent, elapsed, fill
from gateway.records import Person
from gateway.rulebook import Route
from gateway.stores.outbox import RedisOutbox
from tests.slack.counterpart.person import Human
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import environment, shown

_CHANNELS = 80
_CARDS = 2  # to each channel: one is tapped, one decided directly
_WARM_UP = 10
_US = 1000
_LOOK_SECONDS = 0.002


async def slack_click_to_wake() -> list[Row]:
    """Time the envelope of a tap until the waiter in another process goes on, beside a decision
    made directly."""
    tapped: list[int] = []
    direct: list[int] = []
    slack = Slack()
    ann = slack.person("UANN")
    async with slack.running():
        with environment(slack):
            async with stage(adapters=("slack",)) as scene, agent(scene) as asking:
                for number in range(_CHANNELS):
                    channel = slack.channel(f"C{number}", "UANN").id
                    await towards(scene, ASK_TOOL, channel)
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
        tap = asyncio.create_task(ann.click(card, "Approve"))
        woken = await elapsed(asking, 0)
        tapped.append(woken - slack.sockets.sent_ns)
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


async def towards(scene: Stage, tool: str, channel: str) -> None:
    """Send what is asked for with this tool to a channel."""
    store = scene.gateway.backend.store
    policy = await store.policy()
    ann = Person(name=APPROVER, identities=(f"token:{APPROVER}", "slack:T1/UANN"))
    others = tuple(route for route in policy.routes if route.name.startswith("tool"))
    route = Route(name=tool, tools=(tool,), approvers=(APPROVER,), targets=(f"slack:T1/{channel}",))
    routes = (*(one for one in others if one.name != tool), route)
    await store.apply(replace(policy, people=(ann,), routes=routes), by="bench")
    scene.gateway.approvals.forget_policy()
