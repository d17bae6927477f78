"""What `gateway explain` says is what happens."""

from __future__ import annotations

import json

from tests.cli.shell import Shell
from tests.cli.test_cli import first_pending

CALL = ("shell", "--", "echo", "hi")


def result(up: Shell, *words: str) -> str:
    """Return what explain says would become of a call of the local agent."""
    found: str = json.loads(up.run("explain", "--json", "local", *words))["result"]
    return found


def test_a_remembered_command_is_explained_as_it_is_decided(up: Shell) -> None:
    """The same command, folder and session count, as they do when it is asked."""
    asking = up.popen("ask", *CALL)
    up.run("approve", first_pending(up)["request"]["id"], "--remember")
    asking.communicate(timeout=30)
    assert asking.returncode == 0
    assert result(up, *CALL) == "allow by remembered allow"
    assert result(up, "shell", "--session", "default", *CALL[1:]) == "allow by remembered allow"
    up.run("ask", *CALL)
    for other in (("--session", "s2", *CALL), ("--cwd", "/", *CALL), ("shell", "--", "echo")):
        assert result(up, *other) == "people are asked"
    up.run("stop-all")
    assert result(up, *CALL) == "denied: the kill switch is on"


def test_it_says_what_it_took_for_granted(up: Shell) -> None:
    """An agent that does not exist is no error; what is no JSON is named."""
    told = up.run("explain", "nobody", "shell", "--cwd", "/srv")
    assert "there is no agent nobody" in told
    assert "kind tool, session default, in /srv" in told
    assert "--arguments:" in up.run("explain", "local", "shell", "--arguments", "rm", code=2)


def test_it_says_what_each_argument_is_and_what_was_found(up: Shell) -> None:
    """Address, role, who said it and what may differ; then findings, also those in shadow."""
    words = ("--arguments", '{"sudo": true, "x": {"y": 1}}', "shell", "--", "rm", "-rf", "x")
    told = up.run("explain", "local", *words)
    assert "argument command: command (said by " in told
    assert "may differ as far as a grant's rule permits" in told
    assert "argument sudo: rights (said by name), must stay the same" in told
    assert "argument x.y: unknown (said by nobody), must stay the same" in told
    assert "finding at command: removes folders whole" in told
    assert "finding at sudo: asks for more rights" in told
    assert "no opinion report-only: would deny: removes folders whole" in told


def test_it_says_what_kept_a_remembered_answer_from_covering(up: Shell) -> None:
    """The first difference of each approval of the tool; one that covers says so."""
    asking = up.popen("ask", "shell", "--", "git", "log", "-n", "5")
    request = first_pending(up)["request"]["id"]
    lines = up.run("grant", "offers", request, "--json")
    offers = json.loads(lines)["approve"]
    wide = next(one["id"] for one in offers if "with no flags but" in one["words"])
    up.run("approve", request, "--remember", wide)
    asking.communicate(timeout=30)
    assert "covers it" in up.run("explain", "local", "shell", "--", "git", "log", "-n", "9")
    other = up.run("explain", "local", "shell", "--", "git", "log", "--stat")
    assert 'does not cover this call: "command" runs something else' in other


def test_it_asks_the_gateway_whose_hooks_decide(up: Shell) -> None:
    """Not this process, which may have other hooks: without a gateway there is no answer, and a
    hooks file of the caller's changes nothing."""
    nothing = {"GATEWAY_HOOKS_FILE": "/nonexistent/hooks.toml"}
    found = json.loads(up.run("explain", "--json", "local", *CALL, env=nothing))
    assert found["result"] == "people are asked"
    assert up.call("explain", "local", *CALL, env={"GATEWAY_DATA_DIR": "/nonexistent"})[0] == 5
