"""The `gateway` command in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO


class Shell:
    """Runs `gateway` with one state folder."""

    def __init__(self, folder: Path) -> None:
        self.env = {**os.environ, "GATEWAY_DATA_DIR": str(folder / "state"), "GATEWAY_PORT": "0"}

    def run(self, *words: str, code: int = 0, env: dict[str, str] | None = None) -> str:
        """Run a command; return what it printed. Its exit code must be the one given."""
        done = self.popen(*words, env=env)
        out, err = done.communicate(timeout=40)
        assert done.returncode == code, (words, done.returncode, out, err)
        return out + err

    def popen(
        self,
        *words: str,
        env: dict[str, str] | None = None,
        stderr: int | IO[str] = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", *words],
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
