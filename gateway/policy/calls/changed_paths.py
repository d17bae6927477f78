"""What a command may change, by its words: also where it is several, or not understood.

It is for signs and for the heads of cards, not for proof: what is not named here may change
something all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from gateway.policy.calls.programs import DELETING, LISTING, MOVING, READING
from gateway.policy.calls.script import Step, read_script

_MOST_TEXT = 20_000
_INTO = re.compile(r"-\w*?t(.*)|--t")  # a folder to copy to, perhaps in one word with its option
_TAKING = re.compile(r"--.*(?:backup|batch|dir|log|remove)")  # or another place to write to
_COPYING = {"cp": _INTO, "install": _INTO, "ln": _INTO, "rsync": _TAKING, "scp": _TAKING}
"""What copies to its last operand, and options with which that is not all it changes."""
_OPEN = re.compile(r"[$`*?{;]")
"""What may become several words, or options."""
_WRITING = {*_COPYING} | DELETING | MOVING | {
    "chgrp", "chmod", "chown", "dd", "ed", "mkdir", "mkfifo", "mknod", "mktemp", "patch",
    "setfacl", "split", "tar", "tee", "touch", "truncate", "unzip",
}  # fmt: skip
_WRITING_WITH = {
    "curl": ("-o", "--output"),
    "git": ("-C",),
    "make": ("-C", "--directory"),
    "sed": ("-i", "--in-place"),
    "sort": ("-o", "--output"),
    "wget": ("-O", "-P", "--output-document", "--directory-prefix"),
}
_GOING = frozenset({"cd", "pushd"})
_IDLE = LISTING | READING | _GOING | {
    "[", "echo", "false", "popd", "printf", "pwd", "test", "true", "which",
}  # fmt: skip
_HANDING_ON = frozenset({"fd", "find", "parallel", "xargs"})  # they add words of their own


@lru_cache(maxsize=1024)
def find_changed_paths(text: str) -> tuple[str, ...]:
    """Return the paths that a command may change, as they lie to the folder in which it begins:
    what it redirects to, the operands of programs that change files, and each folder to which it
    goes before it does more than read."""
    script = read_script(text[:_MOST_TEXT])
    found = dict.fromkeys(path for step in script.steps for path in _find_changed(step))
    return tuple(found)


def _find_changed(step: Step) -> Iterator[str]:
    paths = list_written(step)
    for path in paths:
        yield from step.places(path)
    if paths or step.name not in _IDLE:
        yield from (folder for folder in step.folders or () if folder)


def list_written(step: Step) -> list[str]:
    """Return the paths that a step may change, as they stand in its words and redirections."""
    told = not _HANDING_ON.intersection(step.wrappers)
    return [*step.writes, *_operands(list(step.words), told=told)]


def _operands(words: list[str], *, told: bool) -> Iterator[str]:
    """Yield what stands behind a program that changes files, also where another one starts it."""
    for at, word in enumerate(words):
        name, rest = _name(word), words[at + 1 :]
        flags = _WRITING_WITH.get(name, ())
        writes = any(one.startswith(flags) for one in rest) if flags else False
        if name in _WRITING or writes:
            copies = told and not at and name in _COPYING
            for one in _find_copies(name, rest) if copies else rest:
                value = one.partition("=")[2] if one.startswith("-") or "=" in one else one
                yield from (value,) if value else ()
            return


def _find_copies(name: str, words: list[str]) -> list[str]:
    """Return of the words behind a program that copies the one that names what it changes, the
    last; all of them where that is not certain: the last may be the value of an option before it,
    or an option names another place."""
    elsewhere = [found for found in map(_COPYING[name].match, words) if found]
    certain = len(words) > 1 and not any(one.startswith("-") for one in words[-2:])
    if certain and not elsewhere and not any(map(_OPEN.search, words)):
        return words[-1:]
    return [*words, *(found[1] for found in elsewhere if found.re is _INTO and found[1])]


def _name(word: str) -> str:
    return word.rpartition("/")[2]
