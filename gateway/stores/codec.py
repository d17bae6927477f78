"""How a record lies in its Redis hash: short field names, JSON for what is nested."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from gateway.models import ApprovalRequest, Decision, Report, Risk, Status
from gateway.records import Claim, Event, Record, Vote
from gateway.wire import JsonObject, build, plain

# Members of the request that the hash holds as fields of their own, so that scripts can check them.
_OWN_FIELDS = ("id", "agent", "session")


T = TypeVar("T")


def dumps(value: Any) -> str:
    """Return compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def body_of(request: ApprovalRequest) -> str:
    """Return the part of a request that never changes, as JSON."""
    values = plain(request)
    return dumps({key: value for key, value in values.items() if key not in _OWN_FIELDS})


def fields_of(record: Record) -> dict[str, str]:
    """Return the fields that may change over a record's life, absent ones left out."""
    about = {"route": record.route, "quorum": record.quorum, "risk": plain(record.risk)}
    if record.owner is not None:
        about["owner"] = record.owner
    fields = {
        "rev": str(record.revision),
        "since": str(record.shown_since),
        "status": record.status.value,
        "digest": record.digest,
        "about": dumps(about),
        "process": record.process or "",
        "attached": " ".join(record.attached),
        "consumer": " ".join(record.consumers),
        "gone": "" if record.waiting else "1",
        "edited": "" if record.edited is None else dumps(record.edited),
        "votes": dumps(plain(record.votes)) if record.votes else "",
        "decision": dumps(plain(record.decision)) if record.decision else "",
        "note": record.note,
        "report": dumps(plain(record.report)) if record.report else "",
        "nonce": record.nonce or "",
        "erased": "1" if record.erased else "",
        "queues": " ".join(record.queues),
        "tier": str(record.tier or ""),
        "tier_at": str(record.tier_at or ""),
        "reminders": str(record.reminders or ""),
        "claim": dumps(plain(record.claim)) if record.claim else "",
    }
    return {name: value for name, value in fields.items() if value}


def record_from(request_id: str, fields: dict[str, str]) -> Record:
    """Return the record that `fields` hold. Fields of newer versions are ignored, and kept."""
    about = json.loads(fields["about"])
    body = json.loads(fields["body"])
    request = build(
        ApprovalRequest,
        {**body, "id": request_id, "agent": fields["agent"], "session": fields["session"]},
    )
    return Record(
        request=request,
        status=Status(fields["status"]),
        revision=int(fields["rev"]),
        shown_since=int(fields["since"]),
        digest=fields["digest"],
        created=int(fields["created"]),
        deadline=int(fields["deadline"]),
        route=about["route"],
        quorum=about["quorum"],
        risk=build(Risk, about["risk"]),
        owner=about.get("owner"),
        process=fields.get("process"),
        attached=tuple(fields.get("attached", "").split()),
        consumers=tuple(fields.get("consumer", "").split()),
        waiting="gone" not in fields,
        edited=_loaded(fields, "edited"),
        votes=tuple(build(Vote, vote) for vote in _loaded(fields, "votes") or ()),
        decision=_built(Decision, fields, "decision"),
        note=fields.get("note", ""),
        report=_built(Report, fields, "report"),
        nonce=fields.get("nonce"),
        erased="erased" in fields,
        queues=tuple(fields.get("queues", "").split()),
        tier=int(fields.get("tier", 0)),
        tier_at=int(fields.get("tier_at", 0)),
        reminders=int(fields.get("reminders", 0)),
        claim=_built(Claim, fields, "claim"),
    )


def event_from(event_id: str, fields: dict[str, str]) -> Event:
    """Return the event of a stream entry."""
    return Event(
        id=event_id,
        type=fields["t"],
        at=int(fields["at"]),
        agent=fields["agent"],
        request_id=fields["id"],
        revision=int(fields["rev"]),
        data=json.loads(fields["d"]),
    )


def _loaded(fields: dict[str, str], name: str) -> Any:
    return json.loads(fields[name]) if name in fields else None


def _built(cls: type[T], fields: dict[str, str], name: str) -> T | None:
    values: JsonObject | None = _loaded(fields, name)
    return None if values is None else build(cls, values)
