"""`gateway stop-all` and `gateway resume`: the kill switch."""

from __future__ import annotations

import argparse

from gateway.cli.formatting import say
from gateway.cli.redis_access import connect_backend
from gateway.ports.words import LIFT, KillSwitch


async def stop_all(options: argparse.Namespace) -> int:
    """Turn the kill switch on."""
    async with connect_backend(acting=True) as found:
        waiting = await found.store.count_pending()
        await found.store.set_stopped(True, by=options.by)
    sentence = KillSwitch(on=True, waiting=waiting).stopped
    told = {"stopped": True, "waiting": waiting}
    say(told, f"{sentence}\n`gateway resume` lifts it: {LIFT}", options)
    return 0


async def resume(options: argparse.Namespace) -> int:
    """Turn the kill switch off."""
    async with connect_backend(acting=True) as found:
        await found.store.set_stopped(False, by=options.by)
    say({"stopped": False}, LIFT, options)
    return 0
