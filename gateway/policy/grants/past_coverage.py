"""What a grant would have done: replays a match over requests that people decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gateway.domain.records import Record
from gateway.models import Reason, Status
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import (
    LONGEST_PASS_MS,
    PASSES,
    Effect,
    Grant,
    Match,
    MatchResult,
)
from gateway.wire.codec import Wire

_BY_PEOPLE = frozenset({Reason.PERSON, Reason.FEEDBACK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Blast(Wire):
    """How many of the `looked_at` recent requests a grant covers, and what people said to those."""

    looked_at: int
    covered: int
    approved: int
    denied: int

    def words(self) -> str:
        """Say it in one sentence, nothing when it covers none."""
        if not self.covered:
            return ""
        return (
            f"It would have covered {self.covered} of the last {self.looked_at} requests; "
            f"people had approved {self.approved} of these and denied {self.denied}."
        )


def blast(match: Match, agent: str, records: Iterable[Record], session: str | None = None) -> Blast:
    """Return what an allow of this match would have covered among an agent's recent requests.

    A pass is for one `session`.
    """
    grant = Grant(
        id="0" * 32,
        effect=Effect.ALLOW,
        agent=agent,
        session=session,
        match=match,
        made_by="",
        made_at=0,
        expires_at=LONGEST_PASS_MS if match.shape in PASSES else None,
    )
    mine = [record for record in records if record.request.agent == agent and not record.erased]
    # What an editor made of a request is not what the agent asked for.
    asked = [replace(record, edited=None, digest=record.request.digest) for record in mine]
    covered = [record for record in asked if covers(grant, record) is MatchResult.YES]
    by_people = [
        record.status
        for record in covered
        if record.decision and record.decision.reason in _BY_PEOPLE
    ]
    return Blast(
        looked_at=len(mine),
        covered=len(covered),
        approved=by_people.count(Status.APPROVED),
        denied=by_people.count(Status.DENIED),
    )
