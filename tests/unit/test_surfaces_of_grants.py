"""What every surface says beside a request and a grant: why it asks, and what a grant covers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from adapters.discord.cards import MessageContent, build_card_view
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.full_view import build_full_view as build_discord_page
from adapters.discord.grants import build_grant_view, build_grants_view
from adapters.slack.cards import build_message
from adapters.slack.commands import build_grant_entry
from adapters.slack.modals import build_details
from adapters.slack.payloads import ModalMetadata
from adapters.slack.posting import build_grant_message
from adapters.terminal.cards import render_card
from adapters.terminal.prompts import render_grants
from adapters.web.cards import build_row
from gateway.api.messages import masked_view, view
from gateway.approvals.transitions import erase_content
from gateway.cards.card import card_of, full_view
from gateway.cards.grant_cards import grant_card_of
from gateway.cli.requests import format_request
from gateway.domain.records import StoredRequest
from gateway.models import Status
from gateway.policy.grants.grant import Grant, GrantVoter, Match, Shape
from gateway.stores.record_codec import fields_of, record_from
from gateway.wire.codec import plain
from tests.grants.making import granted
from tests.unit.test_transitions import record
from tests.world import AGENT, request

SECRET = "ghp_" + "a1B2" * 9
BECAUSE = 'asks because "autorun" is new'
WORDS = 'exactly this: "rm -rf build" in /srv/app, ' + "and more, " * 60 + "to the end"
"""Longer than any surface used to show."""


def asking(because: str = BECAUSE, **details: Any) -> StoredRequest:
    """Return a request that a remembered approval just missed."""
    return replace(record(request=request(**details)), asks_because=because)


def terminal(what: Any) -> str:
    """Return what a terminal shows, without its line ends."""
    out = StringIO()
    Console(file=out, width=4000, color_system=None).print(what)
    return out.getvalue()


def discord(message: MessageContent) -> str:
    """Return the components of a message."""
    view: Any = message.view
    return str(view.to_components())


CARDS: dict[str, Callable[[StoredRequest], str]] = {
    "web": lambda one: json.dumps(build_row(one)),
    "slack": lambda one: json.dumps(build_message(card_of(one, lines=50, chars=2000), "copy")),
    "discord": lambda one: discord(build_card_view(card_of(one, lines=50, chars=2000), "copy")),
    "terminal": lambda one: terminal(render_card(card_of(one, lines=50, chars=2000), now_ms=0)),
    "command line": lambda one: format_request(masked_view(one)),
    "http": lambda one: json.dumps(masked_view(one)),
}


LISTS: dict[str, Callable[[Grant], str]] = {
    "slack card": lambda one: json.dumps(build_grant_message(grant_card_of(one), "copy")),
    "slack list": lambda one: json.dumps(build_grant_entry(one)),
    "discord card": lambda one: discord(build_grant_view(grant_card_of(one), "copy")),
    "discord list": lambda one: discord(build_grants_view([one])),
    "terminal": lambda one: terminal(render_grants([one])),
}


@pytest.mark.parametrize("surface", CARDS)
def test_every_card_says_why_it_asks(surface: str) -> None:
    """One line, on each; none where nothing nearly covered it; secrets in it are masked."""
    shown = CARDS[surface](asking())
    assert "sks because" in shown
    assert "autorun" in shown
    assert "sks because" not in CARDS[surface](asking(""))
    assert SECRET not in CARDS[surface](asking(f"asks because `token` is {SECRET}"))


@pytest.mark.parametrize("surface", ["slack", "discord", "terminal", "web"])
def test_what_has_ended_does_not_ask(surface: str) -> None:
    """A card that was decided says how, and no more why it asked."""
    assert "sks because" not in CARDS[surface](replace(asking(), status=Status.EXPIRED))


def test_why_it_asks_is_kept_erased_and_kept_from_agents() -> None:
    """It is stored with the request, is gone with its content, and names what people remembered."""
    one = asking()
    assert record_from(one.id, {"agent": AGENT, **fields_of(one)}) == one
    assert "asks_because" not in fields_of(replace(one, asks_because=""))
    assert erase_content(one).asks_because == ""
    assert "asks_because" not in plain(view(one, whole=False))


@pytest.mark.parametrize("surface", LISTS)
def test_a_grant_says_everywhere_what_it_covers_who_backs_it_and_how_often(surface: str) -> None:
    """The words to their end, masked; both voters; until when; how many uses are left."""
    backers = tuple(GrantVoter(person=one) for one in ("ann", "bob"))
    match = Match(shape=Shape.EXACT, tool="shell", digest="0" * 64)
    one = granted(match, words=WORDS, backers=backers, max_uses=3)
    shown = LISTS[surface](one)
    for part in ("to the end", "ann", "bob", "used 0 of 3 times", "ntil "):
        assert part in shown, part
    assert SECRET not in LISTS[surface](replace(one, words=f"exactly this: curl {SECRET}"))


def test_details_in_chats_say_what_nobody_declared() -> None:
    """Which values, and where an admin says what they are."""
    one = record(request=request(tool="jot", arguments={"zork": "x", "query": "y", "text": "z"}))
    card, pages = card_of(one, lines=99, chars=9999), full_view(one)
    button = DiscordButton(verb="full", request_id=one.id, revision=1)
    form = ModalMetadata(request_id=one.id, revision=1, copy="copy")
    for shown in (
        json.dumps(build_details(card, pages, form, refusal="")),
        discord(build_discord_page(card, pages, button)),
    ):
        for part in ("zork", "query", "nobody declared these values", "An admin can"):
            assert part in shown, part
    assert full_view(replace(one, status=Status.EXPIRED)).undeclared is None
