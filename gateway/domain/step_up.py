"""What a route asks for at a level of risk: other approvers, more people, and a step-up.

A step-up is what an approval takes beside a tap: proof that the person looked where the agent runs,
or that more than one person agrees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from gateway.models import RiskLevel
from gateway.wire.codec import Wire


class StepUp(StrEnum):
    """One way to do a step-up: type the number that is shown where the agent waits; or be two."""

    NUMBER = "number"
    PERSON = "person"


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

    def from_level(self, level: RiskLevel) -> Iterator[LevelRules]:
        """Yield what is said of this level, and of higher ones."""
        levels = tuple(RiskLevel)
        for one in levels[levels.index(level) :]:
            if (rules := self.at(one)) is not None:
                yield rules

    def without(self, gone: Collection[str]) -> RulesByRisk:
        """Return the rules with these entries taken out of all approvers."""
        low, medium, high = (rules and rules.without(gone) for rules in map(self.at, RiskLevel))
        return RulesByRisk(low=low, medium=medium, high=high)
