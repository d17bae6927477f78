"""What a card warns of, in our words: masks, a change, an agent that is gone, what approving takes.

Who reads it in the inbox is told by the state and the controls there what others are told here.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.domain.records import Record, company
from gateway.domain.redaction import render_safe
from gateway.domain.safe_text import Visible
from gateway.domain.step_up import MOST_GUESSES, StepUp, say_ways
from gateway.models import DeciderKind
from gateway.ports.blocks import Block
from gateway.ports.proven_masks import HIDDEN
from gateway.ports.standing import Standing
from gateway.ports.words import say_name
from gateway.wire.outcome_text import join_names

_NOBODY_WAITS = "Nobody waits for the answer any more. "
_COMES_BACK = "If the agent comes back, it gets your answer."


def _say_edited(record: Record) -> str:
    """Say what a person's edit means for a waiting request; "" where none edited it. Who did stands
    at the changes."""
    if record.edited is None or record.final:
        return ""
    if record.editors and all(one.by.kind is not DeciderKind.PERSON for one in record.editors):
        return ""
    return f"Approvals from before the change do not count.{_say_handed_on(record)}"


def _say_handed_on(record: Record) -> str:
    """Say of what somebody edited, and may not approve as it is now, for whom it waits."""
    may, last = record.approvers, record.editors[-1:]
    if may is None or not may.names or record.votes or not last:
        return ""
    by = last[0].by
    if by.kind is not DeciderKind.PERSON or by.name in may.names:
        return ""
    return (
        f" {by.name} may not approve it as it is now, at {record.risk.level} risk: "
        f"it waits for {join_names(tuple(dict.fromkeys(map(say_name, may.names))), 'or')}."
    )


def list_notices(
    record: Record,
    whole: Sequence[Block],
    tool: Visible,
    standing: Standing,
    *,
    hides: bool,
    here: bool,
) -> tuple[str, ...]:
    """Return a card's warnings, what weighs most first; `here` for who reads it in the inbox."""
    request = record.request
    texts = [block.text for block in whole] + [tool, render_safe(request.hint)]
    for question in request.questions:
        texts += [
            render_safe(question.text),
            *(render_safe(o.label or o.value) for o in question.options),
        ]
    masked = sum(block.text.masked for block in whole)
    them = "it" if masked == 1 else "them"
    steps, tries = say_step_up(record)
    gone = _COMES_BACK if here and not standing.nobody else f"{_NOBODY_WAITS}{_COMES_BACK}"
    notices = {
        HIDDEN: hides and not here,
        (nobody := standing.say_nobody(here=here)): nobody,
        "Hidden or reordering characters are shown as escapes.": any(t.hidden for t in texts),
        "Some letters pass for others; they are marked.": any(t.mixed_script for t in texts),
        f"{say_masked(masked)}; the inbox can reveal {them}.": masked and not (hides or here),
        gone: not record.waiting and not record.final,
        (edited := _say_edited(record)): edited,
        "Escalated: nobody answered in time.": record.tier > 0 and not record.final,
        f"{steps} {tries}".strip(): steps and not here,
    }
    return (*(text for text, holds in notices.items() if holds), *company(record))


def say_masked(count: int) -> str:
    """Say how many secrets are masked."""
    return f"{count} secret{'' if count == 1 else 's'} masked"


def say_step_up(record: Record, *, here: bool = False) -> tuple[str, str]:
    """Say what an approval of a waiting request takes beside a tap, and how often a wrong number
    was typed; "" where that is nothing, or more people alone: whoever counts them says so. `here`
    for who reads it in the inbox."""
    may = record.approvers
    if record.final or may is None or may.nobody or not may.step_up:
        return "", ""
    if may.step_up == (StepUp.PERSON,) and record.quorum > 1:
        return "", ""
    tries = f"{record.guesses} of {MOST_GUESSES} wrong numbers typed; the third denies it."
    takes = f"Approving takes {say_ways(may.step_up, here=here)}."
    return takes, tries if record.guesses else ""
