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
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import chain
from string import Template

from gateway import __version__
from gateway.domain.audit import GENESIS, HiddenEvent, Verification, hide_event, verify
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
_SIGNATURE = re.compile(r"<!-- signature ([A-Za-z0-9+/=]+) -->\n")
_HEADING = re.compile(r"<html lang=\"en\" data-line='([^']*)'>\n")
_ROW = re.compile(r"<tr[^>]* data-line='([^']*)'>.*\n")
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
        shown = {"event": event} if self.selects(hidden) else {"hidden": hidden}
        return json.dumps({kind: plain(one) for kind, one in shown.items()}, ensure_ascii=False)

    @property
    def words(self) -> str:
        """The scope as people read it."""
        if self.request_id:
            return f"request {self.request_id}"
        return f"{_moment(self.since)} to {_moment(self.until)} UTC"


def parse_scope(about: str) -> EvidenceScope:
    """Return the scope that an operator named: a quarter, the first and last day, or a request's
    id. Raises InvalidRequest for days that do not exist."""
    try:
        if found := _QUARTER.fullmatch(about):
            year, number = int(found[1]), int(found[2])
            first = datetime(year, 3 * number - 2, 1, tzinfo=UTC)
            after = datetime(year + number // 4, 3 * number % 12 + 1, 1, tzinfo=UTC)
        elif found := _DAYS.fullmatch(about):
            first, last = (datetime.fromisoformat(f"{day}T00:00Z") for day in found.groups())
            after = last + timedelta(days=1)
        else:
            return EvidenceScope(request_id=about)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(f'"{about}" is not a period: {error}') from error
    if first >= after:
        raise InvalidRequest(f'the period "{about}" ends before it begins')
    since, until = (int(one.timestamp()) * 1000 for one in (first, after))
    return EvidenceScope(since=since, until=until)


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportHeading(Wire):
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

    def __init__(self, heading: ReportHeading) -> None:
        self._heading = heading
        self._tally = EventTally()
        self.digests: set[str] = set()
        self.begun = False

    def top(self) -> list[str]:
        """Return the lines before the rows."""
        one = self._heading
        calls = "\n".join(json.dumps(call, ensure_ascii=False) for call in one.calls)
        told = plain(one) | {"scope": one.scope.words, "made": _moment(one.made), "calls": calls}
        values = {name: _escape(text) for name, text in told.items()}
        values["heading"] = html.escape(json.dumps(plain(one)))
        return Template(_ABOVE).substitute(values).split("\n")[:-1]

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
            if self._heading.calls:
                self.digests.add(str(event.data.get("digest")))
            self.begun = self.begun or event.revision == 1
            named = [f"request: {event.request_id}, revision {event.revision}"]
            cells = [_moment(event.at), say_event(event), *(named if event.request_id else [])]
            cells += list_facts(event)
        data = html.escape(line, quote=False).replace("'", "&#39;")
        told = [_escape(cell) for cell in cells]
        shown = "".join(f"<td>{cell}" for cell in (*told[:2], "<br>".join(told[2:])) if told)
        return f"<tr{'' if cells else ' hidden'} data-line='{data}'>{shown}</tr>"

    def bottom(self) -> list[str]:
        """Return the lines after the rows. For a period they show the figures of `gateway
        report`."""
        scope = self._heading.scope
        figures = () if scope.request_id else lines(self._tally.report(scope.since, scope.until))
        return Template(_BELOW).substitute(figures=_escape("\n".join(figures))).split("\n")[:-1]


def sign_report(digest: str, signer: Signer) -> str:
    """Return the last line of a report whose other lines have this SHA-256 in hex."""
    return f"<!-- signature {signer.sign(_PURPOSE + digest.encode())} -->"


def _escape(text: object) -> str:
    shown = "\n".join(make_visible(line).text for line in str(text).split("\n"))
    return html.escape(_MASK_DIGEST.sub("", shown))


def verify_report(file: Iterable[str], keys: str) -> Verification:
    """Check a report: its signature, the hash chain, that no event in its scope is missing, and
    that its text is made from the events. Its notes say what could not be checked.

    `file` yields lines with their line ends, and `keys` are public keys as for `Verifier`. Raises
    Unverified if they are unusable."""
    verifier, rest = Verifier(keys), iter(file)
    first = [next(rest, ""), next(rest, "")]
    try:
        if (found := _HEADING.fullmatch(first[1])) is None:
            raise InvalidRequest("its second line has no data")
        heading = build(ReportHeading, json.loads(html.unescape(found[1])))
        reader = _ReportReader(heading)
        checked = verify(reader.lines(chain(first, rest)), reader.selects)
        checked.problems += reader.find_problems(verifier, checked)
    except _DAMAGED as error:
        return Verification(problems=[f"this is not an evidence report: {error}"])
    checked.notes += reader.notes
    return checked


class _ReportReader:
    """Reads a report line by line, and draws it again from its data. Memory is constant."""

    def __init__(self, heading: ReportHeading) -> None:
        self._heading = heading
        self._page = ReportPage(heading)
        self._sum, self._drawn_sum = hashlib.sha256(), hashlib.sha256()
        self._last = ""
        self._places: list[int] = []  # when the first and the last event happened
        self._gaps: list[tuple[int, int]] = []
        self._lost = False
        self.notes = [f"{heading.scope.words}, made {_moment(heading.made)} UTC"]

    def lines(self, file: Iterable[str]) -> Iterator[str]:
        """Yield the line of the audit log in each row, and "" for the other lines."""
        self._draw(self._page.top())
        for raw in file:
            self._sum.update(self._last.encode())
            self._last = raw
            row = _ROW.fullmatch(raw)
            told = html.unescape(row[1]) if row else ""
            self._lost = self._lost or told.startswith('{"missing"')
            if told:
                with suppress(*_DAMAGED):  # `verify` says what is wrong with the line
                    self._draw([self._page.row(told)])
            yield told
        self._draw(self._page.bottom())

    def selects(self, event: HiddenEvent) -> bool:
        """Return whether the report must show the next event."""
        place = place_of(event.id)[0]
        if self._lost:
            self._gaps.append(((self._places or [self._heading.scope.since])[-1], place))
        self._places[1:] = [place]
        self._lost = False
        return self._heading.scope.selects(event)

    def find_problems(self, verifier: Verifier, found: Verification) -> Iterator[str]:
        """Yield what is wrong with the file, apart from the hash chain."""
        heading, digest = self._heading, self._sum.hexdigest()
        signature = _SIGNATURE.fullmatch(self._last)
        try:
            verifier.verify(_PURPOSE + digest.encode(), signature[1] if signature else None)
        except Unverified:
            yield "no key that you trust signed this file as it is"
        if heading.version != __version__:
            words = f"version {heading.version} made the text: only the signature covers it"
            self.notes.append(words)
        elif digest != self._drawn_sum.hexdigest():
            yield "the text differs from the events"
        yield from self._check_calls()
        if found.unsealed or not self._places:
            yield "the report does not end with a seal"
        elif not heading.scope.request_id:
            self._find_gaps(found.starts_at)
        elif not self._page.begun:
            yield f"the beginning of {heading.scope.words} is missing"
        for since, until in self._gaps:
            yield f"the audit log is missing from {_moment(since)} to {_moment(until)} UTC"

    def _check_calls(self) -> Iterator[str]:
        for call in self._heading.calls:
            if masks_in(call):
                self.notes.append("the call has masked secrets: only the signature covers it")
            elif action_digest(**call) not in self._page.digests:
                yield "the call differs from the digest in the events"

    def _find_gaps(self, starts_at: str) -> None:
        """Check that no event of the period is before the first or after the last event."""
        scope, made = self._heading.scope, self._heading.made
        first, last = self._places[0], self._places[-1]
        if first >= scope.since and starts_at != GENESIS:
            self._gaps.append((scope.since, first))
        if last < (end := min(scope.until, made)):
            self._gaps.append((last, end))
        if made < scope.until:
            self.notes.append("the period was not over when the report was made")

    def _draw(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._drawn_sum.update(f"{line}\n".encode())
