"""`gateway bridge acp` and `codex-app-server`, between a program and a strict stub of an agent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.client import AsyncClient, CallableTransport
from gateway.domain.policy_document import Mode
from gateway.domain.records import Query
from gateway.domain.store import MessageContext
from gateway.errors import InvalidRequest
from gateway.integrations.bridges.acp import Acp
from gateway.integrations.bridges.rpc import Ending, RpcBridge
from gateway.models import Reason, RiskLevel
from tests.api.replica import POLICY, Replica
from tests.frame.tree import ROOT
from tests.hosts.conftest import NO_GATEWAY, Answer, environment

pytestmark = pytest.mark.thorough

CALL_ID = "call_3fQz81LmW0"
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "once", "name": "Once", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
CALL = {
    "toolCallId": CALL_ID,
    "title": "remove x",
    "kind": "execute",
    "rawInput": {"command": "rm x"},
}
PERMISSION: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "session/request_permission",
    "params": {"sessionId": "s-1", "toolCall": CALL, "options": OPTIONS},
}
COMMAND: dict[str, Any] = {
    "id": 0,
    "method": "item/commandExecution/requestApproval",
    "params": {
        "threadId": "s-1", "turnId": "t-1", "itemId": CALL_ID, "startedAtMs": 1,
        "command": "rm x", "cwd": "/srv/app", "reason": "It is old.",
        "availableDecisions": ["accept", {"acceptWithExecpolicyAmendment": {}}, "cancel"],
    },
}  # fmt: skip
STARTED = {
    "method": "item/started",
    "params": {
        "threadId": "s-1", "turnId": "t-1",
        "item": {"type": "fileChange", "id": CALL_ID, "changes": [{"path": "a", "diff": "+b"}]},
    },
}  # fmt: skip
CHANGE = {
    "id": 1,
    "method": "item/fileChange/requestApproval",
    "params": {"threadId": "s-1", "turnId": "t-1", "itemId": CALL_ID, "startedAtMs": 1},
}
ASKED: dict[str, dict[str, Any]] = {"acp": PERMISSION, "codex-app-server": COMMAND}
BOTH = sorted(ASKED)
YES: dict[str, Any] = {
    "acp": {"outcome": {"outcome": "selected", "optionId": "once"}},
    "codex-app-server": {"decision": "accept"},
}
NO: dict[str, Any] = {
    "acp": {"outcome": {"outcome": "selected", "optionId": "no"}},
    "codex-app-server": {"decision": "decline"},
}
STOP: dict[str, Any] = {
    "acp": {"outcome": {"outcome": "cancelled"}},
    "codex-app-server": {"decision": "cancel"},
}
CANCELS = {
    "acp": {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s-1"}},
    "codex-app-server": {"method": "turn/interrupt", "params": {"threadId": "s-1"}, "id": 5},
}


class Program:
    """The program that starts the bridge in its agent's place."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def say(self, method: str, params: Any = None) -> None:
        """Have the agent do something."""
        self.write({"method": method, "params": params})

    def write(self, message: Any) -> None:
        """Write a line to what stands for the agent."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def read(self) -> Any:
        """Return the next line."""
        assert self.process.stdout is not None
        return json.loads(await self.process.stdout.readline())

    async def answered(self, number: Any = 0) -> Any:
        """Return the result that the agent was given, which must come next."""
        told = await self.read()
        assert (told["method"], told["params"]["id"]) == ("answered", number)
        return told["params"]["result"]


@asynccontextmanager
async def bridged(
    host: str, gate: Replica, home: Path, *words: str, **more: str
) -> AsyncIterator[Program]:
    """Run the bridge before the stub inside the block."""
    agent = (sys.executable, str(ROOT / "tests" / "hosts" / "rpc_agent.py"), host)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.integrations", "bridge", host, *words, "--", *agent),
        cwd=ROOT,
        env=environment(gate, home, **more),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        limit=2**20,
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("host", BOTH)
async def test_each_answer_is_told_in_the_protocols_words(
    host: str, gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """Approve once, deny, abort; the card has the command, and offers nothing that is not told."""
    asked = ASKED[host]
    async with bridged(host, gate, tmp_path) as program:
        program.say("ask", [asked])
        record = await answer()
        assert await program.answered() == YES[host]
        request = record.request
        assert request.arguments["command"] == "rm x"
        assert (request.kind, request.session, request.call_id) == ("command", "s-1", CALL_ID)
        assert request.allowed == ("approve", "deny", "abort")
        assert request.origin.framework == host
        program.say("ask", [{**asked, "id": "one"}])
        await answer("deny", message="no")
        assert await program.answered("one") == NO[host]
        program.say("ask", [{**asked, "id": 2}])
        await answer("abort")
        assert await program.answered(2) == STOP[host]
        if host == "acp":  # which has no answer that stops the turn
            assert (await program.read())["params"] == CANCELS["acp"]


@pytest.mark.parametrize("host", BOTH)
async def test_an_id_that_a_provider_repeats_names_no_call(
    host: str, gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """An agent that takes up its session again counts from the start, and is asked about again."""
    asked = json.loads(json.dumps(ASKED[host]).replace(CALL_ID, "functions.shell:0"))
    for _ in range(2):
        async with bridged(host, gate, tmp_path) as program:
            program.say("ask", [asked])
            record = await answer()
            assert await program.answered() == YES[host]
            assert record.request.origin.tool_call_id == "functions.shell:0"


async def test_everything_else_passes_both_ways(gate: Replica, tmp_path: Path) -> None:
    """Byte by byte, also answers and what nobody here knows."""
    async with bridged("acp", gate, tmp_path) as program:
        for message in (
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"é": [1.0, None]}},
            {"jsonrpc": "2.0", "id": 9, "result": {"content": "x" * 200_000}},
            {"id": 9, "error": {"code": -32601, "message": "no"}},
        ):
            program.write(message)
            assert await program.read() == {"method": "echo", "params": message}
        program.say("say", '{"method": "fs/read_text_file",  "id": 4, "params": {}}')
        assert program.process.stdout is not None
        line = await program.process.stdout.readline()
        assert line == b'{"method": "fs/read_text_file",  "id": 4, "params": {}}\n'


@pytest.mark.parametrize("host", BOTH)
async def test_what_the_program_cancels_is_withdrawn(
    host: str, gate: Replica, tmp_path: Path
) -> None:
    """The agent is told at once, the message passes, and the card closes."""
    async with bridged(host, gate, tmp_path) as program:
        program.say("ask", [ASKED[host]])
        await gate.waiting()
        program.write(CANCELS[host])
        told = [await program.read() for _ in range(2)]
        assert {"method": "echo", "params": CANCELS[host]} in told
        (result,) = [one["params"]["result"] for one in told if one["method"] == "answered"]
        assert result == STOP[host]
        record = (await gate.ended())[0]
    assert record.decision is not None
    assert record.decision.reason is Reason.ABANDONED


@pytest.mark.parametrize("host", BOTH)
async def test_what_the_agent_asks_no_longer_is_withdrawn(
    host: str, gate: Replica, tmp_path: Path
) -> None:
    """By its own word for that."""
    over = {"acp": "$/cancel_request", "codex-app-server": "serverRequest/resolved"}[host]
    async with bridged(host, gate, tmp_path) as program:
        program.say("ask", [ASKED[host]])
        await gate.waiting()
        program.say("ask", [{"method": over, "params": {"requestId": 0, "threadId": "s-1"}}])
        record = (await gate.ended())[0]
    assert record.decision is not None
    assert record.decision.reason is Reason.RESOLVED_ELSEWHERE


@pytest.mark.parametrize("host", BOTH)
@pytest.mark.parametrize("who", ["program", "agent"])
async def test_who_goes_away_ends_all_three(
    host: str, who: str, gate: Replica, tmp_path: Path
) -> None:
    """The card closes; the exit code is the agent's own."""
    async with bridged(host, gate, tmp_path) as program:
        program.say("ask", [ASKED[host]])
        await gate.waiting()
        if who == "agent":
            program.say("end")
        else:
            assert program.process.stdin is not None
            program.process.stdin.close()
        record = (await gate.ended())[0]
        code = await program.process.wait()
    assert code == (7 if who == "agent" else 0)
    assert record.decision is not None
    assert record.decision.reason is Reason.ABANDONED


@pytest.mark.parametrize("host", BOTH)
async def test_without_a_gateway_it_is_refused(host: str, gate: Replica, tmp_path: Path) -> None:
    """And nobody was asked; what nobody is asked about goes on."""
    async with bridged(host, gate, tmp_path, **NO_GATEWAY) as program:
        program.say("ask", [ASKED[host]])
        assert await program.answered() == NO[host]
        program.write({"id": 3, "method": "more"})
        assert (await program.read())["method"] == "echo"


@pytest.mark.parametrize(
    "changes",
    [
        {"toolCall": None}, {"toolCall": {}}, {"toolCall": {"toolCallId": "c", "kind": "execute"}},
        {"toolCall": {**CALL, "kind": "a\nb"}}, {"sessionId": 5}, {"options": []},
        {"options": [OPTIONS[0], OPTIONS[2]]},
    ],
)  # fmt: skip
async def test_an_acp_question_that_cannot_be_shown_is_refused(
    changes: dict[str, Any], gate: Replica, tmp_path: Path
) -> None:
    """Nobody is asked what nobody could read, nor for what would hold for longer than once."""
    asked = {**PERMISSION, "params": {**PERMISSION["params"], **changes}}
    async with bridged("acp", gate, tmp_path) as program:
        program.say("ask", [asked])
        assert await program.answered() in (NO["acp"], STOP["acp"])
    assert not (await gate.core.requests.page(Query())).items


@pytest.mark.parametrize(
    "asked",
    [
        {**COMMAND, "params": {**COMMAND["params"], "command": None}},
        {**COMMAND, "params": {**COMMAND["params"], "availableDecisions": ["cancel"]}},
        {**COMMAND, "params": []},
        {**CHANGE, "id": 0},
    ],
)
async def test_a_codex_question_that_cannot_be_shown_is_declined(
    asked: dict[str, Any], gate: Replica, tmp_path: Path
) -> None:
    """A change of files that were not named before, too."""
    async with bridged("codex-app-server", gate, tmp_path) as program:
        program.say("ask", [asked])
        assert await program.answered() == NO["codex-app-server"]
    assert not (await gate.core.requests.page(Query())).items


KEEPS = {
    "acp": ("Always", {"outcome": {"outcome": "selected", "optionId": "always"}}),
    "codex-app-server": (
        "calls that Codex considers the same as this one",
        {"decision": "acceptForSession"},
    ),
}
NATIVE = ("--native-always",)
KEEP_PREFIX = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["npm", "run all"]}}


@pytest.mark.parametrize("host", BOTH)
async def test_the_agent_keeps_what_a_person_chose(
    host: str, gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """Its own answer for that, where the bridge was told to offer it; otherwise for once."""
    asked = ASKED[host]
    if host == "codex-app-server":
        decisions = ["accept", "acceptForSession", KEEP_PREFIX, {**KEEP_PREFIX, "more": 1}]
        offers = {**asked["params"], "availableDecisions": decisions}
        asked = {**asked, "params": offers}
    rule, kept = KEEPS[host]
    async with bridged(host, gate, tmp_path, *NATIVE) as program:
        program.say("ask", [asked])
        record = await answer(remember={"offer": "host:0"})
        assert await program.answered() == kept
        assert record.request.host_rules[0].rule == rule
        program.say("ask", [{**asked, "id": 1}])
        await answer()
        assert await program.answered(1) == YES[host]
        if host == "codex-app-server":
            program.say("ask", [{**asked, "id": 3}])
            record = await answer(remember={"offer": "host:1"})
            assert await program.answered(3) == {"decision": KEEP_PREFIX}
            (_, prefix) = record.request.host_rules
            assert prefix.rule == "commands that begin with: npm 'run all'"
    async with bridged(host, gate, tmp_path) as program:
        program.say("ask", [{**asked, "id": 2}])
        assert (await answer()).request.host_rules == ()
        assert await program.answered(2) == YES[host]


async def test_codex_keeps_nothing_that_it_does_not_offer(
    gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """Nor a change of its rules that it does not tell."""
    async with bridged("codex-app-server", gate, tmp_path, *NATIVE) as program:
        program.say("ask", [COMMAND])
        assert (await answer()).request.host_rules == ()
        assert await program.answered() == YES["codex-app-server"]


@pytest.mark.parametrize("kind", ["execute", "other"])
async def test_a_call_of_which_only_the_title_is_known_needs_a_person(
    kind: str, gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """ACP: a title is written for people. Nothing but a person approves by it."""
    allows = replace(POLICY.routes[0], mode=Mode.AUTO_APPROVE)
    await gate.store.apply(replace(POLICY, generation=1, routes=(allows,)), by="test")
    words = [{"type": "content", "content": {"type": "text", "text": "in /srv"}}]
    call = {"toolCallId": CALL_ID, "title": "remove x", "kind": kind, "content": words}
    asked = {**PERMISSION, "params": {**PERMISSION["params"], "toolCall": call}}
    async with bridged("acp", gate, tmp_path) as program:
        program.say("ask", [asked])
        record = await answer(confirmed=True)
        assert await program.answered() == YES["acp"]
        told = {**PERMISSION["params"], "toolCall": {**call, "rawInput": {"path": "x"}}}
        program.say("ask", [{**PERMISSION, "id": 1, "params": told}])
        assert await program.answered(1) == YES["acp"], "the policy allows what is told as data"
    name = "command (from the title)" if kind == "execute" else "title"
    assert record.request.arguments == {name: "remove x", "content": words}
    assert (record.request.kind, record.request.human) == ("tool", True)
    assert record.risk.level is RiskLevel.HIGH
    assert "only the title" in record.risk.reasons[0]


def codex(method: str, **params: Any) -> dict[str, Any]:
    """Return a question of the app-server with the members that each has."""
    if not method.startswith("item/"):
        return {"id": 0, "method": method, "params": {"conversationId": "s-1", **params}}
    known = {"threadId": "s-1", "turnId": "t-1", "itemId": CALL_ID, "startedAtMs": 1}
    return {"id": 0, "method": method, "params": {**known, **params}}


WANTED = {"network": {"enabled": True}, "fileSystem": {"write": ["/srv"]}}
PERMISSIONS = codex("item/permissions/requestApproval", cwd="/srv/app", permissions=WANTED)
OLD_COMMAND = codex(
    "execCommandApproval", callId="c", cwd="/srv/app", parsedCmd=[], command=["rm", "my file"]
)
OLD_CHANGE = codex("applyPatchApproval", callId="c", fileChanges={"a": {"type": "delete"}})
STDIN = codex("item/commandExecution/requestApproval", kind="writeStdin", command="yes")
HUMAN = codex("item/commandExecution/requestApproval", kind="humanCommand", command="rm x")


@pytest.mark.parametrize(
    ("asked", "about", "yes", "no"),
    [
        (PERMISSIONS, ("permissions", "tool"), {"permissions": WANTED, "scope": "turn"},
         {"permissions": {}, "scope": "turn"}),
        (OLD_COMMAND, ("Bash", "command"), {"decision": "approved"},
         {"decision": {"denied": {"rejection": "denied by ann: no"}}}),
        (OLD_CHANGE, ("apply_patch", "file_change"), {"decision": "approved"},
         {"decision": {"denied": {"rejection": "denied by ann: no"}}}),
        (STDIN, ("write_stdin", "tool"), {"decision": "accept"}, {"decision": "decline"}),
        (HUMAN, ("Bash", "command"), {"decision": "accept"}, {"decision": "decline"}),
    ],
    ids=["permissions", "old command", "old change", "stdin", "human"],
)  # fmt: skip
async def test_what_else_codex_asks_is_gated(
    asked: Any, about: Any, yes: Any, no: Any, gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """In its own words for each; what it wants is what the card has, and what it gets."""
    async with bridged("codex-app-server", gate, tmp_path) as program:
        program.say("ask", [asked])
        record = await answer(confirmed=asked is HUMAN)
        assert await program.answered() == yes
        program.say("ask", [{**asked, "id": 1}])
        await answer("deny", message="no")
        assert await program.answered(1) == no
    assert (record.request.tool, record.request.kind, record.request.session) == (*about, "s-1")
    assert record.request.human is (asked is HUMAN)
    if asked is OLD_COMMAND:
        assert record.request.arguments == {"command": "rm 'my file'"}
    assert "edit" not in record.request.allowed
    assert ("abort" in record.request.allowed) is (asked is not PERMISSIONS)


@pytest.mark.parametrize(
    ("asked", "no"),
    [
        ({**PERMISSIONS, "params": {**PERMISSIONS["params"], "permissions": {}}},
         {"permissions": {}, "scope": "turn"}),
        ({**OLD_COMMAND, "params": {**OLD_COMMAND["params"], "command": "rm x"}}, None),
        ({**OLD_COMMAND, "params": {**OLD_COMMAND["params"], "callId": None}}, None),
        ({**OLD_CHANGE, "params": {**OLD_CHANGE["params"], "fileChanges": {}}}, None),
        (codex("item/tool/requestUserInput", questions=[]), {"answers": {}}),
        (codex("item/tool/requestUserInput", questions=[{"id": "a"}]), {"answers": {}}),
        (codex("item/tool/requestUserInput", questions=["a"]), {"answers": {}}),
    ],
)  # fmt: skip
async def test_what_else_codex_asks_and_cannot_be_shown_is_refused(
    asked: Any, no: Any, gate: Replica, tmp_path: Path
) -> None:
    """Nobody is asked."""
    async with bridged("codex-app-server", gate, tmp_path) as program:
        program.say("ask", [asked])
        told = await program.answered()
        assert told == no or (no is None and "nobody was asked" in str(told["decision"]["denied"]))
    assert not (await gate.core.requests.page(Query())).items


async def test_a_question_of_codex_is_a_question(
    gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """A choice, a text where it takes other words, a secret; unanswered it has no answers."""
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": ""}]
    which = {"id": "which", "header": "h", "question": "Which?", "options": options}
    questions = [
        which,
        {**which, "id": "other", "isOther": True},
        {"id": "key", "header": "h", "question": "Key?", "isSecret": True},
    ]
    asked = codex("item/tool/requestUserInput", isBlocking=True, questions=questions)
    async with bridged("codex-app-server", gate, tmp_path) as program:
        program.say("ask", [asked])
        record = await answer("answer", answers={"which": "Blue", "other": "Green", "key": "k3y"})
        given = {"which": ["Blue"], "other": ["Green"], "key": ["k3y"]}
        answers = {name: {"answers": one} for name, one in given.items()}
        assert await program.answered() == {"answers": answers}
        program.say("ask", [{**asked, "id": 1}])
        await answer("deny")
        assert await program.answered(1) == {"answers": {}}
    kinds = [(one.kind, one.secret) for one in record.request.questions]
    assert kinds == [("choice", False), ("text", False), ("text", True)]
    assert record.request.questions[1].text == "Which? (Red: warm; Blue; or something else)"


async def test_lines_that_are_no_message_do_not_pass(
    gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """A batch might hold a question that the program answers by itself; one without an id, and a
    second one under the same id, are passed over."""
    async with bridged("acp", gate, tmp_path) as program:
        program.say("say", json.dumps([PERMISSION]))
        program.say("say", "no json")
        program.say("say", "[" * 100_000)
        program.say("say", json.dumps({**PERMISSION, "id": None}))
        program.say("ask", [PERMISSION, PERMISSION])
        await answer()
        told = await program.read()
        assert told["params"]["result"] == YES["acp"]
    assert len((await gate.core.requests.page(Query(final=True))).items) == 1


async def test_the_card_has_what_the_agent_said_of_the_call_before(
    gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """ACP: the folder of the session, and the members that the question leaves out."""
    new = {"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": {"cwd": "/srv/app"}}
    update = {"sessionUpdate": "tool_call", **CALL, "kind": "edit", "content": [{"type": "diff"}]}
    told = {"method": "session/update", "params": {"sessionId": "s-1", "update": update}}
    asked = {**PERMISSION["params"], "toolCall": {"toolCallId": CALL_ID}}
    async with bridged("acp", gate, tmp_path) as program:
        program.write(new)
        assert (await program.read())["method"] == "echo"
        opened = {"id": 7, "result": {"sessionId": "s-1"}}
        program.say("ask", [opened, told, {**PERMISSION, "params": asked}])
        record = await answer()
    request = record.request
    assert (request.tool, request.kind, request.context.cwd) == ("edit", "file_change", "/srv/app")
    assert request.arguments["content"] == [{"type": "diff"}]


async def test_codex_says_before_which_files_it_changes(
    gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """The card has them; the question itself does not."""
    async with bridged("codex-app-server", gate, tmp_path) as program:
        program.say("ask", [STARTED, CHANGE])
        assert await program.read() == STARTED
        record = await answer()
        assert await program.answered(1) == YES["codex-app-server"]
    request = record.request
    assert (request.tool, request.kind) == ("apply_patch", "file_change")
    assert request.arguments == {"changes": [{"path": "a", "diff": "+b"}]}


async def test_an_agent_that_cannot_be_started_is_said(gate: Replica, tmp_path: Path) -> None:
    """And a bridge without one."""
    for words in ((), ("--", "/nowhere/agent")):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway.integrations", "bridge", "acp", *words),
            cwd=ROOT,
            env={**environment(gate, tmp_path), "PATH": os.environ["PATH"]},
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        _, said = await process.communicate()
        assert process.returncode == InvalidRequest.exit_code
        assert b"COMMAND" in said or b"/nowhere/agent" in said


async def test_a_question_that_is_not_dealt_with_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """A mistake of ours ends that one question, and stands in the log; nothing is approved."""

    class Broken(Acp):
        def answer(self, method: str, params: Any, ending: Ending) -> Any:
            raise ZeroDivisionError

    told: list[bytes] = []
    async with AsyncClient(CallableTransport(lambda request: True)) as client:
        bridge = RpcBridge(client, Broken(), to_host=told.append, to_agent=told.append)
        bridge.from_agent(json.dumps(PERMISSION).encode())
        await bridge.close()
    assert "cannot handle a message of acp: ZeroDivisionError()" in caplog.text
    assert told == []


# --relay: the program asks beside the gateway, and the first answer counts.


async def test_relay_the_card_is_answered_first(
    gate: Replica, answer: Answer, tmp_path: Path
) -> None:
    """The program is asked too; what it answers after the card does not reach the agent."""
    async with bridged("codex-app-server", gate, tmp_path, "--relay") as program:
        program.say("ask", [COMMAND])
        assert await program.read() == COMMAND
        await answer("deny")
        assert await program.answered() == NO["codex-app-server"]
        program.write({"id": 0, "result": {"decision": "accept"}})
        program.write({"id": 8, "method": "more"})
        assert await program.read() == {"method": "echo", "params": {"id": 8, "method": "more"}}
        over = {"method": "serverRequest/resolved", "params": {"requestId": 0, "threadId": "s-1"}}
        program.say("ask", [over])
        assert await program.read() == over  # by which the program closes its dialog


async def test_relay_the_program_is_answered_first(gate: Replica, tmp_path: Path) -> None:
    """Its answer reaches the agent, once, and the card closes as decided elsewhere."""
    async with bridged("codex-app-server", gate, tmp_path, "--relay") as program:
        program.say("ask", [COMMAND])
        assert await program.read() == COMMAND
        await gate.waiting()
        program.write({"id": 0, "result": {"decision": "accept"}})
        assert await program.answered() == YES["codex-app-server"]
        record = (await gate.ended())[0]
        program.write({"id": 8, "method": "more"})
        assert (await program.read())["method"] == "echo"
    assert record.decision is not None
    assert record.decision.reason is Reason.RESOLVED_ELSEWHERE


@pytest.mark.parametrize("why", ["no gateway", "cancelled", "not shown"])
async def test_relay_without_a_decision_leaves_it_to_the_program(
    why: str, gate: Replica, tmp_path: Path
) -> None:
    """Nothing is answered in its place."""
    asked = COMMAND
    if why == "not shown":
        asked = {**COMMAND, "params": {**COMMAND["params"], "command": None}}
    more = NO_GATEWAY if why == "no gateway" else {}
    async with bridged("codex-app-server", gate, tmp_path, "--relay", **more) as program:
        program.say("ask", [asked])
        assert await program.read() == asked
        if why == "cancelled":
            (record,) = await gate.waiting()
            origin = MessageContext(agent=record.request.agent)
            await gate.approvals.cancel(record.id, origin, reason=Reason.CANCELLED_BY_AGENT)
        program.write({"id": 8, "method": "more"})
        assert (await program.read())["method"] == "echo"
        program.write({"id": 0, "result": {"decision": "decline"}})
        assert await program.answered() == NO["codex-app-server"]


async def test_relay_is_only_where_the_agent_closes_the_other_dialog(
    gate: Replica, tmp_path: Path
) -> None:
    """ACP has no word for that."""
    async with bridged("acp", gate, tmp_path, "--relay") as program:
        assert await program.process.wait() == 2
