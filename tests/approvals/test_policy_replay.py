"""What `gateway policy test` says: a policy file replayed against the requests of the audit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.approvals.policy_replay import PolicyReplay, ReplayedRule, replay
from gateway.domain.policy_document import (
    Guardrails,
    Mode,
    PolicyRule,
    Route,
    RuleEffect,
    RuleLimit,
    Window,
)
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.risk import RiskRule
from gateway.models import Action, Kind, Question, Reason, RiskLevel, new_id
from tests.world import World, click, over_http

READING = PolicyRule(name="reading", effect=RuleEffect.ALLOW, commands=("git log", "ls"))
REMOVING = PolicyRule(name="removing", effect=RuleEffect.DENY, commands=("rm",))
ASKING = PolicyRule(name="asking", effect=RuleEffect.ASK, tools=("pay",))
RULES = (READING, REMOVING, ASKING)


async def ended(
    world: World, command: str = "git log", action: Action = Action.APPROVE, **more: object
) -> StoredRequest:
    """Return a command that ann answered."""
    asked = {"arguments": {"command": command}, "kind": Kind.COMMAND, **more}
    record = await world.submit(**asked)
    return await world.core.requests.decide(click(record, action))


async def replayed(world: World, *rules: PolicyRule, **members: Any) -> PolicyReplay:
    """Return the replay of these rules, or of RULES, beside what is in force."""
    policy = replace(await world.store.policy(), rules=rules or RULES, **members)
    return await replay(world.store, policy)


def row(made: PolicyReplay, rule: str, effect: str = "") -> ReplayedRule:
    """Return the row of a rule, of the one effect where there are several."""
    (found,) = [one for one in made.rules if one.rule == rule and effect in ("", one.effect)]
    return found


async def test_each_rule_says_what_it_would_have_decided(world: World) -> None:
    """And what became of that; rules in the order of the file, what no rule decides last."""
    await ended(world)
    await ended(world, "ls")
    await ended(world, "rm x")
    await ended(world, "rm x", Action.DENY)
    await ended(world, "make")
    waits = await world.submit(tool="pay")
    made = await replayed(world)
    assert [one.rule for one in made.rules] == ["reading", "removing", "asking", ""]
    assert made.replayed == 5
    assert row(made, "reading").became["approved"] == row(made, "reading").decides == 2
    assert row(made, "removing").became == {
        **dict.fromkeys(("allowed", "denied", "nobody"), 0), "approved": 1, "refused": 1
    }  # fmt: skip
    assert (row(made, "").effect, row(made, "").became["approved"]) == ("ask", 1)
    assert row(made, "asking").decides == 0, waits.id
    assert made.newly_allowed == ()


async def test_what_people_refused_and_a_rule_allows_is_listed(world: World) -> None:
    """Also what they changed or replied to, since they did not let it run as it was."""
    denied = await ended(world, "git log", Action.DENY)
    changed = await world.submit(arguments={"command": "ls"}, kind=Kind.COMMAND)
    edit = click(changed, Action.EDIT, arguments={"command": "pwd"})
    await world.core.requests.decide(edit)
    replied = await world.submit(arguments={"command": "ls"}, kind=Kind.COMMAND)
    await world.core.requests.decide(click(replied, Action.RESPOND, result="nothing"))
    await ended(world, "make", Action.DENY)
    made = await replayed(world)
    assert [one.id for one in made.newly_allowed] == [denied.id, changed.id, replied.id]
    first = made.newly_allowed[0]
    assert (first.rule, first.agent, "git log" in first.summary) == ("reading", "bot", True)
    assert "denied by ann" in first.outcome
    assert row(made, "reading").became["refused"] == 3


async def test_a_changed_table_changes_the_answer(world: World) -> None:
    """The same audit under other risks, routes and guardrails is judged by those alone."""
    await ended(world, "git log", Action.DENY)
    assert len((await replayed(world)).newly_allowed) == 1
    risky = RiskRule(name="risky", level=RiskLevel.HIGH, reason="it is", tools=("shell",))
    made = await replayed(world, risks=(risky,))
    assert made.newly_allowed == ()
    assert (row(made, "reading").fits, row(made, "").decides) == (0, 1), "high risk is for people"
    auto = replace((await world.store.policy()).routes[0], mode=Mode.AUTO_APPROVE)
    made = await replayed(world, ASKING, routes=(auto,))
    assert [one.rule for one in made.newly_allowed] == ["mode auto-approve of route default"]
    made = await replayed(world, ASKING, routes=(auto,), risks=(risky,))
    assert row(made, "mode auto-approve of route default").effect == "ask"
    await ended(world, "rm -rf x", Action.DENY)
    strict = await replayed(world, ASKING, routes=(auto,), guardrails=Guardrails.ASK)
    assert row(strict, "guardrails").effect == "ask"


async def test_what_a_grant_decided_stays_unless_something_above_decides(world: World) -> None:
    """A grant stands above allow rules and below deny rules, as when it decided."""
    record = await world.submit(arguments={"command": "make"}, kind=Kind.COMMAND)
    await world.core.requests.decide(click(record, remember=Remember()))
    again = await world.submit(arguments={"command": "make"}, kind=Kind.COMMAND)
    assert again.decision is not None and again.decision.reason is Reason.GRANT
    made = await replayed(world)
    assert row(made, "grants, as then").became["allowed"] == 1
    no_make = PolicyRule(name="no make", effect=RuleEffect.DENY, commands=("make",))
    made = await replayed(world, no_make)
    assert row(made, "no make").became["allowed"] == 1
    denied = await world.submit(arguments={"command": "ls"}, kind=Kind.COMMAND)
    await world.core.requests.decide(click(denied, Action.DENY, remember=Remember()))
    await world.submit(arguments={"command": "ls"}, kind=Kind.COMMAND)
    made = await replayed(world)
    assert row(made, "grants, as then", "deny").became["denied"] == 1
    assert [one.id for one in made.newly_allowed] == [denied.id]


async def test_a_rule_in_shadow_decides_nothing_and_says_what_it_fits(world: World) -> None:
    """Neither does one that stands below another which answers."""
    await ended(world)
    made = await replayed(world, replace(READING, shadow=True))
    assert (row(made, "reading").effect, row(made, "reading").fits) == ("shadow", 1)
    assert row(made, "reading").decides == 0
    below = replace(READING, name="the same")
    made = await replayed(world, READING, below)
    assert (row(made, "the same").fits, row(made, "the same").decides) == (1, 0)


async def test_what_cannot_be_replayed_is_counted_by_reason(world: World) -> None:
    """Erased, gone, cancelled before it came, and a form; what still waits is not part of it."""
    erased = await ended(world)
    await world.approvals.erase(erased.id, by="test")
    gone = await ended(world)
    await world.store.redis.delete(world.store.keys.record(gone.id))
    await world.approvals.cancel(new_id(), over_http(), reason=Reason.CANCELLED_BY_AGENT)
    form = await world.submit(
        kind=Kind.QUESTION,
        arguments={},
        allowed=(Action.ANSWER, Action.DENY),
        questions=(Question(id="a", text="?"),),
    )
    await world.core.requests.decide(click(form, Action.DENY))
    await world.submit()
    made = await replayed(world)
    assert made.replayed == 0
    assert made.left_out == {
        "it was cancelled before it arrived": 1,
        "its content is no longer stored": 1,
        "erased": 1,
        "it is a form, which no rule can answer": 1,
    }


async def test_it_begins_where_it_is_told_and_writes_nothing(world: World) -> None:
    """Two replays of one audit are equal, and leave no key and no event behind."""
    await ended(world)
    late = await ended(world, "ls", Action.DENY)
    assert late.decision is not None
    own = f"{{{world.store.keys.namespace}}}*"
    keys = sorted(await world.store.redis.keys(own))
    assert keys
    events = await world.events()
    policy = replace(await world.store.policy(), rules=RULES)
    first, again = [await replay(world.store, policy) for _ in range(2)]
    assert first == again
    since = late.decision.decided_at + 10_000
    assert (await replay(world.store, policy, since=since)).replayed == 0
    assert sorted(await world.store.redis.keys(own)) == keys
    assert await world.events() == events


async def test_a_secret_stays_masked(world: World) -> None:
    """What is listed shows no more than a card."""
    token = "ghp_" + "a1B2" * 9
    await ended(world, f"git log {token}", Action.DENY)
    auto = Route(approvers=("ann",), mode=Mode.AUTO_APPROVE)
    made = await replayed(world, ASKING, routes=(auto,))
    (found,) = made.newly_allowed
    assert token not in str(found)


async def test_a_limit_counts_what_the_rule_would_have_allowed(world: World) -> None:
    """What is beyond it is for people, as when the rule is in force."""
    for _ in range(3):
        await ended(world)
    limited = replace(READING, limits=(RuleLimit(most=2, per=Window.HOUR),))
    made = await replayed(world, limited)
    assert (row(made, "reading", "allow").decides, row(made, "reading", "allow").fits) == (2, 3)
    assert row(made, "reading", "ask").decides == 1
    assert await replayed(world, limited) == made


async def test_a_limit_counts_what_was_asked_first(world: World) -> None:
    """Also where it was answered last: it would have been let through then."""
    first = await world.submit(arguments={"command": "git log"}, kind=Kind.COMMAND)
    second = await world.submit(arguments={"command": "git log -n 2"}, kind=Kind.COMMAND)
    await world.core.requests.decide(click(second))
    await world.core.requests.decide(click(first, Action.DENY))
    limited = replace(READING, limits=(RuleLimit(most=1, per=Window.HOUR),))
    made = await replayed(world, limited)
    assert [one.id for one in made.newly_allowed] == [first.id]
    assert row(made, "reading", "ask").became["approved"] == 1
