"""`gateway hook picoclaw`: a process hook of PicoClaw that uses JSON-RPC 2.0 over pipes.

Start at `PicoClawHook.take`, which handles each line. PicoClaw calls `before_tool` and then
`approve_tool` for one tool call, and neither message contains the call's id. `PendingCalls` joins
the two, so that people decide the call only once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import re
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gateway.client import AsyncClient, Outcome, OutcomeKind
from gateway.client.context import PARENT_ARROW, session_name
from gateway.client.transport import say_on_stderr
from gateway.errors import GatewayError, InvalidRequest
from gateway.integrations.coding_agents.pipe import LONGEST_LINE, HostPipe, TooLong
from gateway.models import Action, ApprovalRequest, Context, Execution, Kind, Origin
from gateway.wire.canonical_json import canonical, parse, sha256_hex
from gateway.wire.codec import JsonObject
from gateway.wire.roles import Role

# Tool calls in PicoClaw's format, and the pairing of two questions about one call.

_KINDS = {
    "exec": Kind.COMMAND,
    "write_file": Kind.FILE_CHANGE,
    "edit_file": Kind.FILE_CHANGE,
    "append_file": Kind.FILE_CHANGE,
}
_READ_ONLY = frozenset({"read_file", "list_dir"})
_LINES = dict.fromkeys(("offset", "length", "start_line", "max_lines"), Role.PART)
# Roles for tools that the gateway's own table of known tools does not have.
_ROLES: dict[str, dict[str, Role]] = {
    "read_file": {"path": Role.READ, **_LINES},
    "list_dir": {"path": Role.FOLDER},
    "load_image": {"path": Role.READ},
    "send_file": {"path": Role.READ},
    "web_fetch": {"url": Role.URL},
}


class BadParams(ValueError):
    """The parameters of a method are invalid."""


@dataclass(frozen=True, slots=True)
class PicoClawCall:
    """One tool call in PicoClaw's messages."""

    tool: str
    arguments: JsonObject
    session: str
    turn: str
    parent_turn: str
    agent: str
    iteration: Any
    origin: Origin

    @classmethod
    def read(cls, params: JsonObject) -> PicoClawCall:
        """Return the call in the parameters of a method, of any version. Raises BadParams."""
        meta = _object(params, "meta")
        inbound = {**params, **_object(_object(params, "context"), "inbound")}
        tool = read_text(params, "tool")
        if not tool:
            raise BadParams("the member tool is missing")
        agent = read_text(meta, "AgentID")
        return cls(
            tool=tool,
            arguments=_object(params, "arguments"),
            session=read_text(meta, "SessionKey"),
            turn=read_text(meta, "TurnID"),
            parent_turn=read_text(meta, "ParentTurnID"),
            agent=agent,
            iteration=_member(meta, "Iteration"),
            origin=Origin(
                framework="picoclaw",
                parent_agent=agent or None,
                channel=read_text(inbound, "channel") or None,
                chat=read_text(inbound, "chat_id") or None,
                sender=read_text(inbound, "sender_id") or None,
            ),
        )

    @property
    def key(self) -> str:
        """A hash that `before_tool` and `approve_tool` of one call share."""
        return self.key_of(self.arguments)

    def key_of(self, arguments: JsonObject) -> str:
        """Return the key of this call with other arguments."""
        place = [self.agent, self.session, self.turn, self.iteration]
        return sha256_hex(canonical([*place, self.tool, arguments]))

    def make_request(
        self, client: AsyncClient, where: Context, allowed: Sequence[Action], *, timeout: float
    ) -> ApprovalRequest:
        """Return the request for this call."""
        turns = [name for name in (self.parent_turn, self.turn) if name]
        return client.request(
            self.tool,
            self.arguments,
            kind=_KINDS.get(self.tool, Kind.TOOL),
            session=session_name(self.session) if self.session else None,
            turn=PARENT_ARROW.join(turns) or None,
            origin=self.origin,
            context=where,
            roles=_ROLES.get(self.tool),
            read_only=self.tool in _READ_ONLY,
            allowed=allowed,
            timeout=timeout,
        )


class PicoClawQuestion:
    """A request about a call, pending or decided. An approval lets at most one call run."""

    Asked: TypeAlias = tuple[ApprovalRequest | None, Outcome]

    def __init__(self, call: PicoClawCall, task: asyncio.Task[PicoClawQuestion.Asked]) -> None:
        self.call = call
        self.task = task

    async def outcome(self) -> Outcome:
        """Wait, and return the outcome. Cancelling the wait cancels the request."""
        try:
            await asyncio.wait({self.task})
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        if self.task.cancelled():
            return Outcome(kind=OutcomeKind.CANCELLED, message="the request was cancelled")
        return self.task.result()[1]

    @property
    def request(self) -> ApprovalRequest | None:
        """The request after its decision, None before the decision."""
        ended = self.task.done() and not self.task.cancelled() and not self.task.exception()
        return self.task.result()[0] if ended else None

    @property
    def runs(self) -> str | None:
        """The key of the call that may run, None if no call may run."""
        if self.request is None:
            return None
        outcome = self.task.result()[1]
        approved = outcome.runs and outcome.arguments is not None
        return self.call.key_of(outcome.arguments or {}) if approved else None

    def may_run(self, call: PicoClawCall) -> bool:
        """Return whether this call was approved."""
        return self.runs == call.key


class PendingCalls:
    """The requests of `before_tool` that no `approve_tool` has claimed yet."""

    def __init__(self, skip: Callable[[ApprovalRequest], None]) -> None:
        self._skip = skip
        self._open: list[PicoClawQuestion] = []
        self._tasks: set[asyncio.Task[PicoClawQuestion.Asked]] = set()

    def open(
        self,
        call: PicoClawCall,
        asking: Coroutine[Any, Any, PicoClawQuestion.Asked],
        lifetime: float,
    ) -> PicoClawQuestion:
        """Start a request about a call. Keep its decision for `approve_tool` for `lifetime`
        seconds."""
        task = asyncio.create_task(asking)
        question = PicoClawQuestion(call, task)
        self._open.append(question)
        self._tasks.add(task)
        loop = asyncio.get_running_loop()
        ends = loop.time() + lifetime

        def note(task: asyncio.Task[PicoClawQuestion.Asked]) -> None:
            self._tasks.discard(task)
            loop.call_at(ends, self._lapse, question)

        task.add_done_callback(note)
        return question

    def claim(self, call: PicoClawCall) -> PicoClawQuestion | None:
        """Return the request about a call, for one `approve_tool` only. Prefers an approved
        request, then a pending request, then any other."""
        key = call.key
        mine = [one for one in self._open if key == one.runs]
        mine += [one for one in self._open if key == one.call.key and not one.task.done()]
        mine += [one for one in self._open if key == one.call.key]
        if mine:
            self._open.remove(mine[0])
            return mine[0]
        return None

    def forget(self, question: PicoClawQuestion) -> None:
        """Drop a request, so that no `approve_tool` gets it."""
        if question in self._open:
            self._open.remove(question)

    async def close(self) -> None:
        """Cancel pending requests, and report the approvals that were not used."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for question in list(self._open):
            self._lapse(question)

    def _lapse(self, question: PicoClawQuestion) -> None:
        if question in self._open:
            self._open.remove(question)
            if question.runs and question.request is not None:
                self._skip(question.request)


def normal_kind(event: JsonObject) -> str:
    """Return the kind of an event in one spelling: `tool_exec_end` and `agent.tool.exec_end` become
    `tool.exec.end`."""
    kind = read_text(event, "Kind").removeprefix("agent.")
    return kind.replace("_", ".")


def read_text(values: JsonObject, name: str) -> str:
    """Return the string in a member, which may have any spelling; "" if it is missing. Raises
    BadParams."""
    found = _member(values, name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise BadParams(f"{name} must be a string")
    return found


def _object(values: JsonObject, name: str) -> JsonObject:
    found = values.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadParams(f"{name} must be an object")
    return found


def _member(values: JsonObject, name: str) -> Any:
    """Return a member by its name, ignoring case and underscores."""
    wanted = _plain(name)
    return next((value for key, value in values.items() if _plain(key) == wanted), None)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


log = logging.getLogger("gateway.integrations")

TIMEOUT = 50.0
"""Seconds that people have. PicoClaw itself denies a call after 60."""

PROTOCOL_VERSION = 1
_LONGEST_ANSWER = LONGEST_LINE - 1024  # PicoClaw stops reading for good at a longer line
_MOST_CALLS = 1000
_MOST_RUNNING = 1000
_NOT_JSON, _NO_REQUEST, _NO_METHOD, _BAD_PARAMS, _FAILED = -32700, -32600, -32601, -32602, -32000
_ID = re.compile(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*([1-9]\d{0,15})\s*[,}]')
_EVERY_ACTION = (Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT)
_YES_OR_NO = (Action.APPROVE, Action.DENY)
_ABORTS = {"turn": "abort_turn", "agent": "hard_abort"}
_EVENTS = ("hook.event", "hook.runtime_event")

Id = int | str
Connect = Callable[[], Awaitable[AsyncClient]]


class RpcError(Exception):
    """The error in the reply to a message."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class PicoClawHook:
    """The hook of one PicoClaw process. `connect` returns the client, `write` sends it a line."""

    def __init__(
        self,
        connect: Connect,
        write: Callable[[bytes], None],
        *,
        timeout: float = TIMEOUT,
        workspace: str | None = None,
    ) -> None:
        self._connect = connect
        self._write = write
        self._timeout = timeout
        self._where = Context(cwd=workspace)
        self._greeted = False
        self._calls: dict[Id, asyncio.Task[None]] = {}
        self._questions = PendingCalls(self._skip)
        self._running: deque[tuple[PicoClawCall, str, ApprovalRequest]] = deque(
            maxlen=_MOST_RUNNING
        )
        self._reports: set[asyncio.Task[None]] = set()

    def take(self, line: bytes) -> None:
        """Handle one line from PicoClaw. The reply is written later, when the decision is known."""
        try:
            message = parse(line, max_bytes=LONGEST_LINE)
        except InvalidRequest as error:
            self.refuse(line, str(error))
            return
        number: Id | None = None
        try:
            number = _read_id(message)
            method, params = _read_call(message)
            if number is None:
                self._note(method, params)
                return
            if number in self._calls:
                raise RpcError(_NO_REQUEST, f"the id {number} is in use: neither call is answered")
            if len(self._calls) >= _MOST_CALLS:
                raise RpcError(_FAILED, "too many calls are open at once")
            task = asyncio.create_task(self._answer(number, method, params))
            self._calls[number] = task
        except RpcError as error:
            self._fail(number, error.code, str(error))
        except BadParams as error:  # only a notification, which gets no reply
            log.warning("skipped a notification: %s", error)

    def refuse(self, line: bytes, why: str) -> None:
        """Reply to an invalid line with an error, and with the id from the line's start if it is
        readable."""
        found = _ID.match(line)
        self._fail(int(found[1]) if found else None, _NOT_JSON, why)

    async def close(self) -> None:
        """Cancel pending requests, and send the last reports."""
        calls = list(self._calls.values())
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self._questions.close()
        await asyncio.gather(*self._reports, return_exceptions=True)

    async def _answer(self, number: Id, method: str, params: JsonObject) -> None:
        """Reply to one request, with an error if anything fails."""
        try:
            result = await self._result(method, params)
        except RpcError as error:
            self._fail(number, error.code, str(error))
        except BadParams as error:
            self._fail(number, _BAD_PARAMS, str(error))
        except Exception as error:  # PicoClaw needs a reply, and this one approves nothing
            self._fail(number, _FAILED, f"{type(error).__name__}: {error}")
            raise
        else:
            self._tell(number, {"result": result})
            self._calls.pop(number, None)

    async def _result(self, method: str, params: JsonObject) -> JsonObject:
        if method == "hook.hello":
            return self._greet(params)
        if method in _EVENTS:
            self._note(method, params)
            return {}
        answer = {
            "hook.before_llm": self._go_on,
            "hook.after_llm": self._go_on,
            "hook.before_tool": self._before_tool,
            "hook.approve_tool": self._approve_tool,
            "hook.after_tool": self._after_tool,
        }.get(method)
        if answer is None:
            raise RpcError(_NO_METHOD, f"unknown method {method[:100]}")
        if not self._greeted:
            raise RpcError(_NO_REQUEST, "call hook.hello first")
        return await answer(params)

    def _greet(self, params: JsonObject) -> JsonObject:
        """Reply to the greeting. Raises RpcError if the hook could not block a call."""
        self._greeted = False
        if params.get("version") != PROTOCOL_VERSION:
            raise RpcError(_BAD_PARAMS, f"this hook supports only version {PROTOCOL_VERSION}")
        modes = params.get("modes")
        if not isinstance(modes, list) or "approve" not in modes:
            raise RpcError(
                _BAD_PARAMS,
                'add "approve_tool" to the hook\'s "intercept": after a timeout of the other '
                "methods a call runs",
            )
        self._greeted = True
        return {"ok": True, "name": "approval-gateway"}

    async def _go_on(self, params: JsonObject) -> JsonObject:
        return {"action": "continue"}

    async def _before_tool(self, params: JsonObject) -> JsonObject:
        """Ask about a call, with all actions, and return the reply."""
        call = PicoClawCall.read(params)
        question = self._questions.open(call, self._ask(call, _EVERY_ACTION), self._timeout)
        outcome = await question.outcome()
        if outcome.kind is OutcomeKind.APPROVED:
            return {"action": "continue"}
        if outcome.kind is OutcomeKind.EDITED:
            changed = {**params, "tool": call.tool, "arguments": outcome.arguments}
            return {"action": "modify", "call": changed}
        if outcome.kind is OutcomeKind.RESPONDED:
            self._questions.forget(question)  # PicoClaw does not call `approve_tool` then
            said = outcome.result
            text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
            told = {"for_llm": text, "for_user": "", "silent": False, "is_error": False}
            return {"action": "respond", "call": params, "result": told}
        action = _ABORTS.get(outcome.abort or "", "deny_tool")
        return {"action": action, "reason": outcome.message}

    async def _approve_tool(self, params: JsonObject) -> JsonObject:
        """Return the decision of `before_tool` on this call. Without a decision, ask now."""
        call = PicoClawCall.read(params)
        question = self._questions.claim(call)
        if question is None:
            question = self._questions.open(call, self._ask(call, _YES_OR_NO), self._timeout)
            self._questions.forget(question)
        outcome = await question.outcome()
        if not question.may_run(call):
            return {"approved": False, "reason": _why_not(outcome)}
        if question.request is not None:
            self._running.append((call, call.key, question.request))
        return {"approved": True}

    async def _after_tool(self, params: JsonObject) -> JsonObject:
        """Report how an approved call ended."""
        call = PicoClawCall.read(params)
        result = params.get("result")
        told = result if isinstance(result, dict) else {}
        execution = Execution.FAILED if told.get("is_error") is True else Execution.SUCCEEDED
        if told.get("async") is True:
            execution = Execution.STARTED
        for entry in list(self._running):
            if entry[1] == call.key:
                self._running.remove(entry)
                self._report(entry[2], execution, params.get("duration"))
                break
        return {"action": "continue"}

    def _note(self, method: str, params: JsonObject) -> None:
        """Report a skipped call, if the notification identifies the call. Ignore other
        notifications."""
        if method not in _EVENTS or normal_kind(params) != "tool.exec.skipped":
            return
        payload = params.get("Payload", params.get("payload"))
        about = params.get("Meta", params.get("scope"))
        if not isinstance(payload, dict) or not isinstance(about, dict):
            return
        tool, turn = read_text(payload, "Tool"), read_text(about, "TurnID")
        found = [one for one in self._running if (one[0].tool, one[0].turn) == (tool, turn)]
        if len(found) == 1:
            self._running.remove(found[0])
            self._report(found[0][2], Execution.SKIPPED, None)

    async def _ask(self, call: PicoClawCall, allowed: Sequence[Action]) -> PicoClawQuestion.Asked:
        """Ask about a call, and return its request and outcome. A GatewayError is returned as an
        outcome."""
        until = asyncio.get_running_loop().time() + self._timeout
        try:
            async with asyncio.timeout_at(until):
                client = await self._connect()
            left = max(until - asyncio.get_running_loop().time(), 0.001)
            request = call.make_request(client, self._where, allowed, timeout=left)
            return request, await client.outcome(request)
        except TimeoutError:
            words = f"the gateway did not answer within {self._timeout:.0f} s; nobody was asked"
        except GatewayError as error:
            words = f"nobody could be asked: {error}"
        return None, Outcome(kind=OutcomeKind.UNREACHABLE, message=words)

    def _skip(self, request: ApprovalRequest) -> None:
        """Report an approval that PicoClaw did not use."""
        self._report(request, Execution.SKIPPED, None)

    def _report(self, request: ApprovalRequest, execution: Execution, nanoseconds: Any) -> None:
        timed = type(nanoseconds) is int and nanoseconds >= 0
        spent = nanoseconds // 1_000_000 if timed else None

        async def report() -> None:
            client = await self._connect()
            await client.report(request, execution, duration_ms=spent)

        task = asyncio.create_task(report())
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    def _fail(self, number: Id | None, code: int, words: str) -> None:
        """Reply with an error. Cancel a running call with this id."""
        task = self._calls.pop(number, None) if number is not None else None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        self._tell(number, {"error": {"code": code, "message": words}})

    def _tell(self, number: Id | None, answer: JsonObject) -> None:
        line = json.dumps({"jsonrpc": "2.0", "id": number, **answer}).encode()
        if len(line) > _LONGEST_ANSWER:
            error = {"code": _FAILED, "message": "the answer is too long for one line"}
            line = json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode()
        self._write(line)


def _read_id(message: Any) -> Id | None:
    """Return the id of a message, None for a notification. Raises RpcError."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise RpcError(_NO_REQUEST, "the message is not a JSON-RPC 2.0 request")
    number = message.get("id", 0)
    if type(number) not in (int, str):
        raise RpcError(_NO_REQUEST, "the id must be a number or a string")
    return number or None


def _read_call(message: JsonObject) -> tuple[str, JsonObject]:
    """Return the method and parameters of a message. Raises RpcError."""
    method, params = message.get("method"), message.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict):
        raise RpcError(_NO_REQUEST, "the request needs a method, and its params must be an object")
    return method, params


def _why_not(outcome: Outcome) -> str:
    """Return the reason why a call does not run, for a reply that only allows or denies."""
    if outcome.kind is OutcomeKind.EDITED:
        wanted = json.dumps(outcome.arguments, ensure_ascii=False)
        return f"{outcome.message}; the edit was not applied: call it again with {wanted}"
    if outcome.kind is OutcomeKind.RESPONDED:
        return f"{outcome.message}; the result is {json.dumps(outcome.result, ensure_ascii=False)}"
    return outcome.message


async def serve(agent: str | None, timeout: float, workspace: str | None) -> int:
    """Run the hook on standard input and output until PicoClaw ends; return the exit code."""
    clients: list[AsyncClient] = []
    connecting = asyncio.Lock()

    async def connect() -> AsyncClient:
        async with connecting:
            if not clients:
                make = AsyncClient.from_env
                client = await asyncio.to_thread(make, agent, say=say_on_stderr)
                clients.append(await client.__aenter__())
            return clients[0]

    async with HostPipe.opened() as pipe:
        hook = PicoClawHook(connect, pipe.write, timeout=timeout, workspace=workspace)
        while True:
            try:
                line = await pipe.next_line()
            except TooLong as error:
                hook.refuse(error.start, str(error))
                continue
            if line is None:
                break
            if line.strip():
                hook.take(line)
        await hook.close()
        for client in clients:
            await client.close()
    return 0


def options(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line of `gateway hook picoclaw`. Exits with a usage error."""
    parser = argparse.ArgumentParser(
        prog="gateway hook",
        description="Gate PicoClaw's tools. "
        "PicoClaw starts this command as a process hook, see docs/integrations/picoclaw.md.",
    )
    add = parser.add_argument
    add("host", choices=["picoclaw"], help="name of the coding agent that starts the hook")
    add("--agent", help="name of the agent that asks (default: GATEWAY_AGENT, else local)")
    said = (
        "how many seconds to wait for a decision, less than PicoClaw's approval_timeout_ms "
        "(default: 50)"
    )
    add("--timeout", type=float, default=TIMEOUT, help=said)
    add("--workspace", metavar="DIR", help="folder in which PicoClaw's tools run")
    found = parser.parse_args(words[1:])
    if not found.timeout > 0:
        parser.error("--timeout must be a number of seconds above 0")
    return found


def main(words: Sequence[str]) -> int:
    """Run `gateway hook picoclaw`; return its exit code."""
    given = options(words)
    try:
        return asyncio.run(serve(given.agent, given.timeout, given.workspace))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"gateway hook: PicoClaw must start this, with pipes: {error}\n")
        return 2
