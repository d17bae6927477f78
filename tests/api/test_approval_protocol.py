"""The Agent Approval Protocol: what its published clients rely on, over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from gateway.domain.policy_document import Budget, Mode, PolicyDocument, Route
from gateway.domain.records import Person
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import OverBudget
from gateway.models import RiskLevel
from gateway.server.app import run_gateway
from gateway.server.settings import Settings
from gateway.stores.credentials import RedisCredentials
from tests.api.replica import ANN_TOKEN, OTHER_TOKEN, Answer, Replica, replica, until

CALL: dict[str, Any] = {
    "tool": "issue_refund",
    "arguments": {"payment_id": "payment_123", "amount": 4900.0, "currency": "GBP"},
    "timeout": "30m",
    "agent_reasoning": "The customer was charged twice.",
    "context": {"session_id": "session_456", "call_id": "run:1", "resume": {"framework": "x"}},
}
KEY = {"Idempotency-Key": "any words: of the client's, as it likes"}


async def create(gate: Replica, body: Any = CALL, key: Any = None, **more: Any) -> Answer:
    """Ask in the protocol's way."""
    return await gate.call("POST", "/aap/v1/requests", body, headers=key or KEY, **more)


async def act(gate: Replica, method: str, created: Answer, path: str = "", **more: Any) -> Answer:
    """Call an operation on a request."""
    return await gate.call(method, f"/aap/v1/requests/{created.json['id']}{path}", **more)


def refusal(answer: Answer) -> tuple[int, str, str]:
    """Return status, type and code of an error, which has the protocol's form."""
    error = answer.json["error"]
    assert set(error) == {"type", "code", "message", "request_id"}
    assert error["request_id"] == answer.headers["X-Request-ID"]
    return answer.status, error["type"], error["code"]


async def approve(gate: Replica, created: Answer, action: str = "approve", **more: Any) -> None:
    """Have Ann answer."""
    answer = await gate.decided(UUID(created.json["id"]).hex, action, **more)
    assert answer.status == 200, answer.text


async def test_a_submission_is_told_as_it_came(gate: Replica) -> None:
    """Every member that was sent comes back, beside id, state and two moments; people see the same
    tool and arguments, what the client says in its own words stands as such."""
    created = await create(gate)
    assert created.status == 201
    told = dict(created.json)
    record = await gate.store.load(UUID(told.pop("id")).hex)
    assert record is not None
    assert told.pop("status") == "pending"
    assert told.pop("created_at") < told.pop("deadline_at")
    assert told == CALL
    request = record.request
    assert (request.tool, request.arguments) == (CALL["tool"], CALL["arguments"])
    assert (request.session, request.timeout) == ("session_456", 1800.0)
    assert request.hint == CALL["agent_reasoning"]
    assert request.preview is not None and request.preview.text == '{"session_id":"session_456"}'
    assert request.origin.framework == "agent-approval-protocol"


async def test_a_repeated_call_finds_its_request(gate: Replica) -> None:
    """Same key, same content: one request, also when it has ended; other content is a conflict,
    whichever member differs, and the first stays as it was."""
    created = await create(gate)
    again = await create(gate, {**CALL, "arguments": {**CALL["arguments"], "amount": 4900}})
    assert (again.status, again.json) == (200, created.json)
    for name, value in (
        ("timeout", "31m"), ("agent_reasoning", "Another."), ("tool", "pay"), ("server", "bank"),
        ("arguments", {}), ("context", {"session_id": "session_456"}),
    ):  # fmt: skip
        other = await create(gate, {**CALL, name: value})
        assert refusal(other) == (409, "conflict", "idempotency_conflict"), name
    await approve(gate, created)
    ended = await create(gate)
    assert (ended.status, ended.json["status"]) == (200, "approved")
    assert (await create(gate, key={"Idempotency-Key": "b"})).json["id"] != created.json["id"]
    foreign = await create(gate, token=OTHER_TOKEN)
    assert (foreign.status, foreign.json["id"] != created.json["id"]) == (201, True)


async def test_an_approval_is_handed_out_once(gate: Replica) -> None:
    """To one key, which may ask again; a second key is told, and nothing changes."""
    created = await create(gate)
    early = await act(gate, "POST", created, "/consume", headers={"Idempotency-Key": "one"})
    assert refusal(early) == (409, "conflict", "not_approved")
    await approve(gate, created)
    seen = await act(gate, "GET", created)
    decision = seen.json["decision"]
    assert decision["status"] == "approved"
    assert decision["decided_at"] < decision["expires_at"]
    assert "consumption" not in seen.json
    one, two = await asyncio.gather(
        *(
            act(gate, "POST", created, "/consume", headers={"Idempotency-Key": key})
            for key in ("one", "two")
        )
    )
    won, lost = (one, two) if one.status == 200 else (two, one)
    assert refusal(lost) == (409, "conflict", "already_consumed")
    key = "one" if won is one else "two"
    again = await act(gate, "POST", created, "/consume", headers={"Idempotency-Key": key})
    assert again.json == won.json == (await act(gate, "GET", created)).json
    assert won.json["decision"] == decision
    assert won.json["consumption"]["consumed_at"] >= decision["decided_at"]


async def test_the_outcome_is_noted_once(gate: Replica) -> None:
    """After the approval was handed out; the same again is fine, another one a conflict; people
    see it as the agent's word."""
    created = await create(gate)
    await approve(gate, created)
    outcome = {"status": "failed", "note": "the card was declined"}
    early = await act(gate, "POST", created, "/outcome", body=outcome)
    assert refusal(early) == (409, "conflict", "not_consumed")
    await act(gate, "POST", created, "/consume", headers=KEY)
    noted = await act(gate, "POST", created, "/outcome", body=outcome)
    assert noted.json["consumption"]["outcome"].items() >= outcome.items()
    assert (await act(gate, "POST", created, "/outcome", body=outcome)).json == noted.json
    other = await act(gate, "POST", created, "/outcome", body={"status": "succeeded"})
    assert refusal(other) == (409, "conflict", "outcome_conflict")
    record = await gate.store.load(UUID(created.json["id"]).hex)
    assert record is not None and record.report is not None
    assert (record.report.execution, record.report.detail) == ("failed", "the card was declined")
    consumed = await act(gate, "POST", created, "/consume", headers=KEY)
    assert consumed.status == 200, "the key that has it may ask again"


async def test_every_end_is_told_apart(gate: Replica) -> None:
    """Denied with the person's words, cancelled, which stays so, and no other end after one."""
    denied = await create(gate, key={"Idempotency-Key": "denied"})
    await approve(gate, denied, "deny", message="wrong account")
    told = (await act(gate, "GET", denied)).json
    assert (told["status"], told["decision"]["note"]) == ("denied", "wrong account")
    assert "expires_at" not in told["decision"]
    late = await act(gate, "DELETE", denied)
    assert refusal(late) == (409, "conflict", "already_terminal")
    gone = await create(gate, key={"Idempotency-Key": "gone"})
    for _ in range(2):
        cancelled = await act(gate, "DELETE", gone)
        assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
        assert cancelled.json["decision"]["status"] == "cancelled"
    short = await create(gate, {**CALL, "timeout": "1s"}, key={"Idempotency-Key": "short"})
    waited = await act(gate, "GET", short, "?wait=30s")
    if waited.json["status"] == "pending":  # its deadline came, and the sweeper runs elsewhere
        await gate.approvals.expire(UUID(short.json["id"]).hex)
        waited = await act(gate, "GET", short)
    assert waited.json["status"] == "expired"
    refused = await act(gate, "POST", short, "/consume", headers=KEY)
    assert refusal(refused) == (409, "conflict", "not_approved")


async def test_a_rule_is_no_person(gate: Replica) -> None:
    """A client that is denied by the mode of a route reads who denied."""
    closed = PolicyDocument(
        generation=1, people=(Person(name="ann"),), routes=(Route(mode=Mode.AUTO_DENY),)
    )
    await gate.store.apply(closed, by="test")
    created = await create(gate)
    assert created.json["status"] == "denied"
    assert "no person was asked" in created.json["decision"]["note"]


async def test_a_long_poll_ends_with_the_decision(gate: Replica) -> None:
    """Not before, and at once."""
    created = await create(gate)
    poll = asyncio.create_task(act(gate, "GET", created, "?wait=30s"))
    await until(lambda: gate.hanging)
    await approve(gate, created)
    answer = await poll
    assert answer.json["status"] == "approved"
    assert (await act(gate, "GET", created, "?wait=9h")).json == answer.json


async def test_the_kill_switch_holds(gate: Replica) -> None:
    """What was approved before it is not handed out while it is on."""
    created = await create(gate)
    await approve(gate, created)
    await gate.store.set_stopped(True, by="test")
    answer = await act(gate, "POST", created, "/consume", headers=KEY)
    assert refusal(answer) == (409, "conflict", "stopped")
    assert (await create(gate, key={"Idempotency-Key": "new"})).json["status"] == "denied"


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/nothing", 404, None),
        ("POST", "/v1/requests/1/approve", 404, None),
        ("PUT", "/v1/requests", 405, "POST"),
        ("PATCH", "/v1/requests/1", 405, "DELETE, GET"),
        ("GET", "/v1/requests/1/consume", 405, "POST"),
    ],
)
async def test_what_the_protocol_does_not_have_is_refused_in_its_form(
    gate: Replica, method: str, path: str, status: int, allow: str | None
) -> None:
    """As its clients read every other error."""
    answer = await gate.call(method, f"/aap{path}")
    assert refusal(answer)[0] == status
    assert answer.headers.get("Allow") == allow


async def test_a_large_integer_is_named(gate: Replica) -> None:
    """The client's author reads what to send instead."""
    answer = await create(gate, {**CALL, "arguments": {"id": 2**60}})
    assert refusal(answer) == (400, "invalid_request", "invalid_request")
    assert "the integer 1152921504606846976 is beyond 2^53 - 1" in answer.text
    assert "send the number as a string" in answer.text


async def test_others_know_nothing_of_a_request(gate: Replica) -> None:
    """Another instance, a malformed and an unknown id: all the same 404."""
    created = await create(gate)
    unknown = [
        await act(gate, method, created, path, token=OTHER_TOKEN, headers=KEY, body=body)
        for method, path, body in (
            ("GET", "", None), ("DELETE", "", None), ("POST", "/consume", None),
            ("POST", "/outcome", {"status": "failed"}),
        )
    ]  # fmt: skip
    for path in ("x", "0" * 32):
        unknown.append(await gate.call("GET", f"/aap/v1/requests/{path}"))
    assert {refusal(one) for one in unknown} == {(404, "not_found", "not_found")}
    assert (await act(gate, "GET", created)).json["status"] == "pending"


async def test_what_was_asked_in_another_way_is_out_of_reach(gate: Replica) -> None:
    """The agent's own request of our API is neither told, withdrawn, handed out nor reported on."""
    waiting, approved = await gate.submitted(), await gate.submitted()
    assert (await gate.decided(approved.json["id"])).status == 200
    before = [await gate.store.load(one.json["id"]) for one in (waiting, approved)]
    unknown = [
        await act(gate, method, one, path, headers=KEY, body=body)
        for one in (waiting, approved)
        for method, path, body in (
            ("GET", "", None), ("DELETE", "", None), ("POST", "/consume", None),
            ("POST", "/outcome", {"status": "failed"}),
        )
    ]  # fmt: skip
    assert {refusal(one) for one in unknown} == {(404, "not_found", "not_found")}
    after = [await gate.store.load(one.json["id"]) for one in (waiting, approved)]
    assert after == before


async def test_what_is_refused_is_soon_forgotten(gate: Replica) -> None:
    """Else an agent over its budget would fill the store; a repeated call of what was taken in
    keeps it, whatever becomes of the call."""
    await gate.put(budgets=(Budget(waiting=1),))
    created = await create(gate)
    for number in range(3):
        refused = await create(gate, key={"Idempotency-Key": str(number)})
        assert refusal(refused)[:2] == (429, "rate_limit")
    assert (await create(gate)).json == created.json == (await act(gate, "GET", created)).json
    notes = gate.store.keys.of("aap", "request", "*")
    kept = [await gate.store.redis.ttl(one) async for one in gate.store.redis.scan_iter(notes)]
    assert [seconds <= 3600 for seconds in sorted(kept)] == [True, True, True, False]


async def test_a_call_that_is_refused_forgets_nothing_of_one_beside_it(
    gate: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent twice at once, and there is room for the second only: what that asked is known."""
    taken: list[Any] = []
    submit = gate.core.approvals.submit

    async def refuse_first(*given: Any, **more: Any) -> Any:
        if taken:
            return await submit(*given, **more)
        taken.append(None)
        taken.append(await create(gate))
        raise OverBudget("too much of this agent waits")

    monkeypatch.setattr(gate.core.approvals, "submit", refuse_first)
    assert (await create(gate)).status == 429
    assert (await act(gate, "GET", taken[1])).json == taken[1].json


@pytest.mark.parametrize(
    "change",
    [
        {"tool": None}, {"tool": 3}, {"tool": "a\nb"}, {"arguments": []}, {"timeout": "0m"},
        {"timeout": "soon"}, {"timeout": "99999999h"}, {"context": "x"}, {"server": "a__b"},
        {"server": "a_"}, {"server": ""}, {"more": 1}, {"arguments": {"n": 2**60}},
    ],
)  # fmt: skip
async def test_what_breaks_the_contract_is_refused(gate: Replica, change: Any) -> None:
    """Unknown members, wrong types, impossible durations, a server that reads as another's tool."""
    answer = await create(gate, {**CALL, **change})
    assert refusal(answer)[:2] == (400, "invalid_request")
    assert await gate.store.count_pending() == 0


async def test_keys_and_credentials_are_needed(gate: Replica) -> None:
    """Without them nothing is asked; approvers ask nothing, agents provision nothing."""
    without = await gate.call("POST", "/aap/v1/requests", CALL)
    assert refusal(without) == (400, "invalid_request", "missing_idempotency_key")
    nobody = await create(gate, token="agw_0000_x")
    assert refusal(nobody) == (401, "authentication", "invalid_credential")
    counted = await gate.call("GET", "/metrics", token=None)
    assert "gateway_auth_failures_total 1.0" in counted.text
    approver = await create(gate, token=ANN_TOKEN)
    assert refusal(approver) == (403, "authorization", "not_allowed")
    agent = await gate.call("POST", "/aap/v1/instances", {}, headers=KEY)
    assert refusal(agent) == (403, "authorization", "not_allowed")
    no_admin = await gate.call("POST", "/aap/v1/instances", {}, token=ANN_TOKEN, headers=KEY)
    assert refusal(no_admin) == (403, "authorization", "not_allowed")
    assert await gate.store.count_pending() == 0


async def test_a_high_risk_rule_sees_the_server(gate: Replica) -> None:
    """Tools of a server go by the name that rules know them by."""
    created = await create(gate, {**CALL, "server": "bank"})
    record = await gate.store.load(UUID(created.json["id"]).hex)
    assert record is not None
    assert record.request.tool == "mcp__bank__issue_refund"
    assert created.json["server"] == "bank"
    assert record.risk.level is not RiskLevel.HIGH


@pytest.mark.parametrize(
    ("days", "served"), [(7.9, False), (8, True)], ids=["too short", "long enough"]
)
async def test_who_forgets_within_the_week_does_not_serve_it(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    server_url: str,
    namespace: str,
    *,
    days: float,
    served: bool,
) -> None:
    """Its clients read requests for a week after the end: where they are gone before, the door is
    shut, and the log says which setting shut it."""
    monkeypatch.setenv("REDIS_URL", server_url)
    settings = Settings(
        namespace=namespace, data_dir=tmp_path, port=0, adapters=(), retention_days=days
    )
    async with run_gateway(settings) as gateway, ClientSession() as http:
        token = (await gateway.backend.credentials.add_agent("bot")).token
        headers = {"Authorization": f"Bearer {token}", **KEY}
        async with http.post(f"{gateway.url}/aap/v1/requests", json=CALL, headers=headers) as said:
            assert said.status == (201 if served else 404)
        assert await gateway.backend.store.count_pending() == served
    assert ("GATEWAY_RETENTION_DAYS is 7.9" in caplog.text) is not served


@pytest_asyncio.fixture
async def registry(server_url: str, namespace: str) -> AsyncIterator[tuple[Replica, str]]:
    """A replica with real credentials, and an admin's token."""
    async with replica(server_url, namespace, registered=True) as one:
        await one.store.apply(PolicyDocument(routes=(Route(),)), by="test")
        credentials = RedisCredentials(one.store, SystemClock())
        admin = await credentials.add_approver("ops", admin=True)
        yield one, admin.token


async def provision(gate: Replica, token: str, body: Any, key: str = "k") -> Answer:
    """Make an instance."""
    return await gate.call(
        "POST", "/aap/v1/instances", body, token=token, headers={"Idempotency-Key": key}
    )


async def test_an_instance_is_made_once_and_asks(registry: tuple[Replica, str]) -> None:
    """The same key returns the same credential, which nothing keeps; with it the instance asks."""
    gate, admin = registry
    made = await provision(gate, admin, {"instance_name": "codex on a laptop"})
    assert made.status == 201
    again = await provision(gate, admin, {"instance_name": "codex on a laptop"})
    assert (again.status, again.json) == (200, made.json)
    token = made.json["credential"]["token"]
    kept = await gate.store.redis.hgetall(gate.store.keys.of("aap", "instances"))
    assert token not in str(kept)
    assert (await create(gate, token=token)).status == 201
    other = await provision(gate, admin, {"instance_name": "another"})
    assert refusal(other) == (409, "conflict", "idempotency_conflict")
    path = f"/aap/v1/instances/{made.json['instance']['id']}"
    assert (await gate.call("GET", path, token=admin)).json == made.json["instance"]
    delivery = await provision(gate, admin, {"delivery": {"type": "socket"}}, "d")
    assert refusal(delivery) == (400, "invalid_request", "unsupported_delivery_type")


async def test_a_deleted_instance_stays_deleted(registry: tuple[Replica, str]) -> None:
    """Its credential is refused, what it waited for is cancelled, and no call makes it anew."""
    gate, admin = registry
    made = await provision(gate, admin, {})
    token = made.json["credential"]["token"]
    waiting = await create(gate, token=token)
    path = f"/aap/v1/instances/{made.json['instance']['id']}"
    for _ in range(2):
        assert (await gate.call("DELETE", path, token=admin)).status == 204
    record = await gate.store.load(UUID(waiting.json["id"]).hex)
    assert record is not None and record.status == "cancelled"
    assert refusal(await create(gate, token=token))[0] == 401
    assert refusal(await provision(gate, admin, {})) == (409, "conflict", "instance_deleted")
    assert refusal(await create(gate, token=token))[0] == 401
    assert refusal(await gate.call("GET", path, token=admin))[0] == 404
    unknown = await gate.call("DELETE", f"/aap/v1/instances/{UUID(int=1)}", token=admin)
    assert refusal(unknown) == (404, "not_found", "not_found")
