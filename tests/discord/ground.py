"""Where the gateways of one test stand side by side: in this process, and in others."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.server.settings import Settings
from tests.discord.furnished import Server
from tests.discord.processes import Replica
from tests.discord.stage import Stage, settings, staged


@dataclass(frozen=True)
class Ground:
    """One Discord, one namespace, and a folder for each gateway."""

    server: Server
    url: str
    namespace: str
    folder: Path

    def staged(self, name: str = "", **changes: Any) -> AbstractAsyncContextManager[Stage]:
        """Run a gateway in this process, with these settings changed."""
        return staged(self.server, self.url, self.namespace, self.folder / name, **changes)

    def settings(self) -> Settings:
        """Return what a gateway here is run with."""
        return settings(self.url, self.namespace, self.folder)

    def replica(self, name: str) -> Replica:
        """Return a gateway to be run as a process of its own."""
        return Replica(self.server, self.url, self.namespace, self.folder / name)
