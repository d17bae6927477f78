"""Secrets in what people are shown: found by their shape, replaced by length and digest.

The digest of a request covers the real bytes; only what is shown is masked. A mask never swallows
anything that could act: it covers the characters of a token, never spaces, quotes or operators.
"""

from __future__ import annotations

import hashlib
import json
import re
import traceback
from collections.abc import Iterator
from typing import Any

from gateway.domain.safe_text import Visible, make_visible

_TOKEN = r"[A-Za-z0-9_\-./+=~]"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]{0,15}://"
# What behind a name is no secret itself: a path, or the beginning of another shape that follows and
# must not be eaten, as only then the secret in it is found.
_OTHER = rf"[/.~]|-----BEGIN |(?i:bearer|basic|token)[ \t]|{_SCHEME}"
# Each pattern's group `s` is the secret. Shapes are those that the issuers document. Repeats before
# the secret's end are bounded: what an agent sends must not make the search slow.
_SHAPES = (
    r"\b(?P<s{n}>xox[abeprs]-[A-Za-z0-9-]{{10,}}|xapp-[A-Za-z0-9-]{{10,}})",
    r"\b(?P<s{n}>gh[pousr]_[A-Za-z0-9]{{20,}}|github_pat_[A-Za-z0-9_]{{20,}}|glpat-[A-Za-z0-9_-]{{16,}})",
    r"\b(?P<s{n}>sk-[A-Za-z0-9_-]{{20,}}|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{{16,}})",
    r"\b(?P<s{n}>(?:AKIA|ASIA)[A-Z0-9]{{16}})\b",
    r"\b(?P<s{n}>AIza[A-Za-z0-9_-]{{35}})",
    r"\b(?P<s{n}>[MNO][A-Za-z0-9_-]{{23,27}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,}})",
    r"(?<![A-Za-z0-9_-])(?P<s{n}>eyJ[A-Za-z0-9_-]{{4,4000}}\.[A-Za-z0-9_-]{{4,4000}}\.[A-Za-z0-9_-]*)",
    r"(?i:\b(?:bearer|basic|token)[ \t]{{1,3}})(?P<s{n}>[A-Za-z0-9_\-.+=~/]{{12,}})",
    r"(?i:password|passwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token"
    r"|access[_-]?token)[A-Za-z0-9_]{{0,20}}[\"']?[ \t]{{0,3}}[:=][ \t]{{0,3}}[\"']?"
    r"(?P<s{n}>(?!{other}){token}{{6,}})",
    r"{scheme}[^\s/:@\"']{{0,99}}:(?P<s{n}>[^\s/@\"'$`;|&<>()]{{3,255}})@",
    r"-----BEGIN [A-Z ]{{0,20}}PRIVATE KEY-----"
    r"(?P<s{n}>[A-Za-z0-9+/=\\n\s]{{1,9999}}?)(?:-----END|\Z)",
)
_SECRET = re.compile(
    "|".join(
        shape.format(n=number, token=_TOKEN, scheme=_SCHEME, other=_OTHER)
        for number, shape in enumerate(_SHAPES)
    )
)
# More than a shape needs behind its secret's first character until it is known as one; and those
# shapes that may need very much, by their beginnings.
_REACH, _LONG_REACH = 400, 10_100
_LONG_SIGNS = ("eyJ", "-----BEGIN ")
_DIGEST_CHARS = 8
_NAMES = re.compile(r"[A-Za-z0-9_-]+")
_MASK = re.compile(rf"⟨secret of \d+ characters, SHA-256 [0-9a-f]{{{_DIGEST_CHARS}}}…⟩")


def render_safe(text: str, *, reveal: bool = False) -> Visible:
    """Return text as people get it: nothing deceives the eye, and secrets are masked.

    With `reveal` secrets stay as they are.
    """
    found = [] if reveal else list(secrets_in(text))
    if not found:
        return make_visible(text)
    parts: list[tuple[str, bool]] = []
    hidden = mixed = False
    done = 0
    for start, end in found:
        before = make_visible(text[done:start])
        parts += [*before.segments, (mask_of(text[start:end]), True)]
        hidden, mixed = hidden or before.hidden, mixed or before.mixed_script
        done = end
    rest = make_visible(text[done:])
    return Visible(
        (*parts, *rest.segments),
        hidden or rest.hidden,
        mixed or rest.mixed_script,
        len(found),
    )


def mask(value: Any) -> Any:
    """Return a JSON value, or text, with the secrets in its text masked, as the audit keeps it."""
    if isinstance(value, str):
        return _in_text(value)
    if isinstance(value, dict):
        # {"name": "password", "value": "…"} is a member, too: rules and variables are written so.
        named = str(value.get("name", "value"))
        return {
            _in_text(name): _member(named if name == "value" else name, item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [mask(item) for item in value]
    return value


def _member(name: str, value: Any) -> Any:
    """Return a member's value masked; its name, too, may tell that it is a secret."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return mask(value)
    named = f"{name}: "
    text = _in_text(f"{named}{value}", len(named))
    return value if text == str(value) else text


def _in_text(text: str, begin: int = 0) -> str:
    """Return text from `begin` on, with the secrets in it masked."""
    found = [(start, end) for start, end in secrets_in(text) if start >= begin]
    for start, end in reversed(found):
        text = f"{text[:start]}{mask_of(text[start:end])}{text[end:]}"
    return text[begin:]


def names_secret(address: str) -> bool:
    """Whether a name in the address of a value says that the value is a secret."""
    return any(holds_secrets(f"{name}: {'x' * 20}") for name in _NAMES.findall(address))


def masks_in(value: Any) -> set[str]:
    """Return what stands in a JSON value in the place of secrets."""
    return set(_MASK.findall(json.dumps(value, ensure_ascii=False)))


def holds_secrets(text: str) -> bool:
    """Whether anything in the text would be masked."""
    return _SECRET.search(text) is not None


def bug(error: Exception) -> str:
    """Return what an exception is and where it came from, innermost first, for the log.

    Neither its words nor any value: they may hold what an agent or a person wrote.
    """
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return f"{type(error).__name__} in {' < '.join(f'{one.name}:{one.lineno}' for one in frames)}"


def start_of(text: str, most: int) -> str:
    """Return at most so many first characters, and no part of a secret as the last of them: half a
    secret would not be known as one. The text is searched only as far as such a secret can reach.
    """
    if len(text) <= most:
        return text
    begun = text[: most + len(max(_LONG_SIGNS, key=len))]
    reach = _LONG_REACH if any(sign in begun for sign in _LONG_SIGNS) else _REACH
    for match in _SECRET.finditer(text, 0, most + reach):
        start = match.start(match.lastgroup or 0)
        if start >= most:
            break
        if match.end() > most:
            return text[:start]
    return text[:most]


def secrets_in(text: str) -> Iterator[tuple[int, int]]:
    """Return where each secret in a text begins and ends."""
    for match in _SECRET.finditer(text):
        name = match.lastgroup
        if name is not None:
            yield match.span(name)


def mask_of(secret: str) -> str:
    """Return what people are shown in the place of a secret."""
    digest = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"⟨secret of {len(secret)} characters, SHA-256 {digest}…⟩"
