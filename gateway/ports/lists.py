"""What people list and look for: the queue from where they stand, and what ended or happened."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from gateway.domain.records import AuditEvent, Record
from gateway.domain.redaction import mask

_LATEST_MS = 10**14
_NAME = re.compile(r"[A-Za-z0-9_]{1,80}")
_WORD = re.compile(r"[\w.:/@-]{1,80}")


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


def name_event(kind: str) -> str:
    """Return what happened as people read it: `grant_made` is "grant made"."""
    return kind.replace("_", " ")


def list_facts(event: AuditEvent) -> list[str]:
    """Return what an event says, a line for each member, secrets masked. Text of more than a word
    is quoted as in JSON, so that nothing in it passes for another fact."""
    return list(_facts_of(mask(event.data)))


def _facts_of(data: dict[str, Any]) -> Iterator[str]:
    for name, value in data.items():
        if isinstance(value, dict) and value:
            for within, part in value.items():
                yield f"{_say_name(name)} {_say_name(within)}: {_say(within, part)}"
        elif name == "signature" and value:
            yield "signature: there is one"  # `gateway audit export` has its bytes
        elif value is not None:
            yield f"{_say_name(name)}: {_say(name, value)}"


def _say_name(name: str) -> str:
    return name.replace("_", " ") if _NAME.fullmatch(name) else json.dumps(name)


def _say(name: str, value: Any) -> str:
    if name.endswith("_at") and type(value) is int and 0 < value < _LATEST_MS:
        return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, str) and _WORD.fullmatch(value):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_say(name, one) for one in value) or "none"
    if isinstance(value, dict):
        inside = "; ".join(f"{_say_name(key)}: {_say(key, part)}" for key, part in value.items())
        return f"({inside})" if inside else "nothing"
    return json.dumps(value, ensure_ascii=False)
