"""An agent process of the benchmark: the SDK over Redis, and the raw floor beside it.

Arguments: the server's URL, and `pinned` to check the gateway's signatures.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path
from time import monotonic_ns

from benchmarks.children import say, serve
from benchmarks.floor import BACK, THERE, follow_in_background, hop, raw
from benchmarks.stage import ASK_TOOL, RULE_TOOL, argument
from gateway.client import AsyncClient, config
from gateway.client.async_client import transport_for
from gateway.models import ApprovalRequest, Decision
from gateway.wire.codec import JsonObject

_AT_ONCE = 50
_PAUSE_SECONDS = 0.002


class Agent:
    """Waits for many answers at once. `sending` limits how many requests are being sent."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self.sending = asyncio.Semaphore(_AT_ONCE)
        self._waiters: set[asyncio.Task[None]] = set()

    async def fill(self, count: int) -> JsonObject:
        """Let `count` coroutines wait; return the ids of the new requests."""
        ids = []
        while len(self._waiters) < count:
            await self.sending.acquire()
            request = self.client.request(ASK_TOOL, {"command": argument()})
            waiter = asyncio.create_task(self._wait(request))
            self._waiters.add(waiter)
            waiter.add_done_callback(self._waiters.discard)
            ids.append(request.id)
        return {"ids": ids}

    async def _wait(self, request: ApprovalRequest) -> None:
        await self.client.send(request)
        say({"at": monotonic_ns()})

    async def memory(self) -> JsonObject:
        """Return the bytes of this process that are in memory."""
        gc.collect()
        return {"bytes": resident()}

    async def leave(self) -> JsonObject:
        """End without cancelling anything, as a killed process does."""
        say({})
        os._exit(0)


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def rule_trips(client: AsyncClient, url: str, count: int) -> JsonObject:
    """Time `count` requests that a rule decides, and as many empty round trips, in turns (ns)."""
    product: list[int] = []
    floor: list[int] = []
    back: asyncio.Queue[int] = asyncio.Queue()
    sender = raw(url)
    async with follow_in_background(url, BACK, back.put_nowait):
        for _ in range(count):
            began = monotonic_ns()
            await hop(sender, THERE)
            floor.append(await back.get() - began)
            await asyncio.sleep(_PAUSE_SECONDS)
            request = client.request(RULE_TOOL, {"command": argument()})
            began = monotonic_ns()
            await client.send(request)
            product.append(monotonic_ns() - began)
            await asyncio.sleep(_PAUSE_SECONDS)
    await sender.aclose()
    return {"product": product, "floor": floor}


async def main(url: str, pinned: bool) -> None:
    """Run the parent's commands."""
    found = config.load(f"bench-{os.getpid()}")
    agent: Agent

    def on_event(event: str, request: ApprovalRequest, decision: Decision | None) -> None:
        if event == "confirmation_required":
            agent.sending.release()

    client = AsyncClient(
        transport_for(found), public_key=found.public_key if pinned else None, on_event=on_event
    )
    agent = Agent(client)

    async def trips(count: int) -> JsonObject:
        return await rule_trips(client, url, count)

    def woken(at: int) -> None:
        say({"at": at})

    async def listen() -> JsonObject:
        await floor.__aenter__()
        return {}

    floor = follow_in_background(url, THERE, woken)
    async with client:
        await serve(
            {
                "fill": agent.fill,
                "memory": agent.memory,
                "leave": agent.leave,
                "trips": trips,
                "listen": listen,
            }
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], "pinned" in sys.argv[2:]))
