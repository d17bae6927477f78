"""`gateway adapter slack` as a process of its own, as an orchestrator sees it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gateway.settings import Settings
from tests.frame.test_compose import compose
from tests.ports import free_port
from tests.slack.counterpart.slack import Slack
from tests.slack.office import environment

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

    def __init__(self, port: int) -> None:
        self.port = port
        command, *words = compose()["services"]["slack"]["healthcheck"]["test"][1:]
        assert command == "python"
        self._check = [one.replace(f":{_default_port()}/", f":{port}/") for one in words]

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
                pass

    async def problems(self) -> list[str]:
        """Return what it says is wrong."""
        url = f"http://127.0.0.1:{self.port}/readyz"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            found: list[str] = (await answer.json())["problems"]
            return found


def _default_port() -> int:
    port: int = Settings.model_fields["port"].default
    return port


async def started(
    slack: Slack, url: str, namespace: str, folder: Path, port: int
) -> asyncio.subprocess.Process:
    """Start the process."""
    with environment(
        slack,
        REDIS_URL=url,
        GATEWAY_NAMESPACE=namespace,
        GATEWAY_DATA_DIR=str(folder),
        GATEWAY_PORT=str(port),
    ):
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _PROCESS), env=os.environ, stderr=asyncio.subprocess.PIPE
        )


@pytest.fixture
async def container(
    slack: Slack, server_url: str, namespace: str, tmp_path: Path
) -> AsyncIterator[Container]:
    """Yield the process, connected; it must end well when it is told to."""
    made = Container(free_port())
    process = await started(slack, server_url, namespace, tmp_path, made.port)
    assert process.stderr is not None
    try:
        said = b""
        while f"127.0.0.1:{made.port}/readyz" not in said.decode():
            said = await process.stderr.readline()
            assert said, "it ended"
        yield made
    finally:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0


async def test_36_its_health_follows_slack(slack: Slack, container: Container) -> None:
    """Healthy when connected; not while the socket is mute, or a token revoked, and it says so;
    then again."""
    assert await container.healthy()
    slack.sockets.mute = True
    await container.becomes(healthy=False)
    assert await container.problems() == ["Slack: Slack is not connected"]
    slack.sockets.mute = False
    await container.becomes(healthy=True)
    slack.workspace().error = "token_revoked"
    await container.becomes(healthy=False)
    assert await container.problems() == ["Slack: Slack refuses the bot token: token_revoked"]
    slack.workspace().error = None
    await container.becomes(healthy=True)
    slack.sockets.refuses = "invalid_auth"
    await slack.sockets.disconnect("link_disabled")
    await container.becomes(healthy=False)
    assert await container.problems() == ["Slack: Slack refuses the app token: invalid_auth"]
    slack.sockets.refuses = ""
    await container.becomes(healthy=True)


async def test_nobody_else_answers_for_it(
    slack: Slack, server_url: str, namespace: str, tmp_path: Path
) -> None:
    """Where a gateway listens already it ends: asked how it is, that one would have answered."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = await started(slack, server_url, namespace, tmp_path, port)
        _, said = await process.communicate()
    assert process.returncode == UNREACHABLE
    assert "set GATEWAY_PORT to another port" in said.decode()
    assert slack.sockets.open == []
