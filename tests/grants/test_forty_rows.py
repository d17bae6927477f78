"""Remembered calls and next ones, row by row: what is covered, what asks, what is never offered."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from gateway.models import Context, Kind
from gateway.policy.grants.grant import Answer, Shape
from gateway.policy.grants.offers import offers
from tests.grants.making import allowed, asked, granted

C, F, T = Kind.COMMAND, Kind.FILE_CHANGE, Kind.TOOL
Call = tuple[str, Kind, dict[str, Any]]
HUNK, OTHER_HUNK = "@@\n-a\n+b", "@@\n-c\n+d"
EDITOR = {"command": "str_replace", "path": "/ws/src/a.py", "old_str": "a", "new_str": "b"}
NOTE = {"channel": "#ops", "text": "All is well."}
MAIL = {"to": "kim@example.org", "subject": "Hi there", "body": "All is well."}


def bash(text: str) -> dict[str, Any]:
    """Return arguments of a command that comes as a list for a shell."""
    return {"command": ["bash", "-lc", text]}


# The row, what was remembered with each offer there is, and the next call's arguments.
COVERED: list[tuple[int, str, Kind, dict[str, Any], dict[str, Any]]] = [
    (2, "terminal", C, {"commands": ["ls"]}, {"commands": ["ls", "ls src"]}),
    (4, "shell", C, bash("git status"), bash("git status -s")),
    (6, "shell", C, {"argv": ["ls", "-la"]}, {"argv": ["ls", "-la", "b"]}),
    (12, "shell", C, {"command": "ls", "host": "prod"}, {"command": "ls -la", "host": "prod"}),
    (19, "apply_patch", F, {"type": "update_file", "path": "a/x", "diff": HUNK},
     {"type": "update_file", "path": "a/y", "diff": OTHER_HUNK}),
    (25, "post_message", T, NOTE, {**NOTE, "text": "Two tests fail."}),
    (27, "send_email", T, MAIL, {**MAIL, "subject": "Yes it is", "body": "Done again."}),
    (29, "Edit", F, {"file_path": "/ws/src/a.py", "old_string": "a", "new_string": "b"},
     {"file_path": "/ws/src/b.py", "old_string": "c", "new_string": "d"}),
    (38, "get_weather", T, {"city": "Bergen"}, {"city": "Oslo"}),
]  # fmt: skip
ASKS: list[tuple[int, str, Kind, dict[str, Any], list[dict[str, Any]]]] = [
    (1, "terminal", C, {"commands": ["ls"]}, [{"commands": ["ls", "./evil.sh"]}]),
    (5, "shell", C, bash("git status"),
     [{"command": ["sh", "-c", "git status"]}, bash("git status; x")]),
    (9, "shell", C, {"command": "pytest tests", "dir_path": "/ws/app"},
     [{"command": "pytest tests", "dir_path": "/tmp/evil"}]),
    (12, "shell", C, {"command": "ls", "host": "prod"}, [{"command": "ls", "host": "x"}]),
    (13, "exec_command", C, {"cmd": "cat a", "workdir": "/ws"},
     [{"cmd": "cat a", "workdir": "/ws", "sandbox_permissions": "require_escalated"}]),
    (14, "Bash", C, {"command": "ls", "timeout": 5},
     [{"command": "ls", "timeout": 10**9}, {"command": "ls", "timeout": "x"}]),
    (15, "execute_bash", C, {"command": "ls", "is_input": "false"},
     [{"command": "ls", "is_input": "true"}]),
    (18, "apply_patch", F, {"patch": HUNK, "explanation": "Mend it"},
     [{"patch": "*** Begin Patch\n*** Update File: .bashrc\n@@\n+x\n*** End Patch",
       "explanation": "Mend it"}]),
    (20, "apply_patch", F, {"type": "update_file", "path": "a/x", "diff": HUNK},
     [{"type": "delete_file", "path": "a/x", "diff": HUNK},
      {"type": "update_file", "path": "a/x", "diff": HUNK, "move_to": "a/z"},
      {"type": "update_file", "path": "a/x", "diff": f"--- a/q\n+++ b/q\n{HUNK}"}]),
    (22, "use_mcp_tool", T,
     {"server_name": "github", "tool_name": "get_issue", "arguments": '{"n": 1}'},
     [{"server_name": "shell", "tool_name": "get_issue", "arguments": '{"n": 1}'},
      {"server_name": "github", "tool_name": "get_issue", "arguments": '{"n": 2}'}]),
    (26, "post_message", T, NOTE,
     [{**NOTE, "channel": "#all"}, {**NOTE, "text": "<!channel> look"},
      {**NOTE, "attachment": ".env"}, {**NOTE, "thread_ts": "1.2"}]),
    (27, "send_email", T, MAIL, [{**MAIL, "bcc": "x@example.org"}]),
    (30, "Edit", F, {"file_path": "/ws/src/a.py", "old_string": "a", "new_string": "b"},
     [{"file_path": path, "old_string": "a", "new_string": "b"} for path in (
         "/ws/src/.git/hooks/x", "/ws/src/CLAUDE.md", "/ws/src/../x", "/ws/src/%2e%2e/x")]),
    (32, "writer", F, {"directory": "docs", "filename": "a.md", "content": "x"},
     [{"directory": ".ssh", "filename": "config", "content": "x"}]),
    (33, "str_replace_editor", F, EDITOR, [{**EDITOR, "command": "undo_edit"}]),
    (38, "get_weather", T, {"city": "Bergen"},
     [{"city": "/etc/passwd"}, {"city": "$(reboot)"}, {"city": "Oslo", "path": "/etc/passwd"}]),
]  # fmt: skip
EXACT: list[tuple[int, str, Kind, dict[str, Any]]] = [
    (3, "run", C, {"command": ["cat", "a"]}),
    *((8, "shell", C, {"command": "cat a", "workdir": one}) for one in (
        "/", "~/.ssh", "/etc/cron.d")),
    (10, "shell", C, {"command": "git log", "env": {"A": "1"}}),
    (11, "shell", C, {"command": "cat a", "user": "root"}),
    (11, "shell", C, {"command": "cat a", "sudo": True}),
    (16, "npm", T, {"command": "ls"}),
    (16, "redis", C, {"command": "echo a"}),
    (17, "do_it", C, {"t": "x", "task": "Look at the nightly run."}),
    (21, "write_stdin", C, {"session_id": 1, "chars": "ls"}),
    (21, "send_keys", T, {"keys": "ls"}),
    (21, "interact_with_process", T, {"pid": 1, "input": "ls"}),
    (23, "db_read", T, {"q": "select 1"}),
    (23, "graph", T, {"cypher": "match n"}),
    (23, "page", T, {"js": "alert(1)"}),
    (23, "k8s", T, {"manifest": "kind: x"}),
    (24, "Task", T, {"prompt": "Look at it, please."}),
    (24, "cron", T, {"message": "Look at it, please."}),
    (24, "SendMessage", T, {"to": "agent-2", "message": "Look at it, please."}),
    (24, "save_memory", T, {"fact": "Always say yes."}),
    (28, "http_post", T, {"url": "https://example.com/x", "body": "some words"}),
    (31, "move_file", F, {"path": "/ws/a", "destination": "/ws/b"}),
    (31, "copy", F, {"src": "/ws/a", "dst": "/ws/b"}),
]  # fmt: skip


def wide(record: StoredRequest) -> list[Any]:
    """Return a grant of each offer but the exact one."""
    return [granted(one.match) for one in offers(record) if one.match.shape is not Shape.EXACT]


@pytest.mark.parametrize(("row", "tool", "kind", "first", "then"), COVERED)
def test_covered(
    row: int, tool: str, kind: Kind, first: dict[str, Any], then: dict[str, Any]
) -> None:
    """What an approver means by such a call goes through."""
    grants = wide(asked(tool, kind=kind, arguments=first))
    assert allowed(grants, asked(tool, kind=kind, arguments=then)), row


@pytest.mark.parametrize(("row", "tool", "kind", "first", "others"), ASKS)
def test_asks(
    row: int, tool: str, kind: Kind, first: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    """Another action, address, folder or right asks, whatever was remembered."""
    record = asked(tool, kind=kind, arguments=first)
    grants = [granted(one.match) for one in offers(record)]
    for then in others:
        assert not allowed(grants, asked(tool, kind=kind, arguments=then)), (row, then)


@pytest.mark.parametrize(("row", "tool", "kind", "arguments"), EXACT)
def test_exact_only(row: int, tool: str, kind: Kind, arguments: dict[str, Any]) -> None:
    """A text that is the action, a second path, more rights: exactly this, or nothing."""
    made = offers(asked(tool, kind=kind, arguments=arguments))
    assert [one.match.shape for one in made] == [Shape.EXACT], (row, [one.words for one in made])


def test_the_words_name_the_folder_in_which_it_runs() -> None:
    """Row 7: that of the argument, not that of the context; row 12: the host."""
    here = Context(cwd="/srv/app")
    arguments = {"command": "cat README.md", "cwd": "/srv/other"}
    made = offers(asked("shell", kind=C, arguments=arguments, context=here))
    assert len(made) > 1
    assert all("/srv/other" in one.words and "/srv/app" not in one.words for one in made)
    made = offers(asked("shell", kind=C, arguments={"command": "ls", "host": "prod"}))
    assert all("prod" in one.words for one in made)


@pytest.mark.parametrize("tool", ["x", "get_item", "redis", "mcp__a__b", "think", "deploy"])
def test_a_whole_tool_is_declared_harmless(tool: str) -> None:
    """Row 39: by nobody's name; for one that is declared, other values of the same arguments."""
    made = offers(asked(tool, arguments={"x": "1"}))
    assert Answer.TOOL not in {one.match.answer for one in made}
    declared = asked(tool, arguments={"x": "1"}, harmless=True)
    whole = [one for one in offers(declared) if one.match.answer is Answer.TOOL]
    assert len(whole) == 1
    grant = [granted(whole[0].match)]
    assert allowed(grant, asked(tool, arguments={"x": "2"}, harmless=True))
    for other in ({"x": "/etc/passwd"}, {"x": "http://a.example"}, {"x": "1", "y": "2"}):
        assert not allowed(grant, asked(tool, arguments=other, harmless=True)), other
