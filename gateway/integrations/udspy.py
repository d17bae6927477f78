"""udspy asks people: what raises ConfirmationRequired is answered by the gateway, and goes on.

udspy has no way to resume an agent since 0.1.3. `forward` runs an agent's loop to its end: a call
that needs an answer runs with the arguments that were approved, and what came of it is what the
model is told, without having it repeat the call. `call` does the same for one function.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from udspy import ConfirmationRejected, ConfirmationRequired
from udspy.confirmation import clear_confirmation, respond_to_confirmation

from gateway.client import Client, Outcome, OutcomeKind
from gateway.client.blocking import current_client
from gateway.errors import GatewayError
from gateway.models import Action, ApprovalRequest, Kind, Origin, Question, Reason

_MOST_ROUNDS = 20
_ORIGIN = Origin(framework="udspy")


class Refused(ConfirmationRejected):  # type: ignore[misc]  # its types are the host's
    """A call that was not approved: udspy's own exception, with how the request ended."""

    def __init__(self, outcome: Outcome, required: ConfirmationRequired) -> None:
        super().__init__(
            outcome.message,
            confirmation_id=required.confirmation_id,
            tool_call=required.tool_call,
        )
        self.outcome = outcome


async def forward(agent: Any, *, client: Client | None = None, **inputs: Any) -> Any:
    """Run a ReAct agent on these inputs, as its `aforward` does, and have people answer it.

    A denial is an observation, in the person's words. Raises Refused where a person aborts.
    """
    asking, trajectory, answered = client or current_client(), None, set[str]()
    try:
        for _ in range(_MOST_ROUNDS * agent.max_iters):
            try:
                return await agent.aexecute(**inputs, _trajectory=trajectory)
            except ConfirmationRequired as required:
                trajectory = list(required.context["trajectory"])
                step = await _observe(agent, required, asking)
                if step is None:  # it came from within a tool, which the model calls again
                    await confirm(required, client=asking)
                    answered.add(required.confirmation_id)
                else:
                    trajectory.append(step)
    finally:
        for confirmation_id in answered:
            clear_confirmation(confirmation_id)
    raise GatewayError("the agent asks for ever: its calls are never the same twice")


async def call(
    function: Callable[..., Any], /, *args: Any, client: Client | None = None, **kwargs: Any
) -> Any:
    """Call a function or coroutine function that may raise ConfirmationRequired, once approved.

    With an edit the approved arguments run; a person's result is returned in place of a run. Raises
    Refused without an approval. Whatever becomes of it, no answer stays behind in this context.
    """
    asking = client or current_client()
    given: dict[str, dict[str, Any] | None] = {}
    try:
        for _ in range(_MOST_ROUNDS):
            for confirmation_id, data in given.items():  # a tool takes its own before it runs
                respond_to_confirmation(confirmation_id, data=data)
            try:
                result = function(*args, **kwargs)
                return await result if asyncio.iscoroutine(result) else result
            except ConfirmationRequired as required:
                if required.confirmation_id in given:
                    raise GatewayError("it asks again for what was approved") from None
                outcome = await confirm(required, client=asking)
                given[required.confirmation_id] = _data(outcome)
                if outcome.kind is OutcomeKind.RESPONDED:
                    return outcome.result
                if not _goes_on(outcome):
                    raise Refused(outcome, required) from None
    finally:
        for confirmation_id in given:
            clear_confirmation(confirmation_id)
    raise GatewayError("it asks for ever")


def call_blocking(
    function: Callable[..., Any], /, *args: Any, client: Client | None = None, **kwargs: Any
) -> Any:
    """Call a plain function as `call` does, and block this thread meanwhile."""
    return asyncio.run(call(function, *args, client=client, **kwargs))


async def confirm(required: ConfirmationRequired, *, client: Client | None = None) -> Outcome:
    """Ask a person what udspy wants confirmed, and give udspy the answer in this context.

    A call becomes approved, edited, rejected, or with words for another plan `feedback`; a question
    is answered. What is no answer rejects it.
    """
    asking = client or current_client()
    outcome = await asking.run_on_loop(asking.inner.outcome(_make_request(required, asking)))
    if outcome.kind is OutcomeKind.EDITED and not outcome.arguments:  # to udspy that is no edit
        message = "an edit that leaves no arguments cannot be run by udspy"
        outcome = Outcome(kind=OutcomeKind.DENIED, message=message)
    respond_to_confirmation(
        required.confirmation_id, _goes_on(outcome), _data(outcome), _status(outcome)
    )
    return outcome


def _goes_on(outcome: Outcome) -> bool:
    return outcome.runs or outcome.kind is OutcomeKind.ANSWERED


def _make_request(required: ConfirmationRequired, client: Client) -> ApprovalRequest:
    if required.tool_call is None:
        return client.request(
            "question",
            {"question": required.question},
            kind=Kind.QUESTION,
            questions=(Question(id="answer", text=required.question),),
            allowed=(Action.ANSWER, Action.DENY, Action.ABORT),
            origin=_ORIGIN,
        )
    return client.request(
        required.tool_call.name,
        required.tool_call.args,
        origin=Origin(framework="udspy", tool_call_id=required.tool_call.call_id),
        allowed=(Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT),
    )


def _data(outcome: Outcome) -> dict[str, Any] | None:
    """Return what udspy keeps beside an approval: edited arguments, or the answers."""
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


async def _observe(agent: Any, required: ConfirmationRequired, client: Client) -> Any:
    """Return the step of an agent's call once it was answered; None where a tool's inside asks."""
    if required.tool_call is None:
        outcome = await confirm(required, client=client)
        clear_confirmation(required.confirmation_id)
        if outcome.kind is OutcomeKind.ANSWERED:
            return _step(None, None, str(outcome.result["answer"]))
        return _step(None, None, _tell_refusal(outcome, required))
    name, arguments = required.tool_call.name, required.tool_call.args
    tool = agent.tools.get(name)
    if tool is None or not tool.require_confirmation:
        return None
    try:
        observation = str(await call(tool.acall, client=client, **arguments))
    except Refused as refusal:
        observation = _tell_refusal(refusal.outcome, required)
    except GatewayError:
        raise
    except Exception as error:  # of the tool: the model is told, as udspy does
        observation = f"{name} failed: {type(error).__name__}: {error}"
    return _step(name, arguments, observation)


def _tell_refusal(outcome: Outcome, required: ConfirmationRequired) -> str:
    """Return what the model is told. Raises Refused where a person aborts."""
    if outcome.abort:
        raise Refused(outcome, required)
    return outcome.message


def _step(name: str | None, arguments: dict[str, Any] | None, observation: str) -> dict[str, Any]:
    return {"thought": "", "tool_name": name, "tool_args": arguments, "observation": observation}
