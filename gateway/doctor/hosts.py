"""Checks of agents' hosts on this machine: whether their plugin asks."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from gateway.ports.checks import Finding, report_doubt, report_ok

_GPTME = Path(".config", "gptme", "config.toml")
_ENABLE = "write `enabled = true` under `[plugin.approval_gateway]` in gptme's own settings"


def check_hosts(home: Path) -> list[tuple[str, Finding]]:
    """Return a finding for each host that this user has settings for."""
    settings = home / _GPTME
    return [("gptme", _check_gptme(settings))] if settings.exists() else []


def _check_gptme(settings: Path) -> Finding:
    try:
        said = tomllib.loads(settings.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return report_doubt(f"its settings cannot be read: {error}", "mend them: gptme says how")
    own = _member(said, "plugin", "approval_gateway")
    if own is None or (isinstance(own, dict) and own.get("enabled", False) is False):
        return report_doubt("asks nobody here: the plugin is not enabled", _ENABLE)
    listed = _member(said, "plugins", "enabled")
    if listed and "approval_gateway" not in listed:
        return report_doubt(
            "asks nobody here: the list of plugins leaves it out",
            "add approval_gateway to `[plugins] enabled`",
        )
    return report_ok("the plugin is enabled, and asks where it is installed")


def _member(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
