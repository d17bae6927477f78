"""PicoClaw's hooks run here: one that was written from its document alone, in a real process."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from gateway.delivery.hook_events import HookEvents
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.models import Execution, Origin, Reason, Report, Status
from gateway.policy.hooks import Hook, HookHost, HookLink
from tests.hooks.stage import Stage
from tests.waiting import moment
from tests.world import assembled, click, over_http

SCRIPT = Path(__file__).with_name("picoclaw_hook.py")


async def test_a_hook_written_from_the_document_finds_no_fault(
    server_url: str, namespace: str, tmp_path: Path
) -> None:
    """Every message of ours has every member that the document names, with its type, and each of
    the document's example answers does what the document says."""
    notes = tmp_path / "notes"
    hook = Hook(
        command=(sys.executable, str(SCRIPT), str(notes)),
        intercept=("before_tool", "approve_tool", "after_tool"),
        observe=("*",),
        may_respond=True,
        timeout=30,
    )
    host = HookHost({"gate": hook})
    async with host.running(), assembled(server_url, namespace, (HookLink(host),)) as world:
        stage = Stage(world, host)
        told = asyncio.create_task(HookEvents(host, world.store, world.feed).run())
        origin = Origin(channel="cli", chat="chat-1")
        ends = {}
        for text in ("hello", "modify", "deny", "respond", "abort", "halt", "rm -rf /"):
            record = await stage.asked({"text": text}, origin=origin, turn="turn-1")
            decision = record.decision
            ends[text] = (record.status, decision.abort if decision else None)
            if decision:
                assert decision.reason is Reason.HOOK
            if text == "respond":
                assert decision is not None
                assert decision.result["for_llm"] == "Plugin tool executed successfully"
        done = await world.core.requests.decide(click(await stage.asked({"text": "run"})))
        report = Report(execution=Execution.SUCCEEDED, duration_ms=15, detail="echoed: hello")
        await world.approvals.report(done.id, report, over_http())
        wanted = {"hook.hello", "hook.before_tool", "hook.approve_tool", "hook.after_tool"}
        while not {one["method"] for one in heard(notes)} >= wanted | {"hook.event"}:
            await moment()
        await cancel_and_wait(told)
    assert [one for one in heard(notes) if one["faults"]] == []
    assert ends == {
        "hello": (Status.PENDING, None),
        "modify": (Status.DENIED, None),  # it names another tool: call that one instead
        "deny": (Status.DENIED, None),
        "respond": (Status.APPROVED, None),
        "abort": (Status.DENIED, "turn"),
        "halt": (Status.DENIED, "agent"),
        "rm -rf /": (Status.DENIED, None),
    }


async def test_hello_names_the_modes_of_all_that_is_intercepted(tmp_path: Path) -> None:
    """Both methods around a tool are one mode, and both around the model, as in PicoClaw."""
    notes = tmp_path / "notes"
    hook = Hook(
        command=(sys.executable, str(SCRIPT), str(notes)), intercept=("after_tool", "after_llm")
    )
    host = HookHost({"gate": hook})
    async with host.running():
        (process,) = host.list_interceptors("after_tool")
        await process.ready.wait()
    assert heard(notes)[0]["params"]["modes"] == ["llm", "tool"]


def heard(notes: Path) -> list[dict[str, Any]]:
    """Return what the hook noted, a line for each message."""
    return [json.loads(line) for line in notes.read_text().splitlines()]
