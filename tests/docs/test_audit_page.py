"""docs/reference/events.md: a head that was kept tells what `verify` alone cannot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_tutorial import gateway

pytestmark = [
    pytest.mark.xdist_group("tutorial"),
    pytest.mark.thorough,
]  # one server or build for all of them

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
KEEP, COMPARE = re.findall(r"^```sh\n(.*head\.jsonl.*\n)```$", PAGE, re.MULTILINE)


def test_a_kept_head_tells_that_the_end_is_missing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """The page's commands: the whole export passes; cut before the head, it verifies and fails."""
    ours = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"

    def run(command: str) -> int:
        env = {**environment, "PATH": ours}
        return subprocess.run(["sh", "-c", command], env=env, cwd=tmp_path, check=False).returncode

    gateway(environment, "agent", "add", "sealed")
    head = tmp_path / "head.jsonl"
    while not head.exists() or not head.stat().st_size:
        assert run(KEEP) == 0
    export = tmp_path / "audit.jsonl"
    gateway(environment, "audit", "export", str(export))
    assert run(COMPARE) == 0
    lines = export.read_text(encoding="utf-8").splitlines(keepends=True)
    export.write_text("".join(lines[: lines.index(head.read_text(encoding="utf-8"))]))
    assert run("gateway audit verify audit.jsonl") == 0
    assert run(COMPARE) == 1
