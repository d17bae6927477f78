"""`gateway login`: a link that signs a person in to the inbox once."""

from __future__ import annotations

import argparse

from gateway.cli.formatting import say
from gateway.cli.redis_access import connect_backend
from gateway.doctor import gateway_url
from gateway.server.settings import Settings


async def login(options: argparse.Namespace) -> int:
    """Print a one-time link to the inbox."""
    settings = Settings()
    url = gateway_url(settings)
    async with connect_backend(acting=True) as found:
        code = await found.logins.invite(options.name)
    link = f"{url}/inbox/login#code={code}"
    say({"name": options.name, "url": link}, link, options)
    return 0
