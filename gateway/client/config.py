"""Finds the gateway and the agent's credential: in the environment, or by local discovery.

Uses plain classes and paths, because `gateway ask` imports this for every tool call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gateway.errors import InvalidRequest, NotFound, Unauthorized, Unreachable
from gateway.wire.identifiers import AGENT_NAME
from gateway.wire.local_discovery import (
    FILE_NAME,
    read_private,
    secret,
    state_folder,
    write_private,
)

_STALE = (
    "the gateway at {url} did not write the file by which it was found: the one that did has ended "
    "or was killed. Start `gateway up` again, or set GATEWAY_URL and GATEWAY_TOKEN"
)
_NOT_FOUND = (
    "no gateway is configured, and none has announced itself in {folder}: start `gateway up`; one "
    "that has a GATEWAY_DATA_DIR of its own is found with the same; elsewhere set GATEWAY_URL and "
    "GATEWAY_TOKEN (or GATEWAY_REDIS_URL)"
)


class AgentConfig:
    """An agent's credential, and how to reach the gateway. Redis is used where it is given."""

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
    """Return this agent's configuration; raises Unreachable when no gateway is found.

    With `check` a kept local credential is tried first, which costs a call.
    """
    name = agent or os.environ.get("GATEWAY_AGENT", "local")
    if not AGENT_NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} is no agent name: use a-z, 0-9, _ and -")
    url, redis_url = os.environ.get("GATEWAY_URL"), secret("GATEWAY_REDIS_URL")
    if not url and not redis_url:
        return _load_local(name, check)
    return AgentConfig(
        agent=name,
        url=url,
        token=secret("GATEWAY_TOKEN"),
        redis_url=redis_url,
        namespace=os.environ.get("GATEWAY_NAMESPACE", "gw"),
        public_key=os.environ.get("GATEWAY_PUBLIC_KEY"),
    )


def _load_local(name: str, check: bool) -> AgentConfig:
    """Return the configuration of the local gateway, with the kept credential or a new one."""
    folder = state_folder()
    announced = read_private(os.path.join(folder, FILE_NAME))
    if announced is None or not {"url", "enroll"} <= announced.keys():
        raise Unreachable(_NOT_FOUND.format(folder=folder))
    kept = os.path.join(folder, "agents", f"{name}.json")
    known = _read_usable(kept, announced["url"], check)
    if known is None:
        os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
        with _lock(f"{kept}.lock"):
            # Another process may have enrolled meanwhile; a second enrolment would revoke its
            # credential.
            known = _read_usable(kept, announced["url"], True) or _enroll(kept, announced, name)
    return AgentConfig(
        agent=name,
        url=known["url"],
        token=known["token"],
        redis_url=known.get("redis_url"),
        namespace=known.get("namespace", "gw"),
        public_key=known.get("public_key"),
    )


def _read_usable(kept: str, url: str, check: bool) -> dict[str, Any] | None:
    """Return the kept credential when it is this gateway's and, with `check`, still accepted."""
    known = read_private(kept)
    if known is None or known.get("url") != url or "token" not in known:
        return None
    if check:
        from gateway.client.http_connection import HttpConnection  # noqa: PLC0415 (Redis needs none of it)

        try:
            with HttpConnection(url, known["token"]) as gateway:
                gateway.call("GET", "/v1/requests?limit=1")
        except Unauthorized:
            return None
    return known


def _enroll(kept: str, announced: dict[str, Any], name: str) -> dict[str, Any]:
    """Enrol with the local gateway, keep the credential and return it."""
    from gateway.client.http_connection import HttpConnection  # noqa: PLC0415 (as above)

    try:
        with HttpConnection(announced["url"], announced["enroll"]) as gateway:
            enrolled = gateway.call("POST", "/v1/enroll", {"agent": name})
    except (Unauthorized, NotFound) as error:
        raise Unauthorized(_STALE.format(**announced)) from error
    known = {**enrolled, "url": announced["url"]}
    write_private(kept, json.dumps(known))
    return known


@contextmanager
def _lock(path: str) -> Iterator[None]:
    """Keep other processes of this user out of the block."""
    import fcntl  # noqa: PLC0415 (needed once per agent)

    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
