"""One link of the policy chain, and what it answers. Third parties import both from
`gateway.ports`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from gateway.domain.policy_document import Route
from gateway.domain.records import Spend, StoredRequest
from gateway.domain.risk import RaisedRisk
from gateway.models import DecidedBy, Reason, Risk
from gateway.wire.codec import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A decider's answer: `effect` is allow, deny, ask or continue, `by` is what the decision will
    cite.

    Ask means that people decide: nothing below may allow any more, though it may deny. Only hooks
    modify (with other `arguments`, which the chain then judges) and respond (with a `result`
    instead of running anything). `abort` stops the turn or the agent with a denial. Continue is no
    opinion but for the `risk`, which any answer may raise and none can lower: people read who
    raised it and why. Hooks, which answer together, each have theirs in `raised`. An allow `spends`
    what its rule limits.
    """

    effect: str
    by: DecidedBy
    reason: Reason = Reason.RULE
    message: str = ""
    abort: str | None = None
    arguments: JsonObject | None = None
    result: Any = None
    risk: Risk | None = None
    raised: tuple[RaisedRisk, ...] = ()
    spends: tuple[Spend, ...] = ()


class Decider(Protocol):
    """One link of the policy chain. Higher priority is asked first; None means: no opinion.

    It may have more, which the chain looks for: `seconds`, the longest that it takes, or None;
    `after_storing`, true where it is asked about stored requests alone; `shadows(record)`, what a
    part of it that only watches would do; `asks_because(record)`, what kept it from allowing.
    """

    @property
    def name(self) -> str:
        """The name that decisions cite."""

    @property
    def priority(self) -> int:
        """Higher is asked earlier."""

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Allow, deny, or have no opinion. Raising never allows: the chain asks people."""
