"""`gateway install`: what it writes into each host's settings, takes out again, and proves."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.doctor.reachability import check_hosts
from gateway.domain.records import Query
from gateway.integrations.coding_agents import install
from gateway.integrations.coding_agents.install_plans import (
    OR_BLOCK,
    PLANS,
    InstallWish,
    SettingsFile,
)
from gateway.models import Reason
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, Replica
from tests.frame.tree import ROOT

HOSTS = sorted(PLANS)
WITH_HOOKS = sorted(set(PLANS) - {"opencode"})
PROGRAM = f"{sys.executable} -m gateway.integrations"
BEFORE = """{
\t"model": "opus",
\t"hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [1, {}]}]},
\t"é": null
}"""
"""Tabs, values that we do not know, and no line end after the last line."""

OF_CODEX = """{
\t"description": "é",
\t"hooks": {"PreToolUse": [{"matcher": "Read", "odd": 1, "hooks": [{"type": "command"}]}]}
}"""
"""The same where other members would have Codex reject the file."""

Run = Callable[..., tuple[int, str, str]]


def before_of(host: str) -> str:
    """Return settings that the host has had before."""
    return OF_CODEX if host == "codex" else BEFORE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a scratch home, whose project is its folder `work`."""
    for name in ("GATEWAY_URL", "GATEWAY_TOKEN", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs the command: its exit code, and what it printed and said."""

    def run(*words: str) -> tuple[int, str, str]:
        code = install.main(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def settings(host: str, home: Path, scope: str | None = None) -> Path:
    """Return the file of a host."""
    plan = PLANS[host]
    return plan.path(scope or next(iter(plan.folders)), home, home / "work", {})


@pytest.mark.parametrize("host", HOSTS)
def test_in_both_directions_it_leaves_a_home_as_it_was(run: Run, home: Path, host: str) -> None:
    """Installed twice it is there once; taken out, not even a file is left."""
    path = settings(host, home)
    assert run(host, "--yes")[0] == 0
    written = path.read_text()
    code, out, err = run(host, "--yes")
    assert (code, out, path.read_text()) == (0, "", written)
    assert "is already set up" in err
    code, out, _ = run(host, "--undo", "--yes")
    assert code == 0
    assert f"-{written.splitlines()[1]}" in out
    assert not path.exists()
    assert "so nothing was removed" in run(host, "--undo", "--yes")[2]


@pytest.mark.parametrize("host", HOSTS)
def test_what_else_stands_there_stays(run: Run, home: Path, host: str) -> None:
    """In its order, and taken out again it is the same byte by byte."""
    path = settings(host, home)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = before_of(host)
    path.write_text(before)
    path.chmod(0o600)
    assert run(host, "--yes")[0] == 0
    now, then = json.loads(path.read_text()), json.loads(before)
    assert list(now)[: len(then)] == list(then)
    assert now["hooks"]["PreToolUse"][0] == then["hooks"]["PreToolUse"][0]
    assert path.stat().st_mode & 0o777 == 0o600
    assert run(host, "--wait", "30", "--yes")[0] == 0
    assert run(host, "--undo", "--yes")[0] == 0
    assert path.read_text() == before


@pytest.mark.parametrize("host", WITH_HOOKS)
def test_what_others_wrote_since_stays_too(run: Run, home: Path, host: str) -> None:
    """Only our entries are taken out."""
    path = settings(host, home)
    assert run(host, "--yes")[0] == 0
    path.write_text(json.dumps({**json.loads(path.read_text()), "theirs": {"a": 1}}))
    assert run(host, "--undo", "--yes")[0] == 0
    left = json.loads(path.read_text())
    assert left.pop("version", 1) == 1
    assert left == {"theirs": {"a": 1}}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"theirs": 1}, "the member 'theirs' (it knows description and hooks)"),
        ({"hooks": {"Stop": [{"hooks": [1]}]}}, "a hook of Stop that has no type"),
        ({"hooks": {"Stop": [{"hooks": [{"command": "true"}]}]}}, "a hook of Stop that has"),
    ],
)
def test_codex_is_given_no_file_that_it_rejects(
    run: Run, home: Path, wrong: dict[str, Any], says: str
) -> None:
    """It runs every tool then. So nothing is written, and the check says why."""
    path = settings("codex", home)
    path.parent.mkdir()
    path.write_text(json.dumps(wrong))
    code, out, err = run("codex", "--yes")
    assert (code, out, json.loads(path.read_text())) == (2, "", wrong)
    assert f"Codex rejects a hooks.json with {says}" in err
    plan = PLANS["codex"]
    values = {**wrong, "hooks": {**wrong.get("hooks", {}), **added()["hooks"]}}
    assert any(says in one for one in install.find_problems(plan, values))


def added() -> dict[str, Any]:
    """Return our own settings of Codex."""
    return PLANS["codex"].add({}, InstallWish(program=PROGRAM))


def test_a_host_keeps_something_itself_only_where_that_was_asked_for(run: Run, home: Path) -> None:
    """An option of the relay of Claude Code, by command and by HTTP; nobody else knows it."""
    path = settings("claude-code", home)
    relay = ("claude-code", "--profile", "relay", "--yes")
    run(*relay)
    assert "native" not in path.read_text()
    run(*relay, "--native-always")
    asks = json.loads(path.read_text())["hooks"]["PermissionRequest"]
    assert asks[0]["hooks"][0]["command"].endswith("--timeout 840 --native-always")
    for words in (("claude-code",), ("codex", "--profile", "relay")):
        code, _, err = run(*words, "--native-always", "--yes")
        assert (code, "--native-always works only with claude-code" in err) == (2, True)


def test_nobody_guesses_what_opencode_allowed_before(run: Run, home: Path) -> None:
    """Taking out an `ask` that was there before would let tools run unasked."""
    path = settings("opencode", home)
    assert run("opencode", "--yes")[0] == 0
    path.write_text(json.dumps({**json.loads(path.read_text()), "theirs": 1}))
    before = path.read_text()
    code, _, err = run("opencode", "--undo", "--yes")
    assert code == 2
    assert "yourself" in err
    assert path.read_text() == before


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("broken", ["{", "[]", "// a remark\n[]", '{"a": 1, "a": 2}', "/* {}"])
def test_a_file_that_is_not_valid_json_stays_untouched(
    run: Run, home: Path, host: str, broken: str
) -> None:
    """The host may read it otherwise than we do."""
    path = settings(host, home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(broken)
    for more in ((), ("--undo",)):
        code, out, err = run(host, "--yes", *more)
        assert (code, out) == (2, "")
        assert "nothing was written" in err
        assert path.read_text() == broken


@pytest.mark.parametrize("host", HOSTS)
def test_an_editor_of_windows_changes_nothing_of_that(run: Run, home: Path, host: str) -> None:
    """The ends of lines stay, and no host has to read the mark at the start of the file."""
    path = settings(host, home)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = ("\ufeff" + before_of(host).replace("\n", "\r\n") + "\r\n").encode()
    path.write_bytes(before)
    assert run(host, "--yes")[0] == 0
    now = path.read_bytes()
    assert now.count(b"\n") == now.count(b"\r\n") > before.count(b"\n")
    assert "é" in str(json.loads(now))  # it would fail for the mark
    assert "is already set up" in run(host, "--yes")[2]
    assert run(host, "--undo", "--yes")[0] == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("host", HOSTS)
def test_no_comment_is_lost(run: Run, home: Path, host: str) -> None:
    """Where the host allows them, the person reads what to add, and the check reads the file;
    another host could not read the file either."""
    path = settings(host, home)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = '{\n  "url": "https://x", // "not" a comment before /* this */\n  "b": 1 /* two\n{ */\n}'
    path.write_text(text)
    code, out, err = run(host, "--yes")
    assert (code, out, path.read_text()) == (2, "", text)
    assert f"{path}" in err
    assert "line 2" in err
    assert "nothing was written" in err
    added = err.partition(":\n")[2].partition("\ngateway install")[0]
    assert bool(added) is (host in ("gemini", "opencode"))
    if not added:
        assert "not valid JSON" in run(host, "--check")[2]
        return
    path.write_text(f"{added.removesuffix('}')}, // ours\n {text.removeprefix('{')}")
    plan = PLANS[host]
    values = SettingsFile(path, comments=True).values
    assert list(plan.doubts(values)) == []
    assert [one.blocks for one in plan.entries(values)] == [True] * (host == "gemini")
    assert run(host, "--undo", "--yes")[0] == 2  # which would lose them, too


@pytest.mark.parametrize("wrong", [{"hooks": []}, {"hooks": {"PreToolUse": {}}}])
def test_settings_of_another_shape_stay_untouched(run: Run, home: Path, wrong: Any) -> None:
    """They are not ours to repair."""
    path = settings("claude-code", home)
    path.parent.mkdir()
    path.write_text(json.dumps(wrong))
    assert run("claude-code", "--yes")[0] == 2
    assert json.loads(path.read_text()) == wrong


def test_nothing_is_written_unasked(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is shown; without a terminal and without --yes nobody agreed to it."""
    code, out, err = run("codex")
    assert code == 1
    assert "gateway hook codex" in out.replace("/gateway", "gateway")
    assert "nothing was written" in err
    assert not settings("codex", home).exists()
    for typed, written in (("n\n", False), ("y\n", True)):
        monkeypatch.setattr("sys.stdin", _Terminal(typed))
        assert run("codex")[0] == (0 if written else 1)
        assert settings("codex", home).exists() is written


class _Terminal:
    def __init__(self, typed: str) -> None:
        self._typed = typed

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._typed


def test_a_link_to_the_settings_stays_a_link(run: Run, home: Path) -> None:
    """Many keep their settings elsewhere, and link to them."""
    path = settings("codex", home)
    path.parent.mkdir()
    (home / "dotfiles.json").write_text("{}\n")
    path.symlink_to(home / "dotfiles.json")
    assert run("codex", "--yes")[0] == 0
    assert path.is_symlink()
    assert "hook codex" in (home / "dotfiles.json").read_text()


def test_what_is_shared_names_no_path_of_this_machine(run: Run, home: Path) -> None:
    """The settings of a project are other people's too."""
    assert run("claude-code", "--scope", "project", "--yes")[0] == 0
    text = settings("claude-code", home, "project").read_text()
    assert '"gateway hook claude-code' in text
    assert str(home) not in text
    code, _, err = run("copilot", "--scope", "user")
    assert code == 2
    assert "no settings with scope user" in err


@pytest.mark.parametrize("profile", ["enforce", "relay"])
def test_by_http_the_settings_hold_an_address_and_no_token(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    """The token stays in the environment; a call that fails blocks, after a limit of our own."""
    assert run("claude-code", "--http", "--yes")[0] == 5  # which gateway?
    monkeypatch.setenv("GATEWAY_URL", "https://gateway.example/")
    monkeypatch.setenv("GATEWAY_TOKEN", AGENT_TOKEN)
    words = ("--http", "--profile", profile, "--wait", "30", "--yes")
    assert run("claude-code", *words)[0] == 0
    text = settings("claude-code", home).read_text()
    assert AGENT_TOKEN not in text
    plan, values = PLANS["claude-code"], json.loads(text)
    event = "PreToolUse" if profile == "enforce" else "PermissionRequest"
    assert values["hooks"][event][0]["hooks"] == [
        {
            "type": "http",
            "url": "https://gateway.example/v1/hooks/claude-code?timeout=30",
            "headers": {"Authorization": "Bearer $GATEWAY_TOKEN"},
            "allowedEnvVars": ["GATEWAY_TOKEN"],
            "timeout": 90,
            **({"onFailure": "block"} if profile == "enforce" else {}),
        }
    ]
    assert list(install.find_problems(plan, values)) == []
    for hook in (one["hooks"][0] for groups in values["hooks"].values() for one in groups):
        hook.pop("onFailure", None)
    wrong = list(install.find_problems(plan, values))
    assert any("would not block" in one for one in wrong) is (profile == "enforce")
    assert run("claude-code", "--http", "--yes")[0] == 0  # in place of what was there
    assert list(json.loads(settings("claude-code", home).read_text())["hooks"]) == ["PreToolUse"]
    assert run("claude-code", "--undo", "--yes")[0] == 0


async def test_by_http_the_check_makes_the_hosts_own_call(
    gate: Replica, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held and blocked; without the token, or with one nobody knows, it does not gate."""
    monkeypatch.setenv("GATEWAY_URL", gate.url)
    assert run("claude-code", "--http", "--yes")[0] == 0
    code, out, _ = await asyncio.to_thread(run, "claude-code", "--check")
    assert (code, "GATEWAY_TOKEN is not set here" in out) == (1, True)
    monkeypatch.setenv("GATEWAY_TOKEN", "agw_agent1_wrongwrongwrong")
    code, out, _ = await asyncio.to_thread(run, "claude-code", "--check")
    assert (code, "the hook did not wait" in out) == (1, True)
    monkeypatch.setenv("GATEWAY_TOKEN", AGENT_TOKEN)
    code, out, _ = await asyncio.to_thread(run, "claude-code", "--check")
    assert (code, "was held, cancelled, and blocked" in out) == (0, True), out


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("gemini", ("--profile", "relay")),
        ("codex", ("--defer",)),
        ("codex", ("--http",)),
        ("claude-code", ("--http", "--defer")),
    ],
)
def test_what_a_host_cannot_do_is_refused(run: Run, host: str, words: tuple[str, ...]) -> None:
    """It would stand there, and gate nothing."""
    assert run(host, *words, "--yes")[0] == 2


@pytest.mark.parametrize("host", WITH_HOOKS)
def test_our_deadline_is_shorter_than_the_hosts(host: str) -> None:
    """After its own the host runs the tool; and a hook that fails blocks."""
    plan = PLANS[host]
    values = plan.add({}, InstallWish(program=PROGRAM, wait=30))
    (entry,) = plan.entries(values)
    assert (entry.timeout, entry.blocks) == (90, True)
    assert list(install.find_problems(plan, values)) == []


@pytest.mark.parametrize("host", sorted({*WITH_HOOKS} - {"copilot"}))
def test_only_a_hook_that_failed_is_said_to_have_failed(host: str, tmp_path: Path) -> None:
    """A denial reaches the model in its own words alone; whatever else goes wrong blocks too."""
    program = tmp_path / "gateway"
    values = PLANS[host].add({}, InstallWish(program=str(program)))
    (entry,) = PLANS[host].entries(values)
    failed = "the approval hook failed\n"
    ends = {"echo no >&2; exit 2": (2, "no\n"), "exit 1": (2, failed), "exit 0": (0, "")}
    for script, said in {**ends, "kill -9 $$": (2, failed)}.items():
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        ran = subprocess.run(
            ["/bin/sh", "-c", entry.command], capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr.replace("Killed\n", "")) == said
    program.unlink()  # the shell says that itself, before ours
    ran = subprocess.run(
        ["/bin/sh", "-c", entry.command], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr.endswith(failed)) == (2, True)


def test_a_line_of_before_is_written_again(run: Run, home: Path) -> None:
    """Its model reads of a broken hook at each denial. The check says so; `install` cures it."""
    assert run("codex", "--yes")[0] == 0
    path = settings("codex", home)
    new = path.read_text()
    old = "|| { echo 'the approval hook failed' >&2; exit 2; }"
    path.write_text(new.replace(OR_BLOCK, old))
    found = list(install.find_problems(PLANS["codex"], json.loads(path.read_text())))
    assert any("run `gateway install codex` again" in one for one in found)
    assert run("codex", "--yes")[0] == 0
    assert path.read_text() == new


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda hook: hook.pop("timeout"), "no timeout is set"),
        (lambda hook: hook.update(timeout=30), "not longer than the hook's"),
        (lambda hook: hook.pop("onFailure"), "a failure of the hook would not block"),
        (
            lambda hook: hook.update(command=hook["command"].replace(OR_BLOCK, "")),
            "a failure of the hook would not block",
        ),
        (
            lambda hook: hook.update(command="/nowhere/gateway hook claude-code --timeout 5"),
            "/nowhere/gateway is not found",
        ),
    ],
)
def test_the_check_says_why_a_hook_would_not_gate(
    spoil: Callable[[dict[str, Any]], Any], says: str
) -> None:
    """Each of these lets Claude Code run a tool that nobody approved."""
    plan = PLANS["claude-code"]
    values = plan.add({}, InstallWish(program=PROGRAM, wait=30))
    spoil(values["hooks"]["PreToolUse"][0]["hooks"][0])
    assert any(says in one for one in install.find_problems(plan, values))


@pytest.mark.parametrize(
    ("profile", "more", "says"),
    [
        ("enforce", {"disableAllHooks": True}, "calls no hook"),
        ("relay", {"permissions": {"defaultMode": "bypassPermissions"}}, "never asks"),
    ],
)
def test_the_check_knows_what_passes_by_a_hook(profile: str, more: Any, says: str) -> None:
    """And a home without a hook, and one that has it twice."""
    plan = PLANS["claude-code"]
    wish = InstallWish(program=PROGRAM, profile=profile)
    values = {**plan.add({}, wish), **more}
    assert any(says in one for one in install.find_problems(plan, values))
    assert "the hook is not installed" in next(install.find_problems(plan, {}))
    twice = plan.add({}, InstallWish(program=PROGRAM))
    twice["hooks"]["PreToolUse"] *= 2
    assert any("twice" in one for one in install.find_problems(plan, twice))


async def checked(run: Run, host: str, gate: Replica, patch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Install and check a host in a scratch home; return the exit code and what was printed."""
    for name, said in (
        ("GATEWAY_URL", gate.url),
        ("GATEWAY_TOKEN", AGENT_TOKEN),
        ("GATEWAY_AGENT", "agent1"),
        ("PATH", "/usr/bin:/bin"),
    ):
        patch.setenv(name, said)
    assert (await asyncio.to_thread(run, host, "--yes"))[0] == 0
    code, out, err = await asyncio.to_thread(run, host, "--check")
    return code, out + err


def shown_check(host: str) -> str:
    """Return what the page of a host shows of its check."""
    name = "copilot-and-cursor" if host == "cursor" else host
    page = (ROOT / "docs" / "integrations" / f"{name}.md").read_text(encoding="utf-8")
    _, _, after = page.partition(f"$ gateway install {host} --check\n")
    return after.splitlines()[0].strip()


@pytest.mark.parametrize("host", sorted({*WITH_HOOKS} - {"copilot"}))
async def test_the_check_proves_that_a_call_is_held_and_denied(
    run: Run, host: str, gate: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the very command that stands in the settings."""
    monkeypatch.setenv("GATEWAY_APPROVER_TOKEN", ANN_TOKEN)
    code, said = await checked(run, host, gate, monkeypatch)
    assert code == 0, said
    assert "a harmless call was held, denied by this check, and blocked" in said
    assert shown_check(host) in said.splitlines()
    (record,) = (await gate.core.requests.page(Query(final=True))).items
    assert record.decision is not None
    assert record.decision.reason is Reason.PERSON


async def test_who_may_not_decide_withdraws_it(
    run: Run, gate: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook has to block then as well."""
    code, said = await checked(run, "codex", gate, monkeypatch)
    assert code == 0, said
    assert "held, cancelled, and blocked" in said


async def test_a_hook_that_lets_it_run_is_found_out(
    run: Run, home: Path, gate: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the settings say."""
    assert (await checked(run, "codex", gate, monkeypatch))[0] == 0
    path = settings("codex", home)
    lets = home / "gateway"
    lets.write_text("#!/bin/sh\ncat >/dev/null\n")
    lets.chmod(0o755)
    values = json.loads(path.read_text())
    hook = values["hooks"]["PreToolUse"][0]["hooks"][0]
    hook["command"] = f"{lets} hook codex --timeout 5 {OR_BLOCK}"
    path.write_text(json.dumps(values))
    code, out, err = await asyncio.to_thread(run, "codex", "--check")
    assert code == 1, out + err
    assert "the hook did not wait" in out


# Without a host.


@pytest.fixture
def three(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return a home with the folder of one host, the program of a second, and the settings of a
    third, which asks already."""
    (home / ".codex").mkdir()
    (home / "bin").mkdir()
    (home / "bin" / "gemini").write_text("#!/bin/sh\necho 99.0.0\n")
    (home / "bin" / "gemini").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    assert install.main(("cursor", "--yes")) == 0
    capsys.readouterr()
    return home


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_is_found_by_its_folder_or_its_program(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """And by nothing else: on another machine nothing is offered."""

    def found() -> list[tuple[str, bool]]:
        return [(plan.host, asks) for plan, _, asks in install.find_agents()]

    monkeypatch.setenv("PATH", str(home / "bin"))
    assert found() == []
    code, out, err = run()
    assert (code, out) == (0, "")
    assert "No coding agent that the gateway supports" in err and host in err
    (home / "bin").mkdir()
    program = home / "bin" / {"claude-code": "claude", "cursor": "cursor-agent"}.get(host, host)
    program.touch(mode=0o755)
    assert found() == [(host, False)]
    program.unlink()
    assert found() == []
    settings(host, home).parent.mkdir(parents=True)
    (home / "bin" / "gateway").touch(mode=0o755)  # as a project's settings start it
    assert found() == [(host, False)]
    assert run(host, "--yes")[0] == 0
    assert found() == [(host, True)]


def test_without_a_terminal_hosts_are_only_listed(run: Run, three: Path) -> None:
    """With the file that would be written, and the command that writes it; an option without a host
    is refused, so that none is taken for all of them."""
    code, out, err = run()
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["1", "codex"],
        ["2", "gemini"],
        ["3", "cursor"],
    ]
    assert str(settings("codex", three)) in out
    assert out.splitlines()[2].split()[2:4] == ["asks", "already"]
    assert "gateway install NAME --yes" in err
    assert not settings("codex", three).exists()
    for option in ("--yes", "--undo", "--check"):
        with pytest.raises(SystemExit):
            run(option)
    assert not settings("codex", three).exists()


@pytest.mark.parametrize("typed", ["7\n", "1 x\n", "0\n", "\n", "", "-1\n", "all 1\n"])
def test_another_word_installs_into_none(
    run: Run, three: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    """Nothing is guessed, and nothing is half done."""
    monkeypatch.setattr("sys.stdin", _Terminal(typed))
    assert run()[0] in (1, 2)
    assert not settings("codex", three).exists()
    assert not settings("gemini", three).exists()


async def test_chosen_hosts_are_installed_and_each_gate_is_proved(
    run: Run, three: Path, gate: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for each: what was held and blocked, or what is wrong. One that fails stops no
    other."""
    monkeypatch.setenv("GATEWAY_URL", gate.url)
    monkeypatch.setenv("GATEWAY_TOKEN", AGENT_TOKEN)
    monkeypatch.setenv("GATEWAY_AGENT", "agent1")
    monkeypatch.setenv("GATEWAY_APPROVER_TOKEN", ANN_TOKEN)
    settings("codex", three).write_text("{")
    monkeypatch.setattr("sys.stdin", _Terminal("2, 1\n"))
    code, out, err = await asyncio.to_thread(run)
    assert code == 1
    gemini, codex = out.splitlines()[-2:]
    assert gemini.startswith("gemini: the gate works: BeforeTool: a harmless call was held, denied")
    assert codex.startswith("codex: the gate does not work yet: ") and "is not valid JSON" in codex
    assert "hook gemini" in settings("gemini", three).read_text()
    assert settings("codex", three).read_text() == "{"
    settings("codex", three).unlink()
    monkeypatch.setattr("sys.stdin", _Terminal("all\n"))
    code, out, err = await asyncio.to_thread(run)
    assert code == 0, out + err
    assert [line.partition(":")[0] for line in out.splitlines()[-3:]] == [
        "codex",
        "gemini",
        "cursor",
    ]
    assert all("the gate works: " in line for line in out.splitlines()[-3:])
    page = (await gate.core.requests.page(Query(final=True))).items
    assert len(page) == 4
    assert {one.decision.reason for one in page if one.decision} == {Reason.PERSON}


def test_a_gate_that_cannot_be_proved_is_not_said_to_work(
    run: Run, three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No gateway runs: the hook is written, and blocks."""
    monkeypatch.setattr("sys.stdin", _Terminal("2\n"))
    code, out, _ = run()
    assert code == 1
    assert "gemini: the gate does not work yet: BeforeTool: cannot reach the gateway" in out
    assert "hook gemini" in settings("gemini", three).read_text()


def test_what_has_no_hook_is_not_said_to_be_proved(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenCode is told to ask, and a bridge beside it answers."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (home / ".config" / "opencode").mkdir(parents=True)
    monkeypatch.setattr("sys.stdin", _Terminal("1\n"))
    code, out, _ = run()
    assert code == 0
    assert "opencode: its settings require approval. Start `opencode serve`" in out.splitlines()[-1]


def test_doctor_looks_at_what_is_installed(run: Run, home: Path) -> None:
    """Only where there is a hook of ours, and it says what is wrong with it."""
    assert check_hosts(home) == []
    assert run("claude-code", "--yes")[0] == 0
    ((name, finding),) = check_hosts(home)
    assert (name, finding.result) == ("claude-code", "ok")
    path = settings("claude-code", home)
    path.write_text(path.read_text().replace('"block"', '"go on"'))
    assert check_hosts(home)[0][1].result == "fail"
    path.write_text("{")
    assert check_hosts(home)[0][1].result == "warn"
