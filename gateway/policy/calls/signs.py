"""Finds what looks destructive in what runs; the table of its words is `signs.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
_LOADING = frozenset(
    {"aria2c", "axel", "curl", "fetch", "ftp", "http", "https", "lwp-request", "nc", "ncat", "scp",
     "wget", "xh"}
)  # fmt: skip
_DECODING = frozenset({"base32", "base64", "openssl", "rev", "tr", "uudecode", "xxd"})
_GREPS = frozenset({"ack", "ag", "egrep", "fgrep", "grep", "rg"})
_SPEAKING = {
    "git": frozenset({"-m", "--message", "--grep", "-S", "-G", "--author"}),
    "gh": frozenset({"-t", "--title", "-b", "--body", "-n", "--notes", "-S", "--search"}),
    "glab": frozenset({"-t", "--title", "-d", "--description", "-m", "--message"}),
    **dict.fromkeys(_GREPS, frozenset({"-e", "--regexp"})),
}
"""Options whose value is only kept, shown or looked for."""
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
    """Yield that a script runs what it downloads or decodes: through a pipe, as text, or as a file
    that it wrote before."""
    names = {one.name for one in script.sources(script.run)}
    if names & _LOADING:
        yield "runs what it downloads"
    if names & _DECODING:
        yield "runs what it decodes"
    loaded: set[str] = set()
    for at, step in enumerate(script.steps):
        started = step.words if step.name in INTERPRETERS | {"chmod"} else step.words[:1]
        if loaded.intersection(map(base_name, started)):
            yield "runs what it downloads"
        sources = {one.name for one in script.sources((at,))}
        if sources & _LOADING:
            loaded.update(map(base_name, (*step.writes, *_outputs(step))))


def _outputs(step: Step) -> Iterator[str]:
    """Yield the files to which a program that downloads writes."""
    for at, word in enumerate(step.words[1:], 1):
        option, equals, value = word.partition("=")
        if option in ("-o", "-O", "--output", "--output-document"):
            yield value if equals else "".join(step.words[at + 1 : at + 2])
        elif word.startswith(("-o", "-O")) and word[2:]:
            yield word[2:]
        elif "/" in word and (step.name == "wget" or "-O" in " ".join(step.words)):
            yield base_name(word)
