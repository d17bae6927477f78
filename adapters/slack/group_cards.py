"""The layout of several requests of one group: in one posted message, and each in a modal. Pure.

In a message each keeps its place. One that ended is two lines; one that finds no room any more,
since it was changed, is read in its full view. All may be approved at once where all that wait are
whole here, and always be denied at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from adapters.slack.card_blocks import (
    MOST_UNITS,
    TextBudget,
    build_actions,
    button,
    choose_above,
    context,
    count_units,
    label,
    label_pairs,
    line,
    lines,
    list_notices,
    moment,
    one_line,
    ours,
    plain,
    quote,
    render_above,
    render_blocks,
    render_end,
    render_findings,
    render_head,
    render_head_elements,
    render_notification,
    render_risk,
    rich,
    row,
    section,
    words,
)
from adapters.slack.payloads import NO_COPY, Act, Json, SlackButton
from gateway.models import Action
from gateway.ports import Card, GroupCard, is_simple, named_facts, plain_head

MOST_BLOCKS = 50
# The title, the buttons for all with their line, why only one is there, until when, who is called.
_AROUND_BLOCKS = 6
_AROUND_UNITS = 1200
_ITEM_UNITS = 900
_SAYS_UNITS = 300
_SHORT_UNITS = 500  # of one that finds no room
_SHORT_BLOCKS = 5  # a divider, the head, its facts, what is said of it, its buttons
_ENDED_BLOCKS = 3  # a divider, its line, its button
_NOT_SHOWN = "What runs finds no room here, and is not shown"
EACH_ALONE = "Not all may be approved at once: decide each by itself."

Name = Callable[[Card], str]
"""Returns the mentions of those who decided a card."""


def list_fitting(group: GroupCard) -> tuple[str, ...]:
    """Return the ids of the requests that find room in one message, each whole."""
    return tuple(card.request_id for card, whole in _measure(group) if whole)


def shows_all(group: GroupCard) -> bool:
    """Whether all that wait may be answered at once: each is whole in the message, and simple."""
    return all(whole and is_simple(card) for card, whole in _measure(group) if not card.final)


def build_group_message(
    group: GroupCard, copy: str, name: Name, called: str = ""
) -> tuple[str, list[Json]]:
    """Return the top-level text and the blocks of a group's posted card. `called` are mentions of
    the approvers."""
    blocks: list[Json] = [rich("title", [line(words(one_line(group.title.text), bold=True))])]
    for number, (card, whole) in enumerate(_measure(group)):
        if card.final:
            blocks += _render_ended_item(card, number, copy, name(card))
        else:
            shown = card if whole else _shorten(card)
            blocks += render_item(shown, number, copy=copy, says=True)
    waiting = group.waiting
    if group.deniable and group.revisions:
        first = group.items[0]
        value = SlackButton(first.request_id, first.revision, copy, group.revisions).encode()
        approves = group.together and shows_all(group)
        blocks += [{"type": "divider"}, build_all_row(waiting, value, approves=approves)]
        blocks += [] if approves else [context(plain(EACH_ALONE))]
    if waiting:
        soonest = min(card.deadline for card in waiting)
        blocks.append(context(ours(f"⏳ The first of them waits until {moment(soonest)}")))
        blocks += [section(ours(called))] if called else []
    return render_notification(group.summary), blocks


def build_all_row(cards: Sequence[Card], value: str, *, approves: bool, more: bool = False) -> Json:
    """Return the buttons that answer all of these at once; not all may be approved so. With `more`
    there are others that are not shown."""
    count, heads = len(cards), "; ".join(plain_head(card.head) for card in cards)
    confirm = (heads, "Approve all")
    approve = button(
        f"Approve all {count}", Act.GROUP_APPROVE, value, style="primary", confirm=confirm
    )
    every = f"Deny {'these' if more else 'all'} {count}"
    deny = button(every, Act.GROUP_DENY, value, style="danger")
    return row("all", *((approve,) if approves else ()), deny)


def render_item(
    card: Card, number: int, *, copy: str = NO_COPY, says: bool = False
) -> Iterator[Json]:
    """Yield one request that waits: its head, what was found, exactly what runs, its answers; with
    `says` also the agent's own words."""
    budget = TextBudget(_ITEM_UNITS)
    yield {"type": "divider"}
    above = choose_above(card)
    yield {**render_head(card, budget), "block_id": f"head {number}"}
    yield from render_above(card, above, budget)
    facts = [(fact.label, one_line(fact.text.text)) for fact in named_facts(card)]
    parts = [*render_blocks(card), label_pairs(facts)]
    if not card.complete and not card.blocks:
        parts.insert(0, label(_NOT_SHOWN))
    if says and card.says is not None:
        parts += [line(words(f"The agent says, {card.unverified}:", bold=True))]
        parts += [quote(budget.take(card.says.text, _SAYS_UNITS))]
    yield rich(f"body {number}", parts)
    yield from render_findings(card, above, budget)
    yield from render_risk(card, above, budget)
    told = [f"⚠️ {one}" for one in list_notices(card)]
    told += [text for text in (card.progress, card.claimed) if text]
    if told:
        yield lines(budget.take(one_line(one), _ITEM_UNITS) for one in told)
    yield build_actions(card, copy, block_id=f"actions {number}")


def _render_ended_item(card: Card, number: int, copy: str, named: str) -> Iterator[Json]:
    """Yield one request that ended: how, below that its head, and the rest behind Details."""
    budget = TextBudget(_SHORT_UNITS)
    how = line(*render_end(card, budget, named))
    yield {"type": "divider"}
    yield rich(f"ended {number}", [how, line(*render_head_elements(card, budget))])
    value = SlackButton(card.request_id, card.revision, copy).encode()
    yield row(f"actions {number}", button("Details", Act.DETAILS, value))


def _shorten(card: Card) -> Card:
    """Return a card of which only the head finds room: the full view has it, and its Approve."""
    controls = tuple(one for one in card.controls if one.action is not Action.APPROVE)
    return replace(card, blocks=(), complete=False, says=None, controls=controls)


def _measure(group: GroupCard) -> Iterator[tuple[Card, bool]]:
    """Yield the cards of a group, each with whether it finds room whole, the first ones first. All
    find room in short."""
    sizes = [_size_of(card) for card in group.items]
    blocks = MOST_BLOCKS - _AROUND_BLOCKS - sum(min(one, _SHORT_BLOCKS) for one, _ in sizes)
    units = MOST_UNITS - _AROUND_UNITS - sum(min(one, _SHORT_UNITS) for _, one in sizes)
    for card, (own_blocks, own_units) in zip(group.items, sizes, strict=True):
        more_blocks = own_blocks - min(own_blocks, _SHORT_BLOCKS)
        more_units = own_units - min(own_units, _SHORT_UNITS)
        whole = card.final or (card.complete and more_blocks <= blocks and more_units <= units)
        if whole:
            blocks, units = blocks - more_blocks, units - more_units
        yield card, whole


def _size_of(card: Card) -> tuple[int, int]:
    """Return how many blocks and characters a card takes, whole."""
    if card.final:
        return _ENDED_BLOCKS, _SHORT_UNITS
    made = list(render_item(card, 0, says=True))
    return len(made), sum(map(_count_text, made))


def _count_text(value: Any) -> int:
    """Return how long all texts in a block are."""
    if isinstance(value, list):
        return sum(map(_count_text, value))
    if not isinstance(value, dict):
        return 0
    text = value.get("text")
    own = count_units(text) if isinstance(text, str) else 0
    return own + sum(map(_count_text, value.values()))
