"""`toolConfirmation` of a Saiki `agent.yml`, written as the gateway's policy and setting."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.errors import InvalidRequest

SECTION = "toolConfirmation"
MODES = {"event-based": "ask", "auto-approve": "auto-approve", "auto-deny": "auto-deny"}
STORAGES = ("storage", "memory")
_LONGEST = 30 * 24 * 3600 * 1000
_MEMBER = re.compile(r"""([A-Za-z]+): *(?:"([^"]*)"|'([^']*)'|([^\s#"'{}\[\]&*!|>%@`]+))""")
_CAUTION = (
    "auto-approve asks nobody: everything that no rule denies runs, even rm -rf /. Write deny "
    'rules for what must never run, and guardrails = "deny"; by default guardrails only report'
)
_COMMENT = re.compile(r"(?:^|\s)#.*$")


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The section, with the document's defaults. `timeout` is in milliseconds."""

    mode: str = "event-based"
    timeout: int = 30_000
    storage: str = "storage"


def read_section(text: str) -> Confirmation:
    """Return the section of an `agent.yml`. Raises InvalidRequest for anything it does not know:
    a member that was read wrongly could approve."""
    members: dict[str, str] = {}
    inside = False
    indents: set[int] = set()
    found = 0
    for line in text.splitlines():
        said = _COMMENT.sub("", line).rstrip()
        if not said:
            continue
        if not said[0].isspace():
            key, _, rest = said.partition(":")
            inside = key.strip("\"'") == SECTION
            found += inside
            if inside and rest:
                raise InvalidRequest(f"write {SECTION} as a block, one member on each line")
        elif inside:
            indents.add(len(said) - len(said.lstrip(" ")))
            match = _MEMBER.fullmatch(said.strip())
            if match is None or match[1] in members or len(indents) > 1:
                raise InvalidRequest(f"this line of {SECTION} is not understood: {said.strip()!r}")
            members[match[1]] = next(part for part in match.groups()[1:] if part is not None)
    if found > 1:
        raise InvalidRequest(f"{SECTION} is there twice")
    return _check(members)


def _check(members: dict[str, str]) -> Confirmation:
    known = {"mode", "timeout", "allowedToolsStorage"}
    if unknown := sorted(set(members) - known):
        raise InvalidRequest(f"{SECTION} has no member {unknown[0]}")
    default = Confirmation()
    mode = members.get("mode", default.mode)
    if mode not in MODES:
        raise InvalidRequest(f"mode {mode!r} is none of {', '.join(MODES)}")
    storage = members.get("allowedToolsStorage", default.storage)
    if storage not in STORAGES:
        raise InvalidRequest(f"allowedToolsStorage {storage!r} is none of {', '.join(STORAGES)}")
    timeout = members.get("timeout", str(default.timeout))
    if not (timeout.isascii() and timeout.isdigit() and 0 < int(timeout) <= _LONGEST):
        raise InvalidRequest(f"timeout {timeout!r} is not a number of milliseconds up to 30 days")
    return Confirmation(mode, int(timeout), storage)


def write_policy(section: Confirmation, agent: str, approvers: Sequence[str]) -> str:
    """Return the route of the policy file that means the same, and the setting beside it."""
    caution = (f"# Caution: {_CAUTION}",) if section.mode == "auto-approve" else ()
    return "\n".join(
        (
            *caution,
            f"# Start the gateway with GATEWAY_GRANTS={section.storage}",
            "[[routes]]",
            f"name = {json.dumps(f'saiki {agent}')}",
            f"agents = [{json.dumps(agent)}]",
            f"approvers = {json.dumps(list(approvers))}",
            f'mode = "{MODES[section.mode]}"',
            f"timeout = {section.timeout / 1000}",
            f"max_timeout = {section.timeout / 1000}",
            'targets = ["saiki"]',
        )
    )


def add_command(verbs: Any) -> None:
    """Add the parser of `gateway convert saiki`."""
    words = "write the toolConfirmation of an agent.yml as a route of the policy file"
    convert = verbs.add_parser("convert", help=words, description=words)
    convert.add_argument("file", type=Path, help="the agent.yml")
    convert.add_argument("--agent", required=True, help="the agent's name at the gateway")
    convert.add_argument(
        "--approver", action="append", default=[], help="who may decide; without any nobody may"
    )
    convert.set_defaults(run=_convert)


async def _convert(options: argparse.Namespace) -> int:
    try:
        text = options.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read {options.file}: {error}") from None
    section = read_section(text)
    print(write_policy(section, options.agent, options.approver))  # noqa: T201 (a command)
    if section.mode == "auto-approve":  # seen where the policy goes into a file, too
        print(f"gateway convert: caution: {_CAUTION}", file=sys.stderr)  # noqa: T201 (a command)
    return 0
