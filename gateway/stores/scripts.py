"""Run the Lua scripts of this folder, each after the shared functions; start with `Script`.

The two scripts that set a status take named arguments. Each lists its names at the top, and
`arguments` in shared_functions.lua reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple, NoReturn

from redis.exceptions import NoScriptError, OutOfMemoryError, ReadOnlyError, ResponseError

from gateway.domain.policy_document import Budget
from gateway.domain.records import StoredRequest, duplicate_key
from gateway.domain.store import DECIDED_DAYS, MessageContext, Transition
from gateway.errors import Unreachable
from gateway.models import DeciderKind, RiskLevel, Status
from gateway.policy.grants.grant import Grant
from gateway.stores.keys import Keys
from gateway.stores.record_codec import (
    GENERATION,
    NUMBER_FIELD,
    OF_SCRIPTS,
    body_of_grant,
    changed_fields,
    dumps,
    ending_of,
    event_of_grant,
    fields_of,
)
from gateway.wire.codec import JsonObject

At = Callable[[str], None]
"""Called with the name of each step at which a gateway may be killed. Tests stop it there."""

_FOLDER = files("gateway.stores") / "lua"


def ignore_step(step: str) -> None:
    """Do nothing at a step. Used where no test watches the steps."""


class NotRecorded(Unreachable, ResponseError):
    """Redis responds, but rejects all writes. The message says why."""

    code = "not_recorded"


class NoRoom(NotRecorded, OutOfMemoryError):
    """Redis is full and rejects new data."""


SWITCH_LOST = (
    "Redis lost the state of the kill switch, so nothing is approved; "
    "run `gateway stop-all`, or `gateway resume` if agents may continue"
)


def refuse_to_write(error: ResponseError) -> NoReturn:
    """Raise NotRecorded if an error means that Redis rejects writes; raise other errors
    unchanged."""
    text = str(error)
    if isinstance(error, OutOfMemoryError):
        raise NoRoom("nothing was recorded: Redis is full") from error
    if isinstance(error, ReadOnlyError):
        raise NotRecorded("nothing was recorded: this Redis is a read-only replica") from error
    for word, why in _REFUSALS.items():
        if text.startswith(word):
            raise NotRecorded(f"nothing was recorded: {why}") from error
    raise error


_REFUSALS = {
    "MISCONF": "Redis cannot write to its disk",
    "NOREPLICAS": "too few replicas are connected to Redis",
    "NOSWITCH": SWITCH_LOST,
}


class Script:
    """One script, sent by its SHA-1, or in full if the server does not have it yet.

    It reports the steps `<name>:before` and `<name>:after`. Everything between them is atomic.
    """

    def __init__(self, name: str, at: At = ignore_step) -> None:
        prelude = (_FOLDER / "shared_functions.lua").read_text(encoding="utf-8")
        self._text = prelude + (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()
        self._before, self._after = f"{name}:before", f"{name}:after"
        self._at = at

    async def run(self, redis: Any, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run the script. All keys must be of one namespace. Raises NotRecorded if Redis rejects
        the write."""
        self._at(self._before)
        try:
            answer = await self._send(redis, keys, arguments)
        except ResponseError as error:
            refuse_to_write(error)
        self._at(self._after)
        return answer

    async def _send(self, redis: Any, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        try:
            return await redis.evalsha(self._sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return await redis.eval(self._text, len(keys), *keys, *arguments)


LEASE_MS = 30_000
MOST_PATTERNS = 200
"""Limit of pattern grants of one agent for one tool, which are tried one after the other."""
DECIDED_MS = DECIDED_DAYS * 86_400_000
HTTP_LEASE_MS = 90_000

Values = dict[str, str | int | Sequence[str] | None]
"""Script arguments for one record by name. None is left out. The name of a list ends in `+`."""


class ScriptCall(NamedTuple):
    """One call of a script: its KEYS and ARGV."""

    keys: list[str]
    arguments: list[str | int]

    def add(self, record_id: str, keys: Sequence[tuple[str, str]], values: Values) -> None:
        """Add a record with its named keys and arguments to the call."""
        self.keys.extend([key for _, key in keys])
        self.arguments.extend(("record", record_id, "keys", " ".join([name for name, _ in keys])))
        for name, value in values.items():
            if isinstance(value, str | int):
                self.arguments.extend((name, value))
            elif value is not None:
                for one in value:
                    self.arguments.extend((name, one))

    def keep_number(self, number: str) -> None:
        """Save a verification code next to the last added record, and send it to waiting
        processes."""
        self.arguments.extend(("number", number, f"set.{NUMBER_FIELD}", number))

    @property
    def letters(self) -> int:
        """The number of characters that are sent."""
        return sum(len(part) for part in self.arguments if isinstance(part, str))


def lease_of(origin: MessageContext) -> int:
    """Return how long a process counts as waiting after a message, in ms."""
    return LEASE_MS if origin.entry is not None else HTTP_LEASE_MS


def submission(
    keys: Keys,
    record: StoredRequest,
    origin: MessageContext,
    *,
    generation: int,
    data: JsonObject,
    timeout_ms: int,
    budget: Budget,
    posts: bool,
) -> ScriptCall:
    """Build the call of submit_request.lua that creates a record."""
    request = record.request
    decision, told = ending_of(record, generation)
    fields = fields_of(record)
    values: Values = {
        "agent": request.agent,
        "session": request.session,
        "digest": record.digest,
        "status": record.status.value,
        "data": dumps({**data, GENERATION: generation}),
        "timeout": timeout_ms,
        "body": fields["body"],
        "process": record.process or None,
        "lease": lease_of(origin),
        "arrived": origin.arrived_ms,
        "named": origin.since,
        "generation": generation,
        "grant": _grant_of(record),
        "decided": None if record.decision is None else record.decision.decided_at,
        "signed": None if record.decision is None else record.decision.expires_at,
        "most_waiting": budget.waiting,
        "most_bytes": budget.bytes,
        "most_daily": budget.daily,
        "decision": decision or None,
        "ended": told or None,
        "likeness": _likeness_at_birth(record),
        "card_ms": budget.card_ms if posts else None,
        "most_cards": budget.cards,
        "verb": origin.verb,
        "message_nonce": origin.nonce,
        "entry": origin.entry or None,
    }
    told_by_name = OF_SCRIPTS | {"body", "digest"}
    values |= {f"set.{name}": text for name, text in fields.items() if name not in told_by_name}
    if decision:
        values["set.decision"] = decision
    call, named = ScriptCall([], []), _keys_at_birth(keys, record, origin)
    _spend(keys, record, values, named)
    call.add(record.id, named, values)
    return call


def changes(
    keys: Keys, transitions: Sequence[Transition], origin: MessageContext | None = None
) -> ScriptCall:
    """Build the call of change_requests.lua that applies all transitions or none."""
    call = ScriptCall([], [])
    for transition in transitions:
        before, after, guards = transition.before, transition.after, transition.guards()
        decision, told = ending_of(after, guards.generation)
        data = {} if guards.generation is None else {GENERATION: guards.generation}
        named = _keys_of_change(keys, before)
        values: Values = {
            "agent": after.request.agent,
            "revision": before.revision,
            "created": before.created,
            "status": after.status.value,
            "digest": after.digest,
            "decision": decision or None,
            "event": transition.event,
            "data": told
            if told and not before.final
            else dumps({**(transition.data or {}), **data}),
            "consumer": after.consumers[-1] if after.consumers else None,
            "untaken": "1" if after.untaken else None,
            "attached+": before.attached,
            "clock": guards.clock or None,
            "generation": guards.generation,
            "stoppable": "1" if guards.stoppable else None,
            "nonce": after.nonces[-1] if after.nonces != before.nonces else None,
        }
        values |= _fields_of_change(transition, decision)
        values |= _seldom(keys, transition, origin, named)
        if not before.final and _is_by_person(after):
            named.append(("decided", keys.decided(after.request.agent, after.request.tool)))
            values["decided_ms"] = DECIDED_MS
        named += (("dirty+", keys.dirty(queue)) for queue in after.queues)
        if not before.final:
            _spend(keys, after, values, named)
        call.add(after.id, named, values)
    return call


def _fields_of_change(transition: Transition, decision: str) -> Values:
    """Return the fields of the record that a transition sets and deletes."""
    before, after = transition.before, transition.after
    changed = changed_fields(before, after)
    if before.final and after.decision != before.decision:
        changed["decision"] = decision
    if after.erased and not before.erased:
        changed["size"] = ""
    values: Values = {f"set.{name}": text for name, text in changed.items() if text}
    values["delete+"] = [name for name, text in changed.items() if not text]
    return values


def _seldom(
    keys: Keys, transition: Transition, origin: MessageContext | None, named: list[tuple[str, str]]
) -> Values:
    """Return the arguments that only few transitions need, and add their keys to `named`."""
    after, budget = transition.after, transition.budget
    values: Values = {}
    if origin is not None and origin.entry:
        named.append(("ingress", keys.ingress(after.request.agent)))
        named.append(("reply", keys.replies(after.request.agent, origin.process or "")))
        values |= {"verb": origin.verb, "message_nonce": origin.nonce}
        values |= {"entry": origin.entry, "process": origin.process or None}
    if transition.secrets is not None:
        values["secrets"] = dumps(transition.secrets)
    elif after.request.questions:
        values["keep"] = "1"
    if transition.secrets is not None or after.request.questions:
        named.append(("secret", keys.secret(after.id)))
    if len(after.consumers) > 1:
        values["warn"] = "1"
    if transition.number:
        values["number"] = transition.number
    if (grant := _grant_of(after)) is not None and not transition.before.final:
        named.append(("grant", keys.grant(grant)))
        values["grant"] = grant
    if transition.minutes:
        named.append(("grant", keys.grant(after.id)))
        named += (("same", _same(keys, after)), ("denials", keys.grants_passed))
        values["minutes"] = transition.minutes
    values |= _make_grants(keys, transition.grants, named)
    if budget is not None and budget.denials:
        named.append(("breakers", keys.breakers))
        values |= {"denials": budget.denials, "pause": int(budget.pause * 1000)}
    return values


def _make_grants(keys: Keys, grants: Sequence[Grant], named: list[tuple[str, str]]) -> Values:
    """Return the arguments for the grants of an approval, and add their keys to `named`. All these
    grants belong to one session and expire at one time."""
    if not grants:
        return {}
    first = grants[0]
    for one in grants:
        digest, tool = one.match.digest, one.match.tool
        index = keys.grants_exact(digest) if digest else keys.grants_on(one.agent, tool)
        named += (("new_grant+", keys.grant(one.id)), ("found+", index))
    session = keys.grants_in(first.agent, first.session or "")
    named += (("grants", keys.grants), ("in_session", session))
    named += (("grants_due", keys.grants_due), ("grants_ending", keys.grants_ending))
    return {
        "made+": [one.id for one in grants],
        "body+": [body_of_grant(one) for one in grants],
        "max+": [str(one.max_uses) for one in grants],
        "told+": [event_of_grant(one) for one in grants],
        "until": str(first.expires_at),
        "ending": str(first.announced_at),
        "most": MOST_PATTERNS,
    }


def _keys_at_birth(
    keys: Keys, record: StoredRequest, origin: MessageContext
) -> list[tuple[str, str]]:
    agent = record.request.agent
    named = [
        *_keys_of_all(keys, record),
        ("sessions", keys.sessions),
        ("waiting", keys.waiting(agent, record.process or "")),
        ("processes", keys.processes),
        ("ingress", keys.ingress(agent)),
        ("reply", keys.replies(agent, origin.process or "")),
    ]
    if (grant := _grant_of(record)) is not None:
        named.append(("grant", keys.grant(grant)))
    if record.status is Status.PENDING:
        named += (("dirty+", keys.dirty(name)) for name in record.queues)
    if not record.request.questions:
        named.append(("same", _same(keys, record)))
    return named


def _same(keys: Keys, record: StoredRequest) -> str:
    request = record.request
    return keys.same(request.agent, request.session, request.digest)


def _keys_of_change(keys: Keys, before: StoredRequest) -> list[tuple[str, str]]:
    agent, named = before.request.agent, _keys_of_all(keys, before)
    for process in before.attached:
        named.append(("waiting+", keys.waiting(agent, process)))
        named.append(("replies+", keys.replies(agent, process)))
    return named


def _keys_of_all(keys: Keys, record: StoredRequest) -> list[tuple[str, str]]:
    agent = record.request.agent
    outboxes, records, behind = keys.prefixes
    return [
        ("record", keys.record(record.id)),
        ("pending", keys.pending),
        ("agent_pending", keys.pending_of(agent)),
        ("deadlines", keys.deadlines),
        ("done", keys.done),
        ("events", keys.events),
        ("meta", keys.meta),
        ("load", keys.load(agent)),
        ("outboxes", outboxes),
        ("records", records),
        ("behind", behind),
    ]


def _likeness_at_birth(record: StoredRequest) -> str | None:
    """Return the key that a new request shares with its duplicates. None if it needs a separate
    card, or needs no card because it is decided or not yet reviewed."""
    cardless = record.final or record.unreviewed
    return None if cardless or record.risk.level is RiskLevel.HIGH else duplicate_key(record)


def _spend(keys: Keys, record: StoredRequest, values: Values, named: list[tuple[str, str]]) -> None:
    """Add the amounts that count against the limits of the rule that approved the request."""
    values["spends+"] = [f"{one.amount} {one.most} {one.window_ms}" for one in record.spends]
    named += (("counters+", keys.counter(one.key)) for one in record.spends)


def _is_by_person(record: StoredRequest) -> bool:
    return record.decision is not None and record.decision.decided_by.kind is DeciderKind.PERSON


def _grant_of(record: StoredRequest) -> str | None:
    """Return the ID of the grant that made a record's decision, or None."""
    decision = record.decision
    if decision is None or decision.decided_by.kind is not DeciderKind.GRANT:
        return None
    return decision.decided_by.name
