"""`python -m tests.frame.measures`: how large the product is, as decision records count it.

Protocols are classes that name `Protocol` among their bases. Lines are those of committed files.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.frame.tree import ROOT

PRODUCT = ("gateway", "adapters")
CODE = (".py", ".lua", ".js", ".css", ".html", ".toml", ".txt")
LONG = 1_000  # lines of a file that is hardly one noun any more


def committed(*folders: str) -> list[Path]:
    """Return the committed files below these folders."""
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def lines_of(files: list[Path]) -> int:
    """Return how many lines these text files have together."""
    return sum(file.read_text(encoding="utf-8").count("\n") for file in files)


def protocols_in(module: Path) -> Iterator[str]:
    """Yield the names of a module's protocols."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
            if bases & {"Protocol", "typing.Protocol"}:
                yield node.name


def measure() -> dict[str, float]:
    """Return each figure by what it counts."""
    product, tests = committed(*PRODUCT), committed("tests")
    modules = [file for file in product if file.suffix == ".py"]
    begun = time.perf_counter()
    linter = str(Path(sys.executable).parent / "lint-imports")
    subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, check=True)
    return {
        "modules": len(modules),
        f"modules over {LONG} lines": sum(lines_of([one]) > LONG for one in modules),
        "lines of the product": lines_of([one for one in product if one.suffix in CODE]),
        "lines of tests": lines_of([one for one in tests if one.suffix in (".py", ".toml")]),
        "lines of JSON in tests": lines_of([one for one in tests if one.suffix == ".json"]),
        "protocols": sum(len(list(protocols_in(one))) for one in modules),
        "seconds to check the import rules": round(time.perf_counter() - begun, 1),
    }


def main() -> None:
    """Print a line for each figure."""
    for name, value in measure().items():
        print(f"{value:>10,}  {name}")


if __name__ == "__main__":
    main()
