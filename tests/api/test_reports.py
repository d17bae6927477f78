"""The report over HTTP."""

from __future__ import annotations

from dataclasses import replace

from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, EVE_TOKEN, POLICY, Replica, made


async def test_admins_alone_see_how_people_decide(gate: Replica) -> None:
    """An admin gets the figures of a period; an approver, an agent and nobody get none."""
    await gate.submitted(request := made())
    await gate.decided(request.id)
    assert (await gate.call("GET", "/v1/report", token=ANN_TOKEN)).problem == (403, "unauthorized")
    admins = tuple(replace(person, admin=person.name == "eve") for person in POLICY.people)
    policy = replace(POLICY, people=admins, generation=(await gate.store.policy()).generation)
    await gate.store.apply(policy, by="test")
    found = await gate.call("GET", "/v1/report", token=EVE_TOKEN)
    assert [(one["name"], one["decisions"]) for one in found.json["approvers"]] == [("ann", 1)]
    assert [(one["name"], one["requests"]) for one in found.json["agents"]] == [("agent1", 1)]
    empty = await gate.call("GET", "/v1/report?since=1&until=2", token=EVE_TOKEN)
    assert empty.json["approvers"] == []
    for query in ("since=5&until=4", "since=0", "since=x", "days=3"):
        assert (await gate.call("GET", f"/v1/report?{query}", token=EVE_TOKEN)).status == 422
    assert (await gate.call("GET", "/v1/report", token=AGENT_TOKEN)).status == 403
    assert (await gate.call("GET", "/v1/report", token=None)).status == 401
