"""What a framework must do with each answer whose paused form alone goes on in another process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.domain.records import Query, Record
from tests.hosts.conftest import NO_GATEWAY
from tests.hosts.framework_suite import PAUSING, Agent, ElsewhereSuite, Ending, call
from tests.waiting import moment


class PausedSuite(ElsewhereSuite):
    """The answers that a paused run takes: each is given while no process of the agent runs."""

    block = PAUSING

    def change(self, agent: Agent, old: str, new: str) -> None:
        """Write something else into what is kept of a run."""
        kept = agent.folder / "paused.json"
        content = kept.read_text()
        assert old in content
        kept.write_text(content.replace(old, new))

    async def answered(self, agent: Agent, action: str, **more: Any) -> tuple[Ending, Record]:
        """Run one call until it waits, have Ann answer it, and go on in another process."""
        paused = await agent.run(PAUSING, call("a.txt"))
        assert (paused.end, paused.told, paused.deleted) == ("done", [], [])
        [record] = await agent.waiting(1)
        done = await agent.gate.decided(record.id, action, **more)
        assert done.status == 200, done.json
        return await agent.run(PAUSING), record

    async def test_a_call_that_nobody_answers_does_not_run(self, agent: Agent) -> None:
        """The model is told that nobody did, not that somebody said no."""
        policy = await agent.gate.store.policy()
        brief = tuple(replace(one, timeout=1.0) for one in policy.routes)
        await agent.gate.store.apply(replace(policy, routes=brief), by="test")
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.waiting(1)
        while (await agent.gate.core.requests.page(Query())).items:  # the sweeper runs elsewhere
            await agent.gate.approvals.expire(record.id)
            await moment()
        ending = await agent.run(PAUSING)
        assert (ending.end, ending.deleted) == ("done", [])
        assert "was not run: nobody answered in time" in ending.told[0]

    async def test_a_cancelled_call_does_not_run(self, agent: Agent) -> None:
        """The model is told that it was withdrawn."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.waiting(1)
        path = f"/v1/requests/{record.id}/cancel"
        cancelled = await agent.gate.call("POST", path, {"reason": "resolved_elsewhere"})
        assert cancelled.status == 200
        ending = await agent.run(PAUSING)
        assert (ending.end, ending.deleted) == ("done", [])
        assert "was not run: cancelled" in ending.told[0]

    async def test_without_a_gateway_nothing_runs(self, agent: Agent) -> None:
        """The run stays paused, and asks once there is one."""
        ending = await agent.run(PAUSING, call("a.txt"), **NO_GATEWAY)
        assert (ending.end, ending.told, ending.deleted) == ("done", [], [])
        await agent.run(PAUSING)
        [record] = await agent.waiting(1)
        assert record.request.arguments == {"path": "a.txt"}

    async def test_a_state_that_was_changed_is_asked_anew(self, agent: Agent) -> None:
        """What was kept decides nothing: an approval is that of the call that people saw."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.waiting(1)
        assert (await agent.gate.decided(record.id)).status == 200
        self.change(agent, "a.txt", "b.txt")
        assert (await agent.run(PAUSING)).deleted == []
        [other] = await agent.waiting(1)
        assert other.request.arguments == {"path": "b.txt"}

    async def test_a_process_that_dies_in_the_tool_is_not_repeated(self, agent: Agent) -> None:
        """The next one tells the model that the call may have run, and runs nothing."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.waiting(1)
        assert (await agent.gate.decided(record.id)).status == 200
        assert await agent.run_and_kill_within_the_tool(PAUSING) == ["a.txt"]
        (agent.folder / "a.txt").touch()
        ending = await agent.run(PAUSING)
        assert (ending.end, ending.deleted) == ("done", [])
        assert "may have run already" in ending.told[0]
