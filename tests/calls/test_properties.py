"""What holds of every call, whatever its arguments are."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from gateway.models import Context, Kind
from gateway.policy.calls.call_effects import Call, CallEffects, touch
from gateway.wire.roles import Role
from tests.calls.reading import operator, read
from tests.sweeps import tried

_NAMES = st.sampled_from(
    ["command", "Command", "commands", "argv", "cwd", "workdir", "path", "file_path", "filePath",
     "content", "text", "edits", "changes", "old_string", "description", "timeout", "url", "env",
     "tool_name", "arguments", "name", "patch", "q", "x", "to", "channel", "is_input", "", "a.b"]
)  # fmt: skip
_TEXTS = st.sampled_from(
    ["", "ls", "rm -rf x", "/etc/passwd", ".env", "../x", "%2e%2e/x", "https://u@x.org:1/", "[",
     "{}",
     '{"command":"rm x"}', '{"a":1,"a":2}',
     "*** Begin Patch\n*** Update File: a\n@@\n*** End Patch",
     "\ud800", "\u202e", "a b c", "x" * 300, "file://h/x", "#ops", '"{\\"a\\":1}"']
)  # fmt: skip
_SCALARS = st.one_of(
    _TEXTS, st.text(max_size=8), st.booleans(), st.none(), st.integers(),
    st.floats(allow_nan=True, allow_infinity=True),
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_NAMES, inner, max_size=4)
    ),
    max_leaves=12,
)
_ARGUMENTS = st.dictionaries(st.one_of(_NAMES, st.text(max_size=4)), _VALUES, max_size=6)
_TOOLS = st.sampled_from(
    ["bash", "Bash", "shell", "Edit", "write_file", "move_file", "post_message", "use_mcp_tool",
     "apply_patch", "do_it", "", "\ud800", "npm", "TodoWrite", "MultiEdit"]
)  # fmt: skip
_KINDS = st.sampled_from(list(Kind))
_CWD = st.sampled_from([None, "/ws", "/", "", "C:\\x", "relative", "~"])


def _call(tool: str, kind: Kind, arguments: dict[str, Any], cwd: str | None) -> Call:
    return Call(tool=tool, kind=kind, arguments=arguments, context=Context(cwd=cwd))


def _told(found: CallEffects) -> list[tuple[str, str]]:
    return sorted((leaf.place, leaf.role.value) for leaf in found.leaves)


def _count(value: Any) -> int:
    """Return how many values a call has that hold no others."""
    if isinstance(value, dict) and value:
        return sum(map(_count, value.values()))
    return sum(map(_count, value)) if isinstance(value, list) and value else 1


@tried(_TOOLS, _KINDS, _ARGUMENTS, _CWD, few=25, many=100)
def test_every_value_has_exactly_one_role(
    tool: str, kind: Kind, arguments: dict[str, Any], cwd: str | None
) -> None:
    """Whatever is sent is read without an error; each value is in one leaf, and in no second."""
    found = touch(_call(tool, kind, arguments, cwd))
    places = [leaf.place for leaf in found.leaves]
    assert len(set(places)) == len(places)
    assert sum(_count(leaf.value) for leaf in found.leaves) == (
        _count(arguments) if arguments else 0
    )
    for one in found.everything():
        assert all(isinstance(leaf.role, Role) for leaf in one.leaves)
        assert all(uncertainty.words for uncertainty in one.uncertainties)
    list(found.all_programs()), list(found.all_paths()), list(found.texts_to_look_through())
    assert found.hosts is not None


@tried(_TOOLS, _KINDS, _ARGUMENTS, st.randoms(use_true_random=False), few=10, many=40)
def test_the_order_of_names_changes_nothing(
    tool: str, kind: Kind, arguments: dict[str, Any], random: Any
) -> None:
    """Roles, base, doubts and what is touched are the same in any order of the arguments."""
    names = list(arguments)
    random.shuffle(names)
    one = touch(_call(tool, kind, arguments, "/ws"))
    two = touch(_call(tool, kind, {name: arguments[name] for name in names}, "/ws"))
    assert _told(one) == _told(two) and one.base == two.base
    assert {(d.kind, d.address) for d in one.uncertainties} == {
        (d.kind, d.address) for d in two.uncertainties
    }
    assert sorted(p.text for p in one.all_programs()) == sorted(p.text for p in two.all_programs())
    assert {p.text for p in one.paths} == {p.text for p in two.paths}


@tried(
    _TOOLS,
    _KINDS,
    _ARGUMENTS,
    st.sampled_from(["data", "part", "remark"]),
    st.data(),
    few=10,
    many=40,
)
def test_a_declaration_that_is_dropped_frees_nothing(
    tool: str, kind: Kind, arguments: dict[str, Any], role: str, data: st.DataObject
) -> None:
    """What is free without a declaration that frees is free with it."""
    addresses = sorted({leaf.address for leaf in touch(_call(tool, kind, arguments, "/ws")).leaves})
    freed = data.draw(st.lists(st.sampled_from(addresses))) if addresses else []
    without = read(tool, arguments, kind)
    declared = read(tool, arguments, kind, "/ws", operator(**dict.fromkeys(freed, role)))
    free = {leaf.address for leaf in declared.leaves if leaf.free}
    misfits = {leaf.address for leaf in declared.leaves if leaf.address in freed}
    assert {leaf.address for leaf in without.leaves if leaf.free} <= free | misfits


@tried(_TOOLS, _KINDS, _ARGUMENTS, _NAMES, st.integers(min_value=1, max_value=20), few=10, many=40)
def test_depth_and_length_free_nothing(
    tool: str, kind: Kind, arguments: dict[str, Any], name: str, levels: int
) -> None:
    """Put deeper into what nobody knows, or beside what is too long, nothing becomes free."""
    inner: Any = arguments
    for _ in range(levels):
        inner = {"unknown object": inner}
    assert not any(leaf.free for leaf in read(tool, inner, kind).leaves)
    before = read(tool, arguments, kind)
    longer = read(tool, {**arguments, "a long one": "y " * 40_000}, kind)
    free = {leaf.place for leaf in before.leaves if leaf.free}
    known_before = {leaf.place for leaf in before.leaves}
    assert {leaf.place for leaf in longer.leaves if leaf.free} & known_before <= free


@tried(_ARGUMENTS, few=10, many=25)
def test_json_in_a_text_is_read_as_the_object_that_it_is(arguments: dict[str, Any]) -> None:
    """A command or path within JSON text is found under some reading."""
    text = json.dumps({**arguments, "marker": {"path": "/etc/marked"}})
    if len(text) > 60_000 or "NaN" in text or "Infinity" in text:
        return
    found = read("x", {"j": text})
    assert "/etc/marked" in {one.text for one in found.all_paths()} or found.uncertainties
