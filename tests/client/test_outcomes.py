"""Every way a request can end is told apart: in the SDK, over HTTP and on the command line."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any, NamedTuple

from gateway.client import Approval, AsyncClient
from gateway.client.http_transport import HttpTransport
from gateway.domain.records import SYSTEM, Query, RequestOutcome, StoredRequest
from gateway.errors import Aborted, Cancelled, Denied, Expired, NotApproved
from gateway.models import Action, DecidedBy, DeciderKind, Reason, Status
from tests.api.replica import AGENT_TOKEN, Replica

ANN = DecidedBy(kind=DeciderKind.PERSON, name="ann")
GRANT = DecidedBy(kind=DeciderKind.GRANT, name="g-7")
RULE = DecidedBy(kind=DeciderKind.RULE, name="no-force")
HOOK = DecidedBy(kind=DeciderKind.RULE, name="scanner")
NEVER = "the user"


class Row(NamedTuple):
    """One row: how it ends, what the SDK gives, the exit code, and what is said."""

    status: Status
    reason: Reason
    by: DecidedBy
    gives: type[Approval | NotApproved]
    code: int
    said: str
    abort: str | None = None


OUTCOMES = (
    Row(Status.APPROVED, Reason.PERSON, ANN, Approval, 0, "approved by ann"),
    Row(Status.APPROVED, Reason.GRANT, GRANT, Approval, 0, "by the grant g-7"),
    Row(Status.APPROVED, Reason.RULE, RULE, Approval, 0, '"no-force"; no person was asked'),
    Row(Status.APPROVED, Reason.HOOK, HOOK, Approval, 0, '"scanner"; no person was asked'),
    Row(Status.DENIED, Reason.PERSON, ANN, Denied, 1, "denied by ann"),
    Row(Status.DENIED, Reason.PERSON, ANN, Aborted, 1, "denied by ann", "turn"),
    Row(Status.DENIED, Reason.PERSON, ANN, Aborted, 1, "denied by ann", "agent"),
    Row(Status.DENIED, Reason.FEEDBACK, ANN, Denied, 1, "ann asks for another plan"),
    Row(Status.DENIED, Reason.GRANT, GRANT, Denied, 1, "by the grant g-7"),
    Row(Status.DENIED, Reason.RULE, RULE, Denied, 1, '"no-force"; no person was asked'),
    Row(Status.DENIED, Reason.HOOK, HOOK, Denied, 1, '"scanner"; no person was asked'),
    Row(Status.DENIED, Reason.UNDELIVERABLE, SYSTEM, Denied, 1, "could not be shown"),
    Row(Status.DENIED, Reason.STOPPED, SYSTEM, Denied, 1, "kill switch"),
    Row(Status.DENIED, Reason.WRONG_NUMBER, SYSTEM, Denied, 1, "wrong number"),
    Row(Status.DENIED, Reason.BREAKER, SYSTEM, Denied, 1, "denied without asking anybody"),
    Row(Status.EXPIRED, Reason.TIMEOUT, SYSTEM, Expired, 3, "nobody answered in time"),
    Row(Status.CANCELLED, Reason.CANCELLED_BY_AGENT, SYSTEM, Cancelled, 4, "by the agent"),
    Row(Status.CANCELLED, Reason.CANCELLED_BY_OPERATOR, SYSTEM, Cancelled, 4, "an operator"),
    Row(Status.CANCELLED, Reason.ABANDONED, SYSTEM, Cancelled, 4, "nobody waits"),
    Row(Status.CANCELLED, Reason.SUPERSEDED, SYSTEM, Cancelled, 4, "a newer request"),
    Row(Status.CANCELLED, Reason.RESOLVED_ELSEWHERE, SYSTEM, Cancelled, 4, "elsewhere"),
)


def test_the_table_is_whole() -> None:
    """Every reason and every final status stands in it, and no two rows look alike."""
    assert {row.reason for row in OUTCOMES} == set(Reason)
    assert {row.status for row in OUTCOMES} == set(Status) - {Status.PENDING}
    assert len({(row.status, row.reason, row.abort) for row in OUTCOMES}) == len(OUTCOMES)


async def test_the_sdk_and_http_tell_all_outcomes_apart(gate: Replica) -> None:
    """The exception's class, and on it status, reason, who and the words; JSON has the same."""
    transport = HttpTransport(gate.url, AGENT_TOKEN, "agent1")
    async with AsyncClient(transport) as client:
        asking = [asyncio.create_task(client.ask(f"row{n}", {})) for n in range(len(OUTCOMES))]
        records = await ended(gate)
        found = await asyncio.gather(*asking, return_exceptions=True)
        for row, result, record in zip(OUTCOMES, found, records, strict=True):
            assert type(result) is row.gives, row
            assert isinstance(result, Approval | NotApproved)
            decision = result.decision
            assert (decision.status, decision.reason) == (row.status, row.reason)
            assert (decision.decided_by, decision.abort) == (row.by, row.abort)
            assert row.said in decision.sentence()
            assert NEVER not in decision.sentence()
            path = f"/v1/requests/{record.id}?process={transport.process.token}"
            state = (await gate.call("GET", path)).json
            assert state["status"] == row.status
            assert state["decision"]["reason"] == row.reason
            assert state["decision"]["decided_by"] == {"kind": row.by.kind, "name": row.by.name}
            assert state["decision"].get("abort") == row.abort


async def test_the_command_line_tells_all_outcomes_apart(gate: Replica) -> None:
    """By its exit code, and in words on standard error."""
    asking = [asyncio.create_task(command(gate, f"row{n}")) for n in range(len(OUTCOMES))]
    await ended(gate)
    for row, (code, said) in zip(OUTCOMES, await asyncio.gather(*asking), strict=True):
        assert code == row.code, row
        assert row.said in said
        assert NEVER not in said


async def command(gate: Replica, tool: str) -> tuple[int | None, str]:
    """Run `gateway ask`; return its exit code and what it said."""
    env = {**os.environ, "GATEWAY_URL": gate.url, "GATEWAY_TOKEN": AGENT_TOKEN}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.cli", "ask", tool, "--agent", "agent1", "--", "true"),
        env=env,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    return process.returncode, said.decode()


async def ended(gate: Replica) -> list[StoredRequest]:
    """End each row's request as the row says, once all wait; return them in the rows' order."""
    waiting: dict[str, StoredRequest] = {}
    while len(waiting) < len(OUTCOMES):
        page = await gate.core.requests.page(Query(limit=200))
        waiting = {record.request.tool: record for record in page.items}
    records = [waiting[f"row{n}"] for n in range(len(OUTCOMES))]
    redis, keys = gate.store.redis, gate.store.keys
    usable = {"body": "{}", "expires": "", "max": "", "used": "0"}
    await redis.hset(keys.grant(GRANT.name), mapping=usable)
    for row, record in zip(OUTCOMES, records, strict=True):
        extra: dict[str, Any] = {"abort": row.abort}
        if row.status is Status.APPROVED:
            extra["action"] = Action.APPROVE
        ending = RequestOutcome(status=row.status, reason=row.reason, by=row.by, **extra)
        if row.status is Status.EXPIRED:
            await redis.hset(keys.record(record.id), "deadline", 1)
        assert await gate.core.writer.end(record.id, ending), row
    return records
