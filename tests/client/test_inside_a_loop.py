"""A blocking call inside a running event loop: said, and possible from a thread."""

from __future__ import annotations

import asyncio

import pytest

from gateway.client import CallableTransport, Client, requires_approval, use_client


@pytest.fixture
def client() -> Client:
    """Return a client whose approver says yes."""
    return Client(CallableTransport(lambda request: True))


async def test_it_warns_that_the_loop_stands_still(client: Client) -> None:
    """Nothing ran yet where warnings are errors; the warning names the line that calls."""

    @requires_approval(client=client)
    def delete(name: str) -> str:
        return f"deleted {name}"

    with client, pytest.warns(RuntimeWarning, match="event loop") as told:
        assert delete("old") == "deleted old"
        client.ask("shell", {})
    assert {warning.filename for warning in told} == {__file__}


async def test_from_a_thread_the_loop_goes_on(client: Client) -> None:
    """And the client of the context is the thread's too."""

    @requires_approval
    def delete(name: str) -> str:
        return f"deleted {name}"

    with client, use_client(client):
        assert await asyncio.to_thread(delete, "old") == "deleted old"
