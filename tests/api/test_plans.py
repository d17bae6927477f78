"""Plans over HTTP: asked like any request, confirmed by who approves, listed by their lines."""

from __future__ import annotations

from typing import Any

from gateway.models import ApprovalRequest
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, EVE_TOKEN, Replica, made

LINE: dict[str, Any] = {"tool": "shell", "arguments": {"command": "make test"}, "times": 2}
MAIL: dict[str, Any] = {
    "tool": "send_email",
    "arguments": {"to": "ana@example.com"},
    "any_text": ["body"],
}


def plan(*lines: dict[str, Any]) -> ApprovalRequest:
    """Return a plan of these lines."""
    allowed = ("approve", "edit", "deny")
    return made(tool="plan", kind="calls", arguments={"calls": list(lines)}, allowed=allowed)


async def test_a_plan_is_asked_confirmed_and_used(gate: Replica) -> None:
    """By the person whom its lines' routes name, and nobody else."""
    asked = plan(LINE, MAIL)
    assert (await gate.submitted(asked)).json["status"] == "pending"
    refused = await gate.decided(asked.id)
    assert (refused.status, "read every line" in refused.json["detail"]) == (422, True)
    path = f"/v1/requests/{asked.id}/decide"
    click = {"action": "approve", "revision": 1, "nonce": "0" * 32, "confirmed": True}
    for token in (AGENT_TOKEN, EVE_TOKEN):
        assert (await gate.call("POST", path, click, token=token)).status == 403
    assert (await gate.call("POST", path, click, token=ANN_TOKEN)).status == 200
    for _ in range(2):
        call = made(tool="shell", arguments={"command": "make test"})
        assert (await gate.submitted(call)).json["status"] == "approved"
    over = made(tool="shell", arguments={"command": "make test"})
    assert (await gate.submitted(over)).json["status"] == "pending"
    (left,) = (await gate.call("GET", "/v1/grants", token=ANN_TOKEN)).json["items"]
    assert (left["line"], left["from_request"], left["max_uses"]) == (2, asked.id, 1)


async def test_lines_are_struck_by_an_edit(gate: Replica) -> None:
    """Which says what is left; any other change is refused."""
    asked = plan(LINE, MAIL)
    await gate.submitted(asked)
    more = {"arguments": {"calls": [{**LINE, "times": 3}, MAIL]}}
    refused = await gate.decided(asked.id, "edit", **more)
    assert refused.status == 422
    assert "only remove whole lines" in refused.json["detail"]
    assert (await gate.decided(asked.id, "edit", arguments={"calls": [MAIL]})).status == 200
    (left,) = (await gate.call("GET", "/v1/grants", token=ANN_TOKEN)).json["items"]
    assert left["match"]["tool"] == "send_email"


async def test_a_mistake_names_its_line_and_argument(gate: Replica) -> None:
    """So that an agent can repair it."""
    answer = await gate.submitted(plan(LINE, {**MAIL, "arguments": {}, "any_text": ["body", "to"]}))
    assert answer.problem == (422, "invalid_request")
    assert 'line 2, "send_email": "to" cannot be any text' in answer.json["detail"]
