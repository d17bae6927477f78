"""Gates a whole toolset; the originals stay unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.client.decorator import requires_approval


def gated(tools: Any, **options: Any) -> Any:
    """Return the same tools, each behind `requires_approval(**options)`.

    A mapping of callables gives a dict, a list or tuple of callables the same sequence, and any
    other object a wrapper whose public methods are gated and whose other attributes are the
    original's.
    """
    if isinstance(tools, Mapping):
        return {name: _gate(tool, str(name), options) for name, tool in tools.items()}
    if isinstance(tools, list | tuple):
        return type(tools)(_gate(tool, None, options) for tool in tools)
    return _GatedObject(tools, options)


class _GatedObject:
    """Wraps an object; its public methods ask first."""

    def __init__(self, original: Any, options: dict[str, Any]) -> None:
        self._original = original
        self._options = options

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        if name.startswith("_") or not callable(found):
            return found
        return _gate(found, f"{type(self._original).__name__}.{name}", self._options)


def _gate(
    tool: Callable[..., Any], name: str | None, options: dict[str, Any]
) -> Callable[..., Any]:
    gate = requires_approval(**{"tool": name, **options})
    return gate(tool)
