"""Make and check evidence reports about a request or a period. To see how a report is checked,
start reading at `verify_report`.

A report is one HTML file. Each row of its table holds one line of the audit log as data, and the
text that people read is made from that data. Events of other requests are hidden: their rows hold
only a hash, so the hash chain still verifies. The last line is a signature of all lines before it.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from itertools import chain
from string import Template

from gateway import __version__
from gateway.domain.audit import (
    GENESIS,
    HiddenEvent,
    Verification,
    event_line,
    hidden_line,
    hide_event,
    verify,
)
from gateway.domain.event_sentences import list_facts, say_event
from gateway.domain.records import AuditEvent, place_of
from gateway.domain.redaction import masks_in
from gateway.domain.safe_text import make_visible
from gateway.domain.statistics import EventTally, lines
from gateway.errors import InvalidRequest, Unverified
from gateway.wire.canonical_json import action_digest
from gateway.wire.codec import JsonObject, Wire, build, plain
from gateway.wire.signatures import Signer, Verifier

FIRST_LINE = "<!doctype html>"
_PURPOSE = b"approval-gateway evidence 1\n"  # no signed decision begins like this
_SIGNATURE = re.compile(r"<!-- signature ([A-Za-z0-9+/=]+) -->")
_DATA = re.compile(r"<(?:tr|html)[^>]* data-line='([^']*)'>.*")
_QUARTER = re.compile(r"(\d{4})Q([1-4])")
_DAYS = re.compile(r"(\d{4}-\d\d-\d\d)\.\.(\d{4}-\d\d-\d\d)")
_MASK_DIGEST = re.compile(r", digest [0-9a-f]{8}…(?=⟩)")  # another machine masks with another key
_DAMAGED = (
    *(ArithmeticError, AttributeError, InvalidRequest, LookupError, RecursionError),
    *(StopIteration, TypeError, ValueError),
)
_ABOVE, _, _BELOW = (
    files("gateway.domain").joinpath("evidence.html").read_text("utf-8").partition("$rows\n")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceScope(Wire):
    """The events of a report: those about one request, or those from `since` to before `until`."""

    request_id: str = ""
    since: int = 0
    until: int = 0

    def selects(self, event: HiddenEvent) -> bool:
        """Return whether the report must show an event."""
        if self.request_id:
            return event.request_id == self.request_id
        return self.since <= place_of(event.id)[0] < self.until

    def line(self, event: AuditEvent) -> str:
        """Return an event as a line of the report."""
        hidden = hide_event(event)
        return event_line(event) if self.selects(hidden) else hidden_line(hidden)

    @property
    def words(self) -> str:
        """The scope as people read it."""
        return (
            f"request {self.request_id}"
            if self.request_id
            else (f"{_moment(self.since)} to {_moment(self.until)} UTC")
        )


def parse_scope(about: str) -> EvidenceScope:
    """Return the scope that an operator named: a quarter, the first and last day, or a request's
    id. Raises InvalidRequest for days that do not exist."""
    try:
        if found := _QUARTER.fullmatch(about):
            year, number = int(found[1]), int(found[2])
            first = date(year, 3 * number - 2, 1)
            after = date(year + number // 4, 3 * number % 12 + 1, 1)
        elif found := _DAYS.fullmatch(about):
            first, last = map(date.fromisoformat, found.groups())
            after = last + timedelta(days=1)
        else:
            return EvidenceScope(request_id=about)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(f'"{about}" is not a period: {error}') from error
    since, until = (
        int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
        for day in (first, after)
    )
    if since >= until:
        raise InvalidRequest(f'the period "{about}" ends before it begins')
    return EvidenceScope(since=since, until=until)


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading(Wire):
    """What a report says before its table. `calls` are the call of a request and its edit, in the
    members that the action digest covers, with secrets masked."""

    scope: EvidenceScope
    made: int
    namespace: str
    public_key: str
    version: str
    calls: tuple[JsonObject, ...] = ()


class ReportPage:
    """Draws a report from its heading and the lines of the audit log. The same input gives the same
    bytes, so a reader can check the text."""

    def __init__(self, heading: Heading) -> None:
        self._heading = heading
        self._tally = EventTally()
        self.digests: set[str] = set()
        self.begun = False

    def top(self) -> list[str]:
        """Return the lines before the rows."""
        one = self._heading
        calls = "\n".join(json.dumps(call, ensure_ascii=False) for call in one.calls)
        values = {"scope": one.scope.words, "made": _moment(one.made), "calls": calls}
        values |= {"namespace": one.namespace, "version": one.version}
        values |= {"public_key": one.public_key}
        told = {name: _escape(text) for name, text in values.items()}
        told["heading"] = html.escape(json.dumps(plain(one)))
        return Template(_ABOVE).substitute(told).split("\n")[:-1]

    def row(self, line: str) -> str:
        """Return the row for a line of the audit log. Raises an error of `_DAMAGED` for other
        lines."""
        kind, body = next(iter(json.loads(line).items()))
        cells: list[str] = []
        if kind == "missing":
            cells = ["missing", f"segment {body['segment']} of the audit log", str(body["why"])]
        elif kind == "event":
            event = build(AuditEvent, body)
            self._tally.take(event)
            self.digests.add(str(event.data.get("digest")))
            self.begun = self.begun or event.revision == 1
            named = [f"request: {event.request_id}, revision {event.revision}"]
            facts = [*(named if event.request_id else []), *list_facts(event)]
            cells = [_moment(event.at), say_event(event), *facts]
        data = html.escape(line, quote=False).replace("'", "&#39;")
        told = (
            f"<td>{'<td>'.join(map(_escape, cells[:2]))}<td>{'<br>'.join(map(_escape, cells[2:]))}"
        )
        return f"<tr{'' if cells else ' hidden'} data-line='{data}'>{told if cells else ''}</tr>"

    def bottom(self) -> list[str]:
        """Return the lines after the rows. For a period they show the figures of `gateway
        report`."""
        scope = self._heading.scope
        figures = () if scope.request_id else lines(self._tally.report(scope.since, scope.until))
        return Template(_BELOW).substitute(figures=_escape("\n".join(figures))).split("\n")[:-1]


def sign_report(digest: str, signer: Signer) -> str:
    """Return the last line of a report whose other lines have this SHA-256 in hex."""
    return f"<!-- signature {signer.sign(_PURPOSE + digest.encode())} -->"


def _escape(text: str) -> str:
    shown = "\n".join(make_visible(line).text for line in text.split("\n"))
    return html.escape(_MASK_DIGEST.sub("", shown))


def verify_report(file: Iterable[str], keys: str) -> Verification:
    """Check a report: its signature, the hash chain, that no event in its scope is missing, and
    that its text is made from the events. Its notes say what could not be checked.

    `file` yields lines with their line ends, and `keys` are public keys as for `Verifier`. Raises
    Unverified if they are unusable."""
    reader = _ReportReader(Verifier(keys))
    try:
        reader.check(iter(file))
    except _DAMAGED as error:
        reader.problems.append(f"this is not an evidence report: {error}")
    reader.found.problems += reader.problems
    return reader.found


class _ReportReader:
    """Reads a report line by line, in constant memory."""

    def __init__(self, verifier: Verifier) -> None:
        self.found = Verification()
        self.problems: list[str] = []
        self._verifier = verifier
        self._sum = hashlib.sha256()
        self._frame: list[str] = []
        self._last = ""
        self._places: list[int] = []  # when the first and the last event happened
        self._lost = False

    def check(self, file: Iterator[str]) -> None:
        """Check the whole file."""
        first = [next(file, ""), next(file, "")]
        if (found := _DATA.fullmatch(first[1].rstrip("\n"))) is None:
            raise InvalidRequest("its second line has no data")
        heading = build(Heading, json.loads(html.unescape(found[1])))
        page, scope = ReportPage(heading), heading.scope

        def selects(event: HiddenEvent) -> bool:
            place = place_of(event.id)[0]
            if self._lost:
                self._tell_gap(self._places[-1] if self._places else scope.since, place)
            self._places[1:] = [place]
            self._lost = False
            return scope.selects(event)

        self.found = verify(self._lines(chain(first, file), page, heading.version), selects)
        self.found.notes.append(f"{scope.words}, made {_moment(heading.made)} UTC")
        self._check_text(page, heading)
        self._check_ends(page, heading)

    def _lines(self, file: Iterable[str], page: ReportPage, version: str) -> Iterator[str]:
        """Yield the line of the audit log in each row, and "" for the other lines."""
        above = len(page.top())
        for number, raw in enumerate(file, start=1):
            self._sum.update(self._last.encode())
            self._last, line = raw, raw.removesuffix("\n")
            row = _DATA.fullmatch(line) if number > above else None
            if row is None:
                self._frame.append(line)
                yield ""
                continue
            told = html.unescape(row[1])
            self._lost = self._lost or told.startswith('{"missing"')
            try:
                drawn = page.row(told)
            except _DAMAGED:
                drawn = ""  # `verify` says what is wrong with the line
            if len(self._frame) != above or (version == __version__ and drawn != line):
                self.problems.append(f"line {number}: the text differs from the event")
            yield told

    def _check_text(self, page: ReportPage, heading: Heading) -> None:
        """Check the text outside the rows, and the signature over all."""
        notes = self.found.notes
        if heading.version != __version__:
            notes.append(f"version {heading.version} made the text: only the signature covers it")
        elif self._frame[:-1] != page.top() + page.bottom():
            self.problems.append("the text outside the table differs from the events")
        for call in heading.calls:
            if masks_in(call):
                notes.append("the call has masked secrets: only the signature covers its text")
            elif action_digest(**call) not in page.digests:
                self.problems.append("the call differs from the digest in the events")
        signature = _SIGNATURE.fullmatch(self._last.removesuffix("\n"))
        try:
            message = _PURPOSE + self._sum.hexdigest().encode()
            self._verifier.verify(message, signature[1] if signature else None)
        except Unverified:
            self.problems.append("no key that you trust signed this file as it is")

    def _check_ends(self, page: ReportPage, heading: Heading) -> None:
        """Check that the first and the last event of the scope are in the file."""
        scope, (first, *_, last) = heading.scope, (self._places or [0]) * 2
        if self.found.unsealed or not self._places:
            self.problems.append("the report does not end with a seal")
        elif self._lost:
            self._tell_gap(last, heading.made)
        elif scope.request_id:
            if not page.begun:
                self.problems.append(f"the beginning of {scope.words} is missing")
        else:
            if first >= scope.since and self.found.starts_at != GENESIS:
                self._tell_gap(scope.since, first)
            if last < (end := min(scope.until, heading.made)):
                self._tell_gap(last, end)
            if heading.made < scope.until:
                self.found.notes.append("the period was not over when the report was made")

    def _tell_gap(self, since: int, until: int) -> None:
        span = f"{_moment(since)} to {_moment(until)} UTC"
        self.problems.append(f"the audit log is missing from {span}")
