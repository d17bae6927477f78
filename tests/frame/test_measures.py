"""The figures of how large the product is are counted, not written."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.frame.measures import protocols_in
from tests.frame.tree import ROOT


@pytest.mark.thorough
def test_each_figure_is_printed() -> None:
    """A line for each, with what it counts."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.frame.measures"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = (line.split(maxsplit=1) for line in done.stdout.splitlines())
    figures = {name: value for value, name in rows}
    assert {"modules", "protocols", "lines of the product", "lines of tests"} <= figures.keys()
    assert int(figures["modules"].replace(",", "")) > 100


def test_protocols_are_found_by_their_bases() -> None:
    """Also those with parameters; a class that only fits one is none."""
    found = list(protocols_in(ROOT / "gateway" / "ports" / "outgoing.py"))
    assert "Outbox" in found
    assert "NoticeKind" not in found
