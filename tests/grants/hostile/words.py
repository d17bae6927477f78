"""Reads the words of an offer as a person does, into what they claim.

Nothing of the product is used. Words that this does not understand fail loudly, so that whoever
changes what people are told also says here what that claims. All of the grammar is here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_FLAGS = (
    r"(?P<flags>with no flags but (?P<listed>\S+(?: -\S+)*)|without flags"
    r"|with any of its \d+ flags that run and write nothing else(?:, and with \S+(?: -\S+)*)?)"
)
_COMMAND = re.compile(
    r"(?P<each>each command of a list: )?(?P<command>.+?)"
    r"(?P<operands> on any paths (?:in (?P<folder>/\S*)|below where it runs)| with any text"
    r"| for any text, on any paths (?:in (?P<folder2>/\S*)|below where it runs)| with any names)?"
    rf", {_FLAGS}"
    r"(?:, always with (?P<needs>-\S+(?: -\S+)*))?"
    r"(?:, by (?P<wrapper>bash -lc))?"
    r"(?:, run in (?P<cwd>/\S*))?(?: on (?P<host>[^\s;,]+))?"
    r"(?:, always with (?P<fixed>.+?))?"
    r"(?:; whatever (?P<remarks>.+?) says?)?"
    r"(?P<in_line>; also in a line with other remembered commands)?",
    re.DOTALL,
)
_FOLDER = re.compile(
    r"(?P<tool>\S+) on anything in (?P<folder>/.*?)(?:, with any (?P<free>[\w-]+(?:, [\w-]+)*?))?"
    r"(?:, always with (?P<fixed>.+?))?(?: on (?P<host>[^\s;,]+))?"
    r", by its name; links are not followed here(?:; also the output of remembered commands)?",
    re.DOTALL,
)
_TEXT = re.compile(
    r"(?P<tool>\S+) with any (?P<free>[\w-]+(?:, [\w-]+)*?)(?:, always with (?P<fixed>.+?))?"
    r"(?:, run in (?P<cwd>/\S*))?(?: on (?P<host>[^\s;,]+))?",
    re.DOTALL,
)
_VALUES = re.compile(
    r"(?P<tool>\S+) with other plain values of (?P<free>[\w-]+(?:, [\w-]+)*?)"
    r"(?:, always with (?P<fixed>.+?))?(?:, run in /\S*)?(?: on (?P<host>[^\s;,]+))?",
    re.DOTALL,
)
_TOOL = re.compile(
    r"everything that (?P<tool>\S+) can do with "
    r"(?:any declared arguments|(?:(?P<free>.+) and )?what is declared)"
    r"(?:, always with (?P<fixed>.+?))?(?:, run in /\S*)?(?: on (?P<host>[^\s;,]+))?",
    re.DOTALL,
)
_PAGES = re.compile(
    r"(?P<tool>\S+) of any page of https://(?P<site>\S+)(?: on (?P<host>[^\s;,]+))?"
)
_THERE = re.compile(
    r"anything that (?P<tool>\S+) reads there, always with (?P<fixed>.+?)"
    r"(?: on (?P<host>[^\s;,]+))?"
)
_PATCHES = re.compile(
    r"(?P<tool>\S+): creating, changing and moving files below (?P<folder>/\S+?)"
    r"(?: on (?P<host>[^\s;,]+))?, not deleting"
)
_LOOKS = re.compile(
    r"looking at anything below (?P<folder>/\S+?)(?: on (?P<host>[^\s;,]+))?, by any tool or "
    r"command known to do no more; secrets require approval"
)
_EXACT = re.compile(r"exactly this: .+", re.DOTALL)
_LATER = "; secrets and files that run later require approval"
_FILES = r"creating, changing and moving files below where the agent works"
_EDITS = re.compile(
    rf"(?:{_FILES}|creating and changing files below (?:where the agent works|(?P<folder>/\S+)))"
    rf", not deleting(?:{_LATER})?"
)
_WORK = re.compile(
    rf"reading, searching, {_FILES}, by tools and commands known to do no more{_LATER}"
)
_SCRIPTS = re.compile(
    r"running the project's tests, builds and scripts, which can do whatever the agent's user can, "
    rf"and reading, searching and changing files below where the agent works{_LATER}"
)
_NAME = re.compile(r"(?:^|, )([\w.\[\]-]+) = ")


class WordsNotUnderstoodError(Exception):
    """The words of an offer are none that people were shown before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What words say: everything that they do not name does not happen.

    `shape` is exact, command, folder, text, tool, pages, there, looks, edits, work or scripts.
    `site` is the host of the pages. With `in_line` a command may stand beside others. `folder`
    bounds paths; for commands None without `paths`. `flags` None are any; `run_in` and `host` say
    where a command runs. `fixed` are the arguments that are the same each time, `free` those that
    may differ.
    """

    shape: str
    command: tuple[str, ...] = ()
    paths: bool = False
    text: bool = False
    operands: bool = False
    folder: str | None = None
    flags: frozenset[str] | None = None
    wrapper: tuple[str, ...] = ()
    run_in: str | None = None
    host: str | None = None
    fixed: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()
    site: str = ""
    in_line: bool = False


def understand(words: str) -> Claim:
    """Return what words claim. Raises WordsNotUnderstoodError."""
    for form, read in _FORMS:
        if (found := form.fullmatch(words)) is not None:
            return read(found)
    raise WordsNotUnderstoodError(words)


def _folder(found: re.Match[str]) -> Claim:
    return Claim(
        shape="folder",
        folder=found["folder"],
        fixed=_names(found["fixed"]),
        free=_free(found["free"]),
        host=found["host"],
    )


def _text(found: re.Match[str]) -> Claim:
    return Claim(
        shape="text",
        free=_free(found["free"]),
        fixed=_names(found["fixed"]),
        run_in=found["cwd"],
        host=found["host"],
    )


def _values(found: re.Match[str]) -> Claim:
    return Claim(shape="tool", free=_free(found["free"]), fixed=_names(found["fixed"]))


def _command(found: re.Match[str]) -> Claim:
    operands = found["operands"] or ""
    listed = frozenset((found["listed"] or "").split())
    return Claim(
        shape="command",
        command=tuple(found["command"].split(" ")),
        paths="paths" in operands,
        text="text" in operands,
        operands=bool(operands),
        folder=found["folder"] or found["folder2"] or found["cwd"],
        flags=None if found["flags"].startswith("with any") else listed,
        wrapper=tuple((found["wrapper"] or "").split()),
        run_in=found["cwd"],
        host=found["host"],
        fixed=_names(found["fixed"]),
        free=_free(found["remarks"]),
        in_line=found["in_line"] is not None,
    )


def _free(names: str | None) -> frozenset[str]:
    return frozenset((names or "").split(", ")) - {""}


def _names(fixed: str | None) -> frozenset[str]:
    return frozenset(_NAME.findall(fixed or ""))


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Claim]], ...] = (
    (_EXACT, lambda _: Claim(shape="exact")),
    (_TOOL, lambda _: Claim(shape="tool")),
    (_EDITS, lambda found: Claim(shape="edits", folder=found["folder"])),
    (_WORK, lambda _: Claim(shape="work")),
    (_SCRIPTS, lambda _: Claim(shape="scripts")),
    (_PAGES, lambda found: Claim(shape="pages", site=found["site"])),
    (_THERE, lambda found: Claim(shape="there", fixed=_names(found["fixed"]))),
    (_PATCHES, lambda found: Claim(shape="edits", folder=found["folder"])),
    (_LOOKS, lambda found: Claim(shape="looks", folder=found["folder"])),
    (_FOLDER, _folder),
    (_VALUES, _values),
    (_COMMAND, _command),
    (_TEXT, _text),
)
