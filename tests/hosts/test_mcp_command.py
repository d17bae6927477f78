"""`gateway mcp` as a process, started by the SDK's client as any other client would."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from gateway.domain.records import Query, StoredRequest
from gateway.integrations.mcp import command as mcp_command
from gateway.integrations.mcp.command import options
from gateway.models import Reason, Status
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.conftest import environment
from tests.hosts.mcp_downstream import Downstream
from tests.hosts.test_mcp import ERAS, text_of
from tests.hosts.test_mcp_http import served

pytestmark = pytest.mark.thorough

BEHIND = (sys.executable, "-m", "tests.hosts.mcp_downstream")
PROXY = ("mcp", "proxy", "--name", "files", "--", *BEHIND)
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INITIALIZE = {
    "jsonrpc": "2.0", "id": 2, "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}  # fmt: skip


def around(gate: Replica, home: Path) -> dict[str, str]:
    """Return the environment of a proxy."""
    return environment(gate, home, PYTHONPATH=str(ROOT), MINE="kept")


async def asked(gate: Replica) -> StoredRequest:
    """Return what waits, once something does."""
    async with asyncio.timeout(60):
        items = await gate.waiting()
    return items[0]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_starts_the_proxy_in_the_servers_place(
    gate: Replica, tmp_path: Path, mode: str
) -> None:
    """Its tools run once they are approved, where the client started it, and get the environment
    without what the agent asks with."""
    own = StdioServerParameters(
        command=sys.executable,
        args=["-m", "gateway.integrations", *PROXY],
        env=around(gate, tmp_path),
    )
    async with Client(own, mode=mode) as client:
        place = tmp_path / "a.txt"
        for tool, arguments in (("write", {"path": str(place), "text": "x"}), ("environment", {})):
            calling = asyncio.create_task(client.call_tool(tool, arguments))
            record = await asked(gate)
            assert (await gate.decided(record.id, "approve")).status == 200
            said = text_of(await calling)
        assert (place.read_text(), said) == ("x", "MINE")
        assert record.request.context.cwd == str(Path.cwd())


class Proxy:
    """A proxy as a process, spoken to in lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def say(self, *messages: Any) -> None:
        """Write messages, or raw bytes, each as a line."""
        assert self.process.stdin is not None
        for one in messages:
            line = one if isinstance(one, bytes) else json.dumps(one).encode()
            self.process.stdin.write(line + b"\n")
        await self.process.stdin.drain()

    async def hear(self) -> Any:
        """Return the next message."""
        assert self.process.stdout is not None
        return json.loads(await self.process.stdout.readline())

    async def begin(self) -> None:
        """Shake hands."""
        await self.say(INITIALIZE)
        assert (await self.hear())["result"]["serverInfo"]["name"] == "downstream"
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, path: Path) -> None:
        """Call a tool, without waiting."""
        params = {"name": "write", "arguments": {"path": str(path)}}
        await self.say({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params})


@asynccontextmanager
async def proxy(gate: Replica, home: Path, *words: str) -> AsyncIterator[Proxy]:
    """Run a proxy that is spoken to by hand."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.cli", *(words or PROXY)),
        env=around(gate, home),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Proxy(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_lines_that_are_no_messages(gate: Replica, tmp_path: Path) -> None:
    """A batch, which could hide a call, rubbish, and a call whose arguments are no object: an
    error for each; a call as a notification: nothing. None of it reaches the server or a person,
    and the next message is read."""
    hidden = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "write"}}
    async with proxy(gate, tmp_path) as one:
        await one.begin()
        await one.say([hidden], b"{nonsense")
        for _ in range(2):
            refused = await one.hear()
            assert (refused["id"], refused["error"]["code"]) == (None, -32700)
        await one.say({**hidden, "params": {"name": "write", "arguments": [1]}})
        assert (await one.hear())["error"]["code"] == -32602
        silent = {"name": "write", "arguments": {"path": str(tmp_path / "a.txt")}}
        await one.say({"jsonrpc": "2.0", "method": "tools/call", "params": silent})
        await one.say(PING)
        assert await one.hear() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert not (await gate.core.requests.page(Query())).items


async def test_what_a_server_prints_beside_its_messages(gate: Replica, tmp_path: Path) -> None:
    """It never reaches the client; one line each says so."""
    noisy = f"echo starting up; echo '[1]'; exec {shlex.join(BEHIND)}"
    words = ("mcp", "proxy", "--name", "files", "--", "sh", "-c", noisy)
    async with proxy(gate, tmp_path, *words) as one:
        await one.begin()
        await one.say(PING)
        assert await one.hear() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        one.process.kill()
        assert one.process.stderr is not None
        said = (await one.process.stderr.read()).decode()
    assert "skipped a line that is not an MCP message: 'starting up'" in said
    assert "Traceback" not in said


async def test_a_stopped_proxy_withdraws_what_waits(gate: Replica, tmp_path: Path) -> None:
    """The card closes; a late answer runs nothing."""
    place = tmp_path / "a.txt"
    async with proxy(gate, tmp_path) as one:
        await one.begin()
        await one.call(place)
        record = await asked(gate)
        one.process.send_signal(signal.SIGTERM)
        await one.process.wait()
        ended = await gate.core.requests.get(record.id)
        assert ended.status is Status.CANCELLED
        assert ended.decision is not None and ended.decision.reason is Reason.ABANDONED
        assert (await gate.decided(record.id, "approve")).status == 409
    assert not place.exists()


async def test_a_killed_proxy_runs_nothing(gate: Replica, tmp_path: Path) -> None:
    """The server behind it ends with it, so an approval that comes then has nothing to run."""
    place = tmp_path / "a.txt"
    async with proxy(gate, tmp_path) as one:
        await one.begin()
        await one.call(place)
        record = await asked(gate)
        one.process.kill()
        await one.process.wait()
        await gate.decided(record.id, "approve")
    assert not place.exists()


async def test_a_server_that_ends_or_never_begins(gate: Replica, tmp_path: Path) -> None:
    """The proxy ends with it, and says so: its client would wait for ever."""
    for command, said in (
        ([sys.executable, "-c", "pass"], "the server gone has ended"),
        (["/nowhere/at/all"], "/nowhere/at/all"),
    ):
        async with proxy(gate, tmp_path, "mcp", "proxy", "--name", "gone", "--", *command) as one:
            assert await one.process.wait() == 1
            assert one.process.stderr is not None
            assert said in (await one.process.stderr.read()).decode()


async def test_the_server_that_asks_is_a_command(gate: Replica, tmp_path: Path) -> None:
    """With its four tools."""
    own = StdioServerParameters(
        command=sys.executable,
        args=["-m", "gateway.cli", "mcp", "server"],
        env=around(gate, tmp_path),
    )
    async with Client(own) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"request_approval", "check_approval", "ask_human", "permission_prompt"}
        arguments = {"action": "deploy", "wait_seconds": 60}
        asking = asyncio.create_task(client.call_tool("request_approval", arguments))
        assert (await gate.decided((await asked(gate)).id, "approve")).status == 200
        found = (await asking).structured_content
        assert found is not None and found["status"] == "approved"


async def test_the_proxy_listens(gate: Replica, tmp_path: Path) -> None:
    """It says at which address; a signal ends it, and withdraws what waits."""
    words = [*PROXY[:4], "--listen", "127.0.0.1:0", *PROXY[4:]]
    async with proxy(gate, tmp_path, *words) as one:
        assert one.process.stderr is not None
        said = (await one.process.stderr.readline()).decode()
        async with Client(said.split()[-1]) as client:
            calling = asyncio.create_task(client.call_tool("write", {"path": "a"}))
            assert (await gate.decided((await asked(gate)).id, "approve")).status == 200
            assert text_of(await calling) == "wrote a"
            calling = asyncio.create_task(client.call_tool("write", {"path": "b"}))
            record = await asked(gate)
            one.process.send_signal(signal.SIGTERM)
            assert await one.process.wait() == 0
            ended = await gate.core.requests.get(record.id)
            assert ended.status is Status.CANCELLED
            with pytest.raises(MCPError):
                await calling


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["proxy"], "name the server"),
        (["proxy", "--url", "http://x", "--", "y"], "name the server"),
        (["proxy", "--name", "a__b", "--", "x"], "single `_`"),
        (["proxy", "--name", "a b", "--", "x"], "--name may contain"),
        (["proxy", "--timeout", "0", "--", "x"], "seconds above 0"),
        (["server", "--timeout", "-1"], "seconds above 0"),
        (["other"], "invalid choice"),
    ],
)
def test_a_wrong_command_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends with 2 and says what is wrong."""
    with pytest.raises(SystemExit, match="2"):
        options(words)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--", "/usr/bin/my_server.py", "--root", "/"], "my-server"),
        (["--url", "https://mcp.example.com/mcp"], "mcp.example.com"),
        (["--name", "git_hub", "--", "x"], "git_hub"),
    ],
)
def test_the_operator_names_the_server(words: list[str], name: str) -> None:
    """By an option, else by what was typed; never the server itself."""
    assert options(["proxy", *words]).name == name


def test_a_token_that_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said before anything is opened."""
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    words = ["proxy", "--url", "http://127.0.0.1:9", "--token-env", "NO_SUCH_TOKEN"]
    assert mcp_command.main(words) == 2
    assert "NO_SUCH_TOKEN" in capsys.readouterr().err


async def test_a_server_at_an_address_gets_its_token(gate: Replica, tmp_path: Path) -> None:
    """The bearer token of the variable that was named, and of nothing else."""
    heard: list[str] = []
    application = Downstream().server.streamable_http_app()

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http":
            heard.append(headers.get(b"authorization", b"").decode())
        await application(scope, receive, send)

    async with served(listening) as url:
        own = StdioServerParameters(
            command=sys.executable,
            args=["-m", "gateway.cli", "mcp", "proxy", "--url", url, "--token-env", "MINE"],
            env=around(gate, tmp_path),
        )
        async with Client(own) as client:
            calling = asyncio.create_task(client.call_tool("write", {"path": "a"}))
            record = await asked(gate)
            assert (await gate.decided(record.id, "approve")).status == 200
            assert text_of(await calling) == "wrote a"
    assert set(heard) == {"Bearer kept"}
    assert record.request.tool == "mcp__127.0.0.1__write"
    assert record.request.context.cwd is None
