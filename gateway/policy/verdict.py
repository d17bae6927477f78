"""Define a decider of the policy chain, and its verdict. Third parties import both from
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
    """A decider's answer: its `effect` (allow, deny, ask or continue), and the name that the
    decision cites (`by`).

    Ask means that people decide: lower deciders may still deny, but not allow. Continue means no
    opinion. Only hooks can also modify, with new `arguments` for the chain to judge, or respond,
    with a `result` instead of running the call. `abort` stops the turn or the agent after a denial.
    Any answer may raise the `risk`, and none can lower it. Hooks answer together, so they use
    `raised`. An allow `spends` part of its rule's limits.
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
    """A decider of the policy chain. Deciders are asked in order of priority; None means no
    opinion.

    Optional members: `seconds`, its longest time, or None; `after_storing`, true if it is asked
    only about stored requests. `shadows(record)` returns the effects that its report-only part
    would have had, and `asks_because(record)` why it did not allow.
    """

    @property
    def name(self) -> str:
        """The name that decisions cite."""

    @property
    def priority(self) -> int:
        """The decider's place in the order; a higher priority is asked first."""

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Allow, deny, or return None. If it raises, nothing is allowed: people decide."""
