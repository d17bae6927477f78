"""Commands that run the gateway."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from gateway.domain.redaction import masked
from gateway.server import adapter_process as alone
from gateway.server import app
from gateway.server.demo import run_demo
from gateway.server.first_run import first_login
from gateway.server.settings import Settings

_OPEN_FILES = 16_384
_NOT_READY = "Stopped before it was ready"


async def up(options: argparse.Namespace) -> int:
    """Run the gateway until SIGINT or SIGTERM."""
    settings = _begun()
    async with _stoppable() as told, app.running(settings) as gateway:
        print(f"The gateway is ready at {gateway.url}", file=sys.stderr)
        if not settings.production:
            for line in await first_login(gateway.backend, gateway.url, settings):
                print(line, file=sys.stderr)
        await told()
    return 0


async def adapter(options: argparse.Namespace) -> int:
    """Run one adapter until SIGINT or SIGTERM."""
    settings = _begun()
    async with _stoppable() as told, alone.adapter_running(settings, options.name) as url:
        served = f", and tells at {url}/readyz whether people can answer" if url else ""
        print(f"The adapter {options.name} runs{served}", file=sys.stderr)
        await told()
    return 0


@asynccontextmanager
async def _stoppable() -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yield what waits for SIGINT or SIGTERM; until somebody waits for it, they end the block.

    So a start that takes long is given up, and leaves nothing behind, as after an error. Told again
    while it cleans up, it goes on with the next step: one that hangs needs no SIGKILL.
    """
    task, stop = asyncio.current_task(), asyncio.Event()
    started = False

    def tell() -> None:
        if task is not None and (not started or stop.is_set()):
            task.cancel()
        stop.set()

    async def told() -> None:
        nonlocal started
        started = True
        await stop.wait()  # it is set already when something on the way lost the cancellation

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, tell)
    try:
        yield told
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        said = "Stopped; some of the cleaning up was cut short" if started else _NOT_READY
        print(said, file=sys.stderr)


async def demo(options: argparse.Namespace) -> int:
    """Try everything in a scratch folder."""
    return await run_demo()


def _begun() -> Settings:
    """Read the settings and set up what every process that serves needs."""
    settings = Settings()
    configure_log(settings)
    _allow_connections()
    return settings


def _allow_connections() -> None:
    """Allow as many open files as we may: each call that waits holds one, and systems begin with
    fewer than the calls that we let wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def configure_log(settings: Settings) -> None:
    """Send log records to standard error, as lines or as JSON objects."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.log_json else LineFormatter())
    logging.basicConfig(level=settings.log_level, handlers=[handler])


class LineFormatter(logging.Formatter):
    """One line per record, and a traceback below where there is one. Secrets are masked: nobody
    knows what stands in the words of somebody else's exception."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        return str(masked(super().format(record)))


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, logger, event and request id where given. Secrets
    are masked."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line = {
            "at": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in ("event", "request_id", "agent", "milliseconds"):
            if name in record.__dict__:
                line[name] = record.__dict__[name]
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(masked(line))
