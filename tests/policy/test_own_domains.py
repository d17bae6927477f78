"""Recipients outside the operator's own domains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.card import card_of
from gateway.domain.policy_document import Guardrails, Mode, PolicyRule, Route, RuleEffect, ToolRow
from gateway.domain.records import Remember, StoredRequest
from gateway.models import RiskLevel, Status
from gateway.policy.grants.coverage import covers, names_each
from gateway.policy.grants.grant import Effect, MatchResult, Shape
from gateway.policy.grants.offers import offers
from gateway.policy.guardrails import find_dangers
from gateway.policy.rules import fits
from tests.grants.making import asked, remembered
from tests.world import World, click

OWN = ("example.com", "*.example.net")
ANY_MAIL = PolicyRule(name="any mail", effect=RuleEffect.ALLOW, tools=("send_mail",))


def mail(**arguments: Any) -> StoredRequest:
    """Return a message."""
    return asked("send_mail", arguments={"text": "write to eve@evil.org", **arguments})


INSIDE: list[dict[str, Any]] = [
    {"to": "ana@example.com"}, {"to": "Ana@Example.COM"}, {"to": "Ana <ana@example.com>"},
    {"to": "ana+x@example.com, ben@example.com"}, {"to": ["ana@example.com", "b@x.example.net"]},
    {"to": "#general"}, {"to": "@ana"}, {"channel": "C123"}, {"to": ""}, {"to": None}, {"to": 5},
    {"to": "ana@example.com", "cc": []}, {"repo": "git@github.com:acme/app"},
    {"package": "a@1.2.3"},
    {"url": "https://ana@evil.org/x"}, {"scope": "@acme/lint"},
    {"note": "mail eve@evil.org soon"},
]  # fmt: skip
OUTSIDE: list[dict[str, Any]] = [
    {"to": "eve@evil.org"}, {"to": "eve@example.com.evil.org"}, {"to": "eve@evilexample.com"},
    {"to": "eve@sub.example.com"}, {"to": "eve@example.net"}, {"to": "eve@evil.example.net.org"},
    {"to": "Ana ana@example.com <eve@evil.org>"}, {"to": "ana@example.com,eve@evil.org"},
    {"to": "eve@evil.org;ana@example.com"}, {"to": "ana@example.com\neve@evil.org"},
    {"to": ["ana@example.com", "eve@evil.org"]}, {"to": [["eve@evil.org"]]},
    {"to": [{"email": "eve@evil.org"}]}, {"to": {"address": "eve@evil.org"}},
    {"to": "ana@example.com", "cc": "eve@evil.org"}, {"to": "a@example.com", "Bcc": ["e@evil.org"]},
    {"recipients": ["eve@evil.org"]}, {"to_email": "eve@evil.org"}, {"forwardTo": "eve@evil.org"},
    {"invitees": [{"mail": "eve@evil.org"}]}, {"options": {"bcc": "eve@evil.org"}},
    {"whom": "eve@evil.org"}, {"whom": "Eve <eve@evil.org>"}, {"whom": "mailto:eve@evil.org"},
    {"whom": "ana@example.com; eve@evil.org"}, {"to": "eve%40evil.org"}, {"to": "eve&#64;evil.org"},
    {"to": "eve\uff20evil.org"}, {"to": "ana@ex\u0430mple.com"}, {"to": "ana@\uff45xample.com"},
    {"to": "eve@evil.org@example.com"}, {"to": '"eve@evil.org"@example.com'},
    {"to": "eve%evil.org@example.com"}, {"to": "evil.org!eve@example.com"}, {"to": "@evil.org"},
    {"to": "mailto:ana@example.com?cc=eve@evil.org"}, {"to": "eve@[10.0.0.1]"}, {"to": "eve@evil"},
    {"to": '["eve@evil.org"]'}, {"extra": '{"to": "eve@evil.org"}'}, {"to": "ana@example.com."},
]  # fmt: skip


@pytest.mark.parametrize("arguments", INSIDE)
def test_own_recipients_are_no_finding(arguments: dict[str, Any]) -> None:
    """Nor are names in a chat, packages, repositories, and addresses in a text."""
    assert find_dangers(mail(**arguments), OWN) == ()
    assert fits(ANY_MAIL, mail(**arguments), OWN) == fits(ANY_MAIL, mail(**arguments))


@pytest.mark.parametrize("arguments", OUTSIDE)
def test_a_recipient_outside_is_a_finding_and_asks(arguments: dict[str, Any]) -> None:
    """However it is spelled, and wherever it stands; without own domains nothing is outside."""
    found = find_dangers(mail(**arguments), OWN)
    assert found
    assert all(one.words.startswith("reaches ") and not one.destroys for one in found)
    assert fits(ANY_MAIL, mail(**arguments), OWN) is MatchResult.NO
    assert find_dangers(mail(**arguments)) == ()


@pytest.mark.parametrize(
    ("to", "cover"),
    [
        ("eve@evil.org", MatchResult.YES),
        (["*@evil.org", "*@example.com"], MatchResult.YES),
        ("*", MatchResult.NO),
        (["*"], MatchResult.NO),
    ],
)
def test_a_rule_that_names_the_recipient_allows_it(to: Any, cover: MatchResult) -> None:
    """`*` alone names nobody."""
    rule = replace(ANY_MAIL, arguments={"to": to})
    assert fits(rule, mail(to="eve@evil.org"), OWN) is cover
    assert fits(rule, mail(to="eve@evil.org", cc="bob@evil.org"), OWN) is MatchResult.NO


@pytest.mark.parametrize("mode", list(Guardrails))
async def test_the_finding_is_on_the_card_and_no_grant_covers_it_unnamed(
    world: World, mode: Guardrails
) -> None:
    """Whatever the guardrails' mode; people read who it reaches unless they are off."""
    tools = (ToolRow(name="send_mail", harmless=True, arguments={"to": "data"}),)
    await world.put(own_domains=OWN, guardrails=mode, tools=tools)
    first = await world.submit(tool="send_mail", arguments={"to": "Ana", "text": "x"})
    offer = offers(first, Effect.ALLOW)[-1]
    await world.core.requests.decide(click(first, remember=Remember(offer=offer.id)))
    for to in ("Ben", "Ben <ben@example.com>"):
        inside = await world.submit(tool="send_mail", arguments={"to": to, "text": "y"})
        assert inside.status is Status.APPROVED
    outside = await world.submit(
        tool="send_mail", arguments={"to": "Eve <eve@evil.org>", "text": "x"}
    )
    assert outside.status is Status.PENDING
    found = [one.text for one in card_of(outside, lines=9, chars=900).findings]
    said = 'Guardrail: reaches "eve@evil.org", outside your own domains (in "to")'
    assert found == ([] if mode is Guardrails.OFF else [said])
    in_force = mode in (Guardrails.ASK, Guardrails.DENY)
    assert (outside.risk.level is RiskLevel.HIGH) is in_force
    route = Route(approvers=("ann",), mode=Mode.AUTO_APPROVE)
    await world.put(routes=(route,))
    again = await world.submit(tool="send_mail", arguments={"to": "eve@evil.org", "text": "y"})
    assert (again.status is Status.PENDING) is in_force


def test_what_is_remembered_for_one_recipient_outside_goes_on() -> None:
    """Exactly this, and each time this recipient; not one that leaves the recipient open."""
    call = asked("send_mail", arguments={"to": "eve@evil.org", "text": "hi"})
    for shape in (Shape.EXACT, Shape.PATTERN):
        assert names_each(remembered(call, shape), call, OWN)
    free = asked("send_mail", arguments={"to": "E <eve@evil.org>", "text": "hi"})
    free = free.copy_with(declared={"to": "data"}, harmless=True)
    whole = remembered(free, Shape.TOOL)
    assert covers(whole, free) is MatchResult.YES
    assert not names_each(whole, free, OWN)
    assert names_each(whole, free, ())
    assert names_each(remembered(free, effect=Effect.DENY, shape=Shape.TOOL), free, OWN)


@pytest.mark.parametrize(
    "text",
    [
        "a@" + "a." * 30_000 + "1", " " * 60_000, "+" * 60_000, "<" * 60_000, "a" * 60_000 + "<",
        "@" * 60_000, "a@a.a," * 10_000, "&amp;" * 12_000, "%40" * 20_000, "mailto:" * 8_000,
        "a+" * 30_000 + "@",
    ],
    ids=lambda one: one[:9],
)  # fmt: skip
def test_a_long_text_is_read_once(text: str) -> None:
    """No spelling has it take for ever, in a recipient or elsewhere."""
    deny = PolicyRule(name="d", effect=RuleEffect.DENY, arguments={"to": ["*@evil.org"]})
    for arguments in ({"to": text}, {"whom": text}):
        find_dangers(mail(**arguments), OWN)
        fits(deny, mail(**arguments), OWN)
        fits(replace(ANY_MAIL, arguments={"to": ["*@evil.org"]}), mail(**arguments), OWN)
