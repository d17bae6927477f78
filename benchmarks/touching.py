"""What the model of what a call touches costs, for calls of 4 kB in several shapes."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from benchmarks.table import Row
from gateway.models import Context, Kind
from gateway.policy.calls.call_effects import Call, touch

_ROUNDS = 200
_US = 1_000
_LINE = "total = sum(one.amount for one in entries)\n"


async def touching() -> list[Row]:
    """Time calls of each shape; the best of many rounds, which other work disturbs least."""
    usual = {name: _time(call) for name, call in _usual().items()}
    many = {name: _time(call) for name, call in _of_many_values().items()}
    worst = max(usual, key=lambda name: usual[name])
    return [
        Row(name="touch_us", value=usual[worst], unit=f"µs, {worst}", target="<= 400",
            samples=usual),
        Row(name="touch_many_values_us", value=max(many.values()), unit="µs", samples=many),
    ]  # fmt: skip


def _time(call: Call) -> float:
    took = []
    for _ in range(_ROUNDS):
        began = perf_counter_ns()
        touch(call)
        took.append(perf_counter_ns() - began)
    return min(took) / _US


def _usual() -> dict[str, Call]:
    edits = [{"old_string": _LINE * 2, "new_string": _LINE * 2}] * 20
    return {
        "text": _call("Write", Kind.FILE_CHANGE, file_path="src/a.py", content=_LINE * 95),
        "command": _call("Bash", Kind.COMMAND, command="grep -rn x src tests && " * 165 + "ls"),
        "edits": _call("MultiEdit", Kind.FILE_CHANGE, file_path="src/a.py", edits=edits),
        "arguments": _call("book_it", Kind.TOOL,
                           **{f"field_{at}": "a value of some words " * 3 for at in range(60)}),
    }  # fmt: skip


def _of_many_values() -> dict[str, Call]:
    """Where a value is a few letters, the work for each value is all there is."""
    items = [{"sku": f"a-{at}", "note": f"n{at}", "count": at} for at in range(80)]
    paths = [f"src/folder/module_{at}/x.py" for at in range(100)]
    changes = "".join(f"*** Update File: src/m{at}.py\n@@\n-a = {at}\n+a = 1\n" for at in range(70))
    patch = f"*** Begin Patch\n{changes}*** End Patch\n"
    return {
        "240_values": _call("book_it", Kind.TOOL, items=items),
        "100_paths": _call("read_many_files", Kind.TOOL, paths=paths),
        "70_files": _call("apply_patch", Kind.FILE_CHANGE, input=patch),
    }


def _call(tool: str, kind: Kind, **arguments: Any) -> Call:
    return Call(tool=tool, kind=kind, arguments=arguments, context=Context(cwd="/srv/app"))
