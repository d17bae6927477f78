"""The file that names the hook processes: TOML, read strictly when the gateway starts.

It lies on the gateway's own disk, never in Redis: whoever writes it runs commands as the gateway.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from gateway.domain.parsing import parse_message
from gateway.errors import InvalidRequest
from gateway.wire.codec import Wire

INTERCEPTS = ("before_llm", "after_llm", "before_tool", "after_tool", "approve_tool")
_LONGEST_SECONDS = 60  # a caller waits for it


class BadHooks(InvalidRequest):
    """The hooks file is not fit to be used."""

    code = "bad_hooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook(Wire):
    """One hook process.

    `intercept` are the methods that it is asked; `observe` the kinds of events that it is told,
    `*` for all. Lower `priority` is asked first, then by name. Times are in seconds. Its approval
    only means no objection, unless `may_allow`; its results stand in for the tool only with
    `may_respond`. `env` is added to a small environment of its own.
    """

    command: tuple[str, ...]
    dir: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    priority: int = 100
    intercept: tuple[str, ...] = ("approve_tool",)
    observe: tuple[str, ...] = ()
    timeout: float = 5.0
    may_allow: bool = False
    may_respond: bool = False

    def __post_init__(self) -> None:
        if not self.command:
            raise InvalidRequest("a hook names the command that runs it")
        if unknown := set(self.intercept) - set(INTERCEPTS):
            raise InvalidRequest(f"there is no method {sorted(unknown)[0]!r} to intercept")
        if not 0 < self.timeout <= _LONGEST_SECONDS:
            raise InvalidRequest(f"a timeout lies between 0 and {_LONGEST_SECONDS} seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksFile(Wire):
    """What the file may hold."""

    hooks: dict[str, Hook] = field(default_factory=dict)


def read_hooks(path: Path) -> dict[str, Hook]:
    """Return the hooks by name, in the order in which they are asked; raises BadHooks."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        found = parse_message(HooksFile, json.dumps(values, allow_nan=False).encode())
    except (OSError, ValueError, TypeError, InvalidRequest) as error:
        raise BadHooks(f"the hooks file {path} cannot be used: {error}") from None
    ordered = sorted(found.hooks.items(), key=lambda item: (item[1].priority, item[0]))
    return dict(ordered)
