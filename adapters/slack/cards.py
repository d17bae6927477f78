"""Build cards as Slack messages within Slack's limits; start with `build_message`. Pure: no I/O.

Agents' text goes only where Slack does not parse it. Only the gateway's text and date tokens use
`mrkdwn`. Everything else is plain text without emoji codes, or rich text. In both, Slack ignores
mentions, links and markup.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum

from adapters.slack.payloads import Act, Json, SlackButton
from gateway.cards.blocks import Block
from gateway.cards.card import (
    TO_ORIGIN,
    Card,
    Control,
    FoundAbove,
    Style,
    choose_above,
    list_warnings,
    tell_above,
)
from gateway.cards.shared_texts import NO_LINK, clip, count_units
from gateway.chat.answering import as_sentence
from gateway.models import Action, RiskLevel

HEADER_UNITS = 150
LABEL_UNITS = 75
TITLE_UNITS = 24
CONTEXT_UNITS = 3000
INPUT_UNITS = 3000
_ELLIPSIS = "…"


def one_line(text: str) -> str:
    """Return the text on one line, so that it cannot fake another line of the card."""
    return " ⏎ ".join(text.splitlines()) if "\n" in text or "\r" in text else text


def plain(text: str, most: int = CONTEXT_UNITS) -> Json:
    """Return a plain_text object. Empty text becomes a dash, because Slack refuses it."""
    return {"type": "plain_text", "text": clip(text, most).strip() or "-", "emoji": False}


def ours(text: str) -> Json:
    """Return a mrkdwn object. Use it only for the gateway's text, never for an agent's."""
    return {"type": "mrkdwn", "text": text}


def escape(text: str) -> str:
    """Escape text for the top-level `text` of a message, which Slack parses for mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def moment(at_ms: int) -> str:
    """Return a time that clients show in the reader's time zone. Use it only with `ours`."""
    seconds = at_ms // 1000
    written = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"<!date^{seconds}^{{date_short_pretty}} at {{time}}|{written}>"


def words(text: str, *, bold: bool = False) -> Json:
    """Return a rich text element, which Slack shows as it is."""
    element: Json = {"type": "text", "text": text or "-"}
    if bold:
        element["style"] = {"bold": True}
    return element


def line(*elements: Json) -> Json:
    """Return a rich text section: one line of these elements."""
    return {"type": "rich_text_section", "elements": list(elements)}


def rich(block_id: str, parts: Iterable[Json]) -> Json:
    """Return a rich text block."""
    return {"type": "rich_text", "block_id": block_id, "elements": list(parts)}


def label_pairs(pairs: Iterable[tuple[str, str]]) -> Json:
    """Return one line of labels and short texts."""
    elements: list[Json] = []
    for label, text in pairs:
        gap = "  ·  " if elements else ""
        elements += [words(f"{gap}{label} "), words(one_line(text), bold=True)]
    return line(*elements)


def label(text: str) -> Json:
    """Return one line with the gateway's words in bold and a quoted name in code style."""
    said, quote_mark, name = text.partition('"')
    if not name:
        return line(words(text, bold=True))
    named: Json = {"type": "text", "text": f"{quote_mark}{name}", "style": {"code": True}}
    return line(words(said, bold=True), named)


def exact(text: str) -> Json:
    """Return text in a fixed-width box that shows every character as it is."""
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


def lines(told: Iterable[str]) -> Json:
    """Return a context block with a line of plain text for each sentence. They share an element,
    because Slack shows several elements side by side."""
    texts = [""]
    for one in map(one_line, told):
        longer = f"{texts[-1]}\n{one}" if texts[-1] else one
        if count_units(longer) <= CONTEXT_UNITS:
            texts[-1] = longer
        else:
            texts.append(one)
    return context(*map(plain, texts))


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
    """Return a button. `confirm` is the text of its confirmation dialog and its confirm label."""
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


def link(text: str, action_id: str, url: str, *, style: str | None = None) -> Json:
    """Return a button that opens a page."""
    made = {"type": "button", "text": plain(text, LABEL_UNITS), "action_id": action_id, "url": url}
    return {**made, "style": style} if style else made


def option(text: str, value: str, description: str = "") -> Json:
    """Return one choice of a menu or a list of choices."""
    made: Json = {"text": plain(text, LABEL_UNITS), "value": value}
    if description:
        made["description"] = plain(description, LABEL_UNITS)
    return made


def join_entries(entries: Sequence[list[Json]], most: int) -> tuple[list[Json], int]:
    """Join list entries with dividers, up to `most` blocks; return the blocks and the number of
    entries that fit."""
    blocks: list[Json] = []
    for number, entry in enumerate(entries):
        more = [{"type": "divider"}, *entry] if number else entry
        if len(blocks) + len(more) > most:
            return blocks, number
        blocks += more
    return blocks, len(entries)


def row(block_id: str, *elements: Json) -> Json:
    """Return an actions block."""
    return {"type": "actions", "block_id": block_id, "elements": list(elements)}


class TextBudget:
    """Counts the room for text that is left in a message, in UTF-16 units."""

    def __init__(self, most: int) -> None:
        self.left = most

    def take(self, text: str, most: int) -> str:
        """Cut the text to the remaining room and to `most`; subtract it from the room."""
        kept = clip(text, max(1, min(most, self.left)))
        self.left -= count_units(kept)
        return kept


# Slack refused messages with 11,341 counted characters; it documents no limit. The call is never
# cut here, so the other parts share the remaining room.
MOST_UNITS = 8000
CARD_CHARS = 2800
CARD_LINES = 30
MOST_PARTS = CARD_LINES  # each has at least one line
_LEAST_FOR_REST = 1700
_FACT_UNITS = 120
_WORDS_UNITS = 500
_OUTCOME_UNITS = 600
_DIFF_UNITS = 900
_DIGEST_CHARS = 12
_MENTION = re.compile(r"<@([A-Z0-9]+)>")
_USER = re.compile(r"\bslack:[A-Z0-9]+/([UW][A-Z0-9]+)")
_STYLES = {Style.PRIMARY: "primary", Style.DANGER: "danger", Style.PLAIN: None}
_RISKS = {RiskLevel.LOW: "Low risk", RiskLevel.MEDIUM: "Medium risk", RiskLevel.HIGH: "High risk"}


# The button of each action. All but Approve open a modal.
FORMS = {
    Action.DENY: Act.DENY,
    Action.EDIT: Act.EDIT,
    Action.RESPOND: Act.RESPOND,
    Action.ANSWER: Act.ANSWER,
    Action.ABORT: Act.ABORT,
    Action.APPROVE: Act.APPROVE,
}
_ON_CARD = (Action.APPROVE, Action.ANSWER, Action.DENY)
READ_ALL = "Read full text…"


class FullText(StrEnum):
    """The place of the full text, for a card that does not show all of it."""

    FITS = ""
    ATTACHED = "The full text is attached in the thread."
    MISSING = (
        "The full text could not be attached, so you cannot approve this in Slack. "
        "Approve it in the inbox."
    )


def build_message(
    card: Card, copy: str, full: FullText = FullText.FITS, called: str = ""
) -> tuple[str, list[Json]]:
    """Build the top-level text and the blocks of a card. `called` mentions the approvers of a
    pending request, or the people who decided it."""
    if card.final and card.asks:
        return render_notification(card.notification), _build_ended(card, copy, called)
    shown = sum(
        count_units(block.text.text) + count_units(block.label)
        for block in card.blocks[:MOST_PARTS]
    )
    budget = TextBudget(max(MOST_UNITS - shown, _LEAST_FOR_REST))
    blocks = [*_render_ending(card, budget, called)]
    above = choose_above(card)
    if card.asks:  # otherwise the header says the same
        blocks += [render_summary(card, budget), *render_above(card, above, budget)]
    if card.asks or card.blocks:
        blocks += _render_calls(card, budget)
    blocks += [*render_risk(card, above, budget), *render_because(card, budget)]
    blocks += [*render_findings(card, above, budget), *_render_warnings(card, full)]
    blocks.append(_render_words(card, budget))
    blocks.append(context(plain(_render_fingerprint(card))))
    if not card.final:
        blocks += [section(ours(called))] if called else []
        blocks += _render_deadline(card)
        blocks.append(build_actions(card, copy, readable=full is not FullText.MISSING))
        blocks += build_origin(card)
    elif card.inbox:
        press = link("Open the inbox", Act.OPEN, card.inbox)
        blocks.append({"type": "actions", "block_id": "inbox", "elements": [press]})
    return render_notification(card.notification), blocks


def _build_ended(card: Card, copy: str, named: str) -> list[Json]:
    """Build an ended card: its outcome and the summary. Details shows the rest."""
    budget = TextBudget(MOST_UNITS)
    blocks = [
        rich("ended", [line(*_render_end(card, budget, named))]),
        render_summary(card, budget),
    ]
    if card.changed_aside is not None:
        changed = budget.take(one_line(card.changed_aside.text), _WORDS_UNITS)
        blocks.append(context(plain(changed)))
    if card.note is not None:
        note = budget.take(one_line(card.note.text), _OUTCOME_UNITS)
        blocks.append(context(plain(f"Note for the record: “{note}”")))
    value = SlackButton(card.request_id, card.revision, copy).encode()
    return [*blocks, row("actions", button("Details", Act.DETAILS, value)), *build_origin(card)]


def build_origin(card: Card) -> list[Json]:
    """Return the row with the link to the origin, which as a button gets no preview; or nothing."""
    return [row("origin", link(TO_ORIGIN, Act.OPEN, card.origin))] if card.origin else []


def _render_end(card: Card, budget: TextBudget, named: str) -> Iterator[Json]:
    """Yield the outcome, its time, the agent's result, and mentions of the people who decided."""
    said = card.ending.text if card.ending is not None else card.word
    shown = one_line(budget.take(said, _OUTCOME_UNITS))
    yield from _name_users(f"{card.icon} {shown}", card.people)
    if card.decided_at is not None:
        yield from (words(", "), clock(card.decided_at))
    if card.result is not None:
        yield words(f" · {budget.take(one_line(card.result.text), _OUTCOME_UNITS)}")
    others = [user for user in _MENTION.findall(named) if f"/{user}" not in shown]
    for number, user in enumerate(others):
        yield from (words(" " if number else " · "), {"type": "user", "user_id": user})


def _name_users(text: str, people: Collection[str]) -> Iterator[Json]:
    """Yield a sentence of the gateway in bold, with the users in `people` as mentions. They are
    users without a name in the policy."""
    at = 0
    for found in _USER.finditer(text):
        if found[0] in people:
            yield words(text[at : found.start()], bold=True)
            yield {"type": "user", "user_id": found[1]}
            at = found.end()
    if text[at:]:
        yield words(text[at:], bold=True)


def clock(at_ms: int) -> Json:
    """Return a time as rich text; clients show it in the reader's time zone."""
    return _date(at_ms, "{time}", "%H:%M UTC")


def day(at_ms: int) -> Json:
    """Return a date and time as rich text; clients show it in the reader's time zone."""
    return _date(at_ms, "{date_short_pretty} at {time}", "%Y-%m-%d %H:%M UTC")


def _date(at_ms: int, form: str, otherwise: str) -> Json:
    written = datetime.fromtimestamp(at_ms // 1000, UTC).strftime(otherwise)
    return {"type": "date", "timestamp": at_ms // 1000, "format": form, "fallback": written}


def render_notification(summary: str) -> str:
    """Return the escaped text for lock screens and screen readers: the agent and the summary."""
    return escape(clip(one_line(summary), 300))


def render_summary(card: Card, budget: TextBudget) -> Json:
    """Return the summary in bold, with names in code style."""
    return rich("summary", [line(*_render_summary_elements(card, budget))])


def _render_summary_elements(card: Card, budget: TextBudget) -> Iterator[Json]:
    for part in card.summary:
        said = one_line(budget.take(part.text.text, _FACT_UNITS))
        element = words(said, bold=True)
        yield {**element, "style": {"bold": True, "code": True}} if part.named else element


def render_above(card: Card, above: FoundAbove, budget: TextBudget) -> Iterator[Json]:
    """Yield the chosen high-risk notice, reasons and findings, one line each."""
    told = [f"{sign} {one_line(said)}" for sign, said in tell_above(card, above)]
    if told:
        yield lines(budget.take(one, _FACT_UNITS * 2) for one in told)


def render_risk(card: Card, above: FoundAbove, budget: TextBudget) -> Iterator[Json]:
    """Yield the risk and its reasons, without those that `above` already shows."""
    if left := above.reasons_below(card):
        reasons = "; ".join(one_line(reason.text) for reason in left)
        sign = "🔴 " if card.risk is RiskLevel.HIGH else ""
        yield context(plain(sign + budget.take(f"{_RISKS[card.risk]}: {reasons}", _OUTCOME_UNITS)))


def _render_ending(card: Card, budget: TextBudget, named: str) -> Iterator[Json]:
    """Yield the outcome, with mentions of the people who decided; nothing for a pending request."""
    if not card.final:
        return
    yield header(f"{card.icon} {card.word}")
    if card.outcome is not None:
        said = budget.take(one_line(card.outcome.text), _OUTCOME_UNITS)
        yield section(plain(as_sentence(said)))
    if card.paused is not None:
        yield context(ours(f"Until {moment(card.paused)}"))
    if card.decided_at is not None:
        yield context(ours(" · ".join(filter(None, (moment(card.decided_at), named)))))
    if card.result is not None:
        yield context(plain(budget.take(one_line(card.result.text), _OUTCOME_UNITS)))


def render_blocks(card: Card) -> list[Json]:
    """Return the parts of the call that the card shows, and name the others."""
    parts: list[Json] = []
    for block in card.blocks[:MOST_PARTS]:
        if block.text.text:
            parts += [label(block.label), exact(f"{block.text.text}{_mark_cut(block)}")]
        else:
            parts.append(label(f"Not shown here: {block.label}"))
    if (more := len(card.blocks) - MOST_PARTS) > 0:
        parts.append(label(f"{more} more: not shown here"))
    return parts


def _mark_cut(block: Block) -> str:
    """Return an ellipsis for the end of a box whose text is cut, or ""."""
    if len(block.text.text) >= block.chars:
        return ""
    return _ELLIPSIS if block.text.text.endswith("\n") else f"\n{_ELLIPSIS}"


def _render_calls(card: Card, budget: TextBudget) -> Iterator[Json]:
    """Yield the call, the questions that the summary lacks, and the changes of an edit."""
    parts = render_blocks(card)
    for field in card.unsaid:
        parts.append(quote(budget.take(field.text.text, _WORDS_UNITS)))
    if card.changed_by is not None:
        parts.append(label(budget.take(one_line(card.changed_by.text), _WORDS_UNITS)))
        parts.append(exact(budget.take(render_diff(card), _DIFF_UNITS)))
    if parts:
        yield rich("body", parts)


def _render_words(card: Card, budget: TextBudget) -> Json:
    """Return the facts, the agent's unverified texts, and the note for the record."""
    facts = [
        (fact.label, budget.take(one_line(fact.text.text), _FACT_UNITS)) for fact in card.facts
    ]
    parts = [label_pairs(facts)] if facts else []
    parts += _render_unverified(card, budget)
    if card.note is not None:
        note = budget.take(card.note.text, _OUTCOME_UNITS)
        parts += [label("Note for the record"), quote(note)]
    return rich("words", parts or [label("No more facts")])


def _render_unverified(card: Card, budget: TextBudget) -> Iterator[Json]:
    """Yield the agent's preview and statement, marked as unverified."""
    if card.preview is not None and card.preview.text.text.strip():
        picture = budget.take(card.preview.text.text, _DIFF_UNITS)
        shown = exact(f"{picture}{_mark_cut(card.preview)}")
        yield from (label(f"The agent's preview, {card.unverified}"), shown)
    if card.says is not None:
        said = budget.take(card.says.text, _WORDS_UNITS)
        yield from (label(f"The agent's own words, {card.unverified}"), quote(said))


def render_diff(card: Card) -> str:
    """Return the changes of an edit as a diff, one line each."""
    return "\n".join(f"{row.sign} {one_line(row.text.text)}" for row in card.changed)


def render_because(card: Card, budget: TextBudget) -> Iterator[Json]:
    """Yield why no grant covers the request, if the card says so."""
    if card.asks_because is not None:
        yield context(plain(budget.take(one_line(card.asks_because.text), _WORDS_UNITS)))


def render_findings(card: Card, above: FoundAbove, budget: TextBudget) -> Iterator[Json]:
    """Yield the guardrail findings that `above` does not show, one line each."""
    if left := above.findings_below(card):
        found = (f"{card.sign} {one_line(one.text)}" for one in left)
        yield lines(budget.take(one, _FACT_UNITS * 2) for one in found)


def render_all_found(card: Card, budget: TextBudget) -> Iterator[Json]:
    """Yield the risk with all its reasons, then all findings, cut to the budget."""
    nothing = FoundAbove("", (), ())
    high = card.risk is RiskLevel.HIGH and not card.final
    if high and not card.reasons:
        yield context(plain(f"🔴 {_RISKS[card.risk]}"))
    yield from render_risk(card, nothing, budget)
    yield from render_findings(card, nothing, budget)


def _render_warnings(card: Card, full: FullText) -> Iterator[Json]:
    notices = list_warnings(card)
    if not card.complete:
        read = "" if full is FullText.MISSING else " Read the whole text before you approve."
        notices.append(f"Only {card.size}.{read}")
        if full:
            notices.append(full)
    if full is FullText.MISSING and not card.inbox:
        notices.append(NO_LINK)
    yield from render_notices(dict.fromkeys(notices))


def render_notices(told: Collection[str]) -> Iterator[Json]:
    """Yield a block with one line for each warning."""
    if told:
        yield lines(f"⚠️ {one}" for one in told)


def _render_deadline(card: Card) -> Iterator[Json]:
    until = say_until(card)
    said = [clip(one_line(text), 200) for text in (card.progress, card.claimed) if text]
    if not said:
        yield context(ours(until))
        return
    yield context(ours(f"{until} ·"), plain(" · ".join(said)))


def say_until(card: Card) -> str:
    """Return the state of a pending card and its expiry. A notice states that a card is idle."""
    state = "Expires" if card.idle else f"{card.word} · expires"
    return f"{card.icon} {state} {moment(card.deadline)}"


def _render_fingerprint(card: Card) -> str:
    if not card.digest:
        return "This card is for information only"
    size = f" · {card.size}" if card.blocks and card.complete else ""
    return f"{card.short_id} · sha256 {card.digest[:_DIGEST_CHARS]}{size}"


def build_actions(
    card: Card,
    copy: str,
    *,
    whole: bool = False,
    readable: bool = True,
    block_id: str = "actions",
) -> Json:
    """Build the buttons of a pending card: the decisions and "More…".

    With `whole`, the person has read all of it and can confirm high risk here; otherwise Review…
    comes first. Pass `readable=False` if Slack cannot show all of it.
    """
    value = SlackButton(card.request_id, card.revision, copy).encode()
    offered = {one.action: one for one in card.controls if is_offered(card, one)}
    elements = [
        _build_button(offered[action], value, whole=whole)
        for action in _ON_CARD
        if action in offered
    ]
    if card.inbox:
        first, said = _say_lead(card)
        leads = link(said, Act.OPEN, card.inbox, style="primary" if first else None)
        elements.insert(0 if first else len(elements), leads)
    if not whole:
        if not card.complete and not card.hides:
            style = "primary" if readable else None
            elements.insert(0, button(READ_ALL, Act.DETAILS, value, style=style))
        elements.append(button("More…", Act.MORE, value))
    return row(block_id, *elements)


def _say_lead(card: Card) -> tuple[bool, str]:
    """Return whether the link to the inbox is the main button, and its label."""
    if _is_elsewhere(card, Action.APPROVE):
        return True, "Approve in the inbox"
    if _is_elsewhere(card, Action.ANSWER):
        return True, "Answer in the inbox"
    return False, "Open in the inbox"


def _is_elsewhere(card: Card, action: Action) -> bool:
    """Whether this action is possible, but not in Slack."""
    return any(one.action is action and not is_offered(card, one) for one in card.controls)


def _build_button(control: Control, value: str, *, whole: bool) -> Json:
    style = _STYLES[control.style]
    if control.action is not Action.APPROVE:
        return button(f"{control.label}…", FORMS[control.action], value, style=style)
    if control.confirm is None:
        return button(control.label, Act.APPROVE, value, style=style)
    if not whole:
        return button("Review…", Act.DETAILS, value, style=style)
    if control.number:
        return button(f"{control.label}…", Act.NUMBER, value, style=style)
    confirm = (control.confirm, control.yes)
    return button(control.label, Act.APPROVE_SURE, value, style=style, confirm=confirm)


def is_offered(card: Card, control: Control) -> bool:
    """Whether Slack can offer a control: it must need neither a secret nor a passkey."""
    if control.action is Action.ANSWER:
        return not any(field.secret and field.required for field in card.fields)
    if control.action is Action.APPROVE:
        return not control.by_passkey_alone
    return True


def build_thread_note(text: str) -> list[Json]:
    """Build the blocks of a short reply in a card's thread."""
    return [rich("note", [line(words(text))])]
