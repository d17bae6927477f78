"""The list of guards, and what it takes to be one: its text stands in its file exactly once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.frame.tree import ROOT

LIST = Path(__file__).parent / "guards.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One guard: its exact text in `file`, what replaces it, and the tests that find it missing.

    `chosen` ones run with each change.
    """

    name: str
    file: str
    text: str
    instead: str = ""
    guards: str
    tests: tuple[str, ...]
    chosen: bool = False

    def remove_from(self, tree: Path) -> None:
        """Take it out of a copy of the tree; raise ValueError unless it stands there once."""
        file = tree / self.file
        source = file.read_text(encoding="utf-8")
        if (times := source.count(self.text)) != 1:
            raise ValueError(f"{self.name}: its text stands {times} times in {self.file}")
        file.write_text(source.replace(self.text, self.instead), encoding="utf-8")


def read_guards(path: Path = LIST) -> list[Guard]:
    """Return the guards of the list, in its order."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["guard"]
    return [Guard(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def find_mistakes(guards: list[Guard], tree: Path = ROOT) -> list[str]:
    """Say what is wrong with the list: a text that does not stand there once, a name given twice,
    a test that is not there."""
    names = [one.name for one in guards]
    wrong = [f"{name}: two have this name" for name in sorted(set(names)) if names.count(name) > 1]
    for one in guards:
        times = (tree / one.file).read_text(encoding="utf-8").count(one.text)
        if times != 1 or not one.text.strip():
            wrong.append(f"{one.name}: its text stands {times} times in {one.file}")
        if one.text == one.instead or not one.tests:
            wrong.append(f"{one.name}: nothing is taken out, or no test named")
        for test in one.tests:
            file, _, function = test.partition("::")
            source = (tree / file).read_text(encoding="utf-8") if (tree / file).is_file() else ""
            if f"def {function.partition('[')[0]}(" not in source:
                wrong.append(f"{one.name}: there is no test {test}")
    return wrong
