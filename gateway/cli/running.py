"""`gateway status`, `gateway down`, and `gateway` without a command: show or end a gateway."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from gateway.cli.http_access import connect_as_approver, read_all, say_where
from gateway.cli.requests import say
from gateway.errors import InvalidRequest, Unauthorized, Unreachable
from gateway.integrations.coding_agents.install import find_agents
from gateway.wire.local_discovery import FILE_NAME, find_process, read_private, state_folder

_LOOKS = 600
_LOOK_SECONDS = 0.05


def show_overview(options: argparse.Namespace) -> int:
    """Print the status if a gateway was set up, otherwise the commands to begin with."""
    folder = Path(state_folder())
    if os.environ.get("GATEWAY_URL") or (folder.is_dir() and any(folder.iterdir())):
        return show_status(options)
    print("To begin, run gateway demo, gateway up, or gateway slack setup. More: gateway --help")
    return 0


def show_status(options: argparse.Namespace) -> int:
    """Print whether and where a gateway runs, its settings, its pending requests, and the next
    command."""
    found = _look()
    known = {
        name.replace("_", " "): _describe(one) for name, one in found.items() if one is not None
    }
    say(found, "\n".join(f"{name:12} {words}" for name, words in known.items()), options)
    return 0


def _look() -> dict[str, Any]:
    folder, named, waiting = state_folder(), os.environ.get("GATEWAY_URL"), None
    process = None if named else find_process(folder)
    running: bool | None = process is not None
    try:
        with connect_as_approver() as http:
            waiting = sum(1 for _ in read_all(http, "status=pending"))
        running = True
    except Unauthorized:
        running = running or None  # without a token nobody was asked
    except Unreachable:
        pass
    known = (read_private(Path(folder, FILE_NAME)) or {}) if running and not named else {}
    found = {
        "running": running,
        "process": process or None,
        "address": named or known.get("url"),
        "adapters": known.get("adapters"),
        "waiting": waiting,
        "policy_file": known.get("policy_file"),
    }
    return {**found, "next": _choose_next(found)}


def _choose_next(found: dict[str, Any]) -> str:
    if not found["running"]:
        return "gateway doctor" if found["address"] else "gateway up"
    if found["waiting"]:
        return "gateway pending"
    agents = [asks for *_, asks in find_agents()]
    if agents and not any(agents):
        return "gateway install"
    return "gateway slack setup" if found["adapters"] == ["web"] else "gateway doctor"


def _describe(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value) or "none"


async def down(options: argparse.Namespace) -> int:
    """Stop the gateway that uses the data folder, and wait until it has ended."""
    folder = state_folder()
    say_where(folder)
    process = find_process(folder)
    if process is None:
        say({"ended": None}, f"no gateway runs with the data folder {folder}", options)
        return 0
    if not process:
        raise InvalidRequest(
            f"the gateway with the data folder {folder} runs in another "
            f"container: stop that container"
        )
    with suppress(ProcessLookupError):  # it ended meanwhile
        os.kill(process, signal.SIGTERM)
    for _ in range(_LOOKS):
        if find_process(folder) != process:
            say({"ended": process}, f"the gateway (process {process}) has ended", options)
            return 0
        await asyncio.sleep(_LOOK_SECONDS)
    raise Unreachable(
        f"process {process} is still shutting down; run `gateway down` again to stop it at once"
    )
