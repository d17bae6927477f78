"""Names that look like settings of ours and are none: a slip of the pen would go unnoticed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from gateway.server.settings import SECRETS, Settings

_PREFIX = "GATEWAY_"
# What agents and approvers set; they may share the gateway's environment.
_CLIENTS = frozenset({
    "GATEWAY_AGENT", "GATEWAY_URL", "GATEWAY_TOKEN", "GATEWAY_TOKEN_FILE", "GATEWAY_REDIS_URL",
    "GATEWAY_REDIS_URL_FILE", "GATEWAY_PUBLIC_KEY", "GATEWAY_CONNECT_TIMEOUT",
    "GATEWAY_APPROVER_TOKEN", "GATEWAY_APPROVER_TOKEN_FILE", "GATEWAY_MCP_TOKEN",
    "GATEWAY_MCP_TOKEN_FILE",
})  # fmt: skip


def setting_names() -> set[str]:
    """Return the variables of all settings of the gateway itself."""
    return {
        field.alias or f"{_PREFIX}{name.upper()}" for name, field in Settings.model_fields.items()
    }


def name_unknown(variables: Iterable[str], adapters: Collection[str]) -> list[str]:
    """Return a sentence for each variable that nothing reads, with the nearest one that is read.

    What begins with the name of an adapter is that adapter's own.
    """
    known = {*setting_names(), *_CLIENTS, *(f"{name}_FILE" for name in SECRETS.values())}
    own = tuple(f"{_PREFIX}{name.upper().replace('-', '_')}_" for name in adapters)
    found = []
    for name in sorted(variables):
        if not name.startswith(_PREFIX) or name in known or (own and name.startswith(own)):
            continue
        near = get_close_matches(
            name.removeprefix(_PREFIX), [one.removeprefix(_PREFIX) for one in known], n=1
        )
        hint = f"did you mean {_PREFIX}{near[0]}?" if near else ".env.example lists the settings"
        found.append(f"{name} is no setting, and does nothing: {hint}")
    return found
