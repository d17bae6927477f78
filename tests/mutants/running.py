"""Takes guards out of copies of the tree, one at a time, and runs the tests named for each.

Each run is a fork of this process, which has imported what the tests need of other people's
libraries, and nothing of ours: that takes longer than most tests.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.frame.tree import ROOT
from tests.mutants.guards import Guard

_FOLDER = ROOT / "build" / "mutants" / str(os.getpid())  # two runs do not meet
_PARTS = ("gateway", "adapters", "tests", "docs", "deploy", "packaging", "docker-compose.yml",
          "pyproject.toml")  # fmt: skip
_OURS = {"gateway", "adapters", "tests"}
_LIBRARIES = ("aiohttp.web", "discord", "hypothesis", "jsonschema", "pydantic", "redis.asyncio",
              "slack_bolt.async_app", "slack_sdk.web.async_client", "tree_sitter")  # fmt: skip
_OPTIONS = ("-x", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist",
            "-W", "ignore::pytest.PytestAssertRewriteWarning",
            "-W", "ignore::pytest.PytestUnraisableExceptionWarning",
            "-o", "timeout=60")  # fmt: skip
_PASSED, _FAILED = 0, 1  # pytest's other codes say that no test could run


class End(StrEnum):
    """What became of a guard that was taken out."""

    FOUND = "found"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"


class Result(NamedTuple):
    """How one guard ended, after how many seconds, and what its tests printed."""

    guard: Guard
    end: End
    seconds: float
    said: str


class _Run(NamedTuple):
    guard: Guard
    tree: Path
    began: float


def run_all(
    guards: Iterable[Guard], *, jobs: int, tell: Callable[[Result], None], root: Path = ROOT
) -> list[Result]:
    """Take out each guard, `jobs` at a time in copies of the tree; return how each ended.

    `tell` hears of each as it ends.
    """
    _import_libraries()
    free = [_copy(root, _FOLDER / str(number)) for number in range(jobs)]
    running: dict[int, _Run] = {}
    results: list[Result] = []

    def take_one() -> None:
        pid, status = os.wait()
        run = running.pop(pid)
        results.append(_judge(run, os.waitstatus_to_exitcode(status), root))
        free.append(run.tree)
        tell(results[-1])

    for guard in guards:
        while not free:
            take_one()
        tree = free.pop()
        guard.remove_from(tree)
        _forget_compiled(tree / guard.file)
        running[_start(guard.tests, tree)] = _Run(guard, tree, time.monotonic())
    while running:
        take_one()
    shutil.rmtree(_FOLDER)
    return results


def run_whole(guards: Iterable[Guard], *, root: Path = ROOT) -> str:
    """Run all tests that are named, with every guard in its place, and return what they printed
    if one fails: it would find nothing."""
    names = sorted({name for one in guards for name in one.tests})
    _import_libraries()
    tree = _copy(root, _FOLDER / "whole")
    _, status = os.waitpid(_start(names, tree), 0)
    said = _output(tree).read_text(encoding="utf-8", errors="replace")
    shutil.rmtree(_FOLDER)
    return said if status else ""


def _import_libraries() -> None:
    for name in _LIBRARIES:
        importlib.import_module(name)


def _copy(root: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for part in _PARTS:
        if (root / part).is_dir():
            shutil.copytree(root / part, to / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(root / part, to / part)
    return to


def _output(tree: Path) -> Path:
    return tree.with_suffix(".txt")


def _start(names: Sequence[str], tree: Path) -> int:
    """Run tests in a fork, in a copy of the tree; return the fork's process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        output = os.open(_output(tree), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path[:] = [str(tree), *(one for one in sys.path if one not in ("", str(ROOT)))]
        for name in [one for one in sys.modules if one.partition(".")[0] in _OURS]:
            del sys.modules[name]
        code = int(pytest.main([*_OPTIONS, *names]))
        sys.stdout.flush()
    except BaseException as error:  # whatever it is, no fork goes on as the runner
        os.write(2, repr(error).encode())
        code = 2
    finally:
        os._exit(code)


def _judge(run: _Run, code: int, root: Path) -> Result:
    """Return how a run ended, and put the guard back."""
    guard, tree = run.guard, run.tree
    shutil.copy2(root / guard.file, tree / guard.file)
    _forget_compiled(tree / guard.file)
    said = _output(tree).read_text(encoding="utf-8", errors="replace")
    end = {_PASSED: End.SURVIVED, _FAILED: End.FOUND}.get(code, End.BROKEN)
    if "compiling script" in said:  # what is no script any more fails every test
        end = End.BROKEN
    return Result(guard, end, time.monotonic() - run.began, said)


def _forget_compiled(file: Path) -> None:
    if file.suffix == ".py":
        Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
