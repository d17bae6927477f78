"""Makes HTTP calls to addresses that the guard has checked, and to nothing else."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from aiohttp.abc import AbstractResolver, ResolveResult

from gateway.delivery.egress_guard import Address, Target

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class PinnedResolver(AbstractResolver):
    """Answers with the checked addresses, so that nothing is resolved a second time."""

    def __init__(self, target: Target, addresses: Sequence[Address]) -> None:
        self._target = target
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the checked addresses of the checked host; raises OSError for any other."""
        if host != self._target.host:
            raise OSError("only the checked host is called")
        return [
            {
                "hostname": host,
                "host": str(address),
                "port": port,
                "family": _FAMILIES[address.version],
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Nothing is held open."""
