"""Which tools run whatever they are given: to remember one as a whole would mean anything goes."""

from __future__ import annotations

import re

from gateway.grants.tables import listed
from gateway.models import Kind
from gateway.wire import JsonObject

COMMAND_NAMES = ("command", "cmd", "commands", "argv", "cmdline", "command_line")
PATH_NAMES = (
    "path", "file_path", "filepath", "file", "filename", "file_name", "target_file",
    "notebook_path", "directory", "dir", "folder", "absolute_path", "relative_workspace_path",
)  # fmt: skip

# What agents say about a command; it changes neither what runs nor where.
SAID_ABOUT = frozenset({"description", "timeout", "timeout_ms", "justification", "explanation"})

_RUNNING_WORDS = listed("tools.txt")
RUNNING_ARGUMENTS = frozenset(
    (*COMMAND_NAMES, "code", "script", "source", "program", "expression", "shell", "sql", "query",
     "statement", "stdin", "executable", "entrypoint", "payload", "args")
)  # fmt: skip
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def is_runner(tool: str, kind: Kind, arguments: JsonObject) -> bool:
    """Whether a tool can do anything at all: never remembered as a whole."""
    if kind is not Kind.TOOL:
        return True
    words = {word.lower() for word in _PARTS.findall(tool)}
    if not words or words & _RUNNING_WORDS or not tool.isascii():
        return True
    return any(name.lower() in RUNNING_ARGUMENTS for name in arguments)
