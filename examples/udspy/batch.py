"""Agents side by side: `python batch.py old.txt older.txt`. Each has answers of its own.

What is harmless needs no code here: a rule in the gateway's policy, or a remembered answer, lets it
through, and only the rest reaches people.
"""

import asyncio
import sys
from typing import Any

from agent import make_agent

from gateway.integrations.frameworks.udspy import forward


async def main(paths: list[str]) -> None:
    agents = [forward(make_agent(), question=f"Delete {path}") for path in paths]
    done: list[Any] = await asyncio.gather(*agents, return_exceptions=True)
    for path, one in zip(paths, done, strict=True):
        print(f"{path}: {one if isinstance(one, Exception) else one.answer}")


asyncio.run(main(sys.argv[1:]))
