"""Signs that a request destroys something or reaches for secrets, whoever asks and why.

They are signs, not proof: what finds none is not harmless. In shadow, where they begin, they decide
nothing: they stand on the card, and in the audit, so that an operator sees what they would have
stopped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from gateway.domain.policy_document import Guardrails, PolicyDocument
from gateway.domain.records import Record
from gateway.domain.redaction import start_of
from gateway.models import Kind
from gateway.policy.calls.argument_names import paths_in, runs_what_it_is_given
from gateway.policy.calls.paths import delicate_word
from gateway.policy.calls.tables import rows
from gateway.wire.codec import JsonObject

_MOST_TEXT = 20_000
_MOST_FOUND = 8
_MOST_PATH = 80

_SIGNS = tuple(
    (says, tuple(hints.split()), re.compile(pattern, re.IGNORECASE))
    for says, hints, pattern in (row.split(" => ", 2) for row in rows("signs.txt"))
)
_WORDS = re.compile(r"[^\s\"'`;|&<>()=,\[\]{}]+")


def assess(record: Record, policy: PolicyDocument) -> Record:
    """Return a record with the risk and the findings of what it would run now, under a policy.

    Whatever makes a record, or changes what it would run, has it assessed anew.
    """
    request = replace(record.request, arguments=record.arguments)
    watched = policy.guardrails is not Guardrails.OFF
    return record.copy_with(
        risk=policy.risk_of(request, record.arguments),
        findings=findings(record) if watched else (),
    )


def findings(record: Record) -> tuple[str, ...]:
    """Return what a request shows signs of, each in a few words."""
    found: dict[str, None] = {}
    for text in _commands(record):
        if len(text) > _MOST_TEXT:
            found["is too long to be looked through"] = None
        shown = text[:_MOST_TEXT]
        lower = shown.lower()
        for says, hints, sign in _SIGNS:
            if any(hint in lower for hint in hints) and sign.search(shown):
                found[says] = None
        for word in _WORDS.findall(shown):
            found |= _secret(word)
    for path in chain.from_iterable(map(paths_in, record.parts)):
        for one in path if isinstance(path, list) else [path]:
            found |= _secret(one)
    return tuple(found)[:_MOST_FOUND]


def _secret(path: Any) -> dict[str, None]:
    why = delicate_word(path, written=False) if isinstance(path, str) else None
    if why is None:
        return {}
    # Quoted, in ASCII: whatever the agent named, it neither ends the quotation nor begins a line.
    return {f"names {json.dumps(start_of(path, _MOST_PATH))}: {why}": None}


def _commands(record: Record) -> Iterator[str]:
    """Yield what looks like something to run: all text of a command, else what is named so."""
    for name, value in chain.from_iterable(part.items() for part in record.parts):
        if record.request.kind is Kind.COMMAND or runs_what_it_is_given(name):
            yield from _texts(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield " ".join(part for part in value if isinstance(part, str))
        yield from (text for part in value if not isinstance(part, str) for text in _texts(part))
    elif isinstance(value, dict):
        parts: JsonObject = value
        yield from (text for part in parts.values() for text in _texts(part))
