"""What people list and look for: the queue from where they stand, and what ended or happened."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.domain.records import AuditEvent, Record


class Side(StrEnum):
    """A side of the queue, as one person sees it: `mine` is what they may decide now and have not,
    `others` what waits for somebody else."""

    MINE = "mine"
    OTHERS = "others"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """How much waits on each side. `more` says that not all that waits was looked at. Of theirs,
    `fresh` were asked since a moment, and `newest` is when the last was."""

    mine: int
    others: int
    more: bool
    fresh: int
    newest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What somebody looks for; empty members narrow nothing.

    `text` stands somewhere in what a card shows, `who` decided or did it, `outcome` is how it ended
    or what happened. It happened from `since` on and before `until`, in ms. `after` is the cursor
    that an earlier answer named.
    """

    text: str = ""
    agent: str = ""
    outcome: str = ""
    who: str = ""
    since: int | None = None
    until: int | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The requests that a search found among the newest `looked`; `next` is where one looks on."""

    items: tuple[Record, ...]
    looked: int
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvents:
    """The events that a search found among the newest `looked`, the newest first. `more` says that
    there are older ones, or that more fit than were returned."""

    items: tuple[AuditEvent, ...]
    looked: int
    more: bool
