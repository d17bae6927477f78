"""What became of an approved action is told on every surface in one sentence, by who says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from adapters.discord.cards import build_card_view, build_outcome_view
from adapters.discord.interactions import build_refusal
from adapters.slack import cards
from adapters.slack.app import describe_error
from adapters.terminal.cards import render_card
from adapters.web.cards import build_row
from gateway.cards.card import Card, card_of
from gateway.domain.records import StoredRequest
from gateway.models import AGENT_EXECUTIONS, Action, Execution, Report, Status
from gateway.stores.scripts import NotRecorded
from tests.contract.surfaces import COPY, printed, sent
from tests.unit.test_cards import decided

NEVER_FETCHED = "The agent never claimed the approval and can no longer use it"

SURFACES: dict[str, Callable[[StoredRequest, Card], str]] = {
    "Slack": lambda _, card: json.dumps(cards.build_message(card, COPY)),
    "Discord": lambda _, card: json.dumps(sent(build_card_view(card, COPY))),
    "Discord's notice": lambda _, card: json.dumps(sent(build_outcome_view(card))),
    "inbox": lambda record, _: json.dumps(build_row(record)),
    "terminal": lambda _, card: printed(render_card(card, now_ms=0)),
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("execution", AGENT_EXECUTIONS)
def test_it_is_told_in_one_sentence_by_who_says_so(surface: str, execution: Execution) -> None:
    """The same one everywhere, and nowhere as a fact."""
    record, card = reported(execution)
    assert card.result is not None
    sentence = card.result.text
    assert sentence.startswith("The agent reports that the call ")
    shown = SURFACES[surface](record, card).replace("\\", "")
    before, found, _ = shown.partition(sentence)
    assert found and not re.search(r"\bit:?$", before.rstrip(), re.IGNORECASE)
    assert shown.lower().count("agent reports") == 1


@pytest.mark.parametrize("surface", SURFACES)
def test_how_long_it_ran_is_the_agents_word(surface: str) -> None:
    """A card that ended says it in three words, and whose they are."""
    record, _ = reported(Execution.SUCCEEDED)
    record = replace(record, report=Report(execution=Execution.SUCCEEDED, duration_ms=1840))
    shown = SURFACES[surface](record, card_of(record, lines=30, chars=1500)).replace("\\", "")
    assert "The agent says: ran for 1.8 s" in shown
    assert shown.count("1.8 s") == 1


@pytest.mark.parametrize("surface", SURFACES)
def test_what_the_gateway_knows_is_no_word_of_the_agents(surface: str) -> None:
    """That nobody fetched an approval stands where an agent's report would, once."""
    record, card = reported(Execution.NEVER_FETCHED)
    shown = SURFACES[surface](record, card).replace("\\", "")
    assert shown.count(NEVER_FETCHED) == 1 and "agent says" not in shown.lower()


def test_why_nothing_is_recorded_is_told_to_who_taps() -> None:
    """Not that the gateway is away: it is not, and trying again helps only later."""
    error = NotRecorded("nothing was recorded: this Redis is a read-only replica")
    assert "this Redis is a read-only replica" in describe_error(error)
    discord = json.dumps(sent(build_refusal(error).shown))
    assert "this Redis is a read\\\\-only replica" in discord


def reported(execution: Execution) -> tuple[StoredRequest, Card]:
    """Return an approved record of which this is told, and its card."""
    done = decided(Status.APPROVED, action=Action.APPROVE)
    record = replace(done, report=Report(execution=execution))
    return record, card_of(record, lines=30, chars=1500)
