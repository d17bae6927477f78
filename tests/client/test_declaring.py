"""What a tool's author declares in code goes along with each request."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.client import gated, requires_approval
from gateway.client.blocking_client import current_client
from gateway.client.pytest_plugin import ScriptedApprovals
from gateway.errors import InvalidRequest
from gateway.wire.roles import Role


def test_a_function_declares_its_arguments(approvals: ScriptedApprovals) -> None:
    """By name and by address, as words or as roles; a tool that declares nothing sends nothing."""

    @requires_approval(arguments={"text": "data", "edits[].to": Role.WRITE}, harmless=True)
    def note(text: str, edits: list[Any]) -> str:
        return text

    for _ in range(3):
        approvals.approve()
    assert note("x", []) == "x"
    assert approvals.requests[-1].roles == {"text": "data", "edits[].to": "write"}
    assert approvals.requests[-1].harmless
    requires_approval(lambda: 1)()
    assert (approvals.requests[-1].roles, approvals.requests[-1].harmless) == ({}, False)
    shout = gated({"shout": lambda text: text.upper()}, arguments={"text": "data"})["shout"]
    assert shout("hi") == "HI"
    assert approvals.requests[-1].roles == {"text": "data"}


def test_a_client_declares_them_too(approvals: ScriptedApprovals) -> None:
    """With the request, also through `ask`."""
    approvals.approve()
    current_client().ask("note", {"text": "x"}, roles={"text": Role.DATA}, harmless=True)
    asked = approvals.requests[-1]
    assert (asked.roles, type(asked.roles["text"]), asked.harmless) == ({"text": "data"}, str, True)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"txt": "data"}, "'txt'"), ({"txt[].a": "data"}, "'txt"), ({"text": "dta"}, "mean data")],
)
def test_a_mistake_is_told_where_the_function_is_gated(
    approvals: ScriptedApprovals, arguments: dict[str, str], word: str
) -> None:
    """A name that is no argument, or a word that is no role, and nobody is asked."""
    with pytest.raises(InvalidRequest, match=word):
        requires_approval(arguments=arguments)(lambda text: text)
    if "text" in arguments:
        with pytest.raises(InvalidRequest, match=word):
            current_client().request("note", {"text": "x"}, roles=arguments)
    assert approvals.requests == []


def test_what_is_serialized_declares_what_it_shows(approvals: ScriptedApprovals) -> None:
    """The names there are its own."""

    @requires_approval(
        serialize=lambda given: {"shown": str(given["n"])}, arguments={"shown": "id"}
    )
    def work(n: object) -> object:
        return n

    approvals.approve()
    assert work(3) == 3
    assert approvals.requests[-1].roles == {"shown": "id"}


def test_a_person_is_demanded(approvals: ScriptedApprovals) -> None:
    """By the decorator and by `ask`; without a word nothing is demanded."""
    for _ in range(3):
        approvals.approve()
    requires_approval(human=True)(lambda: 1)()
    assert approvals.requests[-1].human
    current_client().ask("note", {"text": "x"}, human=True)
    assert approvals.requests[-1].human
    current_client().ask("note", {"text": "x"})
    assert not approvals.requests[-1].human
