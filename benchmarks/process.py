"""Runs the bench's other processes and reads what they say."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


class Child:
    """A running child and its lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> Any:
        """Return its next line."""
        assert self.process.stdout is not None
        async with asyncio.timeout(120):
            raw = await self.process.stdout.readline()
        if not raw:
            raise SystemExit("a process of the bench ended early")
        return json.loads(raw)


@asynccontextmanager
async def child(*words: object) -> AsyncIterator[Child]:
    """Run `benchmarks.children` with these words; end it on leaving."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.children",
        *map(str, words),
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
