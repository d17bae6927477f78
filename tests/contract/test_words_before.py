"""At most twelve words stand before the first character of what runs, on every surface."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.discord.card_views import CARD_CHARS, CARD_LINES, build_card_view
from adapters.slack import card_blocks
from adapters.terminal.card_text import render_card
from adapters.web.card_json import build_row
from gateway.domain.records import Approvers, Record
from gateway.models import Context, Kind, Risk, RiskLevel
from gateway.ports.cards import card_of
from tests.contract.surfaces import COPY, printed, sent
from tests.discord.limits import TEXT, walk
from tests.slack.office import words
from tests.slack.states import FILE, OUTSIDE, PAYMENT, asked

MOST = 12
MARK = "marked-so-that-it-is-found"
CALLS: dict[str, Record] = {
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
        PAYMENT, approvers=Approvers(nobody="its route names no approvers"), waiting=False
    ),
    "surrounded": asked(
        arguments={"command": f"{MARK} --all"},
        context=Context(cwd="/etc", host="ci-7", env={"PATH": "/tmp/x"}),
        payload={"a": 1},
    ),
}


def _slack(record: Record) -> str:
    card = card_of(record, lines=card_blocks.CARD_LINES, chars=card_blocks.CARD_CHARS)
    return " ".join(words(card_blocks.build_message(card, COPY)[1]))


def _discord(record: Record) -> str:
    card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
    message = sent(build_card_view(card, COPY))
    return " ".join(
        str(one["content"]) for one in walk(message["components"]) if one["type"] == TEXT
    )


def _inbox(record: Record) -> str:
    row = build_row(record)
    head = "".join(_text(text) for text, _ in row["head"])
    above = row["above"]
    found = [row["idle"], above["mark"], *map(_text, (*above["findings"], *above["reasons"]))]
    texts = ["\n".join(map(_text, one["lines"])) for one in row["blocks"]]
    names = [one["label"] for one in row["blocks"]] if len(texts) > 1 else [""]
    blocks = [f"{name} {text}" for name, text in zip(names, texts, strict=True)]
    return " ".join((head, *found, *blocks))


def _text(line: Any) -> str:
    return line if isinstance(line, str) else "".join(text for text, _ in line)


def _terminal(record: Record) -> str:
    card = card_of(record, lines=30, chars=2000)
    return printed(render_card(card, now_ms=record.created))


SURFACES = {"Slack": _slack, "Discord": _discord, "inbox": _inbox, "terminal": _terminal}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("kind", CALLS)
def test_what_runs_begins_within_twelve_words(surface: str, kind: str) -> None:
    """The head, the label of what runs, in the inbox what was found as far as that is short, and
    nothing else but what was found, in a terminal: its screen ends below."""
    record = CALLS[kind]
    card = card_of(record, lines=30, chars=2000)
    first = card.blocks[0].text.text.split("\n", 1)[0]
    shown = SURFACES[surface](record).replace("\\", "")
    assert first in shown
    # The inbox names a text that stands alone after it.
    named = "" if surface == "inbox" and len(card.blocks) == 1 else card.blocks[0].label
    before = shown.partition(named or first)[0]
    if surface == "terminal":  # what was found, and that it was cut, stand above
        rows = [row for row in before.split("\n") if "✂" not in row]
        before = "\n".join(rows)
        for one in (*card.reasons, *card.findings):
            before = before.replace(one.text, "")
        for said in (*card.notices, f"{card.risk.value} risk", card.word):
            before = before.replace(said, "")
    counted = [one for one in before.split() if any(char.isalnum() for char in one)]
    more = 5 if kind == "surrounded" else 0  # folder, environment and payload, all unusual
    assert len(counted) + len(named.split()) <= MOST + more


def test_what_was_found_stands_before_what_runs_in_the_inbox() -> None:
    """As much of it as there is room for, without its place where there is no other; where nothing
    fits, two words say that there is more."""
    assert _above(CALLS["found"]) == ("", ["removes folders whole"], [])
    assert _above(CALLS["much found"]) == ("High risk", ["removes folders whole"], [])
    assert _above(PAYMENT) == ("High risk", [], ["moves money", "amount above 100"])
    long = replace(CALLS["found"], findings=("names a path " * 40,))
    assert _above(long) == ("Look closer", [], [])
    low = asked(risk=Risk(level=RiskLevel.LOW, reasons=("it only reads",)))
    assert _above(low) == ("", [], [])
    # Of several texts it is said in which.
    two = replace(asked(payload={"a": 1}), findings=("drops data, in payload",))
    assert _above(two)[1] == ["drops data, in payload"]


def _above(record: Record) -> tuple[str, list[str], list[str]]:
    found = build_row(record)["above"]
    return found["mark"], found["findings"], found["reasons"]
