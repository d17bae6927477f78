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
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gateway.cli import main
from tests.waiting import moment

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "tests.faults.roles",
        "tests.faults.wall",
        "adapters.web",
        "gateway.cli.audit",
        "gateway.cli.serve",
        "nacl.bindings",
    ]
)

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


class Command:
    """One command of the gateway as a process of its own; what it prints and says is kept."""

    def __init__(self, env: Mapping[str, str], folder: Path, *words: str) -> None:
        folder.mkdir()
        self._files = folder / "printed", folder / "said"
        for file in self._files:
            file.touch()
        self._process = CONTEXT.Process(
            target=_run_command, args=(dict(env), self._files, words), daemon=True
        )
        self._process.start()

    @property
    def printed(self) -> str:
        """What it has printed so far, on standard output."""
        return self._files[0].read_text(encoding="utf-8")

    @property
    def said(self) -> str:
        """What it has said so far, on standard error."""
        return self._files[1].read_text(encoding="utf-8")

    async def until_said(self, *words: str) -> None:
        """Wait until it has said one of these."""
        while not any(one in self.said for one in words):
            assert self.lives, self.said
            await moment()

    async def ended(self) -> int:
        """Wait for its end; return the exit code, negative for a signal."""
        await _readable(self._process.sentinel)
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_alive()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


def _run_command(env: dict[str, str], files: tuple[Path, Path], words: tuple[str, ...]) -> None:
    # The process that this one is forked from has the environment of whichever test came first.
    os.environ.clear()
    os.environ.update(env)
    _begin()
    for stream, file in zip((sys.stdout, sys.stderr), files, strict=True):
        with file.open("wb") as opened:
            os.dup2(opened.fileno(), stream.fileno())
    sys.exit(main(words))


def _begin() -> None:
    # A shell that starts the tests in the background has its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
    _begin()

    async def play() -> None:
        await role(Door(pipe), *arguments)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play())
