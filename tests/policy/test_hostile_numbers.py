"""What an agent may write to have a rule with numbers, lists or limits let through too much."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import strategies as st

from gateway.domain.policy_document import PolicyRule, RuleEffect, RuleLimit
from gateway.domain.records import StoredRequest
from gateway.errors import InvalidRequest
from gateway.models import Kind
from gateway.policy.calls.call_effects import effects_of
from gateway.policy.grants.grant import MatchResult
from gateway.policy.limits import spends_of
from gateway.policy.rules import fits
from gateway.wire.canonical_json import parse
from tests.grants.making import asked
from tests.sweeps import tried

ALLOW, ASK, DENY = RuleEffect.ALLOW, RuleEffect.ASK, RuleEffect.DENY
REFUND = PolicyRule(
    name="refunds",
    effect=ALLOW,
    tools=("refund",),
    arguments={"currency": "EUR"},
    numbers={"amount": "<= 100"},
)
LINES = PolicyRule(
    name="orders",
    effect=ALLOW,
    tools=("refund",),
    numbers={"items[].amount": "<= 100"},
)
MAIL = PolicyRule(
    name="mail",
    effect=ALLOW,
    tools=("send_mail",),
    arguments={"to": ["*@example.com", "ops@example.org"]},
)
REPO = PolicyRule(
    name="repositories",
    effect=ALLOW,
    tools=("comment",),
    arguments={"repo": ["acme/*", "tools/lint"]},
)
EUR = {"currency": "EUR"}


def refund(amount: Any, **more: Any) -> StoredRequest:
    """Return a call with an amount in EUR."""
    return asked("refund", arguments={"amount": amount, **EUR, **more})


def mail(to: Any, **more: Any) -> StoredRequest:
    """Return a message."""
    return asked("send_mail", arguments={"to": to, "text": "hi", **more})


def comment(repo: Any, **more: Any) -> StoredRequest:
    """Return a comment in a repository."""
    return asked("comment", arguments={"repo": repo, "text": "hi", **more})


_DIGITS = frozenset("0123456789")


def read_by_hand(value: Any) -> Fraction | None:
    """Return a plain number, by other means than the product: digit by digit, as a fraction."""
    text = value if isinstance(value, str) else json.dumps(value)
    if not isinstance(value, str) and type(value) not in (int, float):
        return None
    if not isinstance(value, str):
        return Fraction(text)
    sign, digits = (-1, text[1:]) if text[:1] == "-" else (1, text)
    whole, dot, rest = digits.partition(".")
    if not whole or not set(whole) <= _DIGITS or not set(rest) <= _DIGITS:
        return None
    if bool(dot) != bool(rest) or (len(whole) > 1 and whole[0] == "0"):
        return None
    if len(whole) > 18 or len(rest) > 12:
        return None
    scale = 10 ** len(rest)
    return sign * Fraction(int(whole) * scale + int(rest or 0), scale)


HONEST = [
    *((REFUND, refund(one)) for one in (0, 1, 100, 99.99, 100.0, "0", "100", "100.00", "0.5", 1e2)),
    (REFUND, refund(100, reason="late", order="A-1", note="")),
    (REFUND, refund(100, total=None, fees=[])),
    (LINES, asked("refund", arguments={"items": [{"amount": 1}, {"amount": "100.00"}]})),
    *(
        (MAIL, mail(one))
        for one in ("ana@example.com", "ops@example.org", ["a.b-c_d+x@example.com"])
    ),
    (MAIL, mail(["ana@example.com", "ops@example.org"], cc="", bcc=[])),
    *(
        (REPO, comment(one))
        for one in ("acme/app", "acme/app.js", "tools/lint", ["acme/a", "acme/b"])
    ),
]

NOT_NUMBERS: list[Any] = [
    100.01, 101, 1e3, 1e300, 2**53 - 1, -5, -0.01, -1e300, "-5", "-0.01", "101", "100.01",
    "1e3", "1E1", "1e-3", "\uff11\uff10\uff10", "\u0967\u0966\u0966", "10\uff10", "\u0663", "²",
    "\u216b", "½", "NaN", "nan", "Infinity",
    "-Infinity", "inf", "0x10", "0b1", "0o7", "010", "007", "00", "0100.0", "+5", "5.", ".5",
    "5.0.0", "5,00", "1,0", "1.000,00", "1 0", " 5", "5 ", "5\n", "\t5", "5\u00a0", "5\u200b",
    "5 EUR", "EUR 5", "5€", "€5", "$5", "5USD", "5%", "5k", "five", "", " ", "-", "--5", "5-",
    "1_0", "1'0", "(5)", "5/1", "5*1", "5+5", "=5", "${X}", "[5]", '"5"', "null", "true",
    True, False, None, [], [5], [5, 500], [[5]], {}, {"amount": 5}, {"value": 5, "currency": "EUR"},
    {"$numberDecimal": "5"}, "9" * 19, "9" * 400, "1." + "0" * 13, "0." + "0" * 400 + "1",
]  # fmt: skip

ELSEWHERE: list[dict[str, Any]] = [
    {"amount": 5},  # no currency
    {"amount": 5, "currency": "USD"},
    {"amount": 5, "currency": "eur"},
    {"amount": 5, "currency": "EUR "},
    {"amount": 5, "currency": "\u0415UR"},  # cyrillic
    {"amount": 5, "currency": ["EUR", "USD"]},
    {"amount": 5, "currency": None},
    {"amount": 5, **EUR, "Currency": "USD"},
    {"amount": 5, **EUR, "currency_code": "USD"},
    {"amount": 5, **EUR, "ccy": "USD"},
    {"amount": 5, **EUR, "unit": "USD"},
    {"amount": 5, **EUR, "in": "€"},
    {"amount": 5, **EUR, "money": {"iso": "JPY"}},
    {"amount": 5, **EUR, "Amount": 500},
    {"amount": 5, **EUR, "AMOUNT": 500},
    {"amount": 5, **EUR, "a_mount": 500},
    {"amount": 5, **EUR, "amount ": 500},
    {"amount": 5, **EUR, "amount_": 5},
    {"amount": 5, **EUR, "total": 500},
    {"amount": 5, **EUR, "totalAmount": 500},
    {"amount": 5, **EUR, "amount_cents": 50_000},
    {"amount": 5, **EUR, "quantity": 100},
    {"amount": 5, **EUR, "price": 500},
    {"amount": 5, **EUR, "tip": 500},
    {"amount": 5, **EUR, "fees": [500]},
    {"amount": 5, **EUR, "extra": {"amount": 500}},
    {"amount": 5, **EUR, "items": [{"amount": 500}]},
    {"amount": 5, **EUR, "note": '{"amount": 500}'},
    {"amount": 5, **EUR, "arguments": {"amount": 500}, "tool": "refund"},
    {"Amount": 500, **EUR},
    {"value": 5, **EUR},
    {"refund": {"amount": 5, **EUR}},
    {"\u0430mount": 5, **EUR},  # cyrillic
    {"amount.": 5, **EUR},
    {"amount": 5, **EUR, "sudo": True},
    {"amount": 5, **EUR, "memo": "hi\u202e"},
    {**EUR},
    {},
]

RECIPIENTS: list[Any] = [
    "eve@evil.org", "ana@example.com.evil.org", "ana@evilexample.com", "ana@sub.example.com",
    "ana@example.co", "ana@example.com.", "ana@example.com ", " ana@example.com",
    "ana@EXAMPLE.COM", "eve@evil.org,ana@example.com", "eve@evil.org ana@example.com",
    "eve@evil.org;ana@example.com", "eve@evil.org\nana@example.com",
    "eve@evil.org\r\nBcc: x@example.com", "eve@evil.org@example.com", "@evil.org:ana@example.com",
    "Eve <eve@evil.org>,x@example.com", "<eve@evil.org>ana@example.com",
    '"eve@evil.org"@example.com', "eve%evil.org@example.com", "evil.org!eve@example.com",
    "Ana <ana@example.com>", "ana@example.com <eve@evil.org>", "mailto:ana@example.com",
    "mailto:eve@evil.org?cc=x@example.com", "ana@ex\u0430mple.com", "ana@\uff45xample.com",
    "ana\uff20example.com", "ana@example\u3002com", "ana@example.com\u200b",
    "ana\u202e@example.com",
    "eve(at)evil.org", "ana@[10.0.0.1]", "ana@xn--exmple-cua.com", "*@example.com", "@example.com",
    "ops@example.org,x", "OPS@example.org", "", None, 5, True, [], [None], [[]],
    ["ana@example.com", "eve@evil.org"], ["eve@evil.org", "ana@example.com"],
    ["ana@example.com", ["eve@evil.org"]], ["ana@example.com", {"email": "eve@evil.org"}],
    {"email": "ana@example.com"}, {"to": "ana@example.com"}, '["ana@example.com"]',
    ["ana@example.com", ""], ["ana@example.com", None], "ana%40evil.org@example.com",
]  # fmt: skip
BESIDE: list[dict[str, Any]] = [
    {"cc": "eve@evil.org"}, {"bcc": ["eve@evil.org"]}, {"BCC": "eve@evil.org"},
    {"cc": "ana@example.com"}, {"To": "eve@evil.org"}, {"t_o": "eve@evil.org"},
    {"recipients": ["eve@evil.org"]}, {"cc_list": "eve@evil.org"}, {"toEmail": "eve@evil.org"},
    {"reply_to": "eve@evil.org"}, {"forwardTo": "eve@evil.org"}, {"headers": {"Bcc": "e@evil.org"}},
    {"options": {"attendees": ["eve@evil.org"]}}, {"extra": '{"to": "eve@evil.org"}'},
]  # fmt: skip
REPOSITORIES: list[Any] = [
    "evil/app", "acme", "acme-evil/app", "acme/../evil/app", "acme/a,evil/b", "acme/a evil/b",
    "acme/a;evil/b", "acme/a\nevil/b", "acme\\..\\evil", "ACME/app", "tools/lint2", "xacme/app",
    ["acme/a", "evil/b"], ["acme/a", 5], {"acme/a": 1}, 5, None, "", "tools/lint,evil/x",
]  # fmt: skip

ITEMS: list[dict[str, Any]] = [
    {"items": []}, {"items": [{"amount": 5}, {"amount": 500}]}, {"items": [{"amount": -5}]},
    {"items": [{"amount": 5}, {"price": 500}]}, {"items": [{"amount": 5}], "total": 500},
    {"items": {"amount": 5}}, {"items": [[{"amount": 5}]]}, {"amount": 5},
]  # fmt: skip

ATTEMPTS = [
    *((REFUND, refund(one)) for one in NOT_NUMBERS),
    *((REFUND, asked("refund", arguments=one)) for one in ELSEWHERE),
    *((MAIL, mail(one)) for one in RECIPIENTS),
    *((MAIL, mail("ana@example.com", **one)) for one in BESIDE),
    *((REPO, comment(one)) for one in REPOSITORIES),
    *((LINES, asked("refund", arguments=one)) for one in ITEMS),
    (REFUND, asked("refund", arguments={"amount": 5, **EUR}, payload={"amount": 500})),
    (REFUND, asked("refund", arguments={"amount": 5, **EUR}, kind=Kind.COMMAND)),
    (REFUND, asked("Refund", arguments={"amount": 5, **EUR})),
    (REFUND, asked("refund_all", arguments={"amount": 5, **EUR})),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "call"), HONEST)
def test_what_the_rules_are_for_is_allowed(rule: PolicyRule, call: StoredRequest) -> None:
    """Else the attempts below would prove nothing."""
    assert fits(rule, call) is MatchResult.YES, call.arguments


@pytest.mark.parametrize(("rule", "call"), ATTEMPTS)
def test_no_attempt_is_allowed(rule: PolicyRule, call: StoredRequest) -> None:
    """What is not certain asks."""
    assert fits(rule, call) is MatchResult.NO, call.arguments


def test_there_are_many_attempts() -> None:
    """All different."""
    assert len({repr((rule.name, call.request.tool, call.parts)) for rule, call in ATTEMPTS}) > 200


@pytest.mark.parametrize("amount", [one for one in NOT_NUMBERS if read_by_hand(one) is None])
@pytest.mark.parametrize("effect", [ASK, DENY])
def test_a_denial_of_large_numbers_is_unsure_of_what_is_none(
    effect: RuleEffect, amount: Any
) -> None:
    """People decide, also where the route approves by itself."""
    rule = PolicyRule(name="large", effect=effect, tools=("refund",), numbers={"amount": "> 100"})
    assert fits(rule, refund(amount)) is MatchResult.UNSURE


@pytest.mark.parametrize(
    ("arguments", "cover"),
    [
        ({"amount": 100}, MatchResult.NO),
        ({"amount": "100.00"}, MatchResult.NO),
        ({"amount": 101}, MatchResult.YES),
        ({"amount": "100.01"}, MatchResult.YES),
        ({"Amount": 101}, MatchResult.YES),
        ({"amount": 5, "AMOUNT": 101}, MatchResult.YES),
        ({"amount": -5}, MatchResult.UNSURE),
        ({"amount": 5, "more": {"amount": 101}}, MatchResult.UNSURE),
        ({"amount": [5, 101]}, MatchResult.UNSURE),
        ({"total": 101}, MatchResult.UNSURE),
        ({"note": '{"amount": 101}'}, MatchResult.UNSURE),
        ({}, MatchResult.UNSURE),
    ],
)
def test_a_denial_of_large_numbers_misses_none(arguments: Any, cover: MatchResult) -> None:
    """Missing, negative, nested and in a list: it may be."""
    rule = PolicyRule(name="large", effect=DENY, tools=("refund",), numbers={"amount": "> 100"})
    assert fits(rule, asked("refund", arguments=arguments)) is cover


@pytest.mark.parametrize(
    ("to", "cover"),
    [
        ("ana@example.com", MatchResult.NO),
        (["ana@example.com", "ben@example.com"], MatchResult.NO),
        ("eve@evil.org", MatchResult.YES),
        (["ana@example.com", "eve@evil.org"], MatchResult.YES),
        ("EVE@EVIL.ORG", MatchResult.UNSURE),
        ("Eve <eve@evil.org>", MatchResult.UNSURE),
        ("eve@evil.org,ana@example.com", MatchResult.UNSURE),
        ("eve@evil.org; ana@example.com", MatchResult.UNSURE),
        ("eve\uff20evil.org", MatchResult.UNSURE),
        ("eve@evi\u217c.org", MatchResult.UNSURE),
        ("ops+x@example.net", MatchResult.UNSURE),
        ([["eve@evil.org"]], MatchResult.UNSURE),
        ([{"to": "eve@evil.org"}], MatchResult.UNSURE),
        ({"email": "eve@evil.org"}, MatchResult.UNSURE),
    ],
)
def test_a_denial_of_recipients_misses_no_spelling(to: Any, cover: MatchResult) -> None:
    """Another spelling asks people."""
    wanted = ["*@evil.org", "ops@example.net"]
    rule = PolicyRule(name="out", effect=DENY, tools=("send_mail",), arguments={"to": wanted})
    assert fits(rule, mail(to)) is cover


HOSTS = PolicyRule(
    name="hosts",
    effect=ALLOW,
    tools=("look",),
    arguments={"site": ["*.example.com", "https://api.example.org/*", "we say *"]},
)


@pytest.mark.parametrize(
    ("site", "cover"),
    [
        *((one, MatchResult.YES) for one in (
            "a.example.com", "a-b.c_d.example.com", "https://api.example.org/a/b?c=d&e=%20#f",
            "we say a, b; and @c", ["a.example.com", "b.example.com"],
        )),
        *((one, MatchResult.NO) for one in (
            "evil.org,a.example.com", "evil.org/.example.com", "evil.org?.example.com",
            "evil.org#.example.com", "evil.org:80.example.com", "evil.org\\.example.com",
            "evil.org;.example.com", "evil.org .example.com", "evil.org\n.example.com",
            "evil.org%2f.example.com", "ana@evil.org@.example.com", "a..example.com",
            "https://api.example.org/../evil", "https://api.example.org/a,https://evil.org",
            "https://api.example.org/a https://evil.org", "https://api.example.org.evil/a",
            "https://api.example.org@evil.org/", "http://api.example.org/a", "example.com",
        )),
    ],
)  # fmt: skip
def test_a_star_in_a_list_stands_for_one_name(site: Any, cover: MatchResult) -> None:
    """Domains, repositories, addresses: what could hold a second one asks."""
    assert fits(HOSTS, asked("look", arguments={"site": site})) is cover


NOBODY: list[Any] = [
    "", None, [], [""], True, {}, ["ana", {}], "ana ben", "ana,ben", "Ana <ana@x.org>",
    "ana@x.org@y.org", "ana\u200b", "\u0430na", "a\nb", "a" * 257,
    [str(n) for n in range(60)],
]  # fmt: skip
PAYS = PolicyRule(
    name="pays", effect=ALLOW, tools=("pay",),
    limits=(RuleLimit(most=500, of="amount"), RuleLimit(most=20, for_each="to")),
)  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        *({"amount": one, "to": "ana"} for one in NOT_NUMBERS if read_by_hand(one) is None),
        *({"amount": one, "to": "ana"} for one in (-5, "-5", 0.00001, "0.00001", 1e12, 5e-324)),
        {"to": "ana"}, {"amount": 5, "AMOUNT": 5, "to": "ana"}, {"amount": 5},
        *({"amount": 5, "to": one} for one in NOBODY),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_not_approved(arguments: Any) -> None:
    """No plain amount, or no plain recipient: nobody can tell which counter."""
    call = asked("pay", arguments=arguments)
    assert spends_of(PAYS, "bot", effects_of(call)[0]) is None


@pytest.mark.parametrize(
    ("more", "cover"),
    [
        ({}, MatchResult.YES),
        ({"value": 5}, MatchResult.YES),
        ({"cc": "ben@example.com"}, MatchResult.NO),
        ({"bcc": ["ben@example.com"]}, MatchResult.NO),
    ],
)
def test_no_recipient_escapes_a_limit_for_each(more: Any, cover: MatchResult) -> None:
    """Who is not named would not be counted."""
    each = (RuleLimit(most=2, for_each="to"),)
    rule = PolicyRule(name="m", effect=ALLOW, tools=("send_mail",), limits=each)
    assert fits(rule, mail("ana@example.com", **more)) is cover


@pytest.mark.parametrize(
    "spelled", ["ana@x.org", "ANA@x.org", "ana+1@x.org", "Ana+a+b@X.ORG", ["ana@x.org"]]
)
def test_one_recipient_has_one_counter(spelled: Any) -> None:
    """However it is spelled."""
    plain, other = (
        spends_of(PAYS, "bot", effects_of(asked("pay", arguments={"amount": 5, "to": one}))[0])
        for one in ("ana@x.org", spelled)
    )
    assert plain == other and plain


@pytest.mark.parametrize(
    "raw",
    [
        b'{"amount": 5, "amount": 500}', b'{"amount": NaN}', b'{"amount": Infinity}',
        b'{"amount": -Infinity}', b'{"amount": 1e400}', b'{"amount": 9007199254740993}',
        b'{"amount": 0005}', b'{"amount": +5}', b'{"amount": 5.}', b'{"amount": .5}',
        b'{"amount": 0x5}', b'{"amount": 1_0}', b'{"a": {"amount": 5, "amount": 6}}',
    ],
)  # fmt: skip
def test_what_programs_read_differently_is_no_message(raw: bytes) -> None:
    """It never comes to a rule."""
    with pytest.raises(InvalidRequest):
        parse(raw)


NUMBERS = st.one_of(
    st.integers(-1000, 1000),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-1000, 1000, places=3).map(float),
    st.decimals(-1000, 1000, places=2).map(str),
    st.text("0123456789.-+eE ,_", max_size=8),
    st.text(max_size=4),
    st.sampled_from([value for value in NOT_NUMBERS if not isinstance(value, list | dict)]),
)
BOUNDS = st.decimals(-1000, 1000, places=2).map(lambda one: f"{one:f}".replace("-0.00", "0.00"))


@tried(NUMBERS, BOUNDS, st.sampled_from(["<=", "<", ">=", ">", "="]), few=300, many=5000)
def test_numbers_agree_with_an_oracle(value: Any, bound: str, sign: str) -> None:
    """An allow fits exactly what is plain, not negative and within; a denial misses none of it."""
    number, limit = read_by_hand(value), Fraction(bound)
    holds = number is not None and {
        "<=": number <= limit, "<": number < limit, ">=": number >= limit, ">": number > limit,
        "=": number == limit,
    }[sign]  # fmt: skip
    numbers = {"amount": f"{sign}{bound}"}
    allow = PolicyRule(name="a", effect=ALLOW, tools=("refund",), numbers=numbers)
    deny = PolicyRule(name="d", effect=DENY, tools=("refund",), numbers=numbers)
    call = asked("refund", arguments={"amount": value})
    plain = number is not None and number >= 0
    assert fits(allow, call) is (MatchResult.YES if holds and plain else MatchResult.NO)
    denied = MatchResult.YES if holds else MatchResult.NO if plain else MatchResult.UNSURE
    assert fits(deny, call) is denied
