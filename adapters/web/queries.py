"""Handle the inbox's reads: the queue, one request, searches, sessions, the signed-in person; start
with ReadHandlers."""

from __future__ import annotations

import asyncio
import re

from aiohttp import web

from adapters.web.cards import (
    Rows,
    Viewer,
    add_viewer,
    build_line,
    build_row,
    build_short_row,
    build_switch,
    build_whole,
)
from adapters.web.grants import build_grant_row
from adapters.web.security import (
    Guard,
    Handlers,
    Visitor,
    VisitRefused,
    build_csrf_token,
    build_seen_token,
    read,
)
from gateway.cards.blocks import draw, weight_of
from gateway.cards.grant_cards import GrantCard, grant_card_of
from gateway.cards.remember_options import (
    LIFETIMES_BY_LENGTH,
    PASS_LIFETIME_WORDS,
    ROLES_ON_CARDS,
    USUAL_LIFETIME,
)
from gateway.cards.shared_texts import ANOTHER_PLAN, DENIALS
from gateway.chat.remembering import Remembering
from gateway.ports import (
    AdapterApi,
    AuditEvent,
    Grant,
    Identity,
    JsonObject,
    QueueCounts,
    QueueFilter,
    Search,
    StoredRequest,
    list_facts,
    name_event,
    plain,
    render_safe,
)


class ReadHandlers(Handlers):
    """HTTP handlers of requests, sessions and the signed-in person."""

    def __init__(self, api: AdapterApi, guard: Guard) -> None:
        super().__init__(api, guard)
        self._rows = Rows(build_row)
        self._remembering = Remembering(api)

    async def build_row(self, record: StoredRequest, visitor: Visitor) -> JsonObject:
        """Return a request as a row of the list, as this visitor sees it."""
        return await self._for_visitor(await self._rows.build(record), record, visitor)

    async def build_whole(
        self, record: StoredRequest, visitor: Visitor, *, reveal: bool = False
    ) -> JsonObject:
        """Return everything about a request, as this visitor sees it; `reveal` adds its secrets."""
        view = await draw(lambda: build_whole(record, reveal=reveal), *weight_of(record))
        return await self._for_visitor(view, record, visitor)

    @read("/inbox/api/me")
    async def _me(self, _: web.Request, visitor: Visitor) -> web.Response:
        person = await self._api.requests.person(visitor.identity)
        status = await self._api.operator.status(visitor.identity)
        told = {
            "name": await self._find_name(visitor),
            "csrf": build_csrf_token(visitor.session),
            "lifetimes": LIFETIMES_BY_LENGTH,
            "usual": USUAL_LIFETIME,
            "roles": ROLES_ON_CARDS,
            "another_plan": ANOTHER_PLAN,
            "denials": DENIALS,
            "pass_lifetimes": {
                name: words
                for name, words in LIFETIMES_BY_LENGTH.items()
                if name in PASS_LIFETIME_WORDS
            },
            "admin": person is not None and person.admin and not person.auditor,
            "auditor": person is not None and person.auditor,
            "switch": build_switch(status.switch),
            "troubles": status.troubles,
        }
        return web.json_response(told)

    @read("/inbox/api/requests/{id}")
    async def _one(self, request: web.Request, visitor: Visitor) -> web.Response:
        record = await self._api.requests.get(request.match_info["id"])
        whole = request.query.get("whole") == "1"
        view = await (self.build_whole if whole else self.build_row)(record, visitor)
        return web.json_response(await self.look_back(view, record, visitor))

    async def look_back(
        self, view: JsonObject, record: StoredRequest, visitor: Visitor
    ) -> JsonObject:
        """Add the preselected scope and a suggestion, if the person's earlier decisions justify
        them."""
        offered = {one["id"]: "" for one in view["remember"]["approve"]}
        if not (view["mine"] and offered):
            return view
        found = await self._remembering.suggest(visitor.identity, record)
        usual = found.offer if found else await self._remembering.find_usual(record, offered)
        if usual not in offered:
            return view
        return {**view, "usual": usual, "suggested": found and found.text}

    async def _for_visitor(
        self, view: JsonObject, record: StoredRequest, visitor: Visitor
    ) -> JsonObject:
        look = await self._find_viewer(record, visitor)
        mine = await is_mine(self._api, record, visitor.identity)
        links = await self._api.messages.link_all(record)
        seen = _add_seen_token(add_viewer(view, record, look), visitor)
        return {**seen, "mine": mine, "links": list(links.items())}

    @read("/inbox/api/requests/{id}/reach")
    async def _reach(self, request: web.Request, visitor: Visitor) -> web.Response:
        """Describe in a sentence which past requests an offered scope matches."""
        offer = request.query.get("offer", "")
        record = await self._api.requests.get(request.match_info["id"])
        reach = {offer: await self._api.requests.reach(record.id, offer)}
        await self._remembering.find_usual(record, reach)
        return web.json_response({"words": reach[offer]})

    @read("/inbox/api/sessions")
    async def _sessions(self, _: web.Request, visitor: Visitor) -> web.Response:
        rows = await self._api.operator.list_sessions(None)
        items = [
            {
                "agent": row.agent,
                "name": row.name,
                "shown": build_line(render_safe(row.name).segments),
                "last_seen": row.last_seen,
            }
            for row in rows
        ]
        stopped = [
            {
                "agent": one.agent,
                "name": "",
                "shown": "in a cool-down after too many denials in a row",
                "last_seen": one.until,
                "paused": True,
            }
            for one in (await self._api.operator.status()).paused
        ]
        return web.json_response({"items": [*stopped, *items]})

    async def _find_name(self, visitor: Visitor) -> str:
        return await find_name(self._api, visitor.identity)

    async def _find_viewer(self, record: StoredRequest, visitor: Visitor) -> Viewer:
        name = await self._find_name(visitor)
        if record.final:
            return Viewer(name=name)
        requests, who = self._api.requests, visitor.identity
        refusal = await requests.may_decide(who, record)
        return Viewer(name=name, refusal=refusal, may_pass=await requests.may_pass(who, record))

    @read("/inbox/api/report")
    async def _report(self, _: web.Request, visitor: Visitor) -> web.Response:
        """Return the figures of the report for the last 30 days."""
        return web.json_response(plain(await self._api.operator.report(visitor.identity)))

    @read("/inbox/api/operations")
    async def _operations(self, _: web.Request, visitor: Visitor) -> web.Response:
        """Return the state of all gateways, for admins. Escape deceptive characters in names."""
        found = await self._api.inspect(visitor.identity)
        switch = build_switch((await self._api.operator.status()).switch)
        checks = [
            {**plain(one), "says": build_line(render_safe(one.says).segments)}
            for one in found.checks
        ]
        return web.json_response({**plain(found), "checks": checks, "switch": switch})


async def find_name(api: AdapterApi, identity: Identity) -> str:
    """Return the name under which a person votes."""
    person = await api.requests.person(identity)
    return person.name if person else identity.written


async def is_mine(api: AdapterApi, record: StoredRequest, identity: Identity) -> bool:
    """Return whether a pending request needs this person, who may decide it and has not voted
    yet."""
    if record.final or await api.requests.may_decide(identity, record) is not None:
        return False
    name = await find_name(api, identity)
    return all(vote.person != name for vote in record.votes)


def _add_seen_token(view: JsonObject, visitor: Visitor) -> JsonObject:
    """Add the token that approval requires, if the view shows the complete request."""
    whole = view["status"] == "pending" and view["complete"] and not view["hides"]
    revealed = bool(view.get("revealed"))
    seen = (
        build_seen_token(visitor.session, view["id"], view["revision"], revealed=revealed)
        if whole
        else None
    )
    return {**view, "seen": seen}


# The queue: short rows, the soonest deadline first, each with whether the visitor must decide it.

_CURSOR = re.compile(r"[0-9]{1,20}-[0-9a-f]{32}")
_MOMENT = re.compile(r"[0-9]{1,20}")
_PAGE = 50


class QueueHandlers(Handlers):
    """HTTP handlers of the queue."""

    def __init__(self, api: AdapterApi, guard: Guard) -> None:
        super().__init__(api, guard)
        self._rows = Rows(build_short_row)

    @read("/inbox/api/queue")
    async def _page(self, request: web.Request, visitor: Visitor) -> web.Response:
        """Return one page of one side of the queue. A separate call counts the requests, because
        counting takes longer."""
        side, after = request.query.get("side", QueueFilter.MINE), check_cursor(request)
        if side not in list(QueueFilter):
            raise VisitRefused(422, "invalid_request", "side must be mine, others or all")
        page = await self._api.requests.list_queue(
            visitor.identity, QueueFilter(side), after=after, limit=_PAGE
        )
        items = []
        for record in page.items:
            items.append(await self._build(record, visitor))
            await asyncio.sleep(0)  # let clicks run between rows
        return web.json_response({"items": items, "next": page.next})

    @read("/inbox/api/queue/counts")
    async def _count(self, request: web.Request, visitor: Visitor) -> web.Response:
        """Return the counts; `since` is the time of the newest request that the page knows."""
        since = request.query.get("since", "0")
        if not _MOMENT.fullmatch(since):
            raise VisitRefused(422, "invalid_request", "since must be a time in milliseconds")
        counts = await self._api.requests.count_queue(visitor.identity, since=int(since))
        return web.json_response(build_counts(counts))

    @read("/inbox/api/queue/{id}")
    async def _row(self, request: web.Request, visitor: Visitor) -> web.Response:
        """Return one request as a row, even if the request has ended."""
        record = await self._api.requests.get(request.match_info["id"])
        return web.json_response(await self._build(record, visitor))

    async def _build(self, record: StoredRequest, visitor: Visitor) -> JsonObject:
        row = await self._rows.build(record)
        return {**row, "mine": await is_mine(self._api, record, visitor.identity)}


def check_cursor(request: web.Request) -> str | None:
    """Return the cursor after which a page continues. Raises VisitRefused if the cursor is
    malformed."""
    after = request.query.get("after")
    if after is not None and not _CURSOR.fullmatch(after):
        raise VisitRefused(
            422, "invalid_request", "after must be the value of `next` from an earlier page"
        )
    return after


def build_counts(counts: QueueCounts) -> JsonObject:
    """Convert the counts to JSON."""
    return {
        "mine": counts.mine,
        "others": counts.others,
        "more": counts.more,
        "fresh": counts.fresh,
        "newest": counts.newest,
    }


# Searches of ended requests, grants and audit events, by query parameters.

_TEXT_CHARS = 200
_SEARCHES_MOMENT = re.compile(r"[0-9]{1,15}")
_MOST_GRANTS = 500


class SearchHandlers(Handlers):
    """HTTP handlers of the searches. The core checks who may read the audit."""

    def __init__(self, api: AdapterApi, guard: Guard, reading: ReadHandlers) -> None:
        super().__init__(api, guard)
        self._reading = reading

    @read("/inbox/api/final")
    async def _history(self, request: web.Request, visitor: Visitor) -> web.Response:
        """Return ended requests that match the search, newest first."""
        found = await self._api.requests.search(_read_search(request))
        items = []
        for record in found.items:
            items.append(await self._reading.build_row(record, visitor))
            await asyncio.sleep(0)  # let clicks run between rows
        return web.json_response({"items": items, "looked": found.looked, "next": found.next})

    @read("/inbox/api/audit")
    async def _audit(self, request: web.Request, visitor: Visitor) -> web.Response:
        """Return the newest audit events that match the search, for admins."""
        found = await self._api.requests.search_events(visitor.identity, _read_search(request))
        items = list(map(_build_event, found.items, found.sentences))
        return web.json_response({"items": items, "looked": found.looked, "more": found.more})

    @read("/inbox/api/grants")
    async def _grants(self, request: web.Request, visitor: Visitor) -> web.Response:
        """Return active and recently ended grants that match the search."""
        search = _read_search(request)
        live, ended = await self._api.grants.newest(), await self._api.grants.newest(ended=True)
        items = []
        for grant in (*live, *ended):
            card = grant_card_of(grant)
            if _grant_fits(grant, card, search):
                items.append(build_grant_row(grant, card))
        looked = len(live) + len(ended)
        return web.json_response(
            {"items": items, "looked": looked, "more": len(live) >= _MOST_GRANTS}
        )


def _read_search(request: web.Request) -> Search:
    """Parse the query parameters of a search. Raises VisitRefused."""
    query = request.query
    texts = {name: query.get(name, "").strip() for name in ("text", "agent", "outcome", "who")}
    if any(len(text) > _TEXT_CHARS for text in texts.values()):
        raise VisitRefused(
            422, "invalid_request", f"a search field can have at most {_TEXT_CHARS} characters"
        )
    times: dict[str, int | None] = {}
    for name in ("since", "until"):
        given = query.get(name, "")
        if given and not _SEARCHES_MOMENT.fullmatch(given):
            raise VisitRefused(422, "invalid_request", f"{name} must be a time in milliseconds")
        times[name] = int(given) if given else None
    return Search(**texts, since=times["since"], until=times["until"], after=check_cursor(request))


def _grant_fits(grant: Grant, card: GrantCard, search: Search) -> bool:
    shown = " ".join((card.words.text, card.tool.text, *(one.text.text for one in card.facts)))
    state = "ended" if card.ended else "suspended" if grant.outdated is not None else "in force"
    at = grant.made_at
    return (
        search.text.casefold() in shown.casefold()
        and search.agent in ("", grant.agent)
        and search.outcome in ("", state)
        and search.who in ("", grant.made_by)
        and (search.since is None or at >= search.since)
        and (search.until is None or at < search.until)
    )


def _build_event(event: AuditEvent, sentence: str) -> JsonObject:
    """Return an audit event as a row. Escape deceptive characters in agents' text, and mask
    secrets."""
    return {
        "id": event.id,
        "at": event.at,
        "type": name_event(event.type),
        "sentence": build_line(render_safe(sentence).segments),
        "request": event.request_id,
        "facts": [build_line(render_safe(fact).segments) for fact in list_facts(event)],
    }
