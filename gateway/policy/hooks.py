"""Policy hooks: programs that the operator provides, which review calls by JSON-RPC 2.0 over stdio.

Start reading at `HookLink` (the hooks as a decider of the policy chain) or `HookProcess` (one
hook).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
import tomllib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from gateway.domain.parsing import parse_message
from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import start_of
from gateway.domain.risk import RaisedRisk
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.errors import GatewayError, InvalidRequest
from gateway.models import ApprovalRequest, DecidedBy, DeciderKind, Reason, Risk, RiskLevel
from gateway.policy.chain import ALLOW, CONTINUE, DENY, HOOKS_PRIORITY, MODIFY, RESPOND
from gateway.policy.verdict import Verdict
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject, Wire

# The file that names the hook processes: TOML, read strictly when the gateway starts.
#
# It is on the gateway's disk and never in Redis, because its commands run as the gateway's user.

INTERCEPTS = ("before_llm", "after_llm", "before_tool", "after_tool", "approve_tool")
_LONGEST_SECONDS = 60  # a request waits for it


class BadHooks(InvalidRequest):
    """The hooks file cannot be used."""

    code = "bad_hooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook(Wire):
    """One hook process.

    `intercept` names the methods that the hook answers, `observe` the kinds of events that it
    receives (`*` for all). Hooks with a lower `priority` are asked first; if equal, they are asked
    in order of their names. `timeout` is in seconds. The hook's approval allows a call only with
    `may_allow`; its results replace the tool's only with `may_respond`. The process gets `env` and
    a few basic variables.
    """

    command: tuple[str, ...]
    dir: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    priority: int = 100
    intercept: tuple[str, ...] = ("approve_tool",)
    observe: tuple[str, ...] = ()
    timeout: float = 5.0
    may_allow: bool = False
    may_respond: bool = False

    def __post_init__(self) -> None:
        if not self.command:
            raise InvalidRequest('a hook needs a "command" that starts its process')
        if unknown := set(self.intercept) - set(INTERCEPTS):
            raise InvalidRequest(f'unknown method {sorted(unknown)[0]!r} in "intercept"')
        if not 0 < self.timeout <= _LONGEST_SECONDS:
            raise InvalidRequest(f"the timeout must be above 0, at most {_LONGEST_SECONDS} seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksFile(Wire):
    """The contents of the hooks file: hooks by name."""

    hooks: dict[str, Hook] = field(default_factory=dict)


def read_hooks(path: Path) -> dict[str, Hook]:
    """Return the hooks by name, in the order in which they are asked. Raises BadHooks."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        found = parse_message(HooksFile, json.dumps(values, allow_nan=False).encode())
    except (OSError, ValueError, TypeError, InvalidRequest) as error:
        raise BadHooks(f"cannot use the hooks file {path}: {error}") from None
    ordered = sorted(found.hooks.items(), key=lambda item: (item[1].priority, item[0]))
    return dict(ordered)


# Runs one hook process, and restarts it with growing pauses when it ends.
#
# Each line is one JSON-RPC 2.0 message. Answers may come in any order and are matched by id.

log = logging.getLogger("gateway.policy")

PROTOCOL_VERSION = 1
MAX_LINE = 1_048_576
HELLO_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_GOOD_SECONDS = 30.0  # after such a run, the next pause is the first one again
_STOP_SECONDS = 2.0
_MODES = {
    "before_tool": "tool",
    "after_tool": "tool",
    "approve_tool": "approve",
    "before_llm": "llm",
    "after_llm": "llm",
}
_LOGGED_CHARS = 2_000
# Hooks are not part of the gateway, so they get none of its secrets.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER")


class HookFailed(GatewayError):
    """A hook gave no valid answer. The gateway then allows nothing because of this hook."""

    code = "hook_failed"


class HookProcess:
    """A hook process, which runs while its `running` context is active. It is `ready` when it has
    answered the greeting."""

    def __init__(self, name: str, hook: Hook) -> None:
        self.name = name
        self.hook = hook
        self._process: asyncio.subprocess.Process | None = None
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.ready = asyncio.Event()
        self._leave = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the process running; on exit, end it and all its children."""
        task = asyncio.create_task(self._supervise(), name=f"hook {self.name}")
        try:
            yield
        finally:
            self._leave.set()
            await asyncio.wait({task})

    async def ask(self, method: str, params: JsonObject) -> Any:
        """Call a method of the hook and return the result. Raises HookFailed, at the latest after
        the timeout."""
        try:
            async with asyncio.timeout(self.hook.timeout):
                await self.ready.wait()
                return await self._call(method, params)
        except TimeoutError:
            raise HookFailed(f"the hook {self.name} did not answer in time") from None

    def tell(self, method: str, params: JsonObject) -> None:
        """Send a notification without waiting. It is lost if the hook is down or reads slowly."""
        process = self._process
        if process is None or process.stdin is None or not self.ready.is_set():
            return
        if process.stdin.transport.get_write_buffer_size() < MAX_LINE:
            _write(process.stdin, {"method": method, "params": params})

    @property
    def pid(self) -> int | None:
        """The id of the process while it runs, else None."""
        return self._process.pid if self._process else None

    # ---------------------------------------------------------------- keeping it running

    async def _supervise(self) -> None:
        pause = _FIRST_PAUSE
        loop = asyncio.get_running_loop()
        while not self._leave.is_set():
            began = loop.time()
            try:
                await self._run_once()
            except (OSError, HookFailed) as error:
                log.warning("hook %s: %s", self.name, error, extra={"event": "hook_failed"})
            if loop.time() - began > _GOOD_SECONDS:
                pause = _FIRST_PAUSE
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._leave.wait()
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _run_once(self) -> None:
        """Run the process once, until it ends or the hook is stopped."""
        process = await asyncio.create_subprocess_exec(
            *self.hook.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.hook.dir,
            env=_environment(self.hook),
            limit=MAX_LINE,
            start_new_session=True,
        )
        self._process = process
        reader = asyncio.create_task(self._read(process))
        logger = asyncio.create_task(_log_stderr(self.name, process))
        life = asyncio.create_task(self._life(reader))
        leave = asyncio.create_task(self._leave.wait())
        try:
            await asyncio.wait({life, leave}, return_when=asyncio.FIRST_COMPLETED)
            if not life.done():
                await _asked_to_end(process)
        finally:
            self.ready.clear()
            self._process = None
            _kill(process)
            if process.stdin is not None:
                process.stdin.close()
            await asyncio.wait({reader, logger}, timeout=_STOP_SECONDS)
            await cancel_and_wait(life, leave, reader, logger)
            await process.wait()
        if not life.cancelled():
            life.result()

    async def _life(self, reader: asyncio.Task[None]) -> None:
        await self._greet()
        await reader

    async def _greet(self) -> None:
        wanted = {_MODES[method] for method in self.hook.intercept}
        if self.hook.observe:
            wanted.add("observe")
        hello = {"name": self.name, "version": PROTOCOL_VERSION, "modes": sorted(wanted)}
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                answer = await self._call("hook.hello", hello)
        except TimeoutError:
            raise HookFailed("the hook did not answer hook.hello in time") from None
        if not isinstance(answer, dict) or answer.get("ok") is not True:
            raise HookFailed('the hook did not answer hook.hello with {"ok": true}')
        self.ready.set()

    # ---------------------------------------------------------------- asking

    async def _call(self, method: str, params: JsonObject) -> Any:
        process = self._process
        if process is None or process.stdin is None:
            raise HookFailed(f"the hook {self.name} is not running")
        number = next(self._ids)
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            _write(process.stdin, {"id": number, "method": method, "params": params})
            with suppress(ConnectionError):  # the process has ended, and `_read` reports it
                await process.stdin.drain()
            return await waiting
        finally:
            self._waiting.pop(number, None)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self._take(line)
        except ValueError:
            raise HookFailed(f"the hook wrote a line longer than {MAX_LINE} bytes") from None
        finally:
            self.ready.clear()
            self._fail("it ended")

    def _take(self, line: bytes) -> None:
        """Pass an answer to the call that waits for it. Any other line is logged and ignored."""
        try:
            message = parse(line, max_bytes=MAX_LINE)
        except InvalidRequest as error:
            log.warning("hook %s: %s", self.name, error, extra={"event": "hook_said_nonsense"})
            return
        number = message.get("id") if isinstance(message, dict) else None
        waiting = self._waiting.get(number) if type(number) is int else None
        if waiting is None or waiting.done():
            log.info(
                "hook %s sent an answer that nobody asked for",
                self.name,
                extra={"event": "hook_answer_unwanted"},
            )
            return
        if message.get("jsonrpc") != "2.0" or ("result" in message) == ("error" in message):
            waiting.set_exception(HookFailed(f"the hook {self.name} does not speak JSON-RPC 2.0"))
        elif "error" in message:
            waiting.set_exception(
                HookFailed(f"the hook {self.name} failed: {_read_error(message)}")
            )
        else:
            waiting.set_result(message["result"])

    def _fail(self, why: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(HookFailed(f"the hook {self.name} gave no answer: {why}"))


def _write(stdin: asyncio.StreamWriter, message: JsonObject) -> None:
    text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
    stdin.write(text.encode() + b"\n")


def _environment(hook: Hook) -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | hook.env


def _read_error(message: JsonObject) -> str:
    error = message["error"]
    return start_of(str(error.get("message", error) if isinstance(error, dict) else error), 200)


async def _log_stderr(name: str, process: asyncio.subprocess.Process) -> None:
    """Log everything that the process writes to standard error, so that its pipe never fills."""
    assert process.stderr is not None
    while block := await process.stderr.read(_LOGGED_CHARS):
        text = block.decode(errors="replace").rstrip()
        log.info("hook %s: %s", name, text, extra={"event": "hook_says"})


async def _asked_to_end(process: asyncio.subprocess.Process) -> None:
    """Ask a process to end, and wait a moment for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process and its children, without waiting until they have ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


# The answers of hooks, parsed strictly: an invalid answer is a failure, never an approval.

_MOST_REASON = 2_000
_RESULT_TYPES: dict[str, type | tuple[type, ...]] = {
    "for_llm": str,
    "for_user": str,
    "silent": bool,
    "is_error": bool,
    "async": bool,
    "media": (list, type(None)),
    "artifact_tags": (list, type(None)),
    "response_handled": bool,
}


class HookAction(StrEnum):
    """The action that an intercepting hook requests."""

    CONTINUE = "continue"
    MODIFY = "modify"
    RESPOND = "respond"
    DENY_TOOL = "deny_tool"
    ABORT_TURN = "abort_turn"
    HARD_ABORT = "hard_abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool name and the arguments."""

    tool: str
    arguments: JsonObject

    def same_as(self, other: ToolCall) -> bool:
        """Return whether two calls run the same. Python's `==` would treat 1 and true as equal."""
        mine, theirs = (
            json.dumps([one.tool, one.arguments], sort_keys=True) for one in (self, other)
        )
        return mine == theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """An interceptor's answer: the changed `call` or `body`, a `result` to use instead of the
    tool's, and the `risk` level to raise the request to."""

    action: HookAction
    reason: str = ""
    call: ToolCall | None = None
    result: JsonObject | None = None
    body: JsonObject | None = None
    risk: Risk | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookApproval:
    """An approver's answer to approve_tool."""

    approved: bool
    reason: str = ""
    risk: Risk | None = None


def tool_answer(raw: Any) -> HookReply:
    """Return the answer to before_tool. Raises HookFailed."""
    values = _object(raw)
    action = _action(values)
    call = _call(values["call"]) if values.get("call") is not None else None
    if action is HookAction.MODIFY and call is None:
        raise HookFailed('a hook\'s "modify" needs a "call"')
    result = _result(values.get("result")) if action is HookAction.RESPOND else None
    return HookReply(
        action=action, reason=_reason(values), call=call, result=result, risk=_risk(values)
    )


def other_answer(raw: Any, member: str) -> HookReply:
    """Return the answer to before_llm, after_llm or after_tool, which may change only `member`.
    Raises HookFailed."""
    values = _object(raw)
    action = _action(values)
    if action in (HookAction.RESPOND, HookAction.DENY_TOOL):
        raise HookFailed(f'a hook cannot answer "{action}" here: there is no tool to run')
    body = values.get(member)
    if action is HookAction.MODIFY and not isinstance(body, dict):
        raise HookFailed(f'a hook\'s "modify" needs an object "{member}"')
    changed = body if action is HookAction.MODIFY else None
    return HookReply(action=action, reason=_reason(values), body=changed)


def approval(raw: Any) -> HookApproval:
    """Return the answer to approve_tool. Raises HookFailed unless `approved` is true or false."""
    values = _object(raw)
    if not isinstance(values.get("approved"), bool):
        raise HookFailed('a hook must answer "approved" with true or false')
    return HookApproval(approved=values["approved"], reason=_reason(values), risk=_risk(values))


def _risk(values: JsonObject) -> Risk | None:
    """Return the risk level that a hook raises the request to, or None. Raises HookFailed for an
    unknown level."""
    if values.get("risk") is None:
        return None
    raw = _object(values["risk"])
    level, reasons = raw.get("level"), raw.get("reasons", [])
    if level not in tuple(RiskLevel) or not isinstance(reasons, list):
        raise HookFailed("a hook returned an unknown risk level; use low, medium or high")
    if not all(isinstance(one, str) for one in reasons):
        raise HookFailed("a hook's risk reasons must be strings")
    return Risk(level=RiskLevel(level), reasons=tuple(reasons))


def _object(raw: Any) -> JsonObject:
    if not isinstance(raw, dict):
        raise HookFailed("a hook's answer must be a JSON object")
    return raw


def _action(values: JsonObject) -> HookAction:
    try:
        return HookAction(values.get("action", ""))
    except ValueError:
        raise HookFailed("a hook returned an unknown action") from None


def _call(raw: Any) -> ToolCall:
    values = _object(raw)
    tool, arguments = values.get("tool"), values.get("arguments")
    if not isinstance(tool, str) or not tool or not isinstance(arguments, dict):
        raise HookFailed('a hook\'s "call" needs a "tool" and an object "arguments"')
    return ToolCall(tool=tool, arguments=arguments)


def _result(raw: Any) -> JsonObject:
    values = _object(raw)
    for name, wanted in _RESULT_TYPES.items():
        if name in values and not isinstance(values[name], wanted):
            raise HookFailed(f'a hook\'s result has "{name}" of the wrong type')
    return {name: values[name] for name in _RESULT_TYPES if values.get(name) is not None}


def _reason(values: JsonObject) -> str:
    reason = values.get("reason")
    return start_of(reason, _MOST_REASON) if isinstance(reason, str) else ""


# All hook processes together, asked in their order.

# The member of the parameters that each of these methods may change.
_CHANGES = {"before_llm": "request", "after_llm": "response", "after_tool": "result"}


class Intercepted(NamedTuple):
    """A call as hooks changed it, the last answer with its hook, and the risks that hooks raised,
    each with the hook's name."""

    call: ToolCall
    answer: HookReply
    by: str
    risks: tuple[tuple[str, Risk], ...]


class HookHost:
    """Runs the processes of a hooks file, and asks them."""

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        self._hooks = [HookProcess(name, hook) for name, hook in hooks.items()]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep all processes running."""
        async with AsyncExitStack() as stack:
            for hook in self._hooks:
                await stack.enter_async_context(hook.running())
            yield

    def list_interceptors(self, method: str) -> Sequence[HookProcess]:
        """Return the hooks that intercept a method, in the order in which they are asked."""
        return [one for one in self._hooks if method in one.hook.intercept]

    @property
    def slowest(self) -> float:
        """The longest time that the hooks may take for one call, in seconds."""
        one_by_one = sum(one.hook.timeout for one in self.list_interceptors("before_tool"))
        together = [one.hook.timeout for one in self.list_interceptors("approve_tool")]
        return one_by_one + max(together, default=0.0) + 1.0

    async def before_tool(self, call: ToolCall, about: JsonObject) -> Intercepted:
        """Ask the hooks one after another; each gets the call as the previous hook left it. Raises
        HookFailed if a hook gives no answer, because it could have denied the call."""
        answer, by = HookReply(action=HookAction.CONTINUE), ""
        risks: list[tuple[str, Risk]] = []
        for hook in self.list_interceptors("before_tool"):
            params = {**about, "tool": call.tool, "arguments": call.arguments}
            found = tool_answer(await hook.ask("hook.before_tool", params))
            risks += [(hook.name, found.risk)] if found.risk else []
            if found.action is HookAction.CONTINUE:
                continue
            if found.action is HookAction.RESPOND and not hook.hook.may_respond:
                raise HookFailed(f"the hook {hook.name} responds, but its may_respond is not set")
            answer, by = found, hook.name
            if found.action is not HookAction.MODIFY or found.call is None:
                break
            call = found.call
        return Intercepted(call, answer, by, tuple(risks))

    async def approve_tool(
        self, call: ToolCall, about: JsonObject
    ) -> list[tuple[str, HookApproval]]:
        """Ask all approvers at the same time; return their answers. Raises HookFailed if an
        approver gives no answer, unless another one denies the call."""
        hooks = self.list_interceptors("approve_tool")
        params = {**about, "tool": call.tool, "arguments": call.arguments}
        raw = await asyncio.gather(
            *(hook.ask("hook.approve_tool", params) for hook in hooks), return_exceptions=True
        )
        found: list[tuple[str, HookApproval]] = []
        failures: list[BaseException] = []
        for hook, answer in zip(hooks, raw, strict=True):
            try:
                found.append((hook.name, approval(_raise_error(answer))))
            except HookFailed as failure:
                failures.append(failure)
        if failures and all(one.approved for _, one in found):
            raise failures[0]
        return found

    def allows(self) -> bool:
        """Return whether there are approvers and each of them has `may_allow`."""
        hooks = self.list_interceptors("approve_tool")
        return bool(hooks) and all(hook.hook.may_allow for hook in hooks)

    async def intercept(self, method: str, params: JsonObject) -> HookReply:
        """Ask the hooks about before_llm, after_llm or after_tool. Return the last change, or an
        abort.

        No decision depends on these methods, so a hook that fails is skipped.
        """
        member = _CHANGES[method]
        last = HookReply(action=HookAction.CONTINUE)
        for hook in self.list_interceptors(method):
            try:
                found = other_answer(await hook.ask(f"hook.{method}", params), member)
            except HookFailed:
                continue
            if found.action in (HookAction.ABORT_TURN, HookAction.HARD_ABORT):
                return found
            if found.body is not None:
                # A request's members are at the top, a response or result is under its name.
                changed = found.body if method == "before_llm" else {member: found.body}
                params = {**params, **changed}
                last = replace(found, body={**(last.body or {}), **changed})
        return last

    async def review_message(
        self, method: str, params: JsonObject
    ) -> tuple[str, str, JsonObject | None]:
        """Return the hooks' answer to an agent's message: the action, the reason and the changed
        members."""
        answer = await self.intercept(method, params)
        return answer.action.value, answer.reason, answer.body

    def tell(self, kind: str, event: JsonObject) -> None:
        """Send an event to the observers of its kind, without waiting."""
        for hook in self._hooks:
            if "*" in hook.hook.observe or kind in hook.hook.observe:
                hook.tell("hook.event", event)


def host_hooks(path: Path | None) -> HookHost:
    """Return a HookHost for the hooks file, or one without hooks if there is no file. Raises
    BadHooks."""
    return HookHost({} if path is None else read_hooks(path))


def _raise_error(answer: Any) -> Any:
    if isinstance(answer, BaseException):
        raise answer
    return answer


_ABORTS = {HookAction.ABORT_TURN: "turn", HookAction.HARD_ABORT: "agent"}


class HookLink:
    """Asks hooks about a request: first the hooks that may change it, then all approvers.

    If a hook fails, no lower decider may allow the request: people decide.
    """

    name = "hooks"
    priority = HOOKS_PRIORITY
    after_storing = True  # it may take a while

    def __init__(self, host: HookHost) -> None:
        self._host = host
        self.seconds = host.slowest

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Return the hooks' verdict and the risk that they raise; None for a form."""
        request = record.request
        if request.questions:
            return None
        call = ToolCall(tool=request.tool, arguments=record.arguments)
        about = about_request(request)
        risks: tuple[tuple[str, Risk], ...] = ()
        # A hook's change is not changed again, only approved or refused.
        if record.edited is None:
            changed, answer, by, risks = await self._host.before_tool(call, about)
            unchanged = answer.action is HookAction.MODIFY and changed.same_as(call)
            if answer.action is not HookAction.CONTINUE and not unchanged:
                return _raise_risk(_to_verdict(call, changed, answer, by), risks)
        answers = await self._host.approve_tool(call, about)
        risks += tuple((name, one.risk) for name, one in answers if one.risk)
        refused = next((one for one in answers if not one[1].approved), None)
        if refused is not None:
            return _raise_risk(_verdict(DENY, refused[0], refused[1].reason), risks)
        allows = bool(answers) and self._host.allows()
        names = ", ".join(name for name, _ in answers)
        return _raise_risk(_verdict(ALLOW if allows else CONTINUE, names, ""), risks)


def links(host: HookHost) -> list[HookLink]:
    """Return the decider for the hooks that review calls, in a list; the list is empty if no hook
    does."""
    judges = host.list_interceptors("before_tool") or host.list_interceptors("approve_tool")
    return [HookLink(host)] if judges else []


def about_request(request: ApprovalRequest) -> JsonObject:
    """Return the members that hooks get about a request, in addition to its call."""
    origin = request.origin
    inbound = {
        "channel": origin.channel or "",
        "chat_id": origin.chat or "",
        "sender_id": origin.sender or "",
    }
    told: JsonObject = {} if request.payload is None else {"payload": request.payload}
    return told | {
        "meta": meta_of(request),
        "context": {"inbound": inbound, "route": {}, "scope": {}},
        "channel": inbound["channel"],
        "chat_id": inbound["chat_id"],
    }


def meta_of(request: ApprovalRequest) -> JsonObject:
    """Return the members that describe to hooks where a request comes from."""
    return {
        "AgentID": request.agent,
        "TurnID": request.turn or "",
        "ParentTurnID": "",
        "SessionKey": request.session,
        "Iteration": 0,
        "TracePath": request.id,
        "Source": "approval-gateway",
    }


def _raise_risk(verdict: Verdict, risks: Iterable[tuple[str, Risk]]) -> Verdict:
    """Return a verdict with the risks that the hooks raised, each under the hook's name."""
    raised = (
        RaisedRisk(decider=HookLink.name, by=f"hook {name}", level=one.level, reasons=one.reasons)
        for name, one in risks
    )
    return replace(verdict, raised=tuple(raised))


def _to_verdict(call: ToolCall, changed: ToolCall, answer: HookReply, by: str) -> Verdict:
    if answer.action is HookAction.DENY_TOOL:
        return _verdict(DENY, by, answer.reason)
    if answer.action in _ABORTS:
        return _verdict(DENY, by, answer.reason, abort=_ABORTS[answer.action])
    if answer.action is HookAction.RESPOND:
        return _verdict(RESPOND, by, answer.reason, result=answer.result)
    if changed.tool != call.tool:
        # The agent can only run the tool that it asked for; it must request the other one.
        return _verdict(DENY, by, answer.reason or f"call {changed.tool} instead")
    return _verdict(MODIFY, by, answer.reason, arguments=changed.arguments)


def _verdict(
    effect: str,
    by: str,
    message: str,
    *,
    abort: str | None = None,
    arguments: JsonObject | None = None,
    result: JsonObject | None = None,
) -> Verdict:
    return Verdict(
        effect=effect,
        by=DecidedBy(kind=DeciderKind.RULE, name=by),
        reason=Reason.HOOK,
        message=message,
        abort=abort,
        arguments=arguments,
        result=result,
    )
