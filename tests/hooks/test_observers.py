"""What hooks are told of what happens, and of what tools returned."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.delivery.hook_events import HookEvents
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.models import Execution, Reason, Report, new_id
from gateway.ports import Feed
from gateway.stores.event_feed import RedisFeed
from tests.hooks.stage import Stage, Staged, hook
from tests.waiting import moment
from tests.world import click, over_http


@asynccontextmanager
async def followed(stage: Stage, feed: Feed | None = None) -> AsyncIterator[asyncio.Task[None]]:
    """Have hooks told what happens, until left."""
    told = HookEvents(stage.host, stage.world.store, feed or stage.world.feed)
    task = asyncio.create_task(told.run())
    try:
        yield task
    finally:
        await cancel_and_wait(task)


def heard(notes: Path, method: str) -> list[dict[str, Any]]:
    """Return the parameters of what a puppet was told by this method."""
    found = [json.loads(line) for line in notes.read_text().splitlines()]
    return [one["params"] for one in found if one["method"] == method]


async def test_observers_and_after_tool_are_told(staged: Staged, tmp_path: Path) -> None:
    """What happened to a request, and what its tool returned, in PicoClaw's words."""
    notes = tmp_path / "notes"
    watcher = hook(notes=notes, intercept=("after_tool",), observe=("*",))
    stage = await staged(puppet=watcher)
    async with followed(stage), asyncio.timeout(40):
        while not notes.exists():
            await moment()
        record = await stage.asked({"x": 1})
        done = await stage.world.core.requests.decide(click(record))
        report = Report(execution=Execution.SUCCEEDED, duration_ms=15, detail="fine")
        await stage.world.approvals.report(done.id, report, over_http())
        while not heard(notes, "hook.after_tool"):
            await moment()
    (after,) = heard(notes, "hook.after_tool")
    assert (after["result"]["for_llm"], after["result"]["is_error"]) == ("fine", False)
    assert after["duration"] == 15_000_000
    kinds = [one["Kind"] for one in heard(notes, "hook.event")]
    assert kinds[-1] == "tool_exec_end"
    event = heard(notes, "hook.event")[-1]
    assert event["Payload"] == {"Tool": "thing", "Arguments": {"x": 1}}
    assert event["Meta"]["AgentID"] == "bot"


async def test_a_hook_that_is_slow_after_a_tool_holds_up_no_event(
    staged: Staged, tmp_path: Path
) -> None:
    """Events go on while it looks at a result; the next result waits its turn."""
    notes = tmp_path / "notes"
    watcher = hook(notes=notes, intercept=("after_tool",), observe=("*",), timeout=60)
    stage = await staged(puppet=watcher)
    async with followed(stage), asyncio.timeout(40):
        while not notes.exists():
            await moment()
        for number, orders in enumerate(({"silent": True}, {})):
            record = await stage.asked({"all": orders})
            done = await stage.world.core.requests.decide(click(record))
            report = Report(execution=Execution.SUCCEEDED)
            await stage.world.approvals.report(done.id, report, over_http())
            while not heard(notes, "hook.after_tool"):
                await moment()
            kinds: list[str] = []
            while kinds.count("tool_exec_end") <= number:
                await moment()
                kinds = [one["Kind"] for one in heard(notes, "hook.event")]
    [first] = heard(notes, "hook.after_tool")
    assert first["arguments"] == {"all": {"silent": True}}


async def test_whoever_tells_hooks_goes_on_after_events_were_missed(
    staged: Staged, tmp_path: Path
) -> None:
    """A burst that is more than is kept for it costs events, and is no end of them."""
    notes = tmp_path / "notes"
    stage = await staged(puppet=hook(notes=notes, intercept=("after_tool",), observe=("*",)))
    feed = RedisFeed(stage.world.blocking, stage.world.store.keys, buffer=1)
    async with feed.running(), followed(stage, feed) as follower, asyncio.timeout(40):
        while not notes.exists():
            await moment()
        reason = Reason.CANCELLED_BY_AGENT
        await stage.world.approvals.cancel(new_id(), over_http(), reason=reason)  # two events
        while not heard(notes, "hook.event"):
            assert not follower.done()
            await stage.world.submit()
            await moment()
