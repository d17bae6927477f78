"""A gateway process that decides the requests that its parent names, as fast as it can.

Arguments: the server's URL, the namespace, and `first` for the replica that writes the policy.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from time import monotonic_ns, process_time_ns

from benchmarks.children import serve
from benchmarks.stage import Stage, click, stage
from gateway.wire.codec import JsonObject

_LOOK_SECONDS = 0.002


class Commands:
    """What the parent may have this replica do."""

    def __init__(self, scene: Stage) -> None:
        self._url = scene.gateway.url
        self._backend = scene.gateway.backend
        self._core = scene.gateway.core

    async def register(self, agent: str) -> JsonObject:
        """Add an agent; return its token."""
        return {"token": (await self._backend.credentials.add_agent(agent)).token}

    async def address(self) -> JsonObject:
        """Return where this replica is, and the token of a new approver."""
        made = await self._backend.credentials.add_approver("bench-approver")
        return {"url": self._url, "approver": made.token}

    async def invite(self, person: str) -> JsonObject:
        """Return a code to sign in with."""
        return {"code": await self._backend.logins.invite(person)}

    async def cpu(self) -> JsonObject:
        """Return the processor time so far (ns)."""
        return {"ns": process_time_ns()}

    async def apply(self) -> JsonObject:
        """Put the same policy in force again; return its generation."""
        store = self._backend.store
        await store.apply(await store.policy(), by="bench")
        return {"generation": await store.generation()}

    async def until_policy(self, generation: int) -> JsonObject:
        """Wait until this replica decides by a policy, without asking for it."""
        while (await self._core.writer.policy()).generation != generation:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)
        return {}

    async def taken_in(self, ids: list[str]) -> JsonObject:
        """Return those of `ids` that this replica took in. Pending requests are in its cache."""
        return {"ids": [one for one in ids if self._backend.store.recent(one)]}

    async def decide(self, ids: list[str], depth: int) -> JsonObject:
        """Decide all of `ids`, `depth` at a time; return when it began and ended, and the
        processor time (ns)."""
        clicks = iter([click(one) for one in ids])

        async def work() -> None:
            for one in clicks:
                await self._core.requests.decide(one)

        began, used = monotonic_ns(), process_time_ns()
        await asyncio.gather(*(work() for _ in range(depth)))
        return {"began": began, "ended": monotonic_ns(), "cpu": process_time_ns() - used}

    async def decide_at(self, ids: list[str], per_second: int) -> JsonObject:
        """Decide `ids` at a pace; return the processor time (ns)."""
        loop = asyncio.get_running_loop()
        began, used = loop.time(), process_time_ns()
        for number, one in enumerate(ids):
            await asyncio.sleep(began + number / per_second - loop.time())
            await self._core.requests.decide(click(one))
        await asyncio.sleep(began + len(ids) / per_second - loop.time())
        return {"cpu": process_time_ns() - used}


async def main(url: str, namespace: str, first: bool) -> None:
    """Run the parent's commands."""
    async with stage(url, namespace, first=first) as scene:
        to = Commands(scene)
        known = (
            to.register, to.address, to.invite, to.cpu, to.apply, to.until_policy, to.taken_in,
            to.decide, to.decide_at,
        )  # fmt: skip
        await serve({command.__name__: command for command in known})


if __name__ == "__main__":
    logging.basicConfig(level="WARNING")
    asyncio.run(main(sys.argv[1], sys.argv[2], "first" in sys.argv[3:]))
