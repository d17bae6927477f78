"""What a framework must do with each answer whose paused form alone goes on in another process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.domain.records import Query, StoredRequest
from tests.hosts.conftest import NO_GATEWAY
from tests.hosts.framework_suite import PAUSING, Agent, Ending, KeptStateSuite, call
from tests.waiting import moment


class PausedSuite(KeptStateSuite):
    """The answers that a paused run takes: each is given while no process of the agent runs."""

    block = PAUSING

    async def run_answered(
        self, agent: Agent, action: str, **more: Any
    ) -> tuple[Ending, StoredRequest]:
        """Run one call until it waits, have Ann answer it, and go on in another process."""
        paused = await agent.run(PAUSING, call("a.txt"))
        assert (paused.end, paused.told, paused.deleted) == ("waits", [], [])
        [record] = await agent.wait_for_requests(1)
        done = await agent.gate.decided(record.id, action, **more)
        assert done.status == 200, done.json
        return await agent.run(PAUSING), record

    async def test_a_call_that_nobody_answers_does_not_run(self, agent: Agent) -> None:
        """The model is told that nobody did, not that somebody said no."""
        policy = await agent.gate.store.policy()
        brief = tuple(replace(one, timeout=1.0) for one in policy.routes)
        await agent.gate.store.apply(replace(policy, routes=brief), by="test")
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.wait_for_requests(1)
        while (await agent.gate.core.requests.page(Query())).items:  # the sweeper runs elsewhere
            await agent.gate.approvals.expire(record.id)
            await moment()
        ending = await agent.run(PAUSING)
        assert (ending.end, ending.deleted) == ("done", [])
        assert "was not run: nobody answered in time" in ending.told[0]

    async def test_a_cancelled_call_does_not_run(self, agent: Agent) -> None:
        """The model is told that it was withdrawn."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.wait_for_requests(1)
        path = f"/v1/requests/{record.id}/cancel"
        cancelled = await agent.gate.call("POST", path, {"reason": "resolved_elsewhere"})
        assert cancelled.status == 200
        ending = await agent.run(PAUSING)
        assert (ending.end, ending.deleted) == ("done", [])
        assert "was not run: cancelled" in ending.told[0]

    async def test_without_a_gateway_nothing_runs(self, agent: Agent) -> None:
        """The run stays paused, and asks once there is one."""
        ending = await agent.run(PAUSING, call("a.txt"), **NO_GATEWAY)
        assert (ending.end, ending.told, ending.deleted) == ("waits", [], [])
        await agent.run(PAUSING)
        [record] = await agent.wait_for_requests(1)
        assert record.request.arguments == {"path": "a.txt"}
