"""Editing a request's arguments in the person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path


def edit_text(text: str) -> str:
    """Open the text in the editor and return the result. The temporary file is deleted.

    Raises OSError when there is no such editor.
    """
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arguments.json"
        path.write_text(text, encoding="utf-8")
        subprocess.run([*editor, str(path)], check=False)
        return path.read_text(encoding="utf-8")
