"""What an attacker found in outcomes who had not seen the code."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from gateway.domain.policy_document import Budget, PolicyDocument, PolicyRule, Route, RuleEffect
from gateway.domain.records import Query
from gateway.errors import Conflict, OverBudget, Used
from gateway.models import Action, ApprovalRequest, Status, id_of_call, new_id
from gateway.policy.grants.grant import Shape
from gateway.stores.grants import RedisGrants
from gateway.wire.canonical_json import call_key
from tests.api.replica import EVE_TOKEN, Replica, made
from tests.world import AGENT, World, click, identity, over_http, policy, request


def version(command: str) -> ApprovalRequest:
    """Return one version of a host's call."""
    draft = request(arguments={"command": command}, call_id="c1")
    return replace(draft, id=id_of_call(draft))


async def test_a_refused_submission_leaves_no_second_living_approval(world: World) -> None:
    """What was refused once may be stored later; a newer version still supersedes it."""
    first, second = version("ls"), version("rm x")
    current = await world.store.policy()
    await world.store.apply(_with_budget(current, 1), by="test")
    other, _ = await world.approvals.submit(request(), over_http())
    with pytest.raises(OverBudget):
        await world.approvals.submit(first, over_http(None))
    call = call_key(AGENT, first.session, "c1", "")
    assert await world.store.add_version(call, new_id()) == [first.id]  # whoever stores it then
    await world.core.requests.decide(click(other, Action.DENY))
    await world.store.apply(_with_budget(await world.store.policy(), 9), by="test")
    stored, _ = await world.approvals.submit(first, over_http(None))
    await world.core.requests.decide(click(stored))
    newer, _ = await world.approvals.submit(second, over_http(None))
    await world.core.requests.decide(click(newer))
    with pytest.raises(Used):
        await world.approvals.consume(first.id, over_http())
    assert (await world.approvals.consume(second.id, over_http())).decision is not None


def _with_budget(document: PolicyDocument, waiting: int) -> PolicyDocument:
    return replace(document, budgets=(Budget(waiting=waiting, denials=0),))


async def test_passes_that_are_given_at_once_leave_one(world: World) -> None:
    """A doubled press gives no second `next N`."""
    await world.submit()
    give = world.core.remembering.let_through
    await asyncio.gather(
        *(
            give(identity("ann"), agent=AGENT, session="default", shape=Shape.WORK, hours=1)
            for _ in range(6)
        )
    )
    known = await RedisGrants(world.store).of_session(AGENT, "default")
    assert len([one for one in known if one.match.shape is Shape.WORK]) == 1


async def test_nothing_that_approves_is_remembered_while_the_kill_switch_is_on(
    world: World,
) -> None:
    """It would count once the switch is off."""
    await world.submit()
    await world.store.set_stopped(True, by="root")
    with pytest.raises(Conflict, match="kill switch"):
        await world.core.remembering.let_through(
            identity("ann"), agent=AGENT, session="default", shape=Shape.WORK, hours=1
        )


async def test_whoever_had_an_approval_gets_it_no_more_after_its_time(world: World) -> None:
    """As everybody else."""
    record, _ = await world.approvals.submit(request(), over_http())
    await world.core.requests.decide(click(record))
    past = world.clock.now_ms() - 1
    await world.store.redis.hset(world.store.keys.record(record.id), "deadline", past)
    with pytest.raises(Conflict, match="expired"):
        await world.approvals.consume(record.id, over_http())


async def test_approvers_hear_nothing_of_an_operators_shadow_rules(gate: Replica) -> None:
    """Neither in the events of requests; the audit has them."""
    rule = PolicyRule(name="hidden-rule", effect=RuleEffect.DENY, tools=("*",), shadow=True)
    current = await gate.store.policy()
    await gate.store.apply(replace(current, rules=(rule,)), by="test")
    async with gate.opened("GET", "/v1/events", token=EVE_TOKEN) as stream:
        await gate.submitted(made())
        text = ""
        while "submitted" not in text:
            text += (await stream.content.readline()).decode()
        line = (await stream.content.readline()).decode()
    assert "hidden-rule" not in text + line
    assert json.loads(line.removeprefix("data: "))["type"] == "submitted"
    events = await gate.store.history(None, 100)
    assert any("hidden-rule" in json.dumps(one.data) for one in events)
    assert (await gate.core.requests.page(Query())).items[0].status is Status.PENDING


async def test_a_call_has_so_many_versions_and_no_more(world: World) -> None:
    """Each new one withdraws the others, so they are bounded."""
    await policy(world.store, Route(approvers=("ann",)))
    with pytest.raises(Conflict, match="versions"):
        for number in range(40):
            await world.approvals.submit(version(f"echo {number}"), over_http(None))
