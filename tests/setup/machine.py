"""A computer on which nobody did anything yet, and its terminal."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from gateway.wire.local_discovery import find_process
from tests.cli.tty import Tty
from tests.frame.tree import ROOT
from tests.setup.way import TERMINAL, Way

_DATA = Path(".local", "state", "approval-gateway")


class Machine:
    """An empty home folder, and no settings but `addresses`: where the counterpart of a chat is.

    What else is set here says where this checkout is, that any port will do, because tests run
    beside others, and that no test opens a real browser. When left, no gateway goes on.
    """

    def __init__(self, home: Path, addresses: Mapping[str, str]) -> None:
        self.home = home
        self.data = home / _DATA
        self._env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "GATEWAY_PORT": "0",
            "BROWSER": "true",
            **addresses,
        }

    async def __aenter__(self) -> Machine:
        assert list(self.home.iterdir()) == []
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.gateway is not None:
            await self.run("down")

    @property
    def gateway(self) -> int | None:
        """The process of the gateway that runs on the data folder, None where none does."""
        return find_process(self.data)

    def open(self, *words: str) -> Tty:
        """Run `gateway WORDS` in a terminal of its own, until left."""
        return Tty(words, self._env, self.home)

    async def run(self, *words: str) -> str:
        """Run `gateway WORDS`, which must end well; return what it says."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway.cli", *words),
            env=self._env,
            cwd=self.home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, (words, said.decode())
        return said.decode()

    def list_files(self) -> list[Path]:
        """Return the files that are not the gateway's."""
        files = (one for one in self.home.rglob("*") if not one.is_dir())
        return [one.relative_to(self.home) for one in files if self.data not in one.parents]


class Terminal:
    """Who sits at a terminal. What they type is counted; the loop goes on while they read."""

    def __init__(self, tty: Tty, way: Way) -> None:
        self._tty, self._way = tty, way

    @property
    def said(self) -> str:
        """All that stands there."""
        return self._tty.said

    async def until(self, pattern: str) -> re.Match[str]:
        """Read until what fits the pattern, behind what was read before; return that."""
        return await asyncio.to_thread(self._tty.until, pattern)

    async def read_link(self, start: str) -> str:
        """Read on until a link that begins so; return it whole."""
        return (await self.until(rf"({re.escape(start)}\S*)\s"))[1]

    def type(self, line: str) -> None:
        """Type a line."""
        self._way.type(TERMINAL, line)
        self._tty.type(line)

    def paste(self, secret: str, name: str) -> None:
        """Paste a secret."""
        self._way.act(TERMINAL, f"paste {name}")
        self._tty.type(secret)

    async def ended(self) -> int:
        """Read until the command ends; return its exit code."""
        return await asyncio.to_thread(self._tty.ended)
