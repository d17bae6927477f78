"""Offer grants on the card of a request, and list the values that grants fix. Start reading at
`scopes_of`."""

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

# Lifetimes that count uses, within an hour.
_NEXT = {"next5": 5, "next20": 20}
SIMILAR = 10
USUAL = f"Preselected: it covers the last {SIMILAR} similar requests."
"""Describes the offer that `SuggestionCalls.find_usual` returns."""
_LONGER = {name: words for name, words, _ in LIFETIMES}
# The words for each lifetime, the default first; `remember_as` reads the names.
LIFETIME_WORDS = {
    "1h": _LONGER.pop("1h"),
    **{name: f"for the next {uses}, within an hour" for name, uses in _NEXT.items()},
    **_LONGER,
}
USUAL_LIFETIME = next(iter(LIFETIME_WORDS))
# The same for surfaces that show all at once: the shortest first.
_BY_LENGTH = sorted(LIFETIMES, key=lambda one: math.inf if one[2] is None else one[2])
LIFETIMES_BY_LENGTH = {
    name: LIFETIME_WORDS[name] for name in (*_NEXT, *(n for n, _, _ in _BY_LENGTH))
}
# The lifetimes that a session pass may have.
PASS_LIFETIME_WORDS = {
    name: words for name, words in LIFETIME_WORDS.items() if name in (*PASS_LIFETIMES, *_NEXT)
}


@dataclass(frozen=True, slots=True)
class RememberOption:
    """One offer of a grant: the id that a click names, and the scope in words.

    A `session_pass` option applies to the request's session and uses `PASS_LIFETIME_WORDS`. A
    `by_host` option is a rule that the coding agent itself keeps. A `whole_tool` option covers all
    calls of a harmless tool.
    """

    id: str
    words: Visible
    session_pass: bool = False
    whole_tool: bool = False
    by_host: bool = False


def remember_as(offer: str, lifetime: str, *, everywhere: bool) -> Remember:
    """Return a person's wish for a grant after they chose one of `LIFETIME_WORDS`."""
    uses = _NEXT.get(lifetime)
    lasts = lifetime if uses is None else "1h"
    return Remember(offer=offer, everywhere=everywhere, lifetime=lasts, max_uses=uses)


def scopes_of(
    record: StoredRequest, action: Action, *, reveal: bool = False, passes: bool = False
) -> tuple[RememberOption, ...]:
    """Return the grants that this action can save, narrow first; none for a decided request.

    Without `reveal`, an offer is left out if a mask in its words would hide a value that could act.
    With `passes`, which is for people who may give session passes, these come last.
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
    """Return whether this action can save a grant, so that `scopes_of` returns any."""
    if not _may(record, action):
        return False
    effect = Effect.ALLOW if action is Action.APPROVE else Effect.DENY
    return narrowest(record, effect) is not None


def _may(record: StoredRequest, action: Action) -> bool:
    """Whether this action may save a grant. No action may if the request is decided, and an
    approval may not if it requires a step-up."""
    if record.final:
        return False
    steps = record.approvers is not None and bool(record.approvers.step_up)
    return action is Action.DENY or (action is Action.APPROVE and not steps)


def wishes(record: StoredRequest) -> list[str]:
    """Return a sentence for each grant that people want with the approval, with the number of votes
    for it."""
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
    """Return the scope of an offer in words, with the number of votes that it needs."""
    lead = "a pass, 8 hours at most: " if offer.match.shape in PASSES else ""
    return lead + offer.words + _votes(record, offer.match, effect)


def _votes(record: StoredRequest, match: Match, effect: Effect) -> str:
    """Return how many votes a scope needs, in words, if it needs more than one."""
    if effect is Effect.DENY:
        return ""
    here, everywhere = (
        count_needed(record.quorum, record.scope_quorum, match, everywhere=every)
        for every in (False, True)
    )
    if here == everywhere or match.shape in PASSES:
        return f" (needs {here} votes)" if here > 1 else ""
    session = f"{here} votes, " if here > 1 else ""
    return f" (needs {session}{everywhere} in all sessions)"


def _words(record: StoredRequest, offer_id: str) -> str:
    if (rule := find_host_rule(record, offer_id)) is not None:
        return record.show(host_rule_words(record, rule)).text
    offer = find_offer(record, offer_id) or find_pass(record, offer_id)
    return record.show(offer.words).text if offer is not None else "an offer that no longer exists"


# The values that a grant must fix because nobody declared them, as people read them.

_MOST_NAMED = 8
_MOST_NAME = 80
_REMEMBERED = "A grant covers only the same"
ROLES_ON_CARDS = {role.value: words for role, words in ON_CARDS.items()}
"""The roles to choose from on a card, with a sentence each."""


@dataclass(frozen=True, slots=True)
class Undeclared:
    """A value that an admin could declare. `address` identifies it to the gateway. `address` is
    empty if it cannot be shown unchanged; then no card can declare the value. `what` is the value's
    role and where the role comes from."""

    address: str
    name: Visible
    what: str


def undeclared_of(record: StoredRequest) -> tuple[Undeclared, ...]:
    """Return the values of a pending request that an admin could declare."""
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
    """Return a sentence that names the undeclared values and who can declare them; None if there
    are no such values."""
    found = undeclared_of(record)
    if not found:
        return None
    named = ", ".join(one.name.text for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    alone = len(found) == 1
    return render_safe(
        f"{_REMEMBERED} {named}{more}, because nobody declared "
        f"{'this value' if alone else 'these values'}. An admin can, in the inbox."
    )


def _quote(address: str) -> Visible:
    quoted = json.dumps(address)
    return render_safe(quoted if len(quoted) <= _MOST_NAME else f'{quoted[: _MOST_NAME - 2]}…"')
