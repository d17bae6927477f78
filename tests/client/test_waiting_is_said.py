"""An agent that waits for people says so: in one line, with where to answer, or not at all."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.client import (
    AsyncClient,
    CallableTransport,
    Client,
    async_client,
    config,
    requires_approval,
)
from gateway.client.async_client import transport_for
from gateway.client.transport import say_on_stderr
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.models import ApprovalRequest, Risk, RiskLevel, Status
from tests.client.approving import PENDING, deciding
from tests.client.test_reach import Line, line
from tests.waiting import moment
from tests.world import AGENT, click

__all__ = ["line"]  # a fixture
INBOX = "http://127.0.0.1:8080/inbox"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say it as soon as the wait begins."""
    monkeypatch.setattr(async_client, "_MOMENT_SECONDS", 0)


class Known(CallableTransport):
    """A callable that stands for a gateway whose inbox is known."""

    def __init__(self, approver: Callable[[ApprovalRequest], Any]) -> None:
        super().__init__(approver)
        self.inbox = INBOX


async def test_it_says_what_waits_and_where_to_answer(line: Line, at_once: None) -> None:
    """Over HTTP with the address of the inbox; over Redis, which knows none, in words."""
    async with line.client() as asking:
        request = asking.request("shell", {"command": "ls"})
        waiting = asyncio.create_task(asking.send(request))
        while not line.said:
            await moment()
        await line.decide(request.id)
        await waiting
        inbox = asking._transport.inbox
    address = f"http://127.0.0.1:{line.proxy.port}/inbox/r/{request.id}"
    where = f"at {address}" if inbox else "in the inbox"
    how = f"answer {where}, or where the gateway runs: gateway approve {request.id}"
    assert line.said == [f"waiting for approval of 'shell': {how}"]


async def test_it_says_the_number_that_an_approver_is_asked_for(line: Line) -> None:
    """At once and once, over HTTP and over Redis; with it the request is approved. To what nobody
    waits for there is none to say."""
    current = await line.store.policy()
    high = RulesByRisk(high=LevelRules(step_up=(StepUp.NUMBER,)))
    routes = tuple(replace(one, risk=high) for one in current.routes)
    await line.store.apply(replace(current, routes=routes), by="test")
    line.core.writer.forget_policy()
    async with line.client() as asking:
        request = asking.request("shell", {}, risk=Risk(level=RiskLevel.HIGH))
        waiting = asyncio.create_task(asking.send(request))
        while not (said := [one for one in line.said if one.startswith("number ")]):
            await moment()
        number = said[0].split()[1].rstrip(":")
        assert said == [
            f"number {number}: the approver of request {request.id[:8]} may be asked for it"
        ]
        await line.core.requests.decide(click(await line.record(request.id), number=number))
        assert (await waiting).decision.status is Status.APPROVED
        detached = await asking.submit(asking.request("shell", {}, risk=Risk(level=RiskLevel.HIGH)))
        assert (await line.ended(detached.request.id)).status is Status.DENIED
    assert len([one for one in line.said if one.startswith("number ")]) == 1


async def test_who_does_not_wait_says_so_only_when_it_does(line: Line, at_once: None) -> None:
    """`submit` waits for nothing; the `wait` after it does."""
    async with line.client() as asking:
        pending = await asking.submit(asking.request("shell", {}))
        assert line.said == []
        waiting = asyncio.create_task(asking.wait(pending))
        while not line.said:
            await moment()
        await line.decide(pending.request.id)
        await waiting
    assert len(line.said) == 1


async def test_what_is_answered_at_once_is_not_said() -> None:
    """Before the moment is over: a rule answered, or what was remembered."""
    said: list[str] = []
    held = threading.Event()

    def approve(request: ApprovalRequest) -> bool:
        return request.tool == "quick" or held.wait(20)

    async with AsyncClient(Known(approve), say=said.append) as asking:
        await asking.ask("quick", {})
        waiting = asyncio.create_task(asking.ask("slow", {}))
        while not said:
            await moment()
        held.set()
        await waiting
    assert [sentence.partition(":")[0] for sentence in said] == ["waiting for approval of 'slow'"]


@pytest.mark.parametrize(("quiet", "lines"), [({}, 1), ({"say": None}, 0)])
def test_a_gated_function_says_it_on_standard_error_unless_it_is_quiet(
    quiet: dict[str, Any], lines: int, at_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the inbox; nothing on standard output, which is the program's own."""
    turns = threading.Event()

    def approve(request: ApprovalRequest) -> bool:
        asking.start(_set_later(turns))
        return turns.wait(20)

    with Client(Known(approve), **quiet) as asking:
        requires_approval(client=asking)(deploy)()
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == lines
    assert not lines or said.err.startswith("gateway client: waiting for approval of 'deploy': ")
    assert not lines or INBOX in said.err


@pytest.mark.parametrize("made", [AsyncClient, AsyncClient.from_env, Client, Client.from_env])
def test_each_way_to_a_client_says_it_unless_it_is_quiet(made: Callable[..., Any]) -> None:
    """The one that gated functions make for themselves, too."""
    assert inspect.signature(made).parameters["say"].default is say_on_stderr


def deploy() -> None:
    """Do nothing."""


async def _set_later(turns: threading.Event) -> None:
    """Let what the client's loop was to say be said before."""
    for _ in range(3):
        await asyncio.sleep(0)
    turns.set()


async def test_a_callable_has_no_inbox_to_point_to(at_once: None) -> None:
    """Nobody is sent to an inbox that does not exist."""
    said: list[str] = []
    held = threading.Event()
    async with AsyncClient(CallableTransport(lambda _: held.wait(20)), say=said.append) as asking:
        waiting = asyncio.create_task(asking.ask("x", {}))
        for _ in range(5):
            await moment()
        held.set()
        await waiting
    assert said == []


async def test_a_name_moves_no_cursor(at_once: None) -> None:
    """A model may choose it, and the line is written to somebody's terminal."""
    said: list[str] = []
    held = threading.Event()
    async with AsyncClient(Known(lambda _: held.wait(20)), say=said.append) as asking:
        waiting = asyncio.create_task(asking.ask("x\u202e\u2028\x9b2JApproved", {}))
        while not said:
            await moment()
        held.set()
        await waiting
    assert said[0].isprintable()


def test_over_redis_the_inbox_is_that_of_the_known_gateway() -> None:
    """Local discovery and the environment may give both addresses."""
    found = config.AgentConfig(agent=AGENT, redis_url="redis://127.0.0.1:9")
    assert transport_for(found).inbox == ""
    found.url = "http://127.0.0.1:8080/"
    assert transport_for(found).inbox == INBOX


def test_without_standard_error_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may have none, and goes on."""
    monkeypatch.setattr(sys, "stderr", None)
    say_on_stderr("waiting")


def test_the_command_says_what_waits_and_where_to_answer(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, with the whole id; then how it ended."""
    bodies: list[bytes] = []

    def pending(call: bytes) -> bytes:
        bodies.append(call)
        return PENDING

    code, _ = run(pending, lambda _: deciding()(bodies[0]))
    assert code == 0
    first, last = capsys.readouterr().err.splitlines()
    asked = json.loads(bodies[0].partition(b"\r\n\r\n")[2])["request"]["id"]
    assert last == "approved by ann"
    assert first.startswith("waiting for approval of 'shell': answer at http://127.0.0.1:")
    assert first.endswith(f"/inbox/r/{asked}, or where the gateway runs: gateway approve {asked}")


def test_the_command_that_does_not_wait_says_nothing(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither for what was settled at once, nor with --no-wait."""
    assert run(deciding())[0] == 0
    assert capsys.readouterr().err == "approved by ann\n"
    assert run(PENDING, words=("ask", "x", "--no-wait"))[0] == 6
    assert capsys.readouterr().err == ""


async def test_it_says_where_the_card_is(
    line: Line, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the card is posted, in a line of its own, over HTTP. Over Redis it asks for none: that
    would be one more message of each request. Addresses that a terminal would obey are left out."""
    url = "https://t1.slack.test/archives/C1/p1700000000000100"

    async def link_cards(request_id: str) -> dict[str, str]:
        return {url: "slack", "https://x\x1b[2J": "evil"}

    monkeypatch.setattr(async_client, "_POSTING_SECONDS", 0)
    monkeypatch.setattr(line.core.copies.links, "link_cards", link_cards)
    async with line.client() as asking:
        request = asking.request("shell", {"command": "ls"})
        waiting = asyncio.create_task(asking.send(request))
        told = [f"the card for 'shell': {url}"] if asking._transport.inbox else []
        while len(line.said) < 1 + len(told):
            await moment()
        await line.decide(request.id)
        await waiting
    assert line.said[1:] == told
