"""`python -m tests.setup`: walk both ways to the first tap, and print what they cost."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.setup.walks import walk_discord, walk_slack
from tests.setup.way import Way


def tabulate(*ways: Way) -> str:
    """Return the acts of each step, and below them the table."""
    rows: list[tuple[str, list[object]]] = [
        ("", [way.chat for way in ways]),
        ("numbered steps", [way.walked for way in ways]),
        ("single acts", [len(way.acts) for way in ways]),
        ("  of them links that a desktop opens", [way.links for way in ways]),
        ("copied ids", [len(way.copied_ids) for way in ways]),
        ("files written by hand", [len(way.files) for way in ways]),
        ("seconds of waiting", [round(way.seconds, 1) for way in ways]),
    ]
    lines = [line for way in ways for line in (*way.describe(), "")]
    lines += [f"{name:38}" + "".join(f"{value:>9}" for value in values) for name, values in rows]
    return "\n".join(lines)


async def _walk() -> list[Way]:
    ways = []
    for walk in (walk_slack, walk_discord):
        with tempfile.TemporaryDirectory(prefix="way") as home:
            ways.append(await walk(Path(home)))
    return ways


if __name__ == "__main__":
    sys.stdout.write(f"{tabulate(*asyncio.run(_walk()))}\n")
