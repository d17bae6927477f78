"""A host that runs tools behind a process hook as PicoClaw's documents say, and takes no other
answer: members, types, actions by stage, ids, the length of a line, and both of its timeouts."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Params: TypeAlias = dict[str, Any]

LONGEST_LINE = 1_048_576
_STAGES = {
    "hook.before_llm": {"continue", "modify", "abort_turn", "hard_abort"},
    "hook.after_llm": {"continue", "modify", "abort_turn", "hard_abort"},
    "hook.after_tool": {"continue", "modify", "abort_turn", "hard_abort"},
    "hook.before_tool": {
        "continue", "modify", "respond", "deny_tool", "abort_turn", "hard_abort",
    },
}  # fmt: skip
_RESULT = {"for_llm": str, "for_user": str, "silent": bool, "is_error": bool}


class Failed(Exception):
    """The hook answered with an error, too late or not at all."""


@dataclass
class Ran:
    """What became of one call: what ran, and what the model was told."""

    tool: str
    arguments: Params | None = None
    told: str = ""
    aborted: str = ""


@dataclass
class PicoClaw:
    """The host. `write` sends bytes to the hook; `take` gets the lines that it writes."""

    write: Callable[[bytes], None]
    before: bool = True
    approval_timeout: float = 60.0
    interceptor_timeout: float = 60.0
    ignores_changes: bool = False
    waiting: dict[int, asyncio.Future[Params]] = field(default_factory=dict)
    errors: list[Params] = field(default_factory=list)
    ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def take(self, line: bytes) -> None:
        """Hand an answer to whoever waits for its id."""
        assert len(line) < LONGEST_LINE
        message = json.loads(line)
        assert message.keys() - {"result", "error"} == {"jsonrpc", "id"}, message
        assert message["jsonrpc"] == "2.0"
        assert ("result" in message) != ("error" in message)
        if "error" in message:
            assert message["error"].keys() == {"code", "message"}
            assert type(message["error"]["code"]) is int
            self.errors.append(message)
        waiting = self.waiting.pop(message["id"], None)
        if waiting is None:
            assert "error" in message, f"an answer to nobody: {message}"
        elif not waiting.done():
            waiting.set_result(message)

    def send(self, message: Params) -> None:
        """Send one message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def call(self, method: str, params: Params, timeout: float = 60.0) -> Params:
        """Return the result of a method. Raises Failed."""
        number = next(self.ids)
        future = self.waiting[number] = asyncio.get_running_loop().create_future()
        self.send({"id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(timeout):
                message = await future
        except TimeoutError:
            raise Failed(f"{method} timed out") from None
        if "error" in message:
            raise Failed(message["error"]["message"])
        result: Params = message["result"]
        return result

    async def hello(self) -> None:
        """Shake hands. Raises Failed."""
        modes = ["observe", *(["tool"] if self.before else []), "approve"]
        params = {"name": "approvals", "version": 1, "modes": modes}
        result = await self.call("hook.hello", params)
        assert result["ok"] is True
        assert isinstance(result["name"], str)

    async def intercept(self, method: str, params: Params) -> Params:
        """Return an interceptor's answer; `continue` where it fails, as the host has it."""
        try:
            answer = await self.call(method, params, self.interceptor_timeout)
        except Failed:
            return {"action": "continue"}
        assert answer.keys() <= {"action", "reason", "call", "result", "request", "response"}
        assert answer["action"] in _STAGES[method]
        assert (answer["action"] == "modify") <= ("call" in answer)
        if answer["action"] == "respond":
            result = answer["result"]
            assert {name: type(value) for name, value in result.items()} == _RESULT
        return answer

    async def run(self, params: Params) -> Ran:
        """Run one call of a tool through the stages."""
        ran = Ran(params["tool"])
        if self.before:
            answer = await self.intercept("hook.before_tool", params)
            action = answer["action"]
            if action == "respond":
                ran.told = answer["result"]["for_llm"]
                return ran
            if action == "deny_tool":
                ran.told = f"Tool execution denied by hook: {answer['reason']}"
                return ran
            if action in ("abort_turn", "hard_abort"):
                ran.aborted, ran.told = action, answer["reason"]
                return ran
            if action == "modify" and not self.ignores_changes:
                assert answer["call"].keys() >= {"tool", "arguments"}
                params = answer["call"]
        approved = await self._approve(params)
        if not approved["approved"]:
            ran.told = f"Tool execution denied by approval hook: {approved['reason']}"
            return ran
        ran.arguments = params.get("arguments", {})
        if self.before:
            done = {"for_llm": "done", "for_user": "", "silent": False, "is_error": False}
            await self.intercept(
                "hook.after_tool", {**params, "result": done, "duration": 15_000_000}
            )
        return ran

    async def _approve(self, params: Params) -> Params:
        asked = {name: params[name] for name in params if name not in ("channel", "chat_id")}
        try:
            answer = await self.call("hook.approve_tool", asked, self.approval_timeout)
        except Failed as error:
            return {"approved": False, "reason": f'tool approval hook "approvals" failed: {error}'}
        assert answer.keys() <= {"approved", "reason"}
        assert type(answer["approved"]) is bool
        assert answer["approved"] or answer["reason"]
        return answer


def call(tool: str = "exec", *, turn: str = "turn-1", **arguments: Any) -> Params:
    """Return the parameters of a method about a tool, as the current version writes them."""
    return {
        "meta": {
            "AgentID": "main", "TurnID": turn, "ParentTurnID": "", "SessionKey": "agent:main:tg:42",
            "Iteration": 1, "TracePath": "runTurn", "Source": "turn.tool.approve",
        },
        "context": {
            "inbound": {
                "channel": "telegram", "chat_id": "42", "sender_id": "7", "chat_type": "direct",
            },
            "route": {}, "scope": {},
        },
        "tool": tool,
        "arguments": arguments or {"action": "run", "command": "make deploy"},
    }  # fmt: skip


@asynccontextmanager
async def started(
    env: dict[str, str], words: Sequence[str] = (), **host: Any
) -> AsyncIterator[tuple[PicoClaw, asyncio.subprocess.Process]]:
    """Start `gateway hook picoclaw` as the host does; end it by closing its pipe."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway.cli", "hook", "picoclaw", *words,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=env,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    claw = PicoClaw(process.stdin.write, **host)
    reading = asyncio.create_task(_read(process.stdout, claw))
    try:
        yield claw, process
    finally:
        process.stdin.close()
        await process.wait()
        await reading


async def _read(stdout: asyncio.StreamReader, claw: PicoClaw) -> None:
    while line := await stdout.readline():
        claw.take(line)
