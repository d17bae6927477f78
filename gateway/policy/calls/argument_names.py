"""Which tools run whatever they are given, and what the names of arguments tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gateway.models import Kind
from gateway.policy.calls.tables import load_words
from gateway.wire.codec import JsonObject

# Names as `plain_name` writes them: FilePath, file-path and file_path are one.
_COMMANDS = frozenset({"command", "cmd", "commands", "argv", "cmdline", "commandline"})
ARGUMENT_LIST, COMMAND_LIST = "argv", "commands"
_PATHS = frozenset(
    {"path", "filepath", "file", "filename", "targetfile", "notebookpath", "directory", "dir",
     "folder", "absolutepath", "relativepath", "relativeworkspacepath", "paths", "files",
     "filepaths", "filenames"}
)  # fmt: skip
# Other names by which a call says a second place, or one that nobody calls a path.
_SECOND_PATHS = frozenset(
    {"src", "source", "sourcepath", "dst", "dest", "destination", "destinationpath", "destpath",
     "to", "from", "target", "targetpath", "uri", "name", "link", "linkpath", "output",
     "outputpath", "outputfile", "outfile", "saveas", "saveto", "moveto", "newpath", "oldpath",
     "newname", "root", "dirpath", "directorypath", "folderpath", "logfile"}
)  # fmt: skip
# They say that a call has more rights than the agent's own.
_RIGHTS = frozenset(
    {"sandboxpermissions", "additionalpermissions", "withescalatedpermissions", "sudo", "asroot",
     "elevated", "privileged", "escalated", "dangerouslydisablesandbox", "asuser", "runas"}
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

_NUMBERS = frozenset(
    {"timeout", "timeoutms", "insertline", "offset", "limit", "line", "startline", "endline"}
)
_ENCODING = re.compile(r"[A-Za-z0-9_.-]{1,20}")
_MOST_NUMBER = 86_400_000  # a day in ms

_RUNNING_WORDS = load_words("tools.txt")
# A tool whose name is made of these words alone runs the command that it is given in a shell.
_SHELL_WORDS = frozenset(
    {"ash", "bash", "cmd", "command", "commands", "console", "dash", "exec", "execute", "run",
     "sh", "shell", "term", "terminal", "zsh"}
)  # fmt: skip
_BESIDE_SHELL = frozenset({"a", "developer", "functions", "in", "local", "tool", "unified"})
# A tool whose name is made of these words alone, a verb among them, reads or writes files.
_FILE_VERBS = frozenset(
    {"append", "apply", "cat", "change", "create", "edit", "edits", "editor", "get", "head",
     "insert", "list", "ls", "open", "patch", "read", "replace", "save", "search", "show", "stat",
     "tail", "update", "view", "write", "writer"}
)  # fmt: skip
_FILE_NOUNS = frozenset(
    {"a", "absolute", "and", "based", "block", "code", "content", "contents", "diff", "dir",
     "directory", "document", "file", "files", "filesystem", "folder", "fs", "image", "in", "line",
     "lines", "many", "mcp", "media", "multi", "multiple", "new", "notebook", "page", "pages",
     "part", "path", "range", "source", "str", "string", "text", "to", "tool"}
)  # fmt: skip
# Beside these, calls of such tools move or copy what lies below; a pass for edits looks at both.
_MOVING_WORDS = frozenset({"copy", "move", "mkdir", "make", "rename"})
# They read a command by other rules than a POSIX shell does.
_FOREIGN_SHELLS = frozenset(
    {"powershell", "pwsh", "csh", "tcsh", "fish", "nushell", "xonsh", "elvish", "batch"}
)
_JOINED = re.compile(r"[A-Za-z_./:-]+")
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


def is_command_list(argument: str) -> bool:
    """Whether a list of this name is several commands, and not the words of one."""
    return plain_name(argument) == COMMAND_LIST


def is_shell(tool: str) -> bool:
    """Whether a tool's name says that it runs its command in a POSIX shell, and nothing else."""
    words = _words(tool)
    made = _joins(tool) and tool.lower() != "cmd"
    return made and bool(words & _SHELL_WORDS) and words <= _SHELL_WORDS | _BESIDE_SHELL


def is_file_tool(tool: str, *, moving: bool = False) -> bool:
    """Whether a tool's name says that it reads or writes files, and nothing else.

    With `moving` it may also copy them, move them or make folders.
    """
    verbs = _FILE_VERBS | _MOVING_WORDS if moving else _FILE_VERBS
    words = _words(tool)
    return _joins(tool) and bool(words & verbs) and words <= verbs | _FILE_NOUNS


def words_of_name(tool: str) -> frozenset[str]:
    """Return the words of a tool's name, none where it has other letters than these."""
    return frozenset(_words(tool)) if _joins(tool) else frozenset()


def is_said(argument: str, value: Any) -> bool:
    """Whether an argument speaks about a command, in words or with a number as its name says."""
    return is_said_about(argument) and _has_type(argument, value)


def is_plain_content(argument: str, value: Any) -> bool:
    """Whether an argument is what stands in a file, or which part of it, as its name says."""
    return is_content(argument) and _has_type(argument, value)


def names_any_path(argument: str) -> bool:
    """Whether an argument of this name can be a path: the first, a second, or the target."""
    return plain_name(argument) in _PATHS | _SECOND_PATHS


def gives_rights(argument: str) -> bool:
    """Whether an argument of this name gives a call more rights than the agent has."""
    return plain_name(argument) in _RIGHTS


def commands_in(value: Any, depth: int = 0) -> list[tuple[str, Any]]:
    """Return what is a command by its name, with that name, at any depth."""
    found: list[tuple[str, Any]] = []
    if depth > _MAX_DEPTH:
        return [("", None)]  # nobody looks so deep: it may be any command
    if isinstance(value, dict):
        for name, part in value.items():
            if names_command(name):
                found.append((name, part))
            found += commands_in(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            found += commands_in(part, depth + 1)
    return found


def paths_in(arguments: JsonObject) -> list[Any]:
    """Return the arguments that are paths by their names."""
    return [value for name, value in arguments.items() if names_path(name)]


def second_paths_in(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield what stands under any name that can be a path's, at any depth."""
    if depth > _MAX_DEPTH:
        yield None
    elif isinstance(value, dict):
        for name, part in value.items():
            if names_any_path(name) and not isinstance(part, dict | list):
                yield part
            yield from second_paths_in(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            yield from second_paths_in(part, depth + 1)


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


def _has_type(argument: str, value: Any) -> bool:
    name = plain_name(argument)
    if value is None:
        return True
    if name in _NUMBERS:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and 0 <= value <= _MOST_NUMBER
    if not isinstance(value, str):
        return False
    return name != "encoding" or _ENCODING.fullmatch(value) is not None


def _joins(tool: str) -> bool:
    """Whether nothing but words, and what joins them, stands in a name."""
    return _JOINED.fullmatch(tool) is not None


def _words(tool: str) -> set[str]:
    return {word.lower() for word in _PARTS.findall(tool)}
