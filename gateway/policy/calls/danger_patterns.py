"""Find what looks destructive in texts and scripts. Start reading at `find_in_script`.

`danger_patterns.txt` has regular expressions for any text. `dangerous_options.txt` has programs
with verbs and options. Options are parsed, so that their spelling does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from gateway.policy.calls.argument_roles import tools_by_name
from gateway.policy.calls.code_effects import CodeHarm, find_in_code, find_in_sql
from gateway.policy.calls.known_commands import DELETING, read_commands
from gateway.policy.calls.script import (
    INTERPRETERS,
    Certainty,
    ShellScript,
    Step,
    base_name,
    read_script,
)
from gateway.policy.calls.shell_words import read_wrappers, rows

_ROWS = tuple(row.split(" => ", 2) for row in rows("danger_patterns.txt"))
_SIGNS = tuple((says, re.compile(pattern, re.IGNORECASE)) for says, _, pattern in _ROWS)
_OPTIONS = tuple(row for row in rows("dangerous_options.txt") if row[0] != "=")
_HINTS = tuple((hint, at) for at, (_, hints, _) in enumerate(_ROWS) for hint in hints.split())
_SPELLING = re.compile(r"[\"'\\{}]|,(?=\S)|\$'")
_EXPANSION = re.compile(r"\$\(\)|\$\w+|\$\{[^}]*\}")
LOADING = frozenset(
    {"aria2c", "axel", "curl", "fetch", "ftp", "http", "https", "lwp-request", "nc", "ncat", "scp",
     "wget", "xh"}
)  # fmt: skip
"""Programs that download something."""
DECODING = frozenset({"base32", "base64", "openssl", "rev", "tr", "uudecode", "xxd"})
_GREPS = frozenset({"ack", "ag", "egrep", "fgrep", "grep", "rg"})
_SPEAKING = {
    "git": frozenset({"-m", "--message", "--grep", "-S", "-G", "--author", "-b", "-B"}),
    "gh": frozenset({"-t", "--title", "-b", "--body", "-n", "--notes", "-S", "--search"}),
    "glab": frozenset({"-t", "--title", "-d", "--description", "-m", "--message"}),
    **dict.fromkeys(_GREPS, frozenset({"-e", "--regexp"})),
    "cargo": frozenset({"-F", "--features"}),
    "pytest": frozenset({"-k"}),
    **dict.fromkeys(
        ("bun", "jest", "mocha", "npm", "pnpm", "vitest", "yarn"),
        frozenset({"--grep", "-t", "--testNamePattern", "--test-name-pattern"}),
    ),
}
"""Options whose value is only stored, shown or searched for."""
_OUTPUT_LAST = re.compile(r"-[a-zA-Z]+[oO]")
_KEEPS_NAME = re.compile(r"-[a-zA-Z]*O|--remote-name")
_MESSAGE = re.compile(r"-[a-z]*m")  # `git commit -am TEXT`
_NAMING = frozenset({"branch", "checkout", "fetch", "merge", "pull", "push", "rebase", "switch"})
_COOKIES = frozenset({"-b", "-c", "--cookie", "--cookie-jar"})
_KEEPING = _GREPS | {"cat", "cut", "head", "jq", "less", "sort", "tail", "tee", "tr", "uniq", "wc"}
"""Programs that run nothing of what they read."""
_COMMENT = re.compile(r"/\*.{0,2000}?\*/", re.DOTALL)
_FINDING = frozenset({"fd", "find", "parallel", "xargs"})
SQL_CLIENTS = frozenset(
    {"bq", "clickhouse", "clickhouse-client", "cockroach", "cqlsh", "duckdb", "influx", "mariadb",
     "mysql", "pgcli", "psql", "snowsql", "sqlcmd", "sqlite3", "sqlplus", "usql"}
)  # fmt: skip
_SAID_OF_SQL = {
    "Deletes all of": "deletes without a condition",
    "Updates all of": "changes all rows of a table",
}
_WILD = re.compile(r"[*?]|\[.+\]")
_SOME_WORDS = re.compile(r"[\s(]")
_MOST_WORDS = 256
_MOST_BETWEEN = 4
_MOST_GUESSED = 8
_NEAR = 3
_LONGEST = 1024  # characters of a compared word
_LETTER = 2  # the length of `-f`


def find_destructive(text: str) -> Iterator[str]:
    """Yield everything that looks destructive in a text, each in a few words."""
    lower = text.lower()
    for at in sorted({at for hint, at in _HINTS if hint in lower}):
        says, pattern = _SIGNS[at]
        if pattern.search(text):
            yield says


def find_in_script(text: str) -> Iterator[str]:
    """Yield everything that looks destructive in a script, judged by the words of each step.

    Strings that a step only stores, prints or searches for are left out. A script that is not fully
    understood is also searched as plain text, with and without its quotes.
    """
    script = read_script(text)
    acting = (" ".join(words_that_act(script, at)) for at in range(len(script.steps)))
    said = "\n".join(acting)
    yield from find_destructive(said)
    if "$" in said:
        yield from find_destructive(_EXPANSION.sub("", said))
    if any(step.marks[0] is Certainty.OPEN for step in script.steps):
        yield "does not say which program it runs"
    for step in script.steps:
        yield from _find_in_step(step)
    yield from _find_running(script)
    if "/*" in text:
        yield from find_destructive(_COMMENT.sub(" ", text))
    if (
        "where" in text.lower()
        and (sql := find_in_sql(text)) is not None
        and sql.verb in _SAID_OF_SQL
    ):
        yield _SAID_OF_SQL[sql.verb]
    if not script.whole:
        yield from chain(find_destructive(text), find_destructive(_SPELLING.sub(" ", text)),
                         find_destructive(_SPELLING.sub("", text)))  # fmt: skip


def words_that_act(script: ShellScript, at: int, *, names: bool = True) -> Iterator[str]:
    """Yield the words of a step that may have an effect, with its wrappers and its input.

    Without `names`, the names of branches and of cookies are left out."""
    step = script.steps[at]
    yield from (*step.wrapping, "\n") if step.wrapping else ()
    yield step.name
    printed = step.name in ("echo", "printf") and not step.writes and not step.wrappers
    if printed and all(_keeps(script, one) for one in script.consumers(at)):
        return
    spoken = _find_spoken(step) | (set() if names else _find_names(step))
    yield from (word for at, word in enumerate(step.words[1:], 1) if at not in spoken)
    if step.given is not None and step.name not in _KEEPING:
        yield step.given
    for path in step.writes:
        yield from (">", path)


def _find_in_step(step: Step) -> Iterator[str]:
    """Yield everything destructive that one program does, by its options, its code or its SQL."""
    spoken = _find_spoken(step)
    words = [one for at, one in enumerate(step.words) if at and at not in spoken][:_MOST_WORDS]
    names = [step.name, *_guess_names(step)]
    for name in names[1:]:
        yield from find_destructive(" ".join((name, *words)))
    for spelled in (words, [_EXPANSION.sub("", one) for one in words]):
        for name in names:
            yield from find_in_words((name, *spelled))
    for at in range(len(step.wrapping[:_MOST_WORDS])):
        yield from find_in_words(step.wrapping[at : at + _MOST_WORDS])
    if not DELETING.isdisjoint(names) and not _FINDING.isdisjoint(step.wrappers):
        yield "finds and deletes"
    texts = [*words, *([step.given] if step.given is not None else ())]
    if step.name in INTERPRETERS:
        code = (find_in_code(one) for one in texts if _SOME_WORDS.search(one))
        if any(one is not None and one.harm is CodeHarm.DESTROY for one in code):
            yield "deletes files by code"
    for found in map(find_in_sql, texts) if step.name in SQL_CLIENTS else ():
        if found is not None and found.harm is CodeHarm.DESTROY and found.verb != "Deletes from":
            yield _SAID_OF_SQL.get(found.verb, "drops data")


def _guess_names(step: Step) -> list[str]:
    """Return the programs in the table that a wildcard such as `/bin/r[m]` may match."""
    if not _WILD.search(step.name) or not any(map(str.isalnum, step.name)):
        return []
    pattern = step.name.lower()
    return [one for one in sorted(_by_program()) if fnmatchcase(one, pattern)][:_MOST_GUESSED]


# ---------------------------------------------------------------- parsed options


class _OptionPattern(NamedTuple):
    """A row of `dangerous_options.txt`."""

    says: str
    programs: re.Pattern[str]
    verbs: tuple[re.Pattern[str] | None, ...]  # None matches some words
    any_of: tuple[tuple[str, ...], ...]


class _Operand(NamedTuple):
    """A word that is not an option. Not `sure` if it may be the value of the option before it."""

    text: str
    sure: bool


def find_in_words(words: Sequence[str]) -> Iterator[str]:
    """Yield everything destructive that a command does, by the table of verbs and options."""
    name = base_name(words[0]).lower().removesuffix(".exe") if words else ""
    found = _find_rows(name)
    if not found:
        return
    options, operands = _parse(words[1:], _valued().get(name, frozenset()))
    for row in found:
        if _begin_with(row.verbs, operands) and (not row.any_of or any(
            all(_shows(option, options, operands) for option in each) for each in row.any_of
        )):  # fmt: skip
            yield row.says


def _parse(
    words: Sequence[str], valued: frozenset[str]
) -> tuple[list[tuple[str, str]], list[_Operand]]:
    """Return a command's options, each with its possible value, and the command's operands."""
    options: list[tuple[str, str]] = []
    operands: list[_Operand] = []
    left = list(words)
    sure = True
    while left:
        word = left.pop(0)
        behind = left[0] if left else ""
        if word == "--":
            options.append((word, ""))
            operands += [_Operand(one, sure=True) for one in left]
            break
        if word[:1] != "-" or word == "-":
            operands.append(_Operand(word, sure))
            sure = True
            continue
        name, equals, value = word.partition("=")
        attached = ""
        taken = not equals and name in valued
        options.append((name, value if equals else behind))
        if not taken and word[1:2] != "-":
            for at, letter in enumerate(word[1:], _LETTER):
                takes = f"-{letter}" in valued
                attached = word[at:].removeprefix("=") if takes else ""
                options.append((f"-{letter}", attached or behind))
                taken = takes and not attached
                if takes:
                    break
        if taken and left:
            left.pop(0)
        sure = taken or bool(equals or attached)
    return options, operands


def _begin_with(verbs: Sequence[re.Pattern[str] | None], operands: Sequence[_Operand]) -> bool:
    if not verbs:
        return True
    if verbs[0] is None:
        most = min(_MOST_BETWEEN, len(operands))
        return any(_begin_with(verbs[1:], operands[at:]) for at in range(most + 1))
    if not operands:
        return False
    first, rest = operands[0], operands[1:]
    if verbs[0].fullmatch(first.text[:_LONGEST].lower()) and _begin_with(verbs[1:], rest):
        return True
    return not first.sure and _begin_with(verbs, rest)


def _shows(option: str, options: list[tuple[str, str]], operands: list[_Operand]) -> bool:
    if option[:1] != "-":
        return any(_pattern(option).fullmatch(one.text[:_LONGEST]) for one in operands)
    name, equals, value = option.partition("=")
    return any(
        _is_option(name, given)
        and (not equals or _pattern(value).fullmatch(said[:_LONGEST].lower()))
        for given, said in options
    )


def _is_option(name: str, given: str) -> bool:
    """Return whether two spellings mean the same option; GNU programs accept abbreviated long
    options."""
    return given == name or (given[:2] == "--" and given[2:] != "" and name.startswith(given))


@lru_cache(maxsize=512)
def _pattern(word: str) -> re.Pattern[str]:
    """Return the regular expression for a word of the table."""
    if word[:1] == "/" and word[1:] and word[-1] == "/":
        return re.compile(word[1:-1])
    return re.compile("|".join(map(translate, word.split("|"))))


def _find_rows(name: str) -> tuple[_OptionPattern, ...]:
    by_name = _by_program()
    if name in by_name:
        return by_name[name]
    return tuple(one for one in by_name[""] if one.programs.fullmatch(name))


def load_tables() -> None:
    """Read all tables now, so that the first request does not wait for them."""
    for read in (read_wrappers, read_commands, tools_by_name, _by_program, _valued):
        read()


@lru_cache(maxsize=1)
def _by_program() -> dict[str, tuple[_OptionPattern, ...]]:
    """Return the rows by program name. Rows whose program is a pattern are under ""."""
    found: dict[str, tuple[_OptionPattern, ...]] = {"": ()}
    for line in _OPTIONS:
        said, words, signs = (one.strip() for one in f"{line} ".split(" | ", 2))
        program, *verbs = words.split()
        row = _OptionPattern(
            says=said,
            programs=_pattern(program),
            verbs=tuple(None if one == "**" else _pattern(one) for one in verbs),
            any_of=tuple(tuple(one.split("&")) for one in signs.split()),
        )
        plain = program.split("|") if program[:1] != "/" else [""]
        for name in {"" if "*" in one else one for one in plain}:
            found[name] = (*found.get(name, ()), row)
    return found


@lru_cache(maxsize=1)
def _valued() -> dict[str, frozenset[str]]:
    lines = (one[1:].partition("|") for one in rows("dangerous_options.txt") if one[0] == "=")
    return {name: frozenset(options.split()) for names, _, options in lines
            for name in names.split()}  # fmt: skip


def _keeps(script: ShellScript, step: Step) -> bool:
    """Return whether a step runs no part of the text that it receives."""
    return step.name in _KEEPING or step.name in ("git", "gh", "echo", "printf")


def _find_spoken(step: Step) -> set[int]:
    """Return the positions of the words that are only stored, shown or searched for."""
    named = map(base_name, step.words[:_NEAR])  # `python -m pytest`, `yarn jest`
    options = frozenset(chain.from_iterable(_SPEAKING.get(one, ()) for one in named))
    spoken: set[int] = set()
    for at, word in enumerate(step.words[1:], 1):
        option, equals, _ = word.partition("=")
        if equals and option in options:
            spoken.add(at)
        elif word in options or (step.name == "git" and _MESSAGE.fullmatch(word)):
            spoken.add(at + 1)
    if step.name in _GREPS and not options.intersection(step.words):
        operands = [at for at, word in enumerate(step.words[1:], 1)
                    if word[:1] != "-" and not word.isdecimal()]  # fmt: skip
        spoken.update(operands[:1])
    return spoken


def _find_names(step: Step) -> set[int]:
    """Return the positions of the words that name a branch, or cookies of `curl`."""
    words = step.words
    if step.name == "git" and _NAMING.intersection(words[1:]):
        _, operands = _parse(words[1:], _valued()["git"])
        if operands and operands[0].text in _NAMING:
            return {at for at, one in enumerate(words) if one[:1] != "-" and "." not in one}
    if step.name == "curl":
        return {at for at, one in enumerate(words) if words[at - 1] in _COOKIES
                and one.startswith("cookie") and "/" not in one}  # fmt: skip
    return set()


def _find_running(script: ShellScript) -> Iterator[str]:
    """Yield a finding if a script runs something that it downloads or decodes."""
    for flow in find_flows(script):
        names = {script.steps[at].name for at in flow.sources}
        if names & LOADING:
            yield "runs what it downloads"
        if names & DECODING:
            yield "runs what it decodes"


@dataclass(frozen=True, slots=True)
class Flow:
    """The positions of steps that download or decode something, and of those that run it."""

    sources: tuple[int, ...]
    runners: tuple[int, ...]


def find_flows(script: ShellScript) -> Iterator[Flow]:
    """Yield each way in which a script runs text that it downloads or decodes. The text may run
    through a pipe, as an argument, or from a file that the script wrote before."""
    flows: dict[tuple[int, ...], list[int]] = {}
    left = set(script.run)
    for at, step in enumerate(script.steps):
        if run := script.run.intersection(step.fed_by):
            left -= run
            flows.setdefault(trace_sources(script, sorted(run)), []).append(at)
    if left:
        flows.setdefault(trace_sources(script, sorted(left)), [])
    loaded: dict[str, tuple[int, ...]] = {}
    for at, step in enumerate(script.steps):
        started = step.words if step.name in INTERPRETERS | {"chmod"} else step.words[:1]
        for name in dict.fromkeys(map(base_name, started)):
            if name in loaded:
                flows.setdefault(loaded[name], []).append(at)
        sources = trace_sources(script, (at,))
        if any(script.steps[one].name in LOADING for one in sources):
            loaded |= dict.fromkeys(map(base_name, (*step.writes, *_outputs(step))), sources)
    for positions, runners in flows.items():
        if any(script.steps[one].name in LOADING | DECODING for one in positions):
            yield Flow(positions, tuple(runners))


def trace_sources(script: ShellScript, positions: Iterable[int]) -> tuple[int, ...]:
    """Return these positions, and those of the steps whose output these steps get."""
    left, seen = list(positions), dict[int, None]()
    while left:
        at = left.pop()
        if at not in seen:
            seen[at] = None
            left += script.steps[at].fed_by
    return tuple(seen)


def _outputs(step: Step) -> Iterator[str]:
    """Yield the files that a downloading program writes."""
    for at, word in enumerate(step.words[1:], 1):
        option, equals, value = word.partition("=")
        if option in ("-o", "-O", "--output", "--output-document"):
            yield value if equals else "".join(step.words[at + 1 : at + 2])
        elif word.startswith(("-o", "-O")) and word[2:]:
            yield word[2:]
        elif _OUTPUT_LAST.fullmatch(word):  # `-so FILE`
            yield "".join(step.words[at + 1 : at + 2])
        elif "/" in word and (step.name == "wget" or any(map(_KEEPS_NAME.match, step.words))):
            yield base_name(word)
