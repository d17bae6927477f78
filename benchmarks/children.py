"""Child processes that take commands and answer in lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gateway.wire.codec import JsonObject

_LONGEST_LINE = 1 << 24
_ANSWER_SECONDS = 90.0

Command = Callable[..., Awaitable[JsonObject | None]]


class Child:
    """The parent's side of one child process."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def call(self, command: str, **details: Any) -> JsonObject:
        """Send a command and return its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, details]).encode() + b"\n")
        await self.process.stdin.drain()
        return await self.read()

    async def read(self) -> JsonObject:
        """Return the next line from the child."""
        assert self.process.stdout is not None
        async with asyncio.timeout(_ANSWER_SECONDS):
            text = await self.process.stdout.readline()
        if not text:
            raise RuntimeError("a child of the benchmark ended early; its message is above")
        answer: JsonObject = json.loads(text)
        return answer


@asynccontextmanager
async def child(module: str, *words: str, **variables: str) -> AsyncIterator[Child]:
    """Run `python -m module words`; leaving ends it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *words,
        stdin=PIPE,
        stdout=PIPE,
        env={**os.environ, **variables},
        limit=_LONGEST_LINE,
    )
    try:
        yield Child(process)
    finally:
        await _end(process)


async def _end(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(10):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def say(value: JsonObject) -> None:
    """Write one line to the parent at once."""
    os.write(sys.stdout.fileno(), json.dumps(value).encode() + b"\n")


async def serve(commands: Mapping[str, Command]) -> None:
    """Run the parent's commands until it closes the pipe. One that returns None answers later."""
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while text := await reader.readline():
        name, details = json.loads(text)
        answer = await commands[name](**details)
        if answer is not None:
            say(answer)
