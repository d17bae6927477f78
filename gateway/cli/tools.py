"""`gateway tool …`: what operators declare about tools, over HTTP with an approver's own token."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from gateway.cli.formatting import say
from gateway.cli.http_access import connect_as_approver
from gateway.domain.safe_text import make_visible
from gateway.errors import InvalidRequest


async def declare(options: argparse.Namespace) -> int:
    """Declare what the arguments of a tool are, or that it is harmless."""
    return await asyncio.to_thread(_declare, options)


async def show_all(options: argparse.Namespace) -> int:
    """Print what is declared, as a policy file has it."""
    return await asyncio.to_thread(_show_all, options)


def _declare(options: argparse.Namespace) -> int:
    body: dict[str, Any] = {"tool": options.name, "arguments": _read_roles(options.roles)}
    if options.harmless:
        body["harmless"] = True
    if options.agents is not None:
        body["agents"] = [one for one in options.agents.split(",") if one]
    body["confirmed"] = options.yes
    with connect_as_approver(acting=True) as http:
        rows = http.call("POST", "/v1/tools", body)["items"]
    row = next(row for row in rows if row["name"] == options.name)
    told = f"in force on every replica:\n{format_row(row)}\n"
    keep = "Add it to your policy file, or the next `gateway apply` takes it back."
    say(row, told + keep, options)
    return 0


def _show_all(options: argparse.Namespace) -> int:
    with connect_as_approver() as http:
        rows = http.call("GET", "/v1/tools")["items"]
    if options.json:
        print(json.dumps(rows))
        return 0
    if not rows:
        print("nothing is declared about any tool", file=sys.stderr)
    print("\n\n".join(map(format_row, rows)), end="\n" if rows else "")
    return 0


def format_row(row: dict[str, Any]) -> str:
    """Return a row as TOML for a policy file."""
    members = ("name", "harmless", "agents", "declared_by", "declared_at")
    lines = ["[[tools]]"]
    lines += [
        f"{name} = {_write(row[name])}" for name in members if row.get(name) not in (None, "", [])
    ]
    if row.get("arguments"):
        lines += ["", "[tools.arguments]"]
        lines += [f"{_write(name)} = {_write(role)}" for name, role in row["arguments"].items()]
    return "\n".join(lines)


def _write(value: Any) -> str:
    """Return a value as TOML, which is JSON here, with what a terminal would act on escaped."""
    return json.dumps(value).replace("\x7f", "\\u007f")


def _read_roles(words: list[str]) -> dict[str, str]:
    """Return ADDRESS=ROLE words as roles by address. Raises InvalidRequest."""
    roles: dict[str, str] = {}
    for word in words:
        address, equals, role = word.rpartition("=")
        if not (address and equals and role):
            raise InvalidRequest(f"{make_visible(word).text}: write ADDRESS=ROLE, as in text=data")
        if address in roles:
            raise InvalidRequest(f"{make_visible(address).text} stands there twice")
        roles[address] = role
    return roles
