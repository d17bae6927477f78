"""Real processes for the tests: each can be killed, and none outlives the test run.

They are forked from a process that has imported the product already, so that one starts in a few
hundredths of a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.faults.roles", "tests.faults.wall", "adapters.web"])

Role = Callable[..., Awaitable[None]]
"""What a process does: called with its door and the arguments given."""


class Door:
    """The child's side of the pipe to the test. When the test is gone, so is the child."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._opened = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._hear)

    def say(self, message: Any) -> None:
        """Tell the test something."""
        self._pipe.send(message)

    async def opened(self) -> None:
        """Wait until the test lets this process go."""
        await self._opened.wait()

    def _hear(self) -> None:
        try:
            self._pipe.recv()
        except (EOFError, OSError):
            os._exit(1)
        self._opened.set()


class Child:
    """The test's side: one process that plays a role."""

    def __init__(self, role: Role, env: Mapping[str, str], *arguments: Any) -> None:
        self._pipe, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(
            target=_play, args=(role, dict(env), theirs, arguments), daemon=True
        )
        self._process.start()
        theirs.close()
        self._end = asyncio.create_task(_readable(self._process.sentinel))

    async def heard(self) -> Any:
        """Return what the process says next, None when it has ended without a word."""
        await _readable(self._pipe.fileno())
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            return None

    async def ended(self) -> int:
        """Wait for its end; return the exit code, negative for a signal."""
        await asyncio.shield(self._end)
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return not self._end.done()

    def let_go(self) -> None:
        """Have it end in an orderly way."""
        self._pipe.send("go")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    async def close(self) -> None:
        """Make sure that it is gone."""
        if self.lives:
            self.signal(signal.SIGKILL)
        await self.ended()
        self._process.close()
        self._pipe.close()


@asynccontextmanager
async def child(role: Role, env: Mapping[str, str], *arguments: Any) -> AsyncIterator[Child]:
    """Run a process; leaving kills it if it still lives."""
    made = Child(role, env, *arguments)
    try:
        yield made
    finally:
        await made.close()


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _play(role: Role, env: dict[str, str], pipe: Connection, arguments: tuple[Any, ...]) -> None:
    os.environ.update(env)
    # A shell that starts the tests in the background has its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    async def play() -> None:
        await role(Door(pipe), *arguments)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play())
