"""Sort the parts of a call for reading, on every platform: short parts first, then long ones.

Short parts keep their order; long parts are sorted by length, so that no long part pushes a short
one out of sight. Neither the order of an object's members nor the order of the parts changes what
runs.
"""

from __future__ import annotations

from typing import Any

SHORT_CHARS = 300
SHORT_LINES = 6


def weigh(text: str) -> int:
    """Return the sort key of a text: 0 if it is short, else its length."""
    return weigh_size(len(text), text.count("\n"))


def put_short_first(value: Any) -> Any:
    """Return a JSON value with the short members of each object before its long ones."""
    return _order(value)[0]


def part_long_members(members: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an object's short members and its long members, each group in reading order."""
    ordered = {name: _order(item) for name, item in members.items()}
    weights = {
        name: weigh_size(len(name) + size, lines) for name, (_, size, lines) in ordered.items()
    }
    names = sorted(ordered, key=weights.__getitem__)
    short = {name: ordered[name][0] for name in names if not weights[name]}
    return short, {name: ordered[name][0] for name in names if weights[name]}


def weigh_size(chars: int, line_ends: int) -> int:
    """Return the sort key of a text with this number of characters and line ends."""
    return chars if chars > SHORT_CHARS or line_ends >= SHORT_LINES else 0


def _order(value: Any) -> tuple[Any, int, int]:
    """Return a value in reading order, with its number of characters and of line ends."""
    if isinstance(value, str):
        return value, len(value), value.count("\n")
    if isinstance(value, dict):
        found = [(name, *_order(item)) for name, item in value.items()]
        found.sort(key=lambda one: weigh_size(len(one[0]) + one[2], one[3]))
        made: Any = {name: item for name, item, _, _ in found}
        return made, sum(len(name) + size for name, _, size, _ in found), sum(x[3] for x in found)
    if isinstance(value, list | tuple):
        items = [_order(item) for item in value]
        made = [item for item, _, _ in items]
        return made, sum(size for _, size, _ in items), sum(lines for _, _, lines in items)
    return value, len(str(value)), 0
