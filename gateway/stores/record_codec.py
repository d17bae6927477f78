"""How a record lies in its Redis hash: each member is a field, which is absent at its default.

The defaults of `StoredRequest` are part of what is stored: never change one. `Recent` keeps what
this process last saw of the requests that wait, so that a click need not read them first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import fields as members_of
from typing import Any, NamedTuple

from pydantic_core import to_json

from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import AuditEvent, StoredRequest, summary
from gateway.domain.redaction import bug
from gateway.models import Action, ApprovalRequest, DeciderKind, Decision, Reason
from gateway.wire.codec import JsonObject, build, default_of, fitters_of, plain

log = logging.getLogger("gateway.stores")

NUMBER_FIELD = "number"
"""The number that is shown where the agent waits. It is read by itself, and never into a record."""

# Members of the request that the hash holds as fields of their own, so that scripts can check them.
_APART = ("id", "agent", "digest")
_NAMES = {"request": "body", "revision": "rev"}
_BESIDE = ("approvers", "numbered", "decision", "spends")
_TEXTS = frozenset({"digest", "route", "owner", "asks_because", "process", "note", "behind"})
# Scripts look for a word in these.
_WORDS = frozenset({"attached", "consumers", "nonces", "queues"})

OF_SCRIPTS = frozenset({"status", "created", "deadline", "behind", "alike"})
"""Fields that scripts write themselves."""


class _Member(NamedTuple):
    """A member of a record: its field in the hash, its default, and how both are converted."""

    name: str
    field: str
    default: Any
    write: Callable[[Any], str]
    read: Callable[[str], Any]

    def text(self, value: Any) -> str:
        """Return what is stored of a value, "" where that is nothing."""
        return "" if value == self.default else self.write(value)


def dumps(value: Any) -> str:
    """Return compact JSON."""
    return to_json(value).decode()


def _write_request(request: ApprovalRequest) -> str:
    return dumps({name: one for name, one in plain(request).items() if name not in _APART})


def _write_json(value: Any) -> str:
    return dumps(plain(value))


def _read_json(fit: Callable[[Any], Any] | None) -> Callable[[str], Any]:
    return json.loads if fit is None else lambda text: fit(json.loads(text))


def _members() -> tuple[_Member, ...]:
    fitters, found = fitters_of(StoredRequest), []
    for member in members_of(StoredRequest):
        name, fit = member.name, fitters[member.name]
        write: Callable[[Any], str] = _write_json
        read = _read_json(fit)
        if name == "request":
            write, read = _write_request, json.loads
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


def fields_of(record: StoredRequest) -> dict[str, str]:
    """Return the fields of a record but its decision, absent ones left out."""
    values = vars(record)
    written = [(one.field, one.text(values[one.name])) for one in _MEMBERS]
    return {field: text for field, text in (*written, ("asked", _asked(record))) if text}


def changed_fields(before: StoredRequest, after: StoredRequest) -> dict[str, str]:
    """Return the fields in which two records differ, as `after` has them: "" for one to delete.
    What the scripts write themselves is none of them."""
    was, now = vars(before), vars(after)
    changed = {
        one.field: one.text(now[one.name])
        for one in _MEMBERS
        if now[one.name] is not was[one.name]  # most are the very same
        and now[one.name] != was[one.name]
        and one.field not in OF_SCRIPTS | {"rev"}
    }
    if "digest" in changed:
        changed["asked"] = _asked(after)
    return changed


def _asked(record: StoredRequest) -> str:
    """Return the digest of what was asked, "" where that would run: an edit changes it."""
    asked = record.request.digest
    return "" if asked == record.digest else asked


def ending_of(record: StoredRequest) -> tuple[str, str]:
    """Return a record's decision as it is stored, and what the event of its ending says, both as
    JSON or ""."""
    if record.decision is None:
        return "", ""
    values = record.decision.values()
    return dumps(_short(values, record) or values), dumps(summary(values, record))


def _short(values: JsonObject, record: StoredRequest) -> list[Any] | None:
    """Return what the record does not say of an approval by one person, as most decisions are, or
    None for any other. `whole` in shared_functions.lua reads it as well."""
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


def record_from(request_id: str, fields: dict[str, str]) -> StoredRequest:
    """Return the record that `fields` hold. Fields of newer versions are ignored, and kept."""
    values = {one.name: one.read(fields[one.field]) for one in _MEMBERS if fields.get(one.field)}
    own = {"id": request_id, "agent": fields["agent"]}
    own["digest"] = fields.get("asked", fields["digest"])
    values["request"] = build(ApprovalRequest, values["request"] | own)
    if fields.get("decision"):
        values["decision"] = _decision_from(request_id, fields)
    return StoredRequest(**values, numbered=NUMBER_FIELD in fields)


def _decision_from(request_id: str, fields: dict[str, str]) -> Decision:
    """Return the decision, whichever way it is stored."""
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
"""What a record weighs in memory, roughly, beside the text in it."""


class Recent:
    """Pending records as they were last read or written here. The oldest go when it gets full.

    Another replica may have changed any of them since: whoever uses one must leave the last word to
    a script that compares the revision.
    """

    def __init__(self, most_bytes: int = _MOST_RECENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._records: dict[str, tuple[StoredRequest, int]] = {}

    def get(self, request_id: str) -> StoredRequest | None:
        """Return what was seen last."""
        found = self._records.get(request_id)
        return found[0] if found else None

    def read(self, request_id: str, fields: dict[str, str]) -> StoredRequest | None:
        """Return the record that these fields hold, None when there are none; keep it."""
        if not fields:
            return None
        record = record_from(request_id, fields)
        self.keep(record, sum(map(len, fields.values())))
        return record

    def read_if_legible(self, request_id: str, fields: dict[str, str]) -> StoredRequest | None:
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

    def keep(self, record: StoredRequest, letters: int) -> None:
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
