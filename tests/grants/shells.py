"""Real shells in a scratch folder, where every program of the table is a stub that writes down how
it was called, and commands made of the table to give them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from gateway.policy.calls.known_commands import CommandSpec, Operands, table

# Shells do these themselves, some of them at least, so that no stub is called.
BUILT_IN = frozenset({"echo", "pwd", "which", "realpath"})
_STUB = '#!/bin/sh\nprintf "%s\\0" "$#" "${0##*/}" "$@" >>"$CALLS"\n'
# Names that a glob, a brace or a tilde would find, were it let through.
_FILES = ("a.txt", "b.txt", "n", "{a,b}", "~", "-rf", "x=y", "é", "a b", "*", "M2")

# How each shell is given a command: as a script, and to bash as if somebody typed it.
_SHELLS: dict[str, list[str]] = {
    "bash": ["bash", "--norc", "-O", "extglob", "-O", "globstar", "-O", "expand_aliases", "-c"],
    "bash typed": ["bash", "--norc", "-o", "history", "-o", "histexpand", "-s"],
    "dash": ["dash", "-c"],
    "sh": ["sh", "-c"],
    "zsh": ["zsh", "-f", "-c"],
    "mksh": ["mksh", "-c"],
    "yash": ["yash", "-c"],
    "busybox": ["busybox", "sh", "-c"],
}
PRESENT = {name: argv for name, argv in _SHELLS.items() if shutil.which(argv[0])}


class Scratch:
    """A folder with stubs for all programs of the table, and nothing else on the path."""

    def __init__(self, folder: Path) -> None:
        self.work, self._bin, self._calls = folder / "ws", folder / "bin", folder / "calls"
        self.work.mkdir()
        self._bin.mkdir()
        stub = self._bin / "stub"
        stub.write_text(_STUB)
        stub.chmod(0o755)
        # `touch` and `sh` stand for what an attacker would want to run besides.
        for name in {known.program for known in table()} | {"touch", "sh", "rm", "stub2"}:
            (self._bin / name).symlink_to("stub")
        for name in _FILES:
            (self.work / name).write_text("")
        self._before = self._seen()

    def calls(self, shell: str, text: str) -> list[list[str]]:
        """Run a command in a shell; return the programs that were run, each with its arguments."""
        self._calls.write_bytes(b"")
        argv = [shutil.which(PRESENT[shell][0]) or "", *PRESENT[shell][1:]]
        typed = argv[-1] == "-s"
        env = {"PATH": str(self._bin), "CALLS": str(self._calls), "HOME": str(self._bin)}
        subprocess.run(
            argv if typed else [*argv, text],
            input=f"stub2 touch M\n{text}\n".encode() if typed else b"",
            cwd=self.work,
            env={**env, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            timeout=60,
            check=False,
        )
        found = _parsed(self._calls.read_bytes().split(b"\0")[:-1])
        return [call for call in found if call[0] != "stub2"]

    @property
    def untouched(self) -> bool:
        """Whether no file was made, removed or written."""
        return self._seen() == self._before

    def _seen(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in self.work.iterdir()}


def _parsed(fields: list[bytes]) -> list[list[str]]:
    found: list[list[str]] = []
    while fields:
        count = int(fields[0])
        found.append([field.decode() for field in fields[1 : count + 2]])
        fields = fields[count + 2 :]
    return found


_VALUES = st.sampled_from(
    ["1", "a.txt", "src/b.py", "main", "HEAD~1", "x", "*.py", "a b", "it's", "a;b", "$x", "`x`",
     "--x=y", "~", "!x", "{a,b}", "é", "a\\b", "#x", "%h %s", "a=b", "@x", "&", "|", ">M", "",
     "1,5p", "!!", "^a^b", "[a]", "x\ty", "(x)", "\\", "-"]
)  # fmt: skip
_QUOTES: tuple[Callable[[str], str], ...] = (str, shlex.quote, "'{}'".format, '"{}"'.format)
_QUOTED = st.builds(lambda quote, text: quote(text), st.sampled_from(_QUOTES), _VALUES)


@st.composite
def known_commands(draw: st.DrawFn, known: CommandSpec | None = None) -> str:
    """Draw a command of the table, or this one, with some of its flags, spelled well or badly."""
    known = known or draw(st.sampled_from(table()))
    words = [known.program, *known.verbs]
    names = sorted(known.flags)
    for name in draw(st.lists(st.sampled_from(names), max_size=3)) if names else ():
        value = known.flags[name].value
        glue = draw(st.sampled_from(["=", " ", ""]))
        words.append(name if value is None else f"{name}{glue}{draw(_QUOTED)}")
    letters = [name[1] for name in names if len(name) == 2]
    cluster = draw(st.lists(st.sampled_from(letters), max_size=4)) if letters else []
    words += ["-" + "".join(cluster)] if cluster else []
    most = 0 if known.operands is Operands.NONE else 3
    words += draw(st.lists(_QUOTED, max_size=most))
    return draw(st.sampled_from([" ", "  "])).join(words)
