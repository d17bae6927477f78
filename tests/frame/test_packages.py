"""What a release publishes, installed in an empty folder and run: `make test-packages`.

The packages come from dist/, and what they depend on from the index that pip is configured for.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from ast import literal_eval
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import gateway
from gateway.wire.signatures import Signer
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, SEED, Replica
from tests.frame.test_release import BUILT, run_step
from tests.frame.tree import ROOT, pyproject
from tests.hosts.conftest import run as run_beside

FOLDER = os.environ.get("PACKAGES")
DIST = ROOT / (FOLDER or "dist")
WHEEL, SDIST = (DIST / name for name in BUILT["gateway"])
(AGENT,), (NPM,) = ([DIST / name for name in BUILT[one]] for one in ("agent", "npm"))
CLIENT = ROOT / "packaging" / "typescript"
VERSION = f"gateway {gateway.__version__}\n"
COMMANDS = ("approval-gateway", "gateway")
BOTH = pytest.mark.parametrize("package", [WHEEL, SDIST], ids=["wheel", "sdist"])
FOR_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
LOAD_ADAPTERS = """
import sys
from importlib.metadata import entry_points, version
for one in sys.argv[2:]:
    version(one)
for one in entry_points(group="approval_gateway.adapters"):
    if one.name in sys.argv[1].split(","):
        one.load()
"""

pytestmark = [
    pytest.mark.skipif(FOLDER is None, reason="runs in `make test-packages`"),
    pytest.mark.timeout(600),
]


@cache
def index_of_pip() -> dict[str, str]:
    """Return what tells uv the index that pip is configured for; uv reads nothing of pip's."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, str] = {}
    for name, value in re.findall(r"^[\w:-]+\.([\w-]+)=('.*'|\".*\")$", said, re.MULTILINE):
        found.setdefault(name, literal_eval(value))  # the environment's come first
    told = {FOR_UV[name]: value for name, value in found.items() if name in FOR_UV}
    return {**told, "UV_INDEX_STRATEGY": "unsafe-best-match"}  # as pip chooses among several


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what uv keeps for the tests: no package of an earlier build is in it."""
    return tmp_path_factory.mktemp("uv")


@pytest.fixture
def env(tmp_path: Path, cache_folder: Path) -> dict[str, str]:
    """Return the environment of somebody with pip, pipx and uv, who has nothing of ours."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GATEWAY_", "PYTHON", "REDIS_", "VIRTUAL_ENV"))
    }
    return {
        **kept,
        **index_of_pip(),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
        "UV_CACHE_DIR": str(cache_folder),
        "UV_NO_CONFIG": "1",
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
    }


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """Return the empty folder in which everything is typed."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def run(folder: Path, env: dict[str, str], *command: str | Path, code: int = 0) -> str:
    """Run a command with nobody at the keyboard; return what it prints."""
    done = subprocess.run(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    return done.stdout


def made(folder: Path, env: dict[str, str], *wanted: str) -> Path:
    """Return the commands' folder of a new environment that holds what is wanted."""
    venv = folder.parent / "venv"
    run(folder, env, sys.executable, "-m", "venv", venv)
    run(folder, env, venv / "bin" / "python", "-m", "pip", "install", "--quiet", *wanted)
    return venv / "bin"


def check_commands(folder: Path, env: dict[str, str], commands: Path) -> None:
    """See that both names are the command, that the demo runs, and that it leaves nothing here."""
    for name in COMMANDS:
        assert run(folder, env, commands / name, "--version") == VERSION
    assert "The commands that you approved ran, and no others." in run(
        folder, env, commands / "gateway", "demo"
    )
    assert list(folder.iterdir()) == []


@BOTH
def test_pip_installs_it(empty: Path, env: dict[str, str], package: Path) -> None:
    """Wheel and sdist, each into an environment of its own."""
    check_commands(empty, env, made(empty, env, str(package)))


@BOTH
def test_pipx_installs_it(empty: Path, env: dict[str, str], package: Path) -> None:
    """With an extra, by its file; the commands are on the path then."""
    run(empty, env, "pipx", "install", f"{package}[discord]")
    check_commands(empty, env, Path(env["PIPX_BIN_DIR"]))


def test_uvx_runs_it(empty: Path, env: dict[str, str]) -> None:
    """By its file, and by its name alone where an index has it, as one will after the first tag."""
    assert run(empty, env, "uvx", "--quiet", "--from", SDIST, "gateway", "--version") == VERSION
    named = f"approval-gateway@{gateway.__version__}"
    said = run(empty, env, "uvx", "--quiet", "--find-links", DIST, named, "demo")
    assert "The commands that you approved ran, and no others." in said


def test_it_is_installed_from_a_repository(empty: Path, env: dict[str, str]) -> None:
    """As README prints it for today: from the address of a repository."""
    wanted = f"approval-gateway @ git+file://{ROOT}"
    said = run(empty, env, "uvx", "--quiet", "--from", wanted, "approval-gateway", "--version")
    assert said == VERSION
    run(empty, env, "pipx", "install", wanted.replace(" @", "[all] @"))
    assert run(empty, env, Path(env["PIPX_BIN_DIR"]) / "gateway", "--version") == VERSION


@pytest.mark.parametrize(
    ("extra", "adapters"),
    [
        ("slack", "slack"),
        ("discord", "discord"),
        ("email", "email"),
        ("all", "slack,discord,email"),
    ],
)
def test_an_extra_brings_what_it_promises(
    empty: Path, env: dict[str, str], extra: str, adapters: str
) -> None:
    """What its adapter imports is there, and every package that it names."""
    extras = pyproject()["project"]["optional-dependencies"]
    wanted = [
        one for name in extras if extra in (name, "all") and name != "all" for one in extras[name]
    ]
    names = [Requirement(one).name for one in wanted]
    assert names
    venv = empty.parent / "venv"
    run(empty, env, "uv", "venv", "--quiet", venv)
    python = venv / "bin" / "python"
    run(empty, env, "uv", "pip", "install", "--quiet", "--python", python, f"{WHEEL}[{extra}]")
    run(empty, env, python, "-I", "-c", LOAD_ADAPTERS, adapters, *names)


def test_the_agents_side_is_installed_alone(empty: Path, env: dict[str, str]) -> None:
    """An agent imports it, and its command tells where the other commands are."""
    commands = made(empty, env, str(AGENT))
    code = "from gateway.client import requires_approval; import gateway; print(gateway.__file__)"
    place = run(empty, env, commands / "python", "-c", code)
    assert Path(place.strip()).is_relative_to(commands.parent)
    said = run(empty, env, commands / "gateway", "approve", "1", code=2)
    assert "where the gateway is installed" in said


async def test_the_npm_package_passes_its_own_tests(
    gate: Replica, empty: Path, env: dict[str, str]
) -> None:
    """Installed in a project, against a real gateway: none fails, none is skipped."""
    run(empty, env, "npm", "install", "--no-audit", "--no-fund", NPM)
    installed = empty / "node_modules" / "approval-gateway-client"
    shutil.copytree(CLIENT / "test", installed / "test")
    told = {
        "GATEWAY_URL": gate.url,
        "GATEWAY_TOKEN": AGENT_TOKEN,
        "GATEWAY_PUBLIC_KEY": Signer(SEED).public_key,
        "APPROVER_TOKEN": ANN_TOKEN,
        "VECTORS": str(ROOT / "tests" / "vectors" / "wire.json"),
    }
    files = sorted(map(str, (installed / "test").glob("*.mjs")))
    command = ("node", "--test", "--test-reporter=tap", *files)
    code, said = await run_beside(*command, env={**env, **told}, cwd=empty)
    counts = dict(re.findall(r"^# (\w+) (\d+)$", said, re.MULTILINE))
    assert code == 0, said
    assert int(counts["pass"]) > len(files)
    assert (counts["fail"], counts["skipped"]) == ("0", "0"), said


def test_the_npm_package_names_the_repository_that_built_it(tmp_path: Path) -> None:
    """The step of the release writes what npm compares with the proof of origin."""
    shutil.copytree(CLIENT, tmp_path / "packaging" / "typescript")
    env = {"GITHUB_SERVER_URL": "https://code.example", "GITHUB_REPOSITORY": "us/gateway"}
    assert run_step("Name the repository in the npm package", tmp_path, **env) == 0
    told = json.loads((tmp_path / "packaging" / "typescript" / "package.json").read_text())
    url = "git+https://code.example/us/gateway.git"
    assert told["repository"] == {"type": "git", "url": url}
