"""One request as the page gets it: everything an approver must see, as visible text."""

from __future__ import annotations

from adapters.web.blocks import (
    Block,
    Line,
    blocks_of,
    changes,
    flags,
    headline,
    pretty,
    shown,
    shown_text,
)
from gateway.models import Question
from gateway.records import Record
from gateway.visible import ascii_escaped, visible
from gateway.wire import JsonObject, plain


def view_of(record: Record, *, full: bool, refusal: str | None) -> JsonObject:
    """Return the view of a request; `refusal` says why this visitor may not decide it."""
    request = record.request
    body = shown(blocks_of(record), full=full)
    hidden, mixed = flags(request.tool, request.hint, request.context.cwd or "")
    return {
        "id": record.id,
        "status": record.status.value,
        "revision": record.revision,
        "kind": request.kind.value,
        "tool": shown_text(request.tool),
        "agent": request.agent,
        "session": shown_text(request.session),
        "host": _maybe(request.context.host),
        "cwd": _maybe(request.context.cwd),
        "risk": {
            "level": record.risk.level.value,
            "reasons": [shown_text(reason) for reason in record.risk.reasons],
        },
        "says": _maybe(request.hint),
        "headline": headline(record),
        "blocks": body.blocks,
        "lines": body.lines,
        "total_lines": body.total_lines,
        "total_chars": body.total_chars,
        "long": body.long,
        "full": full or not body.long,
        "hidden": hidden or body.hidden,
        "mixed_script": mixed or body.mixed_script,
        "preview": _preview(record),
        "changed": _changed(record),
        "created": record.created,
        "deadline": record.deadline,
        "digest": record.digest,
        "waiting": record.waiting,
        "quorum": record.quorum,
        "votes": [vote.person for vote in record.votes],
        "allowed": [action.value for action in request.allowed],
        "questions": [_question(question) for question in request.questions],
        "editable": ascii_escaped(pretty(record.arguments)),
        "refusal": refusal,
        "ended": _ended(record),
        "report": plain(record.report) if record.report else None,
    }


def _question(question: Question) -> JsonObject:
    """Return a field of a form; an agent's words and labels are shown as visible text."""
    values: JsonObject = plain(question)
    values["text"] = shown_text(question.text)
    values["options"] = [
        {"value": option.value, "label": visible(option.label or option.value).text}
        for option in question.options
    ]
    return values


def _maybe(text: str | None) -> Line | None:
    return shown_text(text) if text else None


def _preview(record: Record) -> JsonObject | None:
    preview = record.request.preview
    if preview is None:
        return None
    block = Block("the agent's preview", preview.format, preview.text)
    return shown(iter([block]), full=False).blocks[0]


def _changed(record: Record) -> list[list[str | Line]] | None:
    if record.edited is None:
        return None
    return changes(pretty(record.request.arguments), pretty(record.edited))


def _ended(record: Record) -> JsonObject | None:
    decision = record.decision
    if decision is None:
        return None
    return {
        "says": shown_text(decision.sentence()),
        "action": decision.action.value if decision.action else None,
        "at": decision.decided_at,
        "note": _maybe(record.note),
    }
