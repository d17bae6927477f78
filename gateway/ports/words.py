"""What every surface says in the same words."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

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
