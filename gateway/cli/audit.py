"""`gateway audit …`, `archive …` and `report`: print, export and verify the audit log."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from gateway.approvals.search_and_report import DAY_MS, read_report, tell_event
from gateway.cards.summary import plain_summary, summarize
from gateway.cli.redis_access import connect_backend, operator_core
from gateway.cli.requests import exact, say
from gateway.domain.audit import verify
from gateway.domain.evidence import FIRST_LINE, verify_report
from gateway.domain.records import AuditEvent, StoredRequest
from gateway.domain.redaction import mask, start_of
from gateway.domain.safe_text import make_visible
from gateway.domain.statistics import lines
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import InvalidRequest
from gateway.models import ENDINGS, DeciderKind, Decision, Execution, Status
from gateway.stores.archive_folder import name_numbers
from gateway.stores.archiver import check_folder
from gateway.stores.audit import export
from gateway.stores.requests import RedisStore
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, plain

# The audit in two public forms: envelopes of the Agent Approval Interchange Specification, and a
# trace that tools which check approvals read.
#
# Both are made of the events, in their order, and of the requests that these name; secrets are
# masked as in everything that approvers read. What was edited is told as one action that was not
# approved and another that was, since neither form knows an approval of something else.

HARNESS = "approval-gateway"
_ALLOWED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LONGEST_ID, _LONGEST_TEXT, _LONGEST_NAME = 200, 1000, 200
_RAN = (Execution.STARTED, Execution.SUCCEEDED, Execution.FAILED)
_ONCE: JsonObject = {"scope": "once"}
_CHOICES = (
    {"decision": "approve", **_ONCE, "label": "Approve"},
    {"decision": "deny", **_ONCE, "label": "Deny"},
)
_OUTCOMES = {
    Status.APPROVED: "approved",
    Status.DENIED: "denied",
    Status.CANCELLED: "cancelled",
    Status.EXPIRED: "expired",
}
_VERSION = 2
"""Of the trace's schema."""
_PAGE = 500


async def write_form(store: RedisStore, form: str) -> AsyncIterator[str]:
    """Yield the lines of the audit log in a public format: `interchange` or `trace`."""
    writer = _Interchange() if form == "interchange" else _Trace()
    cursor: str | None = None
    while events := await store.history(cursor, _PAGE):
        for event in events:
            record = await store.load(event.request_id) if event.request_id else None
            if record is not None and not record.erased:
                for line in writer.tell(event, record):
                    yield json.dumps(line, ensure_ascii=False)
        cursor = events[-1].id
    for line in writer.end():
        yield json.dumps(line, ensure_ascii=False)


class _Interchange:
    """Writes envelopes, numbered from 1."""

    def __init__(self) -> None:
        self._sequence = 0

    def tell(self, event: AuditEvent, record: StoredRequest) -> Iterator[JsonObject]:
        """Yield the envelopes of an event. Most events have none."""
        if event.type == "submitted":
            yield self._tell_request(event, record, record.id, record.request.arguments, event.at)
        elif event.type in ENDINGS and record.decision is not None:
            decision = record.decision
            if (edited := decision.arguments) is None:
                yield from self._tell_end(event, record, decision, record.id)
                return
            before = _digest(_action(record, record.request.arguments))
            stale = _resolution(record.id, before, "stale", "the arguments were changed", event.at)
            yield self._envelope("resolved", event, resolution=stale)
            at = decision.decided_at  # the edit that asked so decided it
            yield self._tell_request(event, record, f"{record.id}.2", edited, at)
            yield from self._tell_end(event, record, decision, f"{record.id}.2")

    def end(self) -> Iterator[JsonObject]:
        """Yield nothing, because this format has no closing line."""
        yield from ()

    def _tell_request(
        self, event: AuditEvent, record: StoredRequest, told_id: str, arguments: JsonObject, at: int
    ) -> JsonObject:
        action = _action(record, arguments)
        request = {
            "id": told_id,
            "created_at": _moment(at),
            "expires_at": _moment(max(record.deadline, at + 1)),
            "status": "pending",
            "origin": {
                "harness": HARNESS,
                "session_id": _identifier(record.request.session),
                "agent_id": _identifier(record.request.agent),
            },
            "action": action,
            "action_digest": _digest(action),
            "risk": {
                "level": str(record.risk.level),
                "reasons": [_text(record.hide(one)) for one in record.risk.reasons][:20]
                or ["no rule and no finding raised the risk"],
            },
            "choices": list(_CHOICES),
        }
        return self._envelope("requested", event, request=request)

    def _tell_end(
        self, event: AuditEvent, record: StoredRequest, decision: Decision, told_id: str
    ) -> Iterator[JsonObject]:
        digest = _digest(_action(record, decision.arguments or record.request.arguments))
        decided = decision.status in (Status.APPROVED, Status.DENIED)
        if decided:
            by_person = decision.decided_by.kind is DeciderKind.PERSON
            told = {
                "id": f"{told_id}.d",
                "request_id": told_id,
                "action_digest": digest,
                "decided_at": _moment(decision.decided_at),
                "decision": "approve" if decision.status is Status.APPROVED else "deny",
                **_ONCE,
                "actor": {
                    "id": _identifier(decision.decided_by.name),
                    "type": "human" if by_person else "policy",
                    "display_name": _text(decision.decided_by.name, _LONGEST_NAME),
                },
            }
            yield self._envelope("decided", event, decision=told)
        outcome, words = _OUTCOMES[decision.status], record.hide(decision.sentence())
        resolution = _resolution(told_id, digest, outcome, words, event.at)
        if decided:
            resolution |= {"decision_id": f"{told_id}.d", "effective_scope": "once"}
        yield self._envelope("resolved", event, resolution=resolution)

    def _envelope(self, kind: str, event: AuditEvent, **body: JsonObject) -> JsonObject:
        self._sequence += 1
        return {
            "aais": "1.0",
            "type": f"approval.{kind}",
            "id": f"{event.id}.{self._sequence}",
            "occurred_at": _moment(event.at),
            "sequence": self._sequence,
            **body,
        }


class _Trace:
    """Writes one trace of all requests that have ended. Pending requests are left out."""

    def __init__(self) -> None:
        self._last = 0
        self._executed: set[str] = set()

    def tell(self, event: AuditEvent, record: StoredRequest) -> Iterator[JsonObject]:
        """Yield the lines of an event. Most events have none."""
        self._last = max(self._last, event.at)
        if event.type in ENDINGS and record.decision is not None:
            yield from self._tell_end(event, record, record.decision)
        elif event.type == "reported" and record.decision is not None:
            yield from self._tell_report(event, record, record.decision)

    def end(self) -> Iterator[JsonObject]:
        """Yield the last line, which shows that the trace is complete."""
        if self._last:
            yield self._line("session_end", self._last, reason="the end of this export")

    def _tell_end(
        self, event: AuditEvent, record: StoredRequest, decision: Decision
    ) -> Iterator[JsonObject]:
        if decision.arguments is not None:
            yield from self._tell_block(event, record, record.id, "the arguments were changed")
        if decision.status is not Status.APPROVED:
            yield from self._tell_block(event, record, record.id, str(decision.status))
            return
        told_id = _final_id(record, decision)
        yield from self._tell_proposal(event, record, told_id, decision.arguments)
        yield self._line(
            "approval_decision", event.at, told_id, decision="allow",
            expires_at=_moment(decision.expires_at),
        )  # fmt: skip

    def _tell_block(
        self, event: AuditEvent, record: StoredRequest, told_id: str, why: str
    ) -> Iterator[JsonObject]:
        yield from self._tell_proposal(event, record, told_id, None)
        yield self._line("approval_decision", event.at, told_id, decision="deny")
        yield self._line("action_blocked", event.at, told_id, reason=why)

    def _tell_proposal(
        self, event: AuditEvent, record: StoredRequest, told_id: str, edited: JsonObject | None
    ) -> Iterator[JsonObject]:
        action = _operation(record, edited)
        asked = record.created if edited is None else event.at
        proposed = self._line("action_proposed", asked, told_id, action=action)
        del proposed["approval_id"]
        yield proposed
        yield self._line("approval_requested", asked, told_id, action=action)

    def _tell_report(
        self, event: AuditEvent, record: StoredRequest, decision: Decision
    ) -> Iterator[JsonObject]:
        execution, told_id = event.data.get("execution"), _final_id(record, decision)
        if decision.status is not Status.APPROVED or told_id in self._executed:
            return
        self._executed.add(told_id)
        if execution in _RAN:
            action = _operation(record, decision.arguments)
            yield self._line("action_executed", event.at, told_id, action=action)
        else:
            yield self._line("action_blocked", event.at, told_id, reason=str(execution))

    def _line(self, kind: str, at: int, told_id: str = "", **more: Any) -> JsonObject:
        named = {"action_id": told_id, "approval_id": told_id} if told_id else {}
        return {
            "schema_version": _VERSION,
            "type": kind,
            "timestamp": _moment(at),
            "session_id": HARNESS,
            **named,
            **more,
        }


def _final_id(record: StoredRequest, decision: Decision) -> str:
    return record.id if decision.arguments is None else f"{record.id}.2"


def _action(record: StoredRequest, arguments: JsonObject) -> JsonObject:
    """Return the call as an action of the specification. Masked values are marked as masked, and
    the hint contains the digest of the real values."""
    request = record.request
    told: JsonObject = mask(arguments)
    shown = record.copy_with(edited=None) if arguments is request.arguments else record
    action: JsonObject = {
        "kind": _identifier(str(request.kind)),
        "name": _identifier(mask(request.tool)),
        "summary": _text(plain_summary(summarize(shown))),
        "arguments": told,
        "presentation": {
            "redacted": told != arguments,
            "binding_hint": f"digest {request.digest} of what would run and for whom",
        },
    }
    if request.context.cwd:
        action["working_directory"] = _text(mask(request.context.cwd))
    return action


def _operation(record: StoredRequest, edited: JsonObject | None) -> JsonObject:
    """Return the call as an action in the format of the trace."""
    request = record.request
    parameters = {
        "arguments": request.arguments if edited is None else edited,
        "context": plain(request.context),
        "payload": request.payload,
    }
    return {
        "tool": "shell" if request.kind == "command" else mask(request.tool),
        "operation": "run" if request.kind == "command" else "call",
        "parameters": mask(parameters),
    }


def _resolution(told_id: str, digest: str, outcome: str, words: str, at: int) -> JsonObject:
    return {
        "id": f"{told_id}.r",
        "request_id": told_id,
        "action_digest": digest,
        "resolved_at": _moment(at),
        "outcome": outcome,
        "message": _text(words),
    }


def _digest(action: JsonObject) -> str:
    return f"sha256:{sha256_hex(canonical(action))}"


def _identifier(text: str) -> str:
    """Return a name that both formats allow: the name itself, or its digest if it has other
    characters."""
    plain_text = all(one in _ALLOWED or one in "._:-" for one in text)
    if plain_text and text[:1] in _ALLOWED and 0 < len(text) <= _LONGEST_ID:
        return text
    return f"sha256:{sha256_hex(text.encode())}"


def _text(text: str, most: int = _LONGEST_TEXT) -> str:
    return text if 0 < len(text) <= most else f"{text[: most - 1]}…"


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


_STEP = 1000
_MISSING = '{"missing"'


async def tail(options: argparse.Namespace) -> int:
    """Print the latest events, with the newest one last."""
    async with connect_backend() as found:
        for event in await found.store.latest(options.lines):
            if options.json:
                print(json.dumps(plain(event)))
                continue
            said = make_visible(await tell_event(found.store, event)).text
            named = f"  (request {event.request_id[:8]})" if event.request_id else ""
            print(f"{exact(event.at)}  {said}{named}")
    return 0


async def export_all(options: argparse.Namespace) -> int:
    """Write the whole audit log as JSON lines, in the format that can be verified or in a public
    one. Replaces an existing file only after the export is complete.

    Returns 1 if a part of the archive could not be read; the output then reports that."""
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
        print(
            f"{missing} segments of the archive could not be read; `gateway audit verify`",
            file=sys.stderr,
        )
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


def verify_file(options: argparse.Namespace) -> int:
    """Check that an exported audit log, or an evidence report, is complete and unchanged."""
    key = options.key or os.environ.get("GATEWAY_PUBLIC_KEY", "")
    with Path(options.file).open(encoding="utf-8", newline="\n") as lines:
        whole = chain((first := next(lines, ""),), lines)
        is_report = first.strip() == FIRST_LINE
        if is_report and not key:
            raise InvalidRequest(
                "an evidence report proves nothing without a key that you trust: give the "
                "gateway's public key with --key"
            )
        found = verify_report(whole, key) if is_report else verify(whole)
    if options.json:
        print(json.dumps(asdict(found)))
        return 0 if found.events + found.hidden and found.ok else 1
    for line in (*found.notes, *found.problems):
        print(make_visible(line).text)
    if not found.events + found.hidden:
        print(f"{options.file} contains no event: nothing was checked")
        return 1
    problems, hidden = len(found.problems), f"{found.hidden} hidden, " if found.hidden else ""
    print(
        f"{found.events} events, {hidden}{found.seals} seals, {found.unsealed} not sealed yet: "
        f"{'nothing is wrong' if found.ok else f'problems: {problems}'}"
    )
    return 0 if found.ok else 1


async def erase(options: argparse.Namespace) -> int:
    """Erase the content of a request that has ended, and of its decision."""
    async with connect_backend(acting=True) as found:
        await operator_core(found).approvals.erase(options.id, by=options.by)
    say(
        {"id": options.id, "erased": True},
        f"{options.id} keeps its digest, its decision and its times; what was asked and answered\n"
        "is gone. The events about it stay, and with them the reason that somebody gave.",
        options,
    )
    return 0


# `gateway archive …`: what a person can do for the folder that old events move to.

_SHOWN = 5
_MOST_NAME = 60


async def give_up(options: argparse.Namespace) -> int:
    """Print which segments of the archive are lost. With --yes, accept the loss; otherwise return
    1."""
    async with connect_backend(acting=options.yes) as found:
        store = found.store
        archive, mark = store.audit.need_archive(), await store.audit.mark()
        lost = await asyncio.to_thread(archive.find_lost, mark.segments)
        if not lost:
            await asyncio.to_thread(check_folder, archive, mark)
            print(f"nothing is lost: all {len(mark.segments)} segments are in {archive.folder}")
            return 0
        named = name_numbers(lost)
        print(f"{len(lost)} of {len(mark.segments)} segments are lost: {named}")
        for why in list(lost.values())[:_SHOWN]:
            print(f"  {why}")
        if not options.yes:
            print("If you can, restore them from a backup, or set the right folder in")
            print("GATEWAY_ARCHIVE. If they are lost for good: gateway archive give-up --yes")
            return 1
        day = datetime.fromtimestamp(await store.now() / 1000, UTC).date()
        why = f"{start_of(options.by, _MOST_NAME)} gave it up on {day}"
        # First: whoever dies on the way gives up the rest of them again.
        await store.note("archive_given_up", data={"by": options.by, "segments": named})
        await asyncio.to_thread(archive.give_up, lost, mark, why)
    print("They are given up: `gateway audit verify` names them for as long as audits are kept.")
    print("A running gateway archives again within two minutes.")
    return 0


# `gateway report`: how people decide, and how agents ask.


async def print_report(options: argparse.Namespace) -> int:
    """Print figures about people's decisions and agents' requests."""
    if options.days < 1:
        raise InvalidRequest("--days must be at least 1")
    until = SystemClock().now_ms()
    async with connect_backend() as found:
        since = until - options.days * DAY_MS
        made = await read_report(found.store, until, since=since, until=until)
    if options.json:
        print(json.dumps(plain(made)))
        return 0
    for line in lines(made):
        print(line)
    return 0
