"""Remembered decisions over HTTP: agents have no way in, approvers see and end what is theirs."""

from __future__ import annotations

from typing import Any

from gateway.models import new_id
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, EVE_TOKEN, Replica, made

LOG: dict[str, Any] = {"kind": "command", "arguments": {"command": "git log -n 5"}}


async def remembered(gate: Replica, **how: object) -> str:
    """Approve a request and have it remembered; return the grant's id."""
    request = made(**LOG)
    await gate.submitted(request)
    answer = await gate.decided(request.id, remember=how)
    assert answer.status == 200, answer.text
    found = await gate.call("GET", "/v1/grants", token=ANN_TOKEN)
    return str(found.json["items"][0]["id"])


async def test_offers_reach_and_a_covered_request(gate: Replica) -> None:
    """An approver is told what may be remembered, how far it reaches, and then it works."""
    request = made(**LOG)
    await gate.submitted(request)
    offers = await gate.call("GET", f"/v1/requests/{request.id}/offers", token=ANN_TOKEN)
    assert offers.json["lifetimes"] == ["1h", "15m", "8h", "1d", "1w", "revoked"]
    words = [offer["words"] for offer in offers.json["approve"]]
    assert words[0] == 'exactly this: "git log -n 5"'
    assert "running the project's tests" in words[-1]
    wide = offers.json["approve"][-3]["id"]
    path = f"/v1/requests/{request.id}/reach?offer={wide}"
    reach = await gate.call("GET", path, token=ANN_TOKEN)
    assert reach.json["reach"]["covered"] == 0
    assert reach.json["words"] == ""  # which would be the same sentence under every scope
    decided = await gate.decided(request.id, remember={"offer": wide, "everywhere": True})
    assert decided.status == 200
    sibling = made(kind="command", arguments={"command": "git log --stat"})
    assert (await gate.submitted(sibling)).json["status"] == "approved"
    listed = (await gate.call("GET", "/v1/grants", token=EVE_TOKEN)).json["items"]
    assert [(one["made_by"], one["used"]) for one in listed] == [("ann", 1)]
    offers = await gate.call("GET", f"/v1/requests/{request.id}/offers", token=ANN_TOKEN)
    assert (offers.json.get("approve"), offers.json.get("deny")) == ([], [])


async def test_row_37_agents_can_neither_make_see_nor_end_grants(gate: Replica) -> None:
    """Every route about grants refuses an agent's token."""
    grant = await remembered(gate)
    request = made()
    await gate.submitted(request)
    for method, path, body in (
        ("GET", "/v1/grants", None),
        ("GET", f"/v1/grants/{grant}", None),
        ("POST", "/v1/grants", {}),
        ("POST", "/v1/grants/offers", {}),
        ("POST", f"/v1/grants/{grant}/revoke", {}),
        ("POST", "/v1/grants/revoke", {}),
        ("GET", f"/v1/requests/{request.id}/offers", None),
        ("GET", f"/v1/requests/{request.id}/reach", None),
    ):
        assert (await gate.call(method, path, body, token=AGENT_TOKEN)).status == 403, path
        assert (await gate.call(method, path, body, token=None)).status == 401, path


async def test_a_grant_is_revoked_at_once_and_only_by_those_concerned(gate: Replica) -> None:
    """After the answer nothing is covered any more; who may not is told so."""
    grant = await remembered(gate)
    path = f"/v1/grants/{grant}"
    assert (await gate.call("POST", f"{path}/revoke", {}, token=EVE_TOKEN)).status == 403
    assert (await gate.call("GET", path, token=ANN_TOKEN)).json["words"]
    revoked = await gate.call("POST", f"{path}/revoke", {}, token=ANN_TOKEN)
    assert revoked.json["id"] == grant
    assert (await gate.submitted(made(**LOG))).json["status"] == "pending"
    again = await gate.call("POST", f"{path}/revoke", {}, token=ANN_TOKEN)
    assert again.problem == (409, "conflict")
    assert "ended already: revoked, by" in again.json["detail"]
    assert (await gate.call("GET", path, token=ANN_TOKEN)).json["end"]["why"] == "revoked"
    for gone in (new_id(), "x", "0" * 31):
        call = gate.call("POST", f"/v1/grants/{gone}/revoke", {}, token=ANN_TOKEN)
        assert (await call).problem == (404, "not_found")


async def test_all_grants_of_an_agent_or_session_are_revoked(gate: Replica) -> None:
    """Only those that are meant, and that the caller may end."""
    grant = await remembered(gate)
    for body, ids in (({"agent": "agent2"}, []), ({"session": "s9"}, []), ({}, [grant])):
        found = await gate.call("POST", "/v1/grants/revoke", body, token=ANN_TOKEN)
        assert found.json["ids"] == ids


async def test_a_session_gets_a_pass(gate: Replica) -> None:
    """Of an approver, for the agent that is named, no longer than eight hours; not of an agent."""
    path = "/v1/sessions/default/pass?agent=agent1"
    body = {"what": "work", "hours": 2, "max_uses": 1}
    assert (await gate.call("POST", path, body, token=AGENT_TOKEN)).status == 403
    assert (await gate.call("POST", path, {**body, "hours": 9}, token=ANN_TOKEN)).status == 422
    bare = "/v1/sessions/default/pass"
    assert (await gate.call("POST", bare, body, token=ANN_TOKEN)).status == 422
    unknown = await gate.call("POST", path, body, token=ANN_TOKEN)
    assert unknown.status == 422
    assert "no open session" in unknown.json["detail"]
    begun = made(tool="begin")
    await gate.submitted(begun)
    await gate.decided(begun.id, "deny", nonce=new_id())
    made_pass = await gate.call("POST", path, body, token=ANN_TOKEN)
    assert made_pass.status == 201
    assert made_pass.json["words"].startswith("reading, searching")
    assert (await gate.submitted(made(**LOG))).json["status"] == "approved"
    assert (await gate.submitted(made(**LOG))).json["status"] == "pending"
