"""How tests wait for what another task, process or server does."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

MOMENT = 0.01  # seconds


async def moment() -> None:
    """Let a moment pass before looking again: what is waited for needs the processor."""
    await asyncio.sleep(MOMENT)


async def announced(url: str, **headers: str) -> int:
    """Announce a body to a server and send none of it; return the status that it answers with."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    lines = [f"POST {place.path} HTTP/1.1", f"Host: {place.netloc}", "Content-Length: 5"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        async with asyncio.timeout(20):
            return int((await reader.readline()).split()[1])
    finally:
        writer.close()
