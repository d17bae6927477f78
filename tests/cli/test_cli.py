"""The command line, in processes of its own, against a running gateway."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from gateway.server import demo
from tests.cli.shell import Shell
from tests.cli.test_policy_file import running
from tests.frame.tree import ROOT


def first_pending(shell: Shell) -> Any:
    """Return the first request that waits, once there is one."""
    while not (found := shell.run("pending", "--json").splitlines()):
        continue
    return json.loads(found[0])


def until_refused(shell: Shell, env: dict[str, str]) -> None:
    """Ask until the token is refused: a gateway may know it for a second longer."""
    while (code := shell.call("ask", "x", "--no-wait", "--", "true", env=env)[0]) != 9:
        assert code == 6


def test_ask_and_approve(up: Shell) -> None:
    """A shell asks, a person approves what `pending` printed; the exit code is the answer."""
    asking = up.popen("ask", "shell", "--json", "--", "rm", "-rf", "my build")
    record = first_pending(up)
    assert record["request"]["arguments"] == {"command": "rm -rf 'my build'"}
    assert "rm -rf" in up.run("show", record["request"]["id"])
    up.run("approve", up.run("pending").split()[0])
    out, _ = asking.communicate(timeout=30)
    assert asking.returncode == 0
    assert json.loads(out)["decided_by"] == {"kind": "person", "name": "owner"}
    assert "approved" in up.run("history")
    assert "local" in up.run("sessions")


def test_masks_are_shown_as_they_are(up: Shell) -> None:
    """In lines about requests, offers and grants; and a token as a session's name is masked."""
    token = "ghp_" + "a1B2" * 9
    said = up.run("ask", "shell", "--session", token, "--no-wait", "--", "x", token, code=6)
    shown = [up.run("pending"), up.run("grant", "offers", json.loads(said.splitlines()[0])["id"])]
    assert all("⟨secret of 40 characters" in one and "U+27E8" not in one for one in shown)
    sessions = up.run("sessions")
    assert token[:12] not in sessions and "⟨secret of 40 characters" in sessions


def test_a_session_is_ended_by_name(up: Shell) -> None:
    """Of the agent that is named, whatever letters its name has; what waits in it is cancelled."""
    up.run("ask", "shell", "--session", "repo/main", "--no-wait", "--", "ls", code=6)
    agent = up.run("sessions").split()[0]
    assert "--agent" in up.run("sessions", "--end", "repo/main", code=2)
    assert "no open session" in up.run("sessions", "--end", "repo", "--agent", agent, code=8)
    said = up.run("sessions", "--end", "repo/main", "--agent", agent)
    assert "cancelled with it: 1" in said
    assert up.run("pending") == "nothing waits\n"
    assert up.run("sessions", "--agent", agent) == "no session is open now\n"
    assert up.run("agent", "paused") == "no agent is paused\n"
    assert up.run("pending", "--json") + up.run("sessions", "--agent", agent, "--json") == ""
    assert "no agent nobody" in up.run("agent", "lift", "nobody", code=8)


def test_deny_with_a_reason(up: Shell) -> None:
    """Exit code 1, and the words on standard error."""
    asking = up.popen("ask", "shell", "--", "true")
    up.run("deny", first_pending(up)["request"]["id"], "--reason", "not today")
    _, err = asking.communicate(timeout=30)
    assert asking.returncode == 1
    assert "denied by owner: not today" in err


def test_several_are_approved_together_and_the_report_counts_them(up: Shell) -> None:
    """All at once; a second time each is named as decided. The report names who decided."""
    ids = []
    for n in range(2):
        asked = up.run("ask", "shell", "--no-wait", "--", "ls", str(n), code=6)
        ids.append(json.loads(asked.splitlines()[0])["id"])
    said = up.run("approve", ids[0], f"{ids[1]}@1").splitlines()
    assert [line.split()[-1] for line in said if "@" in line] == [f"{i}@2" for i in ids]
    assert sum(line.startswith("owner approved the request of ") for line in said) == len(ids)
    refused = up.run("approve", *ids, code=2)
    assert "2 requests: this request was decided already" in refused
    (owner,) = json.loads(up.run("report", "--json"))["approvers"]
    assert (owner["name"], owner["decisions"], owner["denials"]) == ("owner", 2, 0)


def test_who_asks_too_much_is_refused_with_a_code_of_its_own(up: Shell, tmp_path: Path) -> None:
    """7: nobody was asked. Whom people deny too often asks nobody until somebody lifts it."""
    document = tmp_path / "policy.toml"
    people = '[[people]]\nname = "owner"\nadmin = true\n[[routes]]\napprovers = ["owner"]\n'
    document.write_text(f"{people}[[budgets]]\nwaiting = 1\ndenials = 1\n")
    up.run("apply", str(document))
    asked = up.run("ask", "shell", "--no-wait", "--", "ls", code=6)
    assert "too many requests of this agent are pending" in up.run(
        "ask", "shell", "--no-wait", "--", "pwd", code=7
    )
    up.run("deny", json.loads(asked.splitlines()[0])["id"])
    # Another call: the same one is answered by its denial, paused or not.
    assert "denied without asking anybody" in up.run("ask", "shell", "--", "pwd", code=1)
    (paused,) = json.loads(up.run("agent", "paused", "--json"))
    assert paused["budget"]["denials"] == 1
    assert "until" in up.run("agent", "paused")
    assert "may ask again" in up.run("agent", "lift", paused["agent"])
    up.run("ask", "shell", "--no-wait", "--", "pwd", code=6)


def test_expired_cancelled_and_pending_have_codes_of_their_own(up: Shell) -> None:
    """3, 4, and 6 for a question that nobody may mistake for leave; `wait` takes it later."""
    up.run("ask", "shell", "--timeout", "0.2", "--", "true", code=3)
    asking = up.popen("ask", "shell", "--", "true")
    assert asking.stderr is not None
    assert "waiting for approval" in asking.stderr.readline()
    asking.terminate()
    asking.communicate(timeout=30)
    assert asking.returncode == 4
    asked = json.loads(up.run("ask", "shell", "--no-wait", "--", "true", code=6).splitlines()[0])
    up.run("approve", asked["id"])
    up.run("wait", asked["id"])
    assert "may have run" in up.run("wait", asked["id"], code=1)


def test_usage_and_unreachable(shell: Shell) -> None:
    """2 for a wrong call, 5 when there is no gateway; both say what to do."""
    shell.run("ask", code=2)
    shell.run("ask", "shell", "--arguments", "{", code=5)
    assert "gateway up" in shell.run("ask", "shell", "--", "true", code=5)
    assert "gateway up" in shell.run("agent", "list", code=5)
    for command in (("pending",), ("show", "abc"), ("sessions",), ("grant", "list")):
        said = shell.run(*command, code=5)
        assert shell.env["GATEWAY_DATA_DIR"] in said
        assert "gateway up" in said
    for words in ((), ("ask",), ("agent",), ("audit",)):
        assert "usage" in shell.run(*words, "--help")


def test_agents_are_made_rotated_and_revoked(up: Shell) -> None:
    """The token works until it is rotated or revoked, and is shown once."""
    assert "GATEWAY_AGENT=other" in up.run("agent", "add", "other")
    made = json.loads(up.run("agent", "add", "ci", "--owner", "owner", "--json"))
    url = json.loads((Path(up.env["GATEWAY_DATA_DIR"]) / "gateway.json").read_text())["url"]
    env = {"GATEWAY_URL": url, "GATEWAY_TOKEN": made["token"], "GATEWAY_AGENT": "ci"}
    up.run("ask", "x", "--no-wait", "--", "true", env=env, code=6)
    assert made["token"] not in up.run("agent", "list")
    overlapping = up.run("agent", "rotate", "ci", "--overlap", "1h")
    assert "the old token is valid until" in overlapping
    up.run("ask", "x", "--no-wait", "--", "true", env=env, code=6)
    assert "the old token ends" in up.run("agent", "list")
    rotated = json.loads(up.run("agent", "rotate", "ci", "--now", "--json"))
    until_refused(up, env)
    env["GATEWAY_TOKEN"] = rotated["token"]
    up.run("ask", "x", "--no-wait", "--", "true", env=env, code=6)
    waiting = len(up.run("pending", "--json").splitlines())
    gone = json.loads(up.run("agent", "revoke", "ci", "--json"))
    assert gone == {"name": "ci", "revoked": True, "cancelled": waiting}
    assert not up.run("pending", "--json")
    until_refused(up, env)
    up.run("agent", "add", "Not:Good", code=2)
    assert "not a person in the policy; it contains owner" in up.run(
        "agent", "add", "typo", "--owner", "odner", code=2
    )
    assert "typo" not in up.run("agent", "list")


def test_the_kill_switch(up: Shell) -> None:
    """Everything is denied until it is lifted, and doctor says so."""
    up.run("stop-all", "--by", "owner")
    assert "kill switch" in up.run("ask", "shell", "--", "true", code=1)
    assert "FAIL kill switch" in up.run("doctor", code=1)
    up.run("resume")
    up.run("ask", "shell", "--no-wait", "--", "true", code=6)


def test_approvers_explain_and_audit(up: Shell, tmp_path: Path) -> None:
    """Approvers come and go; explain names the route; the exported audit verifies."""
    up.run("approver", "add", "dana")
    assert "dana" in up.run("explain", "ci", "shell")
    assert "conversation" not in up.run("explain", "ci", "shell", "--origin", "slack:T1/C1")
    assert "/inbox/login#code=" in up.run("login", "dana")
    gone = up.run("approver", "revoke", "dana", "--json")
    assert json.loads(gone) == {"name": "dana", "revoked": True}
    assert "dana" not in up.run("explain", "ci", "shell")
    up.run("login", "dana", code=8)
    assert '"credential of dana" applied a policy' in up.run("audit", "tail")
    events = [json.loads(line) for line in up.run("audit", "tail", "--json").splitlines()]
    assert "policy_applied" in {event["type"] for event in events}
    path = tmp_path / "audit.jsonl"
    up.run("audit", "export", str(path))
    assert "nothing is wrong" in up.run("audit", "verify", str(path))
    path.write_text(path.read_text().replace("first start", "last start"))
    sealed = '"seal"' in path.read_text()
    up.run("audit", "verify", str(path), code=1 if sealed else 0)


def test_an_export_that_fails_leaves_the_one_before(up: Shell, tmp_path: Path) -> None:
    """Without a gateway nothing can be exported; and nothing at all is not \"nothing wrong\"."""
    path, empty = tmp_path / "audit.jsonl", tmp_path / "empty.jsonl"
    up.run("audit", "export", str(path))
    before = path.read_text()
    nowhere = {"GATEWAY_DATA_DIR": str(tmp_path / "none")}
    assert "gateway up" in up.run("audit", "export", str(path), code=5, env=nowhere)
    assert path.read_text() == before
    assert list(tmp_path.glob("*.part")) == []
    empty.touch()
    assert "no event" in up.run("audit", "verify", str(empty), code=1)


def test_login_prints_the_address_of_the_gateway_that_runs(up: Shell) -> None:
    """GATEWAY_PORT is 0 here: only the running gateway knows where it listens."""
    up.run("approver", "add", "dana")
    url = json.loads((Path(up.env["GATEWAY_DATA_DIR"]) / "gateway.json").read_text())["url"]
    assert up.run("login", "dana").startswith(f"{url}/inbox/login#code=")


def test_login_needs_no_name_where_there_is_one_person(up: Shell) -> None:
    """With more it names them, and makes no link."""
    assert json.loads(up.run("login", "--json"))["name"] == "owner"
    up.run("approver", "add", "ann")
    assert "gateway login NAME, with one of: owner, ann" in up.run("login", code=2)
    up.run("approver", "revoke", "ann")


def test_devices_are_listed_and_signed_out(up: Shell) -> None:
    """By the first characters of one that is listed, or all; no id is an accident."""
    up.run("approver", "add", "dana")
    assert "not signed in on any device" in up.run("devices", "dana")
    for _ in range(3):
        address, _, code = up.run("login", "dana").split()[0].partition("/inbox/login#code=")
        headers = {"Origin": address, "Content-Type": "application/json"}
        body = json.dumps({"code": code}).encode()
        login = Request(f"{address}/inbox/api/login", data=body, headers=headers)
        with urlopen(login) as answer:
            assert answer.status == 200
    rows = [json.loads(line) for line in up.run("devices", "dana", "--json").splitlines()]
    assert [(row["words"], row["way"]) for row in rows] == [("Python", "link")] * 3
    assert up.run("devices", "dana").startswith(rows[0]["id"])
    up.run("devices", "dana", "--end", "nothing", code=8)
    up.run("devices", "dana", "--end", "", code=8)
    up.run("devices", "dana", "--end", rows[0]["id"])
    assert len(up.run("devices", "dana").splitlines()) == 2
    assert "on 2 device(s)" in up.run("devices", "dana", "--end-all")
    assert "not signed in on any device" in up.run("devices", "dana")


def test_a_second_gateway_on_the_folder_says_what_to_do(up: Shell) -> None:
    """Not a traceback."""
    said = up.run("up", code=5)
    assert "end it with `gateway down`" in said
    assert "Traceback" not in said


def test_the_demo_reaches_nothing_that_is_in_use(shell: Shell, tmp_path: Path) -> None:
    """Whatever the environment says of a gateway or a Redis, it is not the demo's."""
    inherited = {
        "REDIS_URL": "redis://127.0.0.1:1",
        "REDIS_URL_FILE": str(tmp_path / "none"),
        "GATEWAY_ENV": "production",
        "GATEWAY_URL": "http://127.0.0.1:1",
        "GATEWAY_TOKEN": "agw_of_somebody",
        "GATEWAY_REDIS_URL": "redis://127.0.0.1:1",
        "GATEWAY_SIGNING_KEY": "no key",
    }
    assert "The commands that you approved ran, and no others." in shell.run("demo", env=inherited)
    assert not (tmp_path / "state").exists()


def test_the_demo_answers_its_own_requests_without_a_terminal(shell: Shell) -> None:
    """It says so, ends by itself, and exactly what was approved ran."""
    said = shell.run("demo")
    assert "as demo-approver" in said
    assert "The commands that you approved ran, and no others." in said
    assert "hello.txt" in said
    assert said.count(" approved   yes") == 3


async def test_the_demo_goes_on_where_all_is_approved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also what then fails: `rm` refuses to remove the folder in which it runs."""
    monkeypatch.setattr(demo, "_DANGEROUS", "nothing")
    assert await demo.run_demo() == 0
    said = capsys.readouterr().out
    assert re.search(r"rm -rf \. +approved +yes", said)
    assert re.search(r"wc -w .* approved +yes", said)


def test_the_demo_gives_another_link(shell: Shell) -> None:
    """The first one may have expired, and nobody knows where the demo keeps its data."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gateway.cli", "demo"]
    codes: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, env=shell.env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        try:
            with os.fdopen(ours, "rb+", buffering=0) as terminal:
                said = b""
                for awaited in (rb"press Enter", rb"#code=\S+\s"):
                    while not re.search(awaited, said):
                        said += terminal.read(65536)
                    codes += re.findall(r"#code=(\S+)", said.decode())
                    said = b""
                    terminal.write(b"\n")
        finally:
            process.terminate()
    assert len(set(codes)) == 2


POLICY = """
[[people]]
name = "owner"
admin = true
[[routes]]
approvers = ["owner"]
[[risks]]
name = "deletes"
level = "high"
reason = "deletes files"
contains = ["rm "]
"""


def test_a_policy_file_is_checked_and_put_in_force(up: Shell, tmp_path: Path) -> None:
    """`apply --check` changes nothing, `apply` does at once, and a bad file is refused."""
    path = tmp_path / "policy.toml"
    path.write_text(POLICY, encoding="utf-8")
    assert "+ risk rule deletes" in up.run("apply", str(path), "--check")
    assert "deletes files" not in up.run("policy", "show")
    assert "active" in up.run("apply", str(path))
    assert "already the active policy" in up.run("apply", str(path))
    path.write_text(POLICY.replace('"owner"]', '"nobody"]'), encoding="utf-8")
    assert "neither a person" in up.run("apply", str(path), code=2)
    assert "deletes files" in up.run("policy", "show")
    assert "cannot read" in up.run("apply", str(tmp_path / "none.toml"), code=2)
    path.write_text(POLICY.replace('"owner"', '"dana"'), encoding="utf-8")
    assert "gateway approver add dana" in up.run("apply", str(path), code=2)
    told = up.run("apply", str(path), "--yes")
    assert "owner is not in this file" in told
    assert "gateway approver add dana" in told
    listed = up.run("approver", "list").splitlines()
    assert [(line.split()[0], line.split(maxsplit=1)[1]) for line in listed] == [
        ("dana", "admin  no token"),
        ("owner", "may do nothing: not a person in the active policy"),
    ]


def test_explain_asks_hooks_and_tells_risk_and_places(shell: Shell, tmp_path: Path) -> None:
    """What would happen to a call: how risky, where it is shown, and what the hooks say: those of
    the gateway, whatever the caller's settings name."""
    policy, hooks = tmp_path / "policy.toml", tmp_path / "hooks.toml"
    policy.write_text(
        POLICY.replace('"owner"\n[[r', '"owner"\nadmin = true\n[[r'), encoding="utf-8"
    )
    command = json.dumps([sys.executable, str(Path(__file__).parents[1] / "hooks" / "puppet.py")])
    hooks.write_text(f'[hooks.gate]\ncommand = {command}\nenv = {{ PUPPET = "gate" }}\n')
    refuse = {"gate": {"approve_tool": {"approved": False, "reason": "not on a Friday"}}}
    words = ("explain", "ci", "shell", "--arguments", json.dumps({"command": "rm x", **refuse}))
    told_by = {}
    for whose, file in (("the gateway's", str(hooks)), ("the caller's", "")):
        shell.env["GATEWAY_HOOKS_FILE"] = file
        with running(shell, policy):
            if file:
                made = json.loads(shell.run("approver", "add", "owner", "--admin", "--json"))
                shell.env["GATEWAY_APPROVER_TOKEN"] = made["token"]
            while shell.call("pending")[0] == 9:  # a gateway may not know it for half a second
                continue
            told_by[whose] = shell.run(*words, env={"GATEWAY_HOOKS_FILE": str(hooks)})
            found = json.loads(shell.run(*words, "--json"))
    assert "not on a Friday" in told_by["the gateway's"]
    assert "not on a Friday" not in told_by["the caller's"]
    for part in ("risk high: deletes files", "shown in web", "1 of owner"):
        assert part in told_by["the gateway's"]
    assert found["risk"] == {"level": "high", "reasons": ["deletes files"]}
    assert found["targets"] == ["web"]


def test_high_risk_is_approved_only_with_a_confirmation(up: Shell, tmp_path: Path) -> None:
    """Without --yes nothing is approved; what was approved is found by the id's beginning."""
    path = tmp_path / "policy.toml"
    path.write_text(POLICY, encoding="utf-8")
    up.run("apply", str(path))
    asking = up.popen("ask", "shell", "--", "rm", "-rf", "build")
    request_id = first_pending(up)["request"]["id"]
    told = up.run("approve", request_id, code=2)
    assert "--yes" in told
    assert f"`gateway show {request_id}`" in told
    refused = up.run("approve", request_id, "--yes", "--remember", code=2)
    assert "require approval each time" in refused
    assert asking.poll() is None
    up.run("approve", request_id, "--yes")
    asking.communicate(timeout=30)
    assert asking.returncode == 0
    assert request_id in up.run("show", request_id[:8])
    assert "decided already" in up.run("approve", request_id, "--yes", code=10)


def test_a_policy_file_is_applied_at_the_start(shell: Shell, tmp_path: Path) -> None:
    """GATEWAY_POLICY_FILE is in force when the gateway is ready; a bad one stops the start."""
    path = tmp_path / "policy.toml"
    path.write_text(POLICY.replace('"owner"]', '"nobody"]'), encoding="utf-8")
    env = {"GATEWAY_POLICY_FILE": str(path)}
    assert "neither a person" in shell.run("up", code=2, env=env)
    path.write_text(POLICY, encoding="utf-8")
    process = shell.popen("up", env=env)
    assert process.stderr is not None
    while "ready" not in process.stderr.readline():
        assert process.poll() is None
    assert "deletes files" in shell.run("policy", "show")
    process.terminate()
    process.communicate(timeout=20)


def test_a_decision_is_remembered_listed_and_taken_back(up: Shell) -> None:
    """From a terminal: offers with their reach, an answer that is remembered, and the way back."""
    asking = up.popen("ask", "shell", "--", "git", "log", "-n", "3")
    record = first_pending(up)
    offers = json.loads(up.run("grant", "offers", record["request"]["id"][:8], "--json"))
    assert "exactly this" in up.run("grant", "offers", record["request"]["id"])
    wide = [one for one in offers["approve"] if one["match"]["shape"] == "pattern"][-1]["id"]
    wish = ("--remember", wide, "--for", "1d", "--uses", "2", "--everywhere")
    up.run("approve", record["request"]["id"], *wish)
    asking.communicate(timeout=30)
    up.run("ask", "shell", "--", "git", "log", "--stat")
    listed = up.run("grant", "list")
    assert "used 1 of 2" in listed
    assert "shell" in listed
    grant = listed[:8]
    assert json.loads(up.run("grant", "show", grant, "--json"))["used"] == 1
    assert up.run("grant", "list", "--agent", "nobody") == "there are no grants\n"
    up.run("grant", "revoke", code=2)
    up.run("grant", "revoke", grant)
    assert "give its whole id" in up.run("grant", "show", grant, code=8)
    whole = listed.split()[0]
    assert "ended already: revoked, by owner" in up.run("grant", "revoke", whole, code=10)
    assert "0 revoked" in up.run("grant", "revoke", "--all")


def test_how_to_remember_without_remembering_is_refused(up: Shell) -> None:
    """An answer that drops half of what was said decides nothing; neither does a wrong offer."""
    asked = up.run("ask", "shell", "--no-wait", "--", "ls", code=6)
    request_id = json.loads(asked.splitlines()[0])["id"]
    for how in (["--for", "1d"], ["--uses", "3"], ["--everywhere"]):
        for words in (["approve", request_id], ["deny", request_id, request_id]):
            assert "add --remember" in up.run(*words, *how, code=2)
    wrong = up.run("approve", request_id, "--remember", "foo", code=2)
    assert f"gateway grant offers {request_id}" in wrong
    assert "there are no grants" in up.run("grant", "list")
    assert request_id in up.run("pending")


def test_grants_for_exactly_one_thing_are_told_apart(up: Shell) -> None:
    """A grant holds a digest of what it covers; its line says what that was, secrets masked."""
    secret = "hunt3r2-hunter2"
    for command in (["ls", "a"], ["login", f"password={secret}"]):
        asked = up.run("ask", "shell", "--no-wait", "--", *command, code=6)
        up.run("approve", json.loads(asked.splitlines()[0])["id"], "--remember", "--yes")
    later, earlier = re.split(r"\n(?=\w)", up.run("grant", "list").strip())
    assert '"ls a"' in earlier
    assert "login password=" in later
    assert "secret of 15 characters" in later
    shown = up.run("grant", "show", earlier.split()[0])
    assert shown.startswith(f"{earlier}\n{{")
    assert secret not in later + shown
