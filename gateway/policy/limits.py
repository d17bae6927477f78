"""Check numbers in rules: comparisons with a call's values, and limits on what a rule approves.

Only plain numbers are accepted. Limits are stored in ten-thousandths, as integers that a double in
a Redis script can hold, so that all arithmetic is exact.
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
_SHARED = {"": "for all", "agent": "for an agent"}  # values of `for_each` that are no argument
_PLACES = 4
_MOST = 10**11  # the highest limit; in ten-thousandths it is far below 2**53
_MOST_COUNTERS = 50

_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,12})?"
_PLAIN = re.compile(_NUMBER)
_COMPARISON = re.compile(rf"\s*(<=|>=|<|>|=)\s*({_NUMBER})\s*")
_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
            "=": operator.eq}  # fmt: skip
# A recipient, a repository, an id: a text that cannot hold two names, or one in another spelling.
# So it has no sign at its end, and no two signs in a row.
_ONE = re.compile(r"(?=.{1,256}\Z)[#@+]?[a-z0-9_](?:[a-z0-9_]|[.#/:+-](?=[a-z0-9_]))*")


def number_of(value: Any) -> Decimal | None:
    """Return a JSON number, or the number in a string that is a plain decimal such as `100.00`,
    else None."""
    if isinstance(value, str):
        return Decimal(value) if _PLAIN.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return Decimal(repr(value))  # the digits of its canonical JSON


@lru_cache(maxsize=1024)
def read_comparisons(text: str) -> tuple[tuple[str, Decimal], ...]:
    """Return the comparisons in a string such as `> 0, <= 100`. The result is empty if one of them
    is invalid."""
    found = [_COMPARISON.fullmatch(part) for part in text.split(",")]
    return tuple((one[1], Decimal(one[2])) for one in found if one) if all(found) else ()


def meets(wanted: str, number: Decimal) -> bool:
    """Return whether a number satisfies all comparisons; False if there are none."""
    read = read_comparisons(wanted)
    return bool(read) and all(_COMPARE[sign](number, bound) for sign, bound in read)


def numbers_named(effects: CallEffects, name: str) -> list[Decimal]:
    """Return the numbers under a name or at an address. The result is empty if a number is missing,
    negative or not plain, or if two arguments have the name."""
    found = [number_of(value) for value in values_named(effects, name)]
    numbers = [one for one in found if one is not None and one >= 0]
    several = "." in name or "[" in name
    return numbers if len(numbers) == len(found) and (several or len(found) == 1) else []


# Limits: how much a rule approves in a window, counted by the script that stores the approval.


def spends_of(rule: PolicyRule, agent: str, effects: CallEffects) -> tuple[Spend, ...] | None:
    """Return what an approval of a call adds to a rule's counters, or None if it cannot be counted.

    Counters belong to the rule's name, so a later rule with the same name continues them.
    """
    found: dict[str, Spend] = {}
    for limit in rule.limits:
        amount, names = _amount(limit, effects), _counted_for(limit, agent, effects)
        if amount is None or not names:
            return None
        # The same recipient in `to` and in `cc` counts as one.
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
    """Return a sentence on which limit of a rule a call would exceed, and how much is left; "" if
    none."""
    if spends is None:
        return f'the rule "{rule.name}" cannot count this call'
    for one, already in zip(spends, counted, strict=True):
        if already + one.amount > one.most:
            left = _show(max(0, one.most - already))
            return f'the rule "{rule.name}" has {left} of {_show(one.most)} {one.words}'
    return ""


def limit_mistakes(rule: PolicyRule) -> Iterator[str]:
    """Yield the mistakes in a rule's comparisons and limits."""
    for name, wanted in rule.numbers.items():
        if not read_comparisons(wanted):
            yield f'the number {name!r} needs a comparison such as "> 0, <= 100", not {wanted!r}.'
    if rule.numbers and not (rule.tools or rule.commands):
        yield "a rule that compares numbers must name tools or commands."
    if rule.limits and rule.effect is not RuleEffect.ALLOW:
        yield "only an allow rule can have limits."
    for limit in rule.limits:
        units = to_units(Decimal(repr(limit.most))) if math.isfinite(limit.most) else None
        if not units or (not limit.of and limit.most % 1):
            yield (
                f"the limit {limit.most:g} "
                f"must be above 0 and at most {_MOST}, with at most 4 decimals; a number of "
                f"calls must be whole."
            )
    written = [(plain_name(one.of), one.per, one.for_each) for one in rule.limits]
    if len(set(written)) < len(written):
        yield "two limits count the same thing; remove one."


def to_units(number: Decimal) -> int | None:
    """Return a number in ten-thousandths, or None if it has more decimals, is negative or is too
    large."""
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
    """Return the names of the counters that a call adds to; empty if one is not plain."""
    if limit.for_each in _SHARED:
        return [agent if limit.for_each else ""]
    found = [_spell(value) for value in each_named(effects, limit.for_each)]
    return found if all(found) else []


def _spell(value: Any) -> str:
    """Return the name under which a value is counted: in lower case, and without an address's
    tag."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    text = str(value).lower()
    plain = is_address(text) if "@" in text[1:] else _ONE.fullmatch(text)
    return untag(text) if plain else ""


def each_named(effects: CallEffects, name: str) -> Iterator[Any]:
    """Yield the values under a name or at an address. Each entry of a list is yielded as a
    value."""
    for value in values_named(effects, name):
        yield from value if isinstance(value, list) else [value]


def _words(limit: RuleLimit) -> str:
    what = limit.of or "calls"
    each = f" for each {limit.for_each}" if limit.for_each else ""
    return f"left in {'an hour' if limit.per is Window.HOUR else '24 hours'} ({what}{each})"


def _show(units: int) -> str:
    return f"{Decimal(units).scaleb(-_PLACES).normalize():f}"
