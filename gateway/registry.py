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


class BrokenAdapter(GatewayError):
    """An installed adapter cannot be loaded, or fails before it is run."""

    code = "broken_adapter"
    exit_code = 2

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(f"the adapter {name} cannot be used: {type(error).__name__}: {error}")


def adapter_class(name: str) -> type[Adapter]:
    """Return the adapter class that an installed distribution offers under `name`."""
    found = entry_points(group=GROUP, name=name)
    if not found:
        known = ", ".join(adapter_names()) or "none"
        raise UnknownAdapter(f"there is no adapter {name!r}; installed: {known}")
    try:
        loaded: type[Adapter] = next(iter(found)).load()
    except Exception as error:  # whatever somebody else's module does when it is imported
        raise BrokenAdapter(name, error) from error
    return loaded


def adapter_names() -> list[str]:
    """Return the names of all installed adapters, without importing them."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})
