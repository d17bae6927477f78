"""The Python examples of the documents run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.client.pytest_plugin import ScriptedApprovals

ROOT = Path(__file__).parents[2]
TUTORIAL = "# agent.py\n"
"""How the one example begins that needs a gateway; test_tutorial.py runs it."""
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(name: str) -> list[tuple[int, str]]:
    """Return the Python blocks of a document with the line they begin on."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return [(text[: found.start()].count("\n") + 2, found[1]) for found in BLOCK.finditer(text)]


@pytest.mark.parametrize("name", ["docs/python-sdk.md", "docs/cli.md", "README.md"])
def test_the_examples_run(name: str, approvals: ScriptedApprovals) -> None:
    """Each block, with the fixture as the people, as a reader would paste it."""
    found = blocks(name)
    assert found
    for line, code in found:
        if code.startswith(TUTORIAL):
            continue
        compiled = compile("\n" * (line - 1) + code, name, "exec")
        exec(compiled, {"approvals": approvals, "__name__": name})
