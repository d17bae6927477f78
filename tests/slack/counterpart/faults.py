"""What goes wrong on purpose: each fault is used up by the next call that it fits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """How a call goes wrong. `DROPPED` and `LOST` take effect first; the caller never learns."""

    UNAVAILABLE = "503"
    HTML = "html"
    HANGS = "hangs"
    DROPPED = "dropped after it took effect"
    LOST = "answer that never comes, after it took effect"
    LIMITED = "429"
    ERROR = "an error code"
    KILLED = "the caller is killed before the call takes effect"
    KILLED_AFTER = "the caller is killed after it took effect"


@dataclass(kw_only=True)
class Planned:
    """One fault that waits for its call."""

    method: str
    fault: Fault
    times: int = 1
    error: str = ""
    fits: Callable[[dict[str, Any]], bool] = lambda _: True


@dataclass
class Faults:
    """The plan of what goes wrong, and what did. `kill` ends the caller's process."""

    kill: Callable[[], None] = lambda: None
    planned: list[Planned] = field(default_factory=list)
    happened: list[Planned] = field(default_factory=list)
    hangs_end: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: the calls that hang fail."""

    def plan(
        self,
        method: str,
        fault: Fault,
        *,
        times: int = 1,
        error: str = "",
        fits: Callable[[dict[str, Any]], bool] = lambda _: True,
    ) -> None:
        """Let the next `times` fitting calls of `method` go wrong; `*` is any method."""
        self.planned.append(
            Planned(method=method, fault=fault, times=times, error=error, fits=fits)
        )

    def take(self, method: str, arguments: dict[str, Any]) -> Planned | None:
        """Return the fault of this call, if any, and use it up."""
        for planned in self.planned:
            if planned.method in ("*", method) and planned.times > 0 and planned.fits(arguments):
                planned.times -= 1
                self.happened.append(planned)
                return planned
        return None
