"""The workflow that publishes a version: what it may, what it uses, and that its commands exist."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import gateway
from tests.frame.tree import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
PINNED = re.compile(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
BUILT = {
    "gateway": (
        f"approval_gateway-{gateway.__version__}-py3-none-any.whl",
        f"approval_gateway-{gateway.__version__}.tar.gz",
    ),
    "agent": (f"approval_gateway_agent-{gateway.__version__}-py3-none-any.whl",),
    "npm": (f"approval-gateway-client-{gateway.__version__}.tgz",),
}
"""What `make packages` builds into dist/, by the name under which the workflow passes it on."""
PROGRAMS = {"docker", "gh", "grep", "make", "npm"}
MAY = {
    "build": {"contents": "read"},
    "publish-gateway": {"id-token": "write"},
    "publish-agent": {"id-token": "write"},
    "publish-npm": {"id-token": "write"},
    "publish-image": {
        "attestations": "write",
        "contents": "read",
        "id-token": "write",
        "packages": "write",
    },
    "release-page": {"attestations": "write", "contents": "write", "id-token": "write"},
}


def _without_comments(text: str) -> str:
    return re.sub(r"(^|\s)#.*$", "", text, flags=re.MULTILINE)


def jobs() -> dict[str, dict[str, Any]]:
    """Return the jobs of the workflow."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    return found


def steps(*names: str) -> list[dict[str, Any]]:
    """Return the steps of these jobs, or of all."""
    return [step for name in names or jobs() for step in jobs()[name]["steps"]]


def step_named(name: str) -> dict[str, Any]:
    """Return the one step of this name."""
    (found,) = [step for step in steps() if step.get("name") == name]
    return found


def run_step(name: str, folder: Path, **env: str) -> int:
    """Run a step as a runner does, in its folder below this one; return its exit code."""
    step = step_named(name)
    place = folder / step.get("working-directory", ".")
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], cwd=place, env={**os.environ, **env}, check=False
    )
    return done.returncode


def test_it_runs_for_tags_alone() -> None:
    """No branch, no pull request and no hand publishes anything. YAML reads `on` as true."""
    told = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert told[True] == {"push": {"tags": ["v*"]}}


def test_it_holds_no_secret_and_may_no_more_than_it_needs() -> None:
    """Nothing but the right to say who it is, and only where something is published."""
    text = WORKFLOW.read_text(encoding="utf-8")
    assert not {"secrets", "password", "user"} & set(re.findall(r"\w+", _without_comments(text)))
    assert yaml.safe_load(text)["permissions"] == {}
    assert {name: job["permissions"] for name, job in jobs().items()} == MAY


def test_every_action_is_pinned_by_its_commit() -> None:
    """A tag of somebody else's repository may be moved; a commit's hash may not."""
    lines = [line.strip("- ") for line in WORKFLOW.read_text().splitlines() if "uses:" in line]
    assert lines
    assert [line for line in lines if not PINNED.fullmatch(line)] == []
    hashes = {line.partition("@")[::2] for line in lines}
    assert len(hashes) == len(dict(hashes)), "one action, one version"


def test_each_job_publishes_what_was_built_and_tried() -> None:
    """Every file of dist/ is passed on once; each job takes what it needs, and an environment of
    its own, which its index asks for."""
    passed = {
        step["with"]["name"]: step["with"]["path"]
        for step in steps("build")
        if "upload-artifact" in step.get("uses", "")
    }
    files = [f"dist/{name}" for names in BUILT.values() for name in names]
    assert {name: fnmatch.filter(files, glob) for name, glob in passed.items()} == {
        name: [f"dist/{file}" for file in names] for name, names in BUILT.items()
    }
    publishing = {name: job for name, job in jobs().items() if name.startswith("publish-")}
    taken = [
        step["with"]["name"]
        for step in steps(*publishing)
        if "download-artifact" in step.get("uses", "")
    ]
    assert sorted(taken) == sorted(passed)
    assert {job["needs"] for job in publishing.values()} == {"build"}
    assert len({job["environment"] for job in publishing.values()}) == len(publishing)
    assert set(jobs()["release-page"]["needs"]) == set(publishing)


def test_every_command_exists() -> None:
    """The programs, the targets of make, the folders, and the files in dist/."""
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    built = [f"dist/{name}" for names in BUILT.values() for name in names]
    for step in steps():
        if "run" not in step:
            continue
        assert (ROOT / step.get("working-directory", ".")).is_dir()
        program, *words = step["run"].split()
        assert program in PROGRAMS, step["run"]
        if program == "make":
            assert {word for word in words if "=" not in word} <= targets
        for word in words:
            if word.removeprefix("./").startswith("dist/"):
                assert fnmatch.filter(built, word.removeprefix("./")), word
            elif word.startswith("gateway/"):
                assert (ROOT / word).is_file()


def test_the_digest_of_the_pushed_image_is_attested(tmp_path: Path) -> None:
    """Only a digest of the image that was pushed, whatever else the engine knows it as."""
    docker = tmp_path / "docker"
    digests = ["other.example/gateway@sha256:aa", "images.example/team/gateway@sha256:bb"]
    docker.write_text("#!/bin/sh\nprintf '%s\\n' " + " ".join(digests) + "\n")
    docker.chmod(0o755)
    output = tmp_path / "output"
    told = {"IMAGE": "images.example/team/gateway", "GITHUB_REF_NAME": "v1.2.3"}
    path = f"{tmp_path}:{os.environ['PATH']}"
    ended = run_step("Find its digest", tmp_path, PATH=path, GITHUB_OUTPUT=str(output), **told)
    assert ended == 0
    assert output.read_text() == "digest=sha256:bb\n"
    (attest,) = [one for one in steps("publish-image") if "actions/attest@" in one.get("uses", "")]
    assert attest["with"] == {
        "subject-name": "${{ vars.IMAGE }}",
        "subject-digest": "${{ steps.pushed.outputs.digest }}",
        "push-to-registry": True,
    }
    (found,) = [one for one in steps("publish-image") if one.get("id") == "pushed"]
    assert found["name"] == "Find its digest"


def test_an_image_is_tried_before_it_is_pushed() -> None:
    """With Docker, on the images of others as they are published."""
    runs = [step["run"] for step in steps("publish-image") if "run" in step]
    assert runs[0] == "make test-image IMAGE_ENGINE=docker"
    assert [number for number, line in enumerate(runs) if line.startswith("docker push")] == [3]


def test_readme_names_the_wheel_of_this_version() -> None:
    """Whoever takes the wheel from the release page can type the line as it is printed."""
    assert BUILT["gateway"][0] in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("tag", "right"),
    [
        (f"v{gateway.__version__}", True),
        (f"v{gateway.__version__}0", False),
        (f"v{gateway.__version__}.dev1", False),
        ("v", False),
    ],
)
def test_a_tag_of_another_version_publishes_nothing(tag: str, right: bool) -> None:
    """The step is run as it stands; it comes before anything is built."""
    name = "Check that the tag names the version"
    assert (run_step(name, ROOT, GITHUB_REF_NAME=tag) == 0) is right
    ran = [step["name"] for step in steps("build") if "run" in step]
    assert ran[0] == name
