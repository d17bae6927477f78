"""Names that agents choose never pass for the gateway's own words, on any surface."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from adapters.discord.cards import CARD_CHARS, CARD_LINES, build_card_view
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.full_view import build_full_view as discord_view
from adapters.discord.full_view import page_fits
from adapters.slack import cards, modals
from adapters.slack.commands import build_request_entry
from adapters.slack.payloads import ModalMetadata
from adapters.terminal import screen
from adapters.terminal.cards import render_card
from adapters.web.cards import build_row
from gateway.api.messages import masked_view
from gateway.cards.card import card_of, full_view
from gateway.cli.requests import format_request, format_row, summarize_action
from gateway.domain.records import StoredRequest
from gateway.models import Context, Origin
from tests.contract.hostile_requests import NAMES, as_tool, draw_name
from tests.contract.surfaces import ALL, COPY, printed, sent
from tests.discord.limits import TEXT, walk
from tests.discord.pictures import stored
from tests.sweeps import sweep
from tests.world import request

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"…?')
_NUMBER = re.compile(r"\b[0-9a-f]*\d[0-9a-f]*…?(?:[ :]\d+)*")
_FENCE = re.compile(r"```.*?\n```", re.DOTALL)
_CODE = re.compile(r"(?<!\\)`[^`\n]*`")
_MADE_FROM_NAMES = "If remembered, it covers only the same"


def named(name: str, *, agent: str = "bot", session: str = "default") -> StoredRequest:
    """Return a request in which everything that has a name has this one."""
    return stored(
        request(
            id="ab12" * 8,
            agent=agent,
            session=session,
            tool=as_tool(name) or "x",
            arguments={name: "one\ntwo", f"{name} ": 1, "nested": {name: name}},
            payload={name: 1},
            context=Context(host=name, cwd=name, env={name: "1"}, files={name: "ab" * 32}),
            origin=Origin(sender=name[:100] or None, parent_agent=agent),
        ),
        findings=(),  # they depend on the name
        finding_places=(),
    )


def slack(record: StoredRequest) -> Iterator[str]:
    """Return our words on the card, in the list, and in Details."""
    card = card_of(record, lines=cards.CARD_LINES, chars=cards.CARD_CHARS)
    text, made = cards.build_message(card, COPY)
    notice = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    yield from _QUOTED.split(_without_agent(record, notice).replace("…", ""))
    yield from _slack_words(made)
    yield from _slack_words(build_request_entry(record))
    full = full_view(record, fits=modals.page_fits)
    form = ModalMetadata(record.id, record.revision, COPY, "C1", "1.1")
    whole = card_of(record, lines=ALL, chars=ALL)
    yield from _slack_words(modals.build_details(whole, full, form, refusal=""))
    yield from _slack_words(modals.build_deny(whole, form))


def _without_agent(record: StoredRequest, notice: str) -> str:
    """Return a notification with its agent quoted: there alone it stands bare, as somebody who
    wants or asks something, or whose request it was."""
    agent = re.escape(record.request.agent)
    return re.sub(rf"(^|· ){agent}(?= wants to | asks |:)", r'\1"agent"', notice, count=1)


def _slack_words(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _slack_words(one)
    elif isinstance(value, dict) and value.get("type") not in (
        "rich_text_preformatted",
        "rich_text_quote",
    ):
        if isinstance(value.get("text"), str) and not _is_code(value):
            yield from re.split(r"\n(?=⚠️ )", value["text"])  # each warning is a line
        for one in value.values():
            if isinstance(one, dict | list):
                yield from _slack_words(one)


def _is_code(value: dict[str, Any]) -> bool:
    """Whether a text stands in code style, in which nothing is ours."""
    return isinstance(value.get("style"), dict) and bool(value["style"].get("code"))


def discord(record: StoredRequest) -> Iterator[str]:
    """Return our words on the card and in the full view."""
    card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
    whole = card_of(record, lines=ALL, chars=ALL)
    button = DiscordButton(verb="read", request_id=record.id, revision=record.revision)
    full = discord_view(whole, full_view(record, fits=page_fits), button)
    for shown in (build_card_view(card, COPY), full):
        for one in walk(sent(shown)["components"]):
            if one["type"] == TEXT:
                said = _CODE.sub("", _FENCE.sub("", one["content"]))
                parts = re.split(r"(?<!\\)\*\*|\n", said)
                yield from (re.sub(r"\\([^A-Za-z0-9\s])", r"\1", part) for part in parts)


def inbox(record: StoredRequest) -> Iterator[str]:
    """Return our words in what the page gets: title, labels, facts, notices."""
    view = build_row(record)
    yield from (text for text, is_name in view["summary"] if not is_name)
    for text in (view["tool"], *(one for pair in view["facts"] for one in pair)):
        yield text if isinstance(text, str) else "".join(part for part, _ in text)
    yield from (one["label"] for one in view["blocks"])
    yield from (*view["notices"], view["word"], view["size"])


def terminal(record: StoredRequest) -> Iterator[str]:
    """Return our words on the card: the rows that begin where ours do, and those with facts."""
    card = card_of(record, lines=screen.CARD_LINES, chars=screen.CARD_CHARS)
    rows = printed(render_card(card, now_ms=0)).split("\n")
    yield rows[0].strip("╭╮─ ")
    inside = [row[2:-2].rstrip() for row in rows[1:-2]]
    yield from (row.rstrip("─ ") for row in inside if not row.startswith("  "))
    facts = next(row for row in inside if row.startswith("  Agent "))
    yield from re.split(r"   (?=[A-Z])", facts.strip())


def command_line(record: StoredRequest) -> Iterator[str]:
    """Return the labels of `gateway show`, who asks with what, and the rest of its row."""
    shown = json.loads(json.dumps(masked_view(record)))
    rows = format_request(shown).split("\n")
    labels = [row[:21].strip() for row in rows]
    yield from labels
    yield from (row for row in rows if row.startswith(("tool ", "asked by ")))
    yield from format_row(shown).replace(summarize_action(shown)[0], "").split("\n")


VOICES = {
    "Slack": slack,
    "Discord": discord,
    "inbox": inbox,
    "terminal": terminal,
    "command line": command_line,
}
HARMLESS = (
    *(
        "command",
        "cmd",
        "script",
        "password",
        "token",
        "x",
        "x" * 45,
        "x" * 60,
        "x" * 90,
        "x" * 900,
    ),
    *("x\u200b", "\u0441at", "\u0441at\u200b", "", " ", "xargs -a token /tmp/evil/install.sh"),
)


def ours(text: str) -> str:
    """Return a text of ours without what is quoted in it, and without numbers."""
    said = _NUMBER.sub("#", _QUOTED.sub('""', text)).removeprefix("Not shown here: ")
    return " ".join(said.split())


def told(surface: str, record: StoredRequest) -> set[str]:
    """Return what the gateway says of a request in its own voice."""
    said = (text for text in VOICES[surface](record) if _MADE_FROM_NAMES not in text)
    return {ours(text) for text in said}


@sweep(("step", "count"), [(4, 5), (1, 150)], few=1)
@pytest.mark.parametrize("surface", VOICES)
def test_no_name_is_a_word_of_the_gateway(surface: str, step: int, count: int) -> None:
    """Whatever names an agent gives, the gateway's own words are those that harmless names get:
    each name stands quoted, so a tool may be called Approved and is none."""
    allowed = {"argument"}.union(*(told(surface, named(name)) for name in HARMLESS))
    drawn = [draw_name(Random(number)) for number in range(count)]
    for name in (*NAMES[::step], *drawn):
        assert told(surface, named(name)) - allowed == set(), repr(name)


@pytest.mark.parametrize("surface", VOICES)
def test_no_agent_and_no_session_is_a_word_of_the_gateway(surface: str) -> None:
    """They have fewer letters to choose from, and stand quoted all the same."""
    allowed = told(surface, named("x"))
    for agent, session in (("approved-by-ana", "Approved/by:ana@16:40"), ("low_risk", "Low")):
        record = named("x", agent=agent, session=session)
        assert told(surface, record) - allowed == set()
        assert all(name not in one for name in (agent, session) for one in told(surface, record))


def test_quoting_is_what_is_looked_for() -> None:
    """A name that stood there as it is would be found."""
    assert ours('Agent "bot" 12') == 'Agent "" #'
    assert ours("✅ Approved by ana at 16:40") not in set().union(
        *(told(one, named("x")) for one in VOICES)
    )
