"""What may be remembered about a request, as its card offers it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.grants.grant import Effect
from gateway.grants.offers import LIFETIMES, offers
from gateway.masking import shown
from gateway.models import Action
from gateway.records import Record
from gateway.visible import Visible

# What is shown for each lifetime that `Remember` knows.
LIFETIME_WORDS = {name: words for name, words, _ in LIFETIMES}


@dataclass(frozen=True, slots=True)
class Scope:
    """One offer: the id that a click names, and in words what would then be covered."""

    id: str
    words: Visible


def scopes_of(record: Record, action: Action) -> tuple[Scope, ...]:
    """Return what may be remembered with this action, narrow first; nothing on what has ended."""
    if record.final or action not in (Action.APPROVE, Action.DENY):
        return ()
    effect = Effect.ALLOW if action is Action.APPROVE else Effect.DENY
    return tuple(Scope(offer.id, shown(offer.words)) for offer in offers(record, effect))
