"""What hosts in other languages use over HTTP: prepared requests, approvals taken once, reading
back."""

from __future__ import annotations

import json

import pytest

from gateway.models import ApprovalRequest, digest_of
from gateway.wire.canonical_json import canonical
from gateway.wire.codec import build
from tests.api.replica import AGENT_TOKEN, OTHER_TOKEN, PROCESS, Replica, made


async def test_a_request_is_prepared_and_submitted_as_it_came(gate: Replica) -> None:
    """The gateway computes digest and id of a call; the client needs no canonical JSON."""
    draft = {"tool": "pay", "arguments": {"z": 1.0, "a": "ü"}, "call_id": "c1", "session": "s"}
    answers = [await gate.call("POST", "/v1/requests/prepare", {"request": draft}) for _ in "ab"]
    first, second = (answer.json for answer in answers)
    assert first == second
    assert json.loads(first["arguments"]) == first["request"]["arguments"]
    request = build(ApprovalRequest, first["request"])
    assert request.digest == digest_of(request)
    assert first["arguments"].encode() == canonical(request.arguments)
    body = {"request": first["request"], "process": PROCESS}
    told = [await gate.call("POST", "/v1/requests", body) for _ in "ab"]
    assert [one.status for one in told] == [201, 200]
    assert told[0].json["id"] == told[1].json["id"] == request.id


async def test_a_prepared_request_is_not_stored(gate: Replica) -> None:
    """Nobody is asked by preparing; each without a call is a new request."""
    draft = {"request": {"tool": "pay", "arguments": {}}}
    ids = [(await gate.call("POST", "/v1/requests/prepare", draft)).json for _ in "ab"]
    assert len({one["request"]["id"] for one in ids}) == 2
    assert (await gate.call("GET", "/v1/requests")).json["items"] == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"digest": "0" * 64}, (422, "invalid_request")),
        ({"agent": "agent2"}, (403, "unauthorized")),
        ({"arguments": {"n": 2**60}}, (422, "invalid_request")),
        ({"wrong": 1}, (422, "invalid_request")),
        ({"part": "2"}, (422, "invalid_request")),
        ({"id": "x"}, (422, "invalid_request")),
    ],
)
async def test_what_cannot_be_asked_is_not_prepared(
    gate: Replica, change: dict[str, object], problem: tuple[int, str]
) -> None:
    """Preparing refuses what submitting would refuse."""
    draft = {"tool": "pay", "arguments": {}, **change}
    answer = await gate.call("POST", "/v1/requests/prepare", {"request": draft})
    assert answer.problem == problem


async def test_an_approval_is_taken_once(gate: Replica) -> None:
    """With `once` a second process is refused, and the first one as soon as it reported."""
    request = made()
    await gate.submitted(request)
    assert (await gate.decided(request.id)).status == 200
    path = f"/v1/requests/{request.id}"
    mine = {"process": PROCESS, "once": True}
    for _ in "ab":  # a lost answer is asked for again
        assert (await gate.call("POST", f"{path}/consume", mine)).json["decision"]["action"]
    other = {"process": "another0001", "once": True}
    assert (await gate.call("POST", f"{path}/consume", other)).problem == (409, "approval_used")
    await gate.call("POST", f"{path}/report", {"report": {"execution": "started"}})
    assert (await gate.call("POST", f"{path}/consume", mine)).problem == (409, "approval_used")
    told = (await gate.call("GET", f"{path}?record=true")).json
    assert "decision" not in told
    assert told["record"]["request"]["arguments"] == request.arguments
    assert told["record"]["consumed"] == 1
    assert told["record"]["report"] == {"execution": "started"}
    assert told["record"]["decided_at"] >= told["record"]["created"]
    assert told["record"]["reason"] == "person"


async def test_only_its_agent_reads_a_request_back(gate: Replica) -> None:
    """Another agent gets what it gets for an unknown id, and reading takes no approval."""
    request = made()
    await gate.submitted(request, detached=True)
    assert (await gate.decided(request.id)).status == 200
    path = f"/v1/requests/{request.id}?record=true"
    refused = await gate.call("GET", path, token=OTHER_TOKEN)
    assert refused.problem == (404, "not_found")
    told = (await gate.call("GET", path, token=AGENT_TOKEN)).json
    assert (told["status"], told["record"].get("consumed", 0)) == ("approved", 0)
    assert "decision" not in told
