"""What the agents of the framework tests share. It runs beside a framework, in its environment.

`python NAME.py NUMBER`: runs the program of a page (0), or an example of its framework, with the
model replaced by one that first makes the calls of `CALLS`, and ends once it was told what became
of them. At the end it prints one line of JSON: how it ended, and what the model was told.
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


def run_page(model: Any, *changes: tuple[str, str]) -> None:
    """Run the program that the environment names, with these changes of its text."""
    code, replaced = _MODEL.subn("", _programs()[int(sys.argv[1])])
    assert replaced == 1, "a program says `model = …` once"
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
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


def _programs() -> list[str]:
    """Return the program of the page, or of the part of it that the environment names, and the
    examples."""
    page = Path(os.environ["PAGE"]).read_text(encoding="utf-8")
    if part := os.environ.get("PART"):
        page = page.partition(f"\n### {part}\n")[2].partition("\n##")[0]
    [shown] = _BLOCK.findall(page)
    examples = json.loads(os.environ.get("EXAMPLES", "[]"))
    return [shown, *(Path(one).read_text(encoding="utf-8") for one in examples)]


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
