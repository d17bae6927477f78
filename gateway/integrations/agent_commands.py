"""The commands of the agent's side; each loads nothing of any other, for some run once per call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

_WITH_NAME = {
    "ask": "gateway.client.ask",
    "wait": "gateway.client.ask",
    "run": "gateway.client.run_command",
    "hook": "gateway.integrations.hook_process",
}
"""The module of each command whose `main` takes the command's name too."""
_WITHOUT_NAME = {
    "bridge": "gateway.integrations.bridge",
    "install": "gateway.integrations.install",
    "mcp": "gateway.integrations.mcp_command",
}
NAMES = (*_WITH_NAME, *_WITHOUT_NAME)


def find_command(words: Sequence[str]) -> Callable[[], int] | None:
    """Return what runs these words, None where they are no command of the agent's side."""
    name = words[0] if words else ""
    if name in _WITH_NAME:
        return partial(import_module(_WITH_NAME[name]).main, words)
    if name in _WITHOUT_NAME:
        return partial(import_module(_WITHOUT_NAME[name]).main, words[1:])
    return None
