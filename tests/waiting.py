"""How tests wait for what another task, process or server does."""

from __future__ import annotations

import asyncio

MOMENT = 0.01  # seconds


async def moment() -> None:
    """Let a moment pass before looking again: what is waited for needs the processor."""
    await asyncio.sleep(MOMENT)
