"""Asks for approval now and runs the call later, in any process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.client.blocking import Client, current_client
from gateway.client.decorator import run_approved, run_approved_async
from gateway.client.gate import Gate, gate_of
from gateway.errors import GatewayError, InvalidRequest, Pending


def suspend(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
    """Ask for approval of a call without waiting; the returned Pending can be raised or pickled."""
    gate = gate_of(function)
    if gate.serialize is not None:
        raise InvalidRequest(f"{gate.tool}: values that are not JSON cannot wait elsewhere")
    client = gate.client or current_client()
    return client.submit(gate.request(client, gate.bind(args, kwargs)))


def resume(function: Callable[..., Any], pending: Pending, *, rerun: bool = False) -> Any:
    """Wait for a suspended call and run it, in any process; await the result of an `async def`.

    Raises as `AsyncClient.wait` does; with `on_denied="return"` what was not approved, or not yet,
    is returned as an Outcome.
    """
    gate = gate_of(function)
    client = gate.client or current_client()
    if pending.request.tool != gate.tool:
        raise InvalidRequest(f"that was asked for {pending.request.tool}, not for {gate.tool}")
    if gate.is_async:
        return _resume(gate, client, pending, rerun=rerun)
    try:
        approval = client.wait(pending, rerun=rerun)
    except GatewayError as refusal:
        return gate.refuse(refusal)
    return run_approved(gate, client, approval, None)


async def _resume(gate: Gate, client: Client, pending: Pending, *, rerun: bool) -> Any:
    try:
        approval = await client.run_on_loop(client.inner.wait(pending, rerun=rerun))
    except GatewayError as refusal:
        return gate.refuse(refusal)
    return await run_approved_async(gate, client, approval, None)
