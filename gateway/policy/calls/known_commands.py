"""Read commands by the table of known commands, and find the commands that a call runs.

Start reading at `read` and `read_text`. The table, `known_commands.txt`, lists the known programs,
flags and operands. A command with an unknown program, flag or operand is not read, and no pattern
covers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from gateway.policy.calls.paths import PathEffect, PathUse, delicate, use_path
from gateway.policy.calls.shell_words import (
    WRAPPER,
    Word,
    load_words,
    plain_words,
    rows,
    simple_command,
    unwrap,
)

# Programs that run what they are given, which a denial cannot check.
RUNNERS = load_words("runners.txt")

_NUMBER = re.compile(r"[0-9]{1,9}")
_NAME = re.compile(r"[A-Za-z0-9_@](?:[A-Za-z0-9_.@~^+-]|[/:](?![/:]))*")
_EXPANDED = re.compile(r"[{}\[\]()!`$]")
_PASTED = re.compile(r"[`$\"\\]")
_DASHED_NUMBER = re.compile(r"-[0-9]{1,6}")
# Other spellings that mean the same command.
_ALIASES: dict[tuple[str, ...], tuple[str, ...]] = {("npm", "run", "test"): ("npm", "test")}
# Programs that start another one of the project's tools, and which ones they may start.
_TOOLS = frozenset({"black", "eslint", "isort", "jest", "mypy", "prettier", "pytest", "ruff", "tsc",
                    "vitest"})  # fmt: skip
LAUNCHERS: dict[tuple[str, ...], frozenset[str]] = {
    ("npx",): _TOOLS, ("pnpm", "exec"): _TOOLS, ("uv", "run"): _TOOLS, ("poetry", "run"): _TOOLS,
    ("python", "-m"): frozenset({"black", "isort", "mypy", "pytest", "ruff"}),
    ("python3", "-m"): frozenset({"black", "isort", "mypy", "pytest", "ruff"}),
}  # fmt: skip
"""The words that start a tool of the project, and the known tools that may follow them."""
# Programs that only read the files they name; all others may write them.
# With these, what it is given to look at is not changed. All others may write it.
_READERS = frozenset(
    {"basename", "cat", "cmp", "comm", "cut", "df", "diff", "dirname", "du", "file", "find", "grep",
     "head", "jq", "ls", "md5sum", "nl", "readlink", "realpath", "rg", "sed", "sha1sum",
     "sha256sum", "sha512sum", "sort", "stat", "tac", "tail", "tree", "wc", "which"}
)  # fmt: skip
_GIT_READERS = frozenset(
    {"blame", "describe", "diff", "log", "ls-files", "merge-base", "rev-list", "rev-parse",
     "shortlog", "show", "status"}
)  # fmt: skip
# A page of a service on this machine.
_LOCAL_URL = re.compile(
    r"(https?://)?((?:localhost|127\.0\.0\.1)(?::[0-9]{1,5})?)(?:[/?][A-Za-z0-9/_.~%?&=+,:-]*)?"
)
# Files by the end of their names, or all but some; never names that begin with a dot.
_GLOB = re.compile(r"!.+|(?:(?:[A-Za-z0-9_-]+|\*\*)/)*[A-Za-z0-9_*-]*\.[A-Za-z0-9_]+")


class Operands(StrEnum):
    """The kind of the words that may follow a command's flags."""

    NONE = "none"
    FIXED = "fixed"
    PATHS = "paths"
    TEXT = "text"
    TEXT_PATHS = "text_paths"
    NAMES = "names"
    LOCAL = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag and, if it has a value, the kind of the value. An `optional` value must follow `=`.

    If a flag `restrains`, the command does more without it, for example without `--dry-run`. If a
    flag `extends`, the command does more with it, for example with `--fix`. A `told` flag, for
    example `--prune`, makes the command do more of the same kind of thing. So an offer that permits
    the command names all its `told` flags. A `where` flag, for example `-n dev`, says where the
    command acts, so a grant fixes the flag and its value.
    """

    value: str | None = None
    optional: bool = False
    restrains: bool = False
    extends: bool = False
    told: bool = False
    where: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A row of the table. `first` is the form that the text operand must have for the kind
    text_paths."""

    program: str
    verbs: tuple[str, ...]
    operands: Operands
    flags: dict[str, Flag] = field(default_factory=dict)
    first: re.Pattern[str] | None = None
    clusters: bool = True

    def list_restraints(self, flags: Iterable[str]) -> tuple[str, ...]:
        """Return those of these flags without which the command does more, or acts elsewhere."""
        known = ((name, self.flags.get(name)) for name in flags)
        return tuple(sorted(name for name, flag in known if flag is None or flag.restrains))

    @property
    def harmless(self) -> frozenset[str]:
        """The flags that affect neither how much the command does nor where."""
        return frozenset(
            name
            for name, flag in self.flags.items()
            if not (flag.extends or flag.told or flag.where)
        )

    def list_told(self, used: Iterable[str]) -> frozenset[str]:
        """Return the flags that make the command do more of the same, which an offer must name. If
        a flag in `used` says where the command acts, other such flags are left out."""
        bound = any(self.flags[one.partition("=")[0]].where for one in used)
        return frozenset(
            name for name, flag in self.flags.items() if flag.told and not (bound and flag.where)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCommand:
    """A command as its program interprets it, with its flags and operands."""

    known: CommandSpec
    flags: frozenset[str]
    operands: tuple[str, ...]


def entry(words: tuple[Word, ...]) -> CommandSpec | None:
    """Return the table row that matches the most verbs at the start of these unquoted words, or
    None."""
    for count in range(min(2, len(words) - 1), -1, -1):
        key = tuple(word.text for word in words[: count + 1])
        if all(word.plain for word in words[: count + 1]) and key in read_commands():
            return read_commands()[key]
    return None


@lru_cache(maxsize=1024)
def read(words: tuple[Word, ...]) -> ParsedCommand | None:
    """Return a command as the table interprets it, or None if any part is unknown. Words that
    launch it, as in `npx tsc`, become part of the program's name."""
    words = _without_alias(words)
    starts = _count_launching(words)
    if starts:
        reading = read(words[starts:])
        if reading is None:
            return None
        program = " ".join((*(word.text for word in words[:starts]), reading.known.program))
        return replace(reading, known=replace(reading.known, program=program))
    known = entry(words)
    if known is None:
        return None
    rest = list(words[1 + len(known.verbs) :])
    flags: set[str] = set()
    operands: list[str] = []
    only_operands = False
    while rest:
        word = rest.pop(0)
        if not word.text.startswith("-") or only_operands:
            if not word.text.startswith("-"):
                operands.append(word.text)
            elif (behind := _flag_behind_dashes(known, word, rest)) is not None:
                flags |= behind
            else:
                return None
        elif word.text == "--":
            only_operands = True
            # `git checkout -- x` differs from `git checkout x`, so fixed operands keep the `--`.
            operands += ["--"] if known.operands is Operands.FIXED else []
        elif word.text == "-" or (found := _flags(known, word, rest)) is None:
            return None
        else:
            flags |= found
    reading = ParsedCommand(known=known, flags=frozenset(flags), operands=tuple(operands))
    return reading if _fits(reading) else None


def _count_launching(words: tuple[Word, ...]) -> int:
    """Return how many words launch a known tool; 0 if none do."""
    for launcher, tools in LAUNCHERS.items():
        count = len(launcher)
        begun = words[: count + 1]
        if tuple(word.text for word in begun[:count]) == launcher and len(begun) > count:
            plain = all(word.plain for word in begun)
            return count if plain and begun[count].text in tools else 0
    return 0


def table() -> tuple[CommandSpec, ...]:
    """Return all rows."""
    return tuple(read_commands().values())


def is_name(text: str) -> bool:
    """Return whether a word can be the name of a branch, a package or something similar, without
    `..`."""
    return bool(_NAME.fullmatch(text)) and ".." not in re.split("[/:]", text)


def paths_of(reading: ParsedCommand) -> tuple[str, ...]:
    """Return the operands that are paths."""
    known, operands = reading.known, reading.operands
    if known.program.endswith("pytest"):
        return tuple(operand.partition("::")[0] for operand in operands)
    if known.operands is Operands.PATHS:
        return operands
    if known.operands is not Operands.TEXT_PATHS:
        return ()
    return operands[_count_texts(reading) :]


def origins_of(reading: ParsedCommand) -> tuple[str, ...]:
    """Return the local services that the operands name, each once, as scheme, host and port."""
    found = (_LOCAL_URL.fullmatch(one) for one in reading.operands)
    return tuple(sorted({f"{one[1] or 'http://'}{one[2]}" for one in found if one is not None}))


def writes(reading: ParsedCommand) -> bool:
    """Return whether a command may change the files it names. Only known readers may not."""
    known = reading.known
    if known.program == "git":
        return not _GIT_READERS.intersection(known.verbs[:1])
    return known.program not in _READERS


def files_of(reading: ParsedCommand) -> tuple[str, ...]:
    """Return the operands that may name files. For git this includes names such as `HEAD:.env` in
    `git show`."""
    named = reading.operands if reading.known.operands is Operands.NAMES else ()
    parts = (part for operand in named for part in (operand, operand.rpartition(":")[2]))
    git = reading.known.program == "git" and reading.known.verbs != ("switch",)  # only branches
    return (*paths_of(reading), *(parts if git else ()))


def _count_texts(reading: ParsedCommand) -> int:
    """Return how many operands are patterns to search for; 0 if a flag has the pattern, as in `grep
    -e x`."""
    flags = reading.known.flags
    said = any(flags[name].value for name in reading.flags & {"-e", "--regexp"})
    return 0 if said else 1


def _without_alias(words: tuple[Word, ...]) -> tuple[Word, ...]:
    short = _ALIASES.get(tuple(word.text for word in words[:3]))
    if short is None or not all(word.plain for word in words[:3]):
        return words
    return (*(Word(text, text) for text in short), *words[3:])


def _flag_behind_dashes(known: CommandSpec, word: Word, rest: list[Word]) -> set[str] | None:
    """Return a flag after `--`, for the program that the command starts: `cargo test --
    --nocapture`."""
    text, equals, value = word.text.partition("=")
    name = f"-- {text}"
    flag = known.flags.get(name)
    if flag is None or not word.head.startswith(text):
        return None
    following = rest[0].text if rest and not equals else value
    if flag.value is not None and _PASTED.search(following):
        return None  # some programs insert it into a shell command
    return _with_value(name, flag, value if equals else None, rest)


def _flags(known: CommandSpec, word: Word, rest: list[Word]) -> set[str] | None:
    """Return the flags in a word that begins with a dash, and remove their value from `rest`."""
    name, equals, value = word.text.partition("=")
    if not word.head.startswith(name):
        return None
    flag = known.flags.get(name)
    if flag is not None:
        return _with_value(name, flag, value if equals else None, rest)
    if _DASHED_NUMBER.fullmatch(word.text) and "-NUM" in known.flags:
        return {"-NUM"}
    if not known.clusters or word.text.startswith("--") or not word.plain:
        return None
    return _read_cluster(known, word.text[1:], rest)


def _with_value(name: str, flag: Flag, value: str | None, rest: list[Word]) -> set[str] | None:
    if flag.value is None:
        return {name} if value is None else None
    if value is None and flag.optional:
        return {name}
    if value is None:
        number = rest and flag.value == "text" and _DASHED_NUMBER.fullmatch(rest[0].text)
        if not rest or (rest[0].text.startswith("-") and not number):
            return None
        value = rest.pop(0).text
    if not _is(flag.value, value):
        return None
    return {f"{name}={value}" if flag.where else name}


def _read_cluster(known: CommandSpec, letters: str, rest: list[Word]) -> set[str] | None:
    """Read `-la`, `-n5` or `-am TEXT`, where only the last letter may use the next word as its
    value."""
    found: set[str] = set()
    for at, letter in enumerate(letters, 1):
        flag = known.flags.get(f"-{letter}")
        if flag is None:
            return None
        found.add(f"-{letter}")
        if flag.value is not None:
            attached = letters[at:] or None
            taken = _with_value(f"-{letter}", flag, attached, rest)
            return (found - {f"-{letter}"}) | taken if taken else None
    return found


def _is(kind: str, value: str) -> bool:
    if kind == "number":
        return bool(_NUMBER.fullmatch(value))
    if kind == "glob":
        return bool(_GLOB.fullmatch(value)) and delicate(value, written=False) is None
    return value in kind.split("|") if kind != "text" else bool(value)


def _fits(reading: ParsedCommand) -> bool:
    known, operands = reading.known, reading.operands
    texts = operands[: _count_texts(reading)] if known.operands is Operands.TEXT_PATHS else operands
    if known.first is not None and not all(map(known.first.fullmatch, texts)):
        return False
    if any(path.startswith("@") or _EXPANDED.search(path) for path in paths_of(reading)):
        # Some programs read more arguments from such a file, or expand the pattern.
        return False
    if known.operands is Operands.NONE:
        return not operands
    if known.operands is Operands.NAMES:
        return all(map(is_name, operands))
    if known.operands is Operands.LOCAL:
        return bool(operands) and all(map(_LOCAL_URL.fullmatch, operands))
    return known.operands is not Operands.TEXT_PATHS or bool(operands)


@lru_cache(maxsize=1)
def read_commands() -> dict[tuple[str, ...], CommandSpec]:
    """Return the rows of the table, by program and verbs."""
    return {(known.program, *known.verbs): known for known in map(_row, rows("known_commands.txt"))}


def _row(line: str) -> CommandSpec:
    command, operands, *flags = line.rstrip("| ").split(" | ")
    program, *verbs = command.lstrip("*").split()
    kind, _, first = operands.partition("=")
    return CommandSpec(
        program=program,
        verbs=tuple(verbs),
        operands=Operands(kind),
        flags=dict(_flag(text) for text in _sort_spellings(" ".join(flags).split())),
        first=re.compile(first) if first else None,
        clusters=not command.startswith("*"),
    )


def _sort_spellings(flags: Iterable[str]) -> list[str]:
    """Return the flags with optional values last, so that they replace those without."""
    return sorted(flags, key=lambda text: "=" in text)


def _flag(marked: str) -> tuple[str, Flag]:
    bare = marked.lstrip("!+~@")
    signs = marked.removesuffix(bare)
    text = bare.replace("--/", "-- ", 1)
    marks = {"restrains": "!" in signs, "extends": "+" in signs, "told": "~" in signs,
             "where": "@" in signs}  # fmt: skip
    name, colon, kind = text.partition(":")
    if colon:
        return name, Flag(value=kind, **marks)
    name, equals, kind = text.partition("=")
    return name, Flag(value=kind or None, optional=bool(equals), **marks)


# The commands that a call runs: their words, their reading, and the paths among their operands.

_MOST_COMMANDS = 64
_LONGEST_ARGV = 65_536
_CHANGING = frozenset({"mkdir", "touch"})
LISTING = frozenset({"ls", "tree", "find", "du", "df"})
READING = frozenset(
    {"cat", "head", "tail", "wc", "nl", "tac", "stat", "file", "grep", "rg", "sed", "jq", "cut",
     "sort", "comm", "diff", "cmp", "md5sum", "sha1sum", "sha256sum", "sha512sum", "realpath",
     "readlink"}
)  # fmt: skip
# No pattern covers these; their effect on operands is for cards and denials.
DELETING = frozenset({"rm", "rmdir", "unlink", "shred"})
MOVING = frozenset({"mv", "cp", "ln"})


class Program(NamedTuple):
    """One command. Without `words`, the parser could not determine what the command runs.

    `text` is its text in the call. `reading` is the command as `known_commands.txt` interprets it,
    or None. `wrapper` lists the words before it, such as `bash -lc`. `base` is its working folder.
    It is `proven` if the tool is known to run it in a shell, or to start it from its list of words.
    """

    text: str
    words: tuple[Word, ...] | None
    reading: ParsedCommand | None
    base: str | None
    place: str
    wrapper: tuple[str, ...] = ()
    proven: bool = True


def read_text(text: str, base: str | None, place: str, *, proven: bool = True) -> Program:
    """Return the program of a command string."""
    return _program(text, simple_command(text), base, place, proven=proven)


def read_argv(parts: list[str], base: str | None, place: str) -> Program:
    """Return the program of a list of words; for `["bash", "-lc", COMMAND]`, the program of
    COMMAND."""
    inner = unwrap(parts)
    if inner is not None:
        return _program(inner, simple_command(inner), base, place, wrapper=WRAPPER)
    words = _words_of_argv(parts)
    # If a tool joins the list without quotes, a word that needs them becomes another one.
    known = read(words) if words is not None and plain_words(parts) is not None else None
    return Program(text=" ".join(parts), words=words, reading=known, base=base, place=place)


def read_each(texts: list[str], base: str | None, place: str) -> tuple[Program, ...]:
    """Return the programs of a list of command strings."""
    return tuple(read_text(text, base, f"{place}[{at}]") for at, text in enumerate(texts))


def is_list_of_texts(value: Any) -> bool:
    """Return whether a value is a list of strings, no longer than a list of commands may be."""
    return (
        isinstance(value, list)
        and 0 < len(value) <= _MOST_COMMANDS
        and all(isinstance(one, str) for one in value)
    )


def paths_of_program(program: Program) -> tuple[PathUse, ...]:
    """Return the paths among a command's operands, as far as they are known."""
    if program.words is None:
        return ()
    name = program.words[0].text.rpartition("/")[2]
    if program.reading is not None:
        effect = _effect_of(name)
        named = files_of(program.reading)
    else:
        effect = PathEffect.DELETE if name in DELETING else PathEffect.WRITE
        known = name in DELETING | MOVING
        operands = [word.text for word in program.words[1:] if not word.text.startswith("-")]
        named = tuple(operands) if known else ()
    second = name in MOVING
    return tuple(
        use_path(text, effect, program.base, program.place, second=second) for text in named if text
    )


def _effect_of(name: str) -> PathEffect:
    if name in _CHANGING:
        return PathEffect.WRITE
    if name in LISTING:
        return PathEffect.LIST
    return PathEffect.READ if name in READING else PathEffect.UNKNOWN


def _program(
    text: str, words: tuple[Word, ...] | None, base: str | None, place: str, *,
    wrapper: tuple[str, ...] = (), proven: bool = True,
) -> Program:  # fmt: skip
    reading = read(words) if words is not None else None
    return Program(text=text, words=words, reading=reading, base=base, place=place,
                   wrapper=wrapper, proven=proven)  # fmt: skip


def _words_of_argv(parts: list[str]) -> tuple[Word, ...] | None:
    """Return the words of an argument list; a word that needs quoting counts as quoted."""
    if sum(map(len, parts)) > _LONGEST_ARGV:
        return None
    return tuple(Word(one, one if plain_words([one]) is not None else "") for one in parts)
