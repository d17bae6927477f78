"""`gateway --env-file FILE`: settings from a file that is named, and from no other.

The file is what a shell can source and Docker Compose can read: NAME=VALUE lines, quoted where the
value has spaces or quotes. A name that the environment has already keeps its value.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from gateway.errors import InvalidRequest

_OPTION = "--env-file"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def take_env_file(words: Sequence[str]) -> list[str]:
    """Read the file that leading words name, and return the words behind; raises InvalidRequest."""
    rest = list(words)
    while rest and rest[0].partition("=")[0] == _OPTION:
        option, equals, path = rest.pop(0).partition("=")
        if not equals:
            if not rest:
                raise InvalidRequest(f"{option} takes a file: gateway {option} FILE up")
            path = rest.pop(0)
        for name, value in read_env_file(path).items():
            os.environ.setdefault(name, value)
    return rest


def read_env_file(path: str) -> dict[str, str]:
    """Return the variables of a file; raises InvalidRequest with the line that cannot be read."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{_OPTION}: cannot read {path}: {error}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InvalidRequest(f"{path}, line {number}: {error}") from None
        if not words:
            continue
        name, equals, value = words[0].partition("=")
        if len(words) > 1 or not equals or not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"{path}, line {number}: write NAME=VALUE, the value in quotes where it has spaces"
            )
        found[name] = value
    return found
