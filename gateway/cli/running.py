"""`gateway status`, `gateway down`, and `gateway` alone: where things are, and what is next."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from gateway.cli.http_access import find_gateway, read_all, say_where
from gateway.cli.requests import say
from gateway.client.http_connection import HttpPool
from gateway.errors import InvalidRequest, Unauthorized, Unreachable
from gateway.integrations.coding_agents.install import find_agents
from gateway.wire.local_discovery import (
    FILE_NAME,
    find_process,
    is_same_address,
    read_private,
    state_folder,
)

_END_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_FIRST = """Nothing is here yet. Begin with:
  gateway demo           try it: a real agent asks, you answer in the browser
  gateway up             run the gateway with its own server and the inbox
  gateway slack setup    connect Slack, up to the first card
All commands: gateway --help"""


def show_overview(options: argparse.Namespace) -> int:
    """Print the status where something is there, else the first commands."""
    folder = Path(state_folder())
    kept = folder.is_dir() and any(folder.iterdir())
    if kept or os.environ.get("GATEWAY_URL") or os.environ.get("REDIS_URL"):
        return show_status(options)
    print(_FIRST)
    return 0


def show_status(options: argparse.Namespace) -> int:
    """Print whether a gateway runs, where, what it uses, what waits, and the next command."""
    found = _look()
    if options.json:
        print(json.dumps(found))
        return 0
    for name, value in found.items():
        if value is not None:  # nobody knows
            print(f"{name.replace('_', ' '):12} {_describe(value)}")
    return 0


def _look() -> dict[str, Any]:
    folder, waiting = state_folder(), None
    url, token = find_gateway()
    announced = read_private(Path(folder, FILE_NAME)) or {}
    here = url is None or is_same_address(url, announced.get("url", ""))
    process = find_process(folder) if here else None
    running = process is not None
    if url:
        try:
            with HttpPool(url, token or "none") as http:
                waiting = sum(1 for _ in read_all(http, "status=pending"))
            running = True
        except Unauthorized:
            running = True
        except Unreachable:
            pass
    known = announced if here and running else {}
    found = {
        "running": running,
        "process": process or None,
        "address": url,
        "adapters": known.get("adapters"),
        "waiting": waiting,
        "policy_file": known.get("policy_file"),
        "data_folder": folder,
    }
    return {**found, "next": _choose_next(found, here=here)}


def _choose_next(found: dict[str, Any], *, here: bool) -> str:
    if not found["running"]:
        return "gateway up" if here else "gateway doctor"
    if found["waiting"]:
        return "gateway pending"
    agents = list(find_agents())
    if agents and not any(one.asks for one in agents):
        return "gateway install"
    return "gateway slack setup" if found["adapters"] == ["web"] else "gateway doctor"


def _describe(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value) or "none"


async def down(options: argparse.Namespace) -> int:
    """End the gateway of the data folder, and wait until it has ended."""
    folder = state_folder()
    say_where(folder)
    process = find_process(folder)
    if process is None:
        say({"ended": None}, f"no gateway runs on {folder}", options)
        return 0
    if not process:
        raise InvalidRequest(f"the gateway of {folder} runs in another container: stop that")
    with suppress(ProcessLookupError):  # it ended meanwhile
        os.kill(process, signal.SIGTERM)
    clock = asyncio.get_running_loop().time
    ends = clock() + _END_SECONDS
    while find_process(folder) == process:
        if clock() > ends:
            raise Unreachable(
                f"the gateway (process {process}) still cleans up; `gateway down` again cuts that "
                "short"
            )
        await asyncio.sleep(_LOOK_SECONDS)
    say({"ended": process}, f"the gateway (process {process}) has ended", options)
    return 0
