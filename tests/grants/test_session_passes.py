"""A session's passes: each rule has a call that falls when the rule is taken out."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from gateway.models import Context, Kind
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import ANY_TOOL, PASSES, Match, MatchResult, Shape
from gateway.policy.grants.offers import passes_for
from gateway.policy.grants.session_passes import lets_edit
from tests.grants.harmless import COMMANDS, NEVER
from tests.grants.making import allowed, asked, command, granted, remembered

C, F, T = Kind.COMMAND, Kind.FILE_CHANGE, Kind.TOOL


def call(tool: str, kind: Kind, /, **arguments: Any) -> StoredRequest:
    """Return a request for a tool."""
    return asked(tool, kind=kind, arguments=arguments)


def passes(shape: Shape, record: StoredRequest) -> bool:
    """Whether a pass of this shape covers a call."""
    grant = granted(Match(shape=shape, tool=ANY_TOOL), session="default", expires_at=1000)
    return covers(grant, record) is MatchResult.YES


EDITS = [
    ("everyday", True, call("write", F, path="/ws/a", content="x", encoding="utf-8")),
    ("a row of the table", True, call("morph", F, path="/ws/a", edit="@@\n-a\n+b")),
    ("a folder that it may drop", False, call("write", F, path="a", cwd="/ws/b", content="x")),
    ("a moved file", True, call("rename", F, source="/ws/a", destination="/ws/b")),
    ("kind", False, call("write", T, path="/ws/a", content="x")),
    ("no file tool", False, call("frobnicate", F, path="/ws/a")),
    ("a server between", False, call("mcp__prod__write_file", F, path="/ws/a", content="x")),
    ("host argument", False, call("write", F, path="/ws/a", content="x", host="prod")),
    ("url", False, call("write", F, path="/ws/a", content="x", url="https://example.com/a")),
    ("environment", False, call("write", F, path="/ws/a", content="x", envs={"A": "1"})),
    ("rights", False, call("write", F, path="/ws/a", content="x", sudo=True)),
    ("unknown", False, call("write", F, path="/ws/a", content="x", post=True)),
    ("command", False, call("write", F, path="/ws/a", content="x", command="ls")),
    ("a nested call", False, call("write", F, path="/ws/a", tool_name="ls", arguments={})),
    ("names twice", False, call("write", F, path="/ws/a", Path="/ws/b", content="x")),
    ("an unknown object", False, call("write", F, path="/ws/a", x={"path": "/ws/b"})),
    ("JSON in a remark", False, call("create_file", F, path="/ws/a", explanation='{"a": 1}')),
    ("no path", False, call("create_file", F, content="x")),
    ("another verb", False, call("edit", F, path="/ws/a", type="publish")),
    ("an address as a switch", False,
     call("create_file", F, path="/ws/a", overwrite="https://example.com/a")),
    ("a link below", False, call("write", F, path="/ws/a", link="/ws/b")),
    ("deletes", False, call("delete_file", F, path="/ws/a")),
    ("deletes by its verb", False, call("edit", F, path="/ws/a", type="delete")),
    ("deletes a source", False, call("edit", F, path="/ws/a", operation="unlink")),
    ("moves nowhere", False, call("move_file", F, source="/ws/a")),
    ("deletes beside a second path", False,
     call("delete_file", F, path="/ws/a", destination="/ws/b")),
    ("its base is above", False, call("create_file", F, path="/ws/a", cwd="/", content="x")),
    ("switches mode", False, call("write", F, path="/ws/a", mode="0777")),
    ("below its folder, not below its base", False, call("write", F, path="/ws/a", cwd="/ws/b")),
    ("below its base, not where it works", False, call("write", F, path="a", cwd="/srv/other")),
    ("not readable as one path", False, call("write", F, path="/ws/a/../b", content="x")),
    ("delicate", False, call("write", F, path="/ws/.github/workflows/a.yml", content="x")),
    ("on the host where it works", True,
     asked("write", kind=F, arguments={"path": "/ws/a", "content": "x"},
           context=Context(cwd="/ws", host="laptop"))),
    ("nobody knows where it works", False,
     asked("create_file", kind=F, arguments={"path": "/srv/x"}, context=Context())),
    ("what was resolved lies elsewhere", False,
     asked("write", kind=F, arguments={"path": "/ws/a", "content": "x"},
           context=Context(cwd="/ws", files={"/srv/x": "0" * 64}))),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "record"), [row[1:] for row in EDITS],
                         ids=[row[0] for row in EDITS])  # fmt: skip
def test_a_pass_for_edits(wanted: bool, record: StoredRequest) -> None:
    """Creating, changing and moving files below where the agent works, and nothing more."""
    assert passes(Shape.EDITS, record) is wanted


def test_a_pass_for_edits_is_bound_to_a_folder_that_it_names() -> None:
    """An agent that says it works elsewhere does not take the pass with it."""
    write = {"path": "/home/ann/app/a.py", "content": "x"}
    record = asked("write", kind=F, arguments=write, context=Context(cwd="/home/ann"))
    nowhere = asked("write", kind=F, arguments={"path": "a"}, context=Context())
    assert lets_edit(record)
    assert lets_edit(record, "/home/ann/app")
    assert not lets_edit(record, "/home/ann/web")
    assert lets_edit(nowhere)
    assert not lets_edit(nowhere, "/home/ann/app")


LOOK = {"command": "ls"}
WORK = [
    ("a command that looks", True, call("Bash", C, command="ls -la src", description="Look")),
    ("a command that writes", True, call("Bash", C, command="echo hi > notes.txt")),
    ("a list of words", True, call("Bash", C, argv=["ls", "-la"])),
    ("a shell that is named", True, call("exec_command", C, cmd="ls", shell="/bin/bash")),
    ("a file that is read", True, call("Read", T, file_path="/ws/a.py", offset=3)),
    ("files that are searched", True, call("Grep", T, pattern="def main", path="/ws/src")),
    ("any files of an ending", True, call("Glob", T, pattern="**/*.py")),
    ("a change", True, call("write", F, path="/ws/a.md", content="Put it in .env, please")),
    ("a tool that is declared harmless", True, asked("keep", harmless=True, arguments={"a": "b"})),
    ("an unknown tool", False, call("keep", T, name="a")),
    ("a message", False, call("post_message", T, channel="#ops", text="Done")),
    ("words for an agent", False, call("Task", T, description="Fix", prompt="Fix it",
                                       subagent_type="x")),
    ("a look-up elsewhere", False, call("get_weather", T, city="Oslo")),
    ("a page of the web", False, call("WebFetch", T, url="https://example.com", prompt="Read")),
    ("code", False, call("python", C, code="print(1)")),
    ("input", False, call("Bash", C, command="ls", stdin="rm x")),
    ("a server's shell", False, call("mcp__ssh__exec", C, command="ls")),
    ("a list whose commands follow each other", False,
     call("shell", C, commands=["cd src", "echo x > /y"])),
    ("a list that leads away", False, call("shell", C, commands=["cd ..", "echo x > y"])),
    ("an unknown switch", False, call("Bash", C, command="ls", sandbox=False)),
    ("no rights asked for", True, call("Bash", C, command="ls", dangerouslyDisableSandbox=False)),
    ("in the background", True, call("Bash", C, command="ls", run_in_background=True)),
    ("a pattern that hides names", False, call("Glob", T, pattern="[.]env")),
    ("a pattern that leads up", False, call("Glob", T, pattern="**/../../*")),
    ("a second command", False, call("Bash", C, command="ls", cmd="rm x")),
    ("its own code", False, call("Bash", C, command="make test")),
    ("deletes", False, call("Bash", C, command="rm a")),
    ("a tool that deletes", False, call("delete_file", F, path="/ws/a")),
    ("reads elsewhere", False, call("Read", T, file_path="/srv/other/a.py")),
    ("reads by a pattern elsewhere", False, call("Glob", T, pattern="/srv/*.py")),
    ("reads what is delicate", False, call("Read", T, file_path="/ws/.env")),
    ("a pattern for what is delicate", False, call("Glob", T, pattern="src/.e*")),
    ("rights", False, call("Bash", C, **LOOK, sandbox_permissions="require_escalated")),
    ("environment", False, call("Bash", C, **LOOK, envs={"LD_PRELOAD": "x"})),
    ("a variable", False, call("Bash", C, command="LD_PRELOAD=./x ls")),
    ("another user", False, call("Bash", C, **LOOK, user="root")),
    ("the host where it works", True, asked("Bash", kind=C, arguments=LOOK,
                                  context=Context(cwd="/ws", host="prod"))),
    ("in the root", False, call("Bash", C, **LOOK, cwd="/")),
    ("in another folder", False, call("Bash", C, **LOOK, cwd="/srv/other")),
    ("below the folder", True, call("Bash", C, **LOOK, cwd="/ws/src")),
    ("not certain where", False, call("Bash", C, **LOOK, cwd="/ws/../x")),
    ("a call within", False, call("use_tool", T, tool_name="Bash", arguments=LOOK)),
    ("one name twice", False, call("Read", T, file_path="/ws/a", filePath="/ws/b")),
    ("what was resolved is delicate", False,
     asked("Bash", kind=C, arguments={"command": "cat a"},
           context=Context(cwd="/ws", files={"/ws/.env": "0" * 64}))),
    ("what was resolved lies elsewhere", False,
     asked("Bash", kind=C, arguments={"command": "cat a"},
           context=Context(cwd="/ws", files={"/srv/x": "0" * 64}))),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "record"), [row[1:] for row in WORK],
                         ids=[row[0] for row in WORK])  # fmt: skip
def test_a_pass_for_work(wanted: bool, record: StoredRequest) -> None:
    """It lets through what is known to look or to change files here, and nothing else."""
    assert passes(Shape.WORK, record) is wanted
    if wanted:
        assert passes(Shape.SCRIPTS, record)


def test_a_pass_from_a_card_is_bound_to_its_host() -> None:
    """What the words name is what it holds for: "now /ws on laptop"."""
    there, elsewhere = (
        asked("Bash", kind=C, arguments=LOOK, context=Context(cwd="/ws", host=host))
        for host in ("laptop", "prod")
    )
    for offer in passes_for(there):
        grant = granted(offer.match, session="default", expires_at=1000)
        assert covers(grant, there) is MatchResult.YES
        assert covers(grant, elsewhere) is not MatchResult.YES
    assert len(passes_for(there)) == 3


def test_running_own_code_is_a_pass_of_its_own() -> None:
    """Tests and scripts run only under the pass that names them."""
    own = ("./sub/black .", "./sub/jest --version", "pytest -v", "pytest --version")
    for text in ("make test", "npm test", "python3 x.py", "./run.sh", "git commit -m x", *own):
        assert passes(Shape.SCRIPTS, command(text)), text
        assert not passes(Shape.WORK, command(text)), text


def test_everyday_calls_go_through() -> None:
    """At least 90 of 100 everyday commands pass with tests and scripts chosen."""
    assert len(COMMANDS) >= 100
    assert len([text for text in COMMANDS if passes(Shape.SCRIPTS, command(text))]) >= 0.9 * len(
        COMMANDS
    )


@pytest.mark.parametrize("text", NEVER)
def test_what_is_not_known_requires_approval(text: str) -> None:
    """Under the widest pass, too."""
    assert not passes(Shape.SCRIPTS, command(text)), text


@pytest.mark.parametrize("name", ["Makefile", "sub/package.json", "conftest.py", "Gemfile",
                                  "build.rs", "vite.config.ts", "GNUmakefile", "Makefile/",
                                  "sub/./Makefile/.", ".rspec", ".eslintrc.json", "flake.nix",
                                  "mise.toml", "x.targets", "uv.lock"])  # fmt: skip
def test_files_that_commands_run_are_named_or_asked_about(name: str) -> None:
    """Under passes, and under a folder that was remembered from another file."""
    change = call("write", F, path=f"/ws/{name}", content="x")
    plain = call("write", F, path="/ws/notes.md", content="x")
    assert not any(passes(shape, change) for shape in PASSES)
    assert not passes(Shape.SCRIPTS, command(f"echo x > {name}"))
    assert not allowed([remembered(plain)], change)
    assert allowed([remembered(plain)], call("write", F, path="/ws/other.md", content="x"))
    read = call("Read", T, file_path=f"/ws/{name}")
    assert passes(Shape.WORK, read)


@pytest.mark.parametrize("verb", [{"x": "update"}, ["update"], [{}], {}])
def test_a_verb_that_is_no_text_asks(verb: object) -> None:
    """A list or an object in the place of a verb is not understood, and breaks nothing."""
    arguments = {"path": "/home/ann/app/a.py", "diff": "@@", "type": verb}
    assert not lets_edit(asked("apply_patch", kind=Kind.FILE_CHANGE, arguments=arguments))
