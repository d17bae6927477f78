"""The kind of a request is said on every surface in the same words, where it says something."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from adapters.discord.cards import build_card_view
from adapters.slack import cards
from adapters.terminal.cards import render_card
from adapters.web.cards import build_row
from gateway.api.messages import masked_view
from gateway.cards.card import Card, card_of
from gateway.cli.requests import format_request
from gateway.domain.records import StoredRequest
from gateway.models import Kind, Question
from tests.contract.surfaces import COPY, printed, sent
from tests.discord.pictures import stored
from tests.world import request

_MARKUP = re.compile(r'"(?:type|text|style|bold)":')
WORDS = {
    Kind.COMMAND: "command",
    Kind.FILE_CHANGE: "file change",
    Kind.PLAN: "plan",
    Kind.CALLS: "plan of calls",
}
_PLAN: dict[str, Any] = {"calls": [{"tool": "make", "arguments": {}}]}


def drawn(record: StoredRequest) -> Card:
    """Return the card of a record with room for all of it."""
    return card_of(record, lines=30, chars=1500)


SURFACES: dict[str, Callable[[StoredRequest], str]] = {
    "Slack": lambda one: json.dumps(cards.build_message(drawn(one), COPY)),
    "Discord": lambda one: json.dumps(sent(build_card_view(drawn(one), COPY))),
    "inbox": lambda one: json.dumps(build_row(one)["facts"]),
    "terminal": lambda one: printed(render_card(drawn(one), now_ms=0)),
    "command line": lambda one: format_request(json.loads(json.dumps(masked_view(one)))),
}


def said(surface: str, kind: Kind) -> list[str]:
    """Return what a surface says of the kind, in letters: each words it in its own markup."""
    questions = (Question(id="q", text="Which?"),) if kind is Kind.QUESTION else ()
    more = {"arguments": _PLAN} if kind is Kind.CALLS else {}
    shown = SURFACES[surface](stored(request(kind=kind, questions=questions, **more)))
    letters = " ".join(re.findall(r"[a-z]+", _MARKUP.sub("", shown.lower())))
    return re.findall(
        r"\bkind (?:text )?(command|file change|plan of calls|plan|tool|question)", letters
    )


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("kind", Kind)
def test_the_kind_is_said_in_the_same_words(surface: str, kind: Kind) -> None:
    """Once, in plain words; a call of a tool is what most are, and a question says so itself."""
    assert said(surface, kind) == ([WORDS[kind]] if kind in WORDS else [])
