"""What people see of a remembered decision, once for all platforms: who, what, until when, how far.

As with the cards of requests, everything is either our own words or `Visible` text.
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
    "To remember it anew, let the agent ask again, and remember that from its card. "
    "This one may be revoked."
)
_REVOKE = "From then on it decides nothing, and people are asked again."


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantCard:
    """One remembered decision as it stands, for people.

    `icon` and `word` name the state, `title` is both with the tool. `words` say what it covers,
    `asked` is the request that it was made from. `until` is when it ends, None until revoked.
    `reach` is what it would have covered of late. `notices` are warnings in our words. `outcome`
    says how it ended. `confirm` is the sentence to confirm before it is revoked, empty when it
    cannot be. Times are milliseconds since the epoch. `people` are whom the gateway names on it.
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
        """The state and the tool, in one line."""
        return f"{self.icon} {self.word} · {self.tool.text}"


def grant_card_of(
    grant: Grant, record: StoredRequest | None = None, *, reach: str = ""
) -> GrantCard:
    """Return the card of a grant, with the request that it was made from where there is one."""
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
        words=render_safe("what it covered was erased" if grant.erased else grant.words),
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
    """Say why it ended, and who ended it where somebody did."""
    return f"{end.why} by {end.by}" if end.why == "revoked" else f"{end.why}, by {end.by}"


def people_of(grant: Grant) -> frozenset[str]:
    """Return who made a grant, whose votes it rests on, and who ended it."""
    ended = {grant.end.by} if grant.end is not None else set()
    return frozenset({grant.made_by, *(one.person for one in grant.backers), *ended})


def uses_of(grant: Grant) -> str:
    """Say how often a grant was used, and how often it may be."""
    if grant.max_uses is not None:
        return f"used {grant.used} of {grant.max_uses} times"
    never = "not used yet" if grant.end is None else "never used"
    return {0: never, 1: "used once"}.get(grant.used, f"used {grant.used} times")


def backing_of(grant: Grant) -> str:
    """Say who remembered a grant, and whose votes it rests on besides."""
    others = _others(grant)
    return f"by {grant.made_by}" + (f", with the votes of {others}" if others else "")


def _others(grant: Grant) -> str:
    return ", ".join(one.person for one in grant.backers if one.person != grant.made_by)


def _state(grant: Grant) -> tuple[str, str]:
    if grant.match.shape in PASSES:
        icon, what, kept, over = "🎫", "Session pass", "Session let through", "Session pass over"
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
        return (f"It decides nothing any more: {grant.outdated.why}.", _ANEW)
    notices = {
        "It decides nothing now, and people are asked: too few of those who remembered it may "
        "still approve here.": grant.suspended,
        "It ends soon. From then on people are asked again.": grant.notices > 0,
    }
    return tuple(text for text, holds in notices.items() if holds)
