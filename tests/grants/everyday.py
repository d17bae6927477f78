"""The everyday corpus: remembered calls, what should then go through, and what still asks.

`corpus/*.toml` holds the calls by family, `corpus/figures.toml` how many pairs of each go through.
A call without a tool is a shell's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gateway.domain.records import StoredRequest
from gateway.models import Kind
from gateway.policy.grants.offers import offers
from gateway.wire.codec import JsonObject
from tests.grants.making import allowed, asked, granted

_CORPUS = Path(__file__).with_name("corpus")
_FILES = ("commands.toml", "agents.toml", "more_agents.toml", "servers.toml")


@dataclass(frozen=True, slots=True)
class Pair:
    """A remembered call and the next one.

    It is `next` where the next one should go through, and `ask` where it is asked about.
    """

    family: str
    host: str
    tool: str
    kind: Kind
    first: JsonObject
    next_one: JsonObject
    group: str
    harmless: bool
    declared: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.host}: {self.tool} {self.first} -> {self.next_one}"


@cache
def pairs(group: str) -> tuple[Pair, ...]:
    """Return all pairs of a group: `next` or `ask`."""
    return tuple(pair for pair in _read_pairs() if pair.group == group)


@cache
def figures() -> dict[str, dict[str, int]]:
    """Return for each family how many pairs were covered `before`, and the `floor`."""
    families: dict[str, dict[str, int]] = _read("figures.toml")
    return families


def covered(pair: Pair) -> bool:
    """Whether any offer made from the first call, once it is remembered, covers the next."""
    made = offers(_record(pair, pair.first))
    return allowed([granted(offer.match) for offer in made], _record(pair, pair.next_one))


def count(found: Iterable[Pair]) -> dict[str, int]:
    """Return how many of the pairs are of each family."""
    counts = dict.fromkeys(figures(), 0)
    for pair in found:
        counts[pair.family] += 1
    return counts


def _record(pair: Pair, arguments: JsonObject) -> StoredRequest:
    record = asked(pair.tool, kind=pair.kind, arguments=arguments, harmless=pair.harmless)
    return record.copy_with(declared=pair.declared)


def _read_pairs() -> Iterator[Pair]:
    for file in _FILES:
        for family, groups in _read(file).items():
            for group in groups:
                yield from _pairs_of(family, group if "tool" in group else _as_calls(group))


def _as_calls(group: dict[str, Any]) -> dict[str, Any]:
    """Return a group of commands as calls of a shell."""
    return {
        "host": "a shell",
        "tool": "shell",
        "kind": "command",
        "first": {"command": group["first"]},
        "next": [{"command": text} for text in group.get("next", [])],
        "ask": [{"command": text} for text in group.get("ask", [])],
    }


def _pairs_of(family: str, group: dict[str, Any]) -> Iterator[Pair]:
    for name in ("next", "ask"):
        for arguments in group.get(name, []):
            yield Pair(
                family=family,
                host=group["host"],
                tool=group["tool"],
                kind=Kind(group.get("kind", "tool")),
                first=group["first"],
                next_one=arguments,
                group=name,
                harmless=group.get("harmless", False),
                declared=group.get("arguments", {}),
            )


def _read(file: str) -> dict[str, Any]:
    return tomllib.loads((_CORPUS / file).read_text("utf-8"))
