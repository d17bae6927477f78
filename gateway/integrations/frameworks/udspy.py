"""udspy: answer a ConfirmationRequired through the gateway, and continue. Start at `forward`.

Since 0.1.3 udspy cannot resume an agent. So `forward` runs the agent's loop to its end. A call runs
with the approved arguments, and the model gets the result without repeating the call. `call` asks
about one function call in the same way. `begin` and `resume` do not wait. Another process can load
the value that `begin` returns, and `resume`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from udspy import ConfirmationRejected, ConfirmationRequired, ToolCall
from udspy.confirmation import clear_confirmation, respond_to_confirmation

from gateway.client import Client, Outcome, OutcomeKind
from gateway.client.approval import outcome_of
from gateway.client.blocking_client import current_client
from gateway.errors import GatewayError
from gateway.integrations.frameworks.calls import new_session, session_of_run
from gateway.models import Action, ApprovalRequest, Kind, Origin, Question, Reason

_MOST_ROUNDS = 20
_PROCESS = new_session()
_ORIGIN = Origin(framework="udspy")


class Refused(ConfirmationRejected):  # type: ignore[misc]  # its types are the host's
    """A call was not approved: udspy's own exception, with the `outcome` of the request."""

    def __init__(self, outcome: Outcome, required: ConfirmationRequired) -> None:
        super().__init__(
            outcome.message,
            confirmation_id=required.confirmation_id,
            tool_call=required.tool_call,
        )
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Suspended:
    """An agent that waits for a person: the request's id, its inputs, and its steps so far.

    Its fields are plain JSON if the inputs are. The request itself is stored only in the gateway.
    """

    request_id: str
    inputs: dict[str, Any]
    trajectory: list[dict[str, Any]]


async def forward(agent: Any, *, client: Client | None = None, **inputs: Any) -> Any:
    """Run a ReAct agent on `inputs` as its `aforward` does, and let people decide its calls.

    A denial becomes an observation for the model. Raises Refused if a person aborts.
    """
    asking, trajectory, answered = client or current_client("udspy"), None, set[str]()
    name = session_of_run()
    try:
        for _ in range(_MOST_ROUNDS * agent.max_iters):
            try:
                return await agent.aexecute(**inputs, _trajectory=trajectory)
            except ConfirmationRequired as required:
                trajectory = list(required.context["trajectory"])
                if _comes_from_within(agent, required):  # the model calls the tool again
                    await confirm(required, client=asking, session=name)
                    answered.add(required.confirmation_id)
                else:
                    ask = partial(confirm, client=asking, session=name)
                    trajectory.append(await _observe(agent, required, ask))
    finally:
        for confirmation_id in answered:
            clear_confirmation(confirmation_id)
    raise GatewayError("stopped the agent: it asked too often without making progress")


async def begin(agent: Any, *, client: Client | None = None, **inputs: Any) -> Any:
    """Run a ReAct agent until it needs people. Return its prediction, or a Suspended for `resume`.

    Raises GatewayError if a tool asks while it runs, because no other process could continue that
    tool.
    """
    return await _advance(agent, client or current_client("udspy"), inputs, None, session_of_run())


async def resume(
    agent: Any, suspended: Suspended, *, client: Client | None = None, timeout: float = 0.0
) -> Any:
    """Continue an agent in any process. Return its prediction, or a Suspended for `resume`.

    The call runs once, with the arguments that the gateway stores. If there is no decision within
    `timeout` seconds, returns the given Suspended. Raises as `begin` does, and Refused if a person
    aborts.
    """
    asking = client or current_client("udspy")
    state = await asking.run_on_loop(asking.inner.fetch(suspended.request_id))
    assert state.record is not None  # `fetch` checks that
    request = state.record.request
    waiting = asking.inner.wait_id(request.id, timeout=timeout)
    outcome = await asking.run_on_loop(outcome_of(waiting))
    if outcome.kind is OutcomeKind.PENDING:
        return suspended
    required = ConfirmationRequired(request.arguments.get("question", ""))
    if request.kind is not Kind.QUESTION:
        required.tool_call = ToolCall(
            call_id=request.origin.tool_call_id, name=request.tool, args=dict(request.arguments)
        )

    async def answer(again: ConfirmationRequired) -> Outcome:
        return _tell_udspy(again, outcome)

    trajectory = [*suspended.trajectory, await _observe(agent, required, answer)]
    return await _advance(agent, asking, suspended.inputs, trajectory, request.session)


async def call(
    function: Callable[..., Any], /, *args: Any, client: Client | None = None, **kwargs: Any
) -> Any:
    """Call a function or coroutine function that may raise ConfirmationRequired, and ask people.

    After an edit, the function runs with the edited arguments. If a person gives a result, returns
    the result, and nothing runs. Raises Refused without an approval. Leaves no confirmation in this
    context.
    """
    ask = partial(confirm, client=client or current_client("udspy"))
    return await _call_once_approved(partial(function, *args, **kwargs), ask)


def call_blocking(
    function: Callable[..., Any], /, *args: Any, client: Client | None = None, **kwargs: Any
) -> Any:
    """Call a plain function as `call` does, and block this thread."""
    return asyncio.run(call(function, *args, client=client, **kwargs))


async def confirm(
    required: ConfirmationRequired, *, client: Client | None = None, session: str | None = None
) -> Outcome:
    """Ask a person for a confirmation, pass the decision to udspy, and return the outcome.

    In udspy a call becomes approved, edited, rejected, or `feedback` if the person asks for another
    plan. For a question, the tool's result is the person's answer. Without a decision, the call is
    rejected. `session` is by default the context's session, else a session of this process.
    """
    asking = client or current_client("udspy")
    request = _make_request(required, asking, session or session_of_run(_PROCESS))
    asked = asking.inner.outcome(request)
    return _tell_udspy(required, await asking.run_on_loop(asked))


async def _advance(
    agent: Any,
    client: Client,
    inputs: dict[str, Any],
    trajectory: list[dict[str, Any]] | None,
    session: str,
) -> Any:
    """Run an agent to its prediction, or submit its request and return a Suspended."""
    try:
        return await agent.aexecute(**inputs, _trajectory=trajectory)
    except ConfirmationRequired as required:
        if _comes_from_within(agent, required):
            raise GatewayError(
                "a tool of this agent asks while it runs, so `begin` cannot be used: use `forward`"
            ) from None
        request = _make_request(required, client, session)
        await client.run_on_loop(client.inner.submit(request))
        client.inner.say_where(request)
        return Suspended(request.id, inputs, list(required.context["trajectory"]))


async def _call_once_approved(
    run: Callable[[], Any], ask: Callable[[ConfirmationRequired], Awaitable[Outcome]]
) -> Any:
    """Call a function again with each decision until it runs. See `call`."""
    given: dict[str, dict[str, Any] | None] = {}
    try:
        for _ in range(_MOST_ROUNDS):
            for confirmation_id, data in given.items():  # each run uses up its answer
                respond_to_confirmation(confirmation_id, data=data)
            try:
                result = run()
                return await result if asyncio.iscoroutine(result) else result
            except ConfirmationRequired as required:
                if required.confirmation_id in given:
                    raise GatewayError("the function asks again about an approved call") from None
                outcome = await ask(required)
                given[required.confirmation_id] = _data(outcome)
                if outcome.kind is OutcomeKind.RESPONDED:
                    return outcome.result
                if not _goes_on(outcome):
                    raise Refused(outcome, required) from None
    finally:
        for confirmation_id in given:
            clear_confirmation(confirmation_id)
    raise GatewayError("stopped the function: it asked too often")


def _tell_udspy(required: ConfirmationRequired, outcome: Outcome) -> Outcome:
    """Pass a decision to udspy in this context, and return the resulting outcome."""
    if outcome.kind is OutcomeKind.EDITED and not outcome.arguments:  # udspy would ignore this
        message = "an edit that leaves no arguments cannot be run by udspy"
        outcome = Outcome(kind=OutcomeKind.DENIED, message=message)
    respond_to_confirmation(
        required.confirmation_id, _goes_on(outcome), _data(outcome), _status(outcome)
    )
    return outcome


def _goes_on(outcome: Outcome) -> bool:
    return outcome.runs or outcome.kind is OutcomeKind.ANSWERED


def _make_request(required: ConfirmationRequired, client: Client, session: str) -> ApprovalRequest:
    if required.tool_call is None:
        return client.request(
            "question",
            {"question": required.question},
            kind=Kind.QUESTION,
            questions=(Question(id="answer", text=required.question),),
            allowed=(Action.ANSWER, Action.DENY, Action.ABORT),
            origin=_ORIGIN,
            session=session,
        )
    return client.request(
        required.tool_call.name,
        required.tool_call.args,
        origin=Origin(framework="udspy", tool_call_id=required.tool_call.call_id),
        session=session,
        allowed=(Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT),
    )


def _data(outcome: Outcome) -> dict[str, Any] | None:
    """Return the data that udspy stores with an approval: edited arguments, or the answers."""
    if outcome.kind is OutcomeKind.EDITED:
        return outcome.arguments
    return outcome.result if outcome.kind is OutcomeKind.ANSWERED else None


def _status(outcome: Outcome) -> Any:
    if outcome.kind is OutcomeKind.EDITED:
        return "edited"
    if _goes_on(outcome):
        return "approved"
    planned = outcome.decision is not None and outcome.decision.reason is Reason.FEEDBACK
    return "feedback" if planned else "rejected"


def _comes_from_within(agent: Any, required: ConfirmationRequired) -> bool:
    """Return whether the running tool asks, instead of the agent before it calls the tool."""
    if required.tool_call is None:
        return False
    tool = agent.tools.get(required.tool_call.name)
    return tool is None or not tool.require_confirmation


async def _observe(
    agent: Any,
    required: ConfirmationRequired,
    ask: Callable[[ConfirmationRequired], Awaitable[Outcome]],
) -> dict[str, Any]:
    """Return an agent's step for a call or question, with the observation after the decision."""
    if required.tool_call is None:
        outcome = await ask(required)
        clear_confirmation(required.confirmation_id)
        if outcome.kind is OutcomeKind.ANSWERED:
            return _step(None, None, str(outcome.result["answer"]))
        return _step(None, None, _tell_refusal(outcome, required))
    name, arguments = required.tool_call.name, required.tool_call.args
    try:
        run = partial(agent.tools[name].acall, **arguments)
        observation = str(await _call_once_approved(run, ask))
    except Refused as refusal:
        observation = _tell_refusal(refusal.outcome, required)
    except GatewayError:
        raise
    except Exception as error:  # an error of the tool, which the model gets as in udspy
        observation = f"{name} failed: {type(error).__name__}: {error}"
    return _step(name, arguments, observation)


def _tell_refusal(outcome: Outcome, required: ConfirmationRequired) -> str:
    """Return the text for the model. Raises Refused if a person aborts."""
    if outcome.abort:
        raise Refused(outcome, required)
    return outcome.message


def _step(name: str | None, arguments: dict[str, Any] | None, observation: str) -> dict[str, Any]:
    return {"thought": "", "tool_name": name, "tool_args": arguments, "observation": observation}
