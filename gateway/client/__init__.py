"""The SDK for agents: ask for approval before a risky action. Start at `requires_approval`.

    from gateway.client import requires_approval

    @requires_approval
    def delete_branch(name: str) -> None: ...

Each name is imported at its first use. `gateway ask` and agent hooks start a process per tool call
and must not spend time on importing asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.client.approval import Approval, Event, Outcome, OutcomeKind
    from gateway.client.async_client import AsyncClient
    from gateway.client.blocking_client import Client, use_client
    from gateway.client.context import origin, session, session_name, sub_agent, turn
    from gateway.client.gate import (
        confirm,
        confirm_async,
        gated,
        requires_approval,
        resume,
        suspend,
    )
    from gateway.client.in_process import CallableTransport, Reply

_HOMES = {
    "Approval": "approval",
    "AsyncClient": "async_client",
    "CallableTransport": "in_process",
    "Client": "blocking_client",
    "Event": "approval",
    "Outcome": "approval",
    "OutcomeKind": "approval",
    "Reply": "in_process",
    "confirm": "gate",
    "confirm_async": "gate",
    "gated": "gate",
    "origin": "context",
    "requires_approval": "gate",
    "resume": "gate",
    "session": "context",
    "session_name": "context",
    "sub_agent": "context",
    "suspend": "gate",
    "turn": "context",
    "use_client": "blocking_client",
}

__all__ = [
    "Approval",
    "AsyncClient",
    "CallableTransport",
    "Client",
    "Event",
    "Outcome",
    "OutcomeKind",
    "Reply",
    "confirm",
    "confirm_async",
    "gated",
    "origin",
    "requires_approval",
    "resume",
    "session",
    "session_name",
    "sub_agent",
    "suspend",
    "turn",
    "use_client",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 (see above)

    return getattr(import_module(f"gateway.client.{_HOMES[name]}"), name)
