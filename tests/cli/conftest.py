"""A shell without a gateway, and one beside a running gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a shell without a gateway."""
    return Shell(tmp_path)


@pytest.fixture
def up(shell: Shell) -> Iterator[Shell]:
    """Run `gateway up`; yield a shell that finds it."""
    process = shell.popen("up")
    assert process.stderr is not None
    lines: list[str] = []
    while "works once" not in "".join(lines):
        line = process.stderr.readline()
        assert line, lines
        lines.append(line)
    yield shell
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 0
