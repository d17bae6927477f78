"""Microsoft's agent-framework: gate tool calls. Start at `ask_people` or `FunctionApprovals`."""

from __future__ import annotations

from typing import Any

from gateway.client import Client, Outcome
from gateway.errors import GatewayError
from gateway.integrations.frameworks.calls import (
    ALONE,
    AT_ONCE,
    UNEDITED,
    FrameworkCall,
    FrameworkGate,
    PausedRun,
    Turn,
    TurnGate,
    tell,
)


def ask_people(*, client: Client | None = None, **details: Any) -> Any:
    """Return the middleware for `Agent(middleware=[…])`. `details` are keywords of
    `client.request`. The calls of one turn form one batch. If a person aborts, or the gateway
    rejects the request, the run ends with `MiddlewareFailure`."""
    from agent_framework import function_middleware  # noqa: PLC0415 (the vendor)

    gate = TurnGate(FrameworkGate("agent-framework-core", client, details))

    @function_middleware  # type: ignore[untyped-decorator]  # the framework's
    async def ask(context: Any, call_next: Any) -> None:
        from agent_framework import MiddlewareFailure  # noqa: PLC0415 (the vendor)

        name = context.function.name
        call = FrameworkCall(
            tool=name, arguments=dict(context.arguments), call_id=context.metadata.get("call_id")
        )
        session = getattr(context.session, "session_id", None)
        try:
            outcome = await gate.ask(call, _find_turn(context), session)
        except GatewayError as error:  # other exceptions reach only the model, which goes on
            raise MiddlewareFailure(str(error)) from error
        if not outcome.runs:
            context.result = tell(name, outcome)
            return
        context.arguments = outcome.arguments
        await call_next()

    return ask


def _find_turn(context: Any) -> Turn:
    """Return the turn of a call. A turn is recognised by its run's list of tools, because a run
    starts all calls of a turn at once."""
    return ALONE if context.tools is None else Turn(id(context.tools), AT_ONCE)


# Runs that pause for approvals (tools with `approval_mode="always_require"`).
#
# The framework rejects a call with fixed words. So it always gets the answer "approved". Then a
# middleware of the same run lets approved calls run, and tells the model why others do not. Changed
# arguments would need a new approval, so nobody can edit them.

_Answers = dict[str, tuple[FrameworkCall, Outcome]]
"""The calls that people decided, with their outcomes, by the framework's id of the call."""


class FunctionApprovals:
    """Let people decide approvals for which a run pauses, and continue the run in any process.
    `details` are keywords of `client.request`.

    If a person aborts, the run raises Aborted. Other refusals are passed to the model.
    """

    def __init__(self, *, client: Client | None = None, **details: Any) -> None:
        self._gate = FrameworkGate("agent-framework-core", client, details)

    async def begin(self, agent: Any, given: Any, **run: Any) -> Any:
        """Run an agent until it needs people. Return its response, or a PausedRun for `resume`.

        `run` are keywords of `agent.run`. Without a `session`, the run gets a new session.
        """
        session = run.pop("session", None) or agent.create_session()
        return await self._run(agent, given, session, {}, 0.0, run)

    async def resume(
        self, agent: Any, paused: PausedRun, *, timeout: float = 0.0, **run: Any
    ) -> Any:
        """Continue a run in any process. Return its response, or a PausedRun if a decision is
        missing after `timeout` seconds. Raises Aborted if a person aborts the run."""
        from agent_framework import AgentSession, Content  # noqa: PLC0415 (the vendor)

        session = AgentSession.from_dict(paused.state["session"])
        waiting = [Content.from_dict(one) for one in paused.state["requests"]]
        if not waiting:
            raise GatewayError("this run has no pending approvals")
        return await self._settle(agent, session, waiting, timeout, run)

    async def _run(
        self, agent: Any, given: Any, session: Any, answers: _Answers, timeout: float, run: Any
    ) -> Any:
        from agent_framework import Agent  # noqa: PLC0415 (the vendor)

        if not isinstance(agent, Agent):  # another class may ignore the middleware of a run
            raise GatewayError(f"{type(agent).__name__} is not an Agent of agent-framework")
        middleware = [*(run.get("middleware") or ()), _let_pass(answers)]
        response = await agent.run(given, session=session, **{**run, "middleware": middleware})
        if not (waiting := response.user_input_requests):
            return response
        return await self._settle(agent, session, waiting, timeout, run)

    async def _settle(
        self, agent: Any, session: Any, waiting: list[Any], timeout: float, run: dict[str, Any]
    ) -> Any:
        from agent_framework import Message  # noqa: PLC0415 (the vendor)

        calls = [_read(one) for one in waiting]
        kept = {"session": session.to_dict(), "requests": [one.to_dict() for one in waiting]}
        outcomes = await self._gate.settle(calls, session.session_id, kept, timeout=timeout)
        if isinstance(outcomes, PausedRun):
            return outcomes
        answers = {
            one.function_call.id: (call, outcome)
            for one, call, outcome in zip(waiting, calls, outcomes, strict=True)
        }
        given = Message("user", [one.to_function_approval_response(True) for one in waiting])
        return await self._run(agent, given, session, answers, timeout, run)


def _let_pass(answers: _Answers) -> Any:
    """Return a middleware that lets each approved call run once. Tools that need no approval always
    run."""
    from agent_framework import MiddlewareFailure, function_middleware  # noqa: PLC0415 (the vendor)

    @function_middleware  # type: ignore[untyped-decorator]  # the framework's
    async def let_pass(context: Any, call_next: Any) -> None:
        response = context.metadata.get("approval_response")
        answer = answers.pop(response.function_call.id, None) if response else None
        if answer is not None or context.function.approval_mode == "always_require":
            if answer is None or answer[0] != _read(response):
                raise MiddlewareFailure(f"{context.function.name} was called without an approval")
            call, outcome = answer
            if not outcome.runs:
                context.result = tell(call.tool, outcome)
                return
        await call_next()

    return let_pass


def _read(content: Any) -> FrameworkCall:
    """Return the call in an approval request or response. Raises GatewayError for other content."""
    call = getattr(content, "function_call", None)
    if call is None or call.hosted:  # nobody here knows what a provider would run
        raise GatewayError(f"people cannot decide a {content.type} of this run: answer it yourself")
    return FrameworkCall(
        tool=call.name,
        arguments=call.parse_arguments() or {},
        call_id=call.call_id,
        allowed=UNEDITED,
    )
