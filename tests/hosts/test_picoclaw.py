"""PicoClaw's process hook: a strict stub of PicoClaw, the real hook, and a real gateway."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from gateway.client import AsyncClient
from gateway.client.http_transport import HttpTransport
from gateway.domain.records import Query, StoredRequest
from gateway.integrations.coding_agents.picoclaw import PicoClawHook, options
from gateway.models import Execution, Kind, Reason, Status
from tests.api.replica import AGENT, AGENT_TOKEN, Replica
from tests.frame.tree import ROOT
from tests.hosts.picoclaw_host import Failed, PicoClaw, call, started
from tests.waiting import moment


class Desk:
    """The host, its hook in this process, and what Ann sees."""

    def __init__(self, gate: Replica) -> None:
        self.gate = gate
        self.claw = PicoClaw(self._write)
        self.hook: PicoClawHook

    def _write(self, text: bytes) -> None:
        for line in text.splitlines():
            self.hook.take(line)

    async def asked(self, count: int = 1) -> list[StoredRequest]:
        """Return what waits, once that many requests do; the oldest first."""
        return await asked(self.gate, count)

    async def all(self) -> list[StoredRequest]:
        """Return all requests, the oldest first."""
        ended = await self.gate.core.requests.page(Query(final=True))
        waiting = await self.gate.core.requests.page(Query())
        return sorted([*ended.items, *waiting.items], key=lambda one: one.created)


async def asked(gate: Replica, count: int = 1) -> list[StoredRequest]:
    """Return what waits, once that many requests do; the oldest first."""
    async with asyncio.timeout(30):
        while len(items := (await gate.core.requests.page(Query())).items) != count:
            await moment()
    return list(reversed(items))


async def decide(gate: Replica, record: StoredRequest, action: str, **more: Any) -> None:
    """Answer a request as Ann."""
    answer = await gate.decided(record.id, action, revision=record.revision, **more)
    assert answer.status == 200, answer.text


@pytest_asyncio.fixture
async def desk(gate: Replica) -> AsyncIterator[Desk]:
    """A host that has shaken hands with a hook, and a gateway."""
    async with desk_of(gate) as one:
        yield one


@asynccontextmanager
async def desk_of(gate: Replica, *, timeout: float = 50.0) -> AsyncIterator[Desk]:
    """Yield a desk whose hook has so much time."""
    one = Desk(gate)
    async with AsyncClient(HttpTransport(gate.url, AGENT_TOKEN, AGENT)) as client:

        async def connect() -> AsyncClient:
            return client

        one.hook = PicoClawHook(connect, one.claw.take, timeout=timeout)
        await one.claw.hello()
        yield one
        await one.hook.close()


async def test_one_question_for_both_methods(desk: Desk) -> None:
    """An approval of before_tool answers approve_tool, once; the report tells that it ran. The
    request says session, turn, origin, kind and what an argument is."""
    running = asyncio.create_task(desk.claw.run(call()))
    (record,) = await desk.asked()
    request = record.request
    assert (request.tool, request.kind) == ("exec", Kind.COMMAND)
    assert (request.session, request.turn) == ("agent:main:tg:42", "turn-1")
    origin = request.origin
    assert (origin.framework, origin.parent_agent) == ("picoclaw", "main")
    assert (origin.channel, origin.chat, origin.sender) == ("telegram", "42", "7")
    await decide(desk.gate, record, "approve")
    assert (await running).arguments == {"action": "run", "command": "make deploy"}
    again = asyncio.create_task(desk.claw.call("hook.approve_tool", call()))
    (second,) = await desk.asked()
    assert second.id != record.id
    await decide(desk.gate, second, "deny", message="once is enough")
    assert (await again)["approved"] is False
    ended = await reported(desk, record)
    assert (ended.execution, ended.duration_ms) == (Execution.SUCCEEDED, 15)


async def reported(desk: Desk, record: StoredRequest) -> Any:
    """Return what was reported of a request, once it was."""
    async with asyncio.timeout(30):
        while (found := (await desk.gate.core.requests.get(record.id)).report) is None:
            await moment()
    return found


@pytest.mark.parametrize(
    ("action", "more", "told", "aborted"),
    [
        ("deny", {"message": "not on a Friday"}, "denied by hook: denied by ann: not on", ""),
        ("respond", {"result": "it is deployed"}, "it is deployed", ""),
        ("respond", {"result": {"state": "live"}}, '{"state": "live"}', ""),
        ("abort", {"message": "stop here"}, "stop here", "abort_turn"),
        ("abort", {"message": "stop here", "abort": "agent"}, "stop here", "hard_abort"),
    ],
)
async def test_whatever_a_person_does_but_approve_runs_nothing(
    desk: Desk, action: str, more: dict[str, Any], told: str, aborted: str
) -> None:
    """Denied, answered in the tool's place, or stopped: the host is told which, in its words."""
    running = asyncio.create_task(desk.claw.run(call()))
    (record,) = await desk.asked()
    await decide(desk.gate, record, action, **more)
    ran = await running
    assert (ran.arguments, ran.aborted) == (None, aborted)
    assert told in ran.told
    assert len(await desk.all()) == 1


async def test_an_edit_runs_as_the_person_left_it(desk: Desk) -> None:
    """The changed call is approved without another question; the rest of the call is as it was."""
    running = asyncio.create_task(desk.claw.run(call()))
    (record,) = await desk.asked()
    edited = {"action": "run", "command": "make deploy STAGE=test"}
    await decide(desk.gate, record, "edit", arguments=edited)
    assert (await running).arguments == edited
    assert len(await desk.all()) == 1


async def test_a_host_that_drops_the_change_runs_nothing(desk: Desk) -> None:
    """The call as it was asked is denied, with the changed one; nobody is asked again."""
    desk.claw.ignores_changes = True
    running = asyncio.create_task(desk.claw.run(call()))
    (record,) = await desk.asked()
    await decide(desk.gate, record, "edit", arguments={"action": "run", "command": "make test"})
    ran = await running
    assert ran.arguments is None
    assert '"command": "make test"' in ran.told
    assert len(await desk.all()) == 1


@pytest.mark.parametrize("action", ["approve", "deny", "respond", "edit"])
async def test_a_host_that_does_not_wait_joins_the_question(desk: Desk, action: str) -> None:
    """It goes on to approve_tool after its 5 seconds, here 10 ms: the same question decides."""
    desk.claw.interceptor_timeout = 0.01
    running = asyncio.create_task(desk.claw.run(call()))
    (record,) = await desk.asked()
    while len(desk.claw.waiting) < 2:  # both methods wait
        await moment()
    more: dict[str, Any] = {
        "respond": {"result": "done by hand"},
        "edit": {"arguments": {"command": "ls"}},
    }
    await decide(desk.gate, record, action, **more.get(action, {}))
    ran = await running
    assert (ran.arguments is not None) == (action == "approve")
    assert len(await desk.all()) == 1


async def test_calls_wait_side_by_side_and_are_answered_out_of_order(gate: Replica) -> None:
    """Three at once, two of them the same: each has a question of its own, and its own answer."""
    async with desk_of(gate) as desk:
        desk.claw.before = False
        calls = [call(command="a"), call(command="b"), call(command="b")]
        running = []
        for count, one in enumerate(calls, 1):
            running.append(asyncio.create_task(desk.claw.run(one)))
            waiting = await desk.asked(count)
        assert [record.request.allowed for record in waiting] == [("approve", "deny")] * 3
        await decide(gate, waiting[2], "deny", message="no")
        await decide(gate, waiting[1], "approve")
        await decide(gate, waiting[0], "approve")
        done = await asyncio.gather(*running)
        assert [one.arguments for one in done[:1]] == [{"command": "a"}]
        assert sorted(one.arguments is None for one in done[1:]) == [False, True]


async def test_what_was_approved_and_is_not_run_is_reported(gate: Replica) -> None:
    """Another hook denied it after our yes; our yes is of no use to a later call."""
    async with desk_of(gate, timeout=2.0) as desk:
        before = asyncio.create_task(desk.claw.intercept("hook.before_tool", call()))
        (record,) = await desk.asked()
        await decide(gate, record, "approve")
        assert await before == {"action": "continue"}
        assert (await reported(desk, record)).execution is Execution.SKIPPED
        asking = asyncio.create_task(desk.claw.call("hook.approve_tool", call()))
        (second,) = await desk.asked()
        assert second.id != record.id
        asking.cancel()


async def test_an_approval_is_for_the_turn_that_asked(gate: Replica) -> None:
    """The same call in another turn has its own question. What was not run when the host goes is
    reported."""
    async with desk_of(gate) as desk:
        before = asyncio.create_task(desk.claw.intercept("hook.before_tool", call()))
        (first,) = await desk.asked()
        await decide(gate, first, "approve")
        assert await before == {"action": "continue"}
        asking = asyncio.create_task(desk.claw.call("hook.approve_tool", call(turn="turn-2")))
        (second,) = await desk.asked()
        assert second.id != first.id
        await decide(gate, second, "approve")
        assert await asking == {"approved": True}
    assert (await reported(desk, first)).execution is Execution.SKIPPED


@pytest.mark.parametrize(
    ("method", "kind", "meta", "payload"),
    [
        ("hook.event", "tool_exec_skipped", "Meta", "Payload"),
        ("hook.runtime_event", "agent.tool.exec_skipped", "scope", "payload"),
    ],
)
async def test_an_event_tells_what_was_skipped(
    desk: Desk, method: str, kind: str, meta: str, payload: str
) -> None:
    """In the old and the new words; other events and ones about nothing of ours are no matter."""
    desk.claw.before = False
    running = asyncio.create_task(desk.claw.run(call()))
    (record,) = await desk.asked()
    await decide(desk.gate, record, "approve")
    await running
    name = "TurnID" if meta == "Meta" else "turn_id"
    params = {"Kind" if meta == "Meta" else "kind": kind, meta: {name: "turn-1"}}
    for tool in ("read_file", 7, "exec"):
        desk.claw.send({"method": method, "params": {**params, payload: {"Tool": tool}}})
    desk.claw.send({"method": method, "params": {"Kind": "turn_end"}, "id": 0})
    assert (await reported(desk, record)).execution is Execution.SKIPPED
    assert desk.claw.errors == []


@pytest.mark.parametrize("key", ["", "s 1/ä\n", "x" * 500, "cli:direct"])
async def test_any_session_key_is_a_session(desk: Desk, key: str) -> None:
    """Empty, long, or of any characters; two keys never share a session. Old hosts name the chat
    beside the call, and have other spellings."""
    old = {
        "meta": {"agent_id": "main", "turn_id": "t", "session_key": key},
        "tool": "list_dir",
        "arguments": {"path": "."},
        "channel": "cli",
        "chat_id": "chat-1",
    }
    running = asyncio.create_task(desk.claw.call("hook.approve_tool", old))
    (record,) = await desk.asked()
    request = record.request
    assert (request.session == key) == (key == "cli:direct")
    assert (request.session == "default") == (key == "")
    assert (request.origin.channel, request.origin.chat, request.turn) == ("cli", "chat-1", "t")
    assert request.read_only
    await decide(desk.gate, record, "approve")
    assert await running == {"approved": True}


async def test_what_guards_nothing_is_answered(desk: Desk) -> None:
    """Both methods around the model, and after_tool of a call that nobody asked about."""
    llm = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": []}
    for method in ("hook.before_llm", "hook.after_llm"):
        assert await desk.claw.intercept(method, llm) == {"action": "continue"}
    after = {**call(), "result": {"for_llm": "x"}, "duration": 1}
    assert await desk.claw.intercept("hook.after_tool", after) == {"action": "continue"}


async def test_time_over_is_a_denial_that_says_so(gate: Replica) -> None:
    """By our own deadline, before the host's; nothing waits any more."""
    async with desk_of(gate, timeout=0.3) as desk:
        desk.claw.before = False
        ran = await desk.claw.run(call())
        assert ran.arguments is None
        assert "ann" not in ran.told
        (record,) = await desk.all()
        assert record.status is Status.EXPIRED


RUBBISH = [
    (b"no json", -32700),
    (b'{"jsonrpc":"2.0","id":9,"method":"hook.approve_tool","params":{"a":1,"a":2}}', -32700),
    (b"[" * 100_000, -32700),
    (b"[]", -32600),
    (b'{"id":9,"method":"hook.approve_tool"}', -32600),
    (b'{"jsonrpc":"2.0","id":[9],"method":"hook.approve_tool"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"hook.approve_tool"}', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"hook.approve_tool"}', -32600),
    (b'{"jsonrpc":"2.0","id":9}', -32600),
    (b'{"jsonrpc":"2.0","id":9,"method":"hook.approve_tool","params":[]}', -32600),
    (b'{"jsonrpc":"2.0","id":9,"method":"hook.approve_tool","params":{}}', -32602),
    (b'{"jsonrpc":"2.0","id":9,"method":"hook.before_tool","params":{"tool":7}}', -32602),
    (
        b'{"jsonrpc":"2.0","id":9,"method":"hook.approve_tool",'
        b'"params":{"tool":"exec","arguments":"rm"}}',
        -32602,
    ),
    (
        b'{"jsonrpc":"2.0","id":9,"method":"hook.approve_tool",'
        b'"params":{"tool":"exec","meta":{"SessionKey":7}}}',
        -32602,
    ),
    (b'{"jsonrpc":"2.0","id":9,"method":"hook.approve"}', -32601),
    (b'{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{}}', -32601),
]


@pytest.mark.parametrize(("line", "code"), RUBBISH)
async def test_rubbish_is_answered_with_an_error_and_asks_nobody(
    desk: Desk, line: bytes, code: int
) -> None:
    """In JSON-RPC's own words, with the id where it can be read; the next call is as before."""
    desk.claw.write(line)
    while not desk.claw.errors:
        await moment()
    (error,) = desk.claw.errors
    assert error["error"]["code"] == code
    assert error["id"] == (9 if b'"id":9' in line and b'{"jsonrpc"' in line[:10] else None)
    assert await desk.all() == []
    assert await desk.claw.intercept("hook.before_llm", {}) == {"action": "continue"}


async def test_a_call_without_an_id_asks_nobody(desk: Desk) -> None:
    """Nobody would hear the answer."""
    desk.claw.send({"method": "hook.approve_tool", "params": call()})
    desk.claw.send({"method": "hook.before_tool", "params": call(), "id": 0})
    assert await desk.claw.intercept("hook.before_llm", {}) == {"action": "continue"}
    assert await desk.all() == []


async def test_a_repeated_id_answers_neither_call(desk: Desk) -> None:
    """Which of the two an answer would be for nobody knows: the first is withdrawn."""
    asking = asyncio.create_task(desk.claw.call("hook.approve_tool", call()))
    (record,) = await desk.asked()
    (number,) = desk.claw.waiting
    desk.claw.send({"id": number, "method": "hook.approve_tool", "params": call(command="ls")})
    with pytest.raises(Failed, match="in use"):
        await asking
    await desk.asked(0)
    (only,) = await desk.all()
    assert (only.id, only.status) == (record.id, Status.CANCELLED)


async def test_nothing_is_guarded_before_hello(gate: Replica) -> None:
    """Nor after one that this hook cannot serve; the host ends a hook whose hello fails."""
    async with desk_of(gate) as desk:
        for params in (
            {"name": "x", "version": 2, "modes": ["approve"]},
            {"name": "x", "version": 1, "modes": ["observe", "tool"]},
            {"name": "x", "version": 1},
        ):
            with pytest.raises(Failed):
                await desk.claw.call("hook.hello", params)
            with pytest.raises(Failed, match="hello"):
                await desk.claw.call("hook.approve_tool", call())
        assert await desk.all() == []


def environment(gate: Replica) -> dict[str, str]:
    """Return the environment of a hook's process."""
    return {
        **os.environ,
        "GATEWAY_URL": gate.url,
        "GATEWAY_TOKEN": AGENT_TOKEN,
        "GATEWAY_AGENT": AGENT,
    }


async def test_the_command_is_a_hook(gate: Replica) -> None:
    """As the host starts it: approvals, long lines and rubbish in one life; a line beyond 1 MiB
    is refused by its id, and the workspace is where it would run."""
    words = ("--workspace", "/srv/claw")
    async with started(environment(gate), words) as (claw, process):
        await claw.hello()
        running = asyncio.create_task(claw.run(call()))
        (record,) = await asked(gate)
        assert record.request.context.cwd == "/srv/claw"
        await decide(gate, record, "approve")
        assert (await running).arguments is not None
        long = {"model": "m", "messages": [{"role": "user", "content": "x" * 1_000_000}]}
        assert await claw.call("hook.before_llm", long) == {"action": "continue"}
        longer = {**long, "options": {"x": "y" * 2_200_000}}
        with pytest.raises(Failed, match="longer than"):
            await claw.call("hook.before_llm", longer)
        claw.write(b"\n\nrubbish\n")
        assert await claw.call("hook.before_llm", {}) == {"action": "continue"}
    assert process.returncode == 0


@pytest.mark.parametrize("end", ["stdin", "stdout", "signal"])
async def test_a_host_that_goes_leaves_nothing_waiting(gate: Replica, end: str) -> None:
    """It closed either pipe, or told the hook to stop: what waits is withdrawn, the hook ends."""
    async with started(environment(gate)) as (claw, process):
        await claw.hello()
        asking = asyncio.create_task(claw.run(call()))
        await asked(gate)
        if end == "stdin":
            assert process.stdin is not None
            process.stdin.close()
        elif end == "signal":
            process.send_signal(signal.SIGTERM)
        else:
            pipe: Any = process._transport  # type: ignore[attr-defined]
            pipe.get_pipe_transport(1).close()
        assert await process.wait() == 0
        asking.cancel()
    await asked(gate, 0)
    ended = (await gate.core.requests.page(Query(final=True))).items
    assert [one.status for one in ended] == [Status.CANCELLED]
    assert ended[0].decision is not None
    assert ended[0].decision.reason is Reason.ABANDONED


async def test_without_a_gateway_every_call_is_denied(tmp_path: Any) -> None:
    """The hook starts and says why; PicoClaw would otherwise fail every message."""
    env = {"PATH": os.environ["PATH"], "GATEWAY_DATA_DIR": str(tmp_path)}
    async with started(env) as (claw, _):
        await claw.hello()
        ran = await claw.run(call())
        assert ran.arguments is None
        assert "nobody could be asked: no gateway is configured" in ran.told


def test_the_snippet_gives_people_less_time_than_the_host() -> None:
    """The page's own configuration: ours is the shorter time, approve_tool guards, and the command
    takes its words. Without a setting it is the same by the defaults."""
    page = (ROOT / "docs" / "integrations" / "picoclaw.md").read_text()
    (snippet,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    hooks = json.loads(snippet)["hooks"]
    (process,) = hooks["processes"].values()
    words = process["command"]
    assert words[0].endswith("/gateway")
    assert words[1:3] == ["hook", "picoclaw"]
    given = options(words[1:])
    longest = min(hooks["defaults"].values()) / 1000
    assert given.timeout + 10 <= longest
    assert "approve_tool" in process["intercept"]
    assert options(["hook", "picoclaw"]).timeout + 10 <= 60


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "soon"])
def test_a_deadline_that_is_none_is_refused(timeout: str) -> None:
    """The hook always answers before its host gives up."""
    with pytest.raises(SystemExit):
        options(["hook", "picoclaw", "--timeout", timeout])
