"""Run `gateway demo`: a gateway and a real agent process in a scratch folder."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gateway.client.http_connection import HttpPool
from gateway.models import ENDINGS, Action, new_id
from gateway.server import app
from gateway.server.background import run_in_background
from gateway.server.settings import Settings
from gateway.server.start_up_checks import first_login, print_links

DEMO_AGENT = "demo-agent"
_DEMO_APPROVER = "demo-approver"
_DANGEROUS = "rm -rf"
_MARK = "keep.txt"


@dataclass(slots=True)
class Answers:
    """Decisions by command, and their times in seconds since the epoch."""

    status: dict[str, str] = field(default_factory=dict)
    at: dict[str, float] = field(default_factory=dict)


async def run_demo() -> int:
    """Run the demo; return 0 if exactly the approved commands ran."""
    logging.basicConfig(level="WARNING")
    # A demo must never reach a gateway or a Redis in use.
    for name in [name for name in os.environ if name.startswith(("GATEWAY_", "REDIS_"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="gateway-demo-") as name:
        data, work = Path(name) / "data", Path(name) / "work"
        work.mkdir()
        (work / _MARK).write_text("the agent must not delete this\n", encoding="utf-8")
        settings = Settings(data_dir=data, port=0)
        async with app.run_gateway(settings) as gateway:
            answers = Answers()
            async with _record_answers(gateway, answers), _answer_requests(gateway, settings):
                lines = await _run_agent(data, work)
        return _summary(lines, answers, work)


@asynccontextmanager
async def _answer_requests(gateway: app.Gateway, settings: Settings) -> AsyncIterator[None]:
    """Let a person decide in the browser; without a terminal, decide through the public API."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        print("An agent wants to run four commands in a scratch folder.")
        for line in await first_login(gateway.backend, gateway.url, settings):
            print(line)
        print("For a new link, press Enter.")
        make = partial(first_login, gateway.backend, gateway.url, settings)
        renew = partial(print_links, make, print)
        async with run_in_background("sign-in links", renew):
            yield
        return
    print(
        f"There is no terminal, so the demo decides its own requests over HTTP as {_DEMO_APPROVER}."
    )
    approver = await gateway.backend.credentials.add_approver(_DEMO_APPROVER)
    with HttpPool(gateway.url, approver.token) as http:
        async with run_in_background("answers", partial(_answer_all, gateway, http)):
            yield


async def _answer_all(gateway: app.Gateway, http: HttpPool) -> None:
    """Approve harmless commands and deny the others, as a person would."""
    async with gateway.core.feed.changes() as events:
        async for event in events:
            if event.type == "submitted":
                await asyncio.to_thread(_answer, http, event.request_id)


def _answer(http: HttpPool, request_id: str) -> None:
    record = http.call("GET", f"/v1/requests/{request_id}")
    if record["request"]["agent"] != DEMO_AGENT:
        return
    dangerous = _DANGEROUS in record["request"]["arguments"]["command"]
    body: dict[str, Any] = {"revision": record["revision"], "nonce": new_id()}
    if dangerous:
        body |= {"action": Action.DENY.value, "message": "that would delete everything"}
    else:
        body["action"] = Action.APPROVE.value
    http.call("POST", f"/v1/requests/{request_id}/decide", body)


@asynccontextmanager
async def _record_answers(gateway: app.Gateway, answers: Answers) -> AsyncIterator[None]:
    """Record decisions and their times from the event stream."""

    async def watch() -> None:
        async with gateway.core.feed.changes() as events:
            async for event in events:
                if event.request_id and event.type in ENDINGS:
                    record = await gateway.core.requests.get(event.request_id)
                    command = str(record.request.arguments["command"])
                    answers.status[command] = event.type
                    answers.at[command] = event.at / 1000

    async with run_in_background("decisions", watch):
        yield


async def _run_agent(data: Path, work: Path) -> list[dict[str, Any]]:
    """Run the agent process; return its lines."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gateway.server.demo_agent",
        str(work),
        env={**os.environ, "GATEWAY_DATA_DIR": str(data)},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if process.returncode:
        raise SystemExit(f"the agent process ended with {process.returncode}")
    return [json.loads(line) for line in output.splitlines()]


def _summary(lines: list[dict[str, Any]], answers: Answers, work: Path) -> int:
    """Print the outcomes, checked against the files on disk; return the exit code."""
    wrong = 0
    print(f"\n{'command':48} {'decision':10} {'ran':4} decided→agent")
    for line in lines:
        command = line["command"]
        status = answers.status.get(command, "unanswered")
        wrong += line["ran"] != (status == "approved") or status == "unanswered"
        woken, at = line.get("woken_at"), answers.at.get(command)
        delay = f"{max(0.0, (woken - at) * 1000):.0f} ms" if woken and at else ""
        print(f"{command:48} {status:10} {'yes' if line['ran'] else 'no':4} {delay}")
        if message := line.get("said"):
            print(f"    the agent was told: {message}")
    kept = (work / _MARK).exists()
    denied = any(answers.status.get(line["command"]) == "denied" for line in lines)
    if denied and not kept:
        wrong += 1
    print(f"\nOn disk: {', '.join(sorted(path.name for path in work.iterdir())) or 'nothing'}")
    print(
        "The commands that you approved ran, and no others."
        if not wrong
        else "SOMETHING RAN THAT SHOULD NOT HAVE."
    )
    return 1 if wrong else 0
