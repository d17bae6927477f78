"""What is remembered, as the terminal lists it and takes it back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group
from rich.text import Text

from adapters.terminal.card_text import text_of
from gateway.errors import InvalidRequest
from gateway.ports import AuditEvent, Desk, Grant, Identity, grant_card_of

ALL = "all"
_SAID = {
    "grant_made": "newly remembered",
    "grant_ending": "ends soon",
    "grant_ended": "no longer remembered",
    "grant_suspended": "suspended",
}


def listed(grants: Sequence[Grant]) -> Group:
    """Return the list, with the numbers to take them back by."""
    lines: list[Text] = []
    for number, grant in enumerate(grants, 1):
        card = grant_card_of(grant)
        until = _until(card.until)
        facts = " · ".join(f"{one.label} {one.text.text}" for one in card.facts)
        lines += [
            Text(f"{number}. {card.word} · ", style="bold").append_text(text_of(card.tool)),
            Text("   ").append_text(text_of(card.words)),
            Text(f"   {facts} · {until} · {card.uses}", style="dim"),
            *(Text(f"   ! {notice}", style="yellow") for notice in card.notices),
        ]
    return Group(*lines)


async def revoked(desk: Desk, who: Identity, grants: Sequence[Grant], chosen: str) -> str:
    """Take back what was chosen by number, or all; return what to say. Raises as the desk does."""
    if chosen == ALL:
        gone = len(await desk.grants.revoke_all(who))
        return f"taken back: {gone}"
    if not chosen.isdecimal() or not 1 <= int(chosen) <= len(grants):
        raise InvalidRequest(f"a number of the list, or {ALL}")
    await desk.grants.revoke(grants[int(chosen) - 1].id, who)
    return "taken back: it decides nothing any more"


def told(event: AuditEvent) -> str:
    """Return what to say about an event of a remembered decision, empty for any other."""
    said = _SAID.get(event.type, "")
    return f"{said} for {event.agent}: press g" if said else ""


def _until(at_ms: int | None) -> str:
    if at_ms is None:
        return "until revoked"
    return f"until {datetime.fromtimestamp(at_ms / 1000):%d %b %H:%M}"
