"""A shell without a gateway, and one beside a running gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Yield a shell without a gateway."""
    made = Shell(tmp_path)
    yield made
    made.close()


@pytest.fixture
def up(shell: Shell) -> Iterator[Shell]:
    """Run `gateway up`; yield a shell that finds it."""
    with shell.running_up() as gateway:
        gateway.says("Answer in the browser")
        yield shell
    assert gateway.process.exitcode == 0
