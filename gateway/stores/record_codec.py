"""How a record lies in its Redis hash: short field names, JSON for what is nested.

`Recent` keeps what this process last saw of the requests that wait, so that a click need not read
them first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

from pydantic_core import to_json

from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import AuditEvent, Claim, Edit, Record, ScopeQuorum, Vote, summary
from gateway.domain.redaction import bug
from gateway.domain.risk import RaisedRisk, StepUpDone
from gateway.models import (
    Action,
    ApprovalRequest,
    DeciderKind,
    Decision,
    Reason,
    Report,
    Risk,
    RiskLevel,
    Status,
)
from gateway.wire.codec import JsonObject, build, plain

log = logging.getLogger("gateway.store")

# Members of the request that the hash holds as fields of their own, so that scripts can check them.
_OWN_FIELDS = ("id", "agent", "digest")


# Stands among the consumers for the process that asked; attach.lua knows it too.
_ASKER = "="

_COMMON = Risk(level=RiskLevel.MEDIUM)

# What most requests are, which is not written. Never change a value: it would be read of all that
# are stored.
_USUAL: JsonObject = {
    "route": "default",
    "quorum": 1,
    "risk": plain(_COMMON),
    "owner": None,
    "scopes": {},
    "harmless": False,
    "declared": {},
    "trusted": False,
    "asks_because": "",
    "raised": [],
}

NUMBER_FIELD = "number"
"""The number that is shown where the agent waits. It is read by itself, and never into a record."""

T = TypeVar("T")


def dumps(value: Any) -> str:
    """Return compact JSON."""
    return to_json(value).decode()


def body_of(request: ApprovalRequest) -> str:
    """Return the part of a request that never changes, as JSON."""
    values = plain(request)
    return dumps({key: value for key, value in values.items() if key not in _OWN_FIELDS})


def _json_or_absent(value: Any) -> str:
    return "" if value is None or value == () else dumps(plain(value))


def _text(value: str | None) -> str:
    return value or ""


def _flag(value: bool) -> str:
    return "1" if value else ""


def _count(number: int) -> str:
    return str(number or "")


Raised = tuple[RaisedRisk, ...]


def _later(revision: int) -> str:
    return "" if revision == 1 else str(revision)


def _write_gone(waiting: bool) -> str:
    return "" if waiting else "1"


def _write_consumers(values: tuple[str | None, tuple[str, ...]]) -> str:
    process, consumers = values
    return " ".join(_ASKER if one == process else one for one in consumers)


def _consumers_of(fields: dict[str, str]) -> tuple[str, ...]:
    written = fields.get("consumer", "").split()
    return tuple(fields["process"] if one == _ASKER else one for one in written)


def _write_asked(digests: tuple[str, str]) -> str:
    now, asked = digests
    return "" if now == asked else asked


def _about(
    values: tuple[str, int, Risk, str | None, ScopeQuorum, bool, JsonObject, bool, str, Raised],
) -> str:
    route, quorum, risk, owner, scopes, harmless, declared, trusted, asks_because, raised = values
    about: JsonObject = {
        "route": route,
        "quorum": quorum,
        "risk": plain(risk),
        "owner": owner,
        "scopes": plain(scopes),
        "harmless": harmless,
        "declared": declared,
        "trusted": trusted,
        "asks_because": asks_because,
        "raised": plain(raised),
    }
    return dumps({name: value for name, value in about.items() if value != _USUAL[name]})


# The fields that may change over a record's life, apart from its decision and from who waits behind
# whom, which is the scripts' own: the members of the record that each comes from, and how it is
# written. What is written as "" is absent from the hash.
_WRITTEN: tuple[tuple[str, tuple[str, ...], Callable[[Any], str]], ...] = (
    ("rev", ("revision",), str),
    ("since", ("shown_since",), _later),
    ("status", ("status",), str),
    ("digest", ("digest",), str),
    ("asked", ("digest", "request.digest"), _write_asked),
    (
        "about",
        (
            "route",
            "quorum",
            "risk",
            "owner",
            "scope_quorum",
            "harmless",
            "declared",
            "trusted",
            "asks_because",
            "raised",
        ),
        _about,
    ),
    ("process", ("process",), _text),
    ("attached", ("attached",), " ".join),
    ("consumer", ("process", "consumers"), _write_consumers),
    ("gone", ("waiting",), _write_gone),
    ("found", ("findings",), _json_or_absent),
    ("found_at", ("finding_places",), _json_or_absent),
    ("edited", ("edited",), _json_or_absent),
    ("edits", ("edits",), _json_or_absent),
    ("votes", ("votes",), _json_or_absent),
    ("note", ("note",), str),
    ("report", ("report",), _json_or_absent),
    ("nonces", ("nonces",), " ".join),
    ("erased", ("erased",), _flag),
    ("queues", ("queues",), " ".join),
    ("tier", ("tier",), _count),
    ("tier_at", ("tier_at",), _count),
    ("reminders", ("reminders",), _count),
    ("claim", ("claim",), _json_or_absent),
    ("guesses", ("guesses",), _count),
    ("stepped", ("stepped",), _json_or_absent),
)

_Field = tuple[str, Callable[[Record], Any], Callable[[Any], str]]
_FIELDS: tuple[_Field, ...] = tuple(
    (name, attrgetter(*sources), write) for name, sources, write in _WRITTEN
)


def _by_member() -> dict[str, list[_Field]]:
    """Return the fields that come from each member of a record."""
    found: dict[str, list[_Field]] = {}
    for field, (_, sources, _) in zip(_FIELDS, _WRITTEN, strict=True):
        for source in sources:
            found.setdefault(source.partition(".")[0], []).append(field)
    return found


_FROM = _by_member()


def fields_of(record: Record) -> dict[str, str]:
    """Return these fields of a record, absent ones left out."""
    written = ((name, write(read(record))) for name, read, write in _FIELDS)
    return {name: text for name, text in written if text}


def changed_fields(before: Record, after: Record) -> dict[str, str]:
    """Return those in which two records differ, as `after` has them: "" for one to delete."""
    was, now = vars(before), vars(after)
    changed: dict[str, str] = {}
    for member, written in _FROM.items():
        if now[member] is was[member]:
            continue  # most are the very same
        for name, read, write in written:
            found = read(after)
            if found != read(before):
                changed[name] = write(found)
    return changed


def ending_of(record: Record) -> tuple[str, str]:
    """Return a record's decision as it is stored, and what the event of its ending says, both as
    JSON or ""."""
    if record.decision is None:
        return "", ""
    values = record.decision.values()
    return dumps(_short(values, record) or values), dumps(summary(values, record))


def _short(values: JsonObject, record: Record) -> list[Any] | None:
    """Return what the record does not say of an approval by one person, as most decisions are, or
    None for any other. `whole` in prelude.lua reads it as well."""
    if values["decided_by"]["kind"] != DeciderKind.PERSON or "signature" not in values:
        return None
    who = values["decided_by"]["name"]
    short = [values["revision"], who, values["decided_at"], values["signature"]]
    own = (record.id, record.status.value, record.digest, record.deadline)
    return short if _whole(short, *own) == values else None


def _whole(
    short: list[Any], request_id: str, status: str, digest: str, deadline: int
) -> JsonObject:
    """Return the decision of which `_short` left this."""
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


def record_from(request_id: str, fields: dict[str, str]) -> Record:
    """Return the record that `fields` hold. Fields of newer versions are ignored, and kept."""
    about: JsonObject = _USUAL | json.loads(fields["about"])
    request = build(
        ApprovalRequest,
        {
            **json.loads(fields["body"]),
            "id": request_id,
            "agent": fields["agent"],
            # An edit changes what would run, and not what was asked.
            "digest": fields.get("asked", fields["digest"]),
        },
    )
    return Record(
        request=request,
        status=Status(fields["status"]),
        revision=int(fields["rev"]),
        shown_since=int(fields.get("since", 1)),
        digest=fields["digest"],
        created=int(fields["created"]),
        deadline=int(fields["deadline"]),
        route=about["route"],
        quorum=about["quorum"],
        risk=_COMMON if about["risk"] is _USUAL["risk"] else build(Risk, about["risk"]),
        owner=about["owner"],
        scope_quorum=build(ScopeQuorum, about["scopes"]),
        harmless=about["harmless"],
        declared=about["declared"],
        trusted=about["trusted"],
        asks_because=about["asks_because"],
        raised=tuple(build(RaisedRisk, one) for one in about["raised"]),
        process=fields.get("process"),
        attached=tuple(fields.get("attached", "").split()),
        consumers=_consumers_of(fields),
        waiting="gone" not in fields,
        findings=tuple(_load(fields, "found") or ()),
        finding_places=tuple(_load(fields, "found_at") or ()),
        edited=_load(fields, "edited"),
        edits=tuple(build(Edit, one) for one in _load(fields, "edits") or ()),
        votes=tuple(build(Vote, vote) for vote in _load(fields, "votes") or ()),
        decision=_decision_of(request_id, fields),
        note=fields.get("note", ""),
        report=_build(Report, fields, "report"),
        nonces=tuple(fields.get("nonces", "").split()),
        erased="erased" in fields,
        queues=tuple(fields.get("queues", "").split()),
        tier=int(fields.get("tier", 0)),
        tier_at=int(fields.get("tier_at", 0)),
        reminders=int(fields.get("reminders", 0)),
        claim=_build(Claim, fields, "claim"),
        numbered=NUMBER_FIELD in fields,
        guesses=int(fields.get("guesses", 0)),
        stepped=tuple(build(StepUpDone, one) for one in _load(fields, "stepped") or ()),
        behind=fields.get("behind", ""),
        alike=int(fields.get("alike", 0)),
    )


def _decision_of(request_id: str, fields: dict[str, str]) -> Decision | None:
    """Return the decision, whichever way it is stored."""
    kept: JsonObject | list[Any] | None = _load(fields, "decision")
    if kept is None:
        return None
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


def _load(fields: dict[str, str], name: str) -> Any:
    return json.loads(fields[name]) if name in fields else None


def _build(cls: type[T], fields: dict[str, str], name: str) -> T | None:
    values: JsonObject | None = _load(fields, name)
    return None if values is None else build(cls, values)


_MOST_RECENT_BYTES = 64 * 1024 * 1024
_RECORD_BYTES = 4096
"""What a record weighs in memory, roughly, beside the text in it."""


class Recent:
    """Pending records as they were last read or written here. The oldest go when it gets full.

    Another replica may have changed any of them since: whoever uses one must leave the last word to
    a script that compares the revision.
    """

    def __init__(self, most_bytes: int = _MOST_RECENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._records: dict[str, tuple[Record, int]] = {}

    def get(self, request_id: str) -> Record | None:
        """Return what was seen last."""
        found = self._records.get(request_id)
        return found[0] if found else None

    def read(self, request_id: str, fields: dict[str, str]) -> Record | None:
        """Return the record that these fields hold, None when there are none; keep it."""
        if not fields:
            return None
        record = record_from(request_id, fields)
        self.keep(record, sum(map(len, fields.values())))
        return record

    def read_if_legible(self, request_id: str, fields: dict[str, str]) -> Record | None:
        """As `read`, for one of many: None, and logged, when it cannot be read."""
        try:
            return self.read(request_id, fields)
        except Exception as error:
            # Whatever is wrong with one must not hide the others.
            log.error(
                "request %s cannot be read: %s",
                request_id,
                bug(error),
                extra={"event": "record_unreadable"},
            )
            return None

    def keep(self, record: Record, letters: int) -> None:
        """Keep a record that waits, which holds about so many letters; forget a final one."""
        self.forget(record.id)
        if record.final:
            return
        weight = _RECORD_BYTES + letters
        self._records[record.id] = (record, weight)
        self._bytes += weight
        while self._bytes > self._most_bytes:
            self.forget(next(iter(self._records)))

    def forget(self, request_id: str) -> None:
        """Forget a record: it is not as it was."""
        _, weight = self._records.pop(request_id, (None, 0))
        self._bytes -= weight


def policy_of(raw: str | None) -> PolicyDocument:
    """Return the policy that is kept as this text, without its generation; None is an empty one."""
    return build(PolicyDocument, json.loads(raw)) if raw else PolicyDocument()
