"""Search ended requests and events, and read the audit log for a report. There is no index.

A search compares only text that a card shows. If it also compared masked text, a person without
access to a secret could guess the secret letter by letter.
"""

from __future__ import annotations

import asyncio
from itertools import chain

from gateway.cards.blocks import blocks_of, draw, weight_of
from gateway.cards.summary import plain_summary, summarize
from gateway.domain.event_sentences import list_facts, name_event, say_event
from gateway.domain.records import AuditEvent, Query, StoredRequest
from gateway.domain.redaction import render_safe
from gateway.domain.statistics import EventTally, PeriodReport
from gateway.domain.store import Store
from gateway.errors import InvalidRequest
from gateway.ports.adapter_api import Found, FoundEvents, Search

_MOST = 1_000  # limit of one search
_MOST_EVENTS = 2_000
_PAGE = 50


async def search_requests(store: Store, search: Search) -> Found:
    """Return the ended requests that match, newest first. Continues at `Search.after`."""
    found: list[StoredRequest] = []
    looked, after = 0, search.after
    while True:
        page = await store.page(Query(final=True, after=after, limit=_PAGE))
        for record in page.items:
            if await _fits(record, search):
                found.append(record)
            await asyncio.sleep(0)  # a long search must not delay clicks
        looked, after = looked + len(page.items), page.next
        full = len(found) >= _PAGE or looked >= _MOST
        if after is None or full or _is_past(page.items, search):
            return Found(items=tuple(found), looked=looked, next=after)


async def search_events(store: Store, search: Search) -> FoundEvents:
    """Return the newest events that match."""
    events = await store.latest(_MOST_EVENTS)
    found: list[AuditEvent] = []
    for event in reversed(events):
        if _event_fits(event, search):
            found.append(event)
        if len(found) > _PAGE:
            break
        await asyncio.sleep(0)
    more = len(found) > _PAGE or len(events) == _MOST_EVENTS
    shown = tuple(found[:_PAGE])
    told = tuple([await tell_event(store, event) for event in shown])
    return FoundEvents(items=shown, sentences=told, looked=len(events), more=more)


async def tell_event(store: Store, event: AuditEvent) -> str:
    """Return a sentence that describes an event and the call of its request."""
    record = await store.load(event.request_id) if event.request_id else None
    if record is None:
        return say_event(event)
    about = await draw(lambda: plain_summary(summarize(record)), *weight_of(record))
    return say_event(event, about, record.created)


async def _fits(record: StoredRequest, search: Search) -> bool:
    decision = record.decision
    names = {vote.person for vote in record.votes}
    if decision is not None and decision.decided_by.name:
        names.add(decision.decided_by.name)
    return (
        search.agent in ("", record.request.agent)
        and search.outcome in ("", record.status.value)
        and (not search.who or search.who in names)
        and _is_within(decision.decided_at if decision else record.created, search)
        and (not search.text or await draw(lambda: _says(record, search.text), *weight_of(record)))
    )


def _says(record: StoredRequest, text: str) -> bool:
    """Return whether the card of a request contains the searched text."""
    request, decision = record.request, record.decision
    own = (request.tool, request.session, request.hint, request.context.host, request.context.cwd)
    more = (record.note, decision.message if decision else "", record.id, record.digest)
    told = (record.show(one).text for one in (*own, *more) if one)
    blocks = (block.text.text for block in blocks_of(record))
    wanted = text.casefold()
    return any(
        wanted in one.casefold() for one in chain((plain_summary(summarize(record)),), told, blocks)
    )


def _event_fits(event: AuditEvent, search: Search) -> bool:
    return (
        search.agent in ("", event.agent)
        and search.outcome.casefold() in ("", event.type, name_event(event.type))
        and (not search.who or search.who in _actors(event))
        and _is_within(event.at, search)
        and (not search.text or search.text.casefold() in _tell(event).casefold())
    )


def _actors(event: AuditEvent) -> tuple[object, ...]:
    """Return who caused an event. Different kinds of events store this in different members."""
    data = event.data
    decided, votes = data.get("decided_by") or {}, data.get("votes") or [{}]
    return data.get("person"), data.get("by"), decided.get("name"), votes[-1].get("person")


def _tell(event: AuditEvent) -> str:
    """Return the text of an event as people see it, without secrets."""
    facts = "\n".join(render_safe(fact).text for fact in list_facts(event))
    told = f"{event.type} {name_event(event.type)} {event.agent} {event.request_id}"
    return f"{told}\n{render_safe(say_event(event)).text}\n{facts}"


def _is_within(at: int, search: Search) -> bool:
    return (search.since is None or at >= search.since) and (
        search.until is None or at < search.until
    )


def _is_past(items: tuple[StoredRequest, ...], search: Search) -> bool:
    """Return whether all earlier requests ended before the searched period."""
    since = search.since
    return since is not None and bool(items) and _ended_at(items[-1]) < since


def _ended_at(record: StoredRequest) -> int:
    return record.decision.decided_at if record.decision else record.created


# Report: reads the audit log page by page.

DAY_MS = 86_400_000
DEFAULT_DAYS = 30

_REPORT_QUERY_PAGE = 500
_LAST = 2**64 - 1  # highest sequence number within a millisecond


async def read_report(
    store: Store, now: int, *, since: int | None = None, until: int | None = None
) -> PeriodReport:
    """Return the report of a period, by default the 30 days before `now`.

    Raises InvalidRequest if the period ends before it begins.
    """
    # Include events of the current millisecond.
    until = now + 1 if until is None else until
    since = max(1, until - DEFAULT_DAYS * DAY_MS) if since is None else since
    if not 0 < since <= until:
        raise InvalidRequest("the period ends before it begins")
    tally, cursor = EventTally(), f"{since - 1}-{_LAST}"
    while events := await store.history(cursor, _REPORT_QUERY_PAGE):
        for event in events:
            if event.at >= until:
                return tally.report(since, until)
            tally.take(event)
        cursor = events[-1].id
        await asyncio.sleep(0)  # a long report must not delay clicks
    return tally.report(since, until)
