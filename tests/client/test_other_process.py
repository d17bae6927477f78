"""Asked in one process, run in another: real processes, over HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from gateway.domain.records import Query
from tests.api.replica import AGENT_TOKEN, Replica

COMMON = """
import pickle, sys
from pathlib import Path
from gateway.client import Client, requires_approval, resume, suspend
from gateway.errors import GatewayError
from gateway.models import Context

client = Client.from_env("agent1")

@requires_approval(client=client)
def deploy(version: str) -> str:
    return f"{version} is live"

def told(work):
    try:
        print(work())
    except GatewayError as error:
        print(type(error).__name__)
"""
SUSPEND = """
Path(sys.argv[1]).write_bytes(pickle.dumps(suspend(deploy, "1.4")))
"""
RESUME = """
told(lambda: resume(deploy, pickle.loads(Path(sys.argv[1]).read_bytes())))
"""
SUBMIT = """
print(client.submit(client.request("deploy", {"version": "1.4"}, context=Context())).request.id)
"""
WAIT = """
request_id, version, seconds = sys.argv[1:]
request = client.request("deploy", {"version": version}, context=Context(), id=request_id)
told(lambda: client.wait(request, timeout=float(seconds)).arguments)
"""
CANCEL = """
import asyncio, os
from gateway.errors import NotFound

async def cancel():
    request = client.request("deploy", {"version": "1.4"})
    asking = asyncio.create_task(client.run_on_loop(client.inner.send(request)))
    while True:
        await asyncio.sleep(0)
        try:
            await client.run_on_loop(client.inner.fetch(request.id))
            break
        except NotFound:
            continue
    asking.cancel()
    await asyncio.wait({asking})
    print(asking.cancelled(), flush=True)

asyncio.run(cancel())
os._exit(0)
"""
AT_EXIT = """
import atexit

atexit.register(lambda: told(lambda: client.fetch("0" * 32)))
"""


async def run(gate: Replica, code: str, *words: str) -> str:
    """Run code in a process of its own that exits well; return what it printed."""
    env = {**os.environ, "GATEWAY_URL": gate.url, "GATEWAY_TOKEN": AGENT_TOKEN}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMON + code, *words),
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    return out.decode().strip()


async def approve_all(gate: Replica) -> None:
    """Approve what waits."""
    for record in (await gate.core.requests.page(Query())).items:
        assert (await gate.decided(record.id)).status == 200


async def test_a_suspended_call_runs_once_in_another_process(gate: Replica, tmp_path: Path) -> None:
    """The pickle carries all that is needed; a third process is told that it may have run."""
    kept = str(tmp_path / "pending")
    await run(gate, SUSPEND, kept)
    await approve_all(gate)
    assert await run(gate, RESUME, kept) == "1.4 is live"
    assert await run(gate, RESUME, kept) == "AlreadyUsed"


@pytest.mark.parametrize(
    ("version", "said"), [("1.4", "{'version': '1.4'}"), ("6.6", "Unverified")]
)
async def test_an_id_is_enough_for_who_knows_what_to_run(
    gate: Replica, version: str, said: str
) -> None:
    """Another process builds the request anew with the id it kept; leave is for the same alone."""
    request_id = await run(gate, SUBMIT)
    assert await run(gate, WAIT, request_id, version, "0.2") == "Pending"
    await approve_all(gate)
    assert await run(gate, WAIT, request_id, version, "60") == said


async def test_a_call_that_is_cancelled_is_withdrawn_before_its_process_can_end(
    gate: Replica,
) -> None:
    """Nobody is asked for what has nobody to run it."""
    assert await run(gate, CANCEL) == "True"
    assert (await gate.core.requests.page(Query())).items == ()


async def test_a_process_that_ends_is_told_so(gate: Replica) -> None:
    """Python lets no thread begin then: what asks nevertheless gets an error of ours."""
    assert await run(gate, AT_EXIT) == "GatewayError"
