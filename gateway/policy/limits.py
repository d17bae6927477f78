"""Numbers of a call in rules: what they are compared with, and how much a rule approves by itself.

Only a plain number counts, and all arithmetic is exact: limits are counted in ten-thousandths, as
integers that a script's doubles hold.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from gateway.domain.policy_document import PolicyRule, RuleEffect, RuleLimit, Window
from gateway.domain.records import Spend
from gateway.policy.calls.argument_roles import plain_name
from gateway.policy.calls.call_effects import CallEffects, values_named
from gateway.policy.calls.recipients import is_address, untag
from gateway.wire.canonical_json import canonical, sha256_hex

_HOUR_MS = 3_600_000
_HOURS = {Window.HOUR: 1, Window.DAY: 24}
_SHARED = {"": "for all", "agent": "for an agent"}  # what `for_each` says beside an argument
_PLACES = 4
_MOST = 10**11  # that a limit may count; in ten-thousandths far below 2**53
_MOST_COUNTERS = 50

_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,12})?"
_PLAIN = re.compile(_NUMBER)
_COMPARISON = re.compile(rf"\s*(<=|>=|<|>|=)\s*({_NUMBER})\s*")
_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
            "=": operator.eq}  # fmt: skip
# A recipient, a repository, an id: what cannot hold two of them, or one in another spelling.
# A name in one spelling: no sign at its end, and none twice.
_ONE = re.compile(r"(?=.{1,256}\Z)[#@+]?[a-z0-9_](?:[a-z0-9_]|[.#/:+-](?=[a-z0-9_]))*")


def number_of(value: Any) -> Decimal | None:
    """Return a JSON number, or a text that is a plain decimal such as `100.00`; None for others."""
    if isinstance(value, str):
        return Decimal(value) if _PLAIN.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return Decimal(repr(value))  # the digits of its canonical JSON


@lru_cache(maxsize=1024)
def read_comparisons(text: str) -> tuple[tuple[str, Decimal], ...]:
    """Return comparisons such as `> 0, <= 100`; nothing where one of them is not understood."""
    found = [_COMPARISON.fullmatch(part) for part in text.split(",")]
    return tuple((one[1], Decimal(one[2])) for one in found if one) if all(found) else ()


def meets(wanted: str, number: Decimal) -> bool:
    """Whether a number meets all comparisons, of which there is one at least."""
    read = read_comparisons(wanted)
    return bool(read) and all(_COMPARE[sign](number, bound) for sign, bound in read)


def numbers_named(effects: CallEffects, name: str) -> list[Decimal]:
    """Return the numbers under a name or at an address; nothing where one is missing, negative, or
    not plain, or where two arguments have the name."""
    found = [number_of(value) for value in values_named(effects, name)]
    numbers = [one for one in found if one is not None and one >= 0]
    several = "." in name or "[" in name
    return numbers if len(numbers) == len(found) and (several or len(found) == 1) else []


# Limits: what a rule approves within a window, counted by the script that stores the approval.


def spends_of(rule: PolicyRule, agent: str, effects: CallEffects) -> tuple[Spend, ...] | None:
    """Return what an approval of a call counts against a rule's limits; None where nobody can tell.

    A counter belongs to the rule's name: another rule of that name goes on with it.
    """
    found: dict[str, Spend] = {}
    for limit in rule.limits:
        amount, names = _amount(limit, effects), _counted_for(limit, agent, effects)
        if amount is None or not names:
            return None
        # The same recipient in `to` and in `cc` is one.
        each = _SHARED.get(limit.for_each, "for a value")
        for name in names:
            counter = [rule.name, plain_name(limit.of), limit.per.value, each, name]
            key = sha256_hex(canonical(counter))[:32]
            before = found.get(key)
            most = to_units(Decimal(repr(limit.most))) or 0
            found[key] = Spend(
                key=key,
                amount=amount + (before.amount if before else 0),
                most=min(most, before.most) if before else most,
                window_ms=_HOURS[limit.per] * _HOUR_MS,
                words=_words(limit),
            )
    return tuple(found.values()) if len(found) <= _MOST_COUNTERS else None


def say_shortage(rule: PolicyRule, spends: Sequence[Spend] | None, counted: Sequence[int]) -> str:
    """Say which limit of a rule has no room for a call, and what it has left; "" where all have."""
    if spends is None:
        return f'the rule "{rule.name}" cannot count this call'
    for one, already in zip(spends, counted, strict=True):
        if already + one.amount > one.most:
            left = _show(max(0, one.most - already))
            return f'the rule "{rule.name}" has {left} of {_show(one.most)} {one.words}'
    return ""


def limit_mistakes(rule: PolicyRule) -> Iterator[str]:
    """Say what is wrong with a rule's comparisons and limits as they are written."""
    for name, wanted in rule.numbers.items():
        if not read_comparisons(wanted):
            yield f'the number {name!r} is compared as in "> 0, <= 100", and not with {wanted!r}.'
    if rule.numbers and not (rule.tools or rule.commands):
        yield "a rule that compares numbers names tools: elsewhere they are missing."
    if rule.limits and rule.effect is not RuleEffect.ALLOW:
        yield "only an allow has limits."
    for limit in rule.limits:
        units = to_units(Decimal(repr(limit.most))) if math.isfinite(limit.most) else None
        if not units or (not limit.of and limit.most % 1):
            yield (
                f"the limit {limit.most:g} is above 0, at most {_MOST}, with 4 decimals at most; "
                "a number of calls has none."
            )
    written = [(plain_name(one.of), one.per, one.for_each) for one in rule.limits]
    if len(set(written)) < len(written):
        yield "two limits count the same."


def to_units(number: Decimal) -> int | None:
    """Return a number in ten-thousandths; None for one that is finer, negative or too large."""
    if not 0 <= number <= _MOST:
        return None
    units = number.scaleb(_PLACES)
    return int(units) if units == int(units) else None


def arguments_of(limit: RuleLimit) -> Iterator[str]:
    """Yield the arguments that a limit names."""
    yield from (limit.of,) if limit.of else ()
    yield from () if limit.for_each in _SHARED else (limit.for_each,)


def _amount(limit: RuleLimit, effects: CallEffects) -> int | None:
    if not limit.of:
        return to_units(Decimal(1))
    each = [to_units(one) for one in numbers_named(effects, limit.of)]
    known = [one for one in each if one is not None]
    total = sum(known)
    return total if known and len(known) == len(each) and total <= _MOST * 10**_PLACES else None


def _counted_for(limit: RuleLimit, agent: str, effects: CallEffects) -> list[str]:
    """Return for whom a call counts, nothing where that is not plain."""
    if limit.for_each in _SHARED:
        return [agent if limit.for_each else ""]
    found = [_spell(value) for value in each_named(effects, limit.for_each)]
    return found if all(found) else []


def _spell(value: Any) -> str:
    """Return a value as it is counted: in small letters, an address without its tag."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    text = str(value).lower()
    plain = is_address(text) if "@" in text[1:] else _ONE.fullmatch(text)
    return untag(text) if plain else ""


def each_named(effects: CallEffects, name: str) -> Iterator[Any]:
    """Yield the values under a name or at an address, each entry of a list by itself."""
    for value in values_named(effects, name):
        yield from value if isinstance(value, list) else [value]


def _words(limit: RuleLimit) -> str:
    what = limit.of or "calls"
    each = f" for each {limit.for_each}" if limit.for_each else ""
    return f"left in {'an hour' if limit.per is Window.HOUR else '24 hours'} ({what}{each})"


def _show(units: int) -> str:
    return f"{Decimal(units).scaleb(-_PLACES).normalize():f}"
