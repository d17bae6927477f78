"""What the two scripts that set a status are called with: their KEYS and ARGV, in order.

The scripts say at their top what each place holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.domain.duplicates import likeness
from gateway.domain.policy_document import Budget
from gateway.domain.records import Record
from gateway.domain.store import Origin, Transition
from gateway.models import DeciderKind, RiskLevel, Status
from gateway.stores.keys import Keys
from gateway.stores.record_codec import body_of, changed_fields, dumps, ending_of, fields_of
from gateway.wire.codec import JsonObject

LEASE_MS = 30_000
HTTP_LEASE_MS = 90_000

# What a record is born with; the script itself sets its status, its times and whose it is.
_AT_BIRTH = (
    "rev",
    "asked",
    "since",
    "about",
    "process",
    "attached",
    "consumer",
    "queues",
    "found",
    "edited",
    "canary",
)


class Call(NamedTuple):
    """One call of a script."""

    keys: list[str]
    arguments: list[str | int]

    @property
    def letters(self) -> int:
        """How much text is sent."""
        return sum(len(part) for part in self.arguments if isinstance(part, str))


def lease_of(origin: Origin) -> int:
    """Return for how many ms a process is taken to wait after a message."""
    return LEASE_MS if origin.entry is not None else HTTP_LEASE_MS


def submission(
    keys: Keys,
    record: Record,
    origin: Origin,
    *,
    generation: int,
    data: JsonObject,
    timeout_ms: int,
    budget: Budget,
    posts: bool,
) -> Call:
    """Return the call of submit.lua that creates a record."""
    request, process = record.request, record.process or ""
    decision, told = ending_of(record)
    fields = fields_of(record)
    born = {name: fields[name] for name in _AT_BIRTH if name in fields}
    if decision:
        born["decision"] = decision
    return Call(
        _keys_at_birth(keys, record, origin),
        [
            request.id,
            record.holder,
            request.session,
            record.digest,
            record.status.value,
            generation,
            timeout_ms,
            "" if origin.arrived_ms is None else origin.arrived_ms,
            process,
            origin.nonce,
            origin.entry or "",
            lease_of(origin),
            dumps(data),
            told,
            decision,
            origin.verb,
            _grant_of(record),
            record.decision.expires_at if record.decision else "",
            _likeness_at_birth(record),
            budget.waiting,
            budget.bytes,
            budget.daily,
            budget.card_ms if posts else "",
            budget.cards,
            body_of(request),
            *_pairs(born),
        ],
    )


def changes(keys: Keys, transitions: Sequence[Transition], origin: Origin | None = None) -> Call:
    """Return the call of change.lua that applies transitions, all of them or none."""
    whole = Call([], [])
    for transition in transitions:
        names, values = _change(keys, transition, origin)
        whole.keys.extend(names)
        whole.arguments.extend((len(names), len(values), *values))
    return whole


def _change(
    keys: Keys, transition: Transition, origin: Origin | None
) -> tuple[list[str], list[str | int]]:
    before, after = transition.before, transition.after
    ended = before.final
    changed, (decision, told) = changed_fields(before, after), ending_of(after)
    if ended and after.decision != before.decision:
        changed["decision"] = decision
    if after.erased and not before.erased:
        changed |= {"body": body_of(after.request), "size": ""}
    gone: list[str] = []
    kept: list[str] = []
    for name, text in changed.items():
        if not text:
            gone.append(name)
        elif name not in ("rev", "status"):
            kept += (name, text)
    agent = after.holder
    names = _keys_of_change(keys, before, agent)
    by_name, named = _by_name(keys, transition, origin, len(names) + 1)
    return (
        [*names, *named, *map(keys.dirty, after.queues)],
        [
            after.request.id,
            agent,
            before.revision,
            before.created,
            after.status,
            transition.clock,
            "" if transition.generation is None else transition.generation,
            "1" if transition.stoppable else "",
            after.nonces[-1] if after.nonces != before.nonces else "",
            transition.event,
            told if told and not ended else dumps(transition.data or {}),
            after.digest,
            decision,
            after.consumers[-1] if after.consumers else "",
            len(before.attached),
            *before.attached,
            len(by_name),
            *by_name,
            len(gone),
            *gone,
            *kept,
        ],
    )


def _by_name(
    keys: Keys, transition: Transition, origin: Origin | None, place: int
) -> tuple[list[str | int], list[str]]:
    """Return what a transition brings by name, most often nothing, and the keys that are named in
    it, of which the first stands at `place`."""
    after, budget = transition.after, transition.budget
    own: dict[str, str] = {}
    values: list[str | int] = []
    if origin is not None and origin.entry:
        own["ingress_key"] = keys.ingress(after.holder)
        own["replies_key"] = keys.replies(after.holder, origin.process or "")
        values += ("verb", origin.verb, "nonce", origin.nonce)
        values += ("entry", origin.entry, "process", origin.process or "")
    if transition.secrets is not None or after.request.questions:
        own["secret_key"] = keys.secret(after.request.id)
        kept = transition.secrets is None
        values += ("keep", "1") if kept else ("secrets", dumps(transition.secrets))
    if len(after.consumers) > 1:
        values += ("warn", "1")
    if (grant := _grant_of(after)) and not transition.before.final:
        own["grant_key"] = keys.grant(grant)
        values += ("grant", grant)
    if budget is not None and budget.denials:
        own["breakers_key"] = keys.breakers
        values += ("denials", budget.denials, "pause", int(budget.pause * 1000))
    if own:
        values += ("keys", len(own))
        for where, name in enumerate(own, start=place):
            values += (name, where)
    return values, list(own.values())


def _keys_at_birth(keys: Keys, record: Record, origin: Origin) -> list[str]:
    return [
        keys.record(record.id),
        keys.pending,
        keys.pending_of(record.holder),
        keys.deadlines,
        keys.done,
        keys.events,
        keys.meta,
        keys.sessions,
        keys.waiting(record.holder, record.process or ""),
        keys.processes,
        keys.ingress(record.holder),
        keys.replies(record.holder, origin.process or ""),
        keys.grant(_grant_of(record)),
        keys.load(record.holder),
        *keys.prefixes,
        *(keys.dirty(name) for name in record.queues if record.status is Status.PENDING),
    ]


def _keys_of_change(keys: Keys, before: Record, agent: str) -> list[str]:
    names = [
        keys.record(before.request.id),
        keys.pending,
        keys.pending_of(agent),
        keys.deadlines,
        keys.done,
        keys.events,
        keys.meta,
        keys.load(agent),
        *keys.prefixes,
    ]
    for process in before.attached:
        names += (keys.waiting(agent, process), keys.replies(agent, process))
    return names


def _likeness_at_birth(record: Record) -> str:
    """Return what a new request has in common with others, '' when it needs a card of its own or,
    decided or not reviewed yet, none."""
    cardless = record.final or record.unreviewed
    alone = record.canary or record.risk.level is RiskLevel.HIGH
    return "" if cardless or alone else likeness(record)


def _grant_of(record: Record) -> str:
    """Return the id of the grant that a record's decision cites, or ''."""
    decision = record.decision
    by_grant = decision is not None and decision.decided_by.kind is DeciderKind.GRANT
    return decision.decided_by.name if decision is not None and by_grant else ""


def _pairs(fields: dict[str, str]) -> list[str]:
    return [part for pair in fields.items() for part in pair]
