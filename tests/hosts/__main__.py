"""Installs each host into `build/hosts`, one at a time, and runs its tests against it.

`python -m tests.hosts [--ci | NAME…]`. Ends with a count of what ran. Fails where a test failed,
where none ran, and under `CI=true` where one was skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.frame.tree import ROOT

HOSTS = ROOT / "build" / "hosts"
VERSIONS = ROOT / "tests" / "hosts" / "versions.toml"


class Count:
    """A plugin of pytest that counts what ran, what was skipped and what failed."""

    def __init__(self) -> None:
        self.ran = self.skipped = self.failed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one test."""
        self.ran += report.when == "call" and not report.skipped
        self.skipped += report.skipped
        self.failed += report.failed


def known_hosts() -> dict[str, dict[str, Any]]:
    """Return what is written down of each host."""
    return tomllib.loads(VERSIONS.read_text(encoding="utf-8"))


def file_name(host: str) -> str:
    """Return how the files of a host's tests begin, after `test_`."""
    return host.replace("-", "_")


def install(name: str, host: dict[str, Any]) -> None:
    """Install a host with the versions that are written down, unless they are there already."""
    folder, wanted = HOSTS / name, repr(sorted(host.items()))
    mark = folder / "installed"
    if not mark.exists() or mark.read_text() != wanted:
        if "pip" in host:
            _run(sys.executable, "-m", "venv", "--clear", str(folder))
            _run(_python(folder), "-m", "pip", "install", "--quiet", *host["pip"])
        if "npm" in host:
            _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder),
                 *host["npm"])  # fmt: skip
    if "pip" in host:  # from this tree, so every time
        wheels = HOSTS / "wheels"
        _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels),
             str(ROOT / "packaging" / "agent"))  # fmt: skip
        wheel = max(wheels.glob("*.whl"), key=lambda one: one.stat().st_mtime)
        _run(_python(folder), "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps",
             str(wheel))  # fmt: skip
        _run(_python(folder), "-m", "pip", "install", "--quiet", "rfc8785")
    mark.write_text(wanted)


def main(words: list[str]) -> int:
    """Install and test the hosts that are named, those of CI, or all."""
    known = known_hosts()
    named = [name for name in known if known[name].get("ci")] if words == ["--ci"] else words
    lines, worst = [], 0
    for name in named or known:
        install(name, known[name])
        count = Count()
        tests = sorted(map(str, (ROOT / "tests" / "hosts").glob(f"test_{file_name(name)}*.py")))
        code = pytest.main(["-q", "-m", "hosts", *tests], plugins=[count])
        missing = not count.ran or (count.skipped and os.environ.get("CI") == "true")
        worst = worst or int(code) or int(bool(missing))
        what = " ".join(known[name].get("pip", []) + known[name].get("npm", []))
        lines.append(
            f"{what}: {count.ran} tests ran, {count.failed} failed, {count.skipped} skipped"
        )
    sys.stdout.write("\n".join(lines) + "\n")
    return worst


def _python(folder: Path) -> str:
    return str(folder / "bin" / "python")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
