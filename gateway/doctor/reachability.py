"""Check without Redis whether agents and browsers reach the gateway, and check hooks."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import ssl
import stat
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.errors import GatewayError, InvalidRequest, NotFound
from gateway.integrations.coding_agents.install import find_problems
from gateway.integrations.coding_agents.install_plans import PLANS, Plan, SettingsFile
from gateway.ports.adapters import Finding, report_doubt, report_failure, report_ok
from gateway.server.settings import Settings
from gateway.wire.local_discovery import (
    FILE_NAME,
    OWNER_FILE,
    choose_url,
    is_same_address,
    read_private,
)

_SECONDS = 4.0
_START = "start `gateway up`, or set GATEWAY_HOST, GATEWAY_PORT or GATEWAY_PUBLIC_URL"
_TRUST = "set SSL_CERT_FILE to a file with the authorities that this machine trusts, yours too"
_PORTS = {"http": 80, "https": 443}


def gateway_url(settings: Settings) -> str:
    """Return the URL at which people and agents reach the gateway with these settings.

    Raises NotFound if the URL is unknown. Raises InvalidRequest if another user could have written
    the URL. Also raises it if the settings contain no address, and Redis data other than that of
    the running gateway.
    """
    url = choose_url(
        settings.data_dir,
        settings.public_url or os.environ.get("GATEWAY_URL"),
        redis_url=settings.own_redis,
        namespace=settings.namespace if "namespace" in settings.model_fields_set else None,
        production=settings.production,
    )
    if url is not None:
        return url
    if not settings.port:
        raise NotFound(
            f"no gateway has announced itself in {settings.data_dir}, and GATEWAY_PORT is 0: start "
            "`gateway up`, or set GATEWAY_PUBLIC_URL"
        )
    url = settings.local_url(settings.port)
    if settings.production:
        found = (read_private(settings.data_dir / FILE_NAME) or {}).get("url")
        if found and is_same_address(found, url):
            raise NotFound(f"the gateway at {url} is for development: set GATEWAY_PUBLIC_URL")
    return url


async def _port(settings: Settings) -> Finding:
    try:
        parts = urlsplit(gateway_url(settings))
    except GatewayError as error:
        return report_failure(str(error), _START)
    address = (parts.hostname or "", parts.port or _PORTS[parts.scheme])
    try:
        connection = await asyncio.to_thread(socket.create_connection, address, _SECONDS)
    except OSError as error:
        return report_failure(
            f"cannot connect to {parts.netloc}: {error.strerror or error}", _START
        )
    connection.close()
    return report_ok(f"a server listens at {parts.netloc}")


async def _ready(settings: Settings) -> Finding:
    try:
        url = gateway_url(settings)
        status, problems = await asyncio.to_thread(_readiness, url)
    except GatewayError as error:
        return report_failure(str(error), _START)
    except (OSError, http.client.HTTPException) as error:
        remedy = _TRUST if isinstance(error, ssl.SSLCertVerificationError) else _START
        says = f"the gateway does not answer: {error or type(error).__name__}"
        return report_failure(says, remedy)
    except ValueError:
        return report_failure(f"{url} responds, but the response is not from a gateway", _START)
    if status != http.client.OK:
        return report_failure("; ".join(problems), "read the gateway's log")
    if problems:
        return report_doubt(f"degraded: {'; '.join(problems)}", "read the gateway's log")
    return report_ok(f"the gateway at {url} accepts requests")


def _readiness(url: str) -> tuple[int, list[str]]:
    """Return the status of /readyz and its problems. Raises ValueError if no gateway responds
    there."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_SECONDS)
    try:
        connection.request("GET", f"{parts.path}/readyz")
        answer = connection.getresponse()
        body = json.loads(answer.read())
    finally:
        connection.close()
    if not isinstance(body, dict) or body.get("status") not in ("ready", "degraded", "not ready"):
        raise ValueError("the response is not from a gateway")
    return answer.status, [str(one) for one in body.get("problems", ())]


async def _discovery(settings: Settings) -> Finding:
    folder = settings.data_dir
    files = [folder / FILE_NAME, folder / OWNER_FILE, *sorted(folder.glob("agents/*.json"))]
    problems = [*_open_folders(folder), *filter(None, map(_problem, files))]
    if problems:
        return report_failure(
            "; ".join(problems), "remove them; the gateway and its agents create new ones"
        )
    if settings.production:
        return report_ok("not used in production")
    if not files[0].exists():
        says = f"no gateway has announced itself in {folder}"
        return report_doubt(
            says, "start `gateway up`, or give agents GATEWAY_URL and GATEWAY_TOKEN"
        )
    return report_ok(f"only this user can read {files[0]}")


def _open_folders(folder: Path) -> list[str]:
    """Return a problem for each folder that other users may write to."""
    found = []
    for one in (folder, folder / "agents"):
        if one.exists():
            seen = one.stat()
            if seen.st_uid != os.geteuid() or stat.S_IMODE(seen.st_mode) & 0o022:
                found.append(f"other users can write to {one}")
    return found


def _problem(path: Path) -> str:
    try:
        read_private(path)
    except InvalidRequest as error:
        return str(error)
    return ""


REACHABILITY_CHECKS: tuple[tuple[str, Callable[[Settings], Awaitable[Finding]]], ...] = (
    ("port", _port),
    ("ready", _ready),
    ("discovery", _discovery),
)


# Checks whether coding agents on this machine have a working plugin or hook.

_GPTME = Path(".config", "gptme", "config.toml")
_ENABLE = "write `enabled = true` under `[plugin.approval_gateway]` in gptme's own settings"


def check_hosts(home: Path) -> list[tuple[str, Finding]]:
    """Return a finding for each coding agent for which this user has settings."""
    settings = home / _GPTME
    found = [("gptme", _check_gptme(settings))] if settings.exists() else []
    for name, plan in PLANS.items():
        if "user" in plan.folders and (finding := _check_hook(plan, home)) is not None:
            found.append((name, finding))
    return found


def _check_hook(plan: Plan, home: Path) -> Finding | None:
    """Return whether an installed hook can gate tools, or None if no hook is installed."""
    try:
        path = plan.path("user", home, home, os.environ)
        values = SettingsFile(path, comments=plan.comments).values
    except InvalidRequest as error:
        return report_doubt(str(error), f"correct the file: {plan.host} may read it differently")
    if not any(plan.entries(values)):
        return None
    prove = f"`gateway install {plan.host} --check` proves it"
    if problems := list(find_problems(plan, values)):
        return report_failure("; ".join(problems), f"`gateway install {plan.host}` writes it again")
    return report_ok(f"its hook is installed correctly; {prove}. {plan.after}".strip())


def _check_gptme(settings: Path) -> Finding:
    try:
        said = tomllib.loads(settings.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return report_doubt(
            f"its settings cannot be read: {error}", "fix them; see gptme's documentation"
        )
    own = _member(said, "plugin", "approval_gateway")
    if own is None or (isinstance(own, dict) and own.get("enabled", False) is False):
        return report_doubt("runs tools without approval: the plugin is not enabled", _ENABLE)
    listed = _member(said, "plugins", "enabled")
    if listed and "approval_gateway" not in listed:
        return report_doubt(
            "runs tools without approval: the plugin is missing in the list of plugins",
            "add approval_gateway to `[plugins] enabled`",
        )
    return report_ok("the plugin is enabled, and requires approval wherever it is installed")


def _member(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
