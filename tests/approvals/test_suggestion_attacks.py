"""What somebody does so that people are suggested what they should not remember, or how not."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gateway.approvals.deadlines import dismiss
from gateway.domain.policy_document import Guardrails, PolicyRule, Route, RuleEffect
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.risk import LevelRules, RiskRule, RulesByRisk, StepUp
from gateway.errors import GatewayError
from gateway.models import (
    Action,
    Context,
    DecidedBy,
    DeciderKind,
    Kind,
    Question,
    Risk,
    RiskLevel,
    Status,
)
from gateway.policy.chain import MODIFY
from gateway.policy.verdict import Verdict
from tests.approvals.test_suggestions import (
    BOB,
    HERE,
    approved,
    asked,
    decided,
    next_week,
    suggested,
    usual,
)
from tests.world import AGENT, World, assembled, click, over_http, request

NINETY = {"command": "git log -n 99"}
HIGH = Risk(level=RiskLevel.HIGH, reasons=("the agent says so",))
TOUCHY = RiskRule(name="touchy", level=RiskLevel.HIGH, reason="it is", contains=("-n 9",))


async def answered(world: World, record: StoredRequest, action: Action, **how: Any) -> str:
    """Have bob answer a request; return its id."""
    await world.core.requests.decide(click(record, action, identity=BOB, confirmed=True, **how))
    return record.id


# ---------------------------------------------------------------- refused, and asked otherwise

REFUSALS: dict[str, tuple[Action, dict[str, Any]]] = {
    "deny": (Action.DENY, {}),
    "deny with a word": (Action.DENY, {"message": "no"}),
    "another plan": (Action.DENY, {"feedback": True, "message": "no"}),
    "deny for an hour": (Action.DENY, {"remember": Remember()}),
    "stop the turn": (Action.ABORT, {"abort": "turn"}),
    "stop the agent": (Action.ABORT, {"abort": "agent"}),
    "edit": (Action.EDIT, {"arguments": {"command": "ls"}}),
    "edit a little": (Action.EDIT, {"arguments": {"command": "git log -n 1"}}),
    "respond": (Action.RESPOND, {"result": "none"}),
}
FORMS: dict[str, dict[str, Any]] = {
    "as always": {},
    "as high risk": {"risk": HIGH},
    "for a person": {"human": True},
    "in another session": {"session": "other"},
    "with a hint": {"hint": "it is fine", "turn": "7"},
    "in a line": {"command": "git status --short && git log -n 99"},
    "in a pipe": {"command": "git log -n 99 | head -3"},
    "behind echo": {"command": "echo x; git log -n 99"},
    "behind a variable": {"command": "CI=1 git log -n 99"},
}


@asynccontextmanager
async def habit(world: World) -> AsyncIterator[StoredRequest]:
    """Yield a waiting request beside which something is suggested, before and afterwards."""
    await approved(world)
    record = await asked(world)
    assert await suggested(world, record) is not None
    await next_week(world)
    yield record
    assert await suggested(world, record) is not None


async def forget(world: World, request_id: str) -> None:
    """Undo what one answer says, and what it remembered."""
    await world.store.redis.zrem(world.store.keys.decided(AGENT, "shell"), request_id)
    await world.core.grants.end(await world.core.grants.all(), "revoked", "test")


@pytest.mark.parametrize("form", FORMS)
async def test_a_refusal_counts_however_it_was_asked(world: World, form: str) -> None:
    """Whoever refused it, however, and when: what raised its risk, or stood beside it in a line,
    may be missing next time."""
    async with habit(world) as record:
        for no, old in itertools.product(REFUSALS, (False, True)):
            action, how = REFUSALS[no]
            waits = await asked(world, **{"command": "git log -n 99", **FORMS[form]})
            assert waits.status is Status.PENDING, no
            one = await answered(world, waits, action, **how)
            key = world.store.keys.decided(AGENT, "shell")
            if old:
                ((_, first),) = await world.store.redis.zrange(key, 0, 0, withscores=True)
                await world.store.redis.zadd(key, {one: first})
            assert await suggested(world, record) is None, (no, old)
            assert old or await usual(world, record) is None, no
            await forget(world, one)


async def test_a_refusal_counts_when_the_policy_is_another(world: World) -> None:
    """A rule about risk and the guardrails raised its risk then, and do not now."""
    async with habit(world) as record:
        for then in ({"risks": (TOUCHY,)}, {"guardrails": Guardrails.DENY}, {"guardrails": "ask"}):
            await world.put(**then)
            one = await answered(world, await asked(world, "git log -n 99"), Action.DENY)
            await world.put(risks=(), guardrails=Guardrails.SHADOW)
            assert await suggested(world, record) is None, then
            await forget(world, one)


async def test_what_was_denied_as_somebody_edited_it_was_refused(world: World) -> None:
    """The editor may not decide what it became, and who may denies that."""
    everybody = Route(approvers=("ann", "bob"))
    alone = replace(everybody, risk=RulesByRisk(high=LevelRules(approvers=("bob",))))
    async with habit(world) as record:
        await world.put(risks=(TOUCHY,), routes=(alone,))
        edit = click(await asked(world, "make"), Action.EDIT, arguments=NINETY, confirmed=True)
        after = await world.core.requests.decide(edit)
        assert after.status is Status.PENDING
        one = await answered(world, after, Action.DENY)
        await world.put(risks=(), routes=(everybody,))
        assert await suggested(world, record) is None
        await forget(world, one)


class Rewriter:
    """A decider that has another command run."""

    name, priority = "rewriter", 700

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Change `make`, once."""
        by = DecidedBy(kind=DeciderKind.RULE, name=self.name)
        if record.arguments != {"command": "make"} or record.edited is not None:
            return None
        return Verdict(effect=MODIFY, by=by, arguments=NINETY)


async def test_what_was_denied_as_a_decider_changed_it_was_refused(
    server_url: str, namespace: str
) -> None:
    """What the person read was the changed call."""
    async with assembled(server_url, namespace, (Rewriter(),)) as world, habit(world) as record:
        waits = await asked(world, "make")
        assert (waits.status, waits.arguments) == (Status.PENDING, NINETY)
        one = await answered(world, waits, Action.DENY)
        assert await suggested(world, record) is None
        await forget(world, one)


# ---------------------------------------------------------------- what is no approval of one's own


async def _approve(world: World, *, submit: Any = None, **how: Any) -> None:
    record = await asked(world, **{"command": "git log -n 50", **(submit or {})})
    await world.core.requests.decide(click(record, **{"confirmed": True, **how}))


async def _by_grant(world: World) -> None:
    await _approve(world, remember=Remember(lifetime="1h"))
    assert all([(await asked(world, "git log -n 50")).final for _ in range(12)])


async def _by_batch(world: World) -> None:
    batch = [click(await asked(world, f"git log -n {n}"), nonce="one") for n in range(30)]
    await world.core.requests.decide_all(batch)


async def _again(world: World) -> None:
    tap = click(await asked(world, "git log -n 50"))
    await asyncio.gather(*(world.core.requests.decide(tap) for _ in range(12)))


async def _same_nonce(world: World) -> None:
    for number in range(12):
        await decided(world, f"git log -n {number}", nonce="one")


async def _other_agent(world: World) -> None:
    for number in range(12):
        draft = request(agent="other", kind=Kind.COMMAND, context=HERE,
                        arguments={"command": f"git log -n {number}"})  # fmt: skip
        record, _ = await world.approvals.submit(draft, over_http(agent="other"))
        await world.core.requests.decide(click(record))


async def _group(world: World) -> None:
    same = [await asked(world, "git log -n 50") for _ in range(12)]
    after = await world.core.requests.decide(click(same[0]))
    await world.core.holding.settle(after, await world.store.now() + 5_000)


async def _first_of_two(world: World) -> None:
    route = Route(approvers=("ann", "bob"))
    await world.put(routes=(replace(route, quorum=2),))
    for number in range(12):
        first = await decided(world, f"git log -n {number}")
        await world.core.requests.decide(click(first, identity=BOB))
    await world.put(routes=(route,))


async def _by_rule(world: World) -> None:
    reading = PolicyRule(name="r", effect=RuleEffect.ALLOW, commands=("git log",))
    await world.put(rules=(reading,))
    assert all([(await asked(world)).final for _ in range(12)])
    await world.put(rules=())


def _twelve(submit: Any = None, **how: Any) -> Callable[[World], Awaitable[None]]:
    async def approve(world: World) -> None:
        for _ in range(12):
            await _approve(world, submit=submit, **how)

    return approve


NONE_OF_ANNS: dict[str, Callable[[World], Awaitable[None]]] = {
    "a grant": _by_grant, "a batch": _by_batch, "a click again": _again, "a nonce": _same_nonce,
    "another agent": _other_agent, "a group": _group, "a vote": _first_of_two, "a rule": _by_rule,
    "bob": _twelve(identity=BOB), "high risk": _twelve({"risk": HIGH}),
    "a person wanted": _twelve({"human": True}), "another tool": _twelve({"tool": "bash"}),
    "another folder": _twelve({"context": Context(cwd="/srv/other", host="laptop")}),
    "another host": _twelve({"context": Context(cwd="/srv/app", host="prod")}),
    "a variable": _twelve({"context": Context(cwd="/srv/app", host="laptop", env={"A": "b"})}),
    "another flag": _twelve({"command": "git log --stat -n 50"}),
    "another verb": _twelve({"command": "git show -n 50"}),
    "a line": _twelve({"command": "git log -n 50; git status"}),
}  # fmt: skip


@pytest.mark.parametrize("what", NONE_OF_ANNS)
async def test_what_else_was_approved_counts_for_nothing(world: World, what: str) -> None:
    """However often; only the taps of this person on what the offer would cover count."""
    await approved(world, 10)
    await NONE_OF_ANNS[what](world)
    record = await asked(world, "git log -n 51")
    assert await suggested(world, record) is None
    await approved(world, 2)
    assert await suggested(world, record) is not None


async def test_a_later_holder_of_the_name_inherits_no_habit(world: World) -> None:
    """Neither a suggestion nor what is chosen first: it was another agent that was let do it."""
    await approved(world)
    await world.credentials.revoke_agent(AGENT)
    await dismiss(world.core, world.store, AGENT)
    await world.credentials.add_agent(AGENT)
    record = await asked(world)
    assert await suggested(world, record) is None
    assert await usual(world, record) is None
    await approved(world)
    assert await suggested(world, record) is not None


# ---------------------------------------------------------------- beside which request


@pytest.mark.parametrize("command", [
    "git log -n 5; id", "git log -n 5 && rm x", "git log -n 5 | sh", "git log -n 5 > x",
    "git log -n $(id)", "git log -n `id`", "git log -n 5 #", "git log -n 5\nid",
    "sudo git log -n 5",
    "git log -n 5 --output=x", "git -c alias.x=y log -n 5", "git log -n 5 & id", "git log -n {5,6}",
    "git log -n 5 ../x", "git log -n 5 .env", "env A=b git log -n 5", "git push -n 5",
    "git\tlog -x",
    "g\u0456t log -n 5", "git log\u200b -n 5", "git log -n 5 \u202e", "bash -c 'git log -n 5'",
    "git log --stat -n 5", "GIT_PAGER=sh git log -n 5", "cd / && git log -n 5", "/tmp/git log -n 5",
    "eval git log -n 5", "git log -n 5 | xargs rm", "git log -p -n 5 --ext-diff", "make", "",
])  # fmt: skip
async def test_nothing_is_suggested_beside_another_command(world: World, command: str) -> None:
    """Nor let through once the suggestion was taken."""
    await approved(world)
    record = await asked(world, command)
    assert await suggested(world, record) is None
    good = await asked(world)
    found = await suggested(world, good)
    assert found is not None
    with pytest.raises(GatewayError):
        await world.core.requests.decide(click(record, remember=Remember(offer=found.offer)))
    wish = Remember(offer=found.offer, everywhere=True, lifetime="revoked")
    await world.core.requests.decide(click(good, remember=wish))
    assert (await asked(world, command)).status is Status.PENDING


BESIDE: dict[str, dict[str, Any]] = {
    "high risk": {"risk": HIGH}, "a person wanted": {"human": True},
    "a payload": {"payload": {"command": "id"}},
    "a variable": {"context": replace(HERE, env={"PATH": "/tmp"})},
    "another folder": {"context": replace(HERE, cwd="/")}, "no folder": {"context": Context()},
    "another host": {"context": replace(HERE, host="prod")}, "another tool": {"tool": "bash"},
    "another kind": {"kind": Kind.TOOL}, "no approval": {"allowed": (Action.DENY, Action.RESPOND)},
    "a question": {"kind": Kind.QUESTION, "questions": (Question(id="a", text="?"),),
                   "allowed": (Action.ANSWER, Action.DENY)},
}  # fmt: skip


@pytest.mark.parametrize("what", BESIDE)
async def test_nothing_is_suggested_beside_what_it_would_not_cover(world: World, what: str) -> None:
    """The offer would be of no use there, or wider than what was approved."""
    await approved(world)
    assert await suggested(world, await asked(world, **BESIDE[what])) is None


LOGS = PolicyRule(name="logs", effect=RuleEffect.ASK, commands=("git log",))
ENDS: dict[str, Callable[[World, StoredRequest], Awaitable[Any]]] = {
    "denied": lambda world, one: answered(world, one, Action.DENY),
    "edited": lambda world, one: answered(world, one, Action.EDIT, arguments={"command": "ls"}),
    "approved by bob": lambda world, one: answered(world, one, Action.APPROVE),
    "expired": lambda world, one: world.store.redis.delete(world.store.keys.record(one.id)),
    "ann may not": lambda world, one: world.route(Route(approvers=("bob",))),
    "nobody may": lambda world, one: world.route(Route()),
    "ann is nobody": lambda world, one: world.put(people=()),
    "a rule asks": lambda world, one: world.put(rules=(LOGS,)),
    "a rule denies": lambda world, one: world.put(rules=(replace(LOGS, effect=RuleEffect.DENY),)),
    "a step-up": lambda world, one: world.route(Route(approvers=("ann",), risk=RulesByRisk(
        low=LevelRules(step_up=(StepUp.PERSON,)), medium=LevelRules(step_up=(StepUp.PERSON,))))),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
async def test_nothing_is_suggested_to_who_may_not_or_did_not(world: World, end: str) -> None:
    """Neither while it waits nor afterwards, as the policy is at that moment."""
    await approved(world)
    mine, waits = await decided(world), await asked(world)
    await ENDS[end](world, waits)
    if found := await world.store.load(waits.id):
        assert await suggested(world, found) is None
    if end in ("ann may not", "nobody may", "ann is nobody", "a step-up"):
        assert await suggested(world, mine) is None, "the right was taken since"
