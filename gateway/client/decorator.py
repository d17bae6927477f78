"""Gates functions: a call runs only after approval, with exactly the approved arguments."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast, overload

from gateway.client.approval import Approval
from gateway.client.ask_inside_tool import enter_tool
from gateway.client.blocking import Client, current_client
from gateway.client.client import log_report_failure
from gateway.client.gate import (
    ALLOWED,
    RAISE,
    Gate,
    Hint,
    Replan,
    ReplanRounds,
    Serialize,
    Where,
    Words,
    gate_for,
)
from gateway.errors import GatewayError
from gateway.models import Action, Execution, Kind, Origin, Preview, Risk
from gateway.wire.codec import JsonObject

P = ParamSpec("P")
R = TypeVar("R")


@overload
def requires_approval(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def requires_approval(
    *,
    tool: str | None = None,
    kind: Kind = Kind.TOOL,
    when: Callable[..., bool] | None = None,
    hint: Hint | None = None,
    risk: Risk | None = None,
    timeout: float | None = None,
    allowed: tuple[Action, ...] = ALLOWED,
    serialize: Serialize | None = None,
    files: Sequence[str] = (),
    context: Where | None = None,
    arguments: Mapping[str, str] | None = None,
    harmless: bool = False,
    human: bool = False,
    read_only: bool = False,
    call_id: Words | None = None,
    part: Words | None = None,
    turn: Words | None = None,
    origin: Origin | Callable[..., Origin] | None = None,
    preview: Preview | Callable[..., Preview] | None = None,
    payload: JsonObject | Callable[..., JsonObject] | None = None,
    on_denied: str = RAISE,
    replan: Replan | None = None,
    max_rounds: int = 3,
    client: Client | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def requires_approval(function: Callable[P, R] | None = None, /, **options: Any) -> Any:
    """Run a function only after approval; for `def` and `async def`.

    The approver sees every argument by name, also positional and default ones.

    `when` is called with the arguments and says whether this call needs approval. `hint` is the
    reason, by default the docstring's first line. `timeout` is in seconds, by
    default that of the gateway's route. An edit changes the
    arguments that run, within the function's signature; `respond` returns the given result instead
    of running. `serialize` turns arguments that are not JSON into JSON to show; nobody can edit
    that, and the values run only if they still serialize to the same. `files` names arguments that
    are paths: nothing runs when such a file, or a link on the way to it, has changed. `context`
    is where the function works: a Context, or a function of the arguments that returns one; without
    it, this process's folder and host. `arguments` say what arguments are to the tool, by name or
    address: `{"edits[].text": "data"}`, in the words of `gateway.wire.roles.Role`. `harmless` says
    that nothing the function does needs asking. Both change only what people may have remembered,
    and widen that only where the gateway's policy trusts this agent's declarations.
    `read_only` says that it changes nothing, which only a rule of the policy may make use of.
    `call_id`, `part`, `turn`, `origin`, `preview` and `payload` are those of `client.request`, or
    functions of the arguments that return them. With `on_denied="return"` a call that is not
    approved returns its `Outcome` instead of raising.
    `human` demands that a person answers: nothing that was remembered, and no mode or rule,
    approves the call. When a person denies with feedback, `replan(arguments, feedback)` may return
    other arguments to ask with, for at most `max_rounds` requests. The client is `client`, else the
    context's, else the one that the environment describes.

    Raises what `AsyncClient.ask` raises, and InvalidRequest for arguments or an edit that do not
    fit; the function has not run then.
    """
    if function is not None:
        return _gate_function(function)
    return lambda wrapped: _gate_function(wrapped, **options)


def _gate_function(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    gate = gate_for(function, options)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Gate, JsonObject]:
        own, rest = (gate.bind_to(args[0]), args[1:]) if gate.is_method and args else (gate, args)
        return own, own.bind(rest, kwargs)

    if gate.is_async:

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            own, arguments = bind(args, kwargs)
            return await (
                _run(own, arguments) if own.needs_approval(arguments) else own.call(arguments)
            )

        call_async.__gate__ = gate  # type: ignore[attr-defined]
        return call_async

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        own, arguments = bind(args, kwargs)
        return (
            _run_blocking(own, arguments) if own.needs_approval(arguments) else own.call(arguments)
        )

    call.__gate__ = gate  # type: ignore[attr-defined]
    return call


async def _run(gate: Gate, arguments: JsonObject) -> Any:
    client = gate.client or current_client()
    rounds = ReplanRounds(gate, arguments)
    while True:
        request = gate.request(client, rounds.arguments)
        try:
            approval = await client.run_on_loop(client.inner.send(request))
            break
        except GatewayError as refusal:
            if not rounds.replans(refusal):
                return gate.refuse(refusal)
    return await run_approved_async(gate, client, approval, rounds.arguments)


def _run_blocking(gate: Gate, arguments: JsonObject) -> Any:
    client = gate.client or current_client()
    rounds = ReplanRounds(gate, arguments)
    while True:
        request = gate.request(client, rounds.arguments)
        try:
            approval = client.send(request)
            break
        except GatewayError as refusal:
            if not rounds.replans(refusal):
                return gate.refuse(refusal)
    return run_approved(gate, client, approval, rounds.arguments)


async def run_approved_async(
    gate: Gate, client: Client, approval: Approval, arguments: JsonObject | None
) -> Any:
    """Run an approved coroutine function and report the outcome. See `run_approved`."""

    async def report(execution: Execution, **how: Any) -> None:
        with log_report_failure():
            await client.run_on_loop(client.inner.report(approval.request, execution, **how))

    if approval.decision.action is Action.RESPOND:
        await report(Execution.SKIPPED)
        return approval.decision.result
    try:
        values = gate.arguments_to_run(approval, arguments)
    except GatewayError as error:
        await report(Execution.SKIPPED, detail=type(error).__name__)
        return gate.refuse(error)
    await report(Execution.STARTED)
    began = time.monotonic()
    try:
        with enter_tool(gate.tool, client, gate.place_of(approval.request)):
            result = await cast(Awaitable[Any], gate.call(values))
    except BaseException as error:
        await report(Execution.FAILED, **_describe_run(began, error))
        raise
    await report(Execution.SUCCEEDED, **_describe_run(began))
    return result


def run_approved(
    gate: Gate, client: Client, approval: Approval, arguments: JsonObject | None
) -> Any:
    """Run an approved call and report the outcome.

    `arguments` are the values in this process, None where another process made the request.
    """
    request, report = approval.request, client.report
    if approval.decision.action is Action.RESPOND:
        report(request, Execution.SKIPPED)
        return approval.decision.result
    try:
        values = gate.arguments_to_run(approval, arguments)
    except GatewayError as error:
        report(request, Execution.SKIPPED, detail=type(error).__name__)
        return gate.refuse(error)
    report(request, Execution.STARTED)
    began = time.monotonic()
    try:
        with enter_tool(gate.tool, client, gate.place_of(approval.request)):
            result = gate.call(values)
    except BaseException as error:
        report(request, Execution.FAILED, **_describe_run(began, error))
        raise
    report(request, Execution.SUCCEEDED, **_describe_run(began))
    return result


def _describe_run(began: float, error: BaseException | None = None) -> dict[str, Any]:
    duration = int((time.monotonic() - began) * 1000)
    return {"duration_ms": duration, "detail": type(error).__name__ if error else ""}
