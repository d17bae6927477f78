"""What a gate asks for, and what may run afterwards: methods, edits, values that are no JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, Literal

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
)
from gateway.client.blocking_client import current_client
from gateway.client.gate import gate_of
from gateway.client.pytest_plugin import ScriptedApprovals
from gateway.errors import Denied, InvalidRequest, Unverified
from gateway.models import Action, ApprovalRequest, Execution


class Server:
    """An object with gated methods."""

    def __init__(self, name: str) -> None:
        self.name = name

    @requires_approval
    def restart(self, service: str, force: bool = False) -> str:
        """Restart a service."""
        return f"{service} on {self.name}"

    @classmethod
    @requires_approval
    def find(cls, name: str) -> str:
        """Find a server."""
        return f"{cls.__name__} {name}"

    @requires_approval
    async def drain(self, seconds: int) -> str:
        """Stop taking calls."""
        return f"{self.name} in {seconds}"


def shown(approvals: ScriptedApprovals) -> ApprovalRequest:
    """Return what was asked last."""
    return approvals.requests[-1]


async def test_methods_are_gated_without_their_object(approvals: ScriptedApprovals) -> None:
    """Neither object nor class is among the arguments; the hint is the method's docstring."""
    for _ in range(3):
        approvals.approve()
    server = Server("alpha")
    assert await asyncio.to_thread(server.restart, "web", force=True) == "web on alpha"
    assert shown(approvals).arguments == {"service": "web", "force": True}
    assert shown(approvals).hint == "Restart a service."
    assert await asyncio.to_thread(Server.find, "beta") == "Server beta"
    assert shown(approvals).arguments == {"name": "beta"}
    assert await server.drain(3) == "alpha in 3"
    assert shown(approvals).tool == "Server.drain"


def test_an_argument_is_not_hidden_by_its_name(approvals: ScriptedApprovals) -> None:
    """In a plain function `self` is an argument like any other."""

    @requires_approval
    def run(self: str) -> str:
        return self

    with pytest.raises(Denied):
        run("rm -rf /")
    assert shown(approvals).arguments == {"self": "rm -rf /"}


def test_a_method_is_suspended_and_resumed_on_its_object(approvals: ScriptedApprovals) -> None:
    """The object at hand when it resumes is used; without one nothing is asked."""
    approvals.approve()
    pending = suspend(Server("alpha").restart, "web")
    assert shown(approvals).arguments == {"service": "web", "force": False}
    assert resume(Server("beta").restart, pending) == "web on beta"
    with pytest.raises(InvalidRequest, match="bound to an object"):
        suspend(Server.restart, "web")


def test_leave_for_one_function_runs_no_other(approvals: ScriptedApprovals) -> None:
    """Resuming another function with the same arguments is refused."""
    ran: list[str] = []

    @requires_approval
    def read(path: str) -> None:
        ran.append(path)

    @requires_approval
    def delete(path: str) -> None:
        ran.append(path)

    approvals.approve()
    pending = suspend(read, "/etc")
    with pytest.raises(InvalidRequest, match="read"):
        resume(delete, pending)
    assert ran == []


def test_a_tool_asks_again_through_its_own_client(approvals: ScriptedApprovals) -> None:
    """Also when the context has another one: the same people see both questions."""
    seen: list[str] = []

    def yes(request: ApprovalRequest) -> bool:
        seen.append(request.hint)
        return True

    with Client(CallableTransport(yes)) as client:

        @requires_approval(client=client, hint="outer")
        def transfer() -> str:
            confirm("inner")
            return "sent"

        assert transfer() == "sent"
    assert seen == ["outer", "inner"]


def book(
    seats: int,
    to: Literal["ann", "bob"],
    price: float | None = None,
    *extra: str,
    notes: Any = "",
    **more: Any,
) -> Any:
    """Take arguments of all kinds."""
    return {"seats": seats, "to": to, "price": price, "extra": extra, "notes": notes, **more}


def edited(arguments: dict[str, Any]) -> Any:
    """Call `book` under an approver who edits the arguments to these."""
    reply = Reply(action=Action.EDIT, arguments=arguments)
    transport = CallableTransport(lambda request: reply)
    with Client(transport) as client:
        try:
            return requires_approval(client=client)(book)(1, "ann")
        except InvalidRequest:
            assert [report.execution for _, report in transport.reports] == [Execution.SKIPPED]
            raise


def test_an_edit_that_fits_is_what_runs() -> None:
    """Absent arguments take their defaults, gathered ones come as list and object."""
    assert edited({"seats": 2, "to": "bob", "extra": ["x"], "more": {"a": 1}}) == {
        "seats": 2, "to": "bob", "price": None, "extra": ("x",), "notes": "", "a": 1,
    }  # fmt: skip
    assert edited({"seats": 2, "to": "bob", "price": 3, "notes": [1]})["notes"] == [1]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"seats": 2},
        {"seats": "2", "to": "bob"},
        {"seats": True, "to": "bob"},
        {"seats": 2.5, "to": "bob"},
        {"seats": 2, "to": "eve"},
        {"seats": 2, "to": ["ann"]},
        {"seats": 2, "to": "bob", "price": "free"},
        {"seats": 2, "to": "bob", "extra": "x"},
        {"seats": 2, "to": "bob", "more": []},
        {"seats": 2, "to": "bob", "unknown": 1},
    ],
)
def test_an_edit_that_does_not_fit_runs_nothing(arguments: dict[str, Any]) -> None:
    """A name, a type or a choice that the signature does not know: refused and reported."""
    with pytest.raises(InvalidRequest):
        edited(arguments)


def test_the_gateway_is_told_what_an_edit_must_fit(approvals: ScriptedApprovals) -> None:
    """So the person learns of it who edits; where edits are not allowed nothing is sent."""
    with pytest.raises(Denied):
        requires_approval(book)(1, "ann")
    assert shown(approvals).schema == {
        "type": "object",
        "properties": {
            "seats": {"type": "integer"},
            "to": {"enum": ["ann", "bob"]},
            "price": {"type": ["number", "null"]},
            "extra": {"type": "array"},
            "notes": {},
            "more": {"type": "object"},
        },
        "required": ["seats", "to"],
        "additionalProperties": False,
    }
    with pytest.raises(Denied):
        requires_approval(allowed=(Action.APPROVE, Action.DENY))(book)(1, "ann")
    assert shown(approvals).schema is None


def as_text(arguments: dict[str, Any]) -> dict[str, Any]:
    """Show all values as text."""
    return {name: str(value) for name, value in arguments.items()}


def test_values_that_are_no_json_run_as_they_are(approvals: ScriptedApprovals) -> None:
    """Shown as JSON, run as the very objects; nobody is offered to edit them."""

    @requires_approval(serialize=as_text)
    def remove(path: PurePosixPath) -> PurePosixPath:
        return path

    approvals.approve()
    path = PurePosixPath("/tmp/x")
    assert remove(path) is path
    assert shown(approvals).arguments == {"path": "/tmp/x"}
    assert Action.EDIT not in shown(approvals).allowed
    approvals.approve(path="/etc")
    with pytest.raises(Unverified):
        remove(path)
    with pytest.raises(InvalidRequest, match="cannot be suspended"):
        suspend(remove, path)
    client = current_client()
    approvals.approve()
    pending = client.submit(client.request(gate_of(remove).tool, {"path": "/tmp/x"}))
    with pytest.raises(Unverified, match="another process"):
        resume(remove, pending)


@pytest.mark.parametrize("serialize", [None, lambda arguments: {"items": list(arguments["items"])}])
def test_values_changed_while_they_wait_do_not_run(
    serialize: Callable[..., Any] | None,
) -> None:
    """What would be shown now is not what was shown: Unverified, with `serialize` and without."""
    items, ran = ["a"], []

    def approve(request: ApprovalRequest) -> bool:
        items.append("b")
        return True

    with Client(CallableTransport(approve)) as client:

        @requires_approval(client=client, serialize=serialize)
        def send(items: list[str]) -> None:
            ran.append(items)

        with pytest.raises(Unverified):
            send(items)
    assert ran == []


def test_what_is_shown_must_be_json(approvals: ScriptedApprovals) -> None:
    """A `serialize` that gives no JSON, or raises, lets nobody be asked."""

    def broken(arguments: dict[str, Any]) -> dict[str, Any]:
        raise OSError("broken")

    with pytest.raises(InvalidRequest):
        requires_approval(serialize=lambda arguments: arguments)(print)(object())
    with pytest.raises(OSError, match="broken"):
        requires_approval(serialize=broken)(print)(object())
    assert approvals.requests == []


def test_what_is_wrong_with_a_request_is_said_as_it_is(approvals: ScriptedApprovals) -> None:
    """Advice about the arguments would mislead where they are in order."""
    late = requires_approval(timeout=-1)(lambda: None)
    with pytest.raises(InvalidRequest, match="the timeout must be 0 to") as refused:
        late()
    assert "serialize" not in str(refused.value)
    assert approvals.requests == []


def test_a_call_that_no_test_has_scripted_says_so(approvals: ScriptedApprovals) -> None:
    """Denied, and not as if somebody had meant it."""
    with pytest.raises(Denied, match="the test scripted no decision"):
        requires_approval(tool="x")(lambda: None)()


def test_a_result_instead_of_running_is_reported_as_not_run(approvals: ScriptedApprovals) -> None:
    """So that the record does not say `approved, never heard of again`."""
    approvals.respond(7)
    assert requires_approval(book)(1, "ann") == 7
    assert [report.execution for _, report in approvals.reports] == [Execution.SKIPPED]


async def test_a_toolset_may_be_asynchronous(approvals: ScriptedApprovals) -> None:
    """Async methods of a wrapped object are awaited, and the original is as it was."""

    class Tools:
        async def shout(self, text: str) -> str:
            return text.upper()

    original = Tools()
    wrapped = gated(original)
    approvals.approve()
    assert await wrapped.shout("hi") == "HI"
    with pytest.raises(Denied):
        await wrapped.shout("hi")
    assert await original.shout("hi") == "HI"


async def test_requests_carry_the_session_of_their_task(approvals: ScriptedApprovals) -> None:
    """Two tasks in two sessions ask at once; each request names its own."""

    @requires_approval
    async def work(name: str) -> None:
        """Do nothing."""

    async def within(name: str) -> None:
        with session(name):
            await work(name)

    for _ in range(2):
        approvals.approve()
    await asyncio.gather(within("a"), within("b"))
    asked = {request.arguments["name"]: request.session for request in approvals.requests}
    assert asked == {"a": "a", "b": "b"}
