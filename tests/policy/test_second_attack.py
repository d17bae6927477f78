"""What a second attacker got past the rules with numbers, recipients and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.policy_document import PolicyRule, RuleEffect, RuleLimit
from gateway.policy.grants.grant import MatchResult
from gateway.policy.limits import _spell
from gateway.policy.rules import fits
from tests.grants.making import asked

RULE = PolicyRule(name="small", effect=RuleEffect.ALLOW, tools=("refund",),
                  numbers={"amount": "<= 100"}, arguments={"to": "*@example.com"})  # fmt: skip
GIVEN = {"amount": 5, "to": "ana@example.com"}


@pytest.mark.parametrize(
    "more",
    [{"amt": 500}, {"refundamount": 500}, {"multiplier": 100}, {"theamount": 500.5},
     {"extra": "500 EUR"}, {"payment": "x"}, {"copy": "eve@evil.org"}, {"ccs": "eve@evil.org"},
     {"watchers": "eve"}, {"headers": "Bcc: eve@evil.org"}, {"notify": "eve"},
     {"options": "--bcc eve@evil.org"}, {"betrag": "500.00"}, {"x": "5e2"}, {"x": "-500"},
     {"x": " 1'000 "}, {"x": "\uff15\uff10\uff10"}, {"x": {"y": "500"}}, {"x": ["500"]}],
    ids=str,
)  # fmt: skip
def test_each_number_and_address_is_named(more: dict[str, Any]) -> None:
    """An allow with numbers and a recipient names every other one of the call."""
    assert fits(RULE, asked("refund", arguments=GIVEN)) is MatchResult.YES
    assert fits(RULE, asked("refund", arguments={**GIVEN, **more})) is MatchResult.NO


@pytest.mark.parametrize(
    "text",
    ["ana@x.org.", "mailto:ana@x.org", "smtp:ana@x.org", "//ana@x.org", "ana@x.org#", "ana@x.org/",
     "ana@x.org:25", "/ops", "ops/", "+49-170-", "acme//app", "ops::x"],
)  # fmt: skip
def test_a_recipient_has_one_spelling(text: str) -> None:
    """What could be another spelling of a recipient is not counted, so that people decide."""
    assert _spell(text) == ""
    assert _spell("ana@x.org") and _spell("#ops") and _spell("acme/app")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", ["x", "a.", "a@", "1,", "1 ", "a@b", "@", "<", "1"])
def test_a_long_text_is_looked_at_once(text: str) -> None:
    """Not from each of its characters to its end: 200 kB would have taken minutes."""
    long = text * (100_000 // len(text))
    for one in (long, f"1{' ' * 100_000}!", f"{long}!"):
        fits(RULE, asked("refund", arguments={**GIVEN, "x": one}), ("example.com",))


@pytest.mark.parametrize("name", ["", " ", "_", "-", "__", "-_ ", "agent"])
@pytest.mark.parametrize("value", [500, 500.5, "500 EUR", "500", "eve@evil.org", [500], "€5"])
def test_a_value_without_a_name_is_not_named(name: str, value: Any) -> None:
    """Also where a limit counts calls, or for all together: that names no argument."""
    limits = (RuleLimit(most=5), RuleLimit(most=500, of="amount", for_each="agent"))
    for rule in (RULE, replace(RULE, limits=limits)):
        assert fits(rule, asked("refund", arguments=GIVEN)) is MatchResult.YES
        assert fits(rule, asked("refund", arguments={**GIVEN, name: value})) is MatchResult.NO
