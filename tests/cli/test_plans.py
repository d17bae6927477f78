"""A plan from the SDK to the command line, on a gateway with an engine of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from gateway.client import Approval, Client
from gateway.errors import Denied, InvalidRequest
from gateway.models import PlannedCall
from tests.cli.shell import Shell

TEST = PlannedCall(tool="shell", arguments={"command": "make test"})
REPORT = PlannedCall(
    tool="send_email", arguments={"to": "ana@example.com"}, any_text=("body",), times=2
)


@pytest.fixture
def client(up: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Yield the client of an agent of this user."""
    monkeypatch.setenv("GATEWAY_DATA_DIR", up.env["GATEWAY_DATA_DIR"])
    with Client.from_env(say=None) as made:
        yield made


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Yield where a blocking call waits for a person."""
    with ThreadPoolExecutor() as made:
        yield made


def pending(up: Shell) -> dict[str, Any]:
    """Return the one request that waits, once it does."""
    while not (said := up.run("pending", "--json")):
        pass
    found: dict[str, Any] = json.loads(said)
    return found


def test_a_plan_is_approved_and_each_call_runs_so_often(
    up: Shell, client: Client, threads: ThreadPoolExecutor
) -> None:
    """People see each line before, and where it went through, which line it was."""
    plan: Future[Approval] = threads.submit(client.plan, [TEST, REPORT], minutes=30)
    waiting = pending(up)
    asked = waiting["request"]["id"]
    shown = up.run("show", asked)
    assert "make test" in shown
    assert "plan of calls" in shown
    assert "then add --yes" in up.run("approve", asked, code=2)
    up.run("approve", asked, "--yes")
    calls = plan.result().arguments["calls"]
    assert [one["tool"] for one in calls] == ["shell", "send_email"]

    ran = client.ask("shell", {"command": "make test"})
    assert ran.decision.message == "line 1 of a plan"
    sent = client.ask("send_email", {"to": "ana@example.com", "body": "All is well."})
    assert sent.decision.message == "line 2 of a plan"
    listed = up.run("grant", "list")
    assert f"line 2 of plan {asked[:8]}: send_email with any text in body" in listed
    assert "used 1 of 2 " in listed
    agent = waiting["request"]["agent"]
    call = ("send_email", "--arguments", '{"to": "ben@example.com", "body": "x"}')
    told = up.run("explain", agent, *call)
    assert f"line 2 of plan {asked[:8]}" in told


def test_what_deviates_asks_and_says_how(
    up: Shell, client: Client, threads: ThreadPoolExecutor
) -> None:
    """Whoever is asked reads it on the card."""
    plan = threads.submit(client.plan, [TEST])
    up.run("approve", pending(up)["request"]["id"], "--yes")
    plan.result()
    other = threads.submit(client.ask, "shell", {"command": "make all"})
    record = pending(up)
    assert record["asks_because"] == "deviates from the plan: line 1: it is not exactly the same"
    up.run("deny", record["request"]["id"])
    with pytest.raises(Denied):
        other.result()


def test_a_denied_plan_and_one_that_is_none(
    up: Shell, client: Client, threads: ThreadPoolExecutor
) -> None:
    """The agent is told which line, and a denial lets nothing through."""
    open_to = PlannedCall(tool="send_email", arguments={"body": "x"}, any_text=("to",))
    with pytest.raises(InvalidRequest, match='line 2, "send_email": "to" cannot be any text'):
        client.plan([TEST, open_to])
    plan = threads.submit(client.plan, [TEST])
    up.run("deny", pending(up)["request"]["id"])
    with pytest.raises(Denied):
        plan.result()
    assert json.loads(up.run("grant", "list", "--json"))["effect"] == "deny"
