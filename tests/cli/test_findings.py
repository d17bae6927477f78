"""What the guardrails find, at the command line and in what programs of approvers read."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.client.http_connection import HttpPool
from gateway.models import new_id
from tests.cli.shell import Shell
from tests.cli.test_answering import agent, ask, submit
from tests.danger import ALARM, FOUND, PATH, QUOTED, RAISED, UNSEEN

__all__ = ["agent"]


def test_a_finding_is_listed_and_shown_and_read_by_programs(up: Shell, agent: HttpPool) -> None:
    """Its sign before all that is the agent's, and it begins behind the risk, which is ours; a
    harmless request has none, and agents read none."""
    removes = {"kind": "command", "tool": "shell", "arguments": {"command": "rm -rf build"}}
    found = submit(agent, new_id(), **removes)
    line = up.run("pending")
    assert 0 < line.index("⚠️") < line.index("sly")
    assert line.splitlines()[2].startswith(f"     medium risk · {FOUND}")
    assert '⚠️ guardrail         removes folders whole (in "command")' in up.run("show", found)
    read = json.loads(up.run("show", "--json", found))
    assert read["findings"] == ['removes folders whole (in "command")']
    assert "findings" not in agent.call("GET", f"/v1/requests/{found}")
    up.run("deny", found)
    harmless = ask(agent, new_id(), command="ls")
    assert "uardrail" not in up.run("pending") + up.run("show", harmless)


def test_a_finding_in_force_is_red_and_raises_the_risk(
    up: Shell, agent: HttpPool, tmp_path: Path
) -> None:
    """In the list, in full, for programs and in `explain`; a rule in shadow is read nowhere but by
    the operator's `explain`."""
    path = tmp_path / "policy.toml"
    rule = f'[[rules]]\nname = "{UNSEEN}"\neffect = "deny"\ntools = ["*"]\nshadow = true\n'
    owner = '[[people]]\nname = "owner"\n[[routes]]\napprovers = ["owner"]\n'
    path.write_text('guardrails = "ask"\n' + rule + owner, encoding="utf-8")
    up.run("apply", str(path), "--yes")  # nobody is an admin of it
    removes = {"kind": "command", "tool": "shell", "arguments": {"command": "rm -rf build"}}
    found = submit(agent, new_id(), **removes)
    listed, shown = up.run("pending"), up.run("show", found)
    assert ALARM in listed
    assert "🔴 guardrail" in shown
    assert f'high "{RAISED}"' in shown
    read = json.loads(up.run("show", "--json", found))
    assert [one["by"] for one in read["raised"]] == ["the guardrails"]
    assert "raised" not in agent.call("GET", f"/v1/requests/{found}")
    assert UNSEEN not in listed + shown + json.dumps(read)
    assert UNSEEN not in str(agent.call("GET", f"/v1/requests/{found}"))
    up.run("explain", "sly", "shell", "--", "rm", "-rf", "build", code=9)  # not for all who approve
    admin = path.read_text(encoding="utf-8").replace('"owner"\n', '"owner"\nadmin = true\n', 1)
    path.write_text(admin, encoding="utf-8")
    up.run("apply", str(path))
    told = up.run("explain", "sly", "shell", "--", "rm", "-rf", "build")
    assert f"risk high: {RAISED}" in told
    assert UNSEEN in told


def test_a_hostile_path_is_inert_there(up: Shell, agent: HttpPool) -> None:
    """It begins no line, and stays within its quotation."""
    found = ask(agent, new_id(), "read_file", path=PATH)
    assert f"⚠️ {QUOTED}" in up.run("pending")
    assert len(up.run("pending").splitlines()) == 3
    shown = [one for one in up.run("show", found).splitlines() if ".ssh" in one and "⚠️" in one]
    assert shown == [f"{'⚠️ guardrail':20} {QUOTED.removeprefix('Guardrail: ')}"]


def test_a_demand_for_a_person_is_kept_and_shown(up: Shell) -> None:
    """By `gateway ask --human`, on the wire, and in what people read of it."""
    asked = json.loads(up.run("ask", "shell", "--human", "--no-wait", "--", "ls", code=6))
    read = json.loads(up.run("show", "--json", asked["id"]))
    assert read["request"]["human"] is True
    assert "a person must decide" in up.run("show", asked["id"])
