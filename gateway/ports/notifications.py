"""What a notification on a device says of a request, and whether it may be approved from there.

All that is decided about approving is asked of the card. What is added here is that a notification
shows no more than its text: Approve stands only beside the whole call.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from gateway.domain.records import Record
from gateway.domain.redaction import mask, render_safe
from gateway.models import Action, DeciderKind
from gateway.ports.cards import Card, card_of, discreet_summary
from gateway.ports.heads import NOTICE_CHARS, discreet_notice, notice_of
from gateway.ports.proven_masks import MaskProofs

_ALL = 10**9
_ASKS = "Approval needed"
_OVER = "No longer waiting"
_NOT_YOURS = "Not yours to answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What a device shows: a title of ours, and a text of at most NOTICE_CHARS characters. What is
    `approvable` may be approved by who sees nothing else."""

    title: str
    text: str
    approvable: bool = False


def notification_of(
    record: Record, reader: str, *, discreet: bool = False, proofs: MaskProofs | None = None
) -> Notification:
    """Return what a device of this reader shows of a request that waits."""
    if discreet:
        return Notification(title=_ASKS, text=discreet_summary(record))
    request = record.request
    said = notice_of(record)
    whole = f"{said}\n{_whole_call(record) or ''}"
    # Only what is short is drawn: it is cheap, and nothing else can be approved here.
    may = whole[-1] != "\n" and len(whole) <= NOTICE_CHARS
    may = may and _offers_approval(
        card_of(record, lines=_ALL, chars=_ALL, proofs=proofs, reader=reader), record
    )
    title = "Question" if request.questions else _ASKS
    return Notification(title=title, text=whole if may else said, approvable=may)


def end_of_notification(record: Record, *, discreet: bool = False) -> Notification:
    """Return what replaces a notification: how the request ended, or that others answer it."""
    over = _say_end(record) if record.final else _NOT_YOURS
    agent, risk = record.request.agent, record.risk.level
    said = discreet_notice(agent, over, risk) if discreet else notice_of(record, over)
    return Notification(title=_OVER, text=said)


def _say_end(record: Record) -> str:
    """Return how a request ended, with the person who decided."""
    word = card_of(record, lines=0, chars=0).word
    by = record.decision.decided_by if record.decision else None
    return f"{word} by {by.name}" if by and by.kind is DeciderKind.PERSON and by.name else word


def _offers_approval(card: Card, record: Record) -> bool:
    """Whether the card offers its reader an approval that one tap gives, and that is enough."""
    offered = any(one.action is Action.APPROVE and one.confirm is None for one in card.controls)
    return offered and not card.hides and record.quorum <= 1


def _whole_call(record: Record) -> str | None:
    """Return all that would run, on one line, None where one line cannot say it: when there is more
    than a tool, its arguments, a folder and a host, or a character or a secret would not show."""
    context = record.request.context
    more = (record.request.payload, context.env or None, context.files or None)
    if any(one is not None for one in more) or not context.cwd or not context.host:
        return None
    call = (record.request.tool, record.arguments, context.cwd, context.host)
    tool, arguments, folder, host = (json.dumps(one, ensure_ascii=False) for one in call)
    said = f"{tool} {arguments} in {folder} on {host}"
    seen = render_safe(said)
    plain = seen.text == said and not seen.masked and not seen.suspicious
    return said if plain and mask(record.arguments) == record.arguments else None
