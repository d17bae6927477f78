"""Ports for what must be reached at one address, also after it was killed and started again."""

from __future__ import annotations

import os
import random
import socket

_BELOW_CLIENTS = (12_000, 30_000)
"""Systems give the ports above to connections as they come: one of them could take a port that was
free a moment ago."""
_EACH = 4_500
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_given: set[int] = set()


def free_port() -> int:
    """Return a port that is free, that no connection is given by itself, and that neither this
    worker nor another one is given again: between asking and listening anybody could take it."""
    first, end = _BELOW_CLIENTS
    first += _WORKER * _EACH % (end - first)
    while True:
        port = random.SystemRandom().randrange(first, first + _EACH)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.add(port)
            return port
