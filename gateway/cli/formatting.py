"""A request as a person at the command line reads it: in one line, or whole.

What agents wrote stays inert: nothing in it moves, hides or poses as something else. Its secrets
were masked by the gateway.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from gateway.domain.clock import SystemClock
from gateway.domain.safe_text import ascii_escaped, visible
from gateway.models import Action
from gateway.wire.outcome_text import sentence

_LINE_CHARS = 200  # of what would run, in one line
_LABEL_CHARS = 20
# What a whole request shows beside its first lines: label, and where in the record it stands.
_MEMBERS = (
    ("wants to run", "arguments"),
    ("payload", "request.payload"),
    ("changed environment", "request.context.env"),
    ("files", "request.context.files"),
    ("asks", "request.questions"),
    ("says, unverified", "request.hint"),
    ("its own picture", "request.preview"),
    ("says it comes from", "request.origin"),
    ("takes", "request.allowed"),
    ("votes", "votes"),
    ("to the agent", "decision.message"),
    ("answered", "decision.answers"),
    ("instead of running", "decision.result"),
    ("stops", "decision.abort"),
    ("note", "note"),
    ("what became of it", "report"),
)
# Units of time with their milliseconds, and up to how many of one are told.
_SPANS = (("s", 1000, 120), ("min", 60_000, 120), ("h", 3_600_000, 48))
_DAY_MS = 24 * 3_600_000


def readable(value: Any, options: argparse.Namespace) -> str:
    """Return JSON for a terminal: as it is with --json, else inert."""
    return json.dumps(value) if options.json else _inert(value)


def named(record: dict[str, Any]) -> str:
    """Return a request as ID@REVISION, by which it is approved."""
    return f"{record['request']['id']}@{record['revision']}"


def line(record: dict[str, Any]) -> str:
    """Return a request in one line that begins with the name to approve it by."""
    request = record["request"]
    # Before all that is the agent's, so that nothing of it passes for a finding, or hides one.
    found = "".join(f"⚠️ Guardrail: {one}  " for one in _findings(record))
    return (
        f"{named(record)}  {record['status']:9}  {record['risk']['level']:6}  {_when(record)}  "
        f"{found}{request['agent']:16} {visible(request['tool']).text:20} {runs(record)[0]}"
    )


def runs(record: dict[str, Any]) -> tuple[str, bool]:
    """Return all that would run, as far as it fits a line, and whether all of it does.

    The gateway has masked its secrets: nothing is cut that was not masked whole.
    """
    request = record["request"]
    context = request.get("context", {})
    files = context.get("files")
    parts = {
        "": record["arguments"],
        "  payload ": request.get("payload"),
        "  changed environment ": context.get("env"),
        "  files ": files and list(files),
    }
    text = "".join(
        f"{label}{json.dumps(part, ensure_ascii=False)}"
        for label, part in parts.items()
        if part is not None
    )
    seen = ""
    for part, _ in visible(text).segments:
        seen += part
        if len(seen) > _LINE_CHARS:
            return f"{seen[:_LINE_CHARS]}…", False
    return seen, True


def whole(record: dict[str, Any]) -> str:
    """Return all that there is to read of a request, a label before each part."""
    return "\n".join(f"{label:{_LABEL_CHARS}} {text}" for label, text in _facts(record))


def _facts(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    request, risk = record["request"], record["risk"]
    context = request.get("context", {})
    yield "request", named(record)
    state = "erased" if record.get("erased") else record["status"]
    yield "state", f"{state}, {_when(record)}"
    yield "tool", visible(request["tool"]).text
    kind, session = request.get("kind", "tool"), request.get("session", "default")
    yield "asked by", f"{request['agent']}, session {session}, as {kind}"
    for label, member in (("in the folder", "cwd"), ("on the host", "host")):
        if member in context:
            yield label, _inert(context[member])
    yield "risk", " ".join([risk["level"], *map(_inert, risk.get("reasons", ()))])
    for finding in _findings(record):
        yield "⚠️ guardrail", finding
    if record.get("quorum", 1) > 1:
        yield "needs", f"{record['quorum']} people"
    if record["digest"] != request["digest"]:
        yield "asked for, edited", _below(request["arguments"])
    for label, path in _MEMBERS:
        value = _at(record, path)
        if value not in (None, "", [], {}) or path == "arguments":
            yield label, _below(value)


def _findings(record: dict[str, Any]) -> list[str]:
    return [visible(one).text for one in record.get("findings", ())]


def _at(record: dict[str, Any], path: str) -> Any:
    value: Any = record
    for name in path.split("."):
        value = value.get(name) if value is not None else None
    return value


def _inert(value: Any) -> str:
    return ascii_escaped(json.dumps(value, indent=2, ensure_ascii=False))


def _below(value: Any) -> str:
    """Return JSON whose lines stand below its first: none of them poses as a label."""
    return _inert(value).replace("\n", "\n" + " " * (_LABEL_CHARS + 1))


def _when(record: dict[str, Any]) -> str:
    """Return how long a request waits and may wait, or when and how it ended."""
    decision = record.get("decision")
    if decision is None:
        now = SystemClock().now_ms()
        since, left = (max(0, one) for one in (now - record["created"], record["deadline"] - now))
        return f"asked {_span(since)} ago, {_span(left)} left"
    moment = datetime.fromtimestamp(decision["decided_at"] / 1000, UTC)
    how = sentence(
        reason=decision["reason"],
        status=decision["status"],
        name=decision["decided_by"]["name"],
        message="",
    )
    edited = ", edited" if decision.get("action") == Action.EDIT else ""
    return f"{moment.isoformat(timespec='seconds')} {visible(how).text}{edited}"


def _span(ms: int) -> str:
    for unit, length, most in _SPANS:
        if ms < most * length:
            return f"{ms // length} {unit}"
    return f"{ms // _DAY_MS} days"
