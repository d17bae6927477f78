"""The agent's side: ask for leave, wait for the answer, run exactly what was approved.

Names are loaded when they are first used (PEP 562): `gateway.client.ask` starts for every tool call
of some agents, and must not pay for asyncio, which its parent package would otherwise import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.client.client import AsyncClient, ClientEvent
    from gateway.client.confirm import aconfirm, confirm
    from gateway.client.context import current_client, current_sync_client, session, use_client
    from gateway.client.decorator import aresume, requires_approval, resume
    from gateway.client.http_transport import HttpTransport
    from gateway.client.local import CallableTransport, Verdict
    from gateway.client.redis_transport import RedisTransport
    from gateway.client.suspended import Suspended
    from gateway.client.sync import Client
    from gateway.client.toolset import gate_tools
    from gateway.client.transport import Transport

__all__ = [
    "AsyncClient",
    "CallableTransport",
    "Client",
    "ClientEvent",
    "HttpTransport",
    "RedisTransport",
    "Suspended",
    "Transport",
    "Verdict",
    "aconfirm",
    "aresume",
    "confirm",
    "current_client",
    "current_sync_client",
    "gate_tools",
    "requires_approval",
    "resume",
    "session",
    "use_client",
]

_HOMES = {
    "AsyncClient": "client",
    "CallableTransport": "local",
    "Client": "sync",
    "ClientEvent": "client",
    "HttpTransport": "http_transport",
    "RedisTransport": "redis_transport",
    "Suspended": "suspended",
    "Transport": "transport",
    "Verdict": "local",
    "aconfirm": "confirm",
    "aresume": "decorator",
    "confirm": "confirm",
    "current_client": "context",
    "current_sync_client": "context",
    "gate_tools": "toolset",
    "requires_approval": "decorator",
    "resume": "decorator",
    "session": "context",
    "use_client": "context",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
