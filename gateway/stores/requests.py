"""Redis store for requests (`RedisStore`): one hash per request, one script per transition."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from gateway.domain.health_and_metrics import StoreFigures
from gateway.domain.policy_document import Budget, PolicyDocument
from gateway.domain.records import (
    SCHEMA_VERSION,
    AgentLoad,
    AuditEvent,
    Page,
    Paused,
    Query,
    Session,
    Spend,
    StoredRequest,
    duplicate_key,
    overflow_of,
)
from gateway.domain.redaction import mask
from gateway.domain.store import REROUTING, Due, MessageContext, Transition, WriteResult
from gateway.errors import Conflict
from gateway.models import MAX_LIFE_SECONDS, RiskLevel
from gateway.ports.operations import RunningGateway
from gateway.stores.archive_folder import Archive, AuditHistory
from gateway.stores.connect import each
from gateway.stores.ingress import REPLICA_LEASE_MS, REPLICA_SEPARATOR
from gateway.stores.keys import Keys
from gateway.stores.record_codec import GENERATION, NUMBER_FIELD, Recent, dumps, policy_of
from gateway.stores.scripts import (
    DECIDED_MS,
    At,
    Script,
    changes,
    ignore_step,
    lease_of,
    refuse_to_write,
    submission,
)
from gateway.wire.codec import JsonObject, plain
from gateway.wire.redis_connection import Multiplexer
from gateway.wire.schema import AGENT_NAME, digest_process

_SCAN_PAGES = 20
_AT_ONCE = 500


def _cursor(request_id: str, score: float) -> str:
    """Return a cursor built from the index's score, which is the server's time and not a
    gateway's."""
    return f"{score:.0f}-{request_id}"


def _fits(record: StoredRequest, query: Query) -> bool:
    return (
        (query.followers or not record.follows)
        # The index of deadlines also contains approvals that no process has claimed yet.
        and not (query.soonest and record.final)
        and query.status in (None, record.status)
        and query.agent in (None, record.request.agent)
        and query.session in (None, record.request.session)
    )


STREAMS_PER_SHARD = 50
_FIRST_SHARDS = 8  # so many replicas can share the work for the first agents
# As long as a rejected submission may overlap with one that is stored.
_PROBE_MS = 10_000
_UNSTORED_SECONDS = 3600
_WINDOW_PARTS = 60  # as in shared_functions.lua


class AppliedFile(NamedTuple):
    """The digest of the last applied policy file, and who applied the active policy."""

    digest: str
    by: str


class RedisStore:
    """Implements `gateway.domain.store.WritableStore` for one namespace of a Redis or Valkey
    server.

    `redis` is a redis.asyncio client (single, Sentinel or Cluster) that decodes responses. If
    `line` is set, scripts run over that connection. `at` is called before and after each script.
    `at_once` limits how many requests are updated in one step when a process disappears.
    """

    def __init__(
        self,
        redis: Any,
        keys: Keys | None = None,
        at: At = ignore_step,
        line: Multiplexer | None = None,
        *,
        at_once: int = 500,
        archive: Archive | None = None,
    ) -> None:
        self.archive = archive
        self.redis, self.keys, self.at = redis, keys or Keys(), at
        self.audit = AuditHistory(redis, self.keys, archive)
        self.line, self._at_once, self._recent = line or redis, at_once, Recent()
        self._submit, self._change = Script("submit_request", at), Script("change_requests", at)
        self._attach, self._answer = Script("attach_process", at), Script("answer_message", at)
        self._due, self._expire_process = Script("find_due", at), Script("expire_process", at)
        self._apply, self._note = Script("apply_policy", at), Script("append_event", at)
        self._register, self._schema = Script("register_agent", at), Script("mark_schema", at)

    async def together(self, *commands: Sequence[str]) -> list[Any]:
        """Send commands together and return their replies. Other clients' commands may run between
        them."""
        if isinstance(self.line, Multiplexer):
            return await self.line.send_all(*commands)
        pipeline = self.redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        return list(await pipeline.execute())

    async def load(self, request_id: str) -> StoredRequest | None:
        """Return the current record, or None."""
        [found] = await self.together(("HGETALL", self.keys.record(request_id)))
        # The shared connection returns names and values in turn.
        fields = found if isinstance(found, dict) else dict(zip(*[iter(found)] * 2, strict=True))
        return self._recent.read(request_id, fields)

    def recent(self, request_id: str) -> StoredRequest | None:
        """Return a pending record as this process last saw it. See `domain.store.Store`."""
        return self._recent.get(request_id)

    async def load_many(self, request_ids: Sequence[str]) -> list[StoredRequest | None]:
        """Return the records in the given order, in one round trip. See `domain.store`."""
        pipeline = self.redis.pipeline(transaction=False)
        for request_id in request_ids:
            pipeline.hgetall(self.keys.record(request_id))
        found = await pipeline.execute() if request_ids else []
        return [
            self._recent.read_if_legible(request_id, fields)
            for request_id, fields in zip(request_ids, found, strict=True)
        ]

    async def create(
        self,
        record: StoredRequest,
        origin: MessageContext,
        *,
        generation: int,
        data: JsonObject,
        timeout_ms: int,
        budget: Budget,
        posts: bool,
        number: str = "",
    ) -> tuple[WriteResult, StoredRequest]:
        """Create a record. The server's clock sets its deadline. See `domain.store`."""
        call = submission(
            self.keys,
            record,
            origin,
            generation=generation,
            data=data,
            timeout_ms=timeout_ms,
            budget=budget,
            posts=posts,
        )
        if number:
            call.keep_number(number)
        answer = await self._submit.run(self.line, call.keys, call.arguments)
        result = WriteResult(answer[0])
        if result is WriteResult.CLOCK:
            return result, record.copy_with(created=int(answer[1]))
        if result is WriteResult.DENIED:
            return result, record.copy_with(behind=answer[1])
        if result is not WriteResult.OK:
            return result, record
        created, deadline = int(answer[1]), int(answer[2])
        stored = record.copy_with(created=created, deadline=deadline, behind=answer[3])
        self._recent.keep(stored, call.letters)
        return result, stored

    async def change(
        self, transition: Transition, origin: MessageContext | None = None
    ) -> WriteResult:
        """Apply a transition if its conditions hold. See `domain.store`."""
        self._recent.forget(transition.before.id)
        call = changes(self.keys, [transition], origin)
        return WriteResult((await self._change.run(self.line, *call))[0])

    async def change_all(self, transitions: Sequence[Transition]) -> tuple[WriteResult, str]:
        """Apply all transitions or none. See `domain.store`."""
        for one in transitions:
            self._recent.forget(one.before.id)
        answer = await self._change.run(self.line, *changes(self.keys, transitions))
        which = int(answer[2])
        return WriteResult(answer[0]), transitions[which - 1].before.id if which else ""

    async def attach(self, request_ids: Sequence[str], origin: MessageContext) -> list[str]:
        """Attach a process to requests, renew its lease, and reply for each request. Return the IDs
        that it may see."""
        answers = await self._attach_once(request_ids, origin, known=not request_ids)
        if answers == ["lapsed"]:
            # The process was marked as gone while it was away. Attach it to its pending requests
            # again.
            request_ids = await self._find_forsaken(origin)
            answers = await self._attach_once(request_ids, origin)
        return [found for found, seen in zip(request_ids, answers, strict=True) if seen]

    async def _attach_once(
        self, request_ids: Sequence[str], origin: MessageContext, *, known: bool = False
    ) -> list[str]:
        keys, agent, process = self.keys, origin.agent, origin.process or ""
        answers: list[str] = await self._attach.run(
            self.line,
            [
                keys.processes,
                keys.waiting(agent, process),
                keys.ingress(agent),
                keys.replies(agent, process),
                keys.events,
                keys.dirty(""),
                keys.meta,
                *(
                    key
                    for request_id in request_ids
                    for key in (keys.record(request_id), keys.secret(request_id))
                ),
            ],
            [
                agent,
                process,
                origin.verb,
                origin.nonce,
                origin.entry or "",
                lease_of(origin),
                "1" if known else "",
                origin.since,
                digest_process(process),
                *request_ids,
            ],
        )
        return answers

    async def _find_forsaken(self, origin: MessageContext) -> list[str]:
        """Return the pending requests of a process that are marked as having no waiting process."""
        ids = await self.pending_of(origin.agent)
        pipeline = self.redis.pipeline(transaction=False)
        for request_id in ids:
            pipeline.hmget(self.keys.record(request_id), "process", "waiting")
        found = await pipeline.execute() if ids else []
        return [
            request_id
            for request_id, (process, waiting) in zip(ids, found, strict=True)
            if waiting == "false" and process == origin.process
        ]

    async def answer(
        self,
        origin: MessageContext,
        *,
        request_id: str = "",
        state: JsonObject | None = None,
        error: JsonObject | None = None,
    ) -> None:
        """Reply to a message that changed nothing, and delete its stream entry. Has no effect for
        HTTP calls."""
        if origin.entry is None:
            return
        kind, body = ("error", error) if state is None else ("state", state)
        await self._answer.run(
            self.line,
            [
                self.keys.ingress(origin.agent),
                self.keys.replies(origin.agent, origin.process or ""),
            ],
            [
                origin.entry,
                "1" if origin.process else "",
                origin.verb,
                origin.nonce,
                request_id,
                kind,
                dumps(body or {}),
            ],
        )

    async def add_version(self, call: str, request_id: str) -> list[str]:
        """Add a request to a part of a coding agent's call. Return the IDs of the other
        requests."""
        key = self.keys.versions(call)
        _, _, every = await self.together(
            ("SADD", key, request_id),
            ("EXPIRE", key, str(_UNSTORED_SECONDS), "NX"),
            ("SMEMBERS", key),
        )
        return sorted(set(every) - {request_id})

    async def keep_versions(self, call: str) -> None:
        """Keep the set of requests of a part of a call for a request's longest life, because one of
        them was stored."""
        await self.redis.expire(self.keys.versions(call), MAX_LIFE_SECONDS)

    async def secrets(self, request_id: str) -> JsonObject | None:
        """Return the secret answers of a form, or None after its deadline."""
        raw = await self.redis.get(self.keys.secret(request_id))
        return None if raw is None else _object(raw)

    async def number_of(self, request_id: str) -> str | None:
        """Return the verification code that a pending request's agent shows, or None."""
        number: str | None = await self.redis.hget(self.keys.record(request_id), NUMBER_FIELD)
        return number

    async def counted(self, spends: Sequence[Spend]) -> list[int]:
        """Return the amount counted in the time window of each limit, like `counted` in Lua."""
        now, pipeline = await self.now(), self.redis.pipeline(transaction=False)
        for one in spends:
            pipeline.hgetall(self.keys.counter(one.key))
        first = [(now - one.window_ms) // (one.window_ms // _WINDOW_PARTS) for one in spends]
        return [
            sum(int(amount) for part, amount in parts.items() if int(part) >= since)
            for parts, since in zip(await pipeline.execute(), first, strict=True)
        ]

    async def forget_secrets(self, request_id: str) -> None:
        """Delete the secret answers after the requesting process received them."""
        await self.redis.delete(self.keys.secret(request_id))

    async def page(self, query: Query) -> Page:
        """Return one page of requests, newest first or by deadline. No request is skipped or
        repeated if other requests end meanwhile. Each call scans a limited part of the index."""
        index, newest_first = self._index_of(query)
        found: list[StoredRequest] = []
        rank = await self._rank_after(index, query.after, newest_first=newest_first)
        for _ in range(_SCAN_PAGES):
            rows = await self.redis.zrange(
                index, rank, rank + query.limit - 1, desc=newest_first, withscores=True
            )
            records = await self.load_many([request_id for request_id, _ in rows])
            for row, record in zip(rows, records, strict=True):
                if record and _fits(record, query):
                    found.append(record)
                if len(found) == query.limit:
                    return Page(items=tuple(found), next=_cursor(*row))
            if len(rows) < query.limit:
                return Page(items=tuple(found))
            rank += query.limit
        return Page(items=tuple(found), next=_cursor(*rows[-1]))

    def _index_of(self, query: Query) -> tuple[str, bool]:
        """Return the index for a query, and whether to read it from its end."""
        keys = self.keys
        if query.final:
            return keys.done, True
        if query.soonest:
            return keys.deadlines, False
        return (keys.pending_of(query.agent) if query.agent else keys.pending), True

    async def _rank_after(self, index: str, cursor: str | None, *, newest_first: bool) -> int:
        if cursor is None:
            return 0
        redis = self.redis
        at, _, last = cursor.partition("-")
        rank = await (redis.zrevrank if newest_first else redis.zrank)(index, last)
        if rank is not None:
            return int(rank) + 1
        # The request has left this index. Continue at its old position, by time and then by ID.
        beyond = (f"({at}", "+inf") if newest_first else ("-inf", f"({at}")
        passed = int(await redis.zcount(index, *beyond))
        same = await redis.zrange(index, at, at, byscore=True)
        return passed + sum(bool(one > last if newest_first else one < last) for one in same)

    async def list_decided(self, agent: str, tool: str, *, limit: int) -> list[str]:
        """Return recent decisions by people about an agent's use of a tool. See `domain.store`."""
        key, now = self.keys.decided(agent, tool), await self.now()
        # An earlier holder of the agent's name does not count.
        held = await self.redis.hget(self.keys.meta, f"since:{agent}")
        since = max(now - DECIDED_MS, int(held or 0))
        ids: list[str] = await self.redis.zrange(
            key, "+inf", since, byscore=True, desc=True, offset=0, num=limit
        )
        return ids

    async def sessions(self, agent: str | None) -> list[Session]:
        """Return the active sessions, most recent first."""
        rows = await self.redis.zrange(self.keys.sessions, 0, -1, desc=True, withscores=True)
        named = ((row[0].partition(" "), int(row[1])) for row in rows)
        return [
            Session(agent=name[0], name=name[2], last_seen=seen)
            for name, seen in named
            if agent in (None, name[0])
        ]

    async def touch_session(self, agent: str, session: str) -> None:
        """Restart the idle time of a session unless it has ended."""
        name, now = f"{agent} {session}", await self.now()
        await self.redis.zadd(self.keys.sessions, {name: now}, xx=True, gt=True)

    async def end_session(self, agent: str, session: str) -> bool:
        """Delete a session. Return whether it existed."""
        return bool(await self.redis.zrem(self.keys.sessions, f"{agent} {session}"))

    async def pending_of(self, agent: str) -> list[str]:
        """Return the IDs of an agent's pending requests, oldest first."""
        return list(await self.redis.zrange(self.keys.pending_of(agent), 0, -1))

    async def list_voted(self) -> list[str]:
        """Return the IDs of pending requests that already have a vote."""
        ids: list[str] = await self.redis.zrange(self.keys.pending, 0, -1)
        found: list[str] = []
        for begin in range(0, len(ids), _AT_ONCE):
            part, pipeline = ids[begin : begin + _AT_ONCE], self.redis.pipeline(transaction=False)
            for request_id in part:
                pipeline.hexists(self.keys.record(request_id), "votes")
            answers = await pipeline.execute()
            found += [one for one, has in zip(part, answers, strict=True) if has]
        return found

    async def due(self, *, idle_ms: int, limit: int) -> Due:
        """Return the requests, processes and sessions that are due by the server's time."""
        keys = self.keys
        now, expired, lapsed, idle, stopped = await self._due.run(
            self.line,
            [keys.deadlines, keys.processes, keys.sessions, keys.pending, keys.meta],
            [idle_ms, limit],
        )
        return Due(
            now=int(now),
            expired=tuple(expired),
            lapsed=tuple(_two(name) for name in lapsed),
            idle=tuple(_two(name) for name in idle),
            stopped=tuple(stopped),
        )

    async def expire_process(self, agent: str, process: str) -> list[str]:
        """Mark on its requests that a process has disappeared. See `domain.store.Store`."""
        keys, lost = self.keys, list[str]()
        waiting, left = keys.waiting(agent, process), True
        while left:
            ids = await self.redis.srandmember(waiting, self._at_once)
            left, *told = await self._expire_process.run(
                self.line,
                [keys.processes, waiting, keys.events, keys.dirty(""), *map(keys.record, ids)],
                [agent, process, *ids],
            )
            lost += told
        for request_id in lost:
            self._recent.forget(request_id)
        return lost

    async def policy(self) -> PolicyDocument:
        """Return the active policy."""
        # Read the generation first: if the policy changes in between, later writes are rejected. No
        # transaction, because a server with full memory rejects one.
        generation, raw = await self.together(
            ("HGET", self.keys.meta, "generation"), ("GET", self.keys.policy)
        )
        return replace(policy_of(raw), generation=int(generation or 0))

    async def probe(self) -> None:
        """Write a small test value. Raises NotRecorded if Redis responds but rejects writes."""
        try:
            await self.redis.set(self.keys.probe, "1", px=_PROBE_MS)
        except ResponseError as error:
            refuse_to_write(error)

    async def generation(self) -> int:
        """Return the generation of the active policy."""
        return int(await self.redis.hget(self.keys.meta, "generation") or 0)

    async def policy_file(self) -> AppliedFile:
        """Return the last applied policy file, and who applied the active policy."""
        digest, by = await self.redis.hmget(self.keys.meta, ["policy_file", "policy_by"])
        return AppliedFile(digest=digest or "", by=by or "somebody")

    async def note_policy_file(self, digest: str) -> None:
        """Record that the active policy equals the policy file with this digest."""
        await self.redis.hset(self.keys.meta, "policy_file", digest)

    async def apply(self, policy: PolicyDocument, *, by: str, digest: str = "") -> int:
        """Replace the active policy if it has the expected generation. Raises Conflict if it
        changed meanwhile.

        `digest` is the digest of the policy file named in the settings, if that file is applied.
        """
        keys, body = self.keys, plain(replace(policy, generation=0))
        told = {"by": by, "policy": body, GENERATION: policy.generation + 1}
        new = await self._apply.run(
            self.line,
            [
                keys.policy,
                keys.meta,
                keys.events,
                keys.departed,
                keys.pending,
                keys.dirty(REROUTING),
            ],
            [policy.generation, dumps(body), dumps(told), digest],
        )
        if new < 0:
            raise Conflict("someone else changed the policy at the same time; try again")
        return int(new)

    async def note(
        self, event: str, *, agent: str = "", data: JsonObject, urgent: bool = False
    ) -> str:
        """Append an event that changes no request. Return its ID."""
        return str(
            await self._note.run(
                self.line,
                [self.keys.events, self.keys.meta],
                [event, agent, dumps(mask(data)), "", "", "1" if urgent else ""],
            )
        )

    async def set_stopped(self, stopped: bool, *, by: str) -> None:
        """Turn the kill switch on or off."""
        event = "stopped" if stopped else "resumed"
        await self._note.run(
            self.line,
            [self.keys.events, self.keys.meta],
            [event, "", dumps({"by": by}), "stopped", "1" if stopped else "", "1", SCHEMA_VERSION],
        )

    async def is_stopped(self) -> bool | None:
        """Return whether the kill switch is on. Returns None if the state is lost, which counts as
        on."""
        schema, stopped = await self.redis.hmget(self.keys.meta, ["schema", "stopped"])
        return None if schema is None else stopped is not None

    async def stopped_by(self) -> tuple[str, int] | None:
        """Return who turned the kill switch on and when, in ms since the epoch; None while it is
        off. The name is "" if the event is no longer stored; both are empty if the state is
        lost."""
        schema, event = await self.redis.hmget(self.keys.meta, ["schema", "stopped"])
        if event is None:
            return None if schema is not None else ("", 0)
        found = await self.audit.find(event)
        by = str(found.data.get("by", "")) if found else ""
        return by, int(event.partition("-")[0])

    async def history(self, after: str | None, limit: int) -> list[AuditEvent]:
        """Return up to `limit` events after an id. See `AuditHistory.read`."""
        return await self.audit.read(after, limit)

    async def latest(self, count: int) -> list[AuditEvent]:
        """Return the last `count` events, newest last."""
        return await self.audit.latest(count)

    async def now(self) -> int:
        """Return the server's time in ms since the epoch."""
        seconds, micros = await self.redis.time()
        return int(seconds) * 1000 + int(micros) // 1000

    async def check_schema(self) -> None:
        """Write the schema version into a new namespace. Raises Conflict for another version, and
        during a restore. A namespace that lost its version is not changed; see `is_stopped`."""
        if await self.redis.exists(self.keys.restoring):
            raise Conflict(
                f'a restore of the namespace "{self.keys.namespace}" is not complete: wait for it, '
                "or run `gateway restore FILE` again"
            )
        # Write only to a new namespace, because a replica rejects writes.
        found = int(await self.redis.hget(self.keys.meta, "schema") or 0)
        if not found:
            keys = self.keys
            used = (
                keys.events,
                keys.policy,
                keys.credentials,
                keys.pending,
                keys.done,
                keys.grants,
            )
            found = int(await self._schema.run(self.redis, [keys.meta, *used], [SCHEMA_VERSION]))
        if found not in (0, SCHEMA_VERSION):
            raise Conflict(
                f"this namespace has schema {found}, and this version of the gateway reads only "
                f"{SCHEMA_VERSION}: use the version that wrote it, or another namespace"
            )

    async def forget_replicas(self) -> None:
        """Delete the leases of all replicas, so that the next replica can read every stream at
        once."""
        await self.redis.delete(self.keys.replicas)

    async def troubled_targets(self) -> dict[str, str]:
        """Return the targets that accept no cards, each with the reason."""
        found: dict[str, str] = await self.redis.hgetall(self.keys.troubles)
        return found

    async def note_target(self, target: str, why: str | None) -> None:
        """Save why a target accepts no cards, or with None that it works again."""
        if why is None:
            await self.redis.hdel(self.keys.troubles, target)
        else:
            await self.redis.hset(self.keys.troubles, target, why)

    async def forget_targets(self) -> None:
        """Delete the record of which targets accept no cards."""
        await self.redis.delete(self.keys.troubles)

    async def count_pending(self) -> int:
        """Return the number of pending requests."""
        return int(await self.redis.zcard(self.keys.pending))

    async def oldest_pending(self) -> int | None:
        """Return the creation time of the oldest pending request in ms, or None."""
        rows = await self.redis.zrange(self.keys.pending, 0, 0, withscores=True)
        return int(rows[0][1]) if rows else None

    async def event_counts(self) -> dict[str, int]:
        """Return the number of sealed events of each kind; see `gateway.domain.audit`."""
        found = await self.redis.hgetall(self.keys.counts)
        return {name: int(count) for name, count in found.items()}

    async def agents(self) -> list[str]:
        """Return the agents with an ingress stream."""
        return list(await self.redis.zrange(self.keys.agents, 0, -1))

    async def register_agent(self, agent: str) -> int:
        """Start reading this agent's ingress stream, on any replica. Return the server's time from
        which the agent owns its name."""
        if not AGENT_NAME.fullmatch(agent):
            raise ValueError(f"{agent!r} is not a valid agent name")
        now = await self._register.run(
            self.line,
            [self.keys.agents, self.keys.meta, self.keys.events],
            [agent, STREAMS_PER_SHARD, self.keys.shard(""), _FIRST_SHARDS],
        )
        return int(now)


def _two(name: str) -> tuple[str, str]:
    first, _, second = name.partition(" ")
    return first, second


def _object(raw: str) -> JsonObject:
    value: JsonObject = json.loads(raw)
    return value


# Groups of requests that share a card, and agents in a cool-down.


class RedisGroups:
    """Implements `gateway.approvals.duplicates_and_overflow.GroupStore` for one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._redis, self._keys, self._now = store.redis, store.keys, store.now
        self._promote_next, self._release = (
            Script("promote_next", store.at),
            Script("release_overflow", store.at),
        )
        self._resume_agent, self._place = (
            Script("resume_agent", store.at),
            Script("place_reviewed", store.at),
        )

    async def behind(self, what: str) -> list[str]:
        """Return the IDs of the requests that share a request's card or an overflow card, oldest
        first."""
        ids: list[str] = await self._redis.zrange(self._keys.behind(what), 0, -1)
        return ids

    async def promote_next(self, record: StoredRequest, budget: Budget, *, posts: bool) -> None:
        """Choose which request gets the card after the request that had it no longer needs it."""
        keys, agent = self._keys, record.request.agent
        await self._promote_next.run(
            self._redis,
            [
                keys.record(record.id),
                keys.behind(record.id),
                keys.load(agent),
                keys.events,
                keys.dirty(""),
                keys.record(""),
                keys.behind(""),
            ],
            [
                record.id,
                agent,
                duplicate_key(record),
                budget.card_ms if posts else "",
                budget.cards,
            ],
        )

    async def place(
        self, record: StoredRequest, budget: Budget, *, posts: bool, alone: bool
    ) -> None:
        """Choose the card for a request after its review. See
        `duplicates_and_overflow.GroupStore`."""
        keys, agent = self._keys, record.request.agent
        alone = alone or record.risk.level is RiskLevel.HIGH
        await self._place.run(
            self._redis,
            [
                keys.record(record.id),
                keys.load(agent),
                keys.dirty(""),
                keys.record(""),
                keys.behind(""),
            ],
            [
                record.id,
                agent,
                "" if alone else duplicate_key(record),
                budget.card_ms if posts else "",
                budget.cards,
                " ".join(record.queues),
            ],
        )

    async def release(self, agent: str, budget: Budget) -> float | None:
        """Give separate cards to requests on the overflow card. See
        `duplicates_and_overflow.GroupStore`."""
        keys = self._keys
        wait = await self._release.run(
            self._redis,
            [
                keys.behind(overflow_of(agent)),
                keys.load(agent),
                keys.events,
                keys.dirty(""),
                keys.record(""),
            ],
            [agent, budget.card_ms, budget.cards],
        )
        return None if wait < 0 else max(1, int(wait)) / 1000

    async def load(self, agent: str) -> AgentLoad:
        """Return the state that an agent's overflow card shows in addition to the covered
        requests."""
        wanted = ("rev", "until", "last")
        revision, until, last = await self._redis.hmget(self._keys.load(agent), wanted)
        if until is None or int(until) <= await self._now():
            return AgentLoad(revision=int(revision or 0))
        return AgentLoad(revision=int(revision or 0), paused=int(until), denied=last)

    async def list_paused(self) -> list[Paused]:
        """Return the agents in a cool-down."""
        now = await self._now()
        rows = await self._redis.hgetall(self._keys.breakers)
        every = (Paused(agent=agent, until=int(until)) for agent, until in rows.items())
        return sorted((one for one in every if one.until > now), key=lambda one: one.agent)

    async def resume_agent(self, agent: str, *, by: str) -> bool:
        """End an agent's cool-down. Return whether the agent was in one."""
        keys = self._keys
        resumed = await self._resume_agent.run(
            self._redis,
            [keys.load(agent), keys.breakers, keys.events, keys.dirty(""), keys.record("")],
            [agent, dumps({"by": by})],
        )
        return bool(resumed)


# Metrics of the store.


async def measure_store(store: RedisStore) -> StoreFigures:
    """Return the metrics of a namespace and of its servers."""
    now, keys = await store.now(), store.keys
    heard = await each(store.redis, _memory)
    memory, room = max(heard.answers.values(), key=_fullness)
    sealed = await store.redis.hget(keys.meta, "sealed")
    unsealed = await store.redis.xrange(keys.events, min=f"({sealed}" if sealed else "-", count=1)
    messages, oldest = await _measure_intake(store, now)
    unarchived, archived = await _measure_archive(store, now)
    return StoreFigures(
        stopped=await store.is_stopped() is not False,
        paused_agents=len(await RedisGroups(store).list_paused()),
        replicas=int(await store.redis.zcount(keys.replicas, f"({now}", "+inf")),
        memory=memory,
        room=room,
        unsealed=_age(unsealed, now),
        intake=oldest,
        intake_messages=messages,
        lease=await _measure_lease(store, now),
        unarchived=unarchived,
        archive_bytes=archived,
    )


async def list_gateways(store: RedisStore) -> tuple[RunningGateway, ...]:
    """Return the gateways with a current lease, by name."""
    now, keys = await store.now(), store.keys
    leader = await store.redis.hget(keys.owners, "duty")
    rows = await store.redis.zrange(keys.replicas, f"({now}", "+inf", byscore=True, withscores=True)
    found = []
    for replica, end in rows:
        name, _, rest = replica.partition(REPLICA_SEPARATOR)
        version = rest.partition(REPLICA_SEPARATOR)[0]
        renewed = max(0, now - int(end) + REPLICA_LEASE_MS) / 1000
        leads = replica == leader
        found.append(RunningGateway(name=name, version=version, leader=leads, renewed=renewed))
    return tuple(sorted(found, key=lambda one: one.name))


async def measure_pending(store: RedisStore) -> dict[str, int]:
    """Return the number of pending requests of each agent."""
    pipeline = store.redis.pipeline(transaction=False)
    agents = await store.agents()
    for agent in agents:
        pipeline.zcard(store.keys.pending_of(agent))
    return dict(zip(agents, await pipeline.execute(), strict=True))


async def _measure_lease(store: RedisStore, now: int) -> float:
    """Return the seconds since the leader renewed its lease. Without a leader, a full lease
    time."""
    leader = await store.redis.hget(store.keys.owners, "duty")
    end = await store.redis.zscore(store.keys.replicas, leader or "")
    return max(0, now - int(end or now) + REPLICA_LEASE_MS) / 1000


async def _measure_archive(store: RedisStore, now: int) -> tuple[float, int]:
    """Return the age of the oldest event that is not archived, and the archive's size."""
    if store.archive is None:
        return 0.0, 0
    first = await store.redis.xrange(store.keys.events, count=1)
    return _age(first, now), await asyncio.to_thread(store.archive.measure)


async def _measure_intake(store: RedisStore, now: int) -> tuple[int, float]:
    """Return the number of unhandled messages from agents, and the age of the oldest."""
    pipeline = store.redis.pipeline(transaction=False)
    for agent in await store.agents():
        pipeline.xlen(store.keys.ingress(agent))
        pipeline.xrange(store.keys.ingress(agent), count=1)
    # An agent may have replaced its stream by another type. That must not hide other streams.
    found = await pipeline.execute(raise_on_error=False)
    lengths = [one for one in found[::2] if isinstance(one, int)]
    ages = [_age(one, now) for one in found[1::2] if isinstance(one, list)]
    return sum(lengths), max(ages, default=0.0)


async def _memory(node: Any) -> tuple[int, int]:
    found = await node.info("memory")
    return int(found["used_memory"]), int(found["maxmemory"])


def _fullness(memory: tuple[int, int]) -> tuple[float, int]:
    used, room = memory
    return (used / room if room else 0.0), used


def _age(entries: list[tuple[str, Any]], now: int) -> float:
    """Return the age of the first entry in seconds, at least 0 because agents can choose IDs with
    future times."""
    return max(0, now - int(entries[0][0].partition("-")[0])) / 1000 if entries else 0.0
