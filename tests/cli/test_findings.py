"""What the guardrails find, at the command line and in what programs of approvers read."""

from __future__ import annotations

import json

from gateway.client.http_pool import HttpPool
from gateway.models import new_id
from tests.cli.shell import Shell
from tests.cli.test_answering import agent, ask, submit
from tests.danger import FOUND, PATH, QUOTED

__all__ = ["agent"]


def test_a_finding_is_listed_and_shown_and_read_by_programs(up: Shell, agent: HttpPool) -> None:
    """Before all that is the agent's; a harmless request has none, and agents read none."""
    removes = {"kind": "command", "tool": "shell", "arguments": {"command": "rm -rf build"}}
    found = submit(agent, new_id(), **removes)
    line = up.run("pending")
    assert 0 < line.index(FOUND) < line.index("sly")
    assert "⚠️ guardrail         removes folders whole, in command" in up.run("show", found)
    read = json.loads(up.run("show", "--json", found))
    assert read["findings"] == ["removes folders whole, in command"]
    assert "findings" not in agent.call("GET", f"/v1/requests/{found}")
    up.run("deny", found)
    harmless = ask(agent, new_id(), command="ls")
    assert "uardrail" not in up.run("pending") + up.run("show", harmless)


def test_a_hostile_path_is_inert_there(up: Shell, agent: HttpPool) -> None:
    """It begins no line, and stays within its quotation."""
    found = ask(agent, new_id(), "read_file", path=PATH)
    assert f"⚠️ {QUOTED}" in up.run("pending")
    assert len(up.run("pending").splitlines()) == 1
    shown = [one for one in up.run("show", found).splitlines() if ".ssh" in one and "⚠️" in one]
    assert shown == [f"{'⚠️ guardrail':20} {QUOTED.removeprefix('Guardrail: ')}"]


def test_a_demand_for_a_person_is_kept_and_shown(up: Shell) -> None:
    """By `gateway ask --human`, on the wire, and in what people read of it."""
    asked = json.loads(up.run("ask", "shell", "--human", "--no-wait", "--", "ls", code=6))
    read = json.loads(up.run("show", "--json", asked["id"]))
    assert read["request"]["human"] is True
    assert "a person must answer" in up.run("show", asked["id"])
