"""The operator's rules that set the risk of a request, and what a route asks for at each level."""

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
"""In whose name a record is assessed as high risk because of findings; no link of the chain."""

_MOST_ESCAPED = 3  # JSON within JSON within JSON
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])')
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")  # a letter in two escapes
_SIGNS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedRisk(Wire):
    """That a decider raised a request's risk: the link of the chain, who people read did it, to
    which level, and why."""

    decider: str
    by: str
    level: RiskLevel
    reasons: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """What people read of it."""
        said = f"Risk raised by {self.by}"
        return tuple(f"{said}: {reason}" for reason in self.reasons) or (said,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskRule(Wire):
    """Sets the risk of what it fits, and says why on the card.

    All that is given must fit: `agents` and `tools` as in a route, `kinds`, and any one of the
    strings of `contains`, sought in arguments and payload without regard to case, to letters that
    pass for others, and to what does not show.
    """

    name: str
    level: RiskLevel
    reason: str
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    contains: tuple[str, ...] = ()

    def fits(self, request: ApprovalRequest, text: str) -> bool:
        """Whether it fits a request whose arguments and payload are this `searchable_text`."""
        return (
            is_named(self.agents, request.agent)
            and is_named(self.tools, request.tool)
            and (not self.kinds or request.kind in self.kinds)
            and (not self.contains or any(fold(part) in text for part in self.contains))
        )


def assess_by_rules(
    rules: Sequence[RiskRule], request: ApprovalRequest, arguments: JsonObject
) -> Risk:
    """Return the highest risk that a rule sets, medium where none fits; a claim may raise it."""
    parts = (arguments,) if request.payload is None else (arguments, request.payload)
    text = searchable_text(parts) if rules else ""
    fitting = [rule for rule in rules if rule.fits(request, text)]
    if not fitting:
        return raise_risk(Risk(level=RiskLevel.MEDIUM), request.risk)
    level = max((rule.level for rule in fitting), key=_RISK_ORDER.index)
    reasons = tuple(rule.reason for rule in fitting if rule.level is level)
    return raise_risk(Risk(level=level, reasons=reasons), request.risk)


def raise_risk(risk: Risk, claimed: Risk | None) -> Risk:
    """Return `risk`, lifted by an agent's claim when that is higher; a claim never lowers."""
    if claimed is None or _RISK_ORDER.index(claimed.level) <= _RISK_ORDER.index(risk.level):
        return risk
    reasons = tuple(f"the agent says: {reason}" for reason in claimed.reasons)
    return Risk(level=claimed.level, reasons=risk.reasons + (reasons or ("the agent says so",)))


def is_lower(level: RiskLevel, other: RiskLevel) -> bool:
    """Whether a level lies below another one."""
    return _RISK_ORDER.index(level) < _RISK_ORDER.index(other)


def lift(risk: Risk, raised: Iterable[RaisedRisk]) -> Risk:
    """Return `risk`, lifted by all who raised it beyond what it was; none of them lowers it."""
    above = [one for one in raised if is_lower(risk.level, one.level)]
    if not above:
        return risk
    level = max((one.level for one in above), key=_RISK_ORDER.index)
    reasons = tuple(said for one in above for said in one.sentences)
    return Risk(level=level, reasons=risk.reasons + reasons)


def finding_sign(*, alarms: bool) -> str:
    """Return what stands before a finding, where there are no colours: red where the guardrails
    are in force, amber in shadow."""
    return "🔴" if alarms else "⚠️"


def searchable_text(parts: Iterable[JsonObject]) -> str:
    """Return the text in which rules look for what a request must not contain.

    It stands there as JSON, and as it reads without JSON's escapes: those around it, and those of
    JSON within a text; all of it folded, as what is sought must be.
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
    """Whether a name is among these, in which `*` stands for anything; none means all names."""
    return not patterns or any(_pattern(pattern).fullmatch(name) for pattern in patterns)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


# What a route asks for at a level of risk: other approvers, more people, and a step-up.
#
# A step-up is what an approval takes beside a tap: proof that the person looked where the agent
# runs, or that more than one person agrees.


class StepUp(StrEnum):
    """One way to do a step-up: type the number that is shown where the agent waits, prove with a
    passkey that it is you who agrees to exactly this, or be two."""

    NUMBER = "number"
    PASSKEY = "passkey"
    PERSON = "person"


WORDS = {
    StepUp.NUMBER: "the number that is shown where the agent waits",
    StepUp.PASSKEY: "a passkey",
    StepUp.PERSON: "a second person",
}
"""What people read of each way."""
_WHERE = {StepUp.PASSKEY: " in the inbox"}

NUMBER = re.compile(r"[0-9]{3}")
MOST_GUESSES = 3
"""So many wrong numbers deny a request."""

_LEAST, _NUMBERS = 100, 900


def draw_number() -> str:
    """Return a new number for a request: three digits, the first of them none."""
    return str(_LEAST + secrets.randbelow(_NUMBERS))


def say_ways(ways: Iterable[StepUp], *, here: bool = False) -> str:
    """Return the ways of which one must be done, as a sentence lists them; `here` for who reads it
    in the inbox."""
    *most, last = (WORDS[way] if here else WORDS[way] + _WHERE.get(way, "") for way in ways)
    return f"{', '.join(most)}, or {last}" if most else last


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUpDone(Wire):
    """How somebody did a step-up. `name` is the passkey's."""

    way: StepUp
    name: str = ""

    @property
    def words(self) -> str:
        """How, after the word "confirmed"."""
        if self.way is StepUp.PASSKEY:
            return f"by passkey {self.name}".rstrip()
        return "by number" if self.way is StepUp.NUMBER else "by a second person"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRules(Wire):
    """What a route says of one level of risk; None is as the route says.

    `step_up` are the ways of which one must be done; empty for none.
    """

    approvers: tuple[str, ...] | None = None
    quorum: int | None = None
    step_up: tuple[StepUp, ...] = ()

    def without(self, gone: Collection[str]) -> LevelRules:
        """Return the rules with these entries taken out of their approvers."""
        if self.approvers is None:
            return self
        return replace(self, approvers=tuple(one for one in self.approvers if one not in gone))


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesByRisk(Wire):
    """What a route says of each level of risk of which it says something."""

    low: LevelRules | None = None
    medium: LevelRules | None = None
    high: LevelRules | None = None

    def at(self, level: RiskLevel) -> LevelRules | None:
        """Return what is said of a level, None where nothing is."""
        rules: LevelRules | None = getattr(self, level.value)
        return rules

    @property
    def takes_numbers(self) -> bool:
        """Whether a number may be asked for at any level."""
        every = (self.at(level) for level in RiskLevel)
        return any(rules is not None and StepUp.NUMBER in rules.step_up for rules in every)

    def without(self, gone: Collection[str]) -> RulesByRisk:
        """Return the rules with these entries taken out of all approvers."""
        low, medium, high = (rules and rules.without(gone) for rules in map(self.at, RiskLevel))
        return RulesByRisk(low=low, medium=medium, high=high)
