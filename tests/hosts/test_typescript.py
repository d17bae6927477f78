"""The TypeScript client: built from the OpenAPI document, packed, run against a real gateway."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from gateway.models import ApprovalRequest, digest_of
from gateway.wire.signatures import Signer
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, SEED, Replica
from tests.frame.tree import ROOT
from tests.hosts.conftest import run

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

CLIENT = ROOT / "packaging" / "typescript"


PAGES = (ROOT / "docs" / "integrations" / "typescript.md", CLIENT / "README.md")
_BLOCK = re.compile(r"^```ts\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def built(installed: Path, tmp_path: Path) -> Path:
    """Return a copy of the client's folder, where it can be built beside its tools."""
    folder = tmp_path / "packaging" / "typescript"
    kept = shutil.ignore_patterns("node_modules", "dist", "openapi.ts")
    shutil.copytree(CLIENT, folder, ignore=kept)
    (folder / "node_modules").symlink_to(installed / "node_modules")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    return folder


def environment_of(installed: Path, **more: str) -> dict[str, str]:
    """Return an environment in which the host's own tools come first."""
    tools = installed / "node_modules" / ".bin"
    return {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "HOME": str(installed), **more}


async def build(folder: Path, env: dict[str, str]) -> None:
    """Generate the types from the document, and compile, as the package does it."""
    code, said = await run("npm", "run", "build", "--offline", env=env, cwd=folder)
    assert code == 0, said


async def test_the_client_against_a_real_gateway(
    gate: Replica, installed: Path, built: Path
) -> None:
    """It compiles in strict mode from today's document, and every one of its tests runs and passes:
    none fails, none is skipped, none is left out."""
    env = environment_of(
        installed,
        GATEWAY_URL=gate.url,
        GATEWAY_TOKEN=AGENT_TOKEN,
        GATEWAY_PUBLIC_KEY=Signer(SEED).public_key,
        APPROVER_TOKEN=ANN_TOKEN,
        VECTORS=str(ROOT / "tests" / "vectors" / "wire.json"),
    )
    await build(built, env)
    files = sorted(map(str, (built / "test").glob("*.mjs")))
    code, said = await run("node", "--test", "--test-reporter=tap", *files, env=env, cwd=built)
    counts = {
        name: int(count) for name, count in re.findall(r"^# (\w+) (\d+)$", said, re.MULTILINE)
    }
    vectors = len(json.loads(Path(env["VECTORS"]).read_text(encoding="utf-8"))["digests"])
    wanted = (
        vectors
        - 1
        + sum(
            len(re.findall(r"^ *test\(", path.read_text(encoding="utf-8"), re.MULTILINE))
            for path in (CLIENT / "test").glob("*.mjs")
        )
    )
    assert (code, counts["pass"], counts["fail"], counts["skipped"]) == (0, wanted, 0, 0), said


OURS = """
declare const process: { env: Record<string, string | undefined> };
declare function deleteBranch(name: string): Promise<string>;
"""
"""What the blocks of the pages take for granted."""
CONSUMER = """
import { digestOf } from "approval-gateway-client";
console.log(await digestOf("ci", { tool: "remove", arguments: { path: "a" } }));
"""


async def test_what_is_published_is_the_client_alone(installed: Path, built: Path) -> None:
    """The package has types and code, its words and its licence, no dependency, no test and no
    address of a registry; in a project that installs it what its pages print compiles strictly."""
    env = environment_of(installed)
    await build(built, env)
    words = ("npm", "pack", "--json", "--ignore-scripts", "--offline")
    code, said = await run(*words, env=env, cwd=built)
    assert code == 0, said
    (packed,) = json.loads(said[said.index("[") :])
    names = {one["path"] for one in packed["files"]}
    compiled = {name for name in names if name.startswith("dist/")}
    assert names - compiled == {"package.json", "README.md", "LICENSE"}
    modules = {one.stem for one in (built / "src").glob("*.ts")}
    ends = (".js", ".d.ts")
    assert compiled == {f"dist/{one}{end}" for one in modules for end in ends}
    told = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    assert "dependencies" not in told
    assert "http" not in json.dumps(told)
    project = built.parent / "project"
    project.mkdir()
    (project / "package.json").write_text('{"type": "module"}')
    blocks = [block for page in PAGES for block in _BLOCK.findall(page.read_text(encoding="utf-8"))]
    assert len(blocks) == len(PAGES)
    sources = dict(zip(("page", "readme"), blocks, strict=True), consumer=CONSUMER)
    for name, text in {**sources, "ours.d": OURS}.items():
        (project / f"{name}.ts").write_text(text, encoding="utf-8")
    install = ("npm", "install", "--offline", "--no-audit", "--no-fund")
    code, said = await run(*install, str(built / packed["filename"]), env=env, cwd=project)
    assert code == 0, said
    strict = ("--strict", "--target", "ES2022", "--module", "NodeNext", "--lib", "ES2022,DOM")
    files = sorted(one.name for one in project.glob("*.ts"))
    assert await run("tsc", *strict, *files, env=env, cwd=project) == (0, "")
    digest = digest_of(ApprovalRequest(id="0" * 32, agent="ci", tool="remove",
                                       arguments={"path": "a"}, digest=""))  # fmt: skip
    assert await run("node", "consumer.js", env=env, cwd=project) == (0, f"{digest}\n")
