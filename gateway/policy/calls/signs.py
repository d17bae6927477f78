"""Finds what looks destructive in what runs; the table of its words is `signs.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from gateway.policy.calls.script import (
    INTERPRETERS,
    Certainty,
    ShellScript,
    Step,
    base_name,
    read_script,
)
from gateway.policy.calls.tables import rows

_ROWS = tuple(row.split(" => ", 2) for row in rows("signs.txt"))
_SIGNS = tuple((says, re.compile(pattern, re.IGNORECASE)) for says, _, pattern in _ROWS)
_HINTS = tuple((hint, at) for at, (_, hints, _) in enumerate(_ROWS) for hint in hints.split())
_SPELLING = re.compile(r"[\"'\\{}]|,(?=\S)|\$'")
_EXPANSION = re.compile(r"\$\(\)|\$\w+|\$\{[^}]*\}")
LOADING = frozenset(
    {"aria2c", "axel", "curl", "fetch", "ftp", "http", "https", "lwp-request", "nc", "ncat", "scp",
     "wget", "xh"}
)  # fmt: skip
"""Programs that load what another machine has."""
DECODING = frozenset({"base32", "base64", "openssl", "rev", "tr", "uudecode", "xxd"})
_GREPS = frozenset({"ack", "ag", "egrep", "fgrep", "grep", "rg"})
_SPEAKING = {
    "git": frozenset({"-m", "--message", "--grep", "-S", "-G", "--author"}),
    "gh": frozenset({"-t", "--title", "-b", "--body", "-n", "--notes", "-S", "--search"}),
    "glab": frozenset({"-t", "--title", "-d", "--description", "-m", "--message"}),
    **dict.fromkeys(_GREPS, frozenset({"-e", "--regexp"})),
}
"""Options whose value is only kept, shown or looked for."""
_OUTPUT_LAST = re.compile(r"-[a-zA-Z]+[oO]")
_KEEPS_NAME = re.compile(r"-[a-zA-Z]*O|--remote-name")
_MESSAGE = re.compile(r"-[a-z]*m")  # `git commit -am TEXT`
_KEEPING = _GREPS | {"cat", "cut", "head", "jq", "less", "sort", "tail", "tee", "tr", "uniq", "wc"}
"""Programs that run nothing of what they read."""


def find_destructive(text: str) -> Iterator[str]:
    """Yield what a text does that looks destructive, each in a few words."""
    lower = text.lower()
    for at in sorted({at for hint, at in _HINTS if hint in lower}):
        says, sign = _SIGNS[at]
        if sign.search(text):
            yield says


def find_in_script(text: str) -> Iterator[str]:
    """Yield what a script does that looks destructive, by the words of each step.

    What a step only keeps, prints or looks for is not looked through. A script that is not
    understood as a whole is looked through as it is written, too, and without its quotes.
    """
    script = read_script(text)
    acting = (" ".join(words_that_act(script, at)) for at in range(len(script.steps)))
    said = "\n".join(acting)
    yield from find_destructive(said)
    if "$" in said:
        yield from find_destructive(_EXPANSION.sub("", said))
    if any(step.marks[0] is Certainty.OPEN for step in script.steps):
        yield "does not say which program it runs"
    yield from _find_running(script)
    if not script.whole:
        yield from chain(find_destructive(text), find_destructive(_SPELLING.sub(" ", text)),
                         find_destructive(_SPELLING.sub("", text)))  # fmt: skip


def words_that_act(script: ShellScript, at: int) -> Iterator[str]:
    """Yield the words of a step that may do something, with what starts it and what it reads."""
    step = script.steps[at]
    yield from (*step.wrapping, "\n") if step.wrapping else ()
    yield step.name
    printed = step.name in ("echo", "printf") and not step.writes and not step.wrappers
    if printed and all(_keeps(script, one) for one in script.consumers(at)):
        return
    spoken = _find_spoken(step)
    yield from (word for at, word in enumerate(step.words[1:], 1) if at not in spoken)
    if step.given is not None and step.name not in _KEEPING:
        yield step.given
    for path in step.writes:
        yield from (">", path)


def _keeps(script: ShellScript, step: Step) -> bool:
    """Whether a step that is given text runs none of it."""
    return step.name in _KEEPING or step.name in ("git", "gh", "echo", "printf")


def _find_spoken(step: Step) -> set[int]:
    """Return the positions of the words that are only kept, shown or looked for."""
    options = _SPEAKING.get(step.name, frozenset())
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


def _find_running(script: ShellScript) -> Iterator[str]:
    """Yield that a script runs what it downloads or decodes."""
    for flow in find_flows(script):
        names = {script.steps[at].name for at in flow.sources}
        if names & LOADING:
            yield "runs what it downloads"
        if names & DECODING:
            yield "runs what it decodes"


@dataclass(frozen=True, slots=True)
class Flow:
    """Positions of steps that load or decode something, and of those that run it."""

    sources: tuple[int, ...]
    runners: tuple[int, ...]


def find_flows(script: ShellScript) -> Iterator[Flow]:
    """Yield how a script runs what it downloads or decodes: through a pipe, as text, or as a file
    that it wrote before."""
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
    """Return these positions, and those of the steps whose output is read there."""
    left, seen = list(positions), dict[int, None]()
    while left:
        at = left.pop()
        if at not in seen:
            seen[at] = None
            left += script.steps[at].fed_by
    return tuple(seen)


def _outputs(step: Step) -> Iterator[str]:
    """Yield the files to which a program that downloads writes."""
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
