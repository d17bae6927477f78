"""`gateway audit …`: print, export, verify and erase."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from gateway.cli.audit_forms import write_form
from gateway.cli.formatting import say
from gateway.cli.redis_access import connect_backend, operator_core
from gateway.domain.audit import Verification, verify
from gateway.domain.records import AuditEvent
from gateway.domain.safe_text import make_visible
from gateway.ports import list_facts
from gateway.stores.seals import export
from gateway.wire.codec import plain

_STEP = 1000
_MISSING = '{"missing"'


async def tail(options: argparse.Namespace) -> int:
    """Print the latest events, the newest last."""
    async with connect_backend() as found:
        events = await found.store.latest(options.lines)
    for event in events:
        print(json.dumps(plain(event)) if options.json else _format_event(event))
    return 0


def _format_event(event: AuditEvent) -> str:
    """Return an event as one line for a terminal; text of agents is escaped."""
    moment = datetime.fromtimestamp(event.at / 1000, UTC).isoformat(timespec="seconds")
    said = make_visible("; ".join(list_facts(event))).text
    agent = make_visible(event.agent).text
    return f"{moment}  {event.type:16} {agent:16} {event.request_id[:8]:8}  {said}"


async def export_all(options: argparse.Namespace) -> int:
    """Write the whole audit as JSON lines, in the form that is sealed and verified or in another.
    A file is replaced only when it is complete.

    Returns 1 when a part of the archive could not be read, which the lines then say."""
    count = missing = 0
    async with connect_backend() as found:
        with _open_for_writing(options.file) as file:
            lines = export(found.store)
            if options.form != "sealed":
                lines = write_form(found.store, options.form)
            async for line in lines:
                file.write(line + "\n")
                count += 1
                missing += line.startswith(_MISSING)
                if count % _STEP == 0:
                    print(f"\r{count} lines", end="", file=sys.stderr, flush=True)
    print(f"\r{count} lines written", file=sys.stderr)
    if missing:
        print(f"{missing} segments of the archive could not be read: verify", file=sys.stderr)
    return 1 if missing else 0


@contextmanager
def _open_for_writing(name: str) -> Iterator[TextIO]:
    path = Path(name)
    if name == "-" or (path.exists() and not path.is_file()):
        with nullcontext(sys.stdout) if name == "-" else path.open("w", encoding="utf-8") as stream:
            yield stream
        return
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


async def verify_file(options: argparse.Namespace) -> int:
    """Check an export."""
    found = _verify(Path(options.file))
    if options.json:
        print(json.dumps(asdict(found)))
        return 0 if found.events and found.ok else 1
    for problem in found.problems:
        print(problem)
    if not found.events:
        print(f"{options.file} holds no event: nothing was checked")
        return 1
    problems = len(found.problems)
    print(
        f"{found.events} events, {found.seals} seals, {found.unsealed} not sealed yet: "
        f"{'nothing is wrong' if found.ok else f'problems: {problems}'}"
    )
    return 0 if found.ok else 1


def _verify(path: Path) -> Verification:
    with path.open(encoding="utf-8") as lines:
        return verify(lines)


async def erase(options: argparse.Namespace) -> int:
    """Remove the content of a request that has ended, and of its answer."""
    async with connect_backend(acting=True) as found:
        await operator_core(found).approvals.erase(options.id, by=options.by)
    say(
        {"id": options.id, "erased": True},
        f"{options.id} keeps its digest, its decision and its times; what was asked and answered\n"
        "is gone. The events about it stay, and with them the reason that somebody gave.",
        options,
    )
    return 0
