"""The oracle is not blind: it sees a call that goes beyond the words, in every toy host.

And it is not merely strict: it lets pass what the words say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import PASSES, Grant, MatchResult
from tests.grants.hostile.base_calls import BASE_CALLS, FOLDER, BaseCall
from tests.grants.hostile.cell import Cell
from tests.grants.hostile.hostile_calls import with_value
from tests.grants.hostile.judgement import judge
from tests.grants.hostile.search import Covers, Search
from tests.grants.hostile.toy_hosts import HOSTS
from tests.grants.hostile.words import Claim, WordsNotUnderstoodError, understand

pytestmark = pytest.mark.xdist_group("cell")

_LS = f"ls on any paths in {FOLDER}, without flags, run in {FOLDER}"
_EACH = f"each command of a list: {_LS}"
_ON = f"on anything in {FOLDER}/src, by its name; links are not followed here"
_EDITS = "creating and changing files below where the agent works, not deleting"
_EXACT = "exactly this: x"
_BEGIN = "*** Begin Patch\n*** Update File: {}\n@@\n+x\n*** End Patch"
_DIFF = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-marker-of-{1}\n+b\n"
Row = tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]
# Of each host: words, the remembered call, one that the words permit, and one that they do not.
ROWS: dict[str, Row] = {
    "shell": (_LS, {"command": "ls"}, {"command": "ls src"}, {"command": "ls src; evil"}),
    "shell per element": (
        _EACH, {"commands": ["ls"]}, {"commands": ["ls", "ls src"]}, {"commands": ["ls", "evil"]},
    ),
    "argv": (_LS, {"argv": ["ls"]}, {"argv": ["ls", "src"]}, {"argv": ["cat", "a.txt"]}),
    "join by space": (
        _EACH, {"commands": ["ls"]}, {"commands": ["ls", "src"]}, {"commands": ["ls", "/etc"]},
    ),
    "login shell": (
        f"git log with any names, without flags, by bash -lc, run in {FOLDER}",
        {"command": ["bash", "-lc", "git log"]},
        {"command": ["bash", "-lc", "git log main"]},
        {"command": ["bash", "-lc", "git log main"], "workdir": "/srv/other"},
    ),
    "HTML-decoding shell": (
        _LS, {"command": "ls"}, {"command": "ls src"}, {"command": "ls src &amp; evil"},
    ),
    "session": (_EXACT, {"chars": "ls"}, {"chars": "ls"}, {"chars": "cat a.txt"}),
    "code": (_EXACT, {"code": "1"}, {"code": "1"}, {"code": "evil"}),
    "sqlite": (
        _EXACT, {"query": "select 1"}, {"query": "select 1"},
        {"query": "attach '/srv/other/db' as x; create table x.t(a)"},
    ),
    "reader": (
        f"Read {_ON}", {"path": "src/a.py"}, {"path": "src/b.py"}, {"path": "src/../a.txt"},
    ),
    "percent-decoding reader": (
        f"Read {_ON}", {"path": "src/a.py"}, {"path": "src/b.py"}, {"path": "src/%2e%2e/a.txt"},
    ),
    "writer": (
        f"Edit {_ON}", {"path": "src/a.py"}, {"path": "src/b.py"},
        {"path": "src/b.py", "edits": [{"file": "/srv/other/x"}]},
    ),
    "joined writer": (
        _EDITS, {"directory": "docs", "filename": "a.md"},
        {"directory": "docs", "filename": "b.md"}, {"directory": ".ssh", "filename": "config"},
    ),
    "deleter": (_EDITS, {"path": "x"}, {"path": "none"}, {"path": "a.txt"}),
    "mover": (
        _EDITS, {"source": "x", "destination": "y"}, {"source": "a.txt", "destination": "c.txt"},
        {"source": "a.txt", "destination": "/srv/other/new"},
    ),
    "copier": (
        _EDITS, {"source": "x", "destination": "y"}, {"source": "a.txt", "destination": "c.txt"},
        {"source": "id_rsa", "destination": "c.txt"},
    ),
    "linker": (
        _EDITS, {"source": "x", "target": "y"}, {"source": "a.txt", "target": "c.txt"},
        {"source": "a.txt", "target": "/srv/other/new"},
    ),
    "editor": (
        f"text_editor {_ON}", {"command": "view", "path": "src/a.py"},
        {"command": "view", "path": "src/b.py"}, {"command": "create", "path": "src/b.py"},
    ),
    "looker": (
        f"Grep {_ON}", {"pattern": "*.py", "path": "src"}, {"pattern": "*.py", "path": "src"},
        {"pattern": "*", "path": "docs"},
    ),
    "begin-patch": (
        _EDITS, {"input": _BEGIN.format("a.txt")}, {"input": _BEGIN.format("b.txt")},
        {"input": _BEGIN.format("/root/.bashrc")},
    ),
    "git patch": (
        _EDITS, {"patch": _DIFF.format("a.txt", "")}, {"patch": _DIFF.format("b.txt", "")},
        {"patch": _DIFF.format(".git/hooks/pre-commit", "")},
    ),
    "patch(1)": (
        _EDITS, {"patch": _DIFF.format("a.txt", "srv/app/a.txt")},
        {"patch": _DIFF.format("b.txt", "srv/app/b.txt")},
        {"patch": _DIFF.format(".bashrc", "srv/app/.bashrc")},
    ),
    "patch beside a path": (
        _EDITS, {"path": "a.txt", "diff": "@@"}, {"path": "b.txt", "diff": "@@"},
        {"path": "a.txt", "diff": _DIFF.format("CLAUDE.md", "")},
    ),
    "messenger": (
        "post with any text, always with channel = #ops", {"channel": "#ops", "text": "a"},
        {"channel": "#ops", "text": "b"}, {"channel": "#all", "text": "b"},
    ),
    "fetcher": (_EXACT, {"url": "https://a"}, {"url": "https://a"}, {"url": "https://evil"}),
    "doer": (_EXACT, {"amount": 5}, {"amount": 5}, {"amount": 500}),
    "keeper": (
        "everything that TodoWrite can do with any declared arguments",
        {"todos": []}, {"todos": [{"content": "a"}]},
        {"todos": [], "command": "evil"},
    ),
    "tracker": (
        "everything that task_tracker can do with task_list and what is declared",
        {"command": "view"}, {"command": "plan"}, {"command": "view", "cmd": "evil"},
    ),
    "dispatcher": (
        _EXACT, {"tool_name": "a", "arguments": '{"n": 1}'},
        {"tool_name": "a", "arguments": '{"n": 1}'},
        {"tool_name": "a", "arguments": '{"command": "evil"}'},
    ),
}  # fmt: skip


def test_every_toy_host_has_a_row() -> None:
    """No host is left out of the check of the oracle."""
    assert set(ROWS) == set(HOSTS)


@pytest.mark.parametrize("host", ROWS)
def test_the_oracle_sees_what_goes_beyond_the_words(cell: Cell, host: str) -> None:
    """Each host: the permitted call passes, the other one is found."""
    words, first, permitted, beyond = ROWS[host]
    claim = understand(words)
    before = cell.carry_out(host, "tool", first)
    assert judge(claim, before, cell.carry_out(host, "tool", permitted), FOLDER) == []
    assert judge(claim, before, cell.carry_out(host, "tool", beyond), FOLDER) != []


# They only speak about a call, stand in the file, or are kept: another value does nothing else.
_INNOCENT = {
    "description", "timeout", "justification", "explanation", "offset", "limit", "old_string",
    "new_string", "content", "old_str", "new_str", "replace_all", "append", "instruction", "text",
    "search", "replace", "code_edit", "instructions", "new_source", "dryRun", "body", "subject",
    "title", "diff", "edits", "login", "tty", "todos", "plan",
}  # fmt: skip


_LEAVES = [(call, name) for call in BASE_CALLS for name in call.arguments if name not in _INNOCENT]


def _ignoring(name: str) -> Covers:
    """Return a coverage that is too wide: it does not look at one argument."""

    def covering(grant: Grant, first: StoredRequest, then: StoredRequest) -> bool:
        if grant.match.shape in PASSES:
            return False
        arguments = {**then.arguments, name: first.arguments[name]}
        if arguments == first.arguments:
            return True
        unseen = replace(then, request=replace(then.request, arguments=arguments))
        return covers(grant, unseen) is MatchResult.YES

    return covering


def _one_for_each_host() -> list[tuple[BaseCall, str]]:
    found = {host: one for one in reversed(_LEAVES) for host in one[0].hosts}
    return [(replace(call, hosts=(host,)), leaf) for host, (call, leaf) in found.items()]


def _is_seen(cell: Cell, call: BaseCall, leaf: str) -> bool:
    search = Search(cell, _ignoring(leaf))
    return any(search.look_at([then]).found for then in with_value(call, leaf))


def test_a_coverage_that_is_too_wide_is_found_in_every_toy_host(cell: Cell) -> None:
    """Were one argument not looked at, its hostile values would be found; nothing that a keeper
    or a tracker is given does anything, so that there is none for them."""
    mutants = _one_for_each_host()
    assert {call.hosts[0] for call, _ in mutants} == set(HOSTS) - {"keeper", "tracker"}
    unseen = [(call.hosts[0], leaf) for call, leaf in mutants if not _is_seen(cell, call, leaf)]
    assert unseen == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_coverage_that_ignores_any_argument_is_found(cell: Cell) -> None:
    """The same for each argument of each call that does more than speak."""
    unseen = [(call.name, leaf) for call, leaf in _LEAVES if not _is_seen(cell, call, leaf)]
    assert unseen == []


def test_words_are_understood_or_refused() -> None:
    """The grammar reads what people are told, and nothing else."""
    words = (
        "git log with any names, with no flags but -n --oneline, always with --no-textconv, run in "
        "/srv/app on prod, always with workdir = /srv/app, user = kim; whatever description, "
        "timeout say"
    )
    assert understand(words) == Claim(
        shape="command",
        command=("git", "log"),
        operands=True,
        folder="/srv/app",
        flags=frozenset({"-n", "--oneline"}),
        run_in="/srv/app",
        host="prod",
        fixed=frozenset({"workdir", "user"}),
        free=frozenset({"description", "timeout"}),
    )
    with pytest.raises(WordsNotUnderstoodError):
        understand("whatever it likes")
