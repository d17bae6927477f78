"""Gateways as processes of their own, to be killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.discord.furnished import Server


class Replica:
    """One `gateway up` that answers in Discord."""

    def __init__(self, server: Server, url: str, namespace: str, folder: Path) -> None:
        self.env = {
            **os.environ,
            "REDIS_URL": url,
            "GATEWAY_NAMESPACE": namespace,
            "GATEWAY_DATA_DIR": str(folder),
            "GATEWAY_PORT": "0",
            "GATEWAY_ADAPTERS": '["discord"]',
            "GATEWAY_DISCORD_TOKEN": server.app.token,
            "GATEWAY_DISCORD_API_BASE": server.discord.api_base,
            "GATEWAY_DISCORD_GATEWAY_URL": server.discord.gateway_url,
        }
        self.process: asyncio.subprocess.Process | None = None
        self.said = b""

    async def start(self) -> Replica:
        """Run it until it is ready."""
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway.cli", "up"),
            env=self.env,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self.process.stderr is not None
        while b"ready at" not in self.said:
            line = await self.process.stderr.readline()
            assert line, self.said.decode()
            self.said += line
        return self

    async def kill(self) -> None:
        """kill -9."""
        await self._signal(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask it to end, as a rolling deploy does."""
        await self._signal(signal.SIGTERM)

    async def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)
            _, rest = await self.process.communicate()
            self.said += rest
