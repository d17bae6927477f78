"""Checks of agents' hosts on this machine: whether their plugin or hook asks."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from gateway.errors import InvalidRequest
from gateway.integrations.check_installed import find_problems
from gateway.integrations.host_plans import PLANS, Plan
from gateway.integrations.host_settings import SettingsFile
from gateway.ports.checks import Finding, report_doubt, report_failure, report_ok

_GPTME = Path(".config", "gptme", "config.toml")
_ENABLE = "write `enabled = true` under `[plugin.approval_gateway]` in gptme's own settings"


def check_hosts(home: Path) -> list[tuple[str, Finding]]:
    """Return a finding for each host that this user has settings for."""
    settings = home / _GPTME
    found = [("gptme", _check_gptme(settings))] if settings.exists() else []
    for name, plan in PLANS.items():
        if "user" in plan.folders and (finding := _check_hook(plan, home)) is not None:
            found.append((name, finding))
    return found


def _check_hook(plan: Plan, home: Path) -> Finding | None:
    """Return whether an installed hook could gate; None where there is none."""
    try:
        path = plan.path("user", home, home, os.environ)
        values = SettingsFile(path, comments=plan.comments).values
    except InvalidRequest as error:
        return report_doubt(str(error), f"mend it: {plan.host} may read it otherwise")
    if not any(plan.entries(values)):
        return None
    prove = f"`gateway install {plan.host} --check` proves it"
    if problems := list(find_problems(plan, values)):
        return report_failure("; ".join(problems), f"`gateway install {plan.host}` writes it anew")
    return report_ok(f"its hook is written as it must be; {prove}. {plan.after}".strip())


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
