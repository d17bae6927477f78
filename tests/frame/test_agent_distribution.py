"""The agent-only distribution: built, installed without the server's libraries, and used."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest

import gateway
from gateway.domain.records import Query
from gateway.wire.local_discovery import FILE_NAME, write_private
from gateway.wire.signatures import Signer
from tests.api.replica import AGENT_TOKEN, POLICY, SEED, Replica, replica
from tests.frame.tree import ROOT, pyproject
from tests.waiting import moment

pytestmark = [
    pytest.mark.xdist_group("agent distribution"),
    pytest.mark.thorough,
]  # one server or build for all of them

SERVER_LIBRARIES = {
    "adapters", "aiohttp", "nacl", "jsonschema", "prometheus_client", "pydantic", "redis",
}  # fmt: skip
# Modules that need an extra, a test runner or a host; all others import on rfc8785 alone.
WITH_EXTRAS = {
    "gateway.client.pytest_plugin", "gateway.client.redis_transport",
    "gateway.integrations.mcp.http", "gateway.integrations.mcp.proxy",
    "gateway.integrations.mcp.server", "gateway.integrations.frameworks.udspy",
    "gateway.wire.redis_connection",
}  # fmt: skip
IMPORT_EACH = """
import importlib, json, pkgutil, sys
import gateway
names = [m.name for m in pkgutil.walk_packages(gateway.__path__, "gateway.")]
for name in set(names) - set(sys.argv[1:]):
    importlib.import_module(name)
print(json.dumps([gateway.__file__, *names]))
"""
IMPORT_CLIENT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import gateway.client
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent-only wheel, built from this tree."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT / "packaging" / "agent", check=True, capture_output=True)
    return next(out.glob("approval_gateway_agent-*.whl"))


@pytest.fixture(scope="module")
def agent_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment's interpreter: the wheel and its one dependency, nothing else."""
    venv = tmp_path_factory.mktemp("agent") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    install = ["install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([*pip, *install], check=True, capture_output=True)
    site = next((venv / "lib").glob("python*/site-packages"))
    _copy_installed("rfc8785", site)
    return python


def _copy_installed(name: str, site: Path) -> None:
    """Copy an installed pure distribution, because the tests must not need a package index."""
    source = distribution(name)
    for entry in source.files or []:
        if ".." not in entry.parts and "__pycache__" not in entry.parts:
            target = site / entry
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(entry.locate()), target)


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def _names_from(python: Path | str, code: str, *arguments: str) -> list[str]:
    """Run code in an interpreter that sees nothing of this checkout; return the names it prints."""
    command = [str(python), "-I", "-c", code, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads(done.stdout)
    return names


def test_it_needs_one_library(wheel: Path) -> None:
    """Installing the agent side pulls in the canonical-JSON library and nothing else."""
    required = _metadata(wheel).get_all("Requires-Dist") or []
    assert [re.split("[<>]", line)[0] for line in required if "extra ==" not in line] == ["rfc8785"]


def test_it_agrees_with_the_main_distribution(wheel: Path) -> None:
    """Both distributions carry one version, and bound what they share alike."""
    main = pyproject()["project"]
    agent = pyproject("packaging/agent")["project"]
    extras = [bound for extra in agent["optional-dependencies"].values() for bound in extra]
    known = [bound for extra in main["optional-dependencies"].values() for bound in extra]
    assert {*agent["dependencies"], *extras} <= {*main["dependencies"], *known}
    assert agent["requires-python"] == main["requires-python"]
    assert _metadata(wheel)["Version"] == gateway.__version__


def test_it_ships_the_agent_side_and_no_more(wheel: Path) -> None:
    """What is shipped is what the import rules call the agent side, with its licence and typing."""
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    rule = next(c for c in contracts if c.get("id") == "agent-side")
    agent_side = {name.split(".")[1] for name in rule["source_modules"]}
    with zipfile.ZipFile(wheel) as archive:
        shipped = {Path(name) for name in archive.namelist() if ".dist-info/" not in name}
    assert {path.parts[0] for path in shipped} == {"gateway"}
    inside = {path.parts[1].removesuffix(".py") for path in shipped}
    assert inside - {"__init__", "py.typed", "LICENSE"} == agent_side
    assert {"__init__", "py.typed", "LICENSE"} <= inside
    assert not [path for path in shipped if path.suffix == ".pyc"]


def test_it_works_without_the_server(agent_python: Path) -> None:
    """Every shipped module imports where neither the server nor its libraries exist."""
    place, *names = _names_from(agent_python, IMPORT_EACH, *WITH_EXTRAS)
    assert Path(place).is_relative_to(agent_python.parents[1])
    assert "gateway.client" in names


def test_the_client_is_light_where_the_server_is_installed() -> None:
    """Importing the client loads no server library even when all of them are there."""
    loaded = _names_from(sys.executable, IMPORT_CLIENT, str(ROOT))
    assert {name.partition(".")[0] for name in loaded} & SERVER_LIBRARIES == set()


@pytest.mark.parametrize("words", [["approve", "1"], ["up"]])
def test_its_command_names_where_the_others_are(agent_python: Path, words: list[str]) -> None:
    """Who types a command of the gateway where only the agent's side is reads where to run it."""
    command = [str(agent_python.parent / "gateway"), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"run `gateway {words[0]}` where the gateway is installed" in done.stderr


ASK_IN_PYTHON = """
from gateway.client import Client
with Client.from_env("agent1") as client:
    client.ask("shell", {"command": "ls"})
print("approved")
"""
WAYS = {
    "command": ["bin/gateway", "ask", "shell", "--agent", "agent1", "--", "ls"],
    "module": ["bin/python", "-m", "gateway.client", "ask", "shell", "--agent", "agent1"],
    "file": ["bin/python", "-m", "gateway.client.commands", "ask", "shell", "--agent", "agent1"],
    "python": ["bin/python", "-c", ASK_IN_PYTHON],
}


def _keep_credential(folder: Path, url: str) -> None:
    """Write what a local gateway announces, and what it gave this agent: Redis and a key too."""
    announced = {"url": url, "enroll": "secret", "public_key": Signer(SEED).public_key}
    write_private(folder / FILE_NAME, json.dumps(announced))
    (folder / "agents").mkdir(mode=0o700)
    kept = {
        "url": url,
        "token": AGENT_TOKEN,
        "redis_url": "redis://127.0.0.1:1",
        "public_key": announced["public_key"],
    }
    write_private(folder / "agents" / "agent1.json", json.dumps(kept))


async def _run_beside(
    gate: Replica, folder: Path, venv: Path, words: list[str], action: str
) -> tuple[int | None, str]:
    """Run a command of the agent's side, decide what it asks; return its exit code and words."""
    process = await asyncio.create_subprocess_exec(
        str(venv / words[0]),
        *words[1:],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "GATEWAY_DATA_DIR": str(folder)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    talking = asyncio.create_task(process.communicate())
    while not talking.done():
        for record in (await gate.core.requests.page(Query())).items:
            await gate.decided(record.id, action, revision=record.revision)
        await moment()
    said, _ = await talking
    return process.returncode, said.decode()


@pytest.mark.parametrize("way", WAYS)
async def test_it_asks_beside_a_local_gateway_without_extras(
    server_url: str, namespace: str, agent_python: Path, tmp_path: Path, way: str
) -> None:
    """As a command, as a module and in Python: over HTTP, since redis-py is missing."""
    venv = agent_python.parents[1]
    async with replica(server_url, namespace) as gate:
        await gate.store.apply(POLICY, by="test")
        _keep_credential(tmp_path, gate.url)
        code, said = await _run_beside(gate, tmp_path, venv, WAYS[way], "approve")
        assert code == 0, said
        code, said = await _run_beside(gate, tmp_path, venv, WAYS[way], "deny")
        assert code == 1, said
        assert len((await gate.core.requests.page(Query(final=True))).items) == 2


def test_what_needs_an_extra_says_which(agent_python: Path) -> None:
    """Redis alone cannot be reached without redis-py, and a key that was pinned is checked."""
    for env, extra in (
        ({"GATEWAY_REDIS_URL": "redis://127.0.0.1:1"}, "[redis]"),
        (
            {"GATEWAY_URL": "http://127.0.0.1:1", "GATEWAY_TOKEN": "t", "GATEWAY_PUBLIC_KEY": "k"},
            "[verify]",
        ),
    ):
        command = [str(agent_python), "-c", "from gateway.client import Client; Client.from_env()"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
        assert done.returncode == 1
        assert f"approval-gateway-agent{extra}" in done.stderr.splitlines()[-1]


def test_mcp_says_which_library_it_needs(agent_python: Path) -> None:
    """Where the extra is missing, the command names it and runs nothing."""
    command = [str(agent_python.parent / "gateway"), "mcp", "proxy", "--", "/bin/false"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "approval-gateway[mcp]" in done.stderr
