"""The `gateway` command: in this process where it ends by itself, else in one of its own."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO

from gateway.cli import main
from tests.faults.processes import CONTEXT
from tests.signals import handlers_kept


@dataclass
class ForkedGateway:
    """A `gateway up` that was forked from a process that has imported it, and what it says."""

    process: ForkServerProcess
    stderr: IO[str]
    said: list[str] = field(default_factory=list)

    def says(self, pattern: str) -> str:
        """Read what it says up to the line that fits; return that line."""
        while line := self.stderr.readline():
            self.said.append(line)
            if re.search(pattern, line):
                return line
        raise AssertionError(f"it ended without saying {pattern}: {self.said}")


def _up(env: dict[str, str], stderr: Connection) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.dup2(stderr.fileno(), 2)
    stderr.close()
    sys.exit(main(["up"]))


class Shell:
    """Runs `gateway` with one state folder."""

    def __init__(self, folder: Path) -> None:
        self.env = {**os.environ, "GATEWAY_DATA_DIR": str(folder / "state"), "GATEWAY_PORT": "0"}
        self._started: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """End what was started and still runs, and close every pipe, however the test ended."""
        for process in self._started:
            with process:  # closes its pipes, and waits for it
                process.kill()

    def run(self, *words: str, code: int = 0, env: dict[str, str] | None = None) -> str:
        """Run a command here; return what it printed. Its exit code must be the one given."""
        ended, said = self.call(*words, env=env)
        assert ended == code, (words, ended, said)
        return said

    def call(self, *words: str, env: dict[str, str] | None = None) -> tuple[int, str]:
        """Run a command here, as `python -m gateway.cli` would; return its exit code and words:
        those of standard output alone where it ends well and prints JSON."""
        out, err = io.StringIO(), io.StringIO()
        with (
            self._environment(env or {}),
            handlers_kept(),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                code = main(words)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 0
        alone = "--json" in words and code == 0
        return code, out.getvalue() + ("" if alone else err.getvalue())

    def apart(self, *words: str, code: int = 0, env: dict[str, str] | None = None) -> str:
        """Run a command in a process of its own; as `run` otherwise."""
        done = self.popen(*words, env=env)
        out, err = done.communicate(timeout=40)
        assert done.returncode == code, (words, done.returncode, out, err)
        return out + err

    @contextmanager
    def running_up(self, **env: str) -> Iterator[ForkedGateway]:
        """Run `gateway up` until left, with these variables too."""
        reading, writing = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_up, args=({**self.env, **env}, writing), daemon=True)
        process.start()
        writing.close()
        with reading, os.fdopen(reading.fileno(), closefd=False) as stderr:
            try:
                yield ForkedGateway(process, stderr)
            finally:
                process.terminate()
                stderr.read()
                process.join(timeout=40)

    @contextmanager
    def _environment(self, changes: dict[str, str]) -> Iterator[None]:
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update({**self.env, **changes})
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def popen(
        self,
        *words: str,
        env: dict[str, str] | None = None,
        stderr: int | IO[str] = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Start a command."""
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", *words],
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        self._started.append(process)
        return process
