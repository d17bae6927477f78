"""An agent's own messages through the operator's hooks, over HTTP."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.store import MessageContext
from gateway.policy.hooks import Hook, HookHost
from gateway.server import app
from gateway.server.settings import Settings
from tests.api.replica import ANN_TOKEN, Replica
from tests.world import request

PUPPET = Path(__file__).parents[1] / "hooks" / "puppet.py"


async def test_without_hooks_everything_goes_on(gate: Replica) -> None:
    """Nobody objects; approvers have no business here, and other methods are not offered."""
    body: dict[str, Any] = {"method": "before_llm", "params": {"model": "m"}}
    assert (await gate.call("POST", "/v1/hooks", body)).json == {"action": "continue"}
    assert (await gate.call("POST", "/v1/hooks", body, token=ANN_TOKEN)).status == 403
    for method in ("approve_tool", "before_tool", "hello"):
        assert (await gate.call("POST", "/v1/hooks", {**body, "method": method})).status == 422


@pytest.mark.parametrize(
    ("method", "member", "changed"),
    [
        ("before_llm", "request", {"model": "small"}),
        ("after_llm", "response", {"response": {"content": "x"}}),
        ("after_tool", "result", {"result": {"for_llm": "x"}}),
    ],
)
async def test_hooks_change_a_message(method: str, member: str, changed: dict[str, Any]) -> None:
    """What comes back are the members to put in place of the agent's own."""
    hook = Hook(command=(sys.executable, str(PUPPET)), intercept=(method,))
    host = HookHost({"puppet": hook})
    body = changed.get(member, changed)
    orders = {"puppet": {method: {"action": "modify", member: body}}}
    async with host.running():
        assert await host.review_message(method, {"arguments": orders}) == ("modify", "", changed)


async def test_a_gateway_runs_the_hooks_of_its_file(tmp_path: Path) -> None:
    """Named in the settings, they judge requests; a broken file keeps the gateway from starting."""
    path = tmp_path / "hooks.toml"
    command = json.dumps([sys.executable, str(PUPPET)])
    path.write_text(f'[hooks.gate]\ncommand = {command}\nenv = {{ PUPPET = "gate" }}\n')
    settings = Settings(data_dir=tmp_path / "state", port=0, hooks_file=path)
    async with app.run_gateway(settings) as gateway:
        await gateway.backend.credentials.add_agent("bot")
        refuse = {"gate": {"approve_tool": {"approved": False, "reason": "no"}}}
        asked = request(arguments=refuse)
        origin = MessageContext(agent="bot")
        await gateway.core.approvals.submit(asked, origin)
        async with gateway.core.feed.watch(asked.id) as wait:
            while not (record := await gateway.core.approvals.own(asked.id, origin)).final:
                await wait(10)
        assert record.decision is not None
        assert record.decision.decided_by.name == "gate"
    path.write_text("[[[")
    with pytest.raises(Exception, match="cannot use the hooks file"):
        async with app.run_gateway(settings):
            pass
