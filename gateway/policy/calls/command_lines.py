"""Read command lines that every shell reads alike: plain commands, joined. Start reading at
`read_line`.

It reads words without escapes and expansions, `&&`, `||`, `;`, line ends, pipes, `( … )` and
redirections to a file. It also reads `cd`, and variables and wrappers that change nothing. It never
guesses: the scanner here and `policy.calls.script` must agree on a line.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from gateway.policy.calls.known_steps import HARMLESS_VARIABLES, says_how_it_ended
from gateway.policy.calls.script import Certainty, Step, read_script
from gateway.policy.calls.shell_words import (
    DOUBLE_QUOTED,
    ENTITY,
    MAX_COMMAND,
    SINGLE_QUOTED,
    is_readable,
    simple_command,
)

_MOST_STEPS = 32
_BARE = r"(?!=)[A-Za-z0-9_@+:,./*-](?:[A-Za-z0-9_@%+=:,./*-]|(?<=[A-Za-z0-9])~)*"
_SAID = r'"(?:[^"\\$`!\x00-\x1f\x7f]|\$\?)*"|\$\?'  # with the last command's status
# Some shells end `$(` at a bracket within the text.
_MESSAGE = r"\"\$\(cat <<'EOF'\n(?P<body>(?:(?!EOF\n)[^()`\"\n]*\n)*)EOF\n[ \t]*\)\""
_TOKEN = re.compile(
    rf"(?P<message>{_MESSAGE})|(?P<head>{_BARE}=)(?P<value>{SINGLE_QUOTED}|{DOUBLE_QUOTED})"
    rf"|(?P<errors>2>&1)|(?P<redirect>[12]?>>?)|(?P<bare>{_BARE})"
    rf"|(?P<quoted>{SINGLE_QUOTED}|{DOUBLE_QUOTED})|(?P<said>{_SAID})"
    r"|(?P<join>&&|\|\||;|\n|\||[()])"
)
_BLANKS = re.compile(r"[ \t]*")
_RESERVED = frozenset(
    {"case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
     "select", "then", "until", "while"}
)  # fmt: skip
_SETTING = re.compile(r"([A-Z][A-Z0-9_]*)=([A-Za-z0-9_.,:/@+-]*)")
# Variables that change only what a program prints. Production settings have more effects.
_SHOWING = HARMLESS_VARIABLES - {"CI", "DEBIAN_FRONTEND", "NODE_ENV", "RAILS_ENV"}
_MODEST = frozenset({"development", "test"})
_TIME = re.compile(r"[0-9]+(?:\.[0-9]+)?[smh]?")
_NUMBER = re.compile(r"-?[0-9]{1,2}")


@lru_cache(maxsize=1024)
def read_line(text: str) -> tuple[Step, ...]:
    """Return the steps of a line, each with all folders in which it may run. `cd` is also a step.
    The result is empty if any part of the line is unknown."""
    if not text or len(text) > MAX_COMMAND or ENTITY.search(text) or not is_readable(text):
        return ()
    tokens = _scan(text)
    if tokens is None:
        return ()
    line = _Line(tokens)
    if not line.read() or not 0 < len(line.steps) <= _MOST_STEPS:
        return ()
    return tuple(line.steps) if _agrees(text, line.steps) else ()


def spell(words: tuple[str, ...]) -> str | None:
    """Write words as one plain command; return None if that is not possible."""
    quoted = [_quote(one) for one in words]
    text = " ".join(one for one in quoted if one is not None)
    plain = simple_command(text) if None not in quoted else None
    return text if plain is not None and tuple(one.text for one in plain) == words else None


def _quote(word: str) -> str | None:
    if re.fullmatch(_BARE, word) and "*" not in word:
        return word
    option, equals, value = word.partition("=")
    if equals and re.fullmatch(r"--?[A-Za-z][A-Za-z-]*", option):
        inner = _quote(value) if value else ""
        return None if inner is None else f"{option}={inner}"
    if "'" not in word:
        return f"'{word}'"
    return f'"{word}"' if not set('"\\$`!') & set(word) else None


def _scan(text: str) -> list[re.Match[str]] | None:
    """Return the tokens of a text. Return None if it has unknown tokens, or two words without a
    space between."""
    found: list[re.Match[str]] = []
    at = _end_of_blanks(text, 0)
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        touches = found and at == found[-1].end()
        if touches and not (token["join"] or found[-1]["join"] or found[-1]["redirect"]):
            return None
        found.append(token)
        at = _end_of_blanks(text, token.end())
    return found


def _end_of_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


class _Line:
    """A parser for the tokens of one line. It collects the line's steps."""

    def __init__(self, tokens: list[re.Match[str]]) -> None:
        self.steps: list[Step] = []
        self._tokens = tokens
        self._at = 0
        self._folders: tuple[str, ...] = ("",)
        # The folders after the last command, if it succeeded or failed.
        self._ok: tuple[str, ...] = ("",)
        self._failed: tuple[str, ...] = ("",)

    def read(self) -> bool:
        """Parse the whole line; return whether every part of it is known."""
        return self._read_list() is not None and self._at == len(self._tokens)

    def _peek(self) -> str:
        return (self._tokens[self._at]["join"] or "") if self._at < len(self._tokens) else ""

    def _read_list(self) -> bool | None:
        """Parse commands joined by `&&`, `||`, `;` or line ends, and track their folders."""
        self._skip_lines()
        if not self._read_pipeline():
            return None
        ok, failed = self._ok, self._failed
        while (join := self._peek()) in ("&&", "||", ";", "\n"):
            self._at += 1
            self._skip_lines()
            if join in (";", "\n") and (self._at == len(self._tokens) or self._peek() == ")"):
                break
            self._folders = {"&&": ok, "||": failed}.get(join) or _either(ok, failed)
            if not self._read_pipeline():
                return None
            ok, failed = {
                "&&": (self._ok, _either(failed, self._failed)),
                "||": (_either(ok, self._ok), self._failed),
            }.get(join, (self._ok, self._failed))
        self._ok, self._failed = ok, failed
        return True

    def _take(self, join: str) -> bool:
        found = self._peek() == join
        self._at += found
        return found

    def _skip_lines(self) -> None:
        while self._take("\n"):
            pass

    def _read_pipeline(self) -> bool:
        fed: tuple[int, ...] = ()
        self._ok = self._failed = before = self._folders
        count, goes = 0, False
        while True:
            begin = len(self.steps)
            if not self._read_part(fed):
                return False
            count += 1
            if count > 1 and goes:
                return False  # shells differ on whether the folder stays
            goes = self._ok != before
            fed = tuple(range(begin, len(self.steps)))
            self._folders = before
            if not self._take("|"):
                break
            self._skip_lines()
        return count == 1 or not goes

    def _read_part(self, fed: tuple[int, ...]) -> bool:
        if not self._take("("):
            return self._read_command(fed)
        before, begin = self._folders, len(self.steps)
        if self._read_list() is None or not self._take(")"):
            return False
        for at in range(begin, len(self.steps)):
            self.steps[at] = replace(self.steps[at], fed_by=(*fed, *self.steps[at].fed_by))
        self._ok = self._failed = self._folders = before
        words, _, writes = self._read_words()
        if writes:
            self.steps.append(Step((":",), (Certainty.PLAIN,), folders=before, writes=writes))
        return not words

    def _read_words(self) -> tuple[list[str], list[Certainty], tuple[str, ...]]:
        """Read words and redirections up to the next join. A `>` without a file counts as a
        word."""
        words: list[str] = []
        marks: list[Certainty] = []
        writes: list[str] = []
        while self._at < len(self._tokens) and not self._tokens[self._at]["join"]:
            token = self._tokens[self._at]
            self._at += 1
            if token["errors"]:
                continue
            if token["redirect"]:
                target = self._tokens[self._at] if self._at < len(self._tokens) else None
                text, mark = _word(target) if target is not None else ("", Certainty.OPEN)
                if mark is not Certainty.PLAIN or not text:
                    words.append(">")
                    continue
                self._at += 1
                writes += [text] if text != "/dev/null" else []
                continue
            text, mark = _word(token)
            words.append(text)
            marks.append(mark)
        return words, marks, tuple(writes)

    def _read_command(self, fed: tuple[int, ...]) -> bool:
        words, marks, writes = self._read_words()
        if ">" in words:
            return False
        begins, sets = _count_started(words)
        if begins is None or begins >= len(words) or words[begins] in _RESERVED:
            return False
        step = Step(
            words=tuple(words[begins:]),
            marks=tuple(marks[begins:]),
            wrapping=tuple(words[:begins]),
            folders=self._folders,
            sets=sets,
            writes=writes,
            fed_by=fed,
        )
        plain = re.fullmatch(r"[A-Za-z0-9_./+-]+", step.words[0]) is not None
        if not plain or (step.is_open and not says_how_it_ended(step)):
            return False
        self.steps.append(step)
        self._ok = self._failed = self._folders
        if step.words[0] == "cd":
            return self._go(step)
        return True

    def _go(self, step: Step) -> bool:
        """Change the folder. The current folder stays possible, because `cd` may fail."""
        known = len(step.words) == 2 and step.marks[1] is Certainty.PLAIN  # noqa: PLR2004
        if not known or step.wrapping or re.match(r"[-+~=]", step.words[1]) or not step.words[1]:
            return False
        self._ok = tuple(
            dict.fromkeys(posixpath.normpath(posixpath.join(one, step.words[1]))
                          for one in self._folders)
        )  # fmt: skip
        return True


def _either(one: tuple[str, ...], two: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *two)))


def _word(token: re.Match[str]) -> tuple[str, Certainty]:
    """Return a word as its program receives it, and how certain it is."""
    if token["join"] or token["redirect"] or token["errors"]:
        return "", Certainty.OPEN
    if token["message"]:
        return token["body"].rstrip("\n"), Certainty.PLAIN
    if token["said"]:
        return token["said"].strip('"'), Certainty.OPEN
    if token["bare"]:
        globs = "*" in token["bare"]
        return token["bare"], Certainty.GLOB if globs else Certainty.PLAIN
    head, quoted = token["head"] or "", token["value"] or token["quoted"]
    return head + quoted[1:-1], Certainty.GLOB if "*" in head else Certainty.PLAIN


def _count_started(words: list[str]) -> tuple[int | None, tuple[str, ...]]:
    """Return how many harmless words precede a program, and the variables that they set. If one of
    the words may change something, return None for the number."""
    at = _count_settings(words)
    while at is not None and words[at : at + 1] and words[at] in _OPTIONS:
        options = _OPTIONS[words[at]](words[at + 1 :])
        at = None if options is None else at + 1 + options
        if at is not None and words[at : at + 1] and words[at].startswith("-"):
            at = None
    settings = (_SETTING.fullmatch(one) for one in words[: at or 0])
    return at, tuple(one[1] for one in settings if one is not None)


def _count_settings(words: list[str]) -> int | None:
    """Return how many harmless settings a command begins with; None if one is not harmless."""
    found = list(itertools.takewhile(bool, map(_SETTING.fullmatch, words)))
    harmless = all(one is not None and _is_harmless(one[1], one[2]) for one in found)
    return len(found) if harmless else None


def _count_of_env(words: list[str]) -> int | None:
    at = 0
    while words[at : at + 1] == ["-u"]:
        if not _may_be_unset("".join(words[at + 1 : at + 2])):
            return None
        at += 2
    settings = _count_settings(words[at:])
    return None if settings is None else at + settings


def _count_of_nice(words: list[str]) -> int | None:
    if words[:1] != ["-n"]:
        return 0
    return 2 if _NUMBER.fullmatch("".join(words[1:2])) else None


def _count_of_timeout(words: list[str]) -> int | None:
    return 1 if _TIME.fullmatch("".join(words[:1])) else None


_OPTIONS: dict[str, Callable[[list[str]], int | None]] = {
    "command": lambda words: 0,
    "env": _count_of_env,
    "nice": _count_of_nice,
    "time": lambda words: 0,
    "timeout": _count_of_timeout,
}
"""Counters of a wrapper's options that change nothing; None if one may change something."""


def _is_harmless(name: str, value: str) -> bool:
    return name in _SHOWING | {"CI"} or (name == "NODE_ENV" and value in _MODEST)


def _may_be_unset(name: str) -> bool:
    """Return whether a program does no more than usual if this variable is not set."""
    return name in _SHOWING or name in ("NODE_OPTIONS", "PYTHONPATH")


def _agrees(text: str, steps: list[Step]) -> bool:
    """Return whether `read_script` finds the same words in the same order, and the same files."""
    script = read_script(text)
    theirs = [one for one in script.steps if not (one.words == ("cat",) and one.given is not None)]
    if not (script.whole and script.alike) or script.run:
        return False
    mine = [one for one in steps if one.words != (":",)]
    theirs = [one for one in theirs if one.words != (":",)]
    files, found = ({path for one in each for path in one.writes} for each in (steps, script.steps))
    return files == found and [*_all_words(mine)] == [*_all_words(theirs)]


def _all_words(steps: list[Step]) -> Iterator[tuple[str, ...]]:
    for one in steps:
        yield tuple(word for word in (*one.wrapping, *one.words) if not _SETTING.fullmatch(word))
