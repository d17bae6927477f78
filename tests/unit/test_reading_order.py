"""What is short is read before what is long, wherever an agent put it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.discord.cards import CARD_CHARS, CARD_LINES, build_card_view
from adapters.discord.full_view import page_fits
from adapters.slack import cards, modals
from adapters.terminal import screen
from adapters.web.cards import ROW_CHARS, ROW_LINES
from gateway.api.messages import masked_view
from gateway.cards.card import card_of, full_view
from gateway.cli.requests import format_request
from gateway.domain.argument_order import put_short_first
from gateway.domain.records import StoredRequest
from gateway.models import Context
from tests.contract.surfaces import sent as as_message
from tests.discord.pictures import stored
from tests.world import request

LONG = "\n".join(f"line {number}" for number in range(700))
SHORT = ("/etc/cron.d/evil", "0777", "/srv/folder", "LD_PRELOAD", "/srv/bound.py")
SIZES = {
    "Slack": (cards.CARD_LINES, cards.CARD_CHARS),
    "Discord": (CARD_LINES, CARD_CHARS),
    "inbox": (ROW_LINES, ROW_CHARS),
    "terminal": (screen.CARD_LINES, screen.CARD_CHARS),
}


def hidden(**long: Any) -> StoredRequest:
    """Return a request with long arguments around the short ones, which matter most."""
    (first, value), *rest = long.items()
    arguments = {first: value, "path": SHORT[0], **dict(rest), "mode": SHORT[1]}
    context = Context(
        cwd=SHORT[2], host="ci-7", env={"LD_PRELOAD": "/tmp/x.so"}, files={SHORT[4]: "ab" * 32}
    )
    return stored(request(tool="write_file", arguments=arguments, context=context))


RECORDS = (
    hidden(content=LONG),
    hidden(command=LONG),
    hidden(content="x" * 20_000, more=LONG),
    hidden(edits=[{"text": LONG}, {"text": "x" * 9000}]),
    hidden(lines=[f"line {number}" for number in range(700)]),
)


@pytest.mark.parametrize("surface", SIZES)
def test_a_card_shows_what_is_short_before_it_is_cut(surface: str) -> None:
    """Path, mode, environment, bound files and folder stand on the card, however long the rest."""
    lines, chars = SIZES[surface]
    for record in RECORDS:
        card = card_of(record, lines=lines, chars=chars)
        assert not card.complete
        said = "\n".join(
            [*(one.text.text for one in card.blocks), *(one.text.text for one in card.facts)]
        )
        assert [one for one in SHORT if one not in said] == []


def test_what_is_sent_shows_what_is_short() -> None:
    """In the messages themselves, and on the first page of each full view."""
    for record in RECORDS:
        slack = card_of(record, lines=cards.CARD_LINES, chars=cards.CARD_CHARS)
        discord = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
        sent = json.dumps(cards.build_message(slack, "0" * 22)[1])
        shown = json.dumps(as_message(build_card_view(discord, "0" * 22)))
        for one in SHORT:
            assert one in sent
            assert one in shown.replace("\\\\", "")
        for fits in (modals.page_fits, page_fits):
            (page, *_) = full_view(record, fits=fits).pages
            assert all(one in page.text for one in SHORT if one != SHORT[2])


def test_the_command_line_prints_what_is_short_first() -> None:
    """`gateway show`: no long text stands before it."""
    for record in RECORDS:
        text = format_request(masked_view(record))
        begun = text[: text.index("line 1") if "line 1" in text else text.index("x" * 400)]
        assert [one for one in SHORT if one not in begun] == []


def test_within_an_object_too_short_members_come_first() -> None:
    """However deep; lists keep their order, and nothing is lost."""
    given = {"edit": {"text": LONG, "path": "/etc/x", "more": "y" * 400}, "list": ["z" * 900, 1]}
    made = put_short_first(given)
    assert made == given
    assert list(made) == ["list", "edit"]
    assert list(made["edit"]) == ["path", "more", "text"]
    assert put_short_first({"b": 1, "a": 2, "c": [{}]}) == {"b": 1, "a": 2, "c": [{}]}
    assert list(put_short_first({"b": 1, "a": 2})) == ["b", "a"]
