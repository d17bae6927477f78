"""Where the gateway is and who we are: from the environment, or found and enrolled locally."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from gateway.discovery import FILE_NAME, state_folder, write_private
from gateway.errors import InvalidRequest, Unauthorized, Unreachable
from gateway.models import AGENT_NAME

_NOT_FOUND = (
    "no gateway is configured or found; start one with `gateway up`, or set GATEWAY_URL and "
    "GATEWAY_TOKEN (or GATEWAY_REDIS_URL)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """An agent's credential and how to reach the gateway. Redis is preferred where it is given."""

    agent: str
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    redis_url: str | None = field(default=None, repr=False)
    namespace: str = "gw"
    public_key: str | None = None


def load(agent: str | None = None, *, check: bool = True) -> AgentConfig:
    """Return this agent's configuration; raises Unreachable when there is no gateway to be found.

    A kept local credential is tried first, unless the caller has no time to `check` it.
    """
    name = agent or os.environ.get("GATEWAY_AGENT", "local")
    if not AGENT_NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} is no agent name: use a-z, 0-9, _ and -")
    url, redis_url = os.environ.get("GATEWAY_URL"), _secret("GATEWAY_REDIS_URL")
    if not url and not redis_url:
        return _found(name, check)
    return AgentConfig(
        agent=name,
        url=url,
        token=_secret("GATEWAY_TOKEN"),
        redis_url=redis_url,
        namespace=os.environ.get("GATEWAY_NAMESPACE", "gw"),
        public_key=os.environ.get("GATEWAY_PUBLIC_KEY"),
    )


def _found(name: str, check: bool) -> AgentConfig:
    """Use the local gateway, with the credential kept from last time or a new one."""
    from gateway.client.http import Http  # noqa: PLC0415 (costs 10 ms, and Redis needs none of it)

    folder = state_folder()
    announced = _read(folder / FILE_NAME)
    if announced is None:
        raise Unreachable(_NOT_FOUND)
    kept = folder / "agents" / f"{name}.json"
    known = _read(kept)
    if known is not None and known.get("url") != announced["url"]:
        known = None
    if known is not None and check:
        try:
            with Http(known["url"], known["token"]) as http:
                http.call("GET", "/v1/requests?limit=1")
        except Unauthorized:
            known = None
    if known is None:
        with Http(announced["url"], announced["enroll"]) as http:
            enrolled = http.call("POST", "/v1/enroll", {"agent": name})
        known = {**enrolled, "url": announced["url"]}
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        write_private(kept, json.dumps(known))
    return AgentConfig(
        agent=name,
        url=known["url"],
        token=known["token"],
        redis_url=known.get("redis_url"),
        public_key=known.get("public_key"),
    )


def _secret(variable: str) -> str | None:
    if path := os.environ.get(f"{variable}_FILE"):
        return Path(path).read_text(encoding="utf-8").strip()
    return os.environ.get(variable) or None


def _read(path: Path) -> dict[str, str] | None:
    try:
        values: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return values
