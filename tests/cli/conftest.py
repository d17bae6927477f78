"""A shell without a gateway, and one beside a running gateway."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from gateway.cli import main
from tests.cli.shell import Shell
from tests.faults.processes import CONTEXT


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Yield a shell without a gateway."""
    made = Shell(tmp_path)
    yield made
    made.close()


@pytest.fixture
def up(shell: Shell) -> Iterator[Shell]:
    """Run `gateway up`, forked from a process that has imported it; yield a shell that finds it."""
    reading, writing = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_up, args=(shell.env, writing), daemon=True)
    process.start()
    writing.close()
    with reading, os.fdopen(reading.fileno(), closefd=False) as said:
        lines: list[str] = []
        while "Answer in the browser" not in "".join(lines):
            line = said.readline()
            assert line, lines
            lines.append(line)
        yield shell
        process.terminate()
        said.read()
        process.join(timeout=40)
    assert process.exitcode == 0


def _up(env: dict[str, str], stderr: Connection) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.dup2(stderr.fileno(), 2)
    stderr.close()
    sys.exit(main(["up"]))
