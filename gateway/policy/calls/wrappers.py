"""Programs that start another one, variables by which other code runs, and reading of tables.

The table, `wrappers.txt`, says which options take a value. An option that it does not know may take
one too, so that what follows is guessed: such a reading is not `exact`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

# Environment variables by which other code runs, or the same code elsewhere.

_STEERING = re.compile(
    r"PATH|IFS|HOME|SHELL|ENV|BASH_(?:ENV|FUNC_.*)|(?:LD|DYLD)_.*|PYTHON(?:PATH|HOME|STARTUP|USERBASE)"
    r"|NODE_(?:OPTIONS|PATH)|PERL5?(?:LIB|OPT|5LIB|5OPT|5DB)|RUBY(?:OPT|LIB)|JAVA_TOOL_OPTIONS|CLASSPATH"
    r"|GIT_(?:SSH.*|EXEC_PATH|CONFIG.*|DIR|WORK_TREE|ASKPASS|PROXY.*|EDITOR|PAGER|EXTERNAL_DIFF"
    r"|TEMPLATE_DIR)|(?:GIT_)?(?:EDITOR|VISUAL|PAGER)|LESSOPEN|PROMPT_COMMAND|PS4"
    r"|.*_PROXY|.*_OPTIONS|.*_OPTS|(?:SSL|CURL)_.*|.*_CA_BUNDLE",
    re.IGNORECASE,
)
_RUN = re.compile(
    r"(?:GIT_|MAN|SYSTEMD_|AWS_|GH_|DELTA_)?PAGER|(?:GIT_|GIT_SEQUENCE_|SUDO_|HG|SVN_|GH_|KUBE_|FC)?EDITOR"
    r"|VISUAL|BROWSER|GIT_SSH(?:_COMMAND)?|GIT_EXTERNAL_DIFF|GIT_PROXY_COMMAND|(?:GIT|SSH|SUDO)_ASKPASS"
    r"|(?:CVS|RSYNC)_RSH|SVN_SSH|PROMPT_COMMAND|LESS(?:OPEN|CLOSE)|FZF_DEFAULT_COMMAND|MAKESHELL"
)


def is_run(name: str) -> bool:
    """Whether a shell or a program runs the value of a variable as a command."""
    return _RUN.fullmatch(name) is not None


def steers(name: str) -> bool:
    """Whether a variable decides which code runs, or with whom it speaks."""
    return _STEERING.fullmatch(name) is not None


# Reads the tables beside this file: one entry a line, `#` before remarks.


def rows(name: str) -> Iterator[str]:
    """Yield the lines of a table that are entries."""
    text = (files("gateway.policy.calls") / name).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line.strip() and not line.startswith("#"))


def load_words(name: str) -> frozenset[str]:
    """Return all words of a table."""
    return frozenset(word for row in rows(name) for word in row.split())


SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "yash", "zsh"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=")
_TEXT = re.compile(r"-[A-Za-z]*c[A-Za-z]*")  # `-c`, also among others: `-lc`
_EXECUTE = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_VALUES_OF_SHELLS = frozenset({"-o", "-O", "+o", "+O", "--rcfile", "--init-file"})


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What a wrapper starts: the words from `begins` to `ends`, or a `script`, or what it reads.

    `names` are the wrapper's own words that say what it is, `sets` the variables that it sets.
    `moves`: it starts it in another folder, or on another machine. `also`: it does something of its
    own as well. `operands` are the words that say where.
    """

    names: tuple[str, ...]
    begins: int | None = None
    ends: int | None = None
    script: str | None = None
    from_input: bool = False
    sets: tuple[str, ...] = ()
    moves: bool = False
    also: bool = False
    exact: bool = True
    operands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    names: tuple[str, ...]
    valued: frozenset[str]
    alone: frozenset[str]
    scripts: frozenset[str]
    moving: frozenset[str]
    operands: int
    moves: bool
    joins: bool
    dashes: bool


def strip_wrapper(words: Sequence[str]) -> Wrapped | None:
    """Return what the program of these words starts, None where it is known to start nothing."""
    name = words[0].rstrip("/").rpartition("/")[2]
    if name in SHELLS:
        return _strip_shell(name, words)
    if name == "command" and words[1:2] in (["-v"], ["-V"]):
        return None
    if name == "eval":
        return Wrapped((name,), script=" ".join(words[1:]))
    if name == "trap" and len(words) > 2 and words[1][:1] != "-":  # noqa: PLR2004
        return Wrapped((name,), script=words[1], begins=1)
    if name in ("find", "fd"):
        return _strip_find(name, words)
    row = read_wrappers().get((name, words[1])) if len(words) > 1 else None
    row = row or read_wrappers().get((name,))
    return None if row is None else _strip(row, words)


def _strip_shell(name: str, words: Sequence[str]) -> Wrapped | None:
    at = 1
    while at < len(words) and words[at][:1] in ("-", "+") and words[at] not in ("-", "--"):
        if _TEXT.fullmatch(words[at]):
            rest = [one for one in range(at + 1, len(words)) if words[one][:1] not in ("-", "+")]
            if not rest:
                return None
            return Wrapped((name,), script=words[rest[0]], begins=rest[0])
        at += 2 if words[at] in _VALUES_OF_SHELLS else 1
    stdin = at >= len(words) or words[at] == "-" or "-s" in words[1:at]
    return Wrapped((name,), from_input=True) if stdin else None


def _strip_find(name: str, words: Sequence[str]) -> Wrapped | None:
    at = next((at for at, one in enumerate(words) if one in _EXECUTE), None)
    if name == "fd":
        at = next((at for at, one in enumerate(words) if one in ("-x", "-X", "--exec")), at)
    if at is None or at + 1 >= len(words):
        return None
    ends = next((end for end in range(at + 1, len(words)) if words[end] in (";", "+")), None)
    more = ends is not None and any(one in _EXECUTE for one in words[ends:])
    return Wrapped((name,), begins=at + 1, ends=ends, also=True, exact=not more)


def _strip(row: _Row, words: Sequence[str]) -> Wrapped | None:
    at, left, found = len(row.names), row.operands, Wrapped(row.names, moves=row.moves)
    while at < len(words):
        word = words[at]
        option, equals, value = word.partition("=")
        if word == "--":
            at += 1
            if left == 0 or row.dashes:
                break
        elif option in row.scripts:
            script = value if equals else " ".join(words[at + 1 : at + 2])
            return replace(found, script=script, begins=min(at + (not equals), len(words) - 1))
        elif word.startswith("-") and len(word) > 1:
            found = _with_option(found, row, word)
            at += 2 if word in row.valued else 1
        elif (name := _ASSIGNMENT.match(word)) and not row.dashes and left == row.operands:
            found = replace(found, sets=(*found.sets, name[1]))
            at += 1
        elif left or (row.dashes and "--" in words[at:]):
            found = replace(found, operands=(*found.operands, word))
            left -= 1
            at += 1
        else:
            break
    if at >= len(words):
        return None
    joined = row.joins and (len(words) - at > 1 or " " in words[at])
    return replace(found, script=" ".join(words[at:]) if joined else None, begins=at)


def _with_option(found: Wrapped, row: _Row, word: str) -> Wrapped:
    option = word.partition("=")[0]
    attached = word[1:2] != "-" and word[:2] in row.valued
    known = option in row.valued | row.alone or attached or _is_cluster(word, row)
    moves = found.moves or not row.moving.isdisjoint((option, word[:2]))
    return replace(found, exact=found.exact and known, moves=moves)


def _is_cluster(word: str, row: _Row) -> bool:
    """Whether a word is several known letters in one: `-nE`."""
    letters = [f"-{one}" for one in word[1:]]
    return not word.startswith("--") and all(one in row.alone for one in letters)


@lru_cache(maxsize=1)
def read_wrappers() -> dict[tuple[str, ...], _Row]:
    """Return the rows of programs that run another command, by their names."""
    return {row.names: row for line in rows("wrappers.txt") for row in _read_row(line)}


def _read_row(line: str) -> list[_Row]:
    named, *fields = (one.strip() for one in line.split("|"))
    said = {one.partition(":")[0]: one.partition(":")[2].split() for one in fields}
    flags = said.get("is", [])
    row = {
        "valued": frozenset(said.get("values", ())),
        "alone": frozenset(said.get("alone", ())),
        "scripts": frozenset(said.get("script", ())),
        "moving": frozenset(said.get("moving", ())),
    }
    return [
        _Row(
            names=tuple(names.split()),
            operands=int((said.get("skip") or ["0"])[0]),
            moves="elsewhere" in flags,
            joins="joined" in flags,
            dashes="dashes" in flags,
            **row,
        )
        for names in named.split(",")
    ]
