"""Find the recipients and amounts in a call's values, and recipients outside the operator's own
domains."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

from gateway.domain.risk import is_named
from gateway.domain.safe_text import fold
from gateway.policy.calls.argument_roles import RoleSource, words_in
from gateway.policy.calls.call_effects import CallEffects, Leaf, texts_of
from gateway.wire.roles import Role

_RECIPIENTS = frozenset(
    {"address", "addressee", "addressees", "addresses", "attendee", "attendees", "bcc", "blind",
     "cc", "ccs", "copy", "email", "emails", "forward", "guest", "guests", "headers", "invitee",
     "invitees", "mail", "member", "members", "notify", "participant", "participants", "recipient",
     "recipients", "subscriber", "subscribers", "to", "watcher", "watchers"}
)  # fmt: skip
_AMOUNTS = frozenset(
    {"amount", "amounts", "amt", "asset", "ccy", "cents", "charge", "coin", "cost", "costs",
     "count", "cur", "currency", "eur", "fee", "fees", "multiplier", "payment", "percent", "price",
     "prices", "qty", "quantity", "refund", "subtotal", "sum", "surcharge", "tax", "tip", "total",
     "totals", "usd", "value", "values"}
)  # fmt: skip
_CURRENCY = re.compile(r"[A-Z]{3}")
_SEPARATORS = re.compile(r"[\s,;<>()\[\]\"']+")
_ADDRESS = re.compile(r"[A-Za-z0-9._+-]+@((?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+)")
# The shortest part that shows an address. A whole one would take quadratic time to find.
_SOME_ADDRESS = re.compile(r"[A-Za-z0-9._+-]@[A-Za-z0-9-]+\.[A-Za-z0-9-]")
_PRICED = re.compile(r"[0-9][0-9.,]*\s*[A-Za-z]{3,4}|[A-Za-z]{3,4}\s*[0-9][0-9.,]*")
_NUMERIC = re.compile(r"\s*[+-]?\d[\d.,'_\s]*(?:[eE][+-]?\d+\s*)?")  # as somebody may read it
# Texts that count as an address though no name says so.
_LONE = re.compile(r"(?:[^@<>]*<)?(?:mailto:)?[^\s@/:<>]+@(?:[^\s@/:<>.]+\.)+[^\W\d_]{2,}\.?>?")


def names_recipient(leaf: Leaf) -> bool:
    """Return whether a value is a recipient, judged by its name or its declaration."""
    declared = leaf.role is Role.RECIPIENT and leaf.source is not RoleSource.NAME
    return declared or not _RECIPIENTS.isdisjoint(words_in(leaf.name))


def holds_address(leaf: Leaf) -> bool:
    """Return whether a value contains an e-mail address. Text that is written for people does not
    count."""
    text = leaf.value if isinstance(leaf.value, str) and not leaf.free else ""
    return _SOME_ADDRESS.search(text) is not None


def names_amount(leaf: Leaf) -> bool:
    """Return whether a value is an amount, a quantity or a currency, judged by its name or its
    form."""
    text = leaf.value if isinstance(leaf.value, str) and not leaf.free else ""
    number = isinstance(leaf.value, int | float) and not isinstance(leaf.value, bool)
    number = number or _NUMERIC.fullmatch(text) is not None
    if not _AMOUNTS.isdisjoint(words_in(leaf.name)) or (number and leaf.role is not Role.ID):
        return True
    signs = any(unicodedata.category(char) == "Sc" for char in text)
    return signs or any(one.fullmatch(text) for one in (_CURRENCY, _PRICED))


def is_address(text: str) -> bool:
    """Return whether a string is one plain address, such as `ana@example.com`, and nothing else."""
    return _ADDRESS.fullmatch(text) is not None


def untag(text: str) -> str:
    """Return an address without its tag; `ana+x@example.com` becomes `ana@example.com`."""
    local, at, domain = text.partition("@")
    return f"{local.partition('+')[0]}@{domain}" if at else text


def spell(text: str) -> Iterator[str]:
    """Yield other readings of a string: in lower case, word by word, and with untagged
    addresses."""
    whole = fold(text)
    for one in (whole, *_SEPARATORS.split(whole)):
        yield from (one, untag(one))


def find_outside(effects: CallEffects, own: tuple[str, ...]) -> Iterator[tuple[Leaf, str]]:
    """Yield each value of a call that has a recipient outside the operator's own domains, and that
    recipient.

    Addresses in unusual spelling count too. Data counts only if its name means a recipient."""
    for leaf in effects.leaves if own else ():
        sure = names_recipient(leaf)
        if leaf.free and not sure:
            continue
        for text in texts_of(leaf.value):
            read = unicodedata.normalize("NFKC", html.unescape(unquote(text)))
            words = [one for one in _SEPARATORS.split(read) if "@" in one]
            parts = (one.strip() for one in re.split("[,;]", read))
            if words and (sure or all(map(_LONE.fullmatch, parts))):
                yield from ((leaf, one) for one in words if not _lies_inside(one, text, own))


def _lies_inside(word: str, text: str, own: tuple[str, ...]) -> bool:
    """Return whether a text contains a word unchanged, and the word is an address in an own
    domain."""
    if word.startswith("@") and "." not in word:
        return True  # a name in a chat
    found = _ADDRESS.fullmatch(word)
    return found is not None and word in text and is_named(own, found[1].lower())
