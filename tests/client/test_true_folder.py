"""The folder that people are shown is the one in which it runs."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.client import (
    CallableTransport,
    Client,
    confirm,
    confirm_async,
    requires_approval,
    resume,
    suspend,
)
from gateway.client.pytest_plugin import ScriptedApprovals
from gateway.errors import InvalidRequest, Unverified
from gateway.models import Action, Context, Execution
from gateway.server import demo_agent
from gateway.wire.codec import JsonObject
from tests.client.approving import deciding


def test_a_function_that_works_elsewhere_shows_where(
    approvals: ScriptedApprovals, tmp_path: Path
) -> None:
    """With `context=` the card names the folder in which the command runs, not the process's."""
    where = Context(cwd=str(tmp_path), host="build-1")

    @requires_approval(context=where)
    def shell(command: str) -> str:
        return subprocess.check_output(command, shell=True, cwd=where.cwd, text=True).strip()

    approvals.approve()
    assert shell("pwd") == str(tmp_path.resolve())
    assert approvals.requests[-1].context == where
    assert tmp_path != Path.cwd()


def test_the_folder_may_come_from_the_arguments(approvals: ScriptedApprovals) -> None:
    """A function of the arguments says it; also for coroutines and methods."""

    class Builds:
        @requires_approval(context=lambda folder, target="all": Context(cwd=folder))
        async def make(self, folder: str, target: str = "all") -> str:
            return f"{target} in {folder}"

    approvals.approve()
    assert asyncio.run(Builds().make("/srv/app")) == "all in /srv/app"
    assert approvals.requests[-1].context == Context(cwd="/srv/app")


def test_without_one_it_is_the_process_s(approvals: ScriptedApprovals) -> None:
    """As it always was."""
    approvals.approve()
    assert requires_approval(lambda: 1)() == 1
    assert approvals.requests[-1].context.cwd == str(Path.cwd())


def test_an_edit_that_moves_the_call_does_not_run(approvals: ScriptedApprovals) -> None:
    """The approver saw the first folder; other edits run."""
    ran: list[str] = []

    @requires_approval(context=lambda folder, target: Context(cwd=folder))
    def make(folder: str, target: str) -> None:
        ran.append(f"{folder} {target}")

    approvals.approve(folder="/etc", target="all")
    with pytest.raises(Unverified, match="a different place"):
        make("/srv", "all")
    assert ran == []
    assert approvals.reports[-1][1].execution is Execution.SKIPPED
    approvals.approve(folder="/srv", target="docs")
    make("/srv", "all")
    assert ran == ["/srv docs"]


def test_a_suspended_call_runs_where_it_was_shown(approvals: ScriptedApprovals) -> None:
    """What resumes in a different place than was asked about does not run."""
    places = [Context(cwd="/a"), Context(cwd="/a"), Context(cwd="/b")]

    @requires_approval(context=lambda: places.pop(0))
    def deploy() -> str:
        return "done"

    approvals.approve()
    assert resume(deploy, suspend(deploy)) == "done"
    approvals.approve()
    places[:] = [Context(cwd="/a"), Context(cwd="/b")]
    with pytest.raises(Unverified, match="a different place"):
        resume(deploy, suspend(deploy))


def test_bound_files_go_with_a_folder(approvals: ScriptedApprovals, tmp_path: Path) -> None:
    """Both are shown, and neither stands in the other's way."""
    script = tmp_path / "x.sh"
    script.write_text("make")

    @requires_approval(files=["path"], context=Context(cwd="/srv"))
    def run(path: str) -> str:
        script.write_text("changed by the run itself")
        confirm("still sure?")
        return "ran"

    approvals.approve()
    approvals.approve()
    assert run(str(script)) == "ran"
    first, inside = (asked.context for asked in approvals.requests[-2:])
    assert (first.cwd, set(first.files)) == ("/srv", {str(script.resolve())})
    assert inside == Context(cwd="/srv")


async def test_what_is_asked_inside_a_tool_names_its_folder(approvals: ScriptedApprovals) -> None:
    """Blocking and not; one that is given, or a tool without `context=`, names its own."""

    @requires_approval(context=Context(cwd="/srv"))
    async def work() -> None:
        await confirm_async("one")
        await confirm_async("two", context=Context(cwd="/etc"))

    @requires_approval
    async def plainly() -> None:
        await confirm_async("three")

    for _ in range(5):
        approvals.approve()
    await work()
    await plainly()
    folders = [asked.context.cwd for asked in approvals.requests]
    assert folders == ["/srv", "/srv", "/etc", str(Path.cwd()), str(Path.cwd())]


@pytest.mark.parametrize("context", [lambda: "/srv", lambda: None, "/srv", {"cwd": "/srv"}])
def test_what_is_no_context_asks_nobody(approvals: ScriptedApprovals, context: Any) -> None:
    """A folder alone, for one; the function has not run."""
    ran: list[int] = []
    with pytest.raises(InvalidRequest, match="context"):
        requires_approval(context=context)(lambda: ran.append(1))()
    assert (ran, approvals.requests) == ([], [])


def submitted(**changes: Any) -> tuple[Callable[[bytes], bytes], list[JsonObject]]:
    """Return an approval of what is asked, and the list that the request comes into."""
    seen: list[JsonObject] = []

    def reply(call: bytes) -> bytes:
        seen.append(json.loads(call.partition(b"\r\n\r\n")[2])["request"])
        return deciding(**changes)(call)

    return reply, seen


def test_ask_shows_the_folder_of_cwd(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a whole path without links; without the option the shell's own."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    for words, cwd in ((("--cwd", "link"), "real"), ((), ".")):
        reply, seen = submitted()
        assert run(reply, words=("ask", "shell", *words, "--", "pwd"))[0] == 0
        assert seen[0]["context"]["cwd"] == str((tmp_path / cwd).resolve())


@pytest.mark.parametrize("folder", ["missing", "file", ""])
def test_ask_in_no_folder_asks_nobody(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """A usage error."""
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert run(words=("ask", "shell", "--cwd", folder, "--", "pwd")) == (2, [])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("pwd", "{there}"),
        ("pwd; echo 'it''s'", "{there}\nits"),
        ("false || pwd", "{there}"),
        ("pwd # the end", "{there}"),
        ("(exit 3); pwd", "{there}"),
    ],
)
def test_the_command_that_ask_prints_runs_in_the_folder(
    run: Any, capfd: pytest.CaptureFixture[str], tmp_path: Path, command: str, said: str
) -> None:
    """Also an edited one; the shell that evaluates it stays where it is."""
    there = tmp_path / "it's a $folder"
    there.mkdir()
    edit = {"action": Action.EDIT, "arguments": {"command": command}}
    words = ("ask", "shell", "--cwd", str(there), "--edit", "--", "ls")
    assert run(submitted(**edit)[0], words=words)[0] == 0
    printed = capfd.readouterr().out
    script = 'eval "$1"; pwd'
    done = subprocess.run(
        ["sh", "-c", script, "sh", printed], capture_output=True, text=True, cwd="/", check=True
    )
    assert done.stdout == said.format(there=there.resolve()) + "\n/\n"


def test_nothing_runs_elsewhere_when_the_folder_is_gone(
    run: Any, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Nor what ends the brackets: a text that is no command of its own runs not at all."""
    there = tmp_path / "gone"
    for command in ("false || touch ran", "true ) ; touch ran; ( true"):
        there.mkdir()
        edit = {"action": Action.EDIT, "arguments": {"command": command}}
        words = ("ask", "shell", "--cwd", str(there), "--edit", "--", "ls")
        assert run(submitted(**edit)[0], words=words)[0] == 0
        printed = capfd.readouterr().out
        there.rmdir()
        subprocess.run(["sh", "-c", printed], capture_output=True, cwd=tmp_path, check=False)
        assert list(tmp_path.iterdir()) == []


def test_ask_declares_roles(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Only where they are given; a mistake asks nobody."""
    reply, seen = submitted()
    words = ("ask", "note", "--arguments", '{"a=b": "x", "text": "y"}')
    assert run(reply, reply, words=words)[0] == 0
    assert "roles" not in seen[0]
    declared = ("--role", "text=data", "--role", "a=b=id")
    assert run(reply, words=(*words, *declared))[0] == 0
    assert seen[1]["roles"] == {"text": "data", "a=b": "id"}
    for wrong in ("text", "text=dta", "=data"):
        assert run(words=(*words, "--role", wrong)) == (2, [])
    assert "did you mean data?" in capsys.readouterr().err


def test_the_demo_runs_where_its_cards_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its `rm -rf .` names the scratch folder, not that of whoever tries it."""
    folders: list[str | None] = []

    def decide(request: Any) -> bool:
        folders.append(request.context.cwd)
        return "rm" not in request.arguments["command"]

    def made(agent: str, **how: Any) -> Client:
        return Client(CallableTransport(decide, agent), **how)

    monkeypatch.setattr(Client, "from_env", made)
    monkeypatch.setattr("sys.argv", ["demo", str(tmp_path)])
    assert demo_agent.main() == 0
    assert folders == [str(tmp_path.resolve())] * 4
    assert {path.name for path in tmp_path.iterdir()} == {"hello.txt", "words.txt"}
    assert capsys.readouterr().out.count("\n") == 4
