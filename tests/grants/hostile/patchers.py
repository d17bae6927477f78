"""What patches do, as those who apply them read them: leniently, and without the product."""

from __future__ import annotations

import re

_BEGUN = re.compile(r"^\s*\*\*\* (Add|Update|Delete) File: (.+?)\s*$")
_MOVED = re.compile(r"^\s*\*\*\* Move to: (.+?)\s*$")
_NAMED = re.compile(r"^(?:---|\+\+\+|Index:|rename (?:from|to)|copy to) (\S+)")
_GIT = re.compile(r"^diff --git a/(\S+) b/(\S+)")


def begin_patch(text: str) -> list[tuple[str, str]]:
    """Return what a patch of the `*** Begin Patch` dialect does to which files."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if (header := _BEGUN.match(line)) is not None:
            found.append(("deletes" if header[1] == "Delete" else "writes", header[2]))
        elif (moved := _MOVED.match(line)) is not None:
            found.append(("writes", moved[1]))
    return found


def unified(text: str) -> list[tuple[str, str]]:
    """Return what a unified or git diff does to which files."""
    lines = text.splitlines()
    found: list[tuple[str, str]] = []
    for at, line in enumerate(lines):
        if (both := _GIT.match(line)) is not None:
            found.append(("writes", both[2]))
        elif (named := _NAMED.match(line)) is not None and named[1] != "/dev/null":
            gone = line.startswith("---") and lines[at + 1 : at + 2] == ["+++ /dev/null"]
            path = re.sub("^[ab]/", "", named[1])
            found.append(("deletes" if gone else "writes", path))
    return found
