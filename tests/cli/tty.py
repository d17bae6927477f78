"""A command in a terminal of its own, which a test reads and types into."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

_SECONDS = 60


class Tty:
    """Runs `gateway WORDS`, or another program with them, in a pseudo-terminal until left."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        folder: Path | None = None,
        *,
        program: Sequence[str] = (sys.executable, "-m", "gateway.cli"),
    ) -> None:
        self._master, inner = pty.openpty()
        self.said = ""
        self._read = 0
        self.process = subprocess.Popen(
            [*program, *words],
            env={**env, "TERM": "dumb"},
            cwd=folder,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            # Whoever starts the tests in the background has them ignore it, and that is inherited.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        os.close(inner)

    def __enter__(self) -> Tty:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def until(self, pattern: str) -> re.Match[str]:
        """Read until it says what fits the pattern, behind what was read before; return that."""
        ends = time.monotonic() + _SECONDS
        while (found := re.compile(pattern).search(self.said, self._read)) is None:
            assert time.monotonic() < ends, f"it never says {pattern}: {self.said}"
            if not self._read_more():
                raise AssertionError(f"it ended without saying {pattern}: {self.said}")
        self._read = found.end()
        return found

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._master, f"{line}\n".encode())

    def ended(self) -> int:
        """Read until it ends; return its exit code."""
        ends = time.monotonic() + _SECONDS
        while self._read_more():
            assert time.monotonic() < ends, f"it goes on: {self.said}"
        return self.process.wait(timeout=_SECONDS)

    def _read_more(self) -> bool:
        """Read what there is; return False once it has ended."""
        ready, _, _ = select.select([self._master], [], [], 0.2)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self.said += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)
