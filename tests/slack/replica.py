"""A gateway process with the Slack adapter, to be killed: `python -m tests.slack.replica`.

It takes the store's URL and the namespace as arguments, and perhaps a step of a script and at which
time it is to kill itself there; the adapter's settings come from the environment. It says `ready`
once it is connected.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack

from adapters.slack import SlackAdapter
from gateway.server.background import adapter_api, run_reminders, serve_adapters
from tests.world import assembled


class Doom:
    """Kills this process the n-th time that it comes to a step."""

    def __init__(self, step: str = "", times: str = "1") -> None:
        self._step = step
        self._left = int(times)

    def __call__(self, step: str) -> None:
        self._left -= step == self._step
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, namespace: str, *doom: str) -> None:
    """Work until killed."""
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(assembled(url, namespace, at=Doom(*doom)))
        api = adapter_api("slack", world.core, world.store)
        await stack.enter_async_context(serve_adapters(SlackAdapter(), api, world.core))
        await stack.enter_async_context(run_reminders(world.core))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
