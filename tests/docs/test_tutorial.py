"""The first minutes of the pages: the real script, a real gateway, a real answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import TUTORIAL, blocks

pytestmark = [
    pytest.mark.xdist_group("tutorial"),
    pytest.mark.thorough,
]  # one server or build for all of them


FIRST = {
    "docs/tutorials/gate-python.md": TUTORIAL,
    "docs/tutorials/first-approval.md": TUTORIAL,
    "README.md": TUTORIAL,
}
"""The pages with a script for the first minutes, and how it begins."""


@pytest.mark.parametrize(
    ("page", "answer", "printed"),
    [
        ("docs/tutorials/gate-python.md", ["approve"], "deleted old"),
        ("docs/tutorials/gate-python.md", ["deny"], "not deleted: denied by owner"),
        ("docs/tutorials/first-approval.md", ["approve"], "deleted old"),
        ("docs/tutorials/first-approval.md", ["deny"], ""),
        ("README.md", ["approve"], "deleted old"),
        ("README.md", ["deny"], ""),
    ],
)
def test_the_first_script_does_what_the_page_says(
    environment: dict[str, str], tmp_path: Path, page: str, answer: list[str], printed: str
) -> None:
    """Nothing is configured; the script finds the gateway, waits, and prints what it promises."""
    (script,) = [code for _, code in blocks(page) if code.startswith(FIRST[page])]
    path = tmp_path / "agent.py"
    path.write_text(script, encoding="utf-8")
    agent = subprocess.Popen(
        [sys.executable, path], env=environment, stdout=subprocess.PIPE, text=True
    )
    while not (waiting := gateway(environment, "pending", "--json")):
        assert agent.poll() is None
    request = json.loads(waiting.splitlines()[0])["request"]
    assert request["arguments"]["name"] == "old"
    assert ("force" in script) == ("force" in request["arguments"])
    gateway(environment, answer[0], request["id"], *answer[1:])
    assert agent.communicate(timeout=20)[0].strip() == printed


def gateway(environment: dict[str, str], *words: str) -> str:
    """Run a command of the owner; return what it prints."""
    command = [sys.executable, "-m", "gateway.cli", *words]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout
