"""Find the commands for agents. Each command loads only the modules that it needs, because some
commands run once per tool call."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

_WITH_NAME = {
    "ask": "gateway.client.commands",
    "wait": "gateway.client.commands",
    "run": "gateway.client.commands",
}
"""The module of each command whose `main` also takes the name of the command."""
_WITHOUT_NAME = {
    "bridge": "gateway.integrations.bridges",
    "install": "gateway.integrations.coding_agents.install",
    "mcp": "gateway.integrations.mcp.command",
}
_HOOK = "gateway.integrations.coding_agents.hook"
_BLOCKED = 2  # as in `coding_agents.hook`, which may fail to load
NAMES = (*_WITH_NAME, "hook", *_WITHOUT_NAME)


def find_command(words: Sequence[str]) -> Callable[[], int] | None:
    """Return a function that runs the command line `words`, or None if that is not a command for
    agents. If the caller closed standard input, replace it with an empty one for every command."""
    if sys.stdin is None:
        empty, other_end = os.pipe()  # a process can wait on it, unlike on /dev/null
        os.close(other_end)
        sys.stdin = os.fdopen(empty)
    name = words[0] if words else ""
    if name == "hook":
        return partial(_run_hook, words)
    if name in _WITH_NAME:
        return partial(import_module(_WITH_NAME[name]).main, words)
    if name in _WITHOUT_NAME:
        return partial(import_module(_WITHOUT_NAME[name]).main, words[1:])
    return None


def _run_hook(words: Sequence[str]) -> int:
    """Run an agent hook. If the hook cannot be loaded, block the tool, because coding agents run it
    after the exit code of a traceback."""
    try:
        run: Callable[[Sequence[str]], int] = import_module(_HOOK).main
    except BaseException as error:
        why = f"{type(error).__name__}: {error}"
        sys.stderr.write(f"approval gateway: nothing runs: the hook cannot be loaded: {why}\n")
        return _BLOCKED
    return run(words)
