"""Where the gateway is and who we are: from the environment, or found and enrolled locally.

Plain classes and paths: `gateway ask` loads this for every tool call.
"""

from __future__ import annotations

import json
import os
from typing import Any

from gateway.client.connection import Connection
from gateway.discovery import FILE_NAME, state_folder, write_private
from gateway.errors import InvalidRequest, Unauthorized, Unreachable
from gateway.names import AGENT_NAME

_NOT_FOUND = (
    "no gateway is configured or found; start one with `gateway up`, or set GATEWAY_URL and "
    "GATEWAY_TOKEN (or GATEWAY_REDIS_URL)"
)


class AgentConfig:
    """An agent's credential and how to reach the gateway. Redis is preferred where it is given."""

    __slots__ = ("agent", "namespace", "public_key", "redis_url", "token", "url")

    def __init__(
        self,
        *,
        agent: str,
        url: str | None = None,
        token: str | None = None,
        redis_url: str | None = None,
        namespace: str = "gw",
        public_key: str | None = None,
    ) -> None:
        self.agent = agent
        self.url = url
        self.token = token
        self.redis_url = redis_url
        self.namespace = namespace
        self.public_key = public_key


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
    folder = state_folder()
    announced = _read(os.path.join(folder, FILE_NAME))
    if announced is None:
        raise Unreachable(_NOT_FOUND)
    kept = os.path.join(folder, "agents", f"{name}.json")
    known = _read(kept)
    if known is not None and known.get("url") != announced["url"]:
        known = None
    if known is not None and check:
        try:
            with Connection(known["url"], known["token"]) as gateway:
                gateway.call("GET", "/v1/requests?limit=1")
        except Unauthorized:
            known = None
    if known is None:
        with Connection(announced["url"], announced["enroll"]) as gateway:
            enrolled = gateway.call("POST", "/v1/enroll", {"agent": name})
        known = {**enrolled, "url": announced["url"]}
        os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
        write_private(kept, json.dumps(known))
    return AgentConfig(
        agent=name,
        url=known["url"],
        token=known["token"],
        redis_url=known.get("redis_url"),
        public_key=known.get("public_key"),
    )


def _secret(variable: str) -> str | None:
    path = os.environ.get(f"{variable}_FILE")
    if not path:
        return os.environ.get(variable) or None
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise InvalidRequest(f"{variable}_FILE cannot be read: {error}") from error


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            values: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Unreachable(f"{path} cannot be read: {error}") from error
    return values
