"""Build mails as text and HTML from cards; start with `write_mail` and `build_message`.

A mail shows what runs, but nothing in it decides. Its only link leads to the inbox.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from pathlib import Path
from string import Template

from gateway import ports
from gateway.cards.card import Card, choose_above, list_warnings, tell_above
from gateway.cards.grant_cards import GrantCard

_PAGE = Template(Path(__file__).with_name("mail.html").read_text(encoding="utf-8"))
_SUBJECT_CHARS, _LINE_CHARS, _PART_CHARS, _MOST_BLOCKS = 150, 600, 4000, 30
_LINKABLE = re.compile(r"(?<=\w)[.:@](?=[\w/])")  # mail programs would make links of it
_WEB = re.compile(r"\b(www)\.", re.IGNORECASE)
_HINT = "This mail cannot decide anything. To decide, open the link and sign in to the inbox."


@dataclass(frozen=True, slots=True, kw_only=True)
class MailText:
    """The words of a mail. `lines` come before the link to `url`, `notes` after it. The labelled
    `parts` come last, and are shown character by character."""

    subject: str
    heading: str
    lines: tuple[str, ...]
    url: str
    notes: tuple[str, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()


def write_mail(
    shown: ports.Shown, url: str, *, notice: ports.Notice | None = None, ended: bool = False
) -> MailText:
    """Write the mail about a card, a `notice` about it, or how its request or grant `ended`."""
    heading = f"{shown.icon} {shown.word}"
    lines: tuple[str, ...]
    notes: Iterable[str] = ()
    parts: Iterable[tuple[str, str]] = ()
    if isinstance(shown, GrantCard):
        lines = (shown.notification, shown.outcome, _say_time("Until", shown.until))
        notes, parts = shown.notices, [("Scope", shown.words.text), _list_facts(shown)]
    elif notice is not None and notice.kind is ports.NoticeKind.REMINDER:
        heading = "⏰ Still pending"
        lines = (shown.notification, notice.deciders, _say_time("Expires", shown.deadline), _HINT)
    elif notice is not None and notice.discreet:
        lines = (shown.notification,)
    elif notice is not None or ended:
        end = shown.ending or shown.outcome
        lines = (end.text if end else "", shown.notification)
    else:
        lines = (shown.notification, shown.progress, _say_time("Expires", shown.deadline))
        notes, parts = _list_notes(shown), _list_parts(shown)
    return MailText(  # never large: programs for mail cut off long ones
        subject=shown.notification,
        heading=heading,
        lines=tuple(ports.start_of(one, _LINE_CHARS) for one in lines if one),
        url=url,
        notes=tuple(ports.start_of(one, _LINE_CHARS) for one in notes if one),
        parts=tuple((name, ports.start_of(one, _PART_CHARS)) for name, one in parts),
    )


def _list_notes(card: Card) -> Iterator[str]:
    above = choose_above(card)
    yield _HINT
    yield from (" ".join(told) for told in tell_above(card, above))
    yield from (f"{card.sign} {one.text}" for one in above.findings_below(card))
    yield from (f"Risk: {one.text}" for one in above.reasons_below(card))
    yield from (f"⚠️ {one}" for one in list_warnings(card))
    yield "" if card.complete else f"⚠️ Only {card.size}."
    yield from (one.text for one in (card.changed_by, card.asks_because) if one)


def _list_parts(card: Card) -> Iterator[tuple[str, str]]:
    yield from ((block.label, block.text.text) for block in card.blocks[:_MOST_BLOCKS])
    if (more := len(card.blocks) - _MOST_BLOCKS) > 0:
        yield "Not shown here", f"{more} more"
    yield from (("The agent asks", field.text.text) for field in card.unsaid)
    if card.says is not None:
        yield f"The agent's own words, {card.unverified}", card.says.text
    yield _list_facts(card)


def _list_facts(card: ports.Shown) -> tuple[str, str]:
    return "Facts", "\n".join(f"{fact.label}: {fact.text.text}" for fact in card.facts)


def _say_time(before: str, at_ms: int | None) -> str:
    at = datetime.fromtimestamp((at_ms or 0) // 1000, UTC)
    return f"{before} {at:%Y-%m-%d %H:%M} UTC" if at_ms else ""


def build_message(
    text: MailText, sender: str, recipient: str, message_id: str, thread: tuple[str, str] | None
) -> bytes:
    """Return a mail as bytes. `thread` has the ID and the subject of the mail that it answers."""
    message = EmailMessage(SMTP.clone(cte_type="7bit"))
    message["Subject"] = _clean(f"Re: {thread[1]}" if thread else text.subject)
    message["From"] = Address("Approval gateway", addr_spec=sender)
    message["To"] = Address(addr_spec=recipient)
    message["Date"] = formatdate(ports.SystemClock().now_ms() / 1000)
    message["Message-ID"] = f"<{message_id}>"
    message["Auto-Submitted"] = "auto-generated"
    if thread:
        message["In-Reply-To"] = message["References"] = f"<{thread[0]}>"
    message.set_content(_render_text(text))
    message.add_alternative(_render_html(text), subtype="html")
    return message.as_bytes()


def _clean(text: str) -> str:
    """Return a text for a header: one short line, without characters that hide or reorder."""
    line = "".join(one if one.isprintable() else " " for one in text)
    return ports.start_of(" ".join(line.split()), _SUBJECT_CHARS)


def _render_text(text: MailText) -> str:
    parts = (f"{label}:\n{part}" for label, part in text.parts)
    told = [
        _WEB.sub(r"\1⟨U+002E⟩", one.replace("://", ":⟨U+002F⟩/"))  # only the inbox is a link
        for one in (text.heading, *text.lines, *text.notes, *parts)
    ]
    told.insert(1 + len(text.lines), text.url)
    return "\n\n".join(told) + "\n"


def _render_html(text: MailText) -> str:
    return _PAGE.substitute(
        heading=_escape(text.heading),
        lines="\n".join(f"<p>{_escape(one)}</p>" for one in text.lines),
        url=html.escape(text.url),
        notes="\n".join(f"<p>{_escape(one)}</p>" for one in text.notes),
        parts="\n".join(
            f"<h2>{_escape(label)}</h2>\n<pre>{_escape(one)}</pre>" for label, one in text.parts
        ),
    )


def _escape(text: str) -> str:
    return _LINKABLE.sub(r"\g<0><wbr>", html.escape(text))
