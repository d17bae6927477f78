"""`make bench` on a machine that lacks a program."""

from __future__ import annotations

import pytest

from benchmarks import __main__ as bench
from tests.web.chromium import binary


async def test_a_phase_without_its_program_is_skipped_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others run, and there is no traceback."""
    ran = []

    async def paint() -> list[object]:
        return [binary()]

    async def after() -> list[object]:
        ran.append("after")
        return []

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(bench, "PHASES", (paint, after))
    await bench.main(["paint", "after"])
    assert ran == ["after"]
    assert "skipped: paint" in capsys.readouterr().out
