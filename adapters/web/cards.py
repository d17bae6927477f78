"""Convert cards that the core rendered to JSON for the page; start with `build_row` and
`build_whole`.

A text is a string. If it contains escapes, it is a list of pairs: a string, and whether that is an
escape.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.cards.blocks import Block, Change, draw, heavy, weight_of
from gateway.cards.card import (
    Card,
    Field,
    FieldAnswer,
    card_of,
    choose_found_above,
    progress_of,
    say_masked,
    say_step_up,
    state_of,
)
from gateway.cards.command_summary import SECRET_NAMED, CallSummary
from gateway.cards.forms import UNCHANGED, EditField, edit_fields
from gateway.cards.masks import COULD_ACT
from gateway.cards.remember_options import scopes_of, undeclared_of
from gateway.cards.shared_texts import LIFT, KillSwitch, standing_of
from gateway.cards.summary import summarize
from gateway.models import Action, RiskLevel
from gateway.ports import Approvers, JsonObject, Segment, StoredRequest, Visible

ROW_LINES, ROW_CHARS = 24, 2_000  # for all blocks of a row together
WHOLE = 10**9
_BEGINNING, _END, _FOLDED = 70, 60, 200  # characters of a folded finding
_NAMED_BELOW = {SECRET_NAMED: "⟨secret, shown below⟩"}

Line = str | list[list[str | bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The viewer of a request. `refusal` is the reason why the viewer may not decide, or None.
    `may_pass` says whether the viewer may create a session pass."""

    name: str
    refusal: str | None = None
    may_pass: bool = False


def build_row(record: StoredRequest) -> JsonObject:
    """Return a request as a row of the list. The row of a pending request shows the beginning of
    the call."""
    size = (0, 0) if record.final else (ROW_LINES, ROW_CHARS)
    card = card_of(record, lines=size[0], chars=size[1], here=True)
    return {**_build_view(card, record), "editable": None, "edit_fields": []}


def build_short_row(record: StoredRequest) -> JsonObject:
    """Return a request as a line of the queue, with some members of a card."""
    return {
        "id": record.id,
        "revision": record.revision,
        "status": record.status.value,
        "word": state_of(record).word,
        "summary": _build_summary(summarize(record)),
        "agent": record.request.agent,
        "risk": record.risk.level.value,
        "found": bool(record.risk.reasons or record.located_findings),
        "idle": _say_idle(record),
        "claim": {"by": record.claim.person} if record.claim else None,
        "approved": _count_approvals(record),
        "created": record.created,
        "deadline": record.deadline,
        "follows": record.behind if record.follows else None,
        "alone": explain_exclusion(record) is not None,
    }


def _say_idle(record: StoredRequest) -> str:
    """Return a short reason why a pending request needs no approval now; "" if it needs one."""
    state = state_of(record)
    return state.word if state.idle else ""


def _count_approvals(record: StoredRequest) -> str:
    """Return how many people have approved; "" for a form, or if one approval is enough."""
    if record.quorum <= 1 or record.request.questions:
        return ""
    return f"{len(record.votes)} of {record.quorum} approved"


def explain_exclusion(record: StoredRequest) -> str | None:
    """Return the reason why a request must be decided alone, or None if it may be decided in a
    batch."""
    if record.risk.level is RiskLevel.HIGH:
        return "it is high risk; decide high-risk requests one at a time"
    if record.approvers is not None and record.approvers.step_up:
        return "it needs extra verification"
    if Action.APPROVE not in record.request.allowed or record.request.questions:
        return "it needs an answer, not an approval"
    return None


def build_whole(record: StoredRequest, *, reveal: bool = False) -> JsonObject:
    """Return everything about a request; `reveal` adds its masked secrets."""
    card = card_of(record, lines=WHOLE, chars=WHOLE, reveal=reveal, here=True)
    fields = [] if record.final else [*edit_fields(record, reveal=reveal)]
    return {
        **_build_view(card, record, reveal=reveal),
        "edit_fields": [_build_edit_field(one) for one in fields],
        "unchanged": UNCHANGED,
        "opened": True,
        "revealed": reveal,
    }


def add_viewer(view: JsonObject, record: StoredRequest, look: Viewer) -> JsonObject:
    """Adapt the view of a request to its viewer: claim, refusal, scopes, progress and controls."""
    standing = standing_of(record, look.name)
    claim = view["claim"]
    mine = claim and {**claim, "mine": claim["by"] == look.name}
    remember = view["remember"]
    if not look.may_pass:
        known = [scope for scope in remember["approve"] if not scope["pass"]]
        remember = {**remember, "approve": known}
    if not standing.offers(Action.APPROVE):
        remember = {**remember, "approve": []}
    return {
        **view,
        "claim": mine,
        "refusal": look.refusal,
        "remember": remember,
        "progress": progress_of(record, standing),
        "controls": [one for one in view["controls"] if standing.offers(Action(one["action"]))],
    }


def build_changes(rows: tuple[Change, ...]) -> list[list[Any]]:
    """Return a diff as rows of [sign, line]."""
    return [[row.sign, build_line(row.text.segments)] for row in rows]


def build_line(segments: tuple[Segment, ...]) -> Line:
    """Return the segments of a line as one string, or as a list if they contain escapes."""
    if not any(escape for _, escape in segments):
        return "".join(text for text, _ in segments)
    return [[text, escape] for text, escape in segments]


def _build_view(card: Card, record: StoredRequest, *, reveal: bool = False) -> JsonObject:
    claim = record.claim
    return {
        **_build_state(card, reveal=reveal),
        "agent": record.request.agent,
        "found": bool(record.risk.reasons or record.located_findings),
        "alone": explain_exclusion(record) is not None,
        "idle": _say_idle(record),
        **_build_notices(card, record),
        "above": _build_found(card, record),
        "facts": [[fact.label, build_line(fact.text.segments)] for fact in card.facts],
        "reasons": [build_line(reason.segments) for reason in card.reasons],
        "alarms": card.alarms,
        "findings": [build_line(finding.segments) for finding in card.findings],
        "shorts": [_shorten_long(finding) for finding in card.findings],
        "because": _build_optional_line(card.asks_because),
        "says": _build_optional_line(card.says),
        "unverified": card.unverified,
        "blocks": [_build_block(block) for block in card.blocks if block.text.segments],
        "preview": _build_block(card.preview) if card.preview else None,
        "changed": build_changes(card.changed),
        "changed_by": _build_optional_line(card.changed_by),
        "changed_aside": _build_optional_line(card.changed_aside),
        "fields": [_build_field(field) for field in card.fields],
        "numbered": record.numbered,
        "undeclared": [
            {"address": one.address, "name": build_line(one.name.segments), "what": one.what}
            for one in undeclared_of(record)
        ],
        "claim": {"by": claim.person} if claim else None,
        "votes": [vote.person for vote in record.votes],
        "quorum": record.quorum,
        "follows": record.behind if record.follows else None,
        "ending": _build_optional_line(card.short_ending),
        "answers": [_build_answer(one) for one in card.answers],
        "note": _build_optional_line(card.note),
        "result": _build_optional_line(card.result),
        "remember": {
            "approve": _build_scopes(card, record, Action.APPROVE, reveal=reveal),
            "deny": _build_scopes(card, record, Action.DENY, reveal=reveal),
        },
        "controls": [
            {
                "action": control.action.value,
                "label": control.label,
                "yes": f"Yes, {control.yes[:1].lower()}{control.yes[1:]}",
                "style": control.style.value,
                "confirm": control.confirm,
                "number": control.number,
                "passkey": control.passkey,
                "optional": control.optional,
            }
            for control in card.controls
        ],
    }


def _build_state(card: Card, *, reveal: bool) -> JsonObject:
    return {
        "id": card.request_id,
        "short_id": card.short_id,
        "revision": card.revision,
        "status": card.status.value,
        "icon": card.icon,
        "word": card.word,
        "tone": card.state.tone.value,
        "summary": _build_summary(card.summary, reveal=reveal),
        "tool": build_line(card.tool.segments),
        "risk": card.risk.value,
        "complete": card.complete,
        "hides": card.hides,
        "size": card.size,
        "progress": card.progress,
        "created": card.created,
        "deadline": card.deadline,
        "decided_at": card.decided_at,
        "digest": card.digest,
        "editable": card.editable,
    }


def _build_found(card: Card, record: StoredRequest) -> JsonObject:
    """Return the findings and reasons that the page shows before the call. It shows the others
    after it."""
    # If there are several blocks, each begins with its name.
    named = card.blocks[0].label if len(card.blocks) > 1 else ""
    above = choose_found_above(card, _say_idle(record), named)
    return {
        "mark": above.mark,
        "findings": [build_line(one.segments) for one in above.findings],
        "reasons": [build_line(one.segments) for one in above.reasons],
    }


def _build_notices(card: Card, record: StoredRequest) -> JsonObject:
    """Return the notices. Notices about masks and extra verification are separate members, because
    the page shows them next to the button or in the panel."""
    steps, tries = say_step_up(record, here=True)
    return {
        "notices": list(card.notices),
        "masks": f"{say_masked(card.masked)}." if card.masked else "",
        "reveals": f"{COULD_ACT}." if card.hides else "",
        "steps": steps,
        "tries": tries,
    }


def _shorten_long(finding: Visible) -> Line | None:
    """Return the beginning and the end of a long finding; None if it is short."""
    if len(finding.text) <= _FOLDED:
        return None
    return build_line(finding.shortened(_BEGINNING, _END).segments)


def _build_summary(summary: CallSummary, *, reveal: bool = False) -> list[list[Any]]:
    """Return a summary. Titles and announcements repeat it, so it never contains a revealed secret,
    only a note that the secret is shown below."""
    named = _NAMED_BELOW if reveal else {}
    return [
        [
            build_line(tuple((named.get(text, text), mark) for text, mark in part.text.segments)),
            part.named,
        ]
        for part in summary
    ]


def _build_scopes(
    card: Card, record: StoredRequest, action: Action, *, reveal: bool
) -> list[JsonObject]:
    """Return the offered scopes, including session passes; `add_viewer` removes those that the
    viewer may not use."""
    if action not in card.remembers:
        return []
    return [
        {
            "id": one.id,
            "words": build_line(one.words.segments),
            "pass": one.session_pass,
            "ends": None if one.by_host else True,  # whether it needs a place and a lifetime
        }
        for one in scopes_of(record, action, reveal=reveal, passes=True)
    ]


def _build_block(block: Block) -> JsonObject:
    return {
        "label": block.label,
        "format": block.format,
        "lines": [build_line(line) for line in block.text.lines()],
    }


def _build_field(field: Field) -> JsonObject:
    return {
        "id": field.id,
        "text": build_line(field.text.segments),
        "kind": field.kind.value,
        "choices": [{"value": one.value, "label": one.label.text} for one in field.choices],
        "required": field.required,
        "secret": field.secret,
    }


def _build_answer(answer: FieldAnswer) -> JsonObject:
    return {
        "question": build_line(answer.question.segments),
        "given": _build_optional_line(answer.given),
        "words": answer.words,
    }


def _build_edit_field(field: EditField) -> JsonObject:
    return {
        "id": field.id,
        "label": build_line(field.label.segments),
        "kind": field.kind.value,
        "value": field.value,
        "choices": [build_line(one.segments) for one in field.choices],
        "masked": field.masked,
    }


def _build_optional_line(text: Visible | None) -> Line | None:
    return build_line(text.segments) if text else None


def build_switch(switch: KillSwitch) -> JsonObject:
    """Return the state of the kill switch, and the effect of its button."""
    does = f"Afterwards {LIFT[0].lower()}{LIFT[1:]}" if switch.on else switch.stopping
    return {"on": switch.on, "state": switch.state, "does": does}


# Rows of requests. Rows of large requests are cached, because they take long to render.

_MOST_KEPT = 200


class Rows:
    """Builds rows with the function `make`, and caches the rows that are expensive to build."""

    def __init__(self, make: Callable[[StoredRequest], JsonObject]) -> None:
        self._make = make
        self._heavy: OrderedDict[tuple[str, int, int, Approvers | None], JsonObject] = OrderedDict()

    async def build(self, record: StoredRequest) -> JsonObject:
        """Return the row for the current state of a request."""
        key = (record.id, record.revision, record.alike, record.approvers)
        if key in self._heavy:
            self._heavy.move_to_end(key)
            return self._heavy[key]
        row = await draw(lambda: self._make(record), *weight_of(record))
        if heavy(*weight_of(record)):
            self._heavy[key] = row
            if len(self._heavy) > _MOST_KEPT:
                self._heavy.popitem(last=False)
        return row
