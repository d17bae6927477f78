"""Runs the Lua scripts that lie beside this file, each with the shared prelude in front."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError

At = Callable[[str], None]
"""Is called with the name of each step that a killed gateway may stop at. Tests end it there."""

_FOLDER = files("gateway.stores") / "lua"


def ignore_step(step: str) -> None:
    """Do nothing at a step."""


class Script:
    """One script, sent by its SHA-1 and in full where the server does not have it yet.

    Its steps are `<name>:before` and `<name>:after`; what lies between is atomic.
    """

    def __init__(self, name: str, at: At = ignore_step) -> None:
        prelude = (_FOLDER / "prelude.lua").read_text(encoding="utf-8")
        self._text = prelude + (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()
        self._before, self._after = f"{name}:before", f"{name}:after"
        self._at = at

    async def run(self, redis: Any, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run it; keys must all be of one namespace."""
        self._at(self._before)
        try:
            answer = await redis.evalsha(self._sha, len(keys), *keys, *arguments)
        except NoScriptError:
            answer = await redis.eval(self._text, len(keys), *keys, *arguments)
        self._at(self._after)
        return answer
