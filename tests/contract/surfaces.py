"""What each surface shows of a request, drawn by its own renderer and read as a person reads it.

Each reader returns what it read, and whether something there can be approved.
"""

from __future__ import annotations

import io
import json
import re
from typing import Any, NamedTuple

from rich.console import Console

from adapters.discord.cards import CARD_CHARS, CARD_LINES, build_card_view
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.full_view import build_full_view as discord_view
from adapters.discord.full_view import page_fits
from adapters.slack import cards, modals
from adapters.slack.commands import build_request_entry
from adapters.slack.payloads import ModalMetadata
from adapters.terminal import screen
from adapters.terminal.cards import GOES_ON, render_card, render_runs
from adapters.web.cards import build_row, build_whole
from gateway.api.messages import masked_view
from gateway.cards.card import card_of, full_view
from gateway.cards.masks import hides
from gateway.cli.requests import format_request, summarize_action
from gateway.domain.records import StoredRequest
from gateway.models import Kind
from tests.contract.read_back import Json, Reader, Section, strict
from tests.contract.texts import unescaped
from tests.discord.limits import TEXT, V2, check_message, walk
from tests.slack.counterpart.blocks import check_message as check_blocks
from tests.slack.counterpart.views import checked_view

COPY = "0" * 22
_NAMED = ("tool", "host", "folder")
ALL = 10**9
WIDTH = 4000
_FENCE = re.compile(r"```(?:bash|diff|json)?\n(.*?)\n```", re.DOTALL)
_DISCORD_FACT = re.compile(r'\*\*(Tool|Host|Folder)\*\* (".*?)(?= · \*\*|\Z)', re.DOTALL)
_DISCORD_LABEL = re.compile(r"(?:\A|\n)\*\*(.*?)\*\*(.*)\n")
_APPROVES = {"approve", "approve_confirmed", "edit", "respond", "remember"}
_LETS_RUN = {"Approve", "Edit", "Respond instead", "Remember…"}


class Read(NamedTuple):
    """What was read, None where some of it cannot be; whether it can be approved there; and whether
    the view promises all of it even where it cannot."""

    what: Json | None
    offers: bool
    promised: bool = False


def read_slack(record: StoredRequest, reader: Reader) -> list[Read]:
    """Read the card, an entry of the list, and Details, all of whose pages are turned."""
    card = card_of(record, lines=cards.CARD_LINES, chars=cards.CARD_CHARS)
    _, made = cards.build_message(card, COPY)
    check_blocks(made, cards.MOST_UNITS)
    entry = build_request_entry(record)
    return [
        _read_slack_blocks(made, reader),
        _read_slack_blocks(entry, reader),
        _read_slack_pages(record, reader),
    ]


def _read_slack_blocks(made: list[Json], reader: Reader) -> Read:
    """Read the labelled boxes and the facts of a message."""
    offers = bool(_APPROVES & _actions(made))
    parts = [part for one in made if one["type"] == "rich_text" for part in one["elements"]]
    sections: list[Section] = []
    facts: Json = {}
    for part, after in zip(parts, [*parts[1:], {}], strict=True):
        said = part["elements"]
        if part["type"] != "rich_text_section":
            continue
        label = "".join(str(one["text"]) for one in said)
        if after.get("type") == "rich_text_preformatted" and not _is_ours(label):
            sections.append((label, after["elements"][0]["text"]))
        elif label.startswith("⏳ "):
            facts["tool"] = label.rsplit(" · ", 1)[0].split(" · ", 1)[1]
        elif label.startswith("Agent ") and not said[0].get("style", {}).get("code"):  # no tool's
            facts |= _slack_facts(said)
        elif label.startswith("Not shown here: ") or label.endswith(" more: not shown here"):
            return Read(None, offers)
    return Read(gather(sections, facts, reader), offers)


def _is_ours(label: str) -> bool:
    return label.startswith(("Changed by ", "The agent's preview"))


def _slack_facts(said: list[Json]) -> Json:
    pairs = zip(said[::2], said[1::2], strict=True)
    facts = {name["text"].strip(" ·").lower(): text["text"] for name, text in pairs}
    return {name: text for name, text in facts.items() if name in _NAMED}


def gather(sections: list[Section], facts: Json, reader: Reader) -> Json | None:
    """Return what was read, None where some of it was cut."""
    named = {label.removeprefix("name of the ") for label, _ in sections}
    facts = {name: text for name, text in facts.items() if name not in named}
    try:
        return reader.gather(sections, facts)
    except ValueError:
        return None


def _read_slack_pages(record: StoredRequest, reader: Reader) -> Read:
    full = full_view(record, fits=modals.page_fits)
    card = card_of(record, lines=ALL, chars=ALL)
    pages, offers, facts = "", False, {}
    for page in range(len(full.pages)):
        assert not offers, "only the last page has it"
        form = ModalMetadata(record.id, record.revision, COPY, "C1", "1.1", page=page)
        view = modals.build_details(card, full, form, refusal="")
        checked_view(view, "modal")
        boxes = {one.get("block_id"): one for one in view["blocks"]}
        pages += boxes["page"]["elements"][0]["elements"][0]["text"]
        if page == 0:
            facts = _slack_facts(boxes["about"]["elements"][0]["elements"])
        offers = bool(_APPROVES & _actions(view["blocks"]))
    return Read(gather(reader.full(pages), facts, reader), offers, promised=True)


def _actions(made: list[Json]) -> set[str]:
    """Return what the buttons of a message do, and the entries of its menu."""
    rows = [one for one in made if one["type"] == "actions"]
    found = [one for row in rows for one in row["elements"]]
    menus = [option["value"] for one in found for option in one.get("options", ())]
    return {one["action_id"] for one in found} | {str(one).split(" ")[0] for one in menus}


def read_discord(record: StoredRequest, reader: Reader) -> list[Read]:
    """Read the card, and the full view, all of whose pages are turned."""
    card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
    return [
        _read_discord_card(sent(build_card_view(card, COPY)), reader),
        _read_discord_pages(record, reader),
    ]


def sent(shown: Any) -> Json:
    """Return a Discord message, checked against its limits."""
    body: Json = {"flags": V2, "components": shown.view.to_components()}
    check_message(body, files={"request.txt"})
    return body


def _read_discord_card(message: Json, reader: Reader) -> Read:
    said = [one["content"] for one in walk(message["components"]) if one["type"] == TEXT]
    offers = bool(_LETS_RUN & _pressable(message))
    boxes = next((one for one in said if "```" in one), "")
    labels = [_unmarked("".join(one)) for one in _DISCORD_LABEL.findall(_FENCE.sub("", boxes))]
    found = _FENCE.findall(boxes)
    if len(labels) != len(found):
        return Read(None, offers)
    sections = list(zip(labels, found, strict=True))
    return Read(gather(sections, _discord_facts(said), reader), offers)


def _discord_facts(said: list[str]) -> Json:
    line = next((one for one in said if one.startswith("**Agent**")), "")
    return {one[1].lower(): _unmarked(one[2]) for one in _DISCORD_FACT.finditer(line + "")}


def _unmarked(text: str) -> str:
    """Return text as Discord shows it: a backslash before punctuation is gone."""
    return re.sub(r"\\([^A-Za-z0-9\s])", r"\1", text)


def _pressable(message: Json) -> set[str]:
    return {
        str(one["label"]).split("…")[0] if "Approve" in one["label"] else str(one["label"])
        for one in walk(message["components"])
        if one.get("label")
    }


def _read_discord_pages(record: StoredRequest, reader: Reader) -> Read:
    view = full_view(record, fits=page_fits)
    button = DiscordButton(verb="read", request_id=record.id, revision=record.revision)
    card = card_of(record, lines=ALL, chars=ALL)
    pages, offers, facts = "", False, {}
    for page in range(len(view.pages)):
        assert not offers, "only the last page has it"
        message = sent(discord_view(card, view, button, page=page))
        said = [one["content"] for one in walk(message["components"]) if one["type"] == TEXT]
        (box,) = [one for one in said if one.startswith("```")]
        found = _FENCE.fullmatch(box)
        assert found is not None and "```" not in found[1]
        pages += found[1]
        facts = _discord_facts(said)
        offers = bool(_LETS_RUN & _pressable(message))
    return Read(gather(reader.full(pages), facts, reader), offers, promised=True)


def read_web(record: StoredRequest, reader: Reader) -> list[Read]:
    """Read what the page gets for a row, and for a request that was opened."""
    return [
        read_card_json(json.loads(json.dumps(view)), reader)
        for view in (build_row(record), build_whole(record))
    ]


def read_card_json(view: Json, reader: Reader) -> Read:
    """Read a card as the page gets it."""
    offers = any(one["action"] in ("approve", "edit", "respond") for one in view["controls"])
    facts = {label.lower(): _line(text) for label, text in view["facts"]}
    named = {name: facts[name] for name in ("host", "folder") if name in facts}
    sections = [(one["label"], "\n".join(map(_line, one["lines"]))) for one in view["blocks"]]
    read = gather(sections, {"tool": _line(view["tool"]), **named}, reader)
    return Read(read, offers, promised=view["complete"])


def _line(text: Any) -> str:
    return text if isinstance(text, str) else "".join(part for part, _ in text)


def read_terminal(record: StoredRequest, reader: Reader) -> list[Read]:
    """Read the full text, and the card where it can be approved. Rich writes tabs as spaces and
    ends lines without any, so white space is left aside on the card."""
    view = full_view(record)
    card = card_of(record, lines=screen.CARD_LINES, chars=screen.CARD_CHARS)
    whole = card_of(record, lines=ALL, chars=ALL)
    drawn = "".join(printed(one) for one in render_runs(whole.blocks))
    assert _squeezed(unfold(drawn)) == _squeezed(view.text)
    facts = {one.label.lower(): one.text.text for one in whole.facts}
    named: Json = {name: facts[name] for name in ("host", "folder") if name in facts}
    read = gather(reader.full(view.text), {"tool": whole.tool.text, **named}, reader)
    if card.complete:
        _check_terminal_card(card)
    return [Read(read, not whole.hides, promised=True)]


def _check_terminal_card(card: Any) -> None:
    """Only headings of ours begin where ours do, and below each stands its text."""
    rows = [row[2:-2].rstrip() for row in printed(render_card(card, now_ms=0)).split("\n")[1:-2]]
    headings = [row.rstrip("─ ") for row in rows if row.endswith("──") and not row.startswith("  ")]
    labels = [one.label for one in card.blocks]
    begin = headings.index(labels[0]) if labels else 0
    assert headings[begin : begin + len(labels)] == labels
    inside = "".join(unfold(row) for row in rows if row.startswith("  ") or not row)
    for block in card.blocks:
        assert _squeezed(block.text.text) in _squeezed(inside)
    for one in card.facts:
        assert _squeezed(one.text.text) in _squeezed(inside)


def printed(content: Any) -> str:
    """Return what Rich writes of something, without colours."""
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, legacy_windows=False).print(content)
    return out.getvalue()


def unfold(text: str) -> str:
    """Take away what stands before each row that was folded."""
    return re.sub(rf"^ *[-+@]?{GOES_ON}", "", text, flags=re.MULTILINE)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def read_command_line(record: StoredRequest, reader: Reader) -> list[Read]:
    """Read `gateway show`, and the one line by which `gateway approve` may do without it."""
    shown = json.loads(json.dumps(masked_view(record)))
    seen, all_of_it = summarize_action(shown)
    line = _read_line(seen, record, reader) if all_of_it else None
    offers = not hides(record)
    rows = _read_rows(format_request(shown).split("\n"), reader)
    return [Read(line, all_of_it and offers), Read(rows, offers, promised=True)]


_LINE_PARTS = {
    "payload ": "payload",
    "changed environment ": "environment",
    "files ": "files",
    "in the folder ": "folder",
    "on the host ": "host",
}


def _read_line(seen: str, record: StoredRequest, reader: Reader) -> Json:
    read: Json = {"payload": None, "environment": {}, "files": {}, "folder": None, "host": None}
    decoder, at, text = json.JSONDecoder(), 0, unescaped(seen)
    while at < len(text):
        at += 2 if text.startswith("  ", at) else 0
        label = next((one for one in _LINE_PARTS if text.startswith(one, at)), "")
        value, at = decoder.raw_decode(text, at + len(label))
        said = reader.said(value)
        alone = not label and isinstance(said, str) and record.request.kind is Kind.COMMAND
        read[_LINE_PARTS.get(label, "arguments")] = {"command": said} if alone else said
    return {**read, "tool": record.request.tool}


_ROWS = {
    "tool": "tool",
    "in the folder": "folder",
    "on the host": "host",
    "wants to run": "arguments",
    "payload": "payload",
    "changed environment": "environment",
    "files": "files",
}


def _read_rows(rows: list[str], reader: Reader) -> Json:
    read: Json = {"payload": None, "environment": {}, "files": {}, "folder": None, "host": None}
    parts: list[Section] = []
    for row in rows:
        label, text = row[:21].strip(), row[21:]
        if label:
            parts.append((label, text))
        else:
            parts[-1] = (parts[-1][0], f"{parts[-1][1]}\n{text}")
    several = ("and", "⚠️ guardrail", "🔴 guardrail")  # one for each finding
    labels = [label for label, _ in parts if label not in several]
    assert len(set(labels)) == len(labels)
    last = ""
    for label, text in parts:
        last = last if label == "and" else label
        if last in _ROWS:
            more = read[_ROWS[last]] if label == "and" else {}
            said = reader.said(_read_member(text) if text.startswith('"') and "\n" in text
                               else strict(text))  # fmt: skip
            read[_ROWS[last]] = {**more, **said} if more else said
    return read


def _read_member(text: str) -> Json:
    """Return the one member of a part that is printed as its lines."""
    head, lines = text.split("\n", 1)
    name, _, counted = head.rpartition(" has ")
    assert counted == f"{lines.count(chr(10)) + 1} lines:"
    return {str(strict(name)): unescaped(lines)}


SURFACES = {
    "Slack": read_slack,
    "Discord": read_discord,
    "inbox": read_web,
    "terminal": read_terminal,
    "command line": read_command_line,
}
