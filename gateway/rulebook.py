"""The rules that an operator writes for the policy chain. Values only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from gateway.models import Kind
from gateway.wire import Wire


class RuleEffect(StrEnum):
    """What a rule does: `ask` means that people decide, whatever would allow it."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


class Guardrails(StrEnum):
    """What becomes of requests that look destructive or reach for secrets."""

    OFF = "off"
    SHADOW = "shadow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule(Wire):
    """One rule. All that is given must fit; a list fits when any of its entries does.

    `agents` and `tools` are names in which `*` stands for anything. `commands` are the beginnings
    of plain commands, such as `git log`; `folders` hold the paths that a tool names. `contains` are
    strings sought in the arguments without regard to case; an allow has none, because text around
    them could say anything. A rule in `shadow` decides nothing, and the audit says what it would
    have done. `message` is for the agent.
    """

    name: str
    effect: RuleEffect
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    commands: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    shadow: bool = False
    message: str = ""


def named(patterns: Iterable[str], name: str) -> bool:
    """Whether a name is among these, in which `*` stands for anything; none means all names."""
    wanted = tuple(patterns)
    return not wanted or any(_pattern(pattern).fullmatch(name) for pattern in wanted)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)
