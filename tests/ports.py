"""Ports for what must be reached at one address, also after it was killed and started again."""

from __future__ import annotations

import random
import socket

_BELOW_CLIENTS = (12_000, 30_000)
"""Systems give the ports above to connections as they come: one of them could take a port that was
free a moment ago."""


def free_port() -> int:
    """Return a port that is free, and that no connection is given by itself."""
    while True:
        port = random.SystemRandom().randrange(*_BELOW_CLIENTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
