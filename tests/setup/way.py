"""Counts what somebody does from nothing to the first tap: numbered steps, and single acts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.frame.tree import ROOT

TERMINAL = "terminal"


class PortalRefuses(AssertionError):
    """The portal of a chat does not do that."""


@dataclass(frozen=True)
class Act:
    """One click, one field that is filled (typed, pasted, or chosen in a menu), or one line.

    To read, to scroll, to go to another window and to wait is no act. `link` is a click on a link
    that the command printed: where there is a desktop, the command opens it itself.
    """

    step: int
    place: str
    words: str
    link: bool = False


@dataclass
class Way:
    """The way of one chat. Its steps are those that the chat's page in `docs` numbers."""

    chat: str
    acts: list[Act] = field(default_factory=list)
    copied_ids: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    seconds: float = 0.0
    _step: int = 0
    _typed: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    @property
    def steps(self) -> list[str]:
        """The steps that the page numbers, each by the words that it begins with."""
        page = (ROOT / "docs" / "guides" / f"{self.chat}.md").read_text(encoding="utf-8")
        found = re.findall(r"^(\d+)\. ([^.:,]+)", page, re.MULTILINE)
        first_list = [words for at, (number, words) in enumerate(found, 1) if int(number) == at]
        return [words.replace("*", "") for words in first_list]

    @property
    def links(self) -> int:
        """How many of the acts a desktop spares."""
        return sum(act.link for act in self.acts)

    @property
    def walked(self) -> int:
        """How many steps had an act."""
        return len({act.step for act in self.acts})

    def next_step(self) -> None:
        """Begin the next step of the page."""
        self._step += 1

    def act(self, place: str, words: str, *, link: bool = False) -> None:
        """Count an act."""
        self.acts.append(Act(self._step, place, words, link))

    def type(self, place: str, line: str) -> None:
        """Count a line, or what is typed into a field. Nothing secret: it is looked at later."""
        self.act(place, line)
        self._typed.append(line)

    def tapped(self) -> None:
        """Stop the time: the first tap was made. All of it was waiting, as no person is in it."""
        self.seconds = time.monotonic() - self._began

    def look_back(self, ids: Iterable[str], files: Iterable[Path]) -> None:
        """Note which ids of a platform somebody had to type, and which files to write."""
        self.copied_ids = [one for one in ids if any(one in line for line in self._typed)]
        self.files = list(files)

    def describe(self) -> Iterator[str]:
        """Yield a line for each step, and below it one for each act."""
        for number, words in enumerate(self.steps, 1):
            yield f"{self.chat} {number}. {words}"
            for act in self.acts:
                if act.step == number:
                    yield f"    {act.place}: {act.words}{' (a link)' if act.link else ''}"
