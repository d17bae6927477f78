"""The lines of a gateway that is ready, and a fresh sign-in link at each press of Enter."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

from gateway.server.connections import Backend
from gateway.server.settings import Settings
from gateway.server.start_up_checks import first_login

_LOOK_SECONDS = 1.0
NEW_LINK = "For a new link, press Enter."


async def describe_start(
    backend: Backend, url: str, settings: Settings, *, link: bool
) -> list[str]:
    """Return the lines that say where a gateway is, and what to connect to it. With `link` the
    first has a sign-in link, see `first_login`."""
    ready = f"The gateway is ready at {url}"
    if settings.production:
        return [ready]
    sign_in = " ".join(await first_login(backend, url, settings, link=link))
    return [
        f"{ready} · {sign_in}",
        "To connect a coding agent: gateway install",
        "To connect Slack: gateway slack setup",
    ]


async def print_links(make: Callable[[], Awaitable[list[str]]], say: Callable[[str], None]) -> None:
    """Print lines with fresh links at each press of Enter: one that nobody uses expires. Goes on
    until cancelled."""
    while await _read_line():
        for line in await make():
            say(line)
    await asyncio.Event().wait()  # the terminal is gone


async def _read_line() -> str:
    """Return the next line of the terminal, empty when no more comes from there."""
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    while True:
        typed.clear()
        loop.add_reader(sys.stdin, typed.set)
        try:
            await typed.wait()
        finally:
            loop.remove_reader(sys.stdin)
        if _is_in_front():
            try:
                return sys.stdin.readline()
            except OSError:  # it was closed
                return ""
        await asyncio.sleep(_LOOK_SECONDS)


def _is_in_front() -> bool:
    """Whether this process may read from its terminal. In the background that would stop it."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:  # a terminal that does not control this process
        return True
