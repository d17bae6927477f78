"""Runs one hook process, and restarts it with growing pauses when it ends.

One JSON-RPC 2.0 message a line. Answers are matched by their id, in whatever order they come.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from gateway.domain.redaction import start_of
from gateway.domain.tasks import cancel_and_wait
from gateway.errors import GatewayError, InvalidRequest
from gateway.policy.hooks.config import Hook
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.hooks")

PROTOCOL_VERSION = 1
MAX_LINE = 1_048_576
HELLO_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_GOOD_SECONDS = 30.0  # one that lived so long begins with the first pause again
_STOP_SECONDS = 2.0
_MODES = {
    "before_tool": "tool",
    "after_tool": "tool",
    "approve_tool": "approve",
    "before_llm": "llm",
    "after_llm": "llm",
}
_LOGGED_CHARS = 2_000
# A hook is no part of us: it gets none of our secrets.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER")


class HookFailed(GatewayError):
    """A hook gave no answer that can be used. Nothing is allowed on its account."""

    code = "hook_failed"


class HookProcess:
    """A hook, kept running while its `running` context is entered."""

    def __init__(self, name: str, hook: Hook) -> None:
        self.name = name
        self.hook = hook
        self._process: asyncio.subprocess.Process | None = None
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._ready = asyncio.Event()
        self._leave = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the process running; leaving ends it and all its children."""
        task = asyncio.create_task(self._supervise(), name=f"hook {self.name}")
        try:
            yield
        finally:
            self._leave.set()
            await asyncio.wait({task})

    async def ask(self, method: str, params: JsonObject) -> Any:
        """Return the result of a method; raises HookFailed after the hook's timeout at latest."""
        try:
            async with asyncio.timeout(self.hook.timeout):
                await self._ready.wait()
                return await self._call(method, params)
        except TimeoutError:
            raise HookFailed(f"the hook {self.name} did not answer in time") from None

    def tell(self, method: str, params: JsonObject) -> None:
        """Send a notification, if it runs; nobody waits for it, so a slow reader loses some."""
        process = self._process
        if process is None or process.stdin is None or not self._ready.is_set():
            return
        if process.stdin.transport.get_write_buffer_size() < MAX_LINE:
            _write(process.stdin, {"method": method, "params": params})

    async def wait_ready(self) -> None:
        """Wait until it has said hello."""
        await self._ready.wait()

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return self._process.pid if self._process else None

    # ---------------------------------------------------------------- keeping it running

    async def _supervise(self) -> None:
        pause = _FIRST_PAUSE
        loop = asyncio.get_running_loop()
        while not self._leave.is_set():
            began = loop.time()
            try:
                await self._run_once()
            except (OSError, HookFailed) as error:
                log.warning("hook %s: %s", self.name, error, extra={"event": "hook_failed"})
            if loop.time() - began > _GOOD_SECONDS:
                pause = _FIRST_PAUSE
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._leave.wait()
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _run_once(self) -> None:
        """Run one life of the process, until it ends or is to leave."""
        process = await asyncio.create_subprocess_exec(
            *self.hook.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.hook.dir,
            env=_environment(self.hook),
            limit=MAX_LINE,
            start_new_session=True,
        )
        self._process = process
        reader = asyncio.create_task(self._read(process))
        logger = asyncio.create_task(_log_stderr(self.name, process))
        life = asyncio.create_task(self._life(reader))
        leave = asyncio.create_task(self._leave.wait())
        try:
            await asyncio.wait({life, leave}, return_when=asyncio.FIRST_COMPLETED)
            if not life.done():
                await _asked_to_end(process)
        finally:
            self._ready.clear()
            self._process = None
            _kill(process)
            if process.stdin is not None:
                process.stdin.close()
            await asyncio.wait({reader, logger}, timeout=_STOP_SECONDS)
            await cancel_and_wait(life, leave, reader, logger)
            await process.wait()
        if not life.cancelled():
            life.result()

    async def _life(self, reader: asyncio.Task[None]) -> None:
        await self._greet()
        await reader

    async def _greet(self) -> None:
        wanted = {_MODES[method] for method in self.hook.intercept}
        if self.hook.observe:
            wanted.add("observe")
        hello = {"name": self.name, "version": PROTOCOL_VERSION, "modes": sorted(wanted)}
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                answer = await self._call("hook.hello", hello)
        except TimeoutError:
            raise HookFailed("it did not say hello") from None
        if not isinstance(answer, dict) or answer.get("ok") is not True:
            raise HookFailed("it did not say hello as it should")
        self._ready.set()

    # ---------------------------------------------------------------- asking

    async def _call(self, method: str, params: JsonObject) -> Any:
        process = self._process
        if process is None or process.stdin is None:
            raise HookFailed(f"the hook {self.name} does not run")
        number = next(self._ids)
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            _write(process.stdin, {"id": number, "method": method, "params": params})
            with suppress(ConnectionError):  # then it has ended, which the reader sees
                await process.stdin.drain()
            return await waiting
        finally:
            self._waiting.pop(number, None)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self._take(line)
        except ValueError:
            raise HookFailed(f"it wrote a line longer than {MAX_LINE} bytes") from None
        finally:
            self._ready.clear()
            self._fail("it ended")

    def _take(self, line: bytes) -> None:
        """Hand one answer to whoever waits for it; what is no answer is logged and left alone."""
        try:
            message = parse(line, max_bytes=MAX_LINE)
        except InvalidRequest as error:
            log.warning("hook %s: %s", self.name, error, extra={"event": "hook_said_nonsense"})
            return
        number = message.get("id") if isinstance(message, dict) else None
        waiting = self._waiting.get(number) if type(number) is int else None
        if waiting is None or waiting.done():
            log.info("hook %s answers nobody", self.name, extra={"event": "hook_answer_unwanted"})
            return
        if message.get("jsonrpc") != "2.0" or ("result" in message) == ("error" in message):
            waiting.set_exception(HookFailed(f"the hook {self.name} does not speak JSON-RPC 2.0"))
        elif "error" in message:
            waiting.set_exception(
                HookFailed(f"the hook {self.name} failed: {_read_error(message)}")
            )
        else:
            waiting.set_result(message["result"])

    def _fail(self, why: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(HookFailed(f"the hook {self.name} gave no answer: {why}"))


def _write(stdin: asyncio.StreamWriter, message: JsonObject) -> None:
    text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
    stdin.write(text.encode() + b"\n")


def _environment(hook: Hook) -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | hook.env


def _read_error(message: JsonObject) -> str:
    error = message["error"]
    return start_of(str(error.get("message", error) if isinstance(error, dict) else error), 200)


async def _log_stderr(name: str, process: asyncio.subprocess.Process) -> None:
    """Log what the process writes to its standard error, so that its pipe never fills."""
    assert process.stderr is not None
    while block := await process.stderr.read(_LOGGED_CHARS):
        text = block.decode(errors="replace").rstrip()
        log.info("hook %s: %s", name, text, extra={"event": "hook_says"})


async def _asked_to_end(process: asyncio.subprocess.Process) -> None:
    """Give a process a moment to end by itself."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    """End a process and its children. Nothing is awaited: whoever leaves may be in a hurry."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
