"""Numbers, lists and limits of rules, through gateways on the real server."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from gateway.domain.policy_document import (
    Mode,
    PolicyDocument,
    PolicyRule,
    Route,
    RuleEffect,
    RuleLimit,
    Window,
)
from gateway.domain.records import Remember, RequestOutcome, Spend, StoredRequest
from gateway.domain.store import WriteResult
from gateway.errors import Unreachable
from gateway.models import (
    DecidedBy,
    DeciderKind,
    Execution,
    Reason,
    Report,
    Risk,
    RiskLevel,
    Status,
)
from gateway.policy.policy_file_reader import BadPolicy, differences, read_policy
from gateway.policy.policy_file_writer import write_policy
from gateway.policy.verdict import Verdict
from gateway.stores.record_codec import dumps, policy_of
from gateway.wire.codec import plain
from tests.sweeps import sweep
from tests.world import World, assembled, click, over_http, request

DAILY = RuleLimit(most=500, of="amount")
REFUNDS = PolicyRule(
    name="small refunds",
    effect=RuleEffect.ALLOW,
    tools=("refund",),
    arguments={"currency": "EUR"},
    numbers={"amount": "> 0, <= 100"},
    limits=(DAILY,),
)
MAILS = PolicyRule(
    name="own mail",
    effect=RuleEffect.ALLOW,
    tools=("send_mail",),
    arguments={"to": ["*@example.com"]},
    limits=(RuleLimit(most=2, per=Window.HOUR, for_each="to"),),
)
HOUR_MS = 3_600_000


async def refund(world: World, amount: Any, **more: Any) -> StoredRequest:
    """Submit a refund in EUR."""
    values = {"tool": "refund", "arguments": {"amount": amount, "currency": "EUR"}, **more}
    return await world.submit(**values)


async def mail(world: World, to: Any, **more: Any) -> StoredRequest:
    """Submit a message."""
    return await world.submit(tool="send_mail", arguments={"to": to, "text": "hi", **more})


# ---------------------------------------------------------------- limits


async def test_a_hundred_at_once_spend_exactly_the_limit(server_url: str, namespace: str) -> None:
    """Two gateways, each with its own connections: 25 of 20 EUR are approved, and 75 ask."""
    async with assembled(server_url, namespace) as one, assembled(server_url, namespace) as two:
        await one.put(rules=(REFUNDS,))
        two.core.writer.forget_policy()
        gates = [one, two] * 50
        done = await asyncio.gather(*(refund(gate, 20) for gate in gates))
        assert Counter(each.status for each in done) == {
            Status.APPROVED: 25,
            Status.PENDING: 75,
        }
        (left,) = {each.asks_because for each in done if each.status is Status.PENDING}
        assert left == 'the rule "small refunds" has 0 of 500 left in 24 hours (amount)'


async def test_uneven_amounts_at_once_never_exceed_the_limit(
    server_url: str, namespace: str
) -> None:
    """What is approved sums up to at most 500, to the cent, and what asks had no room."""
    draw = random.Random(7)
    amounts = [str(Decimal(draw.randrange(1, 10_001)) / 100) for _ in range(100)]
    async with assembled(server_url, namespace) as one, assembled(server_url, namespace) as two:
        await one.put(rules=(REFUNDS,))
        two.core.writer.forget_policy()
        gates = [one, two] * 50
        done = await asyncio.gather(*map(refund, gates, amounts))
        spent = sum(
            Decimal(each.arguments["amount"]) for each in done if each.status is Status.APPROVED
        )
        least = min(
            Decimal(each.arguments["amount"]) for each in done if each.status is Status.PENDING
        )
        assert spent <= 500 < spent + least


async def test_what_exceeds_a_limit_is_for_people_and_says_why(world: World) -> None:
    """Also where the route approves by itself; a smaller one still goes through."""
    auto = Route(approvers=("ann",), mode=Mode.AUTO_APPROVE)
    await world.put(rules=(replace(REFUNDS, limits=(replace(DAILY, most=120.5),)),), routes=(auto,))
    assert (await refund(world, 100)).status is Status.APPROVED
    over = await refund(world, "20.51")
    assert over.status is Status.PENDING
    assert over.asks_because == (
        'the rule "small refunds" has 20.5 of 120.5 left in 24 hours (amount)'
    )
    assert (await refund(world, 20.5)).status is Status.APPROVED
    opinions = await world.approvals.explain(over.request)
    (found,) = [one for one in opinions if one.decider == "allow rules"]
    assert (found.effect, found.message) == (
        "ask",
        'the rule "small refunds" has 0 of 120.5 left in 24 hours (amount)',
    )


async def test_only_what_the_rule_approved_counts_and_nothing_gives_it_back(world: World) -> None:
    """Neither what people approved, nor a failed run, a cancelled or expired request change it."""
    await world.put(rules=(replace(REFUNDS, limits=(replace(DAILY, most=150),)),))
    first = await refund(world, 100)
    asks = await refund(world, 60)
    assert (await world.core.requests.decide(click(asks))).status is Status.APPROVED
    report = Report(execution=Execution.FAILED, detail="it did not run")
    await world.approvals.report(first.id, report, over_http())
    assert (await refund(world, 51)).status is Status.PENDING
    assert (await refund(world, 50)).status is Status.APPROVED
    assert (await refund(world, "0.01")).status is Status.PENDING


async def test_a_retry_counts_once(world: World) -> None:
    """The same request, sent again and at the same time, is one approval."""
    await world.put(rules=(replace(REFUNDS, limits=(replace(DAILY, most=100),)),))
    same = request(tool="refund", arguments={"amount": 60, "currency": "EUR"})
    sent = await asyncio.gather(*(world.approvals.submit(same, over_http()) for _ in range(20)))
    assert {one.status for one, _ in sent} == {Status.APPROVED}
    assert sum(new for _, new in sent) == 1
    assert (await refund(world, 40)).status is Status.APPROVED
    assert (await refund(world, 1)).status is Status.PENDING


@pytest.mark.parametrize("step", ["submit_request:before", "submit_request:after"])
async def test_a_gateway_that_dies_counts_all_or_nothing(
    server_url: str, namespace: str, step: str
) -> None:
    """The agent sends the same request to another one: it is approved, and counted once."""

    class Died(Exception):
        pass

    def die(passed: str) -> None:
        if passed == step:
            raise Died

    same = request(tool="refund", arguments={"amount": 60, "currency": "EUR"})
    async with assembled(server_url, namespace) as world:
        await world.put(rules=(replace(REFUNDS, limits=(replace(DAILY, most=100),)),))
        async with assembled(server_url, namespace, at=die) as dying:
            with pytest.raises(Died):
                await dying.approvals.submit(same, over_http())
        done, _ = await world.approvals.submit(same, over_http())
        assert done.status is Status.APPROVED
        assert (await refund(world, 41)).status is Status.PENDING
        assert (await refund(world, 40)).status is Status.APPROVED


async def test_each_agent_and_each_recipient_has_its_own(world: World) -> None:
    """Small and capital letters and tags are one recipient, whichever argument names it."""
    limits = (RuleLimit(most=2, per=Window.HOUR, for_each="to"),
              RuleLimit(most=2, per=Window.HOUR, for_each="cc"))  # fmt: skip
    both = replace(MAILS, arguments={"to": ["*@example.com"], "cc": ["*@example.com"]})
    await world.put(rules=(replace(both, name="both", limits=limits), MAILS))
    assert (await mail(world, "ana@example.com")).status is Status.APPROVED
    assert (await mail(world, ["Ana@example.com", "ben@example.com"])).status is Status.APPROVED
    over = await mail(world, "ana+x@example.com")
    assert over.asks_because == 'the rule "own mail" has 0 of 2 left in an hour (calls for each to)'
    assert (await mail(world, "ben@example.com")).status is Status.APPROVED
    twice = await mail(world, "cyd@example.com", cc=["cyd@example.com", "cyd@example.com"])
    assert twice.asks_because.startswith('the rule "both" has 2 of 2 left')


async def test_agents_are_counted_apart(world: World) -> None:
    """A limit for each agent; without that word all share it."""
    await world.credentials.add_agent("other")
    for each, second in (("agent", Status.APPROVED), ("", Status.PENDING)):
        rule = replace(REFUNDS, name=f"r{each}", limits=(replace(DAILY, most=100, for_each=each),))
        await world.put(rules=(rule,))
        assert (await refund(world, 100)).status is Status.APPROVED
        other = request(agent="other", tool="refund", arguments={"amount": 100, "currency": "EUR"})
        done, _ = await world.approvals.submit(other, over_http(agent="other"))
        assert done.status is second


async def test_a_rule_keeps_its_counter_as_long_as_its_name(world: World) -> None:
    """Changed it goes on; renamed it begins anew."""
    await world.put(rules=(replace(REFUNDS, limits=(replace(DAILY, most=100),)),))
    assert (await refund(world, 90)).status is Status.APPROVED
    await world.put(rules=(replace(REFUNDS, limits=(replace(DAILY, most=110),), message="x"),))
    assert (await refund(world, 21)).status is Status.PENDING
    assert (await refund(world, 20)).status is Status.APPROVED
    await world.put(rules=(replace(REFUNDS, limits=(replace(DAILY, most=80),)),))
    assert "has 0 of 80" in (await refund(world, 1)).asks_because
    await world.put(rules=(replace(REFUNDS, name="again", limits=(replace(DAILY, most=100),)),))
    assert (await refund(world, 90)).status is Status.APPROVED


async def test_the_window_slides_by_the_servers_clock(world: World) -> None:
    """What was approved counts for its whole window, and a sixtieth of it longer at most."""
    await world.put(rules=(replace(MAILS, limits=(RuleLimit(most=2, per=Window.HOUR),)),))
    assert (await mail(world, "ana@example.com")).status is Status.APPROVED
    (key,) = await world.store.redis.keys(world.store.keys.counter("*"))
    now = await world.store.now()
    for minutes, status in ((59, Status.PENDING), (62, Status.APPROVED)):
        await world.store.redis.delete(key)
        before = (now - minutes * 60_000) // 60_000
        await world.store.redis.hset(key, mapping={str(before): "20000"})
        assert (await mail(world, "ana@example.com")).status is status, minutes
    assert list(await world.store.redis.hvals(key)) == ["10000"]  # what is over is dropped
    assert 0 < await world.store.redis.pttl(key) <= HOUR_MS + 60_000


async def test_a_counter_lasts_for_its_window(world: World) -> None:
    """The script refuses what was approved at the window's other end, whatever was read."""
    spend = Spend(key="k", amount=1, most=10, window_ms=HOUR_MS, words="")
    (pending,), now = [await refund(world, 1)], await world.store.now()
    by = DecidedBy(kind=DeciderKind.RULE, name="r")
    ending = RequestOutcome(status=Status.APPROVED, reason=Reason.RULE, by=by, spends=(spend,))
    ruling = (await world.store.policy()).ruling_on(pending.request)
    planned = world.core.writer.plan_end(pending, ending, ruling)
    key, first = world.store.keys.counter("k"), (now - 59 * 60_000) // 60_000
    await world.store.redis.hset(key, mapping={str(first): "10"})
    assert await world.store.change(planned) is WriteResult.OVER_LIMIT
    await world.store.redis.hset(key, mapping={str(first): "9"})
    assert await world.store.change(planned) is WriteResult.OK


async def test_what_cannot_be_counted_asks_and_says_so(world: World) -> None:
    """Also where the route approves by itself, or another rule would."""
    auto = Route(approvers=("ann",), mode=Mode.AUTO_APPROVE)
    rule = replace(REFUNDS, numbers={})
    await world.put(rules=(rule, replace(rule, name="any", limits=())), routes=(auto,))
    for amount in (-1, "5 EUR", None, True, [5]):
        asks = await refund(world, amount)
        assert asks.status is Status.PENDING
        assert asks.asks_because == 'the rule "small refunds" cannot count this call'


async def test_what_people_are_asked_for_anyway_is_not_counted(world: World) -> None:
    """High risk, a rule in shadow, an approval that was remembered."""
    rule = replace(REFUNDS, limits=(replace(DAILY, most=100),))
    await world.put(rules=(replace(rule, shadow=True),))
    assert (await refund(world, 100)).status is Status.PENDING
    await world.put(rules=(rule,))
    high = await refund(world, 100, risk=Risk(level=RiskLevel.HIGH))
    assert high.status is Status.PENDING
    kept = await refund(world, 101)
    await world.core.requests.decide(click(kept, remember=Remember(everywhere=True)))
    assert (await refund(world, 101)).status is Status.APPROVED
    assert await world.store.redis.keys(world.store.keys.counter("*")) == []
    assert (await refund(world, 100)).status is Status.APPROVED


class Slow:
    """A decider that is asked once the request is stored, and has no opinion."""

    name, priority, after_storing = "slow", 600, True

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Say nothing."""
        return None


async def test_what_is_reviewed_later_is_counted_then(server_url: str, namespace: str) -> None:
    """The other script that stores approvals counts alike, at once too."""
    async with assembled(server_url, namespace, (Slow(),)) as world:
        await world.put(rules=(replace(REFUNDS, limits=(replace(DAILY, most=100),)),))
        asks = await asyncio.gather(*(refund(world, 20) for _ in range(20)))
        assert {one.unreviewed for one in asks} == {True}
        look = world.core.reviews.look
        await asyncio.gather(*(look(one.id, world.core.held) for one in asks))
        done = [await world.core.requests.get(one.id) for one in asks]
        assert Counter(one.status for one in done) == {Status.APPROVED: 5, Status.PENDING: 15}


def allow_rules(world: World) -> Any:
    """Return the link of the chain that answers with allow rules."""
    deciders = world.core.approvals._chain._deciders
    return next(one for one in deciders if one.name == "allow rules")


async def test_the_script_has_the_last_word(world: World) -> None:
    """Whatever was read before: beyond the limit nothing is stored as approved."""

    async def nothing(spends: Sequence[Spend]) -> list[int]:
        return [0 for _ in spends]

    await world.put(rules=(replace(REFUNDS, limits=(replace(DAILY, most=100),)),))
    allow_rules(world)._counted = nothing
    assert (await refund(world, 100)).status is Status.APPROVED
    late = request(tool="refund", arguments={"amount": 1, "currency": "EUR"})
    with pytest.raises(Unreachable):
        await world.approvals.submit(late, over_http())
    assert await world.store.load(late.id) is None


async def test_a_limit_that_cannot_be_read_approves_nothing(world: World) -> None:
    """People are asked; the counter is never taken for empty."""

    async def lost(spends: Sequence[Spend]) -> list[int]:
        raise ConnectionError("the server went away")

    await world.put(rules=(REFUNDS,))
    allow_rules(world)._counted = lost
    assert (await refund(world, 1)).status is Status.PENDING


async def test_two_transitions_of_one_script_share_what_is_left(world: World) -> None:
    """Both or none: the second is checked against what the first would count."""
    await world.put()
    spend = Spend(key="k", amount=6, most=10, window_ms=HOUR_MS, words="")
    generation = (await world.store.policy()).generation
    pending = [await refund(world, amount) for amount in (1, 2)]
    by = DecidedBy(kind=DeciderKind.RULE, name="r")
    ending = RequestOutcome(status=Status.APPROVED, reason=Reason.RULE, by=by, spends=(spend,))
    ruling = replace(PolicyDocument(), generation=generation).ruling_on(pending[0].request)
    both = [world.core.writer.plan_end(one, ending, ruling) for one in pending]
    assert await world.store.change_all(both) == (WriteResult.OVER_LIMIT, pending[1].id)
    assert await world.store.counted([spend]) == [0]
    assert await world.store.change(both[0]) is WriteResult.OK
    assert await world.store.change(both[1]) is WriteResult.OVER_LIMIT
    assert await world.store.counted([spend]) == [6]


@sweep("seed", range(50), few=3)
async def test_limits_agree_with_a_ledger(world: World, seed: int) -> None:
    """A hundred calls of chosen agents, recipients and amounts, against sums kept beside them."""
    draw = random.Random(seed)
    most = Decimal(draw.choice(["20", "33.3333", "0.5", "1000"]))
    sums = RuleLimit(most=float(most), of="amount", for_each=draw.choice(["", "agent", "to"]))
    calls = RuleLimit(most=draw.choice([3, 10, 1000]), per=Window.HOUR, for_each="to")
    rule = PolicyRule(
        name="pays", effect=RuleEffect.ALLOW, tools=("pay",), arguments={"to": ["*"]},
        limits=(sums, calls),
    )  # fmt: skip
    await world.credentials.add_agent("other")
    await world.put(rules=(rule,))
    ledger: Counter[tuple[str, str]] = Counter()
    for _ in range(100):
        agent, who = draw.choice(["bot", "other"]), draw.choice(["ana", "ben", "cyd"])
        units = draw.randrange(int(most * 10_000) // 2)
        amount: Any = f"{units // 10_000}.{units % 10_000:04}"
        if units % 10_000 == 0 and draw.random() < 0.5:
            amount = units // 10_000
        asks = request(agent=agent, tool="pay", arguments={"amount": amount, "to": who})
        done, _ = await world.approvals.submit(asks, over_http(agent=agent))
        each = {"": "", "agent": agent, "to": who}[sums.for_each]
        sum_key, call_key = (f"sum {sums.for_each}", each), ("calls", who)
        room = ledger[sum_key] + units <= most * 10_000 and ledger[call_key] + 1 <= calls.most
        assert done.status is (Status.APPROVED if room else Status.PENDING), (amount, who)
        if room:
            ledger[sum_key] += units
            ledger[call_key] += 1


# ---------------------------------------------------------------- the policy file

FILE = """
own_domains = ["example.com", "*.example.net"]

[[rules]]
name = "small refunds"
effect = "allow"
tools = ["refund"]
arguments = { currency = "EUR", to = ["*@example.com", "ops@example.net"] }
numbers = { amount = "> 0, <= 100" }

[[rules.limits]]
most = 500
of = "amount"
for_each = "agent"

[[rules.limits]]
most = 20
per = "hour"
for_each = "to"
"""


def test_the_file_is_read_and_written_again() -> None:
    """Each member, and what it says by itself."""
    policy = read_policy(FILE)
    (rule,) = policy.rules
    assert rule.limits == (
        RuleLimit(most=500, of="amount", per=Window.DAY, for_each="agent"),
        RuleLimit(most=20, per=Window.HOUR, for_each="to"),
    )
    assert rule.arguments == {"currency": "EUR", "to": ["*@example.com", "ops@example.net"]}
    assert policy.own_domains == ("example.com", "*.example.net")
    assert read_policy(write_policy(policy)) == policy
    assert policy_of(dumps(plain(policy))) == policy


def test_the_differences_name_each_new_member() -> None:
    """An operator reads before `apply` what changes."""
    before = read_policy(FILE)
    after = FILE.replace("<= 100", "<= 90").replace("most = 20", "most = 30")
    after = after.replace('"ops@example.net"', '"*@example.net"').replace(', "*.example.net"', "")
    assert differences(before, read_policy(after)) == [
        '~ rule small refunds: arguments: {"currency": "EUR", "to": ["*@example.com", '
        '"ops@example.net"]} -> {"currency": "EUR", "to": ["*@example.com", "*@example.net"]}',
        '~ rule small refunds: numbers: {"amount": "> 0, <= 100"} -> {"amount": "> 0, <= 90"}',
        '~ rule small refunds: limits: [{"most": 500.0, "of": "amount", "per": "day", "for_each": '
        '"agent"}, {"most": 20.0, "of": "", "per": "hour", "for_each": "to"}] -> [{"most": 500.0, '
        '"of": "amount", "per": "day", "for_each": "agent"}, {"most": 30.0, "of": "", "per": '
        '"hour", "for_each": "to"}]',
        "~ own_domains: example.com, *.example.net -> example.com",
    ]
    (added,) = differences(PolicyDocument(), replace(before, own_domains=()))
    assert added.startswith("+ rule small refunds: effect allow; tools refund; arguments {")
    assert 'limits [{"most": 500.0, "of": "amount", "for_each": "agent"}, {' in added


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("> 0, <= 100", "100", "the number 'amount' needs a comparison such as"),
        ("> 0, <= 100", "", "the number 'amount' needs a comparison such as"),
        ("> 0, <= 100", "<= 100 EUR", "the number 'amount' needs a comparison such as"),
        ("> 0, <= 100", "<= 1e3", "the number 'amount' needs a comparison such as"),
        ("> 0, <= 100", "> 0, ", "the number 'amount' needs a comparison such as"),
        ("> 0, <= 100", "=> 100", "the number 'amount' needs a comparison such as"),
        ('tools = ["refund"]', 'kinds = ["tool"]', "a rule that compares numbers must name tools"),
        ('"*@example.com", "ops@example.net"', "", "the argument 'to' has an empty list"),
        ('effect = "allow"', 'effect = "deny"', "only an allow rule can have limits"),
        ('effect = "allow"', 'effect = "ask"', "only an allow rule can have limits"),
        ("most = 500", "most = 0", "the limit 0 must be above 0"),
        ("most = 500", "most = -1", "the limit -1 must be above 0"),
        ("most = 500", "most = 1e12", "the limit 1e+12 must be above 0"),
        ("most = 500", "most = 0.00001", "the limit 1e-05 must be above 0"),
        ("most = 20", "most = 2.5", "a number of calls must be whole"),
        ("most = 500", "most = inf", "the file is not valid TOML"),
        ("most = 500", 'most = "500"', "rules.0.limits.0.most"),
        ("most = 500", "most = true", "rules.0.limits.0.most"),
        ("most = 500", "", "rules.0.limits.0.most is missing"),
        ("most = 500", "most = 500\nunit = 1", "rules.0.limits.0.unit is not a known member"),
        ('per = "hour"', 'per = "week"', "rules.0.limits.1.per"),
        ('for_each = "to"', 'of = "amount"\nfor_each = "agent"\n', "two limits count the same"),
        ('"example.com", "*.e', '"https://example.com", "*.e', "The own domain 'https://example"),
        ('["example.com", "*', '["*", "*', "The own domain '*' must be written"),
        ('["example.com", "*', '["*example.com", "*', "The own domain '*example.com'"),
        ('["example.com", "*', '["ana@example.com", "*', "The own domain 'ana@example.com'"),
        ('["example.com", "*', '["Example.com", "*', "The own domain 'Example.com'"),
        ('["example.com", "*', '["com", "*', "The own domain 'com'"),
    ],
)
def test_a_mistake_refuses_the_file_with_a_sentence(old: str, new: str, said: str) -> None:
    """Nothing of it is applied."""
    text = FILE.replace('per = "hour"\n', "") if "two limits" in said else FILE
    assert old in text
    with pytest.raises(BadPolicy) as caught:
        read_policy(text.replace(old, new, 1))
    assert said in str(caught.value)
