"""Find adapters and deciders by entry point, so that new ones need no change here."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points

from gateway.domain.policy_document import REQUESTER, PolicyDocument
from gateway.errors import GatewayError
from gateway.ports import Adapter, Decider

GROUP = "approval_gateway.adapters"
DECIDERS = "approval_gateway.deciders"


class UnknownAdapter(GatewayError):
    """No installed distribution has an adapter of this name."""

    code = "unknown_adapter"
    exit_code = 2


class UnknownDecider(GatewayError):
    """No installed distribution has a usable decider of this name."""

    code = "unknown_decider"
    exit_code = 2


class BrokenAdapter(GatewayError):
    """An installed adapter cannot be loaded, or fails before it runs."""

    code = "broken_adapter"
    exit_code = 2

    def __init__(self, name: str, error: Exception) -> None:
        why = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError):
            why = (
                f"{error}. Install the gateway as before, with the extra: approval-gateway[{name}]"
            )
        super().__init__(f"the adapter {name} cannot be used: {why}")


def adapter_class(name: str) -> type[Adapter]:
    """Return the installed adapter class with this name. Raises UnknownAdapter, BrokenAdapter."""
    found = entry_points(group=GROUP, name=name)
    if not found:
        known = ", ".join(adapter_names()) or "none"
        raise UnknownAdapter(f"there is no adapter {name!r}; choose an installed one: {known}")
    try:
        loaded = next(iter(found)).load()
    except Exception as error:  # an import may raise anything
        raise BrokenAdapter(name, error) from error
    if isinstance(loaded, type) and issubclass(loaded, Adapter):
        return loaded
    raise BrokenAdapter(name, TypeError("the adapter is not a subclass of gateway.ports.Adapter"))


def refuse_unknown(policy: PolicyDocument) -> None:
    """Raise UnknownAdapter if a policy names an adapter that is not installed."""
    known = adapter_names()
    notified = [one for route in policy.routes for one in route.notify if one != REQUESTER]
    origins = [one for route in policy.routes for one in route.origins]
    for target in (*policy.places(), *notified, *origins):
        if target.partition(":")[0] not in known:
            raise UnknownAdapter(
                f"the target {target!r} names no installed adapter; installed: {', '.join(known)}"
            )


def deciders(names: Iterable[str]) -> list[Decider]:
    """Return new instances of the installed deciders with these names.

    Raises UnknownDecider, even if one cannot be loaded: a missing decider must not count as one
    without an opinion.
    """
    return [_decider(name) for name in names]


def _decider(name: str) -> Decider:
    found = entry_points(group=DECIDERS, name=name)
    if not found:
        known = ", ".join(sorted({entry.name for entry in entry_points(group=DECIDERS)})) or "none"
        raise UnknownDecider(f"there is no decider {name!r}; choose an installed one: {known}")
    try:
        made: Decider = next(iter(found)).load()()
    except Exception as error:  # an import may raise anything
        raise UnknownDecider(f"the decider {name} cannot be used: {error}") from error
    return made


def adapter_names() -> list[str]:
    """Return the names of all installed adapters, without importing them."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})
