"""What a route asks for at a level of risk: other approvers, more people, and a step-up.

A step-up is what an approval takes beside a tap: proof that the person looked where the agent runs,
or that more than one person agrees.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from gateway.models import RiskLevel
from gateway.wire.codec import Wire


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
