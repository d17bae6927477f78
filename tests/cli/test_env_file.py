"""Settings from a file that is named, and from no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.frame.tree import ROOT

READ = ("policy", "show")


def test_a_file_is_read_only_where_it_is_named(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `.env` in the working folder is nobody's; the same file counts once it is named, for the
    agents' commands too, and what the environment says wins."""
    (tmp_path / ".env").write_text("GATEWAY_LOG_LEVEL=LOUD # no level\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert "GATEWAY_LOG_LEVEL" not in shell.run(*READ, code=5)
    for words in (("--env-file", ".env", *READ), ("--env-file=.env", *READ)):
        assert "GATEWAY_LOG_LEVEL" in shell.run(*words, code=2)
    won = {"GATEWAY_LOG_LEVEL": "INFO"}
    assert "GATEWAY_LOG_LEVEL" not in shell.run("--env-file", ".env", *READ, code=5, env=won)
    (tmp_path / "agent").write_text("GATEWAY_AGENT='No Name'\n", encoding="utf-8")
    assert "'No Name'" in shell.run("--env-file", "agent", "ask", "x", "--", "ls", code=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\nA=b c\n", "line 2: write NAME=VALUE"),
        ("A='b\n", "line 1"),
        ("A\n", "line 1: write"),
        (None, "cannot read"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    shell: Shell, tmp_path: Path, text: str | None, says: str
) -> None:
    """With its line; nothing runs with half of the settings."""
    if text is not None:
        (tmp_path / "env").write_text(text, encoding="utf-8")
    assert says in shell.run("--env-file", str(tmp_path / "env"), *READ, code=2)


def test_an_unknown_setting_is_said_at_the_start(shell: Shell) -> None:
    """With the nearest name there is; the example file, used as it is, warns of nothing."""
    typo = {"GATEWAY_POLICYFILE": "x", "GATEWAY_HOOKS_FILE": "/no/such/file"}
    said = shell.apart("up", code=2, env=typo)
    assert "GATEWAY_POLICYFILE is not a setting and has no effect: did you mean" in said
    example = ("--env-file", str(ROOT / ".env.example"), "up")
    said = shell.apart(*example, code=2, env={"GATEWAY_HOOKS_FILE": "/no/such/file"})
    assert "is not a setting" not in said
