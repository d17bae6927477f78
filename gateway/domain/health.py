"""What is wrong just now: why nobody can answer here, and what works only in part."""

from __future__ import annotations

import logging
from dataclasses import dataclass

DISK_FULL = "the disk of the gateway's own Redis is full: nothing can be recorded"

log = logging.getLogger("gateway.health")


@dataclass(frozen=True, slots=True)
class Readiness:
    """Sentences on why nobody can answer here or nothing is recorded, and on what else is wrong."""

    down: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """`ready`, `degraded` or `not ready`."""
        return "not ready" if self.down else "degraded" if self.degraded else "ready"

    @property
    def problems(self) -> tuple[str, ...]:
        """All sentences, the worst first."""
        return self.down + self.degraded


class Health:
    """Collects troubles by where they were noticed, and logs each when it begins and has ended."""

    def __init__(self) -> None:
        self._down: dict[str, str] = {}
        self._degraded: dict[str, str] = {}

    @property
    def readiness(self) -> Readiness:
        """What is wrong now."""
        return Readiness(tuple(self._down.values()), tuple(self._degraded.values()))

    def note(self, where: str, sentence: str | None, *, down: bool = False) -> None:
        """Say what is wrong somewhere, or with None that all is well again."""
        before = self._down.pop(where, None) or self._degraded.pop(where, None)
        if sentence is not None:
            (self._down if down else self._degraded)[where] = sentence
        if sentence == before:
            return
        if sentence is None:
            log.warning("no more: %s", before, extra={"event": "trouble_ended"})
        else:
            level = logging.ERROR if down else logging.WARNING
            log.log(level, "%s", sentence, extra={"event": "trouble"})

    def note_all(self, where: str, sentences: dict[str, str], *, down: bool = False) -> None:
        """Say everything that is wrong in one place, by name; what is not named is well again."""
        start = f"{where} "
        known = {*self._down, *self._degraded}
        for name in {one for one in known if one.startswith(start)}:
            if name.removeprefix(start) not in sentences:
                self.note(name, None)
        for name, sentence in sentences.items():
            self.note(start + name, sentence, down=down)
