"""`gateway up`, `adapter`, `demo` and `doctor`: run or check a gateway, and configure its log."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import re
import resource
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gateway.cli.kept_settings import environment_without_kept, has_kept_changed, take_kept
from gateway.cli.redis_access import connect_backend
from gateway.doctor import FAIL, Check, examine
from gateway.doctor.live_trial import Recording
from gateway.domain.log_context import add_ids
from gateway.domain.redaction import mask
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.errors import Conflict, InvalidRequest, Unreachable
from gateway.ports.adapters import LiveTrial
from gateway.server import app
from gateway.server.background import run_in_background
from gateway.server.connections import Backend, open_backend, url_of
from gateway.server.demo import run_demo
from gateway.server.lan import LocalNetwork, phone_lines, prepare_lan
from gateway.server.plugins import adapter_names
from gateway.server.settings import Settings, name_unknown
from gateway.server.start_up_checks import POLICY_FILE, apply_again, first_login, print_links
from gateway.stores.connect import AWAY
from gateway.stores.embedded_server import DataFolder, engine_url, running_engine
from gateway.wire.local_discovery import find_process, hold_lock, write_private

if TYPE_CHECKING:
    from logging import _SysExcInfoType


# `gateway doctor`: print the result of every check.


async def run_doctor(options: argparse.Namespace) -> int:
    """Run all checks and print their results. The exit code is 1 if a check failed."""
    person, file = options.with_me, options.record
    if (file is not None and person is None) or (person is not None and not options.live):
        raise InvalidRequest("--record needs --with-me, and --with-me needs --live")
    if person is None:
        checks = await examine(Settings(), connect_backend, live=options.live)
    else:
        checks = await _try_with(person, file)
    for check in checks:
        if options.json:
            print(json.dumps(asdict(check)))
        else:
            remedy = f"\n     {check.remedy}" if check.remedy else ""
            print(f"{check.result.upper():5}{check.name}: {check.says}{remedy}")
    return 1 if any(check.result == FAIL for check in checks) else 0


async def _try_with(person: str, file: Path | None) -> list[Check]:
    """Run the checks while a person tries the chats. Return the findings, and record the
    messages."""
    settings, recording = Settings(), Recording()
    try:
        if file is not None:
            write_private(file, "")
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be written: {error.strerror}") from error
    say = partial(print, file=sys.stderr, flush=True)
    try:
        trial = LiveTrial(user=person, say=say, record=recording.add)
        return await examine(settings, partial(_open_alone, settings), live=True, trial=trial)
    finally:
        if file is not None:
            recording.save(file)


@asynccontextmanager
async def _open_alone(settings: Settings) -> AsyncIterator[Backend]:
    """Connect to Redis as other commands do. If no gateway runs the embedded server, start it."""
    async with AsyncExitStack() as stack:
        if settings.own_redis is None and engine_url(settings.data_dir) is None:
            engine = await stack.enter_async_context(running_engine(settings.data_dir))
            yield await stack.enter_async_context(open_backend(settings, engine.url))
        else:
            yield await stack.enter_async_context(connect_backend())


# The log of a gateway: lines or JSON objects on standard error, and what repeats is counted.

_REPEAT_SECONDS = 60.0
_MOST_KNOWN = 1000
_MEMBERS = ("event", "request", "agent", "grant", "request_id", "caller", "milliseconds")

_Key = tuple[str, int, str, str]


def configure_log(settings: Settings) -> None:
    """Send log records to standard error, as lines or as JSON objects."""
    logging.basicConfig(level=settings.log_level, handlers=[log_handler(settings)])


def log_handler(settings: Settings, stream: TextIO | None = None) -> CountingHandler:
    """Return the handler for all log records; it writes to standard error, or to `stream`."""
    handler = CountingHandler(stream)
    handler.addFilter(add_ids)
    handler.setFormatter(JsonFormatter() if settings.log_json else LineFormatter())
    return handler


class CountingHandler(logging.StreamHandler[TextIO]):
    """Writes a repeated warning or error once per minute, and then a line with the number of
    repeats.

    Records count as equal if logger, text and type of exception are equal.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._first: OrderedDict[_Key, float] = OrderedDict()  # when it was written, oldest first
        self._more: dict[_Key, logging.LogRecord] = {}  # the last that was not
        self._counts: dict[_Key, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write or count a record, after the counts of earlier records whose minute is over."""
        now = record.created
        while self._first:
            key, written = next(iter(self._first.items()))
            if now - written < _REPEAT_SECONDS and len(self._first) <= _MOST_KNOWN:
                break
            self._tell(key)
        if record.levelno < logging.WARNING:
            super().emit(record)
            return
        error = record.exc_info[0] if record.exc_info else None
        key = (record.name, record.levelno, record.getMessage(), error.__name__ if error else "")
        if key in self._first:
            self._counts[key] = self._counts.get(key, 0) + 1
            self._more[key] = record
            return
        self._first[key] = now
        super().emit(record)

    def close(self) -> None:
        """Write the counts that were not written yet, and close."""
        for key in list(self._first):
            self._tell(key)
        super().close()

    def _tell(self, key: _Key) -> None:
        """If a record was repeated, write how often. Then delete its count."""
        written = self._first.pop(key)
        last, count = self._more.pop(key, None), self._counts.pop(key, 0)
        if last is None:
            return
        seconds = last.created - written
        # The repeats may be about other requests, so this line is about none.
        common = {name: one for name, one in last.__dict__.items() if name not in _MEMBERS[1:]}
        told = logging.makeLogRecord(common | {"exc_info": None, "exc_text": None})
        told.msg, told.args = f"{last.getMessage()} ({count} times more within {seconds:.0f} s)", ()
        super().emit(told)


class _ExceptionFormatter(logging.Formatter):
    """Formats a connection error as one line, because its traceback is long and always the same."""

    def formatException(self, ei: _SysExcInfoType) -> str:
        """Return the traceback, or for a connection error its type and text. For a group of only
        connection errors, return those of the first."""
        found = list(_list_errors(ei[1]))
        if found and all(isinstance(one, AWAY) for one in found):
            return f"{type(found[0]).__name__}: {found[0]}"
        return super().formatException(ei)


def _list_errors(error: BaseException | None) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _list_errors(one)
    elif error is not None:
        yield error


class LineFormatter(_ExceptionFormatter):
    """Formats a record as one line, with its traceback below. Masks secrets, because the text of a
    library's exception may contain one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        return str(mask(super().format(record)))


class JsonFormatter(_ExceptionFormatter):
    """Formats a record as one JSON object: time, level, logger, and the members of the event, if
    any. Secrets are masked."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        format_line = {
            "at": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in _MEMBERS:
            if name in record.__dict__:
                format_line[name] = record.__dict__[name]
        if record.exc_info:
            format_line["exception"] = self.formatException(record.exc_info)
        return json.dumps(mask(format_line))


log = logging.getLogger("gateway.cli")

_OPEN_FILES = 16_384
_LOOK_SECONDS = 0.5
_LOG_FILE = "up.log"
_REFUSED_SECONDS = 60.0
"""Nobody fills a terminal with refused links."""
_NOT_READY = "The gateway stopped before it was ready"
_READY = re.compile(rb"The gateway is ready at (\S+)\s")
_NEXT = ("To connect a coding agent: gateway install", "To connect Slack: gateway slack setup")
_STOP = "To stop it: Ctrl-C, or gateway down."


async def up(options: argparse.Namespace) -> int:
    """Run the gateway until SIGINT or SIGTERM. Restart it each time a chat is set up or removed."""
    settings = Settings()
    if options.detach and options.lan:
        raise InvalidRequest("--lan prints a code for your phone: run it in a terminal")
    if options.detach:
        url = await start_detached(settings)
        after = ("To stop it: gateway down", f"Its log: {settings.data_dir / _LOG_FILE}")
        async with open_backend(settings, url_of(settings)) as backend:
            await _print_start(backend, url, settings, *after)
        return 0
    if not settings.production and settings.own_redis is None:
        DataFolder.prepare(settings.data_dir)  # before anything is in it
    with nullcontext() if settings.production else hold_lock(settings.data_dir):
        async with _until_signal() as wait:
            while await _serve(wait, lan=options.lan):
                take_kept()
    return 0


async def start_detached(settings: Settings) -> str:
    """Start `gateway up` in the background and wait until it is ready; return its address.

    Raises InvalidRequest in production, Conflict if a gateway already uses the data folder, and
    Unreachable with the gateway's output if it ended.
    """
    if settings.production:
        raise InvalidRequest(
            "do not use --detach in production: let a service manager run `gateway up`"
        )
    if find_process(settings.data_dir) is not None:
        raise Conflict(
            f"a gateway already runs with the data folder {settings.data_dir}: see `gateway status`"
        )
    folder = DataFolder.prepare(settings.data_dir)
    output, log_file = folder.open_log(_LOG_FILE), folder.path / _LOG_FILE
    before = log_file.stat().st_size
    # It takes what chats keep from their file, and so follows changes.
    process = subprocess.Popen(  # noqa: ASYNC220 (nothing waits for it)
        [sys.executable, "-m", "gateway.cli", "up"],
        env=environment_without_kept(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    os.close(output)
    try:
        while True:
            ended, said = process.poll() is not None, log_file.read_bytes()[before:]
            if ready := _READY.search(said):
                return ready[1].decode()
            if ended:
                raise Unreachable(f"the gateway ended before it was ready:\n{said.decode()}")
            await asyncio.sleep(_LOOK_SECONDS)
    except BaseException:
        process.terminate()
        raise
    finally:
        process.returncode = 0  # it goes on alone


async def _phone_lines(
    gateway: app.Gateway, settings: Settings, network: LocalNetwork | None
) -> list[str]:
    """Return the lines for people with a phone. They contain a code only at a terminal, not in a
    log."""
    if network is None:
        return []
    seen = sys.stderr.isatty()
    return await phone_lines(gateway.backend, settings, network, gateway.lan_url, link=seen)


@asynccontextmanager
async def _renew_links(
    gateway: app.Gateway, settings: Settings, network: LocalNetwork | None
) -> AsyncIterator[None]:
    """Inside the block, print new links when the person at the terminal presses Enter, or after a
    used or expired link was rejected. Without a terminal, do nothing."""
    if settings.production or not _is_at_terminal():
        yield
        return

    async def make() -> list[str]:
        lines = await first_login(gateway.backend, gateway.url, settings)
        return lines + await _phone_lines(gateway, settings, network)

    say = partial(print, file=sys.stderr)

    async def follow() -> None:
        clock = asyncio.get_running_loop().time
        last = -_REFUSED_SECONDS
        async with gateway.core.feed.changes() as events:
            async for event in events:
                if event.type == "sign_in_refused" and clock() - last > _REFUSED_SECONDS:
                    last = clock()
                    say("A link or code was rejected. Here is a new one:")
                    for line in await make():
                        say(line)

    async with (
        run_in_background("sign-in links", partial(print_links, make, say)),
        run_in_background("refused sign-ins", follow),
    ):
        yield


def _is_at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


async def _serve(wait: Callable[[], Coroutine[Any, Any, None]], *, lan: bool) -> bool:
    """Run the gateway until a signal. Return True if the saved settings changed before that."""
    settings = _start()
    network = prepare_lan(settings) if lan else None
    async with (
        _on_hangup(settings) as again,
        app.run_gateway(settings, lan=network) as gateway,
        _reread_policy(gateway, settings, again),
        _renew_links(gateway, settings, network),
    ):
        stop = f"{_STOP} For a new link, press Enter." if _is_at_terminal() else _STOP
        await _print_start(gateway.backend, gateway.url, settings, stop)
        for line in await _phone_lines(gateway, settings, network):
            print(line, file=sys.stderr, flush=True)
        stopped = asyncio.create_task(wait())
        changed = asyncio.create_task(_kept_settings_change())
        done, _ = await asyncio.wait((stopped, changed), return_when=asyncio.FIRST_COMPLETED)
        await cancel_and_wait(stopped, changed)
        return stopped not in done


async def _print_start(backend: Backend, url: str, settings: Settings, *after: str) -> None:
    """Print the lines that announce a ready gateway; in production only its address."""
    lines = [f"The gateway is ready at {url}"]
    if not settings.production:
        seen = sys.stderr.isatty()  # else it may be the log of a service
        lines[0] += f" · {' '.join(await first_login(backend, url, settings, link=seen))}"
        lines += (*_NEXT, *after)
    print("\n".join(lines), file=sys.stderr)


async def _kept_settings_change() -> None:
    """Wait until the setup of a chat has changed the saved settings."""
    said = ""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            if has_kept_changed():
                return
        except InvalidRequest as error:  # what runs goes on with what it has
            if said != (said := str(error)):
                log.warning("%s", error, extra={"event": "kept_settings_unreadable"})


async def adapter(options: argparse.Namespace) -> int:
    """Run one adapter until SIGINT or SIGTERM."""
    settings = _start()
    async with _until_signal() as wait, app.run_adapter(settings, options.name) as url:
        health = f"; its health check is at {url}/readyz" if url else ""
        print(f"The adapter {options.name} runs{health}", file=sys.stderr)
        await wait()
    return 0


@asynccontextmanager
async def _until_signal() -> AsyncIterator[Callable[[], Coroutine[Any, Any, None]]]:
    """Yield a function that waits for SIGINT or SIGTERM.

    A signal before the first wait cancels the block: the start is abandoned, and cleaned up as
    after an error. A second signal during the clean-up cancels the running step.
    """
    task, started, stop = asyncio.current_task(), asyncio.Event(), asyncio.Event()

    def handle() -> None:
        if task is not None and (not started.is_set() or stop.is_set()):
            task.cancel()
        stop.set()

    async def wait() -> None:
        started.set()
        await stop.wait()  # already set when the start swallowed the cancellation

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, handle)
    try:
        yield wait
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        cut_short = "Stopped at once, without finishing the shutdown"
        print(cut_short if started.is_set() else _NOT_READY, file=sys.stderr)


@asynccontextmanager
async def _on_hangup(settings: Settings) -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGHUP sets, if the settings name a policy file to read again. Without a
    policy file, SIGHUP ends the gateway, as closing its terminal does."""
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
    """Read the policy file again each time the event is set."""

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
    """Run the demo in a temporary folder."""
    return await run_demo()


def _start() -> Settings:
    """Set up the log and the limit of open files; return the settings."""
    settings = Settings()
    configure_log(settings)
    for sentence in name_unknown(os.environ, adapter_names()):
        log.warning("%s", sentence, extra={"event": "setting_unknown"})
    _raise_open_file_limit()
    return settings


def _raise_open_file_limit() -> None:
    """Raise the soft limit of open files. Each waiting call needs one, and the usual default is
    lower than the number of calls that may wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
