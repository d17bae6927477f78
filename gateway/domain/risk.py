"""Assess the risk of a request by the operator's rules, and define the requirements of each risk
level."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from gateway.domain.safe_text import fold
from gateway.models import ApprovalRequest, Kind, Risk, RiskLevel
from gateway.wire.codec import JsonObject, Wire

_RISK_ORDER = tuple(RiskLevel)

GUARDRAILS = "the guardrails"
"""The decider named for a high risk because of findings; it is not in the chain of deciders."""

_MOST_ESCAPED = 3  # JSON within JSON within JSON
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])')
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")  # one character in two escapes
_SIGNS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedRisk(Wire):
    """A risk that a decider raised: the decider's id, its name for people, the level and the
    reasons."""

    decider: str
    by: str
    level: RiskLevel
    reasons: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences about the raised risk that people read."""
        said = f"Risk raised by {self.by}"
        return tuple(f"{said}: {reason}" for reason in self.reasons) or (said,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskRule(Wire):
    """Sets the risk of the requests that match it, with a reason for the card.

    All given members must match. `agents` and `tools` match as in a route. At least one string of
    `contains` must be in the arguments or payload; case, invisible characters and look-alike
    letters are ignored.
    """

    name: str
    level: RiskLevel
    reason: str
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    contains: tuple[str, ...] = ()

    def fits(self, request: ApprovalRequest, text: str) -> bool:
        """Whether the rule matches a request. `text` is the `searchable_text` of the request's
        parts."""
        return (
            is_named(self.agents, request.agent)
            and is_named(self.tools, request.tool)
            and (not self.kinds or request.kind in self.kinds)
            and (not self.contains or any(fold(part) in text for part in self.contains))
        )


def assess_by_rules(
    rules: Sequence[RiskRule], request: ApprovalRequest, arguments: JsonObject
) -> Risk:
    """Return the highest risk of the matching rules, or medium if none matches. The agent's claim
    may raise it."""
    parts = (arguments,) if request.payload is None else (arguments, request.payload)
    text = searchable_text(parts) if rules else ""
    fitting = [rule for rule in rules if rule.fits(request, text)]
    if not fitting:
        return raise_risk(Risk(level=RiskLevel.MEDIUM), request.risk)
    level = max((rule.level for rule in fitting), key=_RISK_ORDER.index)
    reasons = tuple(rule.reason for rule in fitting if rule.level is level)
    return raise_risk(Risk(level=level, reasons=reasons), request.risk)


def raise_risk(risk: Risk, claimed: Risk | None) -> Risk:
    """Return the higher of `risk` and the level that the agent claims."""
    if claimed is None or _RISK_ORDER.index(claimed.level) <= _RISK_ORDER.index(risk.level):
        return risk
    reasons = tuple(f"the agent says: {reason}" for reason in claimed.reasons)
    return Risk(level=claimed.level, reasons=risk.reasons + (reasons or ("the agent says so",)))


def is_lower(level: RiskLevel, other: RiskLevel) -> bool:
    """Whether a risk level is lower than another."""
    return _RISK_ORDER.index(level) < _RISK_ORDER.index(other)


def lift(risk: Risk, raised: Iterable[RaisedRisk]) -> Risk:
    """Return the highest of `risk` and the levels that deciders set, so that it is never
    lowered."""
    above = [one for one in raised if is_lower(risk.level, one.level)]
    if not above:
        return risk
    level = max((one.level for one in above), key=_RISK_ORDER.index)
    reasons = tuple(said for one in above for said in one.sentences)
    return Risk(level=level, reasons=risk.reasons + reasons)


def finding_sign(*, alarms: bool) -> str:
    """Return the sign that precedes a finding where text has no colour: red if guardrails are
    active, else amber."""
    return "🔴" if alarms else "⚠️"


def searchable_text(parts: Iterable[JsonObject]) -> str:
    """Return the text in which rules search for `contains` strings.

    The text contains the parts as JSON, and again with JSON escapes decoded, up to three levels
    deep. All of it is folded with `fold`, so the strings to find must be folded too.
    """
    text = "\n".join(json.dumps(part, ensure_ascii=False) for part in parts)
    readings = [text]
    while "\\" in readings[-1] and len(readings) <= _MOST_ESCAPED:
        read = _ESCAPE.sub(_unescape, readings[-1])
        readings.append(_PAIR.sub(_join_pair, read))
    return fold("\n".join(readings))


def _unescape(found: re.Match[str]) -> str:
    sign = found[1]
    return chr(int(sign[1:], 16)) if sign[0] == "u" and sign[1:] else _SIGNS.get(sign, sign)


def _join_pair(found: re.Match[str]) -> str:
    return found[0].encode("utf-16", "surrogatepass").decode("utf-16")


@lru_cache(maxsize=4096)
def is_named(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a name matches one of these patterns (`*` matches anything). If there are no
    patterns, any name matches."""
    return not patterns or any(_pattern(pattern).fullmatch(name) for pattern in patterns)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


# A route's exceptions for a risk level: other approvers, a higher quorum, and a step-up.
#
# A step-up is extra verification of an approval: proof that the person looked where the agent runs,
# a passkey, or a second person.


class StepUp(StrEnum):
    """A way to verify an approval: a verification code shown where the agent runs, a passkey, or a
    second person."""

    NUMBER = "number"
    PASSKEY = "passkey"
    PERSON = "person"


WORDS = {
    StepUp.NUMBER: "the number that is shown where the agent waits",
    StepUp.PASSKEY: "a passkey",
    StepUp.PERSON: "a second person",
}
"""The name of each step-up in texts for people."""
_WHERE = {StepUp.PASSKEY: " in the inbox"}

NUMBER = re.compile(r"[0-9]{3}")
MOST_GUESSES = 3
"""This many wrong numbers deny a request."""

_LEAST, _NUMBERS = 100, 900


def draw_number() -> str:
    """Return a random verification code for a request: three digits, without a leading zero."""
    return str(_LEAST + secrets.randbelow(_NUMBERS))


def say_ways(ways: Iterable[StepUp], *, here: bool = False) -> str:
    """Return the step-ups, any one of which is enough, as a list in a sentence. `here` means that
    the reader is in the inbox."""
    *most, last = (WORDS[way] if here else WORDS[way] + _WHERE.get(way, "") for way in ways)
    return f"{', '.join(most)}, or {last}" if most else last


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUpDone(Wire):
    """A step-up that a person completed. `name` is the passkey's name."""

    way: StepUp
    name: str = ""

    @property
    def words(self) -> str:
        """How the approval was verified, as words to follow "confirmed"."""
        if self.way is StepUp.PASSKEY:
            return f"by passkey {self.name}".rstrip()
        return "by number" if self.way is StepUp.NUMBER else "by a second person"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRules(Wire):
    """A route's exceptions for one risk level; None keeps the route's value.

    `step_up` lists the step-ups of which an approval requires one; if empty, none is required.
    """

    approvers: tuple[str, ...] | None = None
    quorum: int | None = None
    step_up: tuple[StepUp, ...] = ()

    def without(self, gone: Collection[str]) -> LevelRules:
        """Return the rules without these entries among their approvers."""
        if self.approvers is None:
            return self
        return replace(self, approvers=tuple(one for one in self.approvers if one not in gone))


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesByRisk(Wire):
    """A route's exceptions by risk level. None means that a level has no exceptions."""

    low: LevelRules | None = None
    medium: LevelRules | None = None
    high: LevelRules | None = None

    def at(self, level: RiskLevel) -> LevelRules | None:
        """Return the exceptions for a level, or None."""
        rules: LevelRules | None = getattr(self, level.value)
        return rules

    @property
    def takes_numbers(self) -> bool:
        """Whether any level can require a verification code."""
        every = (self.at(level) for level in RiskLevel)
        return any(rules is not None and StepUp.NUMBER in rules.step_up for rules in every)

    def without(self, gone: Collection[str]) -> RulesByRisk:
        """Return the rules without these entries among the approvers of any level."""
        low, medium, high = (rules and rules.without(gone) for rules in map(self.at, RiskLevel))
        return RulesByRisk(low=low, medium=medium, high=high)
