"""Commands that adapters add, each from a distribution of its own that a test installs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell

TOY = """
from gateway.ports import Adapter

class ToyAdapter(Adapter):
    name = "toy"

    def run(self, api):
        raise NotImplementedError

    def commands(self, verbs):
        greet = verbs.add_parser("greet", help="say hello")
        greet.add_argument("whom")
        greet.set_defaults(run=self._greet)

    async def _greet(self, options):
        print(f"hello {options.whom}")
        return 7
"""
BROKEN = "import a_library_that_is_not_installed\n"
# Fails when its commands are asked for, and wears the name of a command of ours.
RUDE = TOY.replace("greet = ", 'raise RuntimeError("no"); greet = ').replace("ToyAdapter", "Rude")
PLAIN = TOY.replace("(Adapter)", "")


@pytest.fixture
def toys(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Install four distributions beside the gateway, as an installer lays them out."""
    forget_toys()
    site = tmp_path / "site"
    install(site, "toy", TOY, {"toy": "toy:ToyAdapter", "approve": "toy:ToyAdapter"})
    install(site, "broken", BROKEN, {"broken": "broken:Any"})
    install(site, "rude", RUDE, {"rude": "rude:Rude"})
    install(site, "plain", PLAIN, {"plain": "plain:ToyAdapter"})
    shell.env["PYTHONPATH"] = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    monkeypatch.syspath_prepend(site)
    yield shell
    forget_toys()


def forget_toys() -> None:
    """Have the next test import its own adapters, not those of the same name that were."""
    for name in ("toy", "broken", "rude", "plain", "kind"):
        sys.modules.pop(name, None)


def install(site: Path, name: str, module: str, adapters: dict[str, str]) -> None:
    """Write a module and the records of its distribution."""
    records = site / f"{name}-1.0.dist-info"
    records.mkdir(parents=True)
    (site / f"{name}.py").write_text(module, encoding="utf-8")
    (records / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
    )
    lines = "\n".join(f"{entry} = {target}" for entry, target in adapters.items())
    (records / "entry_points.txt").write_text(
        f"[approval_gateway.adapters]\n{lines}\n", encoding="utf-8"
    )


def test_an_adapter_adds_commands(toys: Shell) -> None:
    """They parse, help, run and end with an exit code as ours do."""
    assert toys.apart("toy", "greet", "you", code=7) == "hello you\n"
    assert "say hello" in toys.run("toy")
    assert "usage: gateway toy greet [-h] whom" in toys.run("toy", "greet", code=2)
    assert "invalid choice: 'dance'" in toys.run("toy", "dance", code=2)


@pytest.mark.parametrize("name", ["broken", "rude", "plain"])
def test_a_broken_adapter_costs_its_own_commands_alone(toys: Shell, name: str) -> None:
    """It is named in a sentence; every other command works beside it."""
    said = toys.run(name, "greet", "you", code=2)
    assert f"the adapter {name} cannot be used" in said
    assert "Traceback" not in said
    assert toys.run("toy", "greet", "you", code=7)
    assert "usage" in toys.run("--help")
    assert "gateway up" in toys.run("agent", "list", code=5)


def test_a_broken_adapter_is_named_when_it_should_run(toys: Shell) -> None:
    """The gateway does not start without a place where people were to answer."""
    said = toys.run("up", env={"GATEWAY_ADAPTERS": '["broken"]'}, code=2)
    assert "the adapter broken cannot be used: No module named" in said


def test_our_commands_come_first(toys: Shell) -> None:
    """An adapter cannot stand in for the command that approves."""
    assert "Approve requests as yourself" in toys.run("approve", "--help")
    assert "adds no commands" in toys.run("web", "greet", code=2)
    assert "invalid choice" in toys.run("nobody", "greet", code=2)
