"""A gateway process that decides the requests that its parent names, as fast as it can.

Arguments: the server's URL, the namespace, and `first` for the replica that writes the policy.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from time import monotonic_ns

from benchmarks.children import serve
from benchmarks.stage import click, stage
from gateway.wire.codec import JsonObject


async def main(url: str, namespace: str, first: bool) -> None:
    """Run the parent's commands."""
    async with stage(url, namespace, first=first) as scene:
        core = scene.gateway.core

        async def register(agent: str) -> JsonObject:
            await scene.gateway.backend.credentials.add_agent(agent)
            return {}

        async def decide(ids: list[str], depth: int) -> JsonObject:
            """Decide all of `ids`, `depth` at a time; return when it began and ended (ns)."""
            clicks = iter([click(one) for one in ids])

            async def work() -> None:
                for one in clicks:
                    await core.requests.decide(one)

            began = monotonic_ns()
            await asyncio.gather(*(work() for _ in range(depth)))
            return {"began": began, "ended": monotonic_ns()}

        await serve({"register": register, "decide": decide})


if __name__ == "__main__":
    logging.basicConfig(level="WARNING")
    asyncio.run(main(sys.argv[1], sys.argv[2], "first" in sys.argv[3:]))
