"""An approval that its agent never took: the audit and the card say so, once, and only then."""

from __future__ import annotations

import asyncio
import sys

import pytest

from gateway.cards.card import card_of
from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import Query, StoredRequest
from gateway.errors import Conflict, InvalidRequest
from gateway.models import Execution, Report, Status
from tests.api.replica import AGENT_TOKEN, Replica, made
from tests.waiting import moment
from tests.world import AGENT, PROCESS, World, assembled, click, over_http, policy, request


async def approved(
    world: World, process: str | None = PROCESS, *, gone: bool = False
) -> StoredRequest:
    """Return an approved request of a process, which may be gone, or of none."""
    record, _ = await world.approvals.submit(request(), over_http(process))
    if gone:
        await world.store.redis.zadd(world.store.keys.processes, {f"{AGENT} {PROCESS}": 0})
        await world.store.expire_process(AGENT, PROCESS)
        record = await world.core.requests.get(record.id)
    return await world.core.requests.decide(click(record))


async def pass_deadline(world: World, record: StoredRequest) -> None:
    """Let the time of a request be over, for the clock only where it is still to be looked at."""
    past = world.clock.now_ms() - 1
    await world.store.redis.hset(world.store.keys.record(record.id), "deadline", past)
    await world.store.redis.zadd(world.store.keys.deadlines, {record.id: past}, xx=True)


async def told(world: World, record: StoredRequest) -> list[str]:
    """Return the types of the events of a request, once two replicas have looked at the time."""
    await pass_deadline(world, record)
    await asyncio.gather(world.sweeper.sweep(), world.sweeper.sweep())
    await world.sweeper.sweep()
    return [event.type for event in await world.events(record.id)]


@pytest.mark.parametrize(("process", "gone"), [(None, False), (PROCESS, True)])
async def test_what_nobody_took_is_told_once(world: World, process: str | None, gone: bool) -> None:
    """Whether nobody waited from the beginning, or the one who waited was gone."""
    record = await approved(world, process, gone=gone)
    assert record.state_for(process).decision is None
    types = await told(world, record)
    assert types.count("never_fetched") == 1
    final = await world.core.requests.get(record.id)
    assert final.report == Report(execution=Execution.NEVER_FETCHED)
    card = card_of(final, lines=20, chars=2000)
    assert card.result is not None
    assert card.result.text == "The agent never claimed the approval and can no longer use it"
    assert not (await world.store.due(idle_ms=10**9, limit=9)).expired


async def test_it_can_be_taken_no_more_and_no_report_changes_it(world: World) -> None:
    """What was told stays true."""
    record = await approved(world, None)
    await told(world, record)
    with pytest.raises(Conflict):
        await world.approvals.consume(record.id, over_http())
    after = await world.approvals.report(
        record.id, Report(execution=Execution.SUCCEEDED), over_http()
    )
    assert after.report == Report(execution=Execution.NEVER_FETCHED)


async def test_what_was_taken_or_answered_for_is_not_told_so(world: World) -> None:
    """Handed to the one who waits, taken later, or refused by its agent; and what was denied."""
    waiting = await approved(world)
    later, refused = await approved(world, None), await approved(world, None)
    back = await approved(world, PROCESS, gone=True)
    assert (await world.approvals.consume(later.id, over_http())).decision is not None
    state = await world.approvals.consume(back.id, over_http())
    assert (state.decision is not None, state.may_have_run) == (True, False)
    late = Report(execution=Execution.REFUSED_LATE)
    await world.approvals.report(refused.id, late, over_http(None))
    for record in (waiting, later, back, refused):
        assert "never_fetched" not in await told(world, record)


async def test_a_rules_approval_is_told_too(world: World) -> None:
    """It was approved at birth, and nobody waited."""
    await policy(world.store, Route(mode=Mode.AUTO_APPROVE, timeout=60))
    record, _ = await world.approvals.submit(request(), over_http(None))
    assert record.status is Status.APPROVED
    assert "never_fetched" in await told(world, record)


async def test_a_gateway_that_starts_later_tells_it(server_url: str, namespace: str) -> None:
    """What is to be looked at outlives the gateway."""
    async with assembled(server_url, namespace) as world:
        record = await approved(world, None)
    async with assembled(server_url, namespace) as world:
        assert "never_fetched" in await told(world, record)


async def test_no_agent_reports_it_over_http(gate: Replica) -> None:
    """It is the gateway's word."""
    record = made()
    await gate.submitted(record)
    await gate.decided(record.id)
    body = {"report": {"execution": "never_fetched"}}
    said = await gate.call("POST", f"/v1/requests/{record.id}/report", body)
    assert said.problem == (422, "invalid_request")


async def test_no_agent_reports_it_over_redis(world: World) -> None:
    """It is the gateway's word there, too."""
    asked = await approved(world)
    await world.send("report", {"id": asked.id, "report": {"execution": "never_fetched"}})
    await world.handled()
    assert (await world.reply())["error"]["code"] == InvalidRequest.code
    assert (await world.core.requests.get(asked.id)).report is None


async def test_the_command_takes_what_was_approved_while_it_was_away(gate: Replica) -> None:
    """As after a laptop slept: nothing was handed to it, so it asks, and runs once."""
    words = ("-m", "gateway.client", "ask", "shell", "--", "echo", "x")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *words),
        env={"GATEWAY_URL": gate.url, "GATEWAY_TOKEN": AGENT_TOKEN, "GATEWAY_AGENT": "agent1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    while not (waiting := (await gate.core.requests.page(Query())).items) or not gate.hanging:
        await moment()
    assert waiting[0].process is not None
    await gate.lapse(waiting[0].process)
    assert (await gate.decided(waiting[0].id)).status == 200
    said, _ = await process.communicate()
    assert process.returncode == 0, said
    final = await gate.core.requests.get(waiting[0].id)
    assert len(final.consumers) == 1
