"""At most twelve words stand before what runs on every surface, and what was found."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from adapters.discord.cards import (
    CARD_CHARS,
    CARD_LINES,
    build_card_view,
    render_about,
)
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.full_view import build_batch, build_full_view, keep_drawn, page_fits
from adapters.slack import cards, modals
from adapters.slack.modals import build_batch as build_batch_modal
from adapters.slack.payloads import ModalMetadata
from adapters.terminal.cards import render_about as render_about_in_terminal
from adapters.terminal.cards import render_card
from adapters.web.cards import build_row
from gateway.api.messages import masked_view
from gateway.cards.batch_cards import batch_card_of
from gateway.cards.card import card_of, full_view
from gateway.cli.requests import format_request
from gateway.domain.records import Approvers, StoredRequest
from gateway.models import Context, Kind, Risk, RiskLevel
from tests.contract.surfaces import ALL, COPY, printed, sent
from tests.discord.limits import TEXT, walk
from tests.slack.office import words
from tests.slack.states import FILE, OUTSIDE, PAYMENT, asked

MOST = 12
MARK = "marked-so-that-it-is-found"
CALLS: dict[str, StoredRequest] = {
    "command": asked(arguments={"command": f"{MARK} -rf build && make release"}),
    "long": asked(arguments={"command": f"{MARK}\n" + "sudo rm -rf /srv/x\n" * 60}),
    "file": FILE,
    "outside": OUTSIDE,
    "money": PAYMENT,
    "message": asked(
        kind=Kind.TOOL,
        tool="send_email",
        arguments={"to": ["kim@e.example", "a@e.example"], "subject": "Your order", "body": "x"},
    ),
    "tool": asked(kind=Kind.TOOL, tool="publish_page", arguments={"site": "docs", "v": "1.4"}),
    "found": replace(
        asked(arguments={"command": f"{MARK} -rf build"}),
        findings=("removes folders whole", "names a folder of the system's"),
        finding_places=("command", "cwd"),
    ),
    "much found": replace(
        asked(
            arguments={"command": f"{MARK} -rf build"},
            risk=Risk(
                level=RiskLevel.HIGH, reasons=("moves money", "one that is said at length " * 9)
            ),
        ),
        findings=(
            "removes folders whole",
            "names /etc: it is the system's",
        ),
        finding_places=("command", "command"),
    ),
    "abandoned": replace(
        asked(arguments={"command": f"{MARK} -rf build"}),
        findings=("removes folders whole", "names a folder of the system's"),
        finding_places=("command", "cwd"),
        waiting=False,
    ),
    "for nobody": replace(
        PAYMENT, approvers=Approvers(nobody="its route has no approvers"), waiting=False
    ),
    "surrounded": asked(
        arguments={"command": f"{MARK} --all"},
        context=Context(cwd="/etc", host="ci-7", env={"PATH": "/tmp/x"}),
        payload={"a": 1},
    ),
}


def _slack(record: StoredRequest) -> str:
    card = card_of(record, lines=cards.CARD_LINES, chars=cards.CARD_CHARS)
    return " ".join(words(cards.build_message(card, COPY)[1]))


def _discord(record: StoredRequest) -> str:
    card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
    message = sent(build_card_view(card, COPY))
    return " ".join(
        str(one["content"]) for one in walk(message["components"]) if one["type"] == TEXT
    )


def _inbox(record: StoredRequest) -> str:
    row = build_row(record)
    head = "".join(_text(text) for text, _ in row["summary"])
    above = row["above"]
    found = [row["idle"], above["mark"], *map(_text, (*above["findings"], *above["reasons"]))]
    texts = ["\n".join(map(_text, one["lines"])) for one in row["blocks"]]
    names = [one["label"] for one in row["blocks"]] if len(texts) > 1 else [""]
    blocks = [f"{name} {text}" for name, text in zip(names, texts, strict=True)]
    return " ".join((head, *found, *blocks))


def _text(line: Any) -> str:
    return line if isinstance(line, str) else "".join(text for text, _ in line)


def _terminal(record: StoredRequest) -> str:
    card = card_of(record, lines=30, chars=2000)
    return printed(render_card(card, now_ms=record.created))


SURFACES = {"Slack": _slack, "Discord": _discord, "inbox": _inbox, "terminal": _terminal}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("kind", CALLS)
def test_what_runs_begins_within_twelve_words(surface: str, kind: str) -> None:
    """The head, the label of what runs, that the risk is high and why; and what was found."""
    record = CALLS[kind]
    card = card_of(record, lines=30, chars=2000)
    first = card.blocks[0].text.text.split("\n", 1)[0]
    shown = SURFACES[surface](record).replace("\\", "")
    assert first in shown
    # The inbox names a text that stands alone after it.
    named = "" if surface == "inbox" and len(card.blocks) == 1 else card.blocks[0].label
    before = shown.partition(named or first)[0]
    for one in (*card.findings, *card.shorts):
        before = before.replace(one.text, "")
    if surface == "terminal":  # what raised the risk, and that it was cut, stand above
        rows = [row for row in before.split("\n") if "✂" not in row]
        before = "\n".join(rows)
        for one in card.reasons:
            before = before.replace(one.text, "")
        for said in (*card.notices, f"{card.risk.value} risk", card.word):
            before = before.replace(said, "")
    counted = [one for one in before.split() if any(char.isalnum() for char in one)]
    more = 5 if kind == "surrounded" else 0  # folder, environment and payload, all unusual
    assert len(counted) + len(named.split()) <= MOST + more


def test_what_was_found_stands_before_what_runs_in_the_inbox() -> None:
    """The first three, without their place where there is no other. Where one is too long, two
    words say that there is more. Reasons stand there as far as there is room for few words."""
    both = ["removes folders whole", 'names a folder of the system\'s (in "cwd")']
    assert _above(CALLS["found"]) == ("", both, [])
    much = ["removes folders whole", "names /etc: it is the system's"]
    assert _above(CALLS["much found"]) == ("High risk", much, ["moves money"])
    many = replace(CALLS["found"], findings=tuple("abcde"), finding_places=("command",) * 5)
    assert _above(many)[1] == ["a", "b", "c"]
    assert _above(PAYMENT) == ("High risk", [], ["moves money", "amount above 100"])
    long = replace(CALLS["found"], findings=("names a path " * 40,))
    assert _above(long) == ("Look closer", [], [])
    make = asked(arguments={"command": "make"}, payload={"a": 1})
    low = replace(make, risk=Risk(level=RiskLevel.LOW, reasons=("it only reads",)))
    assert _above(low) == ("", [], [])
    # Of several texts it is said in which.
    two = replace(make, findings=("drops data, in payload",))
    assert _above(two)[1] == ["drops data, in payload"]


def _above(record: StoredRequest) -> tuple[str, list[str], list[str]]:
    found = build_row(record)["above"]
    return found["mark"], found["findings"], found["reasons"]


DANGER = replace(
    asked(arguments={"command": f"rm -rf {MARK}"}),
    findings=("removes folders whole",),
    finding_places=("command",),
    risk=Risk(level=RiskLevel.HIGH),
)


def _slack_details(record: StoredRequest) -> str:
    form = ModalMetadata(record.id, record.revision, COPY, "C1", "1.1")
    card, full = card_of(record, lines=ALL, chars=ALL), full_view(record, fits=modals.page_fits)
    return " ".join(words(modals.build_details(card, full, form, refusal="")))


def _slack_batch(record: StoredRequest) -> str:
    form = ModalMetadata(record.id, record.revision, COPY, "C1", "1.1")
    return " ".join(words(build_batch_modal(batch_card_of([record], chars=ALL, each=ALL), form)))


def _slack_modal(record: StoredRequest) -> str:
    form = ModalMetadata(record.id, record.revision, COPY, "C1", "1.1")
    return " ".join(words(modals.build_deny(card_of(record, lines=30, chars=2000), form)))


def _texts(message: Any) -> str:
    found = walk(sent(message)["components"])
    return " ".join(str(one["content"]) for one in found if one["type"] == TEXT)


def _discord_details(record: StoredRequest) -> str:
    button = DiscordButton(verb="read", request_id=record.id, revision=record.revision)
    view = full_view(record, fits=page_fits)
    return _texts(build_full_view(card_of(record, lines=ALL, chars=ALL), view, button, page=0))


def _discord_batch(record: StoredRequest) -> str:
    batch = batch_card_of([record], chars=ALL, each=ALL)
    button = DiscordButton(verb="batch", request_id=record.id, revision=record.revision)
    return _texts(build_batch(keep_drawn(batch), button, ""))


def _show(record: StoredRequest) -> str:
    return format_request(json.loads(json.dumps(masked_view(record))))


PLACES = {
    **SURFACES,
    "Details in Slack": _slack_details,
    "a batch in Slack": _slack_batch,
    "a modal in Slack": _slack_modal,
    "Details in Discord": _discord_details,
    "a batch in Discord": _discord_batch,
    "a modal in Discord": lambda one: render_about(card_of(one, lines=30, chars=2000)),
    "a prompt in a terminal": lambda one: printed(render_about_in_terminal(
        card_of(one, lines=30, chars=2000))),
    "gateway show": _show,
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_what_was_found_stands_between_head_and_call(place: str) -> None:
    """On cards, in batches, on pages, in forms, at the command line, which begins with the tool."""
    shown = PLACES[place](DANGER).replace("\\", "")
    head = "shell" if place == "gateway show" else "Deletes"
    order = [shown.index(one) for one in (head, "removes folders whole", f"rm -rf {MARK}")]
    assert order == sorted(order), shown
