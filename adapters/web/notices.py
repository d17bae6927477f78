"""What a card warns of, and why the gateway refuses, as both read in the inbox.

The core says it for every surface: it sends people to the inbox, and each sentence stands alone.
Here they are there already, and nothing is said that stands on the card in another place.
"""

from __future__ import annotations

import re

from gateway.ports import HIDDEN, REVEALS, Card, JsonObject, Record, say_step_up

_ELSEWHERE = (
    (re.compile(rf"{re.escape(REVEALS)}\w*"), ""),
    (re.compile(r" \(`gateway login NAME` prints a link to the inbox\)"), ""),
    (re.compile(r" in the inbox only, once it is revealed there"), " only once it is revealed"),
    (re.compile(r" in the inbox"), ""),
)
_GONE = "Nobody waits for the answer any more. "
_NOBODY = "Nobody may approve this: "
_EDITED = "; earlier approvals"


def say_here(text: str) -> str:
    """Return a sentence of the core as it reads in the inbox: who reads that is there."""
    for there, here in _ELSEWHERE:
        text = there.sub(here, text)
    return text


def build_notices(card: Card, record: Record) -> JsonObject:
    """Return the notices; what is masked stands apart, by the button that reveals it, and so does
    what a step-up takes, as the panel that asks for it says so itself."""
    steps, tries = say_step_up(record)
    masks = [one for one in card.notices if REVEALS in one]
    apart = (HIDDEN, *masks, " ".join(filter(None, (steps, tries))))
    counted = record.quorum > 1 and record.approvers and record.approvers.step_up == ("person",)
    return {
        "notices": [_say_once(one, card, record) for one in card.notices if one not in apart],
        "masks": "".join(map(say_here, masks)),
        "reveals": say_here(HIDDEN) if HIDDEN in card.notices else "",
        "steps": "" if counted else say_here(steps),  # `progress` counts who approves
        "tries": tries,
    }


def _say_once(notice: str, card: Card, record: Record) -> str:
    """Return a notice without what its card says elsewhere: that nobody waits, or may approve, in
    the word of its state, and who edited it over what was changed."""
    nobody = record.approvers is not None and record.approvers.nobody
    rest = say_here(notice).removeprefix(_NOBODY if nobody else _GONE)
    _, edited, after = rest.partition(_EDITED)
    if edited and card.changed_by is not None:
        rest = f"{edited.removeprefix('; ')}{after}"
    return f"{rest[:1].upper()}{rest[1:]}"
