"""docs/guides/backup.md, typed as it is printed, from a running gateway to a restored one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cli.commands import CONFIRMABLE
from tests.cli.shell import Shell
from tests.frame.tree import ROOT

PAGE = (ROOT / "docs" / "guides" / "backup.md").read_text(encoding="utf-8")
HERE = re.sub(r"^## Kubernetes\n.*?(?=^## )", "", PAGE, flags=re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^ *```(sh|text)\n(.*?)^ *```$", HERE, re.MULTILINE | re.DOTALL)
TYPED = [line.split()[1:] for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
TYPED = [[one for one in words if one != "gateway"] for words in TYPED]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Yield a shell in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    made = Shell(tmp_path)
    yield made
    made.close()


def printed(number: int) -> re.Pattern[str]:
    """Return a printed output as a pattern: numbers and times may differ."""
    text = "\n".join(line.strip() for line in BLOCKS[number][1].splitlines())
    return re.compile(re.sub(r"\d+", r"\\d+", re.escape(text).replace(r"\ ", " ")))


def plain(said: str) -> str:
    """Return what was printed, without indents."""
    return "\n".join(line.strip() for line in said.splitlines())


def test_the_page_brings_a_gateway_back(shell: Shell, tmp_path: Path) -> None:
    """Each command of the page, with what it prints; then an agent asks again, and a person
    answers."""
    backup, restore, resume, export, verify = TYPED
    assert (backup, restore) == (["backup", "gw.backup"], ["restore", "gw.backup"])
    with shell.running_up() as gateway:
        gateway.says("Answer in the browser")
        shell.run("agent", "add", "bot")
        shell.run("ask", "--no-wait", "shell", "--", "ls", code=6)
        asked = json.loads(shell.run("pending", "--json").splitlines()[0])
        shell.run("approve", asked["request"]["id"], "--remember")
        shell.run("ask", "--no-wait", "shell", "--", "ls", "-l", code=6)
        assert printed(1).search(plain(shell.run(*backup)))
        assert "another gateway" in shell.run(*restore, code=5)
    folder, old = tmp_path / "state", tmp_path / "old"
    folder.rename(old)
    assert printed(3).search(plain(shell.run(*restore)))
    (folder / "signing.key").write_bytes((old / "signing.key").read_bytes())
    with shell.running_up() as gateway:
        gateway.says("The gateway is ready")
        confirms = re.findall(r"^ *\| `gateway (restore --confirm [\w-]+)`", PAGE, re.MULTILINE)
        assert [one.split()[-1] for one in confirms] == list(CONFIRMABLE)
        for words in confirms:
            shell.run(*words.split())
        assert "denied" in shell.run("ask", "shell", "--", "ls", code=1)
        shell.run(*resume)
        assert "approved by" in shell.run("ask", "shell", "--", "ls")
        shell.run(*export)
        assert printed(6).search(plain(shell.run(*verify)))
