"""Find the gateway and the agent's credential. Start at `load`.

The module uses plain classes and paths, because `gateway ask` imports it for every tool call.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gateway.errors import InvalidRequest, NotFound, Unauthorized, Unreachable
from gateway.wire.local_discovery import (
    FILE_NAME,
    read_private,
    secret,
    state_folder,
    write_private,
)
from gateway.wire.schema import AGENT_NAME

# Pauses between attempts: each is random, up to a bound that doubles.
#
# Without `random`, because its import would cost each tool call 3 ms.

FIRST_BOUND, LAST_BOUND = 0.2, 5.0
_STEPS = 1 << 16


class Backoff:
    """The pauses of one caller. Their length is random, so that many callers do not retry at
    once."""

    def __init__(self) -> None:
        self._bound = FIRST_BOUND

    def pause(self, at_least: float = 0.0) -> float:
        """Return the seconds to wait before the next attempt, never fewer than `at_least`."""
        bound, self._bound = self._bound, min(2 * self._bound, LAST_BOUND)
        return at_least + bound * int.from_bytes(os.urandom(2), "big") / _STEPS


_STALE = (
    "the gateway at {url} is not the one that announced itself there, which has ended or was "
    "killed. Start `gateway up` again, or set GATEWAY_URL and GATEWAY_TOKEN"
)
_NOT_FOUND = (
    "no gateway is configured, and none has announced itself in {folder}: start `gateway up`. "
    "If the gateway runs with a GATEWAY_DATA_DIR, set the same folder here. If it runs on "
    "another machine, set GATEWAY_URL "
    "and GATEWAY_TOKEN (or GATEWAY_REDIS_URL)"
)


_MOST_SECONDS = 30 * 24 * 3600.0
_START_SECONDS = 3.0
_LOOK_SECONDS = 0.2
CONNECT_TIMEOUT = 30.0
"""Seconds that a client waits for a gateway that has never answered."""


class NoneFound(Unreachable):
    """No gateway is configured, and no gateway was ever found on this machine."""


class AgentConfig:
    """An agent's credential, and the addresses of the gateway. A Redis URL has precedence."""

    __slots__ = ("agent", "connect_timeout", "namespace", "public_key", "redis_url", "token", "url")

    def __init__(
        self,
        *,
        agent: str,
        url: str | None = None,
        token: str | None = None,
        redis_url: str | None = None,
        namespace: str = "gw",
        public_key: str | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self.agent = agent
        self.url = url
        self.token = token
        self.redis_url = redis_url
        self.namespace = namespace
        self.public_key = public_key
        self.connect_timeout = connect_timeout


def load(agent: str | None = None, *, check: bool = True) -> AgentConfig:
    """Return an agent's configuration: from environment variables, else for the local gateway.

    `agent` is by default `GATEWAY_AGENT`, else `local`. With `check`, a call to the gateway tests a
    saved local credential first. Raises Unreachable if no gateway is found, Unauthorized if the
    gateway rejects the agent, and InvalidRequest for a wrong setting.
    """
    name = agent or os.environ.get("GATEWAY_AGENT", "local")
    if not AGENT_NAME.fullmatch(name):
        raise InvalidRequest(f"invalid agent name {name!r}: use a-z, 0-9, _ and -")
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
        connect_timeout=connect_timeout(),
    )


def load_patiently(agent: str | None, say: Callable[[str], None]) -> AgentConfig:
    """Return an agent's configuration as `load` does, but wait if the gateway does not answer.

    Blocks the thread for up to the connect timeout, and passes a message about that to `say`. If no
    gateway was ever found, waits only a few seconds, because a gateway may be starting. Raises as
    `load` does.
    """
    began = time.monotonic()
    backoff, said = Backoff(), False
    while True:
        try:
            return load(agent)
        except Unreachable as error:
            patience, pause = connect_timeout(), backoff.pause()
            if isinstance(error, NoneFound):
                patience, pause = min(patience, _START_SECONDS), min(pause, _LOOK_SECONDS)
            if time.monotonic() + pause > began + patience:
                raise
            if not said:
                say(f"waiting for the gateway, for {patience:.0f} s at most: {error}")
            said = True
            time.sleep(pause)  # noqa: TID251 (nothing to wait on)


def name_agent(host: str) -> str | None:
    """Return the agent name of a coding agent or framework. That is its own name `host`, or None if
    an environment variable names an agent or a gateway."""
    told = ("GATEWAY_AGENT", "GATEWAY_URL", "GATEWAY_REDIS_URL", "GATEWAY_TOKEN")
    return (
        None
        if any(os.environ.get(f"{one}{end}") for one in told for end in ("", "_FILE"))
        else host
    )


def connect_timeout() -> float:
    """Return GATEWAY_CONNECT_TIMEOUT in seconds. Raises InvalidRequest if it is not a number."""
    text = os.environ.get("GATEWAY_CONNECT_TIMEOUT", "")
    try:
        seconds = float(text or CONNECT_TIMEOUT)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MOST_SECONDS:
        raise InvalidRequest(f"GATEWAY_CONNECT_TIMEOUT must be a number of seconds, not {text!r}")
    return seconds


def is_installed(module: str) -> bool:
    """Return whether an optional library of the client is installed."""
    from importlib.util import find_spec  # noqa: PLC0415 (most calls do not need it)

    return find_spec(module) is not None


def _load_local(name: str, check: bool) -> AgentConfig:
    """Return the configuration of the local gateway. Use the token in the settings, else the saved
    credential. Without either, enrol the agent for a new credential."""
    folder = state_folder()
    announced = read_private(os.path.join(folder, FILE_NAME))
    kept = os.path.join(folder, "agents", f"{name}.json")
    if announced is None or not {"url", "enroll"} <= announced.keys():
        kind = Unreachable if os.path.exists(kept) else NoneFound
        raise kind(_NOT_FOUND.format(folder=folder))
    if token := secret("GATEWAY_TOKEN"):
        return AgentConfig(
            agent=name,
            url=announced["url"],
            token=token,
            public_key=os.environ.get("GATEWAY_PUBLIC_KEY"),
            connect_timeout=connect_timeout(),
        )
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
        public_key=os.environ.get("GATEWAY_PUBLIC_KEY") or _find_pins(known, announced),
        connect_timeout=connect_timeout(),
    )


def _find_pins(known: dict[str, Any], announced: dict[str, Any]) -> str | None:
    """Return the gateway's key that came with the credential, and after a rotation also the new
    key. Both come from private files of this user, so no other user can replace them."""
    keys = dict.fromkeys(one["public_key"] for one in (known, announced) if "public_key" in one)
    return ",".join(keys) if keys and is_installed("nacl") else None


def _read_usable(kept: str, url: str, check: bool) -> dict[str, Any] | None:
    """Return the saved credential if it is for this gateway and, with `check`, is still
    accepted."""
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
    """Enrol with the local gateway, save the credential and return it. Raises Unauthorized."""
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
    """Hold a lock inside the block, so that no other process of this user enters the block."""
    import fcntl  # noqa: PLC0415 (needed once per agent)

    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
