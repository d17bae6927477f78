"""What the agents of the framework tests share. It runs beside a framework, in its environment.

`python NAME.py BLOCK`: runs a block of a page's Python with the page's model replaced by one that
first makes the calls of `CALLS`, and ends once it was told what became of them. At the end it
prints one line of JSON: how it ended, and what the model was told.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

CALLS: list[dict[str, Any]] = json.loads(os.environ.get("CALLS", "[]"))
"""The calls that the model makes at once: `{"id", "name", "args"}`."""
END = "all done"
"""What the model says in the end."""
told: list[str] = []
"""What it was told of its calls, in their order."""

_NO_ANSWER_YET = 6
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MODEL = re.compile(r"^model = .*$", re.MULTILINE)


def hear(results: list[Any]) -> bool:
    """Keep what the model was told of its calls; return whether it was told anything."""
    if results:
        told[:] = [one if isinstance(one, str) else json.dumps(one) for one in results]
    return bool(results)


def run_page(model: Any) -> None:
    """Run a block of the page that the environment names."""
    code, replaced = _MODEL.subn("", _blocks()[int(sys.argv[1])])
    assert replaced == 1, "a block says `model = …` once"
    if os.environ.get("STAY_IN_TOOL"):
        _stay_after_deleting()
    end = "done"
    try:
        exec(compile(code, "page", "exec"), {"__name__": "__main__", "model": model})
    except SystemExit as stopped:
        end = "waits" if stopped.code == _NO_ANSWER_YET else f"exit code {stopped.code}"
    except Exception as error:  # the test reads which
        end = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps({"end": end, "told": told}) + "\n")
    sys.stdout.flush()
    if os.environ.get("STAY"):  # to be killed
        sys.stdin.read()


def _blocks() -> list[str]:
    """Return the blocks of the page, or of the part of it that the environment names."""
    page = Path(os.environ["PAGE"]).read_text(encoding="utf-8")
    if part := os.environ.get("PART"):
        page = page.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
    return _BLOCK.findall(page)


def _stay_after_deleting() -> None:
    """Keep the page's tool from returning once it has deleted its file, so that it is killed
    there."""
    stays = False

    def stay(event: str, given: tuple[Any, ...]) -> None:
        nonlocal stays
        if event == "os.remove" and str(given[0]).endswith(".txt") and not stays:
            stays = True
            Path(str(given[0])).unlink()
            sys.stdin.read()

    sys.addaudithook(stay)
