"""What an agent's host offers to keep itself: when a person may choose it, and in which words.

The host decides by it from then on without asking here, and nothing here takes it back. So it is
offered only where an approval may be remembered at all, by one person, of the call as it was asked.
"""

from __future__ import annotations

import json

from gateway.domain.records import Record, ScopeQuorum
from gateway.domain.redaction import render_safe
from gateway.models import HostRule
from gateway.policy.grants.remember_offers import narrowest

_PREFIX = "host:"
NO_REACH = "Only the host knows what it will let through by that."
"""What is said where other offers say what they would have covered."""


def host_rules_of(record: Record) -> dict[str, HostRule]:
    """Return what a person may have the host keep with an approval, by the id of each offer."""
    takes_several = record.quorum > 1 or record.scope_quorum != ScopeQuorum()
    rules = record.request.host_rules
    if not rules or takes_several or record.canary or record.edited is not None:
        return {}
    if narrowest(record) is None:
        return {}
    return {
        f"{_PREFIX}{number}": rule
        for number, rule in enumerate(rules)
        if _is_read_whole(rule.rule) and _is_read_whole(rule.scope)
    }


def find_host_rule(record: Record, offer_id: str) -> HostRule | None:
    """Return the one that an offer's id names, if it is offered for the request as it stands."""
    return host_rules_of(record).get(offer_id) if offer_id.startswith(_PREFIX) else None


def host_rule_words(record: Record, rule: HostRule) -> str:
    """Say what the host would keep. Its own words are quoted: they cannot pass for ours."""
    return (
        f"kept by {name_host(record)} itself: {_quote(rule.rule)}, {_quote(rule.scope)}; it asks "
        "nobody here any more, and only it can take that back. Place and time below do not apply"
    )


def kept_words(record: Record, rule: HostRule) -> str:
    """Say what the host keeps since an approval."""
    return (
        f"{name_host(record)} itself keeps {_quote(rule.rule)}, {_quote(rule.scope)}, "
        "and only it can take that back"
    )


def name_host(record: Record) -> str:
    """Return what the agent calls its host, quoted."""
    told = record.request.origin.framework
    return f"the host {_quote(told)}" if told else "the agent's host"


def _quote(words: str) -> str:
    return json.dumps(words, ensure_ascii=False)


def _is_read_whole(words: str) -> bool:
    seen = render_safe(words)
    return not (seen.suspicious or seen.masked)
