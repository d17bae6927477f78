"""Why a key decides nothing about a request, in words: keys and the line at the foot ask here."""

from __future__ import annotations

from collections.abc import Callable

from gateway.models import Action
from gateway.ports import HIDDEN, Card, Record, standing_of

_DOES_NOT_FIT = "it does not fit here: press f, read it, and approve it there"


def find_hindrance(
    record: Record, card: Card, action: str, reader: str, place_of: Callable[[str], str]
) -> str | None:
    """Return why an action of the screen does nothing with a request that waits, None where it
    does something, for the person of the name `reader`. `place_of` says where the inbox shows
    it."""
    if action == "approve" and card.fields:
        return _find_missing(record, card, Action.ANSWER, reader, place_of)
    if action == "approve":
        why = _find_missing(record, card, Action.APPROVE, reader, place_of)
        return why or (None if card.complete else _DOES_NOT_FIT)
    if action == "edit":
        why = _find_missing(record, card, Action.EDIT, reader, place_of)
        if why is None and card.editable is None:
            return f"it holds secrets: edit it at {place_of(record.id)}"
        return why
    if action == "remember":  # who approved may do so again, and have it remembered
        why = _find_missing(record, card, Action.APPROVE, "", place_of)
        kept = Action.APPROVE in card.remembers
        return why or (None if kept else "this one is asked about each time")
    return None  # a denial, and a claim


def _find_missing(
    record: Record, card: Card, action: Action, reader: str, place_of: Callable[[str], str]
) -> str | None:
    if card.hides:
        return f"{HIDDEN} Go on at {place_of(record.id)}"
    if action not in record.request.allowed:
        return f"this request does not allow {action}"
    standing = standing_of(record, reader)
    if not standing.offers(action):
        return standing.say_nobody() or standing.words
    if any(one.action is action and one.by_passkey_alone for one in card.controls):
        return f"it takes a step-up by passkey. Answer at {place_of(record.id)}"
    return None
