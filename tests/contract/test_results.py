"""What became of an approved action is told on every surface in one sentence, by who says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from adapters.discord.card_views import build_card_view, build_outcome_view
from adapters.slack import card_blocks
from adapters.terminal.card_text import render_card
from adapters.web.card_json import build_row
from gateway.domain.records import Record
from gateway.models import Action, Execution, Report, Status
from gateway.ports.cards import Card, card_of
from tests.contract.surfaces import COPY, printed, sent
from tests.unit.test_cards import decided

OUR_OWN = ("never_fetched",)  # no agent says so

SURFACES: dict[str, Callable[[Record, Card], str]] = {
    "Slack": lambda _, card: json.dumps(card_blocks.build_message(card, COPY)),
    "Discord": lambda _, card: json.dumps(sent(build_card_view(card, COPY))),
    "Discord's notice": lambda _, card: json.dumps(sent(build_outcome_view(card))),
    "inbox": lambda record, _: json.dumps(build_row(record)["result"]),
    "terminal": lambda _, card: printed(render_card(card, now_ms=0)),
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("execution", Execution)
def test_it_is_told_in_one_sentence_by_who_says_so(surface: str, execution: Execution) -> None:
    """The same one everywhere; no word of the gateway's passes for the agent's, nor the reverse."""
    done = decided(Status.APPROVED, action=Action.APPROVE)
    record = replace(done, report=Report(execution=execution))
    card = card_of(record, lines=30, chars=1500)
    assert card.result is not None
    sentence = card.result.text
    assert sentence.startswith("The agent says that it ") == (execution not in OUR_OWN)
    shown = SURFACES[surface](record, card).replace("\\\\", "")
    before, found, _ = shown.partition(sentence)
    assert found and not re.search(r"\bit:?$", before.rstrip(), re.IGNORECASE)
    assert shown.lower().count("agent says") == sentence.lower().count("agent says")
