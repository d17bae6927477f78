"""Which files a patch names. A patch is understood as a whole, or not at all."""

from __future__ import annotations

import re
from itertools import pairwise

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_END_OF_FILE = "*** End of File"
_BLOCKS = {"<<<<<<< SEARCH": ">>>>>>> REPLACE", "<<<<<<< ORIGINAL": ">>>>>>> UPDATED"}
_ENVELOPE_FILE = re.compile(r"\*\*\* (?:(?:Add|Update) File|Move to): (?P<path>\S.*)")
_ENVELOPE_BODY = re.compile(r"[ +-].*|@@.*|\*\*\* End of File|")
_GIT = re.compile(r"diff --git (?P<old>[^\s\"]+) (?P<new>[^\s\"]+)")
_SIDE = re.compile(r"(?:---|\+\+\+) (?P<path>[^\t\"]+?)(?:\t.*)?")
_RENAME = re.compile(r"(?:rename|copy) (?:from|to) (?P<path>[^\t\"]+)")
_ABOUT = re.compile(
    r"index [0-9a-f]+\.\.[0-9a-f]+(?: 100(?:644|755))?|new file mode 100644|similarity index \d+%"
)
_HUNK = re.compile(r"@@ -\d+(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? @@.*")
_BARE = re.compile(r"(?:@@|[ +]|-(?!-- )|\\ No newline).*|")
# What begins the naming of a file, or the taking away of one, in any kind of patch.
_NAMING = re.compile(
    r"^(?:\*\*\* (?:\w+ File|Move to):|\+\+\+|---|diff --git|Index:|(?:rename|copy) (?:from|to)) *"
    r"(?P<path>\S.*)",
    re.MULTILINE,
)

_DELETED = re.compile(
    r"^(?:\*\*\* Delete File: *(\S.*)|--- (?:a/)?([^\t\n]+).*\n\+\+\+ /dev/null"
    r"|diff --git (?:a/)?(\S+) \S+\ndeleted file)",
    re.MULTILINE,
)
_CHANGED = re.compile(
    r"^(?:\*\*\* (?:(?:Add|Update) File|Move to): *(\S.*)|\+\+\+ (?:b/)?(?!/dev/null)([^\t\n]+)"
    r"|(?:rename|copy) to (\S.*))",
    re.MULTILINE,
)


def is_patch(text: str) -> bool:
    """Whether a text begins as a patch does."""
    return text.lstrip().startswith((_BEGIN, "diff --git ", "--- ", "Index: "))


def deleted_by_patch(text: str) -> tuple[str, ...]:
    """Return the files that a patch takes away, also one that is not understood as a whole."""
    return _find_named(_DELETED, text)


def changed_by_patch(text: str) -> tuple[str, ...]:
    """Return the files that a patch creates, changes or moves, likewise."""
    return _find_named(_CHANGED, text)


def _find_named(sign: re.Pattern[str], text: str) -> tuple[str, ...]:
    found = (one for line in sign.finditer(text) for one in line.groups() if one)
    return tuple(dict.fromkeys(one.strip() for one in found))


def files_of_patch(text: str) -> tuple[str, ...] | None:
    """Return the files that a patch creates or changes, none where it names none.

    Returns None where a line is not understood, and where it deletes, links or changes modes.
    """
    lines = text.rstrip("\n").split("\n")
    if lines[0] == _BEGIN:
        return _of_envelope(lines)
    if lines[0] in _BLOCKS:
        return () if _replaces(lines, (lines[0], "=======", _BLOCKS[lines[0]])) else None
    if lines[0].startswith("@@"):
        return () if all(map(_BARE.fullmatch, lines)) and "\n+++ " not in text else None
    return _of_diff(lines)


def count_lines(text: str) -> tuple[int, int] | None:
    """Return how many lines a patch adds and takes away, None where it is not understood."""
    if files_of_patch(text) is None:
        return None
    lines = text.split("\n")
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    heads = sum(
        one.startswith("--- ") and other.startswith("+++ ") for one, other in pairwise(lines)
    )
    return added - heads, removed - heads


def named_in_patches(text: str) -> tuple[str, ...]:
    """Return whatever a text could name as a file if it were a patch, in any part of it."""
    found = (line.group("path") for line in _NAMING.finditer(text))
    return tuple(part for path in found for part in (path, *path.split()))


def _of_envelope(lines: list[str]) -> tuple[str, ...] | None:
    if lines[-1] != _END:
        return None
    paths: list[str] = []
    added = False
    for line in lines[1:-1]:
        if (named := _ENVELOPE_FILE.fullmatch(line)) is not None:
            paths.append(named["path"])
            added = line.startswith("*** Add File")
        elif not paths or not _ENVELOPE_BODY.fullmatch(line):
            return None
        elif line != _END_OF_FILE and (line.strip().startswith("***") or added) and line[:1] != "+":
            return None  # some readers take it for the next file, whatever stands before it
    return tuple(paths) or None


def _of_diff(lines: list[str]) -> tuple[str, ...] | None:
    paths: list[str] = []
    old = new = 0  # how many lines of the hunk are still to come
    for line in lines:
        if line.startswith("\\ No newline"):
            continue
        if old > 0 or new > 0:
            if line[:1] not in ("", " ", "+", "-"):
                return None
            old, new = old - (line[:1] != "+"), new - (line[:1] != "-")
        elif (hunk := _HUNK.fullmatch(line)) is not None and paths:
            old, new = int(hunk["old"] or 1), int(hunk["new"] or 1)
        else:
            found = _read_header(line)
            if found is None:
                return None
            paths += found
    complete = old == 0 and new == 0
    return tuple(dict.fromkeys(paths)) if paths and complete else None


def _read_header(line: str) -> list[str] | None:
    """Return the files that a header names, by all their readings; None for no known header."""
    if _ABOUT.fullmatch(line):
        return []
    if line == "--- /dev/null":
        return []  # the file is new
    found = _GIT.fullmatch(line) or _SIDE.fullmatch(line) or _RENAME.fullmatch(line)
    if found is None or line == "+++ /dev/null":
        return None
    return [one for path in found.groups() for one in (path, path.partition("/")[2]) if one]


def _replaces(lines: list[str], order: tuple[str, str, str]) -> bool:
    """Whether blocks of what is looked for, and what takes its place, are all there is."""
    at = 0
    for line in lines:
        if line == order[at]:
            at = (at + 1) % 3
        elif line in order or (at == 0 and line.strip()):
            return False
    return at == 0
