"""The person's own editor, for the arguments of a request."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path


def edit_text(text: str) -> str:
    """Return the text as the person left it; nothing of it stays on the disk.

    Raises OSError when there is no such editor.
    """
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arguments.json"
        path.write_text(text, encoding="utf-8")
        subprocess.run([*editor, str(path)], check=False)
        return path.read_text(encoding="utf-8")
