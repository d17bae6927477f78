"""The first minutes of the pages: the real script, a real gateway, a real answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.docs.test_examples import TUTORIAL, blocks
from tests.frame.tree import ROOT

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
WAITING = "waiting for approval of 'delete_branch': answer"
DENIED = "gateway.errors.Denied: denied by owner"


@pytest.mark.parametrize(
    ("page", "answer", "printed", "failed"),
    [
        ("docs/tutorials/gate-python.md", "approve", "deleted old", ""),
        ("docs/tutorials/gate-python.md", "deny", "not deleted: denied by owner: keep it", ""),
        ("docs/tutorials/first-approval.md", "approve", "deleted old", ""),
        ("docs/tutorials/first-approval.md", "edit", "deleted old-2", ""),
        ("docs/tutorials/first-approval.md", "deny", "", f"{DENIED}: keep it"),
        ("docs/tutorials/first-approval.md", "remember", "deleted old", ""),
        ("README.md", "approve", "deleted old", ""),
        ("README.md", "deny", "", DENIED),
    ],
)
def test_the_first_script_does_what_the_page_says(
    environment: dict[str, str], tmp_path: Path, page: str, answer: str, printed: str, failed: str
) -> None:
    """Nothing is configured; the script finds the gateway, waits, and prints what it promises."""
    (script,) = [code for _, code in blocks(page) if code.startswith(FIRST[page])]
    path = tmp_path / "agent.py"
    path.write_text(script, encoding="utf-8")
    command = [sys.executable, str(path)]
    agent = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (waiting := gateway(environment, "pending", "--json")):
        assert agent.poll() is None
    request = json.loads(waiting.splitlines()[0])["request"]
    assert request["arguments"]["name"] == "old"
    assert ("force" in script) == ("force" in request["arguments"])
    assert agent.stderr is not None
    first = agent.stderr.readline()  # before the answer: a decided request is not waited for
    ANSWERS[answer](environment, request["id"])
    said, errors = agent.communicate(timeout=20)
    assert said.strip() == printed
    assert not failed or errors.splitlines()[-1].startswith(failed)
    text = (ROOT / page).read_text(encoding="utf-8")
    assert page == "README.md" or all(one in text for one in (WAITING, printed, failed))
    assert first.startswith(f"gateway client: {WAITING} at http://127.0.0.1:")
    if answer == "remember":
        again = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        assert (again.stdout.strip(), again.stderr) == (printed, "")
        assert gateway(environment, "grant", "revoke", "--all") == "1 revoked\n"


def edit(environment: dict[str, str], request: str) -> None:
    """Approve a request with another name, as the inbox does it."""
    announced = json.loads(
        (Path(environment["GATEWAY_DATA_DIR"]) / "gateway.json").read_text(encoding="utf-8")
    )
    kept = json.loads(gateway(environment, "show", request, "--json"))
    change = {"action": "edit", "arguments": {"name": "old-2"}, "revision": kept["revision"]}
    token = json.loads(gateway(environment, "approver", "rotate", "owner", "--json"))["token"]
    call = Request(
        f"{announced['url']}/v1/requests/{request}/decide",
        json.dumps(change).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urlopen(call, timeout=20) as done:
        assert done.status == 200


ANSWERS: dict[str, Callable[[dict[str, str], str], object]] = {
    "approve": lambda env, id: gateway(env, "approve", id),
    "deny": lambda env, id: gateway(env, "deny", id, "--reason", "keep it"),
    "remember": lambda env, id: gateway(env, "approve", id, "--remember"),
    "edit": edit,
}


def gateway(environment: dict[str, str], *words: str) -> str:
    """Run a command of the owner; return what it prints."""
    command = [sys.executable, "-m", "gateway.cli", *words]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout
