"""`gateway stop-all` and `gateway resume`: the kill switch."""

from __future__ import annotations

import argparse

from gateway.cli.redis_access import connect_backend


async def stop_all(options: argparse.Namespace) -> int:
    """Turn the kill switch on."""
    async with connect_backend() as found:
        await found.store.set_stopped(True, by=options.by)
    print(
        "everything is denied until `gateway resume`; what was approved before cannot be recalled"
    )
    return 0


async def resume(options: argparse.Namespace) -> int:
    """Turn the kill switch off."""
    async with connect_backend() as found:
        await found.store.set_stopped(False, by=options.by)
    print("requests are asked again")
    return 0
