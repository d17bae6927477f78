"""Secrets in what approvers read over HTTP: masked, unless one request is asked for unmasked."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.records import REVIEWS, Remember
from tests.api.replica import ANN_TOKEN, EVE_TOKEN, POLICY, Replica, made
from tests.world import click

SECRET = "hunt3r2-hunter2"
ASKED: dict[str, Any] = {
    "tool": f"curl password={SECRET}",
    "arguments": {"command": f"PASSWORD={SECRET} ls", "login": {"password": SECRET, "pages": 3}},
    "context": {"env": {"DB_PASSWORD": SECRET}},
    "hint": f"the password: {SECRET}",
    "allowed": ["approve", "edit", "deny"],
}

DATA = {**ASKED, "tool": "curl"}  # nothing that is masked in it could act


async def test_lists_looks_and_answers_carry_masks(gate: Replica) -> None:
    """Whether it waits or has ended, alone or together; what is no secret stays as it is."""
    request = made(**ASKED)
    await gate.submitted(request)
    path = f"/v1/requests/{request.id}"
    said = [await gate.call("GET", one, token=EVE_TOKEN) for one in ("/v1/requests", path)]
    request = made(**DATA)
    await gate.submitted(request)
    approved = await gate.decided(request.id, message=f"password={SECRET}")
    second = made(**DATA)
    await gate.submitted(second)
    body = {"action": "approve", "items": [{"id": second.id, "revision": 1}]}
    said += [approved, await gate.call("POST", "/v1/batches", body, token=ANN_TOKEN)]
    said.append(await gate.call("GET", "/v1/requests?final=true", token=ANN_TOKEN))
    assert [one.status for one in said] == [200] * 5
    assert [SECRET in one.text for one in said] == [False] * 5
    assert approved.json["arguments"]["login"]["pages"] == 3
    assert approved.json["request"]["digest"] == request.digest
    assert SECRET in (await gate.call("GET", "/v1/requests?final=true")).text  # the agent's own


async def test_who_may_decide_gets_one_in_the_clear_and_that_is_written_down(gate: Replica) -> None:
    """Nobody else does, also who was removed a moment ago; what hides nothing is no reveal."""
    request, plain = made(**ASKED), made()
    for one in (request, plain):
        await gate.submitted(one)
    path = f"/v1/requests/{request.id}?reveal=true"
    revealed = await gate.call("GET", path, token=ANN_TOKEN)
    assert revealed.json["arguments"] == ASKED["arguments"]
    for named in (plain.id, f"{plain.id}?reveal=true"):
        await gate.call("GET", f"/v1/requests/{named}", token=ANN_TOKEN)
    refused = await gate.call("GET", path, token=EVE_TOKEN)
    assert (refused.status, SECRET in refused.text) == (403, False)
    generation = await gate.store.generation()
    await gate.store.apply(replace(POLICY, generation=generation, routes=()), by="test")
    assert (await gate.call("GET", path, token=ANN_TOKEN)).status == 403
    events = await gate.store.history(None, 100)
    noted = [(one.type, one.data["request_id"]) for one in events if "why" in one.data]
    assert noted == [("refused", request.id)] * 2
    (event,) = [one for one in events if one.type == "revealed"]
    assert (event.agent, event.data) == ("agent1", {"request_id": request.id, "person": "ann"})


async def test_what_may_be_and_what_is_remembered_carries_masks(gate: Replica) -> None:
    """In words and in the rules of a pattern, where a rule's name tells; also to admins."""
    policy = await gate.store.policy()
    people = tuple(replace(one, admin=one.name == "ann") for one in policy.people)
    await gate.store.apply(replace(policy, people=people), by="test")
    asked = {"to": "kim@example.org", "threadid": "ghp_" + "a" * 36, "body": "some words " * 5}
    request = made(tool="send_mail", arguments=asked)
    await gate.submitted(request)
    path = f"/v1/requests/{request.id}/offers"
    said = [await gate.call("GET", path, token=EVE_TOKEN)]
    (offer,) = [one for one in said[0].json["approve"] if "with any body" in one["words"]]
    refused = await gate.decided(request.id, remember={"offer": offer["id"]})
    assert refused.status == 422, "what a mask hides is remembered where it was revealed"
    record = await gate.core.requests.get(request.id)
    await gate.core.requests.decide(
        click(record, remember=Remember(offer=offer["id"]), revealed=True)
    )
    said.append(await gate.call("GET", "/v1/grants", token=EVE_TOKEN))
    (grant,) = said[1].json["items"]
    said.append(await gate.call("GET", f"/v1/grants/{grant['id']}", token=EVE_TOKEN))
    like: dict[str, Any] = {"tool": "send_mail", "arguments": {**asked, "body": "b" * 60}}
    body = {"agent": "agent1", "effect": "allow", "example": like}
    said.append(await gate.call("POST", "/v1/grants/offers", body, token=ANN_TOKEN))
    (wide,) = [one for one in said[-1].json["offers"] if "with any body" in one["words"]]
    body["offer"] = wide["id"]
    said.append(await gate.call("POST", "/v1/grants", body, token=ANN_TOKEN))
    said.append(await gate.call("POST", f"/v1/grants/{grant['id']}/revoke", {}, token=ANN_TOKEN))
    assert [one.status for one in said] == [200, 200, 200, 200, 201, 200]
    for one in said:
        assert (SECRET in one.text, "ghp_" in one.text) == (False, False), one.text
        assert re.search("secret of (15|40) characters", one.text)
    kept = await gate.core.grants.get(grant["id"])
    values = {rule.name: rule.value for rule in kept.match.rules}
    same = {f"$.{name}": value for name, value in asked.items()}
    assert values == {**same, "$.body": None}  # and so it decides


@pytest.mark.parametrize("action", ["approve", "edit"])
async def test_what_a_mask_could_hide_is_not_approved_over_http(gate: Replica, action: str) -> None:
    """Alone or together, also after a reveal: the answer says where it is. No is possible."""
    request = made(arguments={"command": "env Basic evil/payload.sh"}, allowed=["approve", "edit"])
    await gate.submitted(request)
    await gate.call("GET", f"/v1/requests/{request.id}?reveal=true", token=ANN_TOKEN)
    more = {"arguments": {"command": "ls"}} if action == "edit" else {}
    refused = [await gate.decided(request.id, action=action, **more)]
    body = {"action": "approve", "items": [{"id": request.id, "revision": 1}]}
    refused.append(await gate.call("POST", "/v1/batches", body, token=ANN_TOKEN))
    assert [one.status for one in refused] == [422, 409]
    assert all("only in the inbox" in one.text for one in refused)
    assert (await gate.decided(request.id, action="deny")).json["status"] == "denied"


async def test_what_hooks_are_still_asked_about_is_nobodys_to_look_at(gate: Replica) -> None:
    """Neither itself, nor what could be remembered of it."""
    request = made(**ASKED)
    await gate.submitted(request)
    key = gate.store.keys.record(request.id)
    offered = [f"/v1/requests/{request.id}{path}" for path in ("", "/offers", "/reach")]
    seen = [(await gate.call("GET", path, token=ANN_TOKEN)).status for path in offered]
    await gate.store.redis.hset(key, "queues", REVIEWS)
    hidden = [(await gate.call("GET", path, token=ANN_TOKEN)).status for path in offered]
    assert (seen, hidden) == ([200] * 3, [404] * 3)
