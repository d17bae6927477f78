"""The rules of who may import whom catch what they say: one violation of each is planted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.frame.tree import ROOT, pyproject

# By contract: the module that breaks it, and what it must not import.
PLANTED = {
    "layers": [("gateway.domain.records", "gateway.policy.chain")],
    "no-circles": [("gateway.approvals.transitions", "gateway.approvals.agent_service")],
    "adapters": [
        ("adapters.slack.clicks", "gateway.policy.chain"),
        ("adapters.discord.posting", "gateway.stores.keys"),
    ],
    "no-adapter": [("gateway.server.app", "adapters.web.adapter")],
    "independent-adapters": [("adapters.slack.home_tab", "adapters.discord.cards")],
    "agent-side": [
        ("gateway.client.gate", "nacl"),
        ("gateway.client.approval", "redis"),
        ("gateway.integrations.mcp.command", "mcp"),
        ("gateway.wire.canonical_json", "gateway.domain.time_and_tasks"),
    ],
    "redis-transport": [("gateway.client.http_transport", "gateway.wire.redis_connection")],
    "vendors": [
        ("gateway.server.background", "discord"),
        ("adapters.discord.cards", "redis"),
        ("gateway.domain.redaction", "aiohttp"),
        ("gateway.integrations.mcp.calls", "mcp"),
    ],
    "api-through-approvals": [
        ("gateway.api.operators", "gateway.stores.keys"),
        ("gateway.api.agent_verbs", "gateway.policy.hooks"),
    ],
    "ports-decide-nothing": [("gateway.ports.adapter_api", "gateway.policy.chain")],
    "hooks-behind-the-chain": [("gateway.approvals.decisions", "gateway.policy.hooks")],
    "settings-know-no-part": [("gateway.server.settings", "gateway.stores.keys")],
    "server-below-commands": [("gateway.server.app", "gateway.cli.commands")],
    "webhooks-know-events-only": [("gateway.delivery.egress_guard", "gateway.stores.keys")],
    "transitions-are-pure": [("gateway.approvals.transitions", "gateway.policy.chain")],
    "embedded-server-apart": [("gateway.stores.embedded_server", "gateway.domain.time_and_tasks")],
}


def _contracts() -> dict[str, str]:
    listed = pyproject()["tool"]["importlinter"]["contracts"]
    return {one["id"]: one["name"] for one in listed}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of a copy of this tree in which every violation is planted."""
    copy = tmp_path_factory.mktemp("planted")
    for package in ("gateway", "adapters"):
        ignored = shutil.ignore_patterns("__pycache__", "static", "*.lua")
        shutil.copytree(ROOT / package, copy / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for violations in PLANTED.values():
        for importer, imported in violations:
            with _file_of(copy, importer).open("a") as file:
                file.write(f"\nimport {imported}\n")
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return " ".join(done.stdout.split("Broken contracts", 1)[1].split())


def _file_of(folder: Path, module: str) -> Path:
    path = folder.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def test_every_contract_has_a_planted_violation() -> None:
    """A new contract comes with what it must catch."""
    assert PLANTED.keys() == _contracts().keys()


@pytest.mark.parametrize("contract", PLANTED)
def test_a_planted_violation_is_found(contract: str, report: str) -> None:
    """The linter names each forbidden import under the contract that forbids it."""
    names = list(_contracts().values())
    section = report[report.index(_contracts()[contract]) :]
    ends = [section.index(name) for name in names if name in section[1:]]
    section = section[: min((end for end in ends if end), default=None)]
    for importer, imported in PLANTED[contract]:
        if contract == "no-circles":
            assert f".{importer.rsplit('.', 1)[1]}" in section, section
        else:
            assert f"{importer} -> {imported}" in section, section
