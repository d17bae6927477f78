"""What `gateway up` does for itself before it serves."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from tests.cli.shell import Shell


def test_it_may_open_more_files_than_systems_begin_with(shell: Shell) -> None:
    """Otherwise a thousand waiting agents would leave no connection for a click."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"ulimit -Sn 200; exec {sys.executable} -m gateway.cli up"],
        env=shell.env,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "embedded server runs" in process.stderr.readline()
    limits = Path(f"/proc/{process.pid}/limits").read_text(encoding="utf-8")
    row = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    process.terminate()
    process.communicate(timeout=20)
    assert int(row.split()[3]) == (16_384 if hard == resource.RLIM_INFINITY else min(hard, 16_384))
