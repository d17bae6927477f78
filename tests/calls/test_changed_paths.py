"""What a command may change is named: judged by the programs themselves."""

from __future__ import annotations

import itertools
import shlex
import subprocess
from pathlib import Path

import pytest

from gateway.policy.calls.command_effects import find_changed_paths

_OPTIONS = (
    "-r", "-f", "-rt d", "-t d", "-td", "-fTv", "--target-directory=d", "--target d", "--t=d",
    "--backup --suffix .x", "-S .x", "--",
)  # fmt: skip
_COPIES = (
    ("rsync -a --delete build/ web@shop:/var/www/", ("web@shop:/var/www/",)),
    ("rsync -a build/ host::www && ls", ("host::www",)),
    ("scp a.txt host:b", ("host:b",)),
    ("sudo cp a b", ("b",)),
    ("install -m 755 a b", ("b",)),
    ("mv a b", ("a", "b")),
    ("rsync --remove-source-files a b", ("a", "b")),
    ("rsync a b --exclude x", ("a", "b", "x")),
    ("rsync -a --log-file=l a b", ("l", "a", "b")),
    ("find . -exec cp {} b \\;", ("{}", "b", ";")),
    ("ls | xargs cp a b", ("a", "b")),
    ("cp a $X b", ("a", "$X", "b")),
)


@pytest.mark.parametrize(("command", "changed"), _COPIES)
def test_what_copies_changes_where_it_copies_to(command: str, changed: tuple[str, ...]) -> None:
    """Not what it only reads; every word, where that cannot be told apart."""
    assert set(changed) <= set(find_changed_paths(command))
    if len(changed) == 1:
        assert find_changed_paths(command) == changed
    assert "dir" not in find_changed_paths("rsync --backup-dir=x a b")


@pytest.mark.parametrize("program", ["cp", "ln", "install"])
def test_nothing_that_a_copy_changes_is_left_out(program: str, tmp_path: Path) -> None:
    """With options before, between and behind what is copied: whatever another file or folder is
    afterwards is named."""
    changes = 0
    for number, (option, at) in enumerate(itertools.product(_OPTIONS, range(3))):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = ["a", "b"]
        words[at:at] = option.split()
        _fill(folder)
        before = _look(folder)
        command = shlex.join([program, *words])
        subprocess.run([program, *words], cwd=folder, capture_output=True, check=False)
        changed = {name for name, seen in _look(folder).items() if before.get(name) != seen}
        changes += len(changed)
        said = find_changed_paths(command)
        for name in changed:
            assert name.partition("/")[0].removesuffix(".x").rstrip("~") in said, command
    assert changes > len(_OPTIONS)


def _fill(folder: Path) -> None:
    (folder / "d").mkdir()
    for name in ("a", "b"):
        (folder / name).write_text(name)


def _look(folder: Path) -> dict[str, tuple[str, int]]:
    """Return each file below a folder, what stands in it, and which one it is."""
    files = (one for one in folder.rglob("*") if not one.is_dir())
    return {
        str(one.relative_to(folder)): (one.read_text(), one.lstat().st_ino) for one in sorted(files)
    }
