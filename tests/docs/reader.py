"""Somebody who reads a page and types what it prints, in a folder that has what it needs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.cli.shell import Shell
from tests.ports import free_port

POLICY = """
trust_declarations = ["*"]
[[people]]
name = "owner"
admin = true
[[people]]
name = "ana"
[[routes]]
name = "default"
approvers = ["owner", "ana"]
"""
MAKEFILE = "all:\n\t@echo made\ndeploy release:\n\t@echo deployed\n"
_SHELL_SYNTAX = re.compile(r"[$`&|;<>*?~()\\]|^(?!gateway )")
_TOLD = re.compile(r"gateway approve ([0-9a-f]{32})$")
"""How whoever waits is told what to answer."""


def path_of_ours() -> str:
    """Return a PATH on which `gateway` and `python` are those of this environment."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


class Reader:
    """Types commands beside a gateway that runs, and fills what the pages leave open."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        self.env = env
        self._shell = Shell(folder)
        self._shell.env = env
        self._found: dict[str, str] = {}
        self._numbers = count(1)
        announced = json.loads((folder / "state" / "gateway.json").read_text(encoding="utf-8"))
        self._places: dict[str, Callable[[], str]] = {
            "http://127.0.0.1:8787": lambda: str(announced["url"]),
            "http://127.0.0.1:5700": lambda: f"http://127.0.0.1:{free_port()}",
            "5a82e156737e42ae": self._offer,
            "3f9c2a71": lambda: self.fill("ID")[:8],
            "$TOKEN": self._token,
            "$ID": lambda: self.fill("ID"),
            "ID": self._request,
            **dict.fromkeys(("ID2", "ID3", "ID4"), self._request),
            "REQUEST": self._request,
            "GRANT": lambda: str(json.loads(self.type("gateway grant list --json")[1])["id"]),
            "REVISION": lambda: "1",
            "OFFER": self._offer,
            "CODE": lambda: self.type("gateway login owner")[1].split()[0].partition("#code=")[2],
            "NAME": lambda: f"n{next(self._numbers)}",
            "AGENT": lambda: "local",
            "coder": lambda: "local",
            "SESSION": lambda: self.fill("ID") and "default",
            "PERSON": lambda: "owner",
            "TOOL": lambda: "shell",
            "COMMAND": lambda: "ls -l",
            "JSON": lambda: """'{"command": "ls -l"}'""",
            "FILE": lambda: "policy.toml",
        }
        words = "|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in self._places)
        self._open = re.compile(words)

    def begin(self, folder: Path) -> None:
        """Go to a folder that has what the pages speak of; nothing is filled in so far."""
        self._found.clear()
        (folder / "build").mkdir()
        for place in (folder, folder / "build"):
            (place / "Makefile").write_text(MAKEFILE, encoding="utf-8")
        (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
        (folder / "empty.toml").touch()
        script = folder / "deploy.sh"
        script.write_text("#!/bin/sh\necho deployed\n", encoding="utf-8")
        script.chmod(0o755)

    def fill(self, line: str) -> str:
        """Return a line with what the page leaves open; the same word is filled the same."""

        def found(word: re.Match[str]) -> str:
            if word[0] not in self._found:
                self._found[word[0]] = self._places[word[0]]()
            return self._found[word[0]]

        return self._open.sub(found, line)

    def type(self, line: str) -> tuple[int, str]:
        """Type a line that ends by itself; return its exit code and what it says."""
        line = self.fill(line)
        if not _SHELL_SYNTAX.search(line):
            return self._shell.call(*shlex.split(line)[1:])
        done = self._popen(line)
        said, _ = done.communicate(timeout=60)
        return done.returncode, said

    def ask(self, line: str, answer: str) -> tuple[int, str]:
        """Type a line that waits for a person, who answers so; return its code and words."""
        with self._popen(self.fill(line)) as asking:
            assert asking.stdout is not None
            said = told = ""
            while (waits := _TOLD.search(told)) is None:
                told = asking.stdout.readline()
                assert told, said
                said += told
            verb, *words = answer.split()
            code, refused = self.type(f"gateway {verb} {waits[1]} {' '.join(words)}")
            assert code == 0, refused
            said += asking.stdout.read()
        return asking.returncode, said

    def _popen(self, line: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "-c", line],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _request(self) -> str:
        """Ask as an agent; return the id of what waits then."""
        code, said = self.type("gateway ask shell --no-wait -- ls -l")
        assert code == 6, said
        return str(json.loads(said)["id"])

    def _offer(self) -> str:
        """Return the narrowest offer of the request."""
        return self.type("gateway grant offers ID")[1].split()[1]

    def _token(self) -> str:
        """Return the token of somebody who may decide."""
        name = f"n{next(self._numbers)}"
        return str(json.loads(self.type(f"gateway approver add {name} --json")[1])["token"])
