"""A user interface in Node, which knows the document alone, confirms and denies tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.models import Status
from tests.faults.proxy import Proxy
from tests.saiki.site import site, token_of

ROOT = Path(__file__).parents[2]
NODE = ROOT / "build/hosts/saiki/node_modules/.bin/node"
CALL: dict[str, Any] = {
    "tool": "git_status",
    "arguments": {"path": "/srv/shop"},
    "session": "session-123",
}

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(not NODE.exists(), reason="`make test-hosts` installs Node"),
]


class NodeUi:
    """The process: its lines in and out."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def say(self, *command: Any) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    async def hear(self, *what: str) -> Any:
        """Return the next line that it says, which is about this."""
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            line = json.loads(await self._process.stdout.readline())
        assert all(one in line for one in what), line
        return line

    async def hear_two(self) -> list[Any]:
        """Return the next two things, whatever they are."""
        return [await self.hear() for _ in range(2)]


@asynccontextmanager
async def node(url: str, token: str) -> AsyncIterator[NodeUi]:
    """Run the user interface, signed in."""
    bus = (ROOT / "examples/saiki/event-bus.mjs").as_uri()
    script = str(ROOT / "tests/hosts/saiki_ui.mjs")
    process = await asyncio.create_subprocess_exec(
        *(str(NODE), script, bus, url, token),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield NodeUi(process)
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_user_interface_made_for_the_document_works(tmp_path: Path) -> None:
    """Events by bus, frames and POST; remembered for the session; denied; expired; and strangers
    decide nothing by either way."""
    async with site(tmp_path) as box:
        token = await token_of(box, "ann")
        async with node(box.gateway.url, token) as page:
            first = await box.ask(**CALL)
            line = await page.hear("asked")
            event = line["asked"]
            assert line["dated"] is True
            assert (event["toolName"], event["args"]) == (CALL["tool"], CALL["arguments"])
            name = {"executionId": event["executionId"]}

            yes = {**name, "approved": True}
            page.say("intrude", {"type": "toolConfirmationResponse", "data": yes}, {})
            assert await page.hear("intruded") == {"intruded": False}
            page.say("post", event["executionId"], {"approved": True}, {})
            assert (await page.hear("posted"))["posted"] == 401
            foreign = {"Authorization": f"Bearer {token}", "Origin": "https://example.invalid"}
            page.say("post", event["executionId"], {"approved": True}, foreign)
            assert (await page.hear("posted"))["posted"] == 403
            assert (await box.get(first)).status is Status.PENDING

            page.say("answer", {**yes, "rememberChoice": True, "sessionId": event["sessionId"]})
            ended = (await page.hear("ended"))["ended"]
            assert ended == {**yes, "sessionId": "session-123"}
            await box.remembered()
            assert (await box.ask(**CALL)).status is Status.APPROVED

            second = await box.ask(**{**CALL, "arguments": {"path": "/etc"}})
            execution = (await page.hear("asked"))["asked"]["executionId"]
            page.say("post", execution, {"approved": False}, {"Authorization": f"Bearer {token}"})
            answers = await page.hear_two()
            posted = next(one for one in answers if "posted" in one)
            assert posted == {"posted": 200, "answer": {"success": True}}
            assert {"ended": {"executionId": execution, "approved": False,
                              "sessionId": "session-123"}} in answers  # fmt: skip
            assert (await box.get(second)).status is Status.DENIED

            await box.ask(**{**CALL, "tool": "deploy"}, timeout=0.5)
            execution = (await page.hear("asked"))["asked"]["executionId"]
            assert (await page.hear("ended"))["ended"]["approved"] is False
            page.say("answer", {"executionId": execution, "approved": True})
            refusal = (await page.hear("refused"))["refused"]
            assert refusal["error"] == "Confirmation not found or expired"


async def test_a_user_interface_connects_again(tmp_path: Path) -> None:
    """It says that the gateway is away, goes on trying, and hands out again what it could not
    answer meanwhile."""
    async with site(tmp_path) as box:
        token = await token_of(box, "ann")
        up = asyncio.Event()
        up.set()

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            if not up.is_set():
                raise ConnectionRefusedError
            port = int(box.gateway.url.rpartition(":")[2])
            return await asyncio.open_connection("127.0.0.1", port)

        async with Proxy(connect).running() as between:
            url = f"http://127.0.0.1:{between.port}"
            async with node(url, token) as page:
                record = await box.ask(**CALL)
                event = (await page.hear("asked"))["asked"]
                up.clear()
                between.cut()
                assert "away" in (await page.hear("refused"))["refused"]["error"]
                page.say("answer", {"executionId": event["executionId"], "approved": True})
                said = (await page.hear("refused"))["refused"]
                assert said["error"] == "not sent: the gateway is away"
                up.set()
                assert (await page.hear("asked"))["asked"] == event
                page.say("answer", {"executionId": event["executionId"], "approved": True})
                assert (await page.hear("ended"))["ended"]["approved"] is True
                assert (await box.get(record)).status is Status.APPROVED
