"""Hide the secrets of a request in every text that speaks of it: start with `list_known`.

A value may be a secret only because of its place: the name of its member, the flag before it. A
text made from the request says the value without that place, so its shape tells nothing there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from gateway.domain.redaction import across, mask, mask_of, secrets_behind, secrets_in
from gateway.domain.safe_text import Span
from gateway.domain.secret_names import name_items

_LEAST = 4  # characters of a value that is looked for
_PLAIN = 8  # characters of one that may stand within another word
_NAME = 12  # characters of a part of one that looks like a path
_PIECES = re.compile(r"(?:\s|\\+[nr])+")  # lines of a key, also as they are written in a command
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|(?<= = )[^,]+')  # also in the words of an offer


def list_known(
    values: Iterable[Any], beside: Iterable[str] = (), remarks: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the secrets in JSON values and in `remarks` about them, the longest first.

    A secret that is also in the clear in the values, or `beside` them, is left out: people read it
    anyway, and an agent could hide its other words by naming one of them a password.
    """
    secrets = {text[start:end] for text in remarks for start, end in secrets_in(text)}
    clear = [*beside]
    for text, spans in _list_texts(list(values), ""):
        done = 0
        for start, end in spans:
            pieces = _PIECES.split(text[start:end])
            # What is read as a path is told by its last name.
            names = [one for piece in pieces for one in piece.split("/") if len(one) >= _NAME]
            secrets.update((text[start:end], *pieces, *names))
            clear.append(text[done:start])
            done = end
        clear.append(text[done:])
    rest = "\n".join(clear) if secrets else ""
    known = (one for one in secrets if len(one) >= _LEAST and one not in rest)
    return tuple(sorted(known, key=lambda one: (-len(one), one)))


def find_known(text: str, known: Sequence[str], *, named: bool = False) -> list[Span]:
    """Return where secrets are in a text that is made from a request: those with the shape of one,
    and those that are known, whole, or as far as the text was cut at "…".

    A plain word counts only in quotation marks, or where the whole text is `named` in the request:
    words of ours are never hidden.
    """
    found = [*secrets_in(text)]
    quoted: list[Span] | None = [(0, len(text))] if named else None
    for secret in known:
        if secret.isalpha() and quoted is None:
            quoted = [one.span() for one in _QUOTED.finditer(text)]
        within = quoted if secret.isalpha() and quoted is not None else [(0, len(text))]
        for spelled in _spell(secret):
            for begin, end in within:
                found += _find(spelled, text, begin, end)
            if "…" in text and not secret.isalpha():
                found += _find_cut(spelled, text)
    return _join(found)


def hide_known(text: str, known: Sequence[str], *, named: bool = False) -> str:
    """Return a text with what `find_known` finds in it masked."""
    parts, done = [], 0
    for start, end in find_known(text, known, named=named):
        parts += [text[done:start], mask_of(text[start:end])]
        done = end
    return "".join([*parts, text[done:]])


def hide_in(value: Any, known: Sequence[str]) -> Any:
    """Return a JSON value masked, with what is known to be a secret hidden in all of its texts."""
    return _hide_beside(value, mask(value), known)


def _hide_beside(value: Any, masked: Any, known: Sequence[str]) -> Any:
    """Return a value hidden; `masked` is the same one, in which each member was judged by name."""
    if not known:
        return masked
    if isinstance(value, str):
        return masked if masked != mask(value) else hide_known(value, known)
    if isinstance(value, dict) and len(value) == len(masked):
        pairs = zip(value.items(), masked.values(), strict=True)
        return {
            hide_known(name, known): _hide_beside(one, two, known) for (name, one), two in pairs
        }
    if isinstance(value, list | tuple):
        return [_hide_beside(one, two, known) for one, two in zip(value, masked, strict=True)]
    return masked


def _list_texts(value: Any, name: str) -> Iterator[tuple[str, list[Span]]]:
    """Yield each text with where `mask` finds secrets in it."""
    if isinstance(value, dict | list | tuple):
        found = {} if isinstance(value, dict) else across(value)
        for at, (member, told, item) in enumerate(name_items(value, name)):
            if member is not None:
                yield member, [*secrets_in(member)]
            yield from ((item, found[at]),) if at in found else _list_texts(item, told)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
        spans = [*secrets_in(text)]
        if name:
            spans += secrets_behind(name, text)
        yield text, _join(spans)


@lru_cache(maxsize=4096)
def _spell(secret: str) -> set[str]:
    """Return how a secret may be written: as it is, or as in JSON."""
    return {secret, *(json.dumps(secret, ensure_ascii=one)[1:-1] for one in (True, False))}


def _find(secret: str, text: str, begin: int, end: int) -> Iterator[Span]:
    alone = secret.isalpha() or len(secret) < _PLAIN
    at = text.find(secret, begin, end)
    while at >= 0:
        stop = at + len(secret)
        if not (alone and (text[at - 1 : at].isalnum() or text[stop : stop + 1].isalnum())):
            yield at, stop
        at = text.find(secret, at + 1, end)


def _find_cut(secret: str, text: str) -> Iterator[Span]:
    """Yield the first characters of a secret before "…", and the last ones behind it."""
    for cut in re.finditer('"?…', text):
        begin, end = cut.span()
        # The characters next to the cut tell mostly that nothing of the secret is there.
        before = text[max(0, begin - _LEAST) : begin] in secret
        for length in range(min(len(secret) - 1, begin), _LEAST - 1, -1) if before else ():
            if text.endswith(secret[:length], 0, begin):
                yield begin - length, begin
                break
        behind = text[end : end + _LEAST] in secret
        for length in range(len(secret) - 1, _LEAST - 1, -1) if behind else ():
            if text.startswith(secret[-length:], end):
                yield end, end + length
                break


def _join(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that overlap as one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
