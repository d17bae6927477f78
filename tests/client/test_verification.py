"""What must never run: wrong, unsigned, late, doubled, or asked of nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.client import AsyncClient, CallableTransport, Client, use_client
from gateway.client import blocking_client as sync
from gateway.client.blocking_client import current_client
from gateway.client.in_process import Approver
from gateway.client.pytest_plugin import ScriptedApprovals
from gateway.errors import (
    AlreadyUsed,
    Denied,
    Expired,
    GatewayError,
    Unreachable,
    Unverified,
)
from gateway.models import Action, ApprovalRequest, Execution, HostRule, Reason, State
from gateway.wire.signatures import Signer
from tests.signals import handlers_kept
from tests.waiting import moment
from tests.world import SEED


def client_of(approver: Approver, **options: Any) -> Client:
    """Return a client that asks a function."""
    return Client(CallableTransport(approver), **options)


@pytest.fixture
def yes() -> Iterator[Client]:
    """Yield a client whose approver says yes to everything."""
    with client_of(lambda request: True) as client, use_client(client):
        yield client


async def _settled(change: Any, **options: Any) -> None:
    """Ask through a transport whose answer is changed on the way."""

    class Tampering(CallableTransport):
        async def wait(self, request_id: str, *, until: float) -> State:
            state = await super().wait(request_id, until=until)
            changed: State = change(state)
            return changed

    async with AsyncClient(Tampering(lambda request: True), **options) as client:
        await client.ask("x", {"a": 1})


def _decided(**changes: Any) -> Any:
    def change(state: State) -> State:
        assert state.decision is not None
        return replace(state, decision=replace(state.decision, **changes))

    return change


@pytest.mark.parametrize(
    "change",
    [
        _decided(digest="0" * 64),
        _decided(request_id="0" * 32),
        _decided(arguments={"a": 2}),
        _decided(arguments={"a": 1}),
        _decided(action=Action.EDIT),
        _decided(host_rule=HostRule(rule="everything", scope="for ever")),
        lambda state: replace(state, id="0" * 32),
    ],
)
async def test_an_answer_about_anything_else_is_not_believed(change: Any) -> None:
    """Wrong id, digest, arguments or action, or arguments without an edit: Unverified."""
    with pytest.raises(Unverified):
        await _settled(change)


async def test_a_request_that_was_changed_after_it_was_asked_does_not_run() -> None:
    """The approval names the digest of what was asked, and other arguments would run."""
    async with AsyncClient(CallableTransport(lambda request: True)) as client:
        asked = client.request("x", {"a": 1})
        pending = await client.submit(asked)
        asked.arguments["a"] = 2
        with pytest.raises(Unverified, match="changed after it was submitted"):
            await client.wait(pending)


async def test_with_a_pinned_key_only_its_signature_counts() -> None:
    """Unsigned and wrongly signed approvals are refused; the right one passes."""
    signer = Signer(SEED)

    def signed(state: State) -> State:
        assert state.decision is not None
        signature = signer.sign(state.decision.signed_bytes())
        return replace(state, decision=replace(state.decision, signature=signature))

    await _settled(signed, public_key=signer.public_key)
    for change in (lambda state: state, lambda state: _decided(message="!")(signed(state))):
        with pytest.raises(Unverified):
            await _settled(change, public_key=signer.public_key)


async def test_an_approval_that_may_have_run_is_refused_unless_told() -> None:
    """Single use: the author must say that running twice does no harm."""

    class Again(CallableTransport):
        async def wait(self, request_id: str, *, until: float) -> State:
            return replace(await super().wait(request_id, until=until), may_have_run=True)

    async with AsyncClient(Again(lambda request: True)) as client:
        pending = await client.submit(client.request("x", {}))
        with pytest.raises(AlreadyUsed):
            await client.wait(pending)
        assert (await client.wait(pending, rerun=True)).arguments == {}


async def test_a_waiter_returns_by_its_deadline_when_nobody_answers() -> None:
    """Expired, by our own clock, and said to be a timeout."""

    async def never(request: ApprovalRequest) -> bool:
        await asyncio.Event().wait()
        return True

    began = asyncio.get_running_loop().time()
    async with AsyncClient(CallableTransport(never)) as client:
        with pytest.raises(Expired, match="nobody answered"):
            await client.ask("x", {}, timeout=0.05)
    assert asyncio.get_running_loop().time() - began < 2


async def test_an_approval_after_our_deadline_is_refused_and_reported() -> None:
    """Whatever arrives late is not used."""

    class Late(CallableTransport):
        async def wait(self, request_id: str, *, until: float) -> State:
            state = await super().wait(request_id, until=until)
            while asyncio.get_running_loop().time() <= until:
                await moment()
            return state

    transport = Late(lambda request: True)
    async with AsyncClient(transport) as client:
        with pytest.raises(Expired):
            await client.ask("x", {}, timeout=0.01)
    assert [report.execution for _, report in transport.reports] == [Execution.REFUSED_LATE]


def test_nothing_scripted_and_nothing_configured_never_approves(
    approvals: ScriptedApprovals, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The fixture denies by default; without any gateway the call says what to do."""
    with pytest.raises(Denied):
        current_client().ask("x", {})
    code = (
        "from gateway.client import requires_approval\n"
        "@requires_approval\n"
        "def f(): print('RAN')\n"
        "f()"
    )
    env = {**os.environ, "GATEWAY_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "gateway up" in done.stderr
    assert "RAN" not in done.stdout
    assert issubclass(Unreachable, GatewayError)


def test_a_client_does_not_survive_a_fork(yes: Client) -> None:
    """A child that uses its parent's client gets an error, not its parent's answers."""
    child = os.fork()
    if child == 0:
        try:
            yes.ask("x", {})
        except GatewayError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_ctrl_c_stays_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when withdrawing the request takes too long: an agent must not take it for a failure."""

    class Slow(CallableTransport):
        async def cancel(self, request_id: str, *, reason: Reason, message: str) -> None:
            await asyncio.Event().wait()

    async def interrupt(request: ApprovalRequest) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(sync, "_GOODBYE_SECONDS", 0.01)
    with handlers_kept():
        # Whoever starts the tests in the background has them ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with Client(Slow(interrupt)) as client, pytest.raises(KeyboardInterrupt):
            client.ask("x", {})


def test_importing_the_client_loads_no_server_and_no_library() -> None:
    """The agent side loads no library; `ask` and `wait` not even what costs them milliseconds."""
    heavy = "pydantic aiohttp redis nacl jsonschema prometheus_client adapters"
    slow = "asyncio dataclasses email gateway.models gateway.wire.codec http pathlib secrets ssl"
    slow += " subprocess threading"
    for module, banned in (
        ("gateway.client.async_client, gateway.client.gate", heavy),
        ("gateway.client.commands", f"{heavy} {slow}"),
    ):
        code = f"import sys, {module}; print([m for m in {banned.split()!r} if m in sys.modules])"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]", (module, done.stdout)
