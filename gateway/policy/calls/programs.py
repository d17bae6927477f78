"""Commands that a call runs: the words of each, its reading, and the paths among its operands."""

from __future__ import annotations

from typing import Any, NamedTuple

from gateway.policy.calls.command_table import ParsedCommand, files_of, read
from gateway.policy.calls.path_uses import PathEffect, PathUse, use_path
from gateway.policy.calls.shell_words import WRAPPER, Word, plain_words, simple_command, unwrap

_MOST_COMMANDS = 64
_LONGEST_ARGV = 65_536
_CHANGING = frozenset({"mkdir", "touch"})
LISTING = frozenset({"ls", "tree", "find", "du", "df"})
READING = frozenset(
    {"cat", "head", "tail", "wc", "nl", "tac", "stat", "file", "grep", "rg", "sed", "jq", "cut",
     "sort", "comm", "diff", "cmp", "md5sum", "sha1sum", "sha256sum", "sha512sum", "realpath",
     "readlink"}
)  # fmt: skip
# No pattern covers these; what they do to their operands is said on cards and to denials.
DELETING = frozenset({"rm", "rmdir", "unlink", "shred"})
MOVING = frozenset({"mv", "cp", "ln"})


class Program(NamedTuple):
    """One command. Without `words` it is opaque: nobody knows what it runs.

    `text` is what stands in the call. `reading` is what `commands.txt` knows of it, if it does.
    `wrapper` are the words before it, as `bash -lc`. `base` is the folder in which it runs. A
    command is `proven` where the tool is known to run it as a shell, or to start it by its words.
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
    """Return the program of a list of words; that of `["bash", "-lc", COMMAND]` is COMMAND's."""
    inner = unwrap(parts)
    if inner is not None:
        return _program(inner, simple_command(inner), base, place, wrapper=WRAPPER)
    words = _words_of_argv(parts)
    # A word that needs quoting is another one wherever the list is put together.
    known = read(words) if words is not None and plain_words(parts) is not None else None
    return Program(text=" ".join(parts), words=words, reading=known, base=base, place=place)


def read_each(texts: list[str], base: str | None, place: str) -> tuple[Program, ...]:
    """Return the programs of a list of command strings."""
    return tuple(read_text(text, base, f"{place}[{at}]") for at, text in enumerate(texts))


def is_list_of_texts(value: Any) -> bool:
    """Whether a value is a list of so many texts as commands or words may be."""
    return (
        isinstance(value, list)
        and 0 < len(value) <= _MOST_COMMANDS
        and all(isinstance(one, str) for one in value)
    )


def paths_of_program(program: Program) -> tuple[PathUse, ...]:
    """Return the paths among a command's operands, as far as its reading tells."""
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
    """Return the words of an argument list; a word that would need quoting counts as quoted."""
    if sum(map(len, parts)) > _LONGEST_ARGV:
        return None
    return tuple(Word(one, one if plain_words([one]) is not None else "") for one in parts)
