"""`gateway pending`, `history`, `show`, `approve` and `deny`: print and decide requests."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import count
from textwrap import wrap
from typing import Any
from unicodedata import east_asian_width

from gateway.cli.http_access import ID_LENGTH, connect_as_approver, find_request, read_page
from gateway.cli.listed_requests import find_listed, keep_list
from gateway.client.http_connection import HttpPool
from gateway.domain.argument_order import put_short_first
from gateway.domain.event_sentences import say_ending, say_span
from gateway.domain.risk import GUARDRAILS, MOST_GUESSES, StepUp, StepUpDone, finding_sign, say_ways
from gateway.domain.safe_text import ascii_escaped, make_visible, show_masked
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import InvalidRequest
from gateway.models import KIND_WORDS, Action, DeciderKind, Kind, RiskLevel, Status, new_id
from gateway.wire.codec import build
from gateway.wire.outcome_text import join_names, say_unverified, sentence

# Formats requests for the command line: in one line, or in full.
#
# Text from agents is escaped: it cannot move the cursor, hide anything or imitate a label. The
# gateway has masked its secrets.

_LINE_CHARS = 300  # of what would run, in one line
_LABEL_CHARS = 20
# Parts of the full form: the label, and the path in the record. First what would run.
_RUNS = (
    ("wants to run", "arguments"),
    ("payload", "request.payload"),
    ("changed environment", "request.context.env"),
    ("files", "request.context.files"),
)
_MEMBERS = (
    ("asks", "request.questions"),
    ("says", "request.hint"),
    ("its own picture", "request.preview"),
    ("says it comes from", "request.origin"),
    ("posted at", "messages"),
    ("turn", "request.turn"),
    ("call", "request.call_id"),
    ("part of the call", "request.part"),
    ("asked together as", "request.group"),
    ("takes", "request.allowed"),
    ("votes", "votes"),
    ("to the agent", "decision.message"),
    ("answered", "decision.answers"),
    ("instead of running", "decision.result"),
    ("stops", "decision.abort"),
    ("note", "note"),
    ("what became of it", "report"),
)
_UNVERIFIED = frozenset({"request.hint", "request.preview"})
_MARGIN = "\n     "  # before all but the first line of a row
_RECENT_MS = 48 * 3_600_000
_COLOURS = {"amber": "33", "dim": "2", "red": "1;31"}


def format_json(value: Any, options: argparse.Namespace) -> str:
    """Return a value as JSON: unchanged with --json, otherwise escaped for a terminal."""
    return json.dumps(value) if options.json else _escape_json(value)


def say(value: Any, sentence: str, options: argparse.Namespace) -> None:
    """Print the result of a command: the sentence, or with --json the value."""
    print(json.dumps(value) if options.json else sentence)


def paint(text: str, colour: str) -> str:
    """Return a string in a colour, if the terminal shows colours. See https://no-color.org."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not sys.stdout.isatty() else f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def print_rows(
    rows: Iterable[dict[str, Any]],
    options: argparse.Namespace,
    format_row: Callable[[dict[str, Any]], str],
    nothing: str,
    *,
    head: str = "",
) -> int:
    """Print each row; without rows, print `nothing` to standard error, except with --json.

    On a terminal the table has a header; in a pipe it has only rows.
    """
    empty = True
    for row in rows:
        if empty and head and not options.json and sys.stdout.isatty():
            print(paint(head, "dim"))
        empty = False
        print(json.dumps(row) if options.json else format_row(row))
    if empty and not options.json:
        print(nothing, file=sys.stderr)
    return 0


def id_and_revision(record: dict[str, Any]) -> str:
    """Return a request as ID@REVISION, the format that `gateway approve` accepts."""
    return f"{record['request']['id']}@{record['revision']}"


def format_row(record: dict[str, Any]) -> str:
    """Return a request as three lines. The first is the agent's call or how the request ended, the
    second the times, session and tool. The third is the risk, the findings, who may approve, and
    ID@REVISION.

    A sign for findings precedes all text from the agent. On a terminal, long lines are folded and
    never cut, so that the approver sees the whole call.
    """
    found = [f"{_sign(record)} Guardrail: {one}" for one in _findings(record)]
    level, request = record["risk"]["level"], record["request"]
    risk = paint("high risk", "red") if level == RiskLevel.HIGH else f"{level} risk"
    ended, kind = record.get("decision"), KIND_WORDS.get(request.get("kind", Kind.TOOL), "")
    when = f"decided {ago(ended['decided_at'])}" if ended else _when(record)
    session, tool = _quote_masked(request.get("session", "default")), quote_name(request["tool"])
    may = [f"{label}: {text}" for label, text in _say_who_approves(record)]
    lines = (
        f"{f'{_sign(record)} ' * bool(found)}{_say_wish(record)}{summarize_action(record)[0]}",
        f"{when} · session {session}, tool {tool}{kind and f' ({kind})'}",
        " · ".join([risk, *found, *may, id_and_revision(record)]),
    )
    return _MARGIN.join(map(_fold, lines) if sys.stdout.isatty() else lines)


def _fold(text: str) -> str:
    """Fold a line to the terminal's width. Some characters are two columns wide."""
    spaced = "".join(f"{one}\0" if east_asian_width(one) in "WF" else one for one in text)
    width = max(20, shutil.get_terminal_size().columns - len(_MARGIN))
    parts = wrap(spaced, width, break_on_hyphens=False, drop_whitespace=False)
    return _MARGIN.join(parts).replace("\0", "")


def _say_wish(record: dict[str, Any]) -> str:
    """Return the words before the call: what the agent wants to do, or how the request ended."""
    request = record["request"]
    agent, command = quote_name(request["agent"]), request.get("kind") == Kind.COMMAND
    called = "" if command else f"{quote_name(request['tool'])} with "
    if ended := record.get("decision"):
        waited, name = ended["decided_at"] - record["created"], _name_deciders(record)
        said = say_ending(ended, ended["status"], request["agent"], name=name, waited=waited)
        return f"{make_visible(said).text}: {called}"
    if asked := "; ".join(_quote_masked(one["text"]) for one in request.get("questions", ())):
        return f"agent {agent} asks {asked}, with "
    return f"agent {agent} wants to {'run ' if command else f'call {called}'}"


def summarize_action(record: dict[str, Any]) -> tuple[str, bool]:
    """Return the call, cut to fit on a line, and whether it fits completely.

    The gateway has masked secrets before, so cutting leaves no part of a secret.
    """
    request, arguments = record["request"], record["arguments"]
    context = request.get("context", {})
    command = arguments.get("command") if len(arguments) == 1 else None
    alone = request.get("kind") == Kind.COMMAND and isinstance(command, str)
    parts = {
        "  ": command if alone else arguments,
        "  payload ": request.get("payload"),
        "  changed environment ": context.get("env"),
        "  files ": context.get("files"),
        "  in the folder ": context.get("cwd"),
        "  on the host ": context.get("host"),
    }
    text = "".join(
        f"{label}{json.dumps(part, ensure_ascii=False)}"
        for label, part in put_short_first(parts).items()
        if part is not None
    ).lstrip()
    seen = ""
    for part, _ in show_masked(text).segments:
        seen += part
        if len(seen) > _LINE_CHARS:
            return f"{seen[:_LINE_CHARS]}…", False
    return seen, True


def format_request(record: dict[str, Any]) -> str:
    """Return the complete request as text, with a label before each part."""
    return "\n".join(f"{label:{_LABEL_CHARS}} {text}" for label, text in _labelled_parts(record))


def _labelled_parts(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    request, risk = record["request"], record["risk"]
    context = request.get("context", {})
    yield "request", id_and_revision(record)
    state = "erased" if record.get("erased") else record["status"]
    yield "state", f"{state}, {_when(record, exact)}"
    yield "tool", _escape_json(request["tool"])
    session = request.get("session", "default")
    yield "asked by", f"{quote_name(request['agent'])}, session {quote_name(session)}"
    if kind := KIND_WORDS.get(request.get("kind", Kind.TOOL)):
        yield "kind", kind
    for label, member in (("in the folder", "cwd"), ("on the host", "host")):
        if member in context:
            yield label, _escape_json(context[member])
    yield "risk", " ".join([risk["level"], *map(_escape_json, risk.get("reasons", ()))])
    if because := record.get("asks_because"):
        yield "why", make_visible(because).text.replace("\n", " ")
    for finding in _findings(record):
        yield f"{_sign(record)} guardrail", finding
    yield from _say_who_approves(record)
    yield from _what_runs(record)
    if changed := record["digest"] != request["digest"]:
        yield "asked for, changed", _indent_json(request["arguments"])
    for edit in record.get("edits", ()):
        yield "changed by", _name_editor(edit)
    yield from _say_claims(record)
    for label, path in _MEMBERS:
        value = _at(record, path)
        if value not in (None, "", [], {}):
            more = f", {say_unverified(changed=changed)}" if path in _UNVERIFIED else ""
            yield f"{label}{more}", _indent_json(value)


def _say_who_approves(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield how many people must approve and who may, or why nobody may approve."""
    if record.get("quorum", 1) > 1:
        yield "needs", f"{record['quorum']} people"
        if voted := [quote_name(vote["person"]) for vote in record.get("votes", ())]:
            yield "approved by", join_names(voted, "and")
    if may := record.get("approvers"):
        nobody = f"nobody: {may.get('nobody')}"
        yield "may approve", ", ".join(map(quote_name, may.get("names", ()))) or nobody
        if ways := may.get("step_up"):
            yield "which takes", say_ways(map(StepUp, ways))
    if guesses := record.get("guesses"):
        yield "wrong numbers", f"{guesses} of {MOST_GUESSES}"
    for done in record.get("stepped", ()):
        yield "confirmed", build(StepUpDone, done).words


def _say_claims(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if record["status"] == Status.APPROVED:
        claimed = record.get("consumed", 0)
        yield "claimed by", f"{claimed or 'no'} process{'es' * (claimed > 1)}"


def _name_editor(edit: dict[str, Any]) -> str:
    """Return who edited the call: a person, or a policy hook with the reason that it gave."""
    name = quote_name(edit["by"]["name"])
    if edit["by"]["kind"] == DeciderKind.PERSON:
        return name
    why = edit.get("why")
    return f"the policy hook {name}{f': {quote_name(why)}' if why else ''}"


def _what_runs(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    runs = {label: _at(record, path) for label, path in _RUNS}
    for label, value in put_short_first(runs).items():
        if value is not None:
            yield from _say_part(label, value)


def _say_part(label: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield a part of the call as JSON. Strings with several lines follow separately."""
    texts = {
        name: text
        for name, text in (value.items() if isinstance(value, dict) else ())
        if isinstance(text, str) and "\n" in text
    }
    said = []
    if not texts or len(texts) < len(value):
        rest = {name: one for name, one in value.items() if name not in texts} if texts else value
        said.append(_indent_json(rest))
    for name, text in texts.items():
        lines = make_visible(text).text.split("\n")
        said.append(_indent([f"{_escape_json(name)} has {len(lines)} lines:", *lines]))
    yield from ((label if at == 0 else "and", one) for at, one in enumerate(said))


def _indent(lines: list[str]) -> str:
    return ("\n" + " " * (_LABEL_CHARS + 1)).join(lines)


def quote_name(name: str) -> str:
    """Return a name that an agent chose, so that it cannot imitate the gateway."""
    return make_visible(json.dumps(name, ensure_ascii=False)).text


def _quote_masked(text: str) -> str:
    """Quote a string of a request as `quote_name` does. The gateway has already masked its secrets,
    and escaped text that imitates a mask."""
    return show_masked(json.dumps(text, ensure_ascii=False)).text


def _sign(record: dict[str, Any]) -> str:
    """Return the sign before findings: red if they raised the risk, else amber."""
    return finding_sign(
        alarms=any(one["decider"] == GUARDRAILS for one in record.get("raised", ()))
    )


def _findings(record: dict[str, Any]) -> list[str]:
    return [make_visible(one).text for one in record.get("findings", ())]


def _at(record: dict[str, Any], path: str) -> Any:
    value: Any = record
    for name in path.split("."):
        value = value.get(name) if value is not None else None
    return value


def _escape_json(value: Any) -> str:
    return ascii_escaped(json.dumps(value, indent=2, ensure_ascii=False))


def _indent_json(value: Any) -> str:
    """Return JSON in which all lines after the first are indented, so that none can imitate a
    label."""
    return _indent(_escape_json(value).split("\n"))


def _when(record: dict[str, Any], tell: Callable[[int], str] | None = None) -> str:
    """Return the age of a pending request and the time left, or when and how the request ended."""
    decision = record.get("decision")
    if decision is None:
        now = SystemClock().now_ms()
        since, left = (max(0, one) for one in (now - record["created"], record["deadline"] - now))
        return f"asked {say_span(since)} ago, {say_span(left)} left"
    how = sentence(
        reason=decision["reason"],
        status=decision["status"],
        name=_name_deciders(record),
        message="",
    )
    by = " and ".join(map(_name_editor, record.get("edits", ())))
    changed = f", changed by {by}" if by else ", changed"
    edited = changed if decision.get("action") == Action.EDIT else ""
    moment = (tell or ago)(decision["decided_at"])
    return f"{moment} {make_visible(how).text}{edited}"


def _name_deciders(record: dict[str, Any]) -> str:
    """Return who decided. If several people approved, return all of them."""
    alone: str = record["decision"]["decided_by"]["name"]
    if record["status"] != Status.APPROVED:
        return alone
    return join_names([vote["person"] for vote in record.get("votes", ())], "and") or alone


def ago(moment: int) -> str:
    """Return how long ago a time was, or its date if that was more than two days ago."""
    past = SystemClock().now_ms() - moment
    if 0 <= past < _RECENT_MS:
        return f"{say_span(past)} ago"
    return exact(moment)


def exact(moment: int) -> str:
    """Return a time in UTC, precise to the second."""
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="seconds")


def until(moment: int) -> str:
    """Return how long it takes until a future time, and that time."""
    left = moment - SystemClock().now_ms()
    return f"{exact(moment)} (in {say_span(left)})" if left > 0 else exact(moment)


# `gateway approve` and `gateway deny`: answer requests with an approver's own token.


def approve(options: argparse.Namespace) -> int:
    """Approve one request, or several: all of them or none."""
    body = {"action": Action.APPROVE.value, **_remember(options)}
    if len(options.ids) > 1:
        if options.number:
            raise InvalidRequest(
                "a request that needs a verification code must be approved alone, not in a batch"
            )
        return _decide_all(options, body)
    typed = {"number": options.number} if options.number else {}
    return _decide(options, {**body, **typed, "confirmed": options.yes})


def deny(options: argparse.Namespace) -> int:
    """Deny one request, or several: all of them or none."""
    body = {
        "action": Action.DENY.value,
        "message": options.reason,
        "feedback": options.feedback,
        **_remember(options),
    }
    if len(options.ids) > 1:
        return _decide_all(options, body)
    return _decide(options, body)


def _remember(options: argparse.Namespace) -> dict[str, Any]:
    """Return the member `remember` of a decision, or an empty object without --remember."""
    options_given = {
        "lifetime": options.lifetime,
        "max_uses": options.uses,
        "everywhere": options.everywhere or None,
    }
    how = {name: value for name, value in options_given.items() if value is not None}
    if options.remember is not None:
        return {"remember": {"offer": options.remember, **how}}
    if how:
        raise InvalidRequest(
            "--for, --uses and --everywhere describe a grant: add --remember to save one"
        )
    return {}


def split_revision(wanted: str) -> tuple[str, int | None]:
    """Split ID@REVISION into the id, which may be abbreviated, and the revision."""
    name, at, revision = wanted.partition("@")
    if at and not revision.isdecimal():
        raise InvalidRequest(f"{wanted} is not an ID@REVISION as `gateway pending` prints it")
    return name, int(revision) if at else None


def _find_for_answer(http: HttpPool, wanted: str, action: Action) -> tuple[dict[str, Any], int]:
    """Return the request that a person wants to decide, and the revision that the person saw.

    Agents choose ids. An agent could cancel a request, and submit another call under an id that
    starts alike. So an approval requires the full id, and after an edit the revision too. A row
    number means the printed id and revision.
    """
    name, revision = split_revision(find_listed(http, wanted))
    record = find_request(http, name)
    if action is Action.APPROVE:
        _check_approvable(record)
        command = f"gateway approve {id_and_revision(record)}"
        now = f"it is now\n{format_row(record)}\nto approve that: {command}"
        if len(name) < ID_LENGTH:
            raise InvalidRequest(
                f"{wanted} is only the beginning of an id, which could later match a different "
                f"request; {now}"
            )
        if revision is None and record["digest"] != record["request"]["digest"]:
            raise InvalidRequest(f"this request was edited after it was submitted; {now}")
    return record, record["revision"] if revision is None else revision


def _check_approvable(record: dict[str, Any]) -> None:
    """Raise InvalidRequest if a pending request cannot be approved from the command line."""
    request = record["request"]
    allowed = request.get("allowed", [Action.APPROVE])  # left out where it may be approved
    fits = Action.APPROVE in allowed and not request.get("questions")
    if record["status"] == Status.PENDING and not fits:
        raise InvalidRequest(
            "this request cannot be approved as it is, and the command line cannot fill in forms "
            "or edit calls: deny it here, or use the inbox (`gateway login NAME`), `gateway "
            "adapter terminal` or HTTP"
        )


def _check_fits(record: dict[str, Any]) -> None:
    """Raise InvalidRequest if the row of a request does not show the complete call."""
    if not summarize_action(record)[1]:
        shown = f"`gateway show {record['request']['id']}`"
        raise InvalidRequest(f"the call does not fit its row: read {shown}, then add --yes")


def _decide(options: argparse.Namespace, body: dict[str, Any]) -> int:
    [wanted] = options.ids
    with connect_as_approver(acting=True) as http:
        record, revision = _find_for_answer(http, wanted, Action(body["action"]))
        risk = record.get("risk") or {}
        if body.get("confirmed") is False:
            high, planned = risk.get("level") == "high", record["request"].get("kind") == Kind.CALLS
            if (high or planned) and "number" not in body:
                shown = f"`gateway show {record['request']['id']}`"
                what = "high risk" if high else "a plan"
                raise InvalidRequest(f"the request is {what}: read {shown}, then add --yes")
            _check_fits(record)
        click = {**body, "revision": revision, "nonce": new_id()}
        done = http.call("POST", f"/v1/requests/{record['request']['id']}/decide", click)
        say(done, format_row(done), options)
        return 0


def _decide_all(options: argparse.Namespace, body: dict[str, Any]) -> int:
    """Decide several requests in one call: all of them or none."""
    if options.remember is not None:
        raise InvalidRequest("a batch cannot be remembered: decide each request on its own")
    with connect_as_approver(acting=True) as http:
        found = [_find_for_answer(http, wanted, Action(body["action"])) for wanted in options.ids]
        if Action(body["action"]) is Action.APPROVE and not options.yes:
            for record, _ in found:
                _check_fits(record)
        items = {record["request"]["id"]: revision for record, revision in found}
        ticked = [{"id": name, "revision": revision} for name, revision in items.items()]
        after = http.call("POST", "/v1/batches", {**body, "items": ticked, "nonce": new_id()})
        for record in after["items"]:
            say(record, format_row(record), options)
        return 0


_QUERIES = {"pending": "status=pending", "history": "final=true"}


def show_pending(options: argparse.Namespace) -> int:
    """List a page of the pending requests."""
    return _print_page("pending", options, "nothing waits")


def show_history(options: argparse.Namespace) -> int:
    """List a page of requests that have ended."""
    return _print_page("history", options, "no request has been decided yet")


def _print_page(command: str, options: argparse.Namespace, nothing: str) -> int:
    """Print a page of requests. If there is a next page, print on standard error how to see it."""
    with connect_as_approver() as http:
        records, place = read_page(http, _QUERIES[command], options.after, options.limit)
        first = command == "pending" and not (options.json or options.after)
        kept = first and keep_list(http, [*map(id_and_revision, records)])
    numbers = (f"{number:>3}  " if kept else "" for number in count(1))
    nothing = "no more" if options.after else nothing
    code = print_rows(records, options, lambda one: next(numbers) + format_row(one), nothing)
    if place is not None:
        more = f"gateway {command} --limit {options.limit} --after {place}"
        print(f"for more: {more}", file=sys.stderr)
    return code


def show(options: argparse.Namespace) -> int:
    """Print one complete request."""
    with connect_as_approver() as http:
        record = find_request(http, split_revision(options.id)[0])
        if options.reveal:
            record = http.call("GET", f"/v1/requests/{record['request']['id']}?reveal=true")
        print(json.dumps(record) if options.json else format_request(record))
        return 0
