"""Define the texts that all platforms share, and the progress of approvals. Start reading at
`standing_of`."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.domain.records import Approvers, StoredRequest
from gateway.models import Action
from gateway.wire.outcome_text import join_names

ANOTHER_PLAN = "Deny, and ask for another plan"
SAY_THE_PLAN = "Write what the agent should plan instead."
NUMBER_LABEL = "The number that is shown where the agent waits"
NUMBER_OPTIONAL = "Without this number, a second person must approve this request too."
"""The label of the field for a step-up's number, and the hint below it if it may stay empty."""

DENIALS = (
    "This is the wrong time",
    "This is the wrong target",
    "This is too broad",
    "You should ask me first",
)
"""Reasons for a denial that take one tap."""
BECAUSE = "Deny, because"
"""The label before those reasons."""
NO_LINK = (
    "There is no link to the inbox here. Ask the person who runs the gateway for a link "
    '("gateway login NAME" prints one).'
)
"""How people get to an inbox without a known address."""
SECRET_ASKED = (
    "This form asks for a secret. Answer it in the inbox, so that the secret is not logged."
)
_ID = re.compile(r"([a-z]+):[^/\s]+/(\S+)")  # of a person or a group on a platform
LIFT = "Agents can ask again. Denied requests stay denied."
_UNTIL = "until an admin turns the kill switch off."
_FETCHED = "Approvals that agents already claimed cannot be recalled."


def say_name(name: str) -> str:
    """Return a person's name as people read it. If it is a platform's id, return the platform and
    the id; an identity without a place stays as written."""
    found = _ID.fullmatch(name)
    return f"somebody in {found[1].title()} ({found[2]})" if found else name


def is_unnamed(name: str) -> bool:
    """Whether a name is only a platform's id. The id may also be that of a group."""
    return _ID.fullmatch(name) is not None


def say_names(text: str, people: Collection[str]) -> str:
    """Return a sentence in which identities that are in `people` are written as people read
    them."""
    for one in sorted(people, key=len, reverse=True):
        if (said := say_name(one)) != one:
            text = text.replace(one, said)
    return text


def join_reason(tapped: str, typed: str) -> str:
    """Return the reason for the agent: the reason that the person tapped, if any, then the one they
    typed."""
    return ". ".join(one for one in (tapped, typed) if one)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSwitch:
    """The state of the kill switch, and how many requests are pending.

    `by` says who turned it on, and `at` when, in ms. They are "" and 0 if unknown.
    """

    on: bool
    by: str = ""
    at: int = 0
    waiting: int = 0

    @property
    def stopping(self) -> str:
        """The effect of turning the switch on, for the confirmation."""
        known = {0: "", 1: "the pending request and "}
        waiting = known.get(self.waiting, f"all {self.waiting} pending requests and ")
        nothing = "" if self.waiting else " No request is pending now."
        return f"This will deny {waiting}every new one, {_UNTIL}{nothing} {_FETCHED}"

    @property
    def stopped(self) -> str:
        """The effect that turning the switch on had."""
        known = {0: "No request was pending", 1: "The pending request is denied"}
        waited = known.get(self.waiting, f"All {self.waiting} pending requests are denied")
        return f"{waited}. Every new request is denied {_UNTIL} {_FETCHED}"

    @property
    def state(self) -> str:
        """A sentence on who turned the switch on and when, or that this is unknown; "" while it is
        off."""
        if not self.on:
            return ""
        if not self.at:
            return "Nothing can be approved: it is unknown whether the kill switch is on."
        if not self.by:
            return "All requests are denied: the kill switch is on."
        at = datetime.fromtimestamp(self.at / 1000, UTC)
        when = f"{at:%H:%M} UTC on {at:%d %B %Y}"
        return f"All requests are denied: {self.by} turned on the kill switch at {when}."


# Who may approve a request, who has, and whether its reader has. The controls depend on it.

_MOST_NAMED = 4
_NOBODY_ELSE = "nobody else may approve this request"
_ONE_ANSWERS = "it needs {} people, but only one can answer a question"
_REFUSALS = (Action.DENY, Action.ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalProgress:
    """The progress of a request towards approval.

    `more` is how many people must approve in addition to those who `approved`. `left` lists the
    people who still may approve; None means that they were not looked up. `nobody` says why nobody
    may approve. `mine` says that the reader approved, and `settled` that approving again would
    change nothing. A form is `answered` by one person, so its approvals are not counted.
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
        """Return whether to offer this action. An approval is not offered if it is impossible or
        the reader already gave it."""
        if self.nobody:
            return action in _REFUSALS
        return not (self.settled and action is Action.APPROVE)

    def say_nobody(self, *, here: bool = False) -> str:
        """Return why nobody may approve or answer a request, else "". `here` means that the reader
        is in the inbox, where the sentence is next to the state."""
        if here and self.nobody:
            return f"{self.nobody[:1].upper()}{self.nobody[1:]}."
        does = "answer" if self.answered else "approve"
        return f"Nobody may {does} this: {self.nobody}." if self.nobody else ""

    @property
    def words(self) -> str:
        """The names of those who approved and those who are missing; "" if one person is enough."""
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
        """Return how many approvals are missing and who can give them, in words. Approvals already
        given are not mentioned."""
        waits = f"waits for {self.more} more"
        if self.left is None:
            return waits
        if not self.left:
            return f"{waits}, and {_NOBODY_ELSE}"
        return f"{waits}{' of' if self._some_of else ''}: {self._name_left()}"

    def say_deciders(self) -> str:
        """Name those who are asked to decide, else ""."""
        return f"{self._name_left()} may decide it." if self.left and not self.nobody else ""

    @property
    def _some_of(self) -> bool:
        """Whether several approvals are missing and more people than that may give them. A name may
        also be a group."""
        left = self.left or ()
        return self.more > 1 and (len(left) > self.more or any(map(is_unnamed, left)))

    def _name_left(self) -> str:
        """Return the names of the people who still may approve. Platform ids come last."""
        left = tuple(dict.fromkeys(map(say_name, sorted(self.left or (), key=is_unnamed))))
        named = list(left[:_MOST_NAMED])
        if others := len(left) - len(named):
            named.append(f"{others} other{'s' if others > 1 else ''}")
        if self._some_of:
            return ", ".join(named)
        return join_names(named, "and" if len(left) <= self.more else "or")


def standing_of(record: StoredRequest, reader: str = "") -> ApprovalProgress:
    """Return the progress of a request for the person `reader`, or for many readers if `reader` is
    ""."""
    voted = tuple(vote.person for vote in record.votes)
    own = next((vote for vote in record.votes if reader and vote.person == reader), None)
    may = record.approvers or Approvers()
    gone = {*voted, *(one.person for one in record.away if one.delegate in may.names)}
    question = bool(record.request.questions)
    alone = _ONE_ANSWERS.format(record.quorum) if question and record.quorum > 1 else ""
    return ApprovalProgress(
        quorum=record.quorum,
        approved=voted,
        more=0 if record.final else max(record.quorum - len(voted), 1),
        left=None if record.approvers is None else tuple(n for n in may.names if n not in gone),
        nobody="" if record.final else may.nobody or alone,
        mine=own is not None,
        # A person who wanted a grant may still approve without it, if enough have approved.
        settled=own is not None and (own.remember is None or len(voted) < record.quorum),
        answered=question,
    )


# Cuts texts to the limits of platforms, which count UTF-16 units.


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut_units(text: str, most: int) -> str:
    """Return the start of a text, in at most `most` units."""
    kept = text[: max(0, most)]
    while (over := count_units(kept) - max(0, most)) > 0:
        kept = kept[: len(kept) - max(1, over // 2)]
    return kept


def clip(text: str, most: int) -> str:
    """Return the text, or its start with an ellipsis."""
    return text if count_units(text) <= most else f"{cut_units(text, most - 1)}…"
