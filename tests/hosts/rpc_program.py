"""The program that shows an agent, started with our bridge in the agent's place."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any


class RpcProgram:
    """Calls the agent, and keeps what it is told. It answers no question: none may arrive."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._number = 0
        self.told: list[Any] = []

    def send(self, method: str, params: Any) -> int:
        """Call a method; return the number of the call."""
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        return self._number

    def notify(self, method: str, params: Any) -> None:
        """Say what has no answer."""
        self._write({"method": method, "params": params})

    def _write(self, said: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **said}).encode() + b"\n")

    async def until(self, **members: Any) -> Any:
        """Return the next message with these members."""
        assert self._process.stdout is not None
        while True:
            line = await self._process.stdout.readline()
            assert line, "the bridge ended"
            message = json.loads(line)
            self.told.append(message)
            assert "id" not in message or "method" not in message, f"it was asked: {message}"
            if members.items() <= message.items():
                return message

    async def call(self, method: str, params: Any) -> Any:
        """Call a method; return its result."""
        number = self.send(method, params)
        answer = await self.until(id=number)
        assert "result" in answer, answer
        return answer["result"]


@asynccontextmanager
async def rpc_program(
    bridge: str, *words: str, env: dict[str, str], cwd: Path
) -> AsyncIterator[RpcProgram]:
    """Run the bridge before an agent inside the block: its options, `--`, the agent's command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.integrations", "bridge", bridge, *words),
        env=env,
        cwd=cwd,
        stdin=PIPE,
        stdout=PIPE,
        limit=2**24,
        start_new_session=True,
    )
    try:
        yield RpcProgram(process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the bridge, the agent, and what that starts
        await process.communicate()
