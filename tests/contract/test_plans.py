"""Every surface shows each line of a plan as it is, and none approves one that it cut."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.models import Action, Kind
from tests.contract.read_back import Reader, told, what_runs
from tests.contract.surfaces import SURFACES
from tests.discord.pictures import stored
from tests.world import request

Line = dict[str, Any]

SHORT: list[Line] = [
    {"tool": "shell", "kind": "command", "arguments": {"command": "make test"}},
    {
        "tool": "send_email",
        "arguments": {"to": "ana@example.com"},
        "any_text": ["body"],
        "times": 2,
    },
    {"tool": "write_file", "arguments": {"path": "/srv/notes.txt", "content": "a\nb\n*c*\n<d>"}},
    {"tool": "note", "arguments": {"n": 1.5, "on": True, "of": None, "in": [1, {"x": ""}]}},
]
ODD: list[Line] = [
    {"tool": '2. "shell", once: {', "arguments": {"x": '\n2. "shell", once: {}'}},
    {"tool": "```@here", "arguments": {"x": "```\n# big\n<@U1>", "_*~": "||x||", "é": "🎉"}},
    {"tool": "get", "arguments": {"password": "hunter2hunter2"}},
]
LONG: list[Line] = [
    {"tool": f"tool_{at}", "arguments": {"text": f"{at} " * 90}, "times": at + 2}
    for at in range(40)
]


def plan(lines: list[Line]) -> Any:
    """Return the record of a plan of these lines."""
    arguments = {"calls": lines, "minutes": 45}
    allowed = (Action.APPROVE, Action.EDIT, Action.DENY)
    return stored(request(tool="plan", kind=Kind.CALLS, arguments=arguments, allowed=allowed))


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("lines", [SHORT, LONG], ids=["short", "long"])
def test_a_plan_is_shown_whole_or_not_approved(surface: str, lines: list[Line]) -> None:
    """Wherever it can be approved, every line was read there."""
    record = plan(lines)
    views = SURFACES[surface](record, Reader(record))
    for view in views:
        if view.offers or view.promised:
            assert view.what is not None
            assert told(view.what) == what_runs(record)
    assert any(view.what is not None for view in views)
    if lines is SHORT:
        assert any(view.offers for view in views) or surface == "command line"


def test_odd_names_and_texts_are_shown_as_they_are() -> None:
    """What hides something is refused before, and stands on no card."""
    record = plan(ODD)
    for surface, read in SURFACES.items():
        for view in read(record, Reader(record)):
            assert view.what is None or told(view.what) == what_runs(record), surface
