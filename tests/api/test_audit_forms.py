"""The audit in the forms of others: every request in its order, bound to its action, no secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.cli.audit import write_form
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, plain
from tests.api.replica import PROCESS, Replica, made

SECRET = "ghp_" + "a" * 36


async def lines_of(gate: Replica, form: str) -> list[JsonObject]:
    """Return what is written in a form."""
    return [json.loads(line) async for line in write_form(gate.store, form)]


async def tell_a_story(gate: Replica) -> dict[str, str]:
    """Have requests end in each way; return their ids."""
    ids = {}
    for name, action, more in (
        ("ran", "approve", {}),
        ("denied", "deny", {"message": "not now"}),
        ("edited", "edit", {"arguments": {"command": "ls -l"}}),
    ):
        request = made(
            arguments={"command": f"curl -H 'Authorization: Bearer {SECRET}' https://x.example"},
            allowed=["approve", "edit", "deny"],
            tool="run: it!" if name == "denied" else "shell",
        )
        ids[name] = request.id
        await gate.submitted(request)
        decided = await gate.decided(request.id, action, **more)
        assert decided.status == 200, decided.text
    for execution in ("started", "succeeded"):
        report = {"report": {"execution": execution}}
        await gate.call("POST", f"/v1/requests/{ids['ran']}/report", report)
    gone = made()
    ids["gone"] = gone.id
    await gate.submitted(gone)
    await gate.call("POST", f"/v1/requests/{gone.id}/cancel", {})
    waiting = made()
    ids["waits"] = waiting.id
    await gate.call("POST", "/v1/requests", {"request": plain(waiting), "process": PROCESS})
    return ids


async def test_envelopes_bind_each_answer_to_its_action(gate: Replica) -> None:
    """Numbered, in order: asked, decided by whom, resolved how; the digest is of the action shown,
    which names ours; an edit is another action, and no secret stands anywhere."""
    ids = await tell_a_story(gate)
    lines = await lines_of(gate, "interchange")
    assert [line["sequence"] for line in lines] == list(range(1, len(lines) + 1))
    assert SECRET not in json.dumps(lines)
    asked = {line["request"]["id"]: line["request"] for line in lines if "request" in line}
    for request in asked.values():
        digest = sha256_hex(canonical(request["action"]))
        assert request["action_digest"] == f"sha256:{digest}"
    assert asked[ids["ran"]]["action"]["presentation"]["redacted"]
    assert asked[f"{ids['edited']}.2"]["action"]["arguments"] == {"command": "ls -l"}

    def story(told_id: str) -> list[Any]:
        parts = [line.get("decision") or line.get("resolution") for line in lines]
        own = [one for one in parts if one and one["request_id"] == told_id]
        assert {one["action_digest"] for one in own} <= {asked[told_id]["action_digest"]}
        return [one.get("decision") or one["outcome"] for one in own]

    assert story(ids["ran"]) == ["approve", "approved"]
    assert story(ids["denied"]) == ["deny", "denied"]
    assert story(ids["gone"]) == ["cancelled"]
    assert story(ids["edited"]) == ["stale"]
    assert story(f"{ids['edited']}.2") == ["approve", "approved"]
    assert story(ids["waits"]) == []
    actors = {line["decision"]["actor"]["type"] for line in lines if "decision" in line}
    assert actors == {"human"}


async def test_a_trace_tells_what_ran_and_what_did_not(gate: Replica) -> None:
    """Proposed, presented, decided, executed once or blocked; it ends with its end."""
    ids = await tell_a_story(gate)
    lines = await lines_of(gate, "trace")
    assert SECRET not in json.dumps(lines)

    def story(told_id: str) -> list[str]:
        return [line["type"] for line in lines if line.get("action_id") == told_id]

    asked = ["action_proposed", "approval_requested", "approval_decision"]
    assert story(ids["ran"]) == [*asked, "action_executed"]
    assert story(ids["denied"]) == story(ids["gone"]) == [*asked, "action_blocked"]
    assert story(ids["edited"]) == [*asked, "action_blocked"]
    assert story(f"{ids['edited']}.2") == asked, "approved, and nothing was reported of it"
    assert story(ids["waits"]) == []
    assert lines[-1]["type"] == "session_end"
    assert {line["session_id"] for line in lines} == {"approval-gateway"}


async def test_what_was_erased_is_in_no_form(gate: Replica) -> None:
    """Its events stay in the audit; what was asked is gone."""
    ids = await tell_a_story(gate)
    await gate.approvals.erase(ids["denied"], by="test")
    for form in ("interchange", "trace"):
        assert ids["denied"] not in json.dumps(await lines_of(gate, form))


@pytest.mark.parametrize("form", ["interchange", "trace"])
async def test_nothing_happened(gate: Replica, form: str) -> None:
    """An audit without requests has no lines in either form."""
    assert await lines_of(gate, form) == []
