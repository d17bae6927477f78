"""`gateway ask` at a real gateway that is away for a while, and how both sides tell the end."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway.client import commands
from gateway.domain.records import Query, StoredRequest
from gateway.models import Action, Status
from tests.api.replica import AGENT_TOKEN, Replica
from tests.client.approving import PENDING, deciding
from tests.client.scripted import answer
from tests.faults.proxy import Proxy
from tests.waiting import moment
from tests.world import click

CODE = "import sys; from gateway.client.commands import main; sys.exit(main(sys.argv[1:]))"


@asynccontextmanager
async def asking(url: str, *words: str, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the command as a process of its own."""
    own = {
        **os.environ,
        "GATEWAY_URL": url,
        "GATEWAY_TOKEN": AGENT_TOKEN,
        "GATEWAY_AGENT": "agent1",
        **env,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CODE, "ask", *words),
        env=own,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def only(gate: Replica, *, final: bool = False) -> StoredRequest:
    """Return the one request, once it is there."""
    while not (found := (await gate.core.requests.page(Query(final=final))).items):
        await moment()
    return found[0]


async def test_it_waits_for_a_gateway_that_is_just_starting(gate: Replica) -> None:
    """It says so at once, asks once it is there, and the time counts from then on."""
    up = False

    async def upstream() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not up:
            raise OSError("nobody is there")
        return await asyncio.open_connection("127.0.0.1", urlsplit(gate.url).port)

    async with (
        Proxy(upstream).running() as proxy,
        asking(f"http://127.0.0.1:{proxy.port}", "shell", "--", "ls") as process,
    ):
        assert process.stderr is not None
        first = (await process.stderr.readline()).decode()
        assert f"waiting for the gateway: the gateway at 127.0.0.1:{proxy.port}" in first
        up = True
        await gate.core.requests.decide(click(await only(gate)))
        _, said = await process.communicate()
    assert process.returncode == 0, said


async def test_one_that_is_never_there_is_given_up(gate: Replica) -> None:
    """After the time that the setting names, with the code that says so."""
    env = {"GATEWAY_CONNECT_TIMEOUT": "0.3"}
    async with asking("http://127.0.0.1:1", "shell", **env) as process:
        _, said = await process.communicate()
    assert process.returncode == 5
    assert b"does not respond" in said


async def test_both_sides_tell_that_nobody_answered_in_time(gate: Replica) -> None:
    """No sweeper has looked yet when it gives up: the record says expired, not cancelled."""
    async with asking(gate.url, "shell", "--timeout", "0.3") as process:
        _, said = await process.communicate()
    assert process.returncode == 3, said
    assert (await only(gate, final=True)).status is Status.EXPIRED


def test_the_end_that_the_gateway_tells_is_the_end(run: Any, hours: Any) -> None:
    """A person said no in the last moment; an approval then is too late, and reported so."""
    asked: list[bytes] = []

    def kept(call: bytes) -> bytes:
        asked.append(call)
        return PENDING

    def denied(_: bytes) -> bytes:
        return deciding(status=Status.DENIED, action=Action.DENY)(asked[0])

    def approved(_: bytes) -> bytes:
        return answer({"id": "0" * 32, "status": "approved", "decision": None})

    assert run(kept, lambda _: hours(PENDING), denied)[0] == 1
    code, paths = run(PENDING, lambda _: hours(PENDING), approved, answer({}))
    assert (code, paths[-1].rpartition("/")[2]) == (3, "report")


def test_what_is_sent_again_carries_what_is_left(run: Any) -> None:
    """The first answer was lost on its way."""
    asked: list[Any] = []

    def noted(reply: Any) -> Any:
        def answered(call: bytes) -> bytes:
            asked.append(json.loads(call.partition(b"\r\n\r\n")[2])["request"])
            return reply if isinstance(reply, bytes) else bytes(reply(call))

        return answered

    lost = answer({"code": "unreachable", "detail": "no store"}, 503)
    code, _ = run(noted(lost), noted(lost), noted(deciding()), words=("ask", "x", "--timeout", "9"))
    first, *again = (request["timeout"] for request in asked)
    assert (code, first) == (0, 9)
    assert all(0 < timeout < 9 for timeout in again)
    assert len({request["id"] for request in asked}) == 1


@pytest.mark.parametrize(
    ("words", "changes", "printed"),
    [
        (("--edit", "--", "make"), {}, "make"),
        (("--edit", "--", "make"), {"command": "make x"}, "make x"),
        (
            ("--edit", "--arg", "cwd=/a", "--", "make"),
            {},
            {"command": "make", "cwd": "/a"},
        ),
        (
            ("--edit", "--arg", "cwd=/a", "--", "make"),
            {"command": "make", "cwd": "/b"},
            {"command": "make", "cwd": "/b"},
        ),
        (("--edit", "--arg", "n=1"), {}, {"n": "1"}),
    ],
)
def test_all_that_was_approved_is_printed(
    run: Any,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    changes: dict[str, str],
    printed: Any,
) -> None:
    """A command by itself where it is all that runs; otherwise nothing is left out."""
    edit: dict[str, Any] = {"action": Action.EDIT, "arguments": changes} if changes else {}
    assert run(deciding(**edit), words=("ask", "shell", *words))[0] == 0
    out = capsys.readouterr().out.strip()
    assert (out if isinstance(printed, str) else json.loads(out)) == printed


def test_an_edit_that_a_command_line_cannot_carry_is_refused(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asked about a command runs what is printed as one."""
    changes = {"command": "make", "cwd": "/b"}
    edit = deciding(action=Action.EDIT, arguments=changes)
    code, _ = run(edit, answer({}), words=("ask", "shell", "--edit", "--", "make"))
    assert (code, capsys.readouterr().out) == (5, "")


def test_json_always_has_the_arguments(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where nobody edited them; a denial has none to run."""
    words = ("ask", "shell", "--json", "--arg", "n=1", "--", "make")
    assert run(deciding(), words=words)[0] == 0
    assert json.loads(capsys.readouterr().out)["arguments"] == {"n": "1", "command": "make"}
    assert run(deciding(status=Status.DENIED, action=Action.DENY), words=words)[0] == 1
    assert json.loads(capsys.readouterr().out).get("arguments") is None


def test_only_its_two_verbs_are_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Where only the agent's side is installed, nothing else exits with 0."""
    for words in ((), ("pending",), ("--help",)):
        assert commands.main(words) == 2
    assert "gateway ask" in capsys.readouterr().err
