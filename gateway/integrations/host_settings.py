"""A host's settings file: read strictly, changed in one step, and put back as it was."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.errors import InvalidRequest
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.local_discovery import read_private, state_folder, write_private

Values = dict[str, Any]
_MOST_BYTES = 4 * 1024 * 1024
_INDENT = re.compile(r"\{\r?\n([ \t]+)\"")
_MARK = "\ufeff"  # editors of Windows begin a file with it
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)


class SettingsFile:
    """One file of JSON. What else stands in it stays, in its order."""

    def __init__(self, path: Path, *, comments: bool = False) -> None:
        """Read it; a file that is not there is empty. `comments` says that its host allows them.
        Raises InvalidRequest for a file that cannot be read as JSON: it stays untouched."""
        self.path = path.resolve()
        self.comment: int | None = None
        """The line of the first comment. Such a file is read, and never written."""
        raw = self._read()
        if raw is None:
            self.before: str | None = None
            self.values: Values = {}
            return
        self.before, self.values, self.comment = _parse(self.path, raw, comments=comments)

    def _read(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidRequest(f"{self.path} cannot be read: {error.strerror}") from error

    def change(self, edit: Callable[[Values], Values]) -> str | None:
        """Return the text after a change, None where nothing would be left of a file. It keeps its
        indentation and its ends of lines, and no mark at its start, which some hosts cannot read.
        Raises InvalidRequest where that would lose a comment."""
        after = edit(json.loads(json.dumps(self.values)))
        if after == self.values:
            return self.before
        if self.comment is not None:
            raise InvalidRequest(
                f"{self.path} has a comment in line {self.comment}, which would be lost: "
                "nothing was written; change the file yourself, or take its comments out"
            )
        found = _INDENT.search(self.before or "")
        text = json.dumps(after, indent=found[1] if found else 2, ensure_ascii=False)
        if self.before is None or self.before.endswith("\n"):
            text += "\n"
        return text.replace("\n", "\r\n") if "\r\n" in (self.before or "") else text

    def undo(self, edit: Callable[[Values], Values]) -> str | None:
        """Return the text without a change: that from before, if nobody changed it since; otherwise
        `edit` takes out what is ours."""
        kept = read_private(_note(self.path))
        now = self.before or ""
        if kept is None and self.before is None:
            return None
        if kept is not None and kept.get("written") == sha256_hex(now.encode()):
            before = kept.get("before")
            return before if isinstance(before, str) else None
        after = self.change(edit)
        return None if after is not None and not json.loads(after) and self.values else after

    def diff(self, after: str | None) -> str:
        """Return the change as people read it."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(),
            (after or "").splitlines(),
            str(self.path) if self.before is not None else "(no file)",
            str(self.path) if after is not None else "(no file)",
            lineterm="",
        )
        return "\n".join(lines)

    def write(self, after: str | None, *, untouched: bool = False) -> None:
        """Replace the file in one step. What was there is kept for `undo` where it was `untouched`
        by us, and where it was written by us alone. Raises InvalidRequest when it was changed
        meanwhile."""
        if self._read() != (None if self.before is None else self.before.encode()):
            raise InvalidRequest(f"{self.path} was changed meanwhile: nothing was written")
        note = Path(_note(self.path))
        kept = read_private(note) or {}
        was_ours = kept.get("written") == sha256_hex((self.before or "").encode())
        if after is None:
            self.path.unlink(missing_ok=True)
        else:
            self._replace(after)
        if after is None or not (untouched or was_ours):
            note.unlink(missing_ok=True)
            return
        note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        before = kept.get("before") if was_ours else self.before
        told = {"path": str(self.path), "written": sha256_hex(after.encode()), "before": before}
        write_private(note, json.dumps(told))

    def forget(self) -> None:
        """Keep nothing more of what was there before: it is there again."""
        Path(_note(self.path)).unlink(missing_ok=True)

    def _replace(self, after: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        mode = self.path.stat().st_mode & 0o7777 if self.before is not None else 0o644
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(after)
                file.flush()
                os.fsync(handle)
            new.chmod(mode)
            new.replace(self.path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise


def _parse(path: Path, raw: bytes, *, comments: bool) -> tuple[str, Values, int | None]:
    """Return the text, its values, and the line of the first comment."""

    def unique(pairs: list[tuple[str, Any]]) -> Values:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name stands twice in one object")
        return found

    if len(raw) > _MOST_BYTES:
        raise InvalidRequest(f"{path} is too large for a settings file: nothing was written")
    try:
        text = raw.decode("utf-8")
        plain, comment = _blank_comments(text.removeprefix(_MARK))
        if comment is not None and not comments:
            raise ValueError(f"a comment begins in line {comment}")
        values = json.loads(plain, object_pairs_hook=unique) if plain.strip() else {}
    except (ValueError, RecursionError) as error:
        why = f"{path} is not valid JSON, so nothing was written: {error}"
        raise InvalidRequest(why) from error
    if not isinstance(values, dict):
        raise InvalidRequest(f"{path} holds no JSON object: nothing was written")
    return text, values, comment


def _blank_comments(text: str) -> tuple[str, int | None]:
    """Return a text with spaces for its comments, and the line of the first one."""
    starts: list[int] = []

    def blank(found: re.Match[str]) -> str:
        if found[0].startswith('"'):
            return found[0]
        starts.append(found.start())
        return re.sub(r"[^\r\n]", " ", found[0])

    plain = _STRING_OR_COMMENT.sub(blank, text)
    return plain, text.count("\n", 0, starts[0]) + 1 if starts else None


def _note(path: Path) -> str:
    name = f"{sha256_hex(str(path).encode())[:32]}.json"
    return str(Path(state_folder(), "installed", name))
