"""What hooks say, with fake secrets of every kind: no event and no approver's view has them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from gateway.api.messages import masked_view
from gateway.cli.serve import LineFormatter
from gateway.domain.audit import event_line
from tests.fake_secrets import fake_secrets
from tests.hooks.stage import Staged
from tests.sweeps import sweep

SAYS: tuple[Callable[[str], dict[str, Any]], ...] = (
    lambda text: {"error": text},
    lambda text: {"before_tool": {"action": text}},
    lambda text: {"before_tool": {"action": "deny_tool", "reason": text}},
    lambda text: {"before_tool": {"action": "respond", "result": {"for_llm": text}}},
    lambda text: {"approve_tool": {"approved": False, "reason": text}},
    lambda text: {"approve_tool": text},
)


@sweep("way", range(len(SAYS)), few=2)
async def test_what_a_hook_says_is_kept_without_its_secrets(
    way: int, staged: Staged, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors, reasons, results and what is no answer: a sixth of the kinds in each, all in all."""
    caplog.set_level(logging.DEBUG)
    stage = await staged()
    kinds = fake_secrets("hooks")[way :: len(SAYS)]
    records = [await stage.asked({"puppet": SAYS[way](one.text)}) for one in kinds]
    events = await stage.world.events()
    views = json.dumps([masked_view(one) for one in records])
    said = views + "".join(map(event_line, events))
    said += "".join(map(LineFormatter().format, caplog.records))
    assert views.count("secret of") >= len(kinds)
    assert [one.kind for one in kinds if one.is_in(said)] == []
