"""Remembered decisions: list and revoke them in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from adapters.terminal.code_text import render_text
from gateway.errors import InvalidRequest
from gateway.ports import AuditEvent, Desk, Grant, Identity, grant_card_of

ALL = "all"
_MARGIN = 3
_SAID = {
    "grant_made": "newly remembered",
    "grant_ending": "ends soon",
    "grant_ended": "no longer remembered",
    "grant_suspended": "suspended",
}


def render_grants(grants: Sequence[Grant]) -> Group:
    """Return a numbered list of grants, below what it is."""
    title = f"Remembered decisions, the newest first: {len(grants)}"
    lines: list[RenderableType] = [
        Text(title, style="bold"),
        Text("Each answers what it covers, and nobody is asked; a suspended one does not.\n"),
    ]
    for number, grant in enumerate(grants, 1):
        card = grant_card_of(grant)
        until = _render_end(card.until)
        facts = " · ".join(f"{one.label} {one.text.text}" for one in card.facts)
        lines += [
            Text(f"{number}. {card.word} · ", style="bold").append_text(render_text(card.tool)),
            _set_in(render_text(card.words)),
            _set_in(Text(f"{facts} · {until} · {card.uses}")),
            *(_set_in(Text(f"! {notice}", style="yellow")) for notice in card.notices),
        ]
    return Group(*lines)


def ask_which(grants: Sequence[Grant], mine: int) -> str:
    """Return the question below the list, of which so many are this person's to revoke."""
    of = f"{mine} of the {len(grants)} listed"
    return f"Revoke which? Type its number, or {ALL} for each that you may revoke: {of}"


async def revoke_chosen(desk: Desk, who: Identity, grants: Sequence[Grant], chosen: str) -> str:
    """Revoke the grant with the chosen number, or all; return a message. Raises GatewayError."""
    if chosen == ALL:
        gone = len(await desk.grants.revoke_all(who))
        return f"revoked: {gone}"
    if not chosen.isdecimal() or not 1 <= int(chosen) <= len(grants):
        raise InvalidRequest(f"a number of the list, or {ALL}")
    await desk.grants.revoke(grants[int(chosen) - 1].id, who)
    return "revoked: it no longer decides anything"


def describe_event(event: AuditEvent) -> str:
    """Return a message about a grant's event, empty for other events."""
    said = _SAID.get(event.type, "")
    return f"{said} for {event.agent}: press g" if said else ""


def _set_in(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, _MARGIN))


def _render_end(at_ms: int | None) -> str:
    if at_ms is None:
        return "until revoked"
    return f"until {datetime.fromtimestamp(at_ms / 1000):%d %b %H:%M}"
