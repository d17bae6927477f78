"""Agents that ask nobody for now, over HTTP: approvers see them, and let their own ask again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.domain.policy_document import Budget
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, EVE_TOKEN, POLICY, Replica, made

BUDGET = Budget(name="strict", agents=("agent1",), denials=1, pause=1800)


@pytest.fixture
async def paused(gate: Replica) -> Replica:
    """A replica whose agent was paused by one denial of ann's."""
    await gate.put(budgets=(BUDGET,))
    request = made()
    await gate.submitted(request)
    assert (await gate.decided(request.id, action="deny")).status == 200
    return gate


async def test_a_pause_is_listed_with_its_budget_and_lifted_by_an_approver(paused: Replica) -> None:
    """It says until when and by which budget; lifted, the agent asks people again."""
    refused = await paused.submitted(made())
    assert refused.json["decision"]["reason"] == "breaker"
    (one,) = (await paused.call("GET", "/v1/agents/paused", token=EVE_TOKEN)).json["items"]
    assert one["agent"] == "agent1"
    assert (one["budget"]["name"], one["budget"]["denials"]) == ("strict", 1)
    assert one["until"] > refused.json["decision"]["decided_at"]
    path = "/v1/agents/agent1/lift"
    lifted = [(await paused.call("POST", path, {}, token=ANN_TOKEN)).json for _ in range(2)]
    assert lifted == [{"lifted": True}, {"lifted": False}]
    for name in ("A B", "nobody"):
        unknown = await paused.call("POST", f"/v1/agents/{name}/lift", {}, token=ANN_TOKEN)
        assert unknown.problem == (404, "not_found")
    assert (await paused.call("GET", "/v1/agents/paused", token=ANN_TOKEN)).json["items"] == []
    assert (await paused.submitted(made())).json["status"] == "pending"
    events = await paused.store.history(None, 100)
    assert [one.data["by"] for one in events if one.type == "breaker_lifted"] == ["ann"]


async def test_who_approves_nothing_of_it_does_not_lift_it(paused: Replica) -> None:
    """Not another person, not an approver who was just removed, and never the agent itself."""
    path = "/v1/agents/agent1/lift"
    assert (await paused.call("POST", path, {}, token=EVE_TOKEN)).status == 403
    for method, each, body in (("GET", "/v1/agents/paused", None), ("POST", path, {})):
        assert (await paused.call(method, each, body, token=AGENT_TOKEN)).status == 403
    generation = await paused.store.generation()
    await paused.store.apply(replace(POLICY, generation=generation, routes=()), by="test")
    assert (await paused.call("POST", path, {}, token=ANN_TOKEN)).status == 403
    events = await paused.store.history(None, 100)
    tried = [one.agent for one in events if one.type == "refused"]
    assert [tried.count(f"token:{name}") for name in ("eve", "ann")] == [1, 1]
    assert len((await paused.call("GET", "/v1/agents/paused", token=ANN_TOKEN)).json["items"]) == 1
