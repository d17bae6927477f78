"""Whether a denial means a command or a folder. Nothing slips through.

A denial must not be escaped by unclear spelling: where it could apply and nobody can tell, the
answer is unsure, so that nothing below it allows and people decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gateway.policy.calls.argument_names import ARGUMENT_LIST, COMMAND_LIST, plain_name
from gateway.policy.calls.command_table import RUNNERS, ParsedCommand, paths_of, read
from gateway.policy.calls.paths import components
from gateway.policy.calls.shell_words import WRAPPER, Word, plain_words, simple_command, unwrap
from gateway.policy.grants.grant import CommandPattern, MatchResult

_Words = tuple[Word, ...] | None
_PART = re.compile(r"[^\s=:,'\"]+")


def runs_of(name: str, value: Any) -> tuple[tuple[Word, ...], ...] | None:
    """Return the words of each command that an argument runs, None unless that is certain.

    A list is one command's words under the name `argv` alone, several commands under `commands`;
    under another name it could be either, but for `["bash", "-lc", COMMAND]`.
    """
    if isinstance(value, str):
        found = [simple_command(value)] if plain_name(name) != ARGUMENT_LIST else [None]
    elif not _is_texts(value):
        return None
    elif (inner := unwrap(value)) is not None:
        found = [simple_command(inner)] if plain_name(name) != COMMAND_LIST else [None]
    elif plain_name(name) == ARGUMENT_LIST:
        found = [plain_words(value)]
    else:
        found = [simple_command(one) for one in value] if plain_name(name) == COMMAND_LIST else []
    runs = tuple(words for words in found if words is not None)
    return runs if runs and len(runs) == len(found) else None


def most(covers: list[MatchResult]) -> MatchResult:
    """Return the strongest of several answers of which any one is enough."""
    return next(
        (one for one in (MatchResult.YES, MatchResult.UNSURE) if one in covers), MatchResult.NO
    )


def forbids_command(pattern: CommandPattern, name: str, value: Any) -> MatchResult:
    """Whether what an argument runs is a command that a denial means, or may be."""
    found = _over_readings(name, value, lambda words: _forbids(pattern, words))
    wrapping = _is_texts(value) and unwrap(value) is not None
    doubt = wrapping and _program(pattern.program) == WRAPPER[0]
    return most([found, MatchResult.UNSURE]) if doubt else found


def _over_readings(name: str, value: Any, judge: Callable[[_Words], MatchResult]) -> MatchResult:
    """Return yes where each way to take a value says so, no where none does, else unsure."""
    ways = _readings(name, value)
    found = [most([judge(words) for words in way]) for way in ways]
    if plain_name(name) == COMMAND_LIST and found[0] is MatchResult.YES:
        return MatchResult.YES  # the name says that it is a list of commands
    return found[0] if len(set(found)) == 1 else MatchResult.UNSURE


def _readings(name: str, value: Any) -> list[list[_Words]]:
    """Return the ways to take a value, each with the words of all that then runs."""
    if isinstance(value, str):
        return [[simple_command(value)]]
    if not _is_texts(value):
        return [[None]]
    each: list[_Words] = [simple_command(one) for one in value]
    whole: list[_Words] = [tuple(_argument(one) for one in value)]
    if (inner := unwrap(value)) is not None:
        whole = [simple_command(inner)]
    if plain_name(name) == COMMAND_LIST:
        return [each] if " " in value[0] else [each, whole]
    # No command begins with a dash: where one does, the list is the words of one command.
    single = plain_name(name) == ARGUMENT_LIST or any(one.startswith("-") for one in value)
    return [whole] if single else [whole, each]


def _argument(text: str) -> Word:
    plain = plain_words([text]) is not None
    return Word(text, text if plain else "")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _forbids(pattern: CommandPattern, words: _Words) -> MatchResult:
    if words is None:
        return MatchResult.UNSURE
    reading = read(words)
    program, denied = _program(words[0].text), _program(pattern.program)
    # What is read completely runs nothing else; otherwise what a runner runs is anyone's guess.
    opaque = reading is None and program in RUNNERS
    texts = tuple(word.text for word in words[1:])
    if program != denied:
        named = reading is None and any(denied in _programs(text) for text in texts)
        return MatchResult.UNSURE if opaque or named else MatchResult.NO
    found = _forbids_words(pattern, texts, reading)
    # A no says that nothing here can be meant, a yes that no reader takes it otherwise.
    quoted = not all(word.plain for word in words[1:])
    doubt = opaque if found is MatchResult.NO else quoted
    return MatchResult.UNSURE if doubt else found


def forbids_folder(folder: str, value: Any, cwd: str | None) -> MatchResult:
    """Whether a path lies in a folder that a denial means, or may; one that holds it may too."""
    denied = components(folder.casefold())
    found = components(value.casefold(), cwd and cwd.casefold()) if _is_text(value) else None
    if denied is None or found is None:
        return MatchResult.UNSURE
    if found[: len(denied)] == denied:
        return MatchResult.YES
    return MatchResult.UNSURE if denied[: len(found)] == found else MatchResult.NO


def command_reaches(folder: str, name: str, value: Any, cwd: str | None) -> MatchResult:
    """Whether what an argument runs names a path in a folder that a denial means, or may."""
    return _over_readings(name, value, lambda words: _reaches(folder, words, cwd))


def _reaches(folder: str, words: _Words, cwd: str | None) -> MatchResult:
    if words is None:
        return MatchResult.UNSURE
    reading = read(words)
    if reading is None and _program(words[0].text) in RUNNERS:
        return MatchResult.UNSURE
    if reading is not None:
        named: list[str] = list(paths_of(reading))
    else:
        named = [part for word in words for part in (word.text, word.text.partition("=")[2])]
    place = [forbids_folder(folder, cwd, None)] if cwd is not None else []
    # That it runs above the folder does not say that it reaches down to it.
    here = [MatchResult.YES] if place == [MatchResult.YES] else []
    return most([*here, *(forbids_folder(folder, path, cwd) for path in named if path)])


def _forbids_words(
    pattern: CommandPattern, texts: tuple[str, ...], reading: ParsedCommand | None
) -> MatchResult:
    verbs = pattern.verbs
    if reading is not None and verbs and reading.known.verbs and _differ(verbs, reading):
        return MatchResult.NO
    if texts[: len(verbs)] == verbs:
        return _forbids_flags(pattern.flags, texts[len(verbs) :], reading)
    if texts[:1] and texts[0].startswith("-") and reading is None:
        return MatchResult.UNSURE
    rest = iter(texts)
    return MatchResult.UNSURE if all(verb in rest for verb in verbs) else MatchResult.NO


def _differ(verbs: tuple[str, ...], reading: ParsedCommand) -> bool:
    known = reading.known.verbs
    common = min(len(verbs), len(known))
    return verbs[:common] != known[:common]


def _forbids_flags(
    wanted: tuple[str, ...], texts: tuple[str, ...], reading: ParsedCommand | None
) -> MatchResult:
    flags = [text.partition("=")[0] for text in texts if text.startswith("-")]
    letters = {f"-{char}" for flag in flags if not flag.startswith("--") for char in flag[1:]}
    if set(wanted) <= letters | set(flags):
        return MatchResult.YES
    if any(text.startswith("+") for text in texts):
        return MatchResult.UNSURE  # `git push origin +main` is a push by force
    if reading is not None and not set(wanted) & set(reading.known.flags):
        return MatchResult.NO
    # Long names can be spelled in several ways, short ones in either case: -R is -r to many.
    doubtful = any(flag.startswith("--") for flag in (*flags, *(wanted if flags else ())))
    spelled = {flag.lower() for flag in wanted} <= {letter.lower() for letter in letters}
    return MatchResult.UNSURE if doubtful or spelled else MatchResult.NO


def _program(text: str) -> str:
    return text.rpartition("/")[2].lower()


def _programs(text: str) -> set[str]:
    """Return what in a word could be the name of a program."""
    return {_program(part) for part in _PART.findall(text)}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
