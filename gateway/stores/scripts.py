"""Runs the Lua scripts that lie beside this file, each with the shared prelude in front."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError

_FOLDER = files("gateway.stores") / "lua"


class Script:
    """One script, sent by its SHA-1 and in full where the server does not have it yet."""

    def __init__(self, name: str) -> None:
        prelude = (_FOLDER / "prelude.lua").read_text(encoding="utf-8")
        self._text = prelude + (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, redis: Any, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run it; keys must all be of one namespace."""
        try:
            return await redis.evalsha(self._sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return await redis.eval(self._text, len(keys), *keys, *arguments)
