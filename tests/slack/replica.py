"""A gateway process with the Slack adapter, to be killed: `python -m tests.slack.replica`.

It takes the store's URL and the namespace as arguments and the adapter's settings from the
environment, and says `ready` once it is connected.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

from adapters.slack import SlackAdapter
from gateway.serving import desk_of, followed_up, served
from tests.world import assembled


async def main(url: str, namespace: str) -> None:
    """Work until killed."""
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(assembled(url, namespace))
        desk = desk_of("slack", world.approvals, world.store)
        await stack.enter_async_context(served(SlackAdapter(), desk, world.store))
        await stack.enter_async_context(followed_up(world.approvals, world.store))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
