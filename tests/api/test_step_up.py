"""A step-up over HTTP: its agent alone is told the number, and an approver sends it."""

from __future__ import annotations

import json

from gateway.domain.policy_document import Route
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from tests.api.replica import ANN_TOKEN, PROCESS, Replica, made
from tests.approvals.test_step_up import other_than

HIGH = {"level": "high", "reasons": ["touches prod"]}
ROUTE = Route(approvers=("ann",), risk=RulesByRisk(high=LevelRules(step_up=(StepUp.NUMBER,))))


async def in_force(gate: Replica) -> None:
    """Have high risk take a number."""
    await gate.put(routes=(ROUTE,))


async def test_the_submitting_agent_is_told_the_number_and_the_approver_sends_it(
    gate: Replica,
) -> None:
    """In the answer to the submission, when it is sent again, and when it asks; the approver reads
    it nowhere, and what was done stands in what they are told."""
    await in_force(gate)
    request = made(risk=HIGH)
    first = await gate.submitted(request)
    number = first.json["number"]
    assert (await gate.submitted(request)).json["number"] == number
    state = await gate.call("GET", f"/v1/requests/{request.id}?process={PROCESS}")
    assert state.json["number"] == number
    sync = await gate.call("POST", "/v1/sync", {"process": PROCESS, "ids": [request.id]})
    assert sync.json["items"][0]["number"] == number
    assert "number" not in (await gate.call("GET", f"/v1/requests/{request.id}")).json
    seen = await gate.call("GET", f"/v1/requests/{request.id}?reveal=true", token=ANN_TOKEN)
    assert seen.json["approvers"]["step_up"] == ["number"]
    listed = await gate.call("GET", "/v1/requests", token=ANN_TOKEN)
    for told in (seen.json, listed.json):
        assert '"number": "' not in json.dumps(told)
    bare = await gate.decided(request.id, confirmed=True)
    assert bare.problem == (422, "step_up_needed")
    wrong = await gate.decided(request.id, number=other_than(number))
    assert wrong.problem == (409, "wrong_number")
    done = await gate.decided(request.id, number=number)
    assert done.json["stepped"] == [{"way": "number"}]
    assert "number" not in (await gate.submitted(request)).json


async def test_what_nobody_waits_for_is_denied_as_it_arrives(gate: Replica) -> None:
    """Nobody would see its number."""
    await in_force(gate)
    answer = await gate.submitted(made(risk=HIGH), detached=True)
    assert (answer.status, answer.json["status"]) == (201, "denied")
    assert "nobody waits" in answer.json["decision"]["message"]
