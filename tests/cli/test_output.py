"""What commands print: JSON everywhere, heads and colours on a terminal, exit codes, completion."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.completion import commands_and_words
from gateway.models import new_id
from tests.cli.shell import Shell
from tests.frame.tree import ROOT

NO_DATA = {"gateway up", "gateway demo", "gateway adapter", "gateway completion", "gateway hook",
           "gateway bridge", "gateway install", "gateway mcp", "gateway run", "gateway wait",
           "gateway"}  # fmt: skip


def on_a_terminal(shell: Shell, *words: str, **env: str) -> str:
    """Return what a command prints on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gateway.cli", *words]
    where = {**shell.env, "TERM": "xterm", "NO_COLOR": "", **env}
    with subprocess.Popen(command, cwd=ROOT, env=where, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            said += part
        assert process.wait() == 0, said
    os.close(ours)
    return said.decode()


def test_tables_have_heads_and_colours_on_a_terminal_alone(up: Shell) -> None:
    """A pipe gets rows alone; NO_COLOR and a dumb terminal get no colours."""
    up.call("ask", "shell", "--no-wait", "--", "ls")
    for words, head in (
        (("approver", "list"), "APPROVER"),
        (("agent", "list"), "AGENT"),
    ):
        assert head not in up.run(*words)
        assert on_a_terminal(up, *words).startswith(f"\x1b[2m{head}")
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert on_a_terminal(up, "approver", "list", **env).startswith("APPROVER")


def test_a_high_risk_is_red(up: Shell, tmp_path: Path) -> None:
    """The word of the risk, and nothing else of the row."""
    current = json.loads(up.run("policy", "show", "--json"))
    path = tmp_path / "policy.toml"
    owner = current["people"][0]["name"]
    path.write_text(
        f'[[people]]\nname = "{owner}"\nadmin = true\n[[routes]]\napprovers = ["{owner}"]\n'
        '[[risks]]\nname = "r"\ntools = ["shell"]\nlevel = "high"\nreason = "it is"\n',
        encoding="utf-8",
    )
    told = json.loads(up.run("apply", str(path), "--json"))
    assert told["applied"]
    assert told["changes"]
    up.call("ask", "shell", "--no-wait", "--", "ls")
    assert "\x1b[1;31mhigh risk\x1b[0m · " in on_a_terminal(up, "pending")


def test_a_row_fits_the_terminal_and_keeps_what_was_found(up: Shell) -> None:
    """Three lines, which a terminal has folded and never cut: what is approved without --yes was
    printed whole. A call beyond its row ends in `…`; what the guardrails found is always whole."""
    up.call("ask", "shell", "--no-wait", "--", "sh", "-c", f"echo {'日本 ' * 90}; rm -rf build")
    call, times, found = up.run("pending").splitlines()
    assert call.startswith('  1  ⚠️ agent "local" wants to run "sh -c ') and call.endswith("…")
    assert times.startswith("     asked ") and 'tool "shell" (command)' in times
    assert '· ⚠️ Guardrail: removes folders whole (in "command") · may approve: "owner" ·' in found
    for columns in ("80", "60"):
        rows = on_a_terminal(up, "pending", COLUMNS=columns, NO_COLOR="1").splitlines()
        assert all(sum(1 + (one in "日本") for one in row) <= int(columns) for row in rows)
        assert all(row.startswith("     ") for row in rows[1:])
        whole = "".join(row[5:] for row in rows)
        assert call[5:] in whole and found[5:] in whole
    assert "does not fit its row" in up.run("approve", "1", code=2)


def test_several_lines_are_printed_as_lines(up: Shell) -> None:
    """A script is read as one, and nothing in it can pass for a label of ours."""
    up.call("ask", "shell", "--no-wait", "--", "sh", "-c", "set -e\nnpm ci\nrisk low")
    found = json.loads(up.run("pending", "--json"))["request"]["id"]
    said = up.run("show", found)
    assert f"\n{' ' * 21}npm ci\n" in said and f"\n{' ' * 21}risk low" in said


def test_every_command_that_prints_data_prints_json() -> None:
    """One option, given where a command is made, so that none is forgotten."""
    without = {
        path
        for path, words in commands_and_words()
        if "--json" not in words and not any(word[0] != "-" for word in words)
    }
    assert without <= NO_DATA


def test_what_was_done_is_told_as_json(up: Shell, tmp_path: Path) -> None:
    """Each line is one JSON value with what a program needs next."""
    up.call("ask", "shell", "--no-wait", "--", "git", "log")
    waiting = json.loads(up.run("pending", "--json"))["request"]["id"]
    assert json.loads(up.run("approve", waiting, "--json"))["status"] == "approved"
    up.call("ask", "shell", "--no-wait", "--", "git", "diff")
    waiting = json.loads(up.run("pending", "--json"))["request"]["id"]
    assert json.loads(up.run("deny", waiting, "--json"))["status"] == "denied"
    grant = json.loads(up.run("grant", "list", "--json"))["id"]
    assert json.loads(up.run("grant", "revoke", grant, "--json")) == {"ids": [grant]}
    assert json.loads(up.run("stop-all", "--json")) == {"stopped": True, "waiting": 0}
    assert json.loads(up.run("resume", "--json")) == {"stopped": False}
    assert json.loads(up.run("login", "owner", "--json"))["url"].startswith("http")
    assert json.loads(up.run("agent", "lift", "local", "--json")) == {"lifted": False}
    up.run("audit", "export", str(tmp_path / "audit"))
    assert json.loads(up.run("audit", "verify", str(tmp_path / "audit"), "--json"))["events"] > 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show",), 2),
        (("show", "0" * 32), 8),
        (("grant", "show", "0" * 32), 8),
        (("approver", "revoke", "nobody"), 8),
        (("agent", "add", "local"), 10),
        (("explain", "local", "shell", "--arguments", "{"), 2),
    ],
)
def test_exit_codes_tell_failures_apart(up: Shell, words: tuple[str, ...], code: int) -> None:
    """As the table of the page has them."""
    up.call("ask", "shell", "--no-wait", "--", "ls")
    assert up.call(*words)[0] == code
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| {code} \|", page, re.MULTILINE)


def test_a_bad_token_is_no_access(up: Shell) -> None:
    """Told apart from a gateway that is away."""
    assert up.call("pending", env={"GATEWAY_APPROVER_TOKEN": f"agw_{new_id()[:16]}_x"})[0] == 9
    assert up.call("pending", env={"GATEWAY_DATA_DIR": "/nonexistent"})[0] == 5


SHELLS = {
    "bash": """eval "$(cat "$1")"; COMP_WORDS=(gateway grant re); COMP_CWORD=2; _gateway
echo "${COMPREPLY[@]}"; COMP_WORDS=(gateway grant list --a); COMP_CWORD=3; _gateway
echo "${COMPREPLY[@]}" """,
    "fish": """source $argv[1]; complete -C 'gateway grant re'
complete -C 'gateway grant list --a'""",
}


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_completion_completes(up: Shell, tmp_path: Path, kind: str) -> None:
    """The script names every command; a shell that is here completes with it."""
    script = up.run("completion", kind)
    [*_, verbs] = (words for path, words in commands_and_words() if path == "gateway")
    for verb in verbs:
        assert verb in script
    found = shutil.which(kind)
    if found is None or kind not in SHELLS:
        return
    path = tmp_path / "script"
    path.write_text(script, encoding="utf-8")
    after = [] if kind == "fish" else ["shell"]
    done = subprocess.run(
        [found, "-c", SHELLS[kind], *after, str(path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["revoke", "--agent"]
