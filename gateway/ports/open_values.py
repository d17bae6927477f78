"""The values of a call that are fixed for want of a declaration, as people read them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from gateway.domain.records import Record
from gateway.domain.redaction import render_safe
from gateway.domain.safe_text import Visible
from gateway.policy.declared_tools import ON_CARDS, open_values

_MOST_NAMED = 8
_MOST_NAME = 80
_REMEMBERED = "If remembered, it covers only the same"
ROLES_ON_CARDS = {role.value: words for role, words in ON_CARDS.items()}
"""The roles to choose from on a card, with a sentence each."""


@dataclass(frozen=True, slots=True)
class Undeclared:
    """A value that somebody could declare. `address` names it to the gateway; empty where it does
    not show as it is, which no card can declare. `what` is its role, and who says so."""

    address: str
    name: Visible
    what: str


def undeclared_of(record: Record) -> tuple[Undeclared, ...]:
    """Return the values of a waiting request that somebody could declare."""
    if record.final:
        return ()
    return tuple(
        Undeclared(
            one.address if name.text == json.dumps(one.address) else "",
            name,
            f"{one.role.value.replace('_', ' ')}: {one.why}",
        )
        for one in open_values(record)
        for name in (_quote(one.address),)
    )


def say_undeclared(record: Record) -> Visible | None:
    """Return them as one sentence, with who can say what they are; None where there are none."""
    found = undeclared_of(record)
    if not found:
        return None
    named = ", ".join(one.name.text for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    alone = len(found) == 1
    return render_safe(
        f"{_REMEMBERED} {named}{more}: nobody declared what "
        f"{'it is' if alone else 'they are'}. An admin can, in the inbox."
    )


def _quote(address: str) -> Visible:
    quoted = json.dumps(address)
    return render_safe(quoted if len(quoted) <= _MOST_NAME else f'{quoted[: _MOST_NAME - 2]}…"')
