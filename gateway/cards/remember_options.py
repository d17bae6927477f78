"""What may be remembered about a request, as its card offers it, and which values stay fixed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from gateway.cards.masks import hides_offer
from gateway.domain.records import Remember, StoredRequest, Vote
from gateway.domain.redaction import render_safe
from gateway.domain.safe_text import Visible
from gateway.models import Action
from gateway.policy.authorization import count_needed
from gateway.policy.declared_tools import ON_CARDS, open_values
from gateway.policy.grants.grant import PASSES, Answer, Effect, Match
from gateway.policy.grants.offers import (
    LIFETIMES,
    PASS_LIFETIMES,
    Offer,
    find_host_rule,
    find_offer,
    find_pass,
    host_rule_words,
    host_rules_of,
    narrowest,
    offers,
    passes_for,
)

# Ways to end that count uses, within an hour.
_NEXT = {"next5": 5, "next20": 20}
SIMILAR = 10
USUAL = f"Chosen first: it covers the last {SIMILAR} similar requests."
"""What is said of the offer that `SuggestionCalls.find_usual` names."""
_LONGER = {name: words for name, words, _ in LIFETIMES}
# What is shown for each way to end, the default first; `remember_as` reads the names.
LIFETIME_WORDS = {
    "1h": _LONGER.pop("1h"),
    **{name: f"for the next {uses}, within an hour" for name, uses in _NEXT.items()},
    **_LONGER,
}
USUAL_LIFETIME = next(iter(LIFETIME_WORDS))
# The same for who sees all at once: the narrow ones first.
_BY_LENGTH = sorted(LIFETIMES, key=lambda one: math.inf if one[2] is None else one[2])
LIFETIMES_BY_LENGTH = {
    name: LIFETIME_WORDS[name] for name in (*_NEXT, *(n for n, _, _ in _BY_LENGTH))
}
# Those of them that a pass may have.
PASS_LIFETIME_WORDS = {
    name: words for name, words in LIFETIME_WORDS.items() if name in (*PASS_LIFETIMES, *_NEXT)
}


@dataclass(frozen=True, slots=True)
class RememberOption:
    """One offer: the id that a click names, and in words what would then be covered.

    `session_pass` ones are for the request's session, and end by `PASS_LIFETIME_WORDS`. What
    `by_host` is kept outside the gateway, for as long as the host keeps it.
    `whole_tool` is everything that a tool declared harmless can do.
    """

    id: str
    words: Visible
    session_pass: bool = False
    whole_tool: bool = False
    by_host: bool = False


def remember_as(offer: str, lifetime: str, *, everywhere: bool) -> Remember:
    """Return the wish of somebody who chose among `LIFETIME_WORDS`."""
    uses = _NEXT.get(lifetime)
    lasts = lifetime if uses is None else "1h"
    return Remember(offer=offer, everywhere=everywhere, lifetime=lasts, max_uses=uses)


def scopes_of(
    record: StoredRequest, action: Action, *, reveal: bool = False, passes: bool = False
) -> tuple[RememberOption, ...]:
    """Return what may be remembered with this action, narrow first; nothing on what has ended.

    Without `reveal` nothing whose words would hide what could act; with `passes`, which is for who
    may give them, also the passes of the session, last.
    """
    if not _may(record, action):
        return ()
    effect = Effect.ALLOW if action is Action.APPROVE else Effect.DENY
    made = offers(record, effect)
    if passes and made and effect is Effect.ALLOW:
        made += passes_for(record)
    ours = tuple(
        RememberOption(
            offer.id,
            record.show(_say(record, offer, effect), reveal=reveal),
            offer.match.shape in PASSES,
            offer.match.answer is Answer.TOOL,
        )
        for offer in made
        if reveal or not hides_offer(record, offer, effect)
    )
    if not ours or effect is Effect.DENY:
        return ours
    rules = tuple(
        RememberOption(offer_id, record.show(host_rule_words(record, rule)), by_host=True)
        for offer_id, rule in host_rules_of(record).items()
    )
    narrow = tuple(one for one in ours if not one.session_pass)
    return narrow + rules + tuple(one for one in ours if one.session_pass)


def may_remember(record: StoredRequest, action: Action) -> bool:
    """Tell whether anything may be remembered with this action: whether `scopes_of` has any."""
    if not _may(record, action):
        return False
    effect = Effect.ALLOW if action is Action.APPROVE else Effect.DENY
    return narrowest(record, effect) is not None


def _may(record: StoredRequest, action: Action) -> bool:
    """Whether an answer may be remembered: never of what has ended, or takes a step-up."""
    if record.final:
        return False
    steps = record.approvers is not None and bool(record.approvers.step_up)
    return action is Action.DENY or (action is Action.APPROVE and not steps)


def wishes(record: StoredRequest) -> list[str]:
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


def _say(record: StoredRequest, offer: Offer, effect: Effect) -> str:
    """Say what an offer covers, a pass by its name, and the votes that it takes."""
    lead = "a pass, 8 hours at most: " if offer.match.shape in PASSES else ""
    return lead + offer.words + _votes(record, offer.match, effect)


def _votes(record: StoredRequest, match: Match, effect: Effect) -> str:
    """Say how many votes a scope takes, where one is not enough."""
    if effect is Effect.DENY:
        return ""
    here, everywhere = (
        count_needed(record.quorum, record.scope_quorum, match, everywhere=every)
        for every in (False, True)
    )
    if here == everywhere or match.shape in PASSES:
        return f" ({here} must vote for it)" if here > 1 else ""
    session = f"{here} must vote for it, " if here > 1 else ""
    return f" ({session}{everywhere} in all sessions)"


def _words(record: StoredRequest, offer_id: str) -> str:
    if (rule := find_host_rule(record, offer_id)) is not None:
        return record.show(host_rule_words(record, rule)).text
    offer = find_offer(record, offer_id) or find_pass(record, offer_id)
    return record.show(offer.words).text if offer is not None else "what is not offered any more"


# The values of a call that are fixed for want of a declaration, as people read them.

_MOST_NAMED = 8
_MOST_NAME = 80
_REMEMBERED = "If remembered, it covers only the same"
ROLES_ON_CARDS = {role.value: words for role, words in ON_CARDS.items()}
"""The roles to choose from on a card, with a sentence each."""


@dataclass(frozen=True, slots=True)
class Undeclared:
    """A value that somebody could declare. `address` names it to the gateway; empty where it does
    not show as it is, which no card can declare. `what` is its role, and who says so."""

    address: str
    name: Visible
    what: str


def undeclared_of(record: StoredRequest) -> tuple[Undeclared, ...]:
    """Return the values of a waiting request that somebody could declare."""
    if record.final:
        return ()
    return tuple(
        Undeclared(
            one.address if name.text == json.dumps(one.address) else "",
            name,
            f"{one.role.value.replace('_', ' ')}: {one.why}",
        )
        for one in open_values(record)
        for name in (_quote(one.address),)
    )


def say_undeclared(record: StoredRequest) -> Visible | None:
    """Return them as one sentence, with who can say what they are; None where there are none."""
    found = undeclared_of(record)
    if not found:
        return None
    named = ", ".join(one.name.text for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    alone = len(found) == 1
    return render_safe(
        f"{_REMEMBERED} {named}{more}: nobody declared what "
        f"{'it is' if alone else 'they are'}. An admin can, in the inbox."
    )


def _quote(address: str) -> Visible:
    quoted = json.dumps(address)
    return render_safe(quoted if len(quoted) <= _MOST_NAME else f'{quoted[: _MOST_NAME - 2]}…"')
