"""What of a card is done in the inbox alone, and how people get there."""

from __future__ import annotations

from gateway.ports.cards import Card
from gateway.ports.words import NO_LINK


def names_inbox(card: Card) -> bool:
    """Whether the notices of a waiting card send people to the inbox: for what a mask leaves out,
    or for a passkey."""
    passkey = any(one.passkey for one in card.controls)
    return not card.final and (card.hides or card.masked > 0 or passkey)


def leads_to_inbox(card: Card) -> bool:
    """Whether something of a waiting card cannot be done in a chat, or not in each of them."""
    return _needs_inbox(card) or (not card.final and any(one.number for one in card.controls))


def say_no_link(card: Card) -> str:
    """Say how people get to the inbox where a chat's card sends them there, and has no address of
    it; else ""."""
    return NO_LINK if _needs_inbox(card) and not card.inbox else ""


def _needs_inbox(card: Card) -> bool:
    secret = any(field.secret for field in card.fields)
    return names_inbox(card) or (secret and not card.final)
