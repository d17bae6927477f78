"""Who may approve a request, who has, and whether its reader has: what is offered goes by it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.domain.records import Approvers, Record
from gateway.models import Action
from gateway.ports.words import is_unnamed, say_name
from gateway.wire.outcome_text import join_names

_MOST_NAMED = 4
_NOBODY_ELSE = "nobody else may approve it"
_ONE_ANSWERS = "it takes {} people, and a question is answered by one"
_REFUSALS = (Action.DENY, Action.ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a request is from being approved.

    `more` people are needed beside those who `approved`; `left` are who may still, None where
    nobody looked that up. `nobody` says why nobody may. `mine` says that the reader approved, and
    `settled` that doing so once more would change nothing. A question is `answered` by one person:
    no approvals of it are counted.
    """

    quorum: int
    approved: tuple[str, ...]
    more: int
    left: tuple[str, ...] | None
    nobody: str
    mine: bool
    settled: bool
    answered: bool = False

    def offers(self, action: Action) -> bool:
        """Whether the reader is offered this: no approval that cannot be, or is given already."""
        if self.nobody:
            return action in _REFUSALS
        return not (self.settled and action is Action.APPROVE)

    def say_nobody(self, *, here: bool = False) -> str:
        """Say why nobody may approve or answer a request, "" of any other; `here` for who reads it
        in the inbox, where it stands by the state that says so."""
        if here and self.nobody:
            return f"{self.nobody[:1].upper()}{self.nobody[1:]}."
        does = "answer" if self.answered else "approve"
        return f"Nobody may {does} this: {self.nobody}." if self.nobody else ""

    @property
    def words(self) -> str:
        """Who approved and who is missing; "" where one person is enough."""
        if self.quorum <= 1 or self.answered:
            return ""
        if self.mine and self.more:
            return f"You approved; {self._waits()}"
        count = f"{len(self.approved)} of {self.quorum} approvals"
        told = f"{count}: {', '.join(map(say_name, self.approved))}" if self.approved else count
        if not self.more or self.nobody or self.left is None:
            return told
        if not self.left:
            return f"{told}; {_NOBODY_ELSE}"
        of = f"{self.more} of: " if self._some_of else ""
        return f"{told}; waits for {of}{self._name_left()}"

    def _waits(self) -> str:
        """How many are missing, who they may be; the count of those who approved is not said."""
        waits = f"waits for {self.more} more"
        if self.left is None:
            return waits
        if not self.left:
            return f"{waits}, and {_NOBODY_ELSE}"
        return f"{waits}{' of' if self._some_of else ''}: {self._name_left()}"

    @property
    def _some_of(self) -> bool:
        """Whether several are missing, and who they are is open: a name may stand for a group."""
        left = self.left or ()
        return self.more > 1 and (len(left) > self.more or any(map(is_unnamed, left)))

    def _name_left(self) -> str:
        """Name who may still, those without a name last."""
        left = tuple(dict.fromkeys(map(say_name, sorted(self.left or (), key=is_unnamed))))
        named = list(left[:_MOST_NAMED])
        if others := len(left) - len(named):
            named.append(f"{others} other{'s' if others > 1 else ''}")
        if self._some_of:
            return ", ".join(named)
        return join_names(named, "and" if len(left) <= self.more else "or")


def standing_of(record: Record, reader: str = "") -> Standing:
    """Return how a request stands, to the person of this name; "" for a card that many read."""
    voted = tuple(vote.person for vote in record.votes)
    own = next((vote for vote in record.votes if reader and vote.person == reader), None)
    may = record.approvers or Approvers()
    question = bool(record.request.questions)
    alone = _ONE_ANSWERS.format(record.quorum) if question and record.quorum > 1 else ""
    return Standing(
        quorum=record.quorum,
        approved=voted,
        more=0 if record.final else max(record.quorum - len(voted), 1),
        left=None if record.approvers is None else tuple(n for n in may.names if n not in voted),
        nobody="" if record.final else may.nobody or alone,
        mine=own is not None,
        # Who asked to have it remembered may still approve without, where enough have approved.
        settled=own is not None and (own.remember is None or len(voted) < record.quorum),
        answered=question,
    )
