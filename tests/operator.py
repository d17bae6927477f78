"""The operator of `gateway doctor --live --with-me`, who does at a client what is asked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.doctor.live_trial import Recording
from gateway.ports import LiveTrial


@dataclass
class Operator:
    """`does` has, by words of what is asked, what they do then; they wait for all else."""

    user: str
    does: dict[str, Callable[[], Awaitable[Any]]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    tasks: list[asyncio.Future[Any]] = field(default_factory=list)
    recording: Recording = field(default_factory=Recording)

    @property
    def trial(self) -> LiveTrial:
        """What an adapter gets."""
        return LiveTrial(user=self.user, say=self.say, record=self.recording.add)

    def say(self, line: str) -> None:
        """Read a line, and begin to do what it asks for."""
        self.lines.append(line)
        for words, act in self.does.items():
            if line.startswith("→") and words in line:
                self.tasks.append(asyncio.ensure_future(act()))

    async def stop(self) -> None:
        """Stop doing what nobody answers; what went wrong otherwise is raised."""
        waiting = [one for one in self.tasks if not one.done()]
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.gather(*(one for one in self.tasks if one not in waiting))

    @property
    def ticked(self) -> int:
        """How many acts were ticked off with a latency."""
        return sum(bool(re.fullmatch(r"  ✓ answered in \d+ ms", one)) for one in self.lines)


def kept_words(path: Path, words: Iterable[str]) -> list[str]:
    """Return those of the words that stand in a recording, as words of their own."""
    text = path.read_text(encoding="utf-8")
    return [one for one in words if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text)]
