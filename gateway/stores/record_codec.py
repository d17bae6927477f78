"""Convert records to Redis hashes and back, and cache pending records (`Recent`).

Each member is a field; members with their default value are absent. The defaults of `StoredRequest`
are therefore part of the stored format: never change one. With `Recent`, a click needs no read from
Redis.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import fields as members_of
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import AuditEvent, StoredRequest, summary
from gateway.domain.redaction import bug, mask
from gateway.models import Action, ApprovalRequest, DeciderKind, Decision, Reason
from gateway.policy.grants.grant import Grant
from gateway.wire.codec import JsonObject, build, default_of, fitters_of, plain

log = logging.getLogger("gateway.stores")

GENERATION = "policy_generation"
"""Member of an event's data: the generation of the policy that the gateway applied."""

NUMBER_FIELD = "number"
"""Field with the verification code of the agent. It is read separately, never as part of a
record."""

# Members of the request with their own fields in the hash, so that scripts can check them.
_APART = ("id", "agent", "digest")
_NAMES = {"request": "body", "revision": "rev"}
_BESIDE = ("approvers", "numbered", "decision", "spends")
_TEXTS = frozenset(
    "digest route owner asks_because process note behind conversation proof".split()  # noqa: SIM905
)
# Scripts search for a word in these.
_WORDS = frozenset({"attached", "consumers", "nonces", "queues"})

OF_SCRIPTS = frozenset({"status", "created", "deadline", "behind", "alike"})
"""Fields that scripts write themselves."""


class _Member(NamedTuple):
    """A member of a record: its field in the hash, its default, and its conversions to and from
    strings."""

    name: str
    field: str
    default: Any
    write: Callable[[Any], str]
    read: Callable[[str], Any]

    def text(self, value: Any) -> str:
        """Return the string to store for a value, or "" for the default."""
        return "" if value == self.default else self.write(value)


def dumps(value: Any) -> str:
    """Return a value as compact JSON."""
    return to_json(value).decode()


def _write_request(request: ApprovalRequest) -> str:
    return dumps({name: one for name, one in plain(request).items() if name not in _APART})


def _write_json(value: Any) -> str:
    return dumps(plain(value))


def _read_json(fit: Callable[[Any], Any] | None) -> Callable[[str], Any]:
    return from_json if fit is None else lambda text: fit(from_json(text))


def _members() -> tuple[_Member, ...]:
    fitters, found = fitters_of(StoredRequest), []
    for member in members_of(StoredRequest):
        name, fit = member.name, fitters[member.name]
        write: Callable[[Any], str] = _write_json
        read = _read_json(fit)
        if name == "request":
            write, read = _write_request, from_json
        elif name == "status":
            write, read = str, fit or str
        elif name in _TEXTS:
            write = read = str
        elif name in _WORDS:
            write, read = " ".join, lambda text: tuple(text.split())
        if name not in _BESIDE:
            found.append(_Member(name, _NAMES.get(name, name), default_of(member), write, read))
    return tuple(found)


_MEMBERS = _members()
_BY_FIELD = {one.field: one for one in _MEMBERS}


def fields_of(record: StoredRequest) -> dict[str, str]:
    """Return the fields of a record without its decision. Absent fields are left out."""
    values = vars(record)
    written = [(one.field, one.text(values[one.name])) for one in _MEMBERS]
    return {field: text for field, text in (*written, ("asked", _asked(record))) if text}


def changed_fields(before: StoredRequest, after: StoredRequest) -> dict[str, str]:
    """Return the fields that differ, with the values of `after`; "" means that the field is
    deleted. Fields that the scripts write are left out."""
    was, now = vars(before), vars(after)
    changed = {
        one.field: one.text(now[one.name])
        for one in _MEMBERS
        if now[one.name] is not was[one.name]  # most members are identical objects
        and now[one.name] != was[one.name]
        and one.field not in OF_SCRIPTS | {"rev"}
    }
    if "digest" in changed:
        changed["asked"] = _asked(after)
    return changed


def _asked(record: StoredRequest) -> str:
    """Return the digest of the original request, or "" if no edit changed it."""
    asked = record.request.digest
    return "" if asked == record.digest else asked


def ending_of(record: StoredRequest, generation: int | None = None) -> tuple[str, str]:
    """Return the stored form of a record's decision and the data of its event, as JSON or "".
    `generation` is that of the policy, or None if the policy did not matter."""
    if record.decision is None:
        return "", ""
    values = record.decision.values()
    told = summary(values, record) | ({} if generation is None else {GENERATION: generation})
    return dumps(_short(values, record) or values), dumps(told)


def _short(values: JsonObject, record: StoredRequest) -> list[Any] | None:
    """Return a short form for an approval by one person, the most common decision. None for other
    decisions.

    It contains only values that the record lacks. `whole` in shared_functions.lua reads it as well.
    """
    if values["decided_by"]["kind"] != DeciderKind.PERSON or "signature" not in values:
        return None
    who = values["decided_by"]["name"]
    short = [values["revision"], who, values["decided_at"], values["signature"]]
    own = (record.id, record.status.value, record.digest, record.deadline)
    return short if _whole(short, *own) == values else None


def _whole(
    short: list[Any], request_id: str, status: str, digest: str, deadline: int
) -> JsonObject:
    """Return the full decision for a short form that `_short` returned."""
    revision, who, decided_at, signature = short
    return {
        "request_id": request_id,
        "revision": revision,
        "status": status,
        "action": Action.APPROVE.value,
        "reason": Reason.PERSON.value,
        "digest": digest,
        "decided_by": {"kind": DeciderKind.PERSON.value, "name": who},
        "decided_at": decided_at,
        "expires_at": deadline,
        "signature": signature,
    }


def record_from(request_id: str, fields: dict[str, str]) -> StoredRequest:
    """Return the record stored in `fields`. Fields of newer versions are ignored and kept."""
    stored = [(_BY_FIELD.get(field), text) for field, text in fields.items()]
    values = {one.name: one.read(text) for one, text in stored if one and text}
    own = {"id": request_id, "agent": fields["agent"]}
    own["digest"] = fields.get("asked", fields["digest"])
    values["request"] = build(ApprovalRequest, values["request"] | own)
    if fields.get("decision"):
        values["decision"] = _decision_from(request_id, fields)
    return StoredRequest(**values, numbered=NUMBER_FIELD in fields)


def _decision_from(request_id: str, fields: dict[str, str]) -> Decision:
    """Parse a decision from its full or short stored form."""
    kept: JsonObject | list[Any] = json.loads(fields["decision"])
    if isinstance(kept, list):
        deadline = int(fields["deadline"])
        kept = _whole(kept, request_id, fields["status"], fields["digest"], deadline)
    return build(Decision, kept)


def event_from(event_id: str, fields: dict[str, str]) -> AuditEvent:
    """Return the event of a stream entry."""
    return AuditEvent(
        id=event_id,
        type=fields["t"],
        at=int(fields["at"]),
        agent=fields["agent"],
        request_id=fields["id"],
        revision=int(fields["rev"]),
        data=json.loads(fields["d"]),
    )


_MOST_RECENT_BYTES = 64 * 1024 * 1024
_RECORD_BYTES = 4096
"""Approximate memory size of a record without its text."""


class Recent:
    """Cache of pending records as last read or written by this process. Drops the oldest when full.

    Another replica may have changed a record since. If you use a cached record, let a script
    compare the revision before anything is written.
    """

    def __init__(self, most_bytes: int = _MOST_RECENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._records: dict[str, tuple[StoredRequest, int]] = {}

    def get(self, request_id: str) -> StoredRequest | None:
        """Return the cached record, or None."""
        found = self._records.get(request_id)
        return found[0] if found else None

    def read(self, request_id: str, fields: dict[str, str]) -> StoredRequest | None:
        """Return and cache the record stored in these fields, or None if there are none."""
        if not fields:
            return None
        record = record_from(request_id, fields)
        self.keep(record, sum(map(len, fields.values())))
        return record

    def read_if_legible(self, request_id: str, fields: dict[str, str]) -> StoredRequest | None:
        """Like `read`, but log an unreadable record and return None."""
        try:
            return self.read(request_id, fields)
        except Exception as error:
            # One broken record must not hide the others.
            log.error(
                "cannot read request %s: %s",
                request_id,
                bug(error),
                extra={"event": "record_unreadable", "request": request_id},
            )
            return None

    def keep(self, record: StoredRequest, letters: int) -> None:
        """Cache a pending record of about `letters` characters. If the record is final, remove it
        from the cache."""
        self.forget(record.id)
        if record.final:
            return
        weight = _RECORD_BYTES + letters
        self._records[record.id] = (record, weight)
        self._bytes += weight
        while self._bytes > self._most_bytes:
            self.forget(next(iter(self._records)))

    def forget(self, request_id: str) -> None:
        """Remove a stale record from the cache."""
        _, weight = self._records.pop(request_id, (None, 0))
        self._bytes -= weight


def policy_of(raw: str | None) -> PolicyDocument:
    """Return the policy stored as this string, without its generation. None gives an empty
    policy."""
    return build(PolicyDocument, json.loads(raw)) if raw else PolicyDocument()


# Members of a grant that change. They have their own fields next to the body.
GRANT_OVERLAY: dict[str, Any] = {
    "used": 0,
    "last_used": None,
    "generation": 1,
    "notices": 0,
    "suspended": False,
    "end": None,
}


def body_of_grant(grant: Grant) -> str:
    """Return, as JSON, the members of a grant that never change."""
    return dumps(plain(replace(grant, **GRANT_OVERLAY)))


def event_of_grant(grant: Grant) -> str:
    """Return the audit data of a new grant, without the arguments that it covers."""
    values = plain(grant)
    kept = {name: value for name, value in values.items() if name not in ("match", "words")}
    told = {**kept, "tool": grant.match.tool, "scope": grant.match.scope.value}
    return dumps(mask({"grant": told}))
