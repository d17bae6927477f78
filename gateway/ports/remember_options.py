"""What may be remembered about a request, as its card offers it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.domain.records import Record, Vote
from gateway.domain.redaction import render_safe
from gateway.domain.safe_text import Visible
from gateway.models import Action
from gateway.policy.authorization import count_needed
from gateway.policy.grants.grant import Effect, Match
from gateway.policy.grants.offers import LIFETIMES, find_offer, narrowest, offers
from gateway.ports.proven_masks import hides_words

# What is shown for each lifetime that `Remember` knows.
LIFETIME_WORDS = {name: words for name, words, _ in LIFETIMES}


@dataclass(frozen=True, slots=True)
class RememberOption:
    """One offer: the id that a click names, and in words what would then be covered."""

    id: str
    words: Visible


def scopes_of(
    record: Record, action: Action, *, reveal: bool = False
) -> tuple[RememberOption, ...]:
    """Return what may be remembered with this action, narrow first; nothing on what has ended.

    Without `reveal` nothing whose words would hide what could act.
    """
    if record.final or action not in (Action.APPROVE, Action.DENY):
        return ()
    effect = Effect.ALLOW if action is Action.APPROVE else Effect.DENY
    return tuple(
        RememberOption(
            offer.id, render_safe(offer.words + _votes(record, offer.match, effect), reveal=reveal)
        )
        for offer in offers(record, effect)
        if reveal or not hides_words(record, offer.words)
    )


def may_remember(record: Record, action: Action) -> bool:
    """Tell whether anything may be remembered with this action: whether `scopes_of` has any."""
    if record.final or action not in (Action.APPROVE, Action.DENY):
        return False
    effect = Effect.ALLOW if action is Action.APPROVE else Effect.DENY
    return narrowest(record, effect) is not None


def wishes(record: Record) -> list[str]:
    """Say what people want remembered with it, and how many voted for that."""
    wanted: dict[tuple[str, bool], list[Vote]] = {}
    for vote in record.votes:
        if vote.remember is not None:
            wanted.setdefault((vote.remember.offer, vote.remember.everywhere), []).append(vote)
    return [
        f"{len(votes)} of {votes[-1].needs} votes to remember “{_words(record, offer)}” "
        f"{'in all sessions' if everywhere else 'for this session'}: "
        f"{', '.join(vote.person for vote in votes)}"
        for (offer, everywhere), votes in wanted.items()
    ]


def _votes(record: Record, match: Match, effect: Effect) -> str:
    """Say how many votes a scope takes, where one is not enough."""
    if effect is Effect.DENY:
        return ""
    here, everywhere = (
        count_needed(record.quorum, record.scope_quorum, match, everywhere=every)
        for every in (False, True)
    )
    if here == everywhere:
        return f" ({here} must vote for it)" if here > 1 else ""
    session = f"{here} must vote for it, " if here > 1 else ""
    return f" ({session}{everywhere} in all sessions)"


def _words(record: Record, offer_id: str) -> str:
    offer = find_offer(record, offer_id)
    return render_safe(offer.words).text if offer is not None else "what is not offered any more"
