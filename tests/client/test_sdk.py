"""The SDK's promises, with a plain callable as the approver."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.client import (
    CallableTransport,
    Client,
    Reply,
    confirm,
    gated,
    requires_approval,
    resume,
    session,
    suspend,
    use_client,
)
from gateway.client.blocking_client import current_client
from gateway.client.context import current_session
from gateway.client.in_process import Approver
from gateway.client.pytest_plugin import ScriptedApprovals
from gateway.errors import (
    Aborted,
    Denied,
    GatewayError,
    InvalidRequest,
    Pending,
)
from gateway.models import Action, ApprovalRequest, Execution, Question, Reason, Report


def client_of(approver: Approver, **options: Any) -> Client:
    """Return a client that asks a function."""
    return Client(CallableTransport(approver), **options)


@pytest.fixture
def ran() -> list[Any]:
    """Collect what really ran."""
    return []


@pytest.fixture
def yes() -> Iterator[Client]:
    """Yield a client whose approver says yes to everything."""
    with client_of(lambda request: True) as client, use_client(client):
        yield client


def test_only_a_true_yes_approves(ran: list[Any]) -> None:
    """None, truthy values and False deny; an approver that raises lets nothing run."""
    for answer in (False, None, 1, "yes", {"approved": True}):
        with client_of(lambda request, answer=answer: answer) as client:  # type: ignore[misc]
            guarded = requires_approval(client=client)(ran.append)
            with pytest.raises(Denied):
                guarded(1)

    def broken(request: ApprovalRequest) -> bool:
        raise RuntimeError("broken")

    with client_of(broken) as client, pytest.raises(RuntimeError):
        requires_approval(client=client)(ran.append)(1)
    assert ran == []


def test_every_argument_is_shown_by_name(yes: Client) -> None:
    """Positional, keyword and default arguments all reach the approver."""
    seen: list[ApprovalRequest] = []

    def see(request: ApprovalRequest) -> bool:
        seen.append(request)
        return True

    with client_of(see) as client:

        @requires_approval(client=client)
        def pay(to: str, amount: int, currency: str = "EUR", *, notify: bool = True) -> str:
            """Send money.

            More about it.
            """
            return f"{to} {amount} {currency} {notify}"

        assert pay("x", 9999) == "x 9999 EUR True"
    assert seen[0].arguments == {"to": "x", "amount": 9999, "currency": "EUR", "notify": True}
    assert seen[0].hint == "Send money."
    assert seen[0].tool.endswith("pay")


def test_arguments_that_are_no_json_are_refused_before_anyone_is_asked(
    yes: Client, ran: list[Any]
) -> None:
    """What cannot be shown exactly cannot be approved."""
    guarded = requires_approval(ran.append)
    for value in (object(), b"x", {1: 2}, float("nan"), 2**60):
        with pytest.raises(InvalidRequest, match="JSON"):
            guarded(value)
    assert ran == []


def test_edited_arguments_are_what_runs(ran: list[Any]) -> None:
    """Exactly those, not the agent's."""
    edit = Reply(action=Action.EDIT, arguments={"command": "ls"})
    with client_of(lambda request: edit) as client:

        @requires_approval(client=client)
        def shell(command: str) -> None:
            ran.append(command)

        shell("rm -rf /")
    assert ran == ["ls"]


def test_respond_returns_the_result_without_running(ran: list[Any]) -> None:
    """The person's result takes the place of the call."""
    with client_of(lambda request: Reply(action=Action.RESPOND, result=42)) as client:
        assert requires_approval(client=client)(ran.append)(1) == 42
    assert ran == []


def test_abort_is_its_own_exception() -> None:
    """The agent's loop can tell stop from no."""
    with (
        client_of(lambda request: Reply(action=Action.ABORT, abort="agent")) as client,
        pytest.raises(Aborted) as caught,
    ):
        client.ask("x", {})
    assert caught.value.decision.abort == "agent"


def test_when_tells_which_calls_need_leave(approvals: ScriptedApprovals, ran: list[Any]) -> None:
    """The condition sees the bound arguments; calls below it run freely."""

    @requires_approval(when=lambda amount: amount > 100)
    def pay(amount: int) -> None:
        ran.append(amount)

    pay(50)
    with pytest.raises(Denied):
        pay(amount=500)
    assert ran == [50]


def test_feedback_leads_to_another_plan_at_most_max_rounds_times(
    approvals: ScriptedApprovals, ran: list[Any]
) -> None:
    """A denial with words asks again with the replanned arguments, and gives up in the end."""

    def replan(arguments: dict[str, Any], words: str) -> dict[str, Any]:
        return {"branch": words}

    @requires_approval(replan=replan, max_rounds=2)
    def push(branch: str) -> None:
        ran.append(branch)

    approvals.deny("dev", feedback=True)
    approvals.approve()
    push("main")
    assert ran == ["dev"]
    approvals.deny("dev", feedback=True)
    approvals.deny("dev", feedback=True)
    with pytest.raises(Denied):
        push("main")
    assert ran == ["dev"]


async def test_async_functions_are_gated_too(approvals: ScriptedApprovals) -> None:
    """The same decorator, awaited."""

    @requires_approval
    async def double(value: int) -> int:
        return value * 2

    approvals.approve(value=4)
    assert await double(1) == 8
    with pytest.raises(Denied):
        await double(1)
    assert [report.execution for _, report in approvals.reports] == [
        Execution.STARTED,
        Execution.SUCCEEDED,
    ]


def test_a_failing_function_is_reported_and_raises(approvals: ScriptedApprovals) -> None:
    """Approved and failed is told apart from approved and never run."""

    @requires_approval
    def fail() -> None:
        raise OSError("disk")

    approvals.approve()
    with pytest.raises(OSError, match="disk"):
        fail()
    assert [report.execution for _, report in approvals.reports][-1] is Execution.FAILED


async def test_what_was_done_is_given_also_when_nobody_can_be_told() -> None:
    """A client that was closed while the function ran: its result, or its own error, comes back;
    whoever took it for a failure would pay twice."""

    def pay(client: Client, amount: int) -> str:
        client.close()
        if amount < 0:
            raise OSError("declined")
        return f"paid {amount}"

    async def pay_later(client: Client, amount: int) -> str:
        await asyncio.to_thread(client.close)
        return pay(client, amount)

    for function in (pay, pay_later):
        for amount in (5, -5):
            client = client_of(lambda request: True)
            guarded = requires_approval(client=client, serialize=_amount)(function)
            try:
                result: Any = await asyncio.to_thread(guarded, client, amount)
                assert (await result if asyncio.iscoroutine(result) else result) == "paid 5"
            except OSError as error:
                assert (amount, str(error)) == (-5, "declined")


def _amount(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"amount": arguments["amount"]}


class Stuck(CallableTransport):
    """Takes requests and reports, and answers none of them."""

    def __init__(self) -> None:
        super().__init__(self._never)
        self.busy = threading.Event()
        self.withdrawn: list[Reason] = []

    async def report(self, request_id: str, report: Report) -> None:
        """Hang."""
        await self._never(None)

    async def cancel(self, request_id: str, *, reason: Reason, message: str) -> None:
        """Note why."""
        self.withdrawn.append(reason)

    async def _never(self, request: object) -> bool:
        self.busy.set()
        await asyncio.Event().wait()
        return True


@pytest.mark.parametrize(("verb", "withdrawn"), [("send", [Reason.ABANDONED]), ("report", [])])
def test_closing_a_client_lets_everybody_go(verb: str, withdrawn: list[Reason]) -> None:
    """Another thread's wait ends with an error, its request withdrawn; its report without one."""
    transport = Stuck()
    client = Client(transport)
    request = client.request("x", {})
    words = (request,) if verb == "send" else (request, Execution.SUCCEEDED)
    ended: list[Any] = []

    def work() -> None:
        try:
            ended.append(getattr(client, verb)(*words))
        except GatewayError as error:
            ended.append(str(error).partition(",")[0])

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert transport.busy.wait(20)
    client.close()
    thread.join(20)
    assert ended == [None if verb == "report" else "this client is closed"]
    assert transport.withdrawn == withdrawn


def test_a_tool_may_ask_again_from_inside(approvals: ScriptedApprovals) -> None:
    """A dynamic ask carries the tool's name and its payload."""

    @requires_approval(tool="transfer")
    def transfer(amount: int) -> str:
        confirm(f"more than usual: {amount}", {"amount": amount})
        return "sent"

    approvals.approve()
    approvals.approve()
    assert transfer(5) == "sent"
    assert approvals.requests[1].tool == "transfer"
    assert approvals.requests[1].payload == {"amount": 5}
    approvals.approve()
    with pytest.raises(Denied):
        transfer(5)


def test_questions_return_answers(approvals: ScriptedApprovals) -> None:
    """A question is answered, not approved."""
    approvals.answer(answer="blue")
    assert current_client().question("Which colour?") == {"answer": "blue"}
    approvals.answer(a="1", b="2")
    fields = (Question(id="a", text="?"), Question(id="b", text="?"))
    assert current_client().question("Two", *fields) == {"a": "1", "b": "2"}


def test_a_toolset_is_wrapped_without_changing_it(approvals: ScriptedApprovals) -> None:
    """Mapping, sequence and object: stand-ins ask, the originals do not."""

    class Tools:
        limit = 3

        def delete(self, name: str) -> str:
            return f"deleted {name}"

    original = Tools()
    guarded = gated(original)
    assert guarded.limit == 3
    with pytest.raises(Denied):
        guarded.delete("x")
    assert original.delete("x") == "deleted x"
    approvals.approve()
    assert guarded.delete("x") == "deleted x"
    assert approvals.requests[-1].tool == "Tools.delete"
    for wrapped in (gated({"d": original.delete})["d"], gated([original.delete])[0]):
        with pytest.raises(Denied):
            wrapped("x")


def test_sessions_are_local_to_threads_and_tasks(yes: Client) -> None:
    """A session set in one thread or task is not seen in another."""
    seen: dict[str, str] = {}

    async def task(name: str) -> None:
        with session(name):
            await asyncio.sleep(0)
            seen[name] = current_session.get()

    async def both() -> None:
        await asyncio.gather(task("a"), task("b"))

    with session("main"):
        thread = threading.Thread(target=lambda: seen.update(thread=current_session.get()))
        thread.start()
        thread.join()
        asyncio.run(both())
        assert current_client().request("x", {}).session == "main"
    assert seen == {"a": "a", "b": "b", "thread": "default"}


def test_an_event_comes_before_waiting_and_one_after() -> None:
    """A stream of the agent's host can say that it waits."""
    events: list[str] = []
    with client_of(
        lambda request: True, on_event=lambda kind, *rest: events.append(kind)
    ) as client:
        client.ask("x", {})
    assert events == ["confirmation_required", "decided"]


def test_suspend_and_resume_by_a_pickle(approvals: ScriptedApprovals, ran: list[Any]) -> None:
    """Ask without waiting, carry the pending call away, run it when it was approved."""

    @requires_approval
    def deploy(version: str) -> str:
        ran.append(version)
        return "done"

    approvals.approve()
    pending = pickle.loads(pickle.dumps(suspend(deploy, "1.2")))
    assert isinstance(pending, Pending)
    assert ran == []
    assert resume(deploy, pending) == "done"
    assert ran == ["1.2"]


def test_no_thread_of_a_test_reaches_a_real_gateway(
    approvals: ScriptedApprovals, ran: list[Any]
) -> None:
    """A thread without the test's context is answered by the script too."""
    approvals.approve()
    thread = threading.Thread(target=requires_approval(ran.append), args=(1,))
    thread.start()
    thread.join()
    assert ran == [1]
    assert approvals.requests[0].arguments == {"object": 1}
