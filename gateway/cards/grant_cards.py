"""Build the card of a grant in one way for all platforms. Start reading at `grant_card_of`.

Everything on the card is either the gateway's own words or `Visible` text.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.cards.blocks import headline, quote_name
from gateway.cards.card import Fact
from gateway.cards.summary import name_agent
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import render_safe
from gateway.domain.safe_text import Visible
from gateway.policy.grants.grant import ANY_TOOL, PASSES, Effect, End, Grant

SHORT_ID_CHARS = 8
_HEADLINE_CHARS = 240
_ANEW = (
    "To replace this grant, let the agent ask again and choose Remember… on that card. You can "
    "also revoke this grant."
)
_REVOKE = "Matching requests will require approval again."


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantCard:
    """One grant in its current state, for people.

    `icon` and `word` name the state; `title` has both, and the tool. `words` describes the grant's
    scope; `asked` is the request that the grant was made from. `until` is when it expires, or None
    if it lasts until revoked. `reach` describes the matches in history. `notices` are warnings in
    the gateway's words. `outcome` says how the grant ended. `confirm` is the text to confirm before
    revoking, or empty if the grant cannot be revoked. Times are in milliseconds since the epoch.
    `people` lists the names in the gateway's sentences.
    """

    grant_id: str
    short_id: str
    revision: int
    ended: bool
    icon: str
    word: str
    tool: Visible
    notification: str
    words: Visible
    asked: Visible | None
    facts: tuple[Fact, ...]
    until: int | None
    uses: str
    reach: str
    notices: tuple[str, ...]
    outcome: str
    ended_at: int | None
    confirm: str
    people: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """The grant's state and tool, in one line."""
        return f"{self.icon} {self.word} · {self.tool.text}"


def grant_card_of(
    grant: Grant, record: StoredRequest | None = None, *, reach: str = ""
) -> GrantCard:
    """Return the card of a grant, with the request that it was made from if there is one."""
    end = grant.end
    named = grant.match.tool
    tool = render_safe("every tool") if named == ANY_TOOL else quote_name(named)
    icon, word = _state(grant)
    asks = record is not None and not record.erased and not grant.erased
    return GrantCard(
        grant_id=grant.id,
        short_id=grant.id[:SHORT_ID_CHARS],
        revision=grant.generation,
        ended=end is not None,
        icon=icon,
        word=word,
        tool=tool,
        notification=f"{word}: {name_agent(grant.agent)} · {tool.text} · {grant.match.scope.value}",
        words=render_safe("the content was erased" if grant.erased else grant.words),
        asked=headline(record, _HEADLINE_CHARS) if record is not None and asks else None,
        facts=_facts(grant),
        until=grant.expires_at,
        uses=uses_of(grant),
        reach=reach if end is None else "",
        notices=_notices(grant),
        outcome="" if end is None else _say_end(end),
        ended_at=None if end is None else end.at,
        confirm="" if end is not None else _REVOKE,
        people=people_of(grant),
    )


def _say_end(end: End) -> str:
    """Return why a grant ended and who ended it, in words."""
    return f"{end.why} by {end.by}" if end.why == "revoked" else f"{end.why}, by {end.by}"


def people_of(grant: Grant) -> frozenset[str]:
    """Return the people who made a grant, voted for it, or ended it."""
    ended = {grant.end.by} if grant.end is not None else set()
    return frozenset({grant.made_by, *(one.person for one in grant.backers), *ended})


def uses_of(grant: Grant) -> str:
    """Return how often a grant was used, in words, and its limit if it has one."""
    if grant.max_uses is not None:
        return f"used {grant.used} of {grant.max_uses} times"
    never = "not used yet" if grant.end is None else "never used"
    return {0: never, 1: "used once"}.get(grant.used, f"used {grant.used} times")


def backing_of(grant: Grant) -> str:
    """Return who made a grant, in words, and who else voted for it."""
    others = _others(grant)
    return f"by {grant.made_by}" + (f", with the votes of {others}" if others else "")


def _others(grant: Grant) -> str:
    return ", ".join(one.person for one in grant.backers if one.person != grant.made_by)


def _state(grant: Grant) -> tuple[str, str]:
    if grant.match.shape in PASSES:
        icon, what, kept, over = "🎫", "Session pass", "Session let through", "Session pass ended"
    else:
        what = "Approval" if grant.effect is Effect.ALLOW else "Denial"
        icon, kept, over = "🧠", f"{what} remembered", f"{what} no longer remembered"
    if grant.end is not None:
        return "↩️", over
    return ("⏸️", f"{what} suspended") if grant.suspended or grant.outdated else (icon, kept)


def _facts(grant: Grant) -> tuple[Fact, ...]:
    facts = (
        ("Agent", f'"{grant.agent}"'),
        ("Where", f'session "{grant.session}"' if grant.session else "all sessions of this agent"),
        ("Scope", grant.match.scope.value),
        ("Remembered by", grant.made_by),
        ("With the votes of", _others(grant)),
    )
    return tuple(Fact(label, render_safe(text)) for label, text in facts if text)


def _notices(grant: Grant) -> tuple[str, ...]:
    if grant.end is not None:
        return ()
    if grant.outdated is not None:
        return (f"Inactive: {grant.outdated.why}.", _ANEW)
    notices = {
        "Too few of the people who approved this grant can still approve here. "
        "Matching requests require approval.": grant.suspended,
        "This grant ends soon. Matching requests will then require approval.": grant.notices > 0,
    }
    return tuple(text for text, holds in notices.items() if holds)
