"""What the name of a tool tells: its family, and the other names by which the same tool goes."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from gateway.policy.calls.tables import load_words


class Family(StrEnum):
    """What kind of tool a name made of known words alone says."""

    SHELL = "shell"
    FILE = "file"
    MESSAGE = "message"
    OTHER = "other"


_SHELL_WORDS = frozenset(
    {"ash", "bash", "cmd", "command", "commands", "console", "dash", "exec", "execute", "run",
     "sh", "shell", "term", "terminal", "zsh"}
)  # fmt: skip
_BESIDE_SHELL = frozenset({"a", "developer", "functions", "in", "local", "tool", "unified"})
# They read a command by other rules than a POSIX shell does.
_FOREIGN_SHELLS = frozenset(
    {"powershell", "pwsh", "csh", "tcsh", "fish", "nushell", "xonsh", "elvish", "batch"}
)
_READING = frozenset({"cat", "get", "head", "open", "read", "search", "show", "stat", "tail",
                      "view"})  # fmt: skip
_LISTING = frozenset({"list", "ls"})
_WRITING = frozenset(
    {"append", "apply", "change", "create", "edit", "edits", "editor", "insert", "patch",
     "replace", "save", "update", "write", "writer"}
)  # fmt: skip
_MOVING = frozenset({"copy", "make", "mkdir", "move", "rename"})
_DELETING = frozenset({"del", "delete", "erase", "remove", "rm", "rmdir", "trash", "unlink"})
_FILE_VERBS = _READING | _LISTING | _WRITING
_FILE_NOUNS = frozenset(
    {"a", "absolute", "and", "based", "block", "code", "content", "contents", "diff", "dir",
     "directory", "document", "file", "files", "filesystem", "folder", "fs", "image", "in", "line",
     "lines", "many", "mcp", "media", "multi", "multiple", "new", "notebook", "page", "pages",
     "part", "path", "range", "source", "str", "string", "text", "to", "tool"}
)  # fmt: skip
_SPEAKING = frozenset(
    {"announce", "comment", "email", "mail", "message", "notify", "post", "reply", "send"}
)
_MAKING = frozenset({"add", "create"})
_MADE = frozenset({"comment", "issue", "note"})
_MESSAGE_NOUNS = frozenset(
    {"a", "announcement", "channel", "chat", "comments", "direct", "discord", "dm", "github",
     "gitlab", "gmail", "in", "issue", "jira", "linear", "mcp", "messages", "note", "notification",
     "on", "outlook", "pr", "slack", "teams", "telegram", "text", "thread", "ticket", "to", "user"}
)  # fmt: skip
_RUNNING_WORDS = load_words("tools.txt")
_JOINED = re.compile(r"[A-Za-z_./:-]+")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PREFIX = re.compile(
    r"(?:functions[./]|multi_tool_use[./]|mcp__.+?__|mcp_[A-Za-z0-9]+_)(?=.)", re.IGNORECASE
)
_LONGEST = 256


@lru_cache(maxsize=1024)
def family_of(tool: str) -> Family:
    """Return the family of a tool, known only where every word of its name belongs to it."""
    words = words_of(tool)
    if not words:
        return Family.OTHER
    if words & _SHELL_WORDS and words <= _SHELL_WORDS | _BESIDE_SHELL and tool.lower() != "cmd":
        return Family.SHELL
    known = _FILE_VERBS | _MOVING | _DELETING
    if words & known and words <= known | _FILE_NOUNS:
        return Family.FILE
    speaks = words & _SPEAKING or (words & _MAKING and words & _MADE)
    if speaks and words <= _SPEAKING | _MAKING | _MESSAGE_NOUNS:
        return Family.MESSAGE
    return Family.OTHER


@lru_cache(maxsize=1024)
def verbs_of_file_tool(tool: str) -> frozenset[str]:
    """Return what a file tool's name says that it does: read, list, write, move, delete."""
    words = words_of(tool)
    said = {"read": _READING, "list": _LISTING, "write": _WRITING, "move": _MOVING,
            "delete": _DELETING}  # fmt: skip
    return frozenset(verb for verb, known in said.items() if words & known)


def is_foreign_shell(tool: str) -> bool:
    """Whether a tool's name says that its commands are not for a POSIX shell."""
    return bool(_all_words(tool) & _FOREIGN_SHELLS) or tool.lower() in ("cmd", "cmd.exe")


def may_run_anything(tool: str) -> bool:
    """Whether a tool's name says, or may say, that it does whatever it is told."""
    words = _all_words(tool)
    return not words or bool(words & _RUNNING_WORDS) or not tool.isascii()


def names_of(tool: str, server: str | None = None) -> tuple[str, ...]:
    """Return each name that a denial may know a tool by: as sent, without prefixes, in full."""
    bare = bare_name(tool)
    full = (f"mcp__{server}__{bare}",) if server else ()
    return tuple(dict.fromkeys((tool, bare, *full)))


def bare_name(tool: str) -> str:
    """Return a tool's name without the prefixes that dispatchers put before it."""
    bare = tool[:_LONGEST]
    for _ in range(4):
        bare = _PREFIX.sub("", bare, count=1) if _PREFIX.match(bare) else bare
    return bare


def words_of(tool: str) -> frozenset[str]:
    """Return the words of a tool's name, none where it has other letters than these."""
    return _all_words(tool) if _JOINED.fullmatch(tool) else frozenset()


def _all_words(tool: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _PARTS.findall(tool[:_LONGEST]))


_LOOK_UPS = frozenset({"get", "list", "find", "lookup", "check", "count", "show", "describe"})
# Words that change something, or join another verb to the first, or turn it (`check_out`).
_CHANGING = _WRITING | _MOVING | _DELETING | _SPEAKING | load_words("changing.txt")


def is_lookup(tool: str) -> bool:
    """Whether a tool's name is the verb of a look-up and what it looks up: no other word of it may
    change or run anything."""
    found = [word.lower() for word in _PARTS.findall(bare_name(tool))]
    if found[:2] == ["look", "up"]:
        found[:2] = ["lookup"]
    verb, rest = found[:1], found[1:]
    plain = not any(word in _CHANGING or word.removesuffix("s") in _CHANGING for word in rest)
    begins = bool(verb) and verb[0] in _LOOK_UPS and bool(rest)
    return begins and plain and bool(words_of(tool)) and not may_run_anything(tool)
