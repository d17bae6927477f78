"""Slack's text objects. Agents' text goes only where Slack does not parse it.

`mrkdwn` is used only for our own text and Slack's date tokens; everything else is plain text
without emoji codes, or rich text, where no mention, link or markup is acted on.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

HEADER_UNITS = 150
LABEL_UNITS = 75
TITLE_UNITS = 24
CONTEXT_UNITS = 3000
INPUT_UNITS = 3000
_ELLIPSIS = "…"


def count_units(text: str) -> int:
    """Return the length in UTF-16 units; Slack never counts more."""
    return len(text) + sum(char > "\uffff" for char in text)


def fit(text: str, most: int) -> str:
    """Return the text, or its start and an ellipsis."""
    if count_units(text) <= most:
        return text
    kept, left = [], most - 1
    for char in text:
        left -= count_units(char)
        if left < 0:
            break
        kept.append(char)
    return "".join(kept) + _ELLIPSIS


def one_line(text: str) -> str:
    """Return the text on one line, so that it cannot start a line of its own."""
    return " ⏎ ".join(text.splitlines()) if "\n" in text or "\r" in text else text


def plain(text: str, most: int = CONTEXT_UNITS) -> Json:
    """Return a plain_text object; Slack refuses empty ones, so those become a dash."""
    return {"type": "plain_text", "text": fit(text, most).strip() or "-", "emoji": False}


def ours(text: str) -> Json:
    """Return a mrkdwn object. Only for our own text."""
    return {"type": "mrkdwn", "text": text}


def escape(text: str) -> str:
    """Return text for the top-level `text` of a message, which Slack parses for mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def moment(at_ms: int) -> str:
    """Return a time that clients show in the reader's time zone; for `ours` only."""
    seconds = at_ms // 1000
    written = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"<!date^{seconds}^{{date_short_pretty}} at {{time}}|{written}>"


def words(text: str, *, bold: bool = False) -> Json:
    """Return a rich text element: shown as it is."""
    element: Json = {"type": "text", "text": text or "-"}
    if bold:
        element["style"] = {"bold": True}
    return element


def line(*elements: Json) -> Json:
    """Return a rich text section."""
    return {"type": "rich_text_section", "elements": list(elements)}


def rich(block_id: str, parts: Iterable[Json]) -> Json:
    """Return a rich text block."""
    return {"type": "rich_text", "block_id": block_id, "elements": list(parts)}


def label_pairs(pairs: Iterable[tuple[str, str]]) -> Json:
    """Return a rich text section of short texts, each with a label."""
    elements: list[Json] = []
    for label, text in pairs:
        gap = "  ·  " if elements else ""
        elements += [words(f"{gap}{label} "), words(one_line(text), bold=True)]
    return line(*elements)


def label(text: str) -> Json:
    """Return a rich text section with one bold line."""
    return line(words(text, bold=True))


def exact(text: str) -> Json:
    """Return text in a fixed-width box, every character as it is."""
    return {"type": "rich_text_preformatted", "elements": [words(text)]}


def quote(text: str) -> Json:
    """Return text as a quotation, on one line."""
    return {"type": "rich_text_quote", "elements": [words(f"“{one_line(text)}”")]}


def header(text: str) -> Json:
    """Return a header block."""
    return {"type": "header", "text": plain(one_line(text), HEADER_UNITS)}


def context(*elements: Json) -> Json:
    """Return a context block."""
    return {"type": "context", "elements": list(elements)}


def section(text: Json) -> Json:
    """Return a section block."""
    return {"type": "section", "text": text}


def button(
    text: str,
    action_id: str,
    value: str,
    *,
    style: str | None = None,
    confirm: tuple[str, str] | None = None,
) -> Json:
    """Return a button. `confirm` is a sentence to confirm and the label that confirms it."""
    made: Json = {
        "type": "button",
        "text": plain(text, LABEL_UNITS),
        "action_id": action_id,
        "value": value,
    }
    if style:
        made["style"] = style
    if confirm:
        sentence, yes = confirm
        made["confirm"] = {
            "title": plain("Are you sure?", 100),
            "text": plain(sentence, 300),
            "confirm": plain(yes, 30),
            "deny": plain("Go back", 30),
        }
    return made


def link(text: str, action_id: str, url: str) -> Json:
    """Return a button that opens a page."""
    return {"type": "button", "text": plain(text, LABEL_UNITS), "action_id": action_id, "url": url}


def option(text: str, value: str, description: str = "") -> Json:
    """Return one choice of a menu or a list of choices."""
    made: Json = {"text": plain(text, LABEL_UNITS), "value": value}
    if description:
        made["description"] = plain(description, LABEL_UNITS)
    return made


def row(block_id: str, *elements: Json) -> Json:
    """Return an actions block."""
    return {"type": "actions", "block_id": block_id, "elements": list(elements)}


class TextBudget:
    """The room for text that is left in a message."""

    def __init__(self, most: int) -> None:
        self.left = most

    def take(self, text: str, most: int) -> str:
        """Return as much of the text as fits, and subtract it."""
        kept = fit(text, max(1, min(most, self.left)))
        self.left -= count_units(kept)
        return kept
