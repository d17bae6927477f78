"""The page for authors of adapters: its toy is installed as it stands, and answers."""

from __future__ import annotations

import ast
import inspect
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway import ports

pytestmark = pytest.mark.xdist_group("toy")  # one server or build for all of them

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "write-an-adapter.md").read_text(
    encoding="utf-8"
)
MOST_LINES = 60
MOST_METHODS, MOST_CALLS = 7, 30
POLICY = """
[[people]]
name = "ana"
identities = ["folder:{user}"]
[[routes]]
approvers = ["ana"]
targets = ["folder:team"]
notify = ["folder:log"]
"""


def part(kind: str) -> str:
    """Return a code block of the page."""
    found = re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found.group(1)


@dataclass
class Site:
    """A gateway with the toy installed, its folder, and commands against it."""

    env: dict[str, str]
    root: Path

    def start(self) -> subprocess.Popen[str]:
        """Start the gateway; return when it is ready."""
        process = self.run("up")
        assert process.stderr is not None
        seen = ""
        while "gateway ready" not in seen:
            line = process.stderr.readline()
            assert line, seen
            seen += line
        return process

    def run(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of the gateway."""
        return subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def card(self, holds: str) -> Path:
        """Return the one card, once it says what a test waits for."""

        def found() -> Path | None:
            cards = list((self.root / "team").glob("*.txt"))
            assert len(cards) < 2, "one request, one card"
            return cards[0] if cards and holds in cards[0].read_text() else None

        return until(found)


def until(found: Callable[[], Path | None]) -> Path:
    """Return what another process makes, once it is there."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if (path := found()) is not None:
            return path
    raise AssertionError("it did not come")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the toy, as the page has it, into a folder of its own."""
    source = tmp_path_factory.mktemp("folder_chat")
    (source / "folder_chat.py").write_text(part("python"), encoding="utf-8")
    build = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    chosen = '[tool.hatch.build.targets.wheel]\ninclude = ["folder_chat.py"]\n'
    (source / "pyproject.toml").write_text(build + part("toml") + chosen, encoding="utf-8")
    place = tmp_path_factory.mktemp("site")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    alone = ("--no-deps", "--no-build-isolation", "--no-index", "--target", str(place))
    subprocess.run([*pip, *alone, str(source)], check=True)
    return place


@pytest.fixture
def site(installed: Path, tmp_path: Path) -> Iterator[Site]:
    """Yield a site whose gateway is not started yet; what a test leaves running is ended."""
    root = tmp_path / "chat"
    for name in ("team", "log"):
        (root / name).mkdir(parents=True)
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.format(user=root.owner()), encoding="utf-8")
    yield Site(
        env={
            **os.environ,
            "PYTHONPATH": str(installed),
            "FOLDER_ROOT": str(root),
            "GATEWAY_ADAPTERS": '["folder"]',
            "GATEWAY_DATA_DIR": str(tmp_path / "state"),
            "GATEWAY_POLICY_FILE": str(policy),
            "GATEWAY_PORT": "0",
        },
        root=root,
    )


def stop(process: subprocess.Popen[str]) -> None:
    """End a gateway in order."""
    process.terminate()
    process.communicate(timeout=20)


def test_the_toy_is_small() -> None:
    """One page, and an adapter that is read in one go."""
    lines = [line for line in part("python").splitlines() if line.strip()]
    assert len(lines) < MOST_LINES + 10  # blank lines apart
    code = [line for line in lines if not line.startswith(("import", "from", '"""'))]
    assert len(code) < MOST_LINES


def names_in(section: str, cell: str) -> list[str]:
    """Return the names that the rows of a section hold, matched by a pattern for one of them."""
    start = PAGE.index(f"## {section}\n")
    rows = [row for row in PAGE[start:].split("\n## ")[0].splitlines() if row.startswith("| `")]
    return [name for row in rows for name in re.findall(cell, row)]


def public(kind: type, wanted: Callable[[object], bool]) -> set[str]:
    """Return the public members of a class itself of some kind."""
    return {name for name, one in vars(kind).items() if wanted(one) and not name.startswith("_")}


def test_the_page_lists_what_an_adapter_implements() -> None:
    """Seven methods at most, and its facts, each once."""
    section = "What an adapter implements"
    methods = names_in(section, r"^\| `(\w+)\(")
    assert sorted(methods) == sorted(public(ports.Adapter, inspect.isfunction))
    assert len(methods) <= MOST_METHODS
    facts = public(ports.Adapter, lambda one: isinstance(one, property))
    facts |= set(vars(ports.Adapter)["__annotations__"])
    assert sorted(names_in(section, r"^\| `(\w+)` ")) == sorted(facts)


def test_the_page_lists_what_an_adapter_may_call() -> None:
    """Thirty calls at most in the groups of the API, each once."""
    groups = {
        "requests": ports.RequestCalls,
        "grants": ports.GrantCalls,
        "operator": ports.OperatorCalls,
    }
    count = 0
    for name, group in groups.items():
        rows = [row for row in PAGE.splitlines() if row.startswith(f"| `api.{name}`")]
        told = [one for row in rows for one in re.findall(r"`(\w+)`", row)]
        assert sorted(told) == sorted(public(group, inspect.isfunction)), name
        count += len(told)
    assert count <= MOST_CALLS


def test_the_toy_needs_one_door_and_the_values() -> None:
    """All that an adapter imports of the gateway are the ports, the models and the errors."""
    modules = set()
    for node in ast.walk(ast.parse(part("python"))):
        if isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
        elif isinstance(node, ast.Import):
            modules |= {name.name for name in node.names}
    ours = {name for name in modules if name.split(".")[0] in ("gateway", "adapters")}
    assert ours == {"gateway.ports", "gateway.models", "gateway.errors"}
    assert set(ports.__all__) <= vars(ports).keys()


@pytest.mark.thorough
def test_the_toy_carries_a_decision_to_the_agent(site: Site) -> None:
    """A card is posted as a file; an answer beside it lets the command go on."""
    gateway = site.start()
    asking = site.run("ask", "shell", "--", "make", "deploy")
    card = site.card("Approve")
    assert "make deploy" in card.read_text()
    card.with_suffix(".answer").write_text("approve")
    asking.communicate(timeout=30)
    assert asking.returncode == 0
    assert "approved by ana" in site.card("Approved").read_text()
    until(lambda: path if (path := site.root / "notices.txt").exists() else None)
    stop(gateway)


@pytest.mark.thorough
def test_the_toy_denies_with_a_reason(site: Site) -> None:
    """Words for the agent travel with the click."""
    gateway = site.start()
    asking = site.run("ask", "shell", "--", "rm", "-rf", "build")
    site.card("Deny").with_suffix(".answer").write_text("deny keep the build")
    _, err = asking.communicate(timeout=30)
    assert asking.returncode == 1
    assert "keep the build" in err
    stop(gateway)


@pytest.mark.thorough
def test_cards_are_true_after_the_gateway_was_killed(site: Site) -> None:
    """Killed after the post, started again: one card, still answerable, and true at the end."""
    gateway = site.start()
    asked = site.run("ask", "shell", "--no-wait", "--", "make")
    asked.communicate(timeout=30)
    card = site.card("Approve")
    gateway.send_signal(signal.SIGKILL)
    gateway.communicate(timeout=20)
    card.with_suffix(".answer").write_text("approve")
    again = site.start()
    assert site.card("approved by ana") == card
    stop(again)


@pytest.mark.thorough
def test_the_toy_runs_as_a_process_of_its_own(site: Site) -> None:
    """The gateway does without it; `gateway adapter folder` posts the card and hears the answer."""
    site.env["GATEWAY_ADAPTERS"] = '["web"]'
    gateway = site.start()
    adapter = site.run("adapter", "folder")
    asking = site.run("ask", "shell", "--", "make", "deploy")
    site.card("Approve").with_suffix(".answer").write_text("approve")
    asking.communicate(timeout=30)
    assert asking.returncode == 0
    for process in (adapter, gateway):
        stop(process)
        assert process.returncode == 0
