"""Relay between an agent and its client program, and answer permission questions. See RpcBridge.

Both programs exchange lines of JSON-RPC, which the bridge passes on. Only the agent's permission
questions are answered through the gateway, and the client program never sees them. A missing
decision is a denial. With `relay`, the client program also gets the questions, and the first answer
counts. If the gateway has no decision, the client program must answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from gateway.client import AsyncClient, Outcome, OutcomeKind
from gateway.errors import GatewayError, InvalidRequest
from gateway.integrations.bridges.host_http import HostTasks
from gateway.integrations.coding_agents.hook import HookCall
from gateway.integrations.coding_agents.pipe import HostPipe, TooLong
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    HostRule,
    Kind,
    Origin,
    Question,
    Reason,
    Risk,
    RiskLevel,
)
from gateway.wire.codec import JsonObject, build, plain

log = logging.getLogger("gateway.integrations")

LONGEST_MESSAGE = 16 * 1024 * 1024
_END_SECONDS = 5.0
_DECIDED = (OutcomeKind.APPROVED, OutcomeKind.ANSWERED, OutcomeKind.DENIED,
            OutcomeKind.ABORTED)  # fmt: skip


class Ending(NamedTuple):
    """How a question ended. If `approved` is False, the call is denied. `stops` says that the turn
    must stop, `sentence` is the reason. `own` is a rule in the agent's format that the agent must
    save."""

    approved: bool = False
    stops: bool = False
    sentence: str = ""
    own: Any = None
    answers: JsonObject | None = None


class RpcDialect:
    """Reads an agent's questions, and writes the answers, in one protocol."""

    name = ""
    asks: frozenset[str] = frozenset()
    """The methods by which an agent asks for permission."""
    closes_dialogs = False
    """Whether the agent tells its client program that a question was answered elsewhere."""

    def note_host(self, message: JsonObject) -> str | None:
        """Record a message of the client program. Return the session that the message stops, if
        any."""

    def note_agent(self, message: JsonObject) -> str | None:
        """Record a message of the agent. Return the key of a question that the message closes, if
        any."""

    def read(self, method: str, params: JsonObject) -> HookCall:
        """Return the call or question in a message. Raises InvalidRequest if the message is
        malformed."""
        raise NotImplementedError

    def answer(self, method: str, params: JsonObject, ending: Ending) -> JsonObject:
        """Return the JSON-RPC result that answers a question."""
        raise NotImplementedError

    def stop(self, params: JsonObject) -> JsonObject | None:
        """Return a further message that stops the turn, or None if the answer itself stops the
        turn."""


class _Asking:
    """One open question of the agent."""

    def __init__(self, call: HookCall, request: ApprovalRequest) -> None:
        self.call, self.request = call, request
        self.over = asyncio.Event()
        self.why: tuple[Reason, str] = (Reason.ABANDONED, "the agent ended")

    def end(self, reason: Reason, why: str) -> None:
        """Close the question, so that its request is cancelled."""
        self.why = (reason, why)
        self.over.set()


class RpcBridge:
    """Relay lines, and let people answer permission questions. Use it in one event loop only."""

    def __init__(
        self,
        client: AsyncClient,
        dialect: RpcDialect,
        *,
        to_host: Callable[[bytes], None],
        to_agent: Callable[[bytes], None],
        native_always: bool = False,
        relay: bool = False,
    ) -> None:
        self._relay = relay
        self._answered = set[str]()
        self._client, self._dialect = client, dialect
        self._to_host, self._to_agent = to_host, to_agent
        self._waiting: dict[str, _Asking] = {}
        self._native_always = native_always
        self._tasks = HostTasks(dialect.name)

    def from_host(self, line: bytes) -> None:
        """Relay a line of the client program. If the line stops a turn, cancel the turn's
        requests."""
        message = _read(line)
        if message is not None and (session := self._dialect.note_host(message)) is not None:
            for one in list(self._waiting.values()):
                if one.call.session == session:
                    one.end(Reason.ABANDONED, "the turn was stopped")
        if message is None or not self._relay or not self._is_late(message):
            self._to_agent(line)

    def _is_late(self, message: JsonObject) -> bool:
        """Return whether a message answers a question that the gateway has already answered. If the
        program answers first, close the request."""
        number = message.get("id")
        if "method" in message or not isinstance(number, str | int):
            return False
        if (one := self._waiting.get(key_of(number))) is not None:
            one.end(Reason.RESOLVED_ELSEWHERE, "it was answered in the agent's own program")
        return key_of(number) in self._answered

    def from_agent(self, line: bytes) -> None:
        """Relay a line of the agent. If the line is a permission question, ask people instead. Drop
        an invalid line, because it could be a question."""
        message = _read(line)
        if message is None:
            log.warning("dropped a line of the agent that is not a message")
            return
        method = message.get("method")
        if method in self._dialect.asks:
            self._take(str(method), message)
            return
        over = self._dialect.note_agent(message)
        if over is not None and (one := self._waiting.get(over)) is not None:
            one.end(Reason.RESOLVED_ELSEWHERE, "the agent closed its question")
        self._to_host(line)

    async def close(self) -> None:
        """Cancel all requests, because the agent that would run the calls has ended."""
        for one in list(self._waiting.values()):
            one.end(Reason.ABANDONED, "the agent ended")
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._tasks.finish()
        except TimeoutError:
            self._tasks.cancel()
            await self._tasks.finish()

    def _take(self, method: str, message: JsonObject) -> None:
        number, params = message.get("id"), message.get("params")
        if isinstance(number, bool) or not isinstance(number, str | int):
            log.warning("dropped a question without an id")
            return
        if not isinstance(params, dict):
            params = {}
        key = key_of(number)
        if key in self._waiting:
            log.warning("dropped a question, because an open question has the same id")
            return
        try:
            call = self._dialect.read(method, params)
            if not self._native_always:
                call.forget_rules()
            asking = _Asking(call, self._make_request(call, key))
        except (ValueError, GatewayError) as error:
            log.warning("nobody was asked: %s", error)
            if self._relay:
                self._to_host(_encode(message))
                return
            ending = Ending(sentence=f"nobody was asked: {error}")
            self._reply(message, self._dialect.answer(method, params, ending))
            return
        self._waiting[key] = asking
        if self._relay:
            self._answered.discard(key)
            self._to_host(_encode(message))
        self._tasks.start(self._deal_with(key, asking, {**message, "params": params}))

    async def _deal_with(self, key: str, asking: _Asking, message: JsonObject) -> None:
        """Ask people, and answer the agent. If the agent's question is closed meanwhile, answer
        immediately."""
        answer = asyncio.create_task(self._client.outcome(asking.request))
        over = asyncio.create_task(asking.over.wait())
        try:
            await asyncio.wait({answer, over}, return_when=asyncio.FIRST_COMPLETED)
            self._waiting.pop(key, None)
            outcome = None if asking.over.is_set() else _outcome_of(answer)
            if not self._relay:
                self._tell(asking.call, message, outcome)
            elif outcome is not None and outcome.kind in _DECIDED:
                self._answered.add(key)
                self._tell(asking.call, message, outcome)
            if outcome is None:
                reason, why = asking.why
                with suppress(GatewayError):  # the result does not matter any more
                    await self._client.cancel(asking.request, reason=reason, message=why)
        finally:
            await cancel_all({answer, over})

    def _tell(self, call: HookCall, message: JsonObject, outcome: Outcome | None) -> None:
        params = message["params"]
        ending = Ending(stops=True) if outcome is None else _read_ending(call, outcome)
        if outcome is not None and not ending.approved:
            log.warning("not approved: %s", outcome.message)
        self._reply(message, self._dialect.answer(message["method"], params, ending))
        aborts = outcome is not None and bool(outcome.abort)
        if aborts and (more := self._dialect.stop(params)) is not None:
            self._to_agent(_encode(more))

    def _make_request(self, call: HookCall, key: str) -> ApprovalRequest:
        doubt = call.needs_person
        request = self._client.request(
            call.tool,
            call.arguments,
            kind=Kind(call.kind),
            call_id=call.unique_id,
            part=key if call.unique_id else None,
            context=Context(cwd=call.cwd) if call.cwd else None,
            origin=Origin(framework=self._dialect.name, tool_call_id=call.call_id),
            session=call.session,
            turn=call.turn,
            questions=[build(Question, one) for one in call.questions],
            allowed=[Action(one) for one in call.allowed if one != "edit"],
            risk=Risk(level=RiskLevel.HIGH, reasons=(doubt,)) if doubt else None,
            human=bool(doubt),
        )
        return replace(request, host_rules=tuple(build(HostRule, one) for one in call.host_rules))

    def _reply(self, message: JsonObject, result: JsonObject) -> None:
        version = {"jsonrpc": message["jsonrpc"]} if "jsonrpc" in message else {}
        self._to_agent(_encode({**version, "id": message["id"], "result": result}))


def _read_ending(call: HookCall, outcome: Outcome) -> Ending:
    """Return an outcome as the ending of a question. An outcome that the agent does not support
    becomes a denial."""
    wanted = OutcomeKind.ANSWERED if call.questions else OutcomeKind.APPROVED
    if outcome.kind is not wanted:
        return Ending(stops=bool(outcome.abort), sentence=outcome.message)
    rule = outcome.decision.host_rule if outcome.decision else None
    return Ending(
        approved=True,
        sentence=outcome.message,
        own=None if rule is None else call.find_own(plain(rule)),
        answers=outcome.result if call.questions else None,
    )


def _outcome_of(answer: asyncio.Task[Outcome]) -> Outcome:
    """Return the outcome of a task, even if the task failed, because the agent needs an answer."""
    error = None if answer.cancelled() else answer.exception()
    if answer.cancelled() or error is not None:
        return Outcome(kind=OutcomeKind.UNREACHABLE, message=f"nobody was asked: {error}")
    return answer.result()


async def cancel_all(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def key_of(number: str | int) -> str:
    """Return the id of a question in the wire format. Numbers and strings have different ids."""
    return f"s.{number}" if isinstance(number, str) else f"n.{number}"


def _read(line: bytes) -> JsonObject | None:
    """Return the message in a line, None if the line is invalid or a batch."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _encode(message: JsonObject) -> bytes:
    return json.dumps(message).encode()


def run_bridge(words: Sequence[str], dialect: RpcDialect) -> int:
    """Run the command of a bridge: start the agent, and relay its lines; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"gateway bridge {dialect.name}")
    parser.add_argument(
        "command", nargs="+", metavar="COMMAND", help="command that starts the agent, after --"
    )
    native = (
        "offer people to save a permission in the agent itself; nobody can revoke it in the gateway"
    )
    parser.add_argument("--native-always", action="store_true", help=native)
    if dialect.closes_dialogs:
        beside = "let the program ask too; the first answer counts"
        parser.add_argument("--relay", action="store_true", help=beside)
    options = parser.parse_args(words)
    logging.basicConfig(format="gateway: %(message)s")
    try:
        return asyncio.run(_run(options, dialect))
    except (GatewayError, OSError) as error:
        print(f"gateway: {error}", file=sys.stderr)  # noqa: T201 (a command)
        return error.exit_code if isinstance(error, GatewayError) else InvalidRequest.exit_code


async def _run(options: argparse.Namespace, dialect: RpcDialect) -> int:
    async with AsyncClient.from_env() as client, HostPipe.opened(LONGEST_MESSAGE) as host:
        agent = await asyncio.create_subprocess_exec(
            *options.command, stdin=PIPE, stdout=PIPE, limit=LONGEST_MESSAGE
        )
        assert agent.stdin is not None
        to_agent = agent.stdin

        def write(line: bytes) -> None:
            if not to_agent.is_closing():
                to_agent.write(line + b"\n")

        bridge = RpcBridge(
            client, dialect, to_host=host.write, to_agent=write,
            native_always=options.native_always, relay=getattr(options, "relay", False),
        )  # fmt: skip
        passing = [
            asyncio.create_task(_pass_host(host, bridge, agent)),
            asyncio.create_task(_pass_agent(agent, bridge)),
        ]
        try:
            done, _ = await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            await bridge.close()
            await cancel_all(set(passing))
            code = await _end(agent)
        return code


async def _pass_host(host: HostPipe, bridge: RpcBridge, agent: Process) -> None:
    while True:
        try:
            line = await host.next_line()
        except TooLong as error:
            log.warning("dropped a line: %s", error)
            continue
        if line is None:
            return
        bridge.from_host(line.rstrip(b"\r\n"))
        if agent.stdin is not None:
            await agent.stdin.drain()


async def _pass_agent(agent: Process, bridge: RpcBridge) -> None:
    assert agent.stdout is not None
    while True:
        try:
            line = await agent.stdout.readline()
        except ValueError:  # too long: the start of the next message is unknown
            raise InvalidRequest("the agent wrote a line that is too long") from None
        if not line:
            return
        if line.strip():
            bridge.from_agent(line.rstrip(b"\r\n"))


async def _end(agent: Process) -> int:
    """Close the agent's input, and wait until the agent ends; if it does not end, stop it. Return
    the agent's exit code."""
    if agent.stdin is not None:
        agent.stdin.close()
    for stop in (agent.terminate, agent.kill):
        try:
            async with asyncio.timeout(_END_SECONDS):
                return await agent.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                stop()
    return await agent.wait()
