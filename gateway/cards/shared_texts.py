"""What every surface says in the same words, and who has approved and who still can."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.domain.records import Approvers, StoredRequest
from gateway.models import Action
from gateway.wire.outcome_text import join_names

ANOTHER_PLAN = "Deny, and ask for another plan"
SAY_THE_PLAN = "Say what the agent should plan instead."
NUMBER_LABEL = "The number that is shown where the agent waits"
NUMBER_OPTIONAL = "Without it, somebody else must approve this, too."
"""What stands at the field for a step-up's number, and below it where it may stay empty."""

DENIALS = (
    "It is the wrong time",
    "It is the wrong target",
    "It is too broad",
    "You should ask me first",
)
"""Reasons for a denial that take one tap."""
BECAUSE = "Deny, because"
"""What stands before those reasons."""
NO_LINK = (
    "No link leads to the inbox from here: ask whoever runs the gateway for one "
    '("gateway login NAME" prints it).'
)
"""How people get to the inbox where it has no address."""
SECRET_ASKED = "A secret is asked for: answer it in the inbox, where no log sees it."
_ID = re.compile(r"([a-z]+):[^/\s]+/(\S+)")  # of somebody, or of a group, on a platform
LIFT = "Requests are asked about again. What was denied stays denied."
_UNTIL = "for all agents, until an admin lifts it."
_FETCHED = "What was approved and fetched before cannot be recalled."


def say_name(name: str) -> str:
    """Return a person's name as people read it: of who has none here, on which platform they are,
    and under which id. An identity without a place stays as written."""
    found = _ID.fullmatch(name)
    return f"somebody in {found[1].title()} ({found[2]})" if found else name


def is_unnamed(name: str) -> bool:
    """Whether it is a platform's id, which may stand for a group."""
    return _ID.fullmatch(name) is not None


def say_names(text: str, people: Collection[str]) -> str:
    """Return a sentence of ours with names of `people`, which has those as people read them that
    are identities of a platform. Whatever else stands in it stays."""
    for one in sorted(people, key=len, reverse=True):
        if (said := say_name(one)) != one:
            text = text.replace(one, said)
    return text


def join_reason(tapped: str, typed: str) -> str:
    """Return the words for the agent: the reason that was tapped, if any, then what was typed."""
    return ". ".join(one for one in (tapped, typed) if one)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSwitch:
    """Whether everything is denied, by whom and since when (ms), and how many requests wait.

    `by` and `at` are "" and 0 where nobody knows.
    """

    on: bool
    by: str = ""
    at: int = 0
    waiting: int = 0

    @property
    def stopping(self) -> str:
        """What turning it on will do, for whoever is asked whether they want that."""
        known = {0: "", 1: "the request that waits now, and "}
        waiting = known.get(self.waiting, f"all {self.waiting} requests that wait now, and ")
        nothing = "" if self.waiting else " Nothing waits now."
        return f"This will deny {waiting}whatever comes, {_UNTIL}{nothing} {_FETCHED}"

    @property
    def stopped(self) -> str:
        """What turning it on did."""
        known = {0: "Nothing waited", 1: "The request that waited is denied"}
        waited = known.get(self.waiting, f"All {self.waiting} requests that waited are denied")
        return f"{waited}, and whatever comes is denied, {_UNTIL} {_FETCHED}"

    @property
    def state(self) -> str:
        """Who turned it on, and when, or that nobody knows whether it is on; "" while it is off."""
        if not self.on:
            return ""
        if not self.at:
            return "Nothing is approved: nobody knows whether the kill switch is on."
        if not self.by:
            return "Everything is denied: the kill switch is on."
        at = datetime.fromtimestamp(self.at / 1000, UTC)
        return f"Everything is denied: {self.by} stopped it at {at:%H:%M} UTC on {at:%d %B %Y}."


# Who may approve a request, who has, and whether its reader has: what is offered goes by it.

_MOST_NAMED = 4
_NOBODY_ELSE = "nobody else may approve it"
_ONE_ANSWERS = "it takes {} people, and a question is answered by one"
_REFUSALS = (Action.DENY, Action.ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalProgress:
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


def standing_of(record: StoredRequest, reader: str = "") -> ApprovalProgress:
    """Return how a request stands, to the person of this name; "" for a card that many read."""
    voted = tuple(vote.person for vote in record.votes)
    own = next((vote for vote in record.votes if reader and vote.person == reader), None)
    may = record.approvers or Approvers()
    question = bool(record.request.questions)
    alone = _ONE_ANSWERS.format(record.quorum) if question and record.quorum > 1 else ""
    return ApprovalProgress(
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


# Texts within the limits of platforms, which count UTF-16 units at most.


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut_units(text: str, most: int) -> str:
    """Return as much of the start of a text as so many units hold."""
    kept = text[: max(0, most)]
    while (over := count_units(kept) - max(0, most)) > 0:
        kept = kept[: len(kept) - max(1, over // 2)]
    return kept


def clip(text: str, most: int) -> str:
    """Return the text, or its start and an ellipsis."""
    return text if count_units(text) <= most else f"{cut_units(text, most - 1)}…"
