"""`gateway up`, `gateway adapter` and `gateway demo`: commands that run the gateway."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from gateway.cli.log_lines import configure_log
from gateway.server import adapter_process, app
from gateway.server.background import run_in_background
from gateway.server.demo import run_demo
from gateway.server.first_run import first_login
from gateway.server.plugins import adapter_names
from gateway.server.policy_reload import POLICY_FILE, apply_again
from gateway.server.settings import Settings
from gateway.server.unknown_settings import name_unknown

log = logging.getLogger("gateway.app")

_OPEN_FILES = 16_384
_NOT_READY = "Stopped before it was ready"


async def up(options: argparse.Namespace) -> int:
    """Run the gateway until SIGINT or SIGTERM."""
    settings = _start()
    async with (
        _until_signal() as wait,
        _on_hangup(settings) as again,
        app.run_gateway(settings) as gateway,
        _reread_policy(gateway, settings, again),
    ):
        print(f"The gateway is ready at {gateway.url}", file=sys.stderr)
        if not settings.production:
            seen = sys.stderr.isatty()  # else it may be the log of a service
            for line in await first_login(gateway.backend, gateway.url, settings, link=seen):
                print(line, file=sys.stderr)
        await wait()
    return 0


async def adapter(options: argparse.Namespace) -> int:
    """Run one adapter until SIGINT or SIGTERM."""
    settings = _start()
    async with _until_signal() as wait, adapter_process.run_adapter(settings, options.name) as url:
        health = f"; its health is at {url}/readyz" if url else ""
        print(f"The adapter {options.name} runs{health}", file=sys.stderr)
        await wait()
    return 0


@asynccontextmanager
async def _until_signal() -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yield a function that waits for SIGINT or SIGTERM.

    A signal before the first wait cancels the block, so a long start is abandoned and cleaned up as
    after an error. A second signal during the clean-up cancels the step that is running.
    """
    task, stop = asyncio.current_task(), asyncio.Event()
    started = False

    def handle() -> None:
        if task is not None and (not started or stop.is_set()):
            task.cancel()
        stop.set()

    async def wait() -> None:
        nonlocal started
        started = True
        await stop.wait()  # already set when the start swallowed the cancellation

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, handle)
    try:
        yield wait
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        message = "Stopped; some of the cleaning up was cut short" if started else _NOT_READY
        print(message, file=sys.stderr)


@asynccontextmanager
async def _on_hangup(settings: Settings) -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGHUP sets, where there is a policy file to read again. Without one
    SIGHUP ends the gateway, as when its terminal is closed."""
    again = asyncio.Event()
    if settings.policy_file is None:
        yield again
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, again.set)
    try:
        yield again
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


@asynccontextmanager
async def _reread_policy(
    gateway: app.Gateway, settings: Settings, again: asyncio.Event
) -> AsyncIterator[None]:
    """Read the policy file each time that the event is set."""

    async def follow(path: Path) -> None:
        while True:
            await again.wait()
            again.clear()
            gateway.core.health.note(POLICY_FILE, await apply_again(gateway.backend, path))

    if settings.policy_file is None:
        yield
        return
    async with run_in_background("policy file", partial(follow, settings.policy_file)):
        yield


async def demo(options: argparse.Namespace) -> int:
    """Run the demo in a scratch folder."""
    return await run_demo()


def _start() -> Settings:
    """Return the settings, after setting up the log and the limit of open files."""
    settings = Settings()
    configure_log(settings)
    for sentence in name_unknown(os.environ, adapter_names()):
        log.warning("%s", sentence, extra={"event": "setting_unknown"})
    _raise_open_file_limit()
    return settings


def _raise_open_file_limit() -> None:
    """Raise the soft limit of open files: each waiting call holds one, and the usual default is
    lower than the number of calls that may wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
