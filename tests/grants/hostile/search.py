"""Looks for covered calls that do more than the words of what was remembered say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gateway.domain.records import StoredRequest
from gateway.models import Context, Kind
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import (
    ANY_TOOL,
    LONGEST_PASS_MS,
    PASSES,
    Grant,
    Match,
    MatchResult,
    Shape,
)
from gateway.policy.grants.line_parts import part_is_covered, split
from gateway.policy.grants.offers import Offer, offers, pass_words, passes_for
from gateway.policy.guardrails import find_dangers
from tests.grants.hostile.base_calls import FOLDER, BaseCall
from tests.grants.hostile.cell import Cell
from tests.grants.hostile.hostile_calls import NextCall
from tests.grants.hostile.judgement import Effect, judge
from tests.grants.hostile.words import Claim, understand
from tests.grants.making import asked, granted

_SESSION = "afternoon"
Covers = Callable[[Grant, StoredRequest, StoredRequest], bool]


@dataclass(frozen=True, slots=True)
class Remembered:
    """One answer that somebody may have given to a call: the grant, and what its words claim."""

    grant: Grant
    words: str
    claim: Claim


@dataclass(slots=True)
class Report:
    """What a search did, by kind of change, and what it found."""

    made: Counter[str] = field(default_factory=Counter)
    covered: Counter[str] = field(default_factory=Counter)
    carried_out: Counter[str] = field(default_factory=Counter)
    found: dict[tuple[str, ...], str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Say the counts in a table, and the first of each kind that was found."""
        rows = [
            f"{kind:9} {self.made[kind]:7} {self.covered[kind]:6} {self.carried_out[kind]:6}"
            for kind in sorted(self.made)
        ]
        every = [self.made.total(), self.covered.total(), self.carried_out.total()]
        return "\n".join(
            ["change      made covered carried out", *rows,
             "all       {:7} {:6} {:6}".format(*every), f"found     {len(self.found)}",
             *self.found.values()]
        )  # fmt: skip


def as_the_product_does(grant: Grant, first: StoredRequest, then: StoredRequest) -> bool:
    """Whether the product lets the next call through under a grant."""
    if grant.match.shape in PASSES and find_dangers(then):
        return False
    if covers(grant, then) is MatchResult.YES:
        return True
    parts = split(then)
    return bool(parts) and all(part_is_covered(grant, one) for one in parts)


class Search:
    """Asks the product about next calls, and has a cell carry out what it covers."""

    def __init__(self, cell: Cell, covering: Covers = as_the_product_does) -> None:
        self._cell, self._covering = cell, covering
        self._done: dict[str, list[Effect]] = {}
        self._answers: dict[int, tuple[StoredRequest, list[Remembered]]] = {}
        self.report = Report()

    def look_at(self, calls: Iterable[NextCall]) -> Report:
        """Judge each call that anything remembered covers; return what was found."""
        for call in calls:
            self.report.made[call.done] += 1
            if _same(call):
                continue
            first, answers = self._remember(call.remembered)
            then = _record(call)
            covered = [one for one in answers if self._covering(one.grant, first, then)]
            self.report.covered[call.done] += bool(covered)
            for one in covered:
                self._judge(call, one)
        return self.report

    def _remember(self, call: BaseCall) -> tuple[StoredRequest, list[Remembered]]:
        if id(call) not in self._answers:
            first = first_record(call)
            wide = [
                Remembered(granted(one.match), one.words, understand(one.words))
                for one in (*offers(first), *looking(first))
            ]
            self._answers[id(call)] = first, [*wide, *_passes()]
        return self._answers[id(call)]

    def _judge(self, call: NextCall, one: Remembered) -> None:
        cwd = call.context.get("cwd", FOLDER)
        for host in call.remembered.hosts:
            before = self._carry_out(host, call.remembered.tool, call.remembered.arguments)
            after = self._carry_out(host, call.tool, call.arguments, call.context)
            after = after if call.payload is None else [*after, ("payload", call.payload)]
            self.report.carried_out[call.done] += 1
            for wrong in judge(one.claim, before, after, cwd):
                key = (call.remembered.tool, one.claim.shape, host, wrong.split()[0], call.done)
                said = f"{call.remembered.name}, {host}: {call.detail} | {one.words} | {wrong}"
                self.report.found.setdefault(key, said)

    def _carry_out(
        self, host: str, tool: str, arguments: Any, context: dict[str, Any] | None = None
    ) -> list[Effect]:
        where = context or {}
        key = json.dumps([host, tool, arguments, where])
        if key not in self._done:
            done = self._cell.carry_out(
                host, tool, arguments, where.get("cwd", FOLDER), where.get("env")
            )
            on: list[Effect] = [("runs on", where["host"])] if "host" in where else []
            self._done[key] = [*on, *done]
        return self._done[key]


def looking(record: StoredRequest) -> list[Offer]:
    """Return the offer of looking that is made for a request."""
    return [one for one in passes_for(record) if one.match.shape is Shape.LOOKS]


@cache
def _passes() -> tuple[Remembered, ...]:
    made = []
    for shape in PASSES:
        words = pass_words(shape)
        grant = granted(
            Match(shape=shape, tool=ANY_TOOL), session=_SESSION, expires_at=LONGEST_PASS_MS
        )
        made.append(Remembered(grant, words, understand(words)))
    return tuple(made)


def first_record(call: BaseCall) -> StoredRequest:
    """Return the request that asks for a call as it is remembered."""
    return _record(NextCall(call, call.tool, call.arguments, "", ""))


def _record(call: NextCall) -> StoredRequest:
    harmless = not {"keeper", "tracker"}.isdisjoint(call.remembered.hosts)
    context = Context(**{"cwd": FOLDER, **call.context})
    return asked(
        call.tool, kind=Kind(call.remembered.kind), arguments=call.arguments, context=context,
        payload=call.payload, session=_SESSION, harmless=harmless,
    )  # fmt: skip


def _same(call: NextCall) -> bool:
    """Whether nothing was changed after all."""
    first = call.remembered
    now, then = (json.dumps(one, sort_keys=True) for one in (call.arguments, first.arguments))
    return (now, call.tool) == (then, first.tool) and not call.context and call.payload is None


def shapes_of(calls: Iterable[BaseCall]) -> Counter[str]:
    """Count the calls for which each kind of answer is offered."""
    found: Counter[str] = Counter()
    for call in calls:
        record = first_record(call)
        answers = {str(one.match.answer) for one in offers(record) if one.match.answer}
        found.update(answers)
    return found
