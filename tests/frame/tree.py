"""The checkout under test: where it is, which files it has, what its pyproject says."""

import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def project_files(suffix: str = "") -> list[Path]:
    """Return the files that are committed, or would be by `git add .`, whose name ends so."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files belong to the project is unknown")
    command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = (ROOT / name for name in listed.split("\0") if name.endswith(suffix) and name)
    return sorted(path for path in paths if path.is_file())


@cache
def pyproject(folder: str = ".") -> dict[str, Any]:
    """Return the parsed pyproject.toml of a folder of the checkout."""
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
