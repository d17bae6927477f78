"""What a command may do, by its words: also where it is several commands, or not understood.

It is for signs and for the heads of cards, not for proof: what is not named here may change
something all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from gateway.policy.calls.backticks import spell_out
from gateway.policy.calls.programs import DELETING, LISTING, MOVING, READING
from gateway.policy.calls.script import Step, read_script
from gateway.policy.calls.shell_words import ShellNode, parse_shell
from gateway.policy.calls.signs import find_destructive

_MOST_TEXT = 20_000
_MOST_NESTED = 3
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
_SHELLS = frozenset({"bash", "dash", "eval", "ksh", "sh", "zsh"})
_GOING = frozenset({"cd", "pushd"})
_IDLE = LISTING | READING | _GOING | {
    "[", "echo", "false", "popd", "printf", "pwd", "test", "true", "which",
}  # fmt: skip
_WIPING = frozenset({"dd", "fdisk", "mkfs", "mkfs.ext4", "wipefs"})
_OTHER_USERS = frozenset({"doas", "pkexec", "su", "sudo"})
_LEADING = _OTHER_USERS | {"command", "env", "nohup", "time"}
_REACHING = frozenset({"curl", "ftp", "nc", "ncat", "rsync", "scp", "sftp", "ssh", "wget"})
_RUNNING = frozenset(
    {"deno", "node", "perl", "php", "python", "python3", "ruby", "source", "xargs"}
)
_HANDING_ON = frozenset({"fd", "find", "parallel", "xargs"})  # they add words of their own
_LOUD = 4  # of the ranks of `rank_command`
_NO_WORDS = ("variable_assignment", "file_redirect", "herestring_redirect")


@lru_cache(maxsize=1024)
def find_changed_paths(text: str) -> tuple[str, ...]:
    """Return the paths that a command may change, as they lie to the folder in which it begins:
    what it redirects to, the operands of programs that change files, and each folder to which it
    goes before it does more than read."""
    script = read_script(text[:_MOST_TEXT])
    found = dict.fromkeys(path for step in script.steps for path in _find_changed(step))
    return tuple(found)


@lru_cache(maxsize=1024)
def list_commands(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of each command in a text, in order; those that a shell is handed as text
    (`sh -c TEXT`) follow it."""
    return tuple(_commands(text[:_MOST_TEXT], _MOST_NESTED))


@lru_cache(maxsize=1024)
def list_plain(text: str) -> frozenset[str]:
    """Return the commands of a text that stand there as their words read, each time: nothing in
    them is quoted, nothing is set before them, nothing goes elsewhere. None of a text that is not
    understood."""
    source = spell_out(text[:_MOST_TEXT]).encode(errors="replace")
    nodes = list(_all_nodes(parse_shell(source)))
    if any(one.type == "ERROR" or one.is_missing for one in nodes):
        return frozenset()
    aside = [(one.start_byte, one.end_byte) for one in nodes if one.type == "redirected_statement"]
    plain: dict[str, bool] = {}
    for node in nodes:
        if node.type == "command":
            start, end = node.start_byte, node.end_byte
            words = " ".join(_text(one, source) for one in _word_nodes(node))
            alone = not any(begins <= start and end <= ends for begins, ends in aside)
            same = source[start:end].decode("utf-8", "replace") == words
            plain[words] = plain.get(words, True) and alone and same
    return frozenset(words for words, is_plain in plain.items() if is_plain)


def rank_command(words: tuple[str, ...]) -> int:
    """Return how much a command should be looked at: 0 for one that deletes, or looks destructive
    in other words, then those with the rights of another user, that reach other machines, that run
    what they are handed, that change files, that are not known; last comes what only reads."""
    if any(find_destructive(" ".join(words))):
        return 0
    name = _name(words[0])
    kinds = (DELETING | _WIPING, _OTHER_USERS, _REACHING, _SHELLS | _RUNNING, _WRITING)
    known = next((at for at, kind in enumerate(kinds) if name in kind), len(kinds))
    return len(kinds) + 1 if name in _IDLE else known


def list_deleted(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the operands of a program that deletes, also of one that another user runs; none of
    any other program."""
    begins = 0
    while begins < len(words) - 1 and (
        _name(words[begins]) in _LEADING or words[begins][:1] == "-"
    ):
        begins += 1
    if _name(words[begins]) not in DELETING:
        return ()
    dashed = words.index("--", begins) if "--" in words[begins:] else len(words)
    before = [one for one in words[begins + 1 : dashed] if not one.startswith("-")]
    return (*before, *words[dashed + 1 :])


def is_loud(words: tuple[str, ...]) -> bool:
    """Whether a command has another user's rights, reaches other machines, or runs what it is
    handed."""
    return rank_command(words) < _LOUD


def is_led(words: tuple[str, ...]) -> bool:
    """Whether another user runs the command."""
    return _name(words[0]) in _OTHER_USERS


def is_idle(words: tuple[str, ...]) -> bool:
    """Whether a command only goes to a folder, says something, or sets options of its shell."""
    return _name(words[0]) in _GOING | {"echo", "printf", "set", "true"}


def _commands(text: str, depth: int) -> Iterator[tuple[str, ...]]:
    source = spell_out(text).encode(errors="replace")
    nodes = [one for one in _all_nodes(parse_shell(source)) if one.type == "command"]
    for node in sorted(nodes, key=lambda one: (one.start_byte, -one.end_byte)):
        words = tuple(_text(one, source) for one in _word_nodes(node))
        if not any(words):
            continue
        yield words
        if depth and any(_name(word) in _SHELLS for word in words):
            for word in words:
                if " " in word:
                    yield from _commands(word, depth - 1)


def _find_changed(step: Step) -> Iterator[str]:
    told = not _HANDING_ON.intersection(step.wrappers)
    paths = [*step.writes, *_operands(list(step.words), told=told)]
    for path in paths:
        yield from step.places(path)
    if paths or step.name not in _IDLE:
        yield from (folder for folder in step.folders or () if folder)


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


def _word_nodes(command: ShellNode) -> list[ShellNode]:
    return [one for one in command.named_children if one.type not in _NO_WORDS]


def _text(node: ShellNode, source: bytes) -> str:
    """Return a word about as a shell reads it: without quotes and backslashes, not expanded."""
    text = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
    return text.translate({ord(char): None for char in "'\"\\"})


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _all_nodes(root: ShellNode) -> Iterator[ShellNode]:
    left = [root]
    while left:
        node = left.pop()
        yield node
        left += node.children
