"""A process that writes what a decision writes, with redis-py and nothing else.

No record is read, no guard checked, nothing signed. The values are those of a real decision.
"""

from __future__ import annotations

import asyncio
import sys
from time import monotonic_ns
from typing import Any

from benchmarks.children import serve
from benchmarks.floor import raw
from gateway.models import new_id
from gateway.stores.keys import Keys
from gateway.wire.codec import JsonObject

AGENT, PROCESS = "bench", "p" * 32
_LONGEST_REPLY_STREAM = 10_000
_DAY_MS = 86_400_000


class Bare:
    """Keys of a namespace of its own, shaped like the gateway's."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._keys = Keys("bare")

    async def prepare(self, count: int, fields: dict[str, str]) -> list[str]:
        """Make pending records."""
        keys, ids = self._keys, [new_id() for _ in range(count)]
        pipeline = self._client.pipeline(transaction=False)
        for one in ids:
            pipeline.hset(keys.record(one), mapping=fields)
            for key in (keys.pending, keys.pending_of(AGENT), keys.deadlines):
                pipeline.zadd(key, {one: monotonic_ns() // 1_000_000})
            pipeline.sadd(keys.waiting(AGENT, PROCESS), one)
        await pipeline.execute()
        return ids

    def decide(self, pipeline: Any, one: str, values: JsonObject) -> None:
        """Add the commands of one decision to a pipeline."""
        keys = self._keys
        for key in (keys.pending, keys.pending_of(AGENT), keys.deadlines):
            pipeline.zrem(key, one)
        pipeline.srem(keys.waiting(AGENT, PROCESS), one)
        pipeline.hset(keys.record(one), mapping=values["changed"])
        pipeline.zadd(keys.done, {one: 1_700_000_000_000})
        pipeline.xadd(keys.events, values["event"])
        replies = keys.replies(AGENT, PROCESS)
        pipeline.xadd(replies, values["reply"], id="0-*", maxlen=_LONGEST_REPLY_STREAM)
        pipeline.pexpire(replies, _DAY_MS)

    async def write(self, ids: list[str], batch: int, depth: int, values: JsonObject) -> None:
        """Write all, `batch` decisions to a pipeline, `depth` pipelines at a time."""
        batches = iter([ids[start : start + batch] for start in range(0, len(ids), batch)])

        async def work() -> None:
            for some in batches:
                pipeline = self._client.pipeline(transaction=False)
                for one in some:
                    self.decide(pipeline, one, values)
                await pipeline.execute()

        await asyncio.gather(*(work() for _ in range(depth)))


async def main(url: str) -> None:
    """Run the parent's commands."""
    client = raw(url)
    bare = Bare(client)

    async def run(count: int, batch: int, depth: int, values: JsonObject) -> JsonObject:
        ids = await bare.prepare(count, values["pending"])
        began = monotonic_ns()
        await bare.write(ids, batch, depth, values)
        return {"began": began, "ended": monotonic_ns()}

    await serve({"run": run})
    await client.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
