"""One link of the policy chain, and what it answers. Third parties import both from
`gateway.ports`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from gateway.domain.policy_document import Route
from gateway.domain.records import Record
from gateway.models import DecidedBy, Reason
from gateway.wire.codec import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A decider's answer: `effect` is allow, deny or ask, `by` is what the decision will cite.

    Ask means that people decide: nothing below may allow any more, though it may deny. Only hooks
    modify (with other `arguments`, which the chain then judges) and respond (with a `result`
    instead of running anything). `abort` stops the turn or the agent with a denial.
    """

    effect: str
    by: DecidedBy
    reason: Reason = Reason.RULE
    message: str = ""
    abort: str | None = None
    arguments: JsonObject | None = None
    result: Any = None


class Decider(Protocol):
    """One link of the policy chain. Higher priority is asked first; None means: no opinion."""

    @property
    def name(self) -> str:
        """The name that decisions cite."""

    @property
    def priority(self) -> int:
        """Higher is asked earlier."""

    async def decide(self, record: Record, route: Route) -> Verdict | None:
        """Allow, deny, or have no opinion. Raising never allows: the chain asks people."""
