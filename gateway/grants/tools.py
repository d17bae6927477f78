"""Which tools run whatever they are given, and what the names of arguments tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gateway.grants.tables import listed
from gateway.models import Kind
from gateway.wire import JsonObject

# Names as `plain_name` writes them: FilePath, file-path and file_path are one.
_COMMANDS = frozenset({"command", "cmd", "commands", "argv", "cmdline", "commandline"})
_PATHS = frozenset(
    {"path", "filepath", "file", "filename", "targetfile", "notebookpath", "directory", "dir",
     "folder", "absolutepath", "relativepath", "relativeworkspacepath", "paths", "files",
     "filepaths", "filenames"}
)  # fmt: skip
_RUNNING = _COMMANDS | {
    "code", "script", "source", "program", "expression", "shell", "sql", "query", "statement",
    "stdin", "executable", "entrypoint", "payload", "args",
}  # fmt: skip
# Of these nobody can say which commands they run.
_SCRIPTS = frozenset({"code", "script", "shell", "stdin", "program", "executable", "entrypoint"})
# What agents say about a command; it changes neither what runs nor where.
_SAID_ABOUT = frozenset({"description", "timeout", "timeoutms", "justification", "explanation"})
# What stands in a file, and which part of it: neither says which file.
_CONTENT = _SAID_ABOUT | {
    "content", "contents", "text", "body", "filetext", "inserttext", "insertline", "oldstring",
    "newstring", "oldstr", "newstr", "oldtext", "newtext", "codeedit", "instructions",
    "newsource", "offset", "limit", "line", "startline", "endline", "encoding",
}  # fmt: skip

_RUNNING_WORDS = listed("tools.txt")
# They read a command by other rules than a POSIX shell does.
_FOREIGN_SHELLS = frozenset(
    {"powershell", "pwsh", "csh", "tcsh", "fish", "nushell", "xonsh", "elvish", "batch"}
)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# It begins as one, or is one word with a slash, and no address of the web.
_PATHLIKE = re.compile(r"(?:file:|[~./\\][^\n]*[/\\])|/|(?!\w+://)\S*[/\\]\S*$", re.IGNORECASE)
_MAX_DEPTH = 16


def is_runner(tool: str, kind: Kind, arguments: JsonObject) -> bool:
    """Whether a tool can do anything at all: never remembered as a whole."""
    if kind is not Kind.TOOL:
        return True
    words = _words(tool)
    if not words or words & _RUNNING_WORDS or not tool.isascii():
        return True
    return any(map(runs_what_it_is_given, arguments))


def is_foreign_shell(tool: str) -> bool:
    """Whether a tool's name says that its commands are not for a POSIX shell."""
    return bool(_words(tool) & _FOREIGN_SHELLS) or tool.lower() in ("cmd", "cmd.exe")


def names_command(argument: str) -> bool:
    """Whether an argument of this name is a command."""
    return plain_name(argument) in _COMMANDS


def names_path(argument: str) -> bool:
    """Whether an argument of this name is a path, or several."""
    return plain_name(argument) in _PATHS


def runs_what_it_is_given(argument: str) -> bool:
    """Whether an argument of this name is something to run."""
    return plain_name(argument) in _RUNNING


def names_script(argument: str) -> bool:
    """Whether an argument of this name may hold commands that nobody reads."""
    return plain_name(argument) in _SCRIPTS


def is_said_about(argument: str) -> bool:
    """Whether an argument of this name speaks about a command, and changes nothing."""
    return plain_name(argument) in _SAID_ABOUT


def is_content(argument: str) -> bool:
    """Whether an argument of this name is what stands in a file, or says which part of it."""
    return plain_name(argument) in _CONTENT


def commands_in(arguments: JsonObject) -> list[Any]:
    """Return the arguments that are commands by their names."""
    return [value for name, value in arguments.items() if names_command(name)]


def paths_in(arguments: JsonObject) -> list[Any]:
    """Return the arguments that are paths by their names."""
    return [value for name, value in arguments.items() if names_path(name)]


def pathlike(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield each text anywhere in a value that looks like a path, whatever its name is."""
    if isinstance(value, str):
        if _PATHLIKE.match(value):
            yield value
    elif depth <= _MAX_DEPTH and isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        for part in parts:
            yield from pathlike(part, depth + 1)


def plain_name(argument: str) -> str:
    """Return the name of an argument however its words are joined."""
    return argument.replace("_", "").replace("-", "").lower()


def _words(tool: str) -> set[str]:
    return {word.lower() for word in _PARTS.findall(tool)}
