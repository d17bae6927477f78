"""`gateway adapter slack` as a process of its own, as an orchestrator sees it."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gateway.server.settings import Settings
from tests.frame.compose_file import compose
from tests.ports import free_port
from tests.slack.counterpart.slack import Slack
from tests.slack.office import environment
from tests.waiting import moment

pytestmark = pytest.mark.thorough

UNREACHABLE = 5
# Looks more often than it does by itself, so that the test takes fewer seconds.
_PROCESS = """
import sys
from adapters.slack import SlackAdapter
from gateway.cli import main
SlackAdapter.ping_seconds = 0.5
SlackAdapter.token_seconds = 0.2
sys.exit(main(["adapter", "slack"]))
"""


class Container:
    """The process, and the compose file's own check of its health."""

    def __init__(self, port: int, env: dict[str, str]) -> None:
        self.port = port
        self.env = env
        (checked,) = compose()["services"]["slack"]["healthcheck"]["test"][1:]
        command, *words = shlex.split(checked)
        assert command == "python"
        self._check = [one.replace(f":{_default_port()}/", f":{port}/") for one in words]

    async def start(self) -> asyncio.subprocess.Process:
        """Start the process."""
        words = (sys.executable, "-c", _PROCESS)
        return await asyncio.create_subprocess_exec(*words, env=self.env, stderr=PIPE)

    async def healthy(self) -> bool:
        """Run the check."""
        check = await asyncio.create_subprocess_exec(
            sys.executable, *self._check, stderr=asyncio.subprocess.DEVNULL
        )
        return await check.wait() == 0

    async def becomes(self, *, healthy: bool) -> None:
        """Wait until the check says so."""
        async with asyncio.timeout(40):
            while await self.healthy() is not healthy:
                await moment()

    async def doctor(self) -> str:
        """Return what `gateway doctor` says in there."""
        words = (sys.executable, "-m", "gateway.cli", "doctor")
        check = await asyncio.create_subprocess_exec(*words, env=self.env, stdout=PIPE)
        said, _ = await check.communicate()
        return said.decode()

    async def problems(self) -> list[str]:
        """Return what it says is wrong."""
        url = f"http://127.0.0.1:{self.port}/readyz"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            found: list[str] = (await answer.json())["problems"]
            return found


def _default_port() -> int:
    port: int = Settings.model_fields["port"].default
    return port


@pytest.fixture
def container(slack: Slack, server_url: str, namespace: str, tmp_path: Path) -> Container:
    """Return a container that does not run yet."""
    port = free_port()
    with environment(
        slack,
        REDIS_URL=server_url,
        GATEWAY_NAMESPACE=namespace,
        GATEWAY_DATA_DIR=str(tmp_path),
        GATEWAY_PORT=str(port),
        GATEWAY_ADAPTERS='["slack"]',
    ):
        return Container(port, dict(os.environ))


@pytest.fixture
async def running(container: Container) -> AsyncIterator[Container]:
    """Yield it connected; it must end well when it is told to."""
    process = await container.start()
    assert process.stderr is not None
    try:
        said = b""
        while f"127.0.0.1:{container.port}/readyz" not in said.decode():
            said = await process.stderr.readline()
            assert said, "it ended"
        yield container
    finally:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0


async def test_36_its_health_follows_slack(slack: Slack, running: Container) -> None:
    """Healthy when connected; not while the socket is mute, or a token revoked, and it says so;
    then again."""
    assert await running.healthy()
    slack.sockets.mute = True
    await running.becomes(healthy=False)
    assert await running.problems() == ["Slack: Slack is not connected"]
    slack.sockets.mute = False
    await running.becomes(healthy=True)
    slack.workspace().error = "token_revoked"
    await running.becomes(healthy=False)
    assert await running.problems() == ["Slack: Slack rejects the bot token (token_revoked)"]
    slack.workspace().error = None
    await running.becomes(healthy=True)
    slack.sockets.refuses = "invalid_auth"
    await slack.sockets.disconnect("link_disabled")
    await running.becomes(healthy=False)
    assert await running.problems() == ["Slack: Slack rejects the app token (invalid_auth)"]
    slack.sockets.refuses = ""
    await running.becomes(healthy=True)


async def test_nobody_else_answers_for_it(slack: Slack, container: Container) -> None:
    """Where a gateway listens already it ends: asked how it is, that one would have answered."""
    with socket.create_server(("127.0.0.1", container.port)):
        process = await container.start()
        _, said = await process.communicate()
    assert process.returncode == UNREACHABLE
    assert "set GATEWAY_PORT to another port" in said.decode()
    assert slack.sockets.open == []


async def test_the_doctor_looks_from_there(running: Container) -> None:
    """With the environment that alone has the tokens: at Slack, and at how the adapter is."""
    said = await running.doctor()
    assert "OK   ready" in said
    assert "OK   slack tokens" in said
