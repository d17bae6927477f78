"""Finds adapters by entry point, so that a new chat needs no change here."""

from __future__ import annotations

from importlib.metadata import entry_points

from gateway.errors import GatewayError
from gateway.ports import Adapter

GROUP = "approval_gateway.adapters"


class UnknownAdapter(GatewayError):
    """No installed distribution offers an adapter of this name."""

    code = "unknown_adapter"
    exit_code = 2


def adapter_class(name: str) -> type[Adapter]:
    """Return the adapter class that an installed distribution offers under `name`."""
    found = entry_points(group=GROUP, name=name)
    if not found:
        known = ", ".join(adapter_names()) or "none"
        raise UnknownAdapter(f"there is no adapter {name!r}; installed: {known}")
    loaded: type[Adapter] = next(iter(found)).load()
    return loaded


def adapter_names() -> list[str]:
    """Return the names of all installed adapters, without importing them."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})
