"""Tokens of current formats are masked, and what only looks like one is not.

The formats are those of a list that others keep (`kingfisher-secret-scanner`): each of its rules
gives expressions of which tokens are made here. The product's patterns are its own.
"""

from __future__ import annotations

import json
import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kingfisher_sdk import Rules
from rstr import Rstr

from gateway.domain.redaction import holds_secrets, mask, render_safe

_MADE, _SHOWN = 6, 3  # tokens made of a format, and how many of them are shown
_MORE = 20  # repeats at most beyond what an expression asks for
_FORMS = ("{}", "Use {} for it, please.", "curl -H 'X-Test: {}' https://h.example", '"{}"')
# Rules that find a name, an address or a key that everybody may read.
_OPEN = re.compile(r"-(?:id|url|name|username|host|domain|address)(?:\.\d+)?$|pub-key|public-key")
# How the list writes "the issuer's name, some words, and a sign": with the words of every day.
_SOME_WORDS = r"(?:[ \t\w.-]{0,20})"
_PLAINLY = {
    _SOME_WORDS: "(?:_api_key|_token|_secret)",
    r"""[\s'"]{0,3}""": "",
    r"(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)": "(?:=|: )",
    r"""[\x60'"\s=]{0,5}""": '"?',
}
# What Python reads otherwise, or what the list means otherwise than it says.
_IN_PYTHON = (
    (r"\[\[:alnum:\]\]", "[A-Za-z0-9]"),
    (r"\[:alnum:\]", "A-Za-z0-9"),
    (r"\\z", r"\\Z"),
    (r"\(\?:\[[A-Z]([a-z])\]\)", r"\1"),  # either case, which issuers write small
    (r"(?<=[a-z])\.(?=[a-z])", r"\."),  # a dot of a name
    (r"(?<=\\w)\\/\\\\", r"\\/"),  # the backslash before a slash in JSON
)


@dataclass(frozen=True, slots=True)
class Format:
    """Tokens of one format, each with the text in which people meet it."""

    name: str
    tokens: list[tuple[str, str]]

    def shown(self) -> list[str]:
        """Return each text in which a good part of the token can still be read."""
        return [
            text
            for token, alone in self.tokens
            for text, part in (
                (form.replace("{}", _spelled(alone, form)), _spelled(token, form)[-10:])
                for form in _FORMS
            )
            if part in render_safe(text).text
        ]


def _spelled(text: str, form: str) -> str:
    return json.dumps(text)[1:-1] if form == '"{}"' else text


def _expression(pattern: str) -> re.Pattern[str]:
    for theirs, ours in _IN_PYTHON:
        pattern = re.sub(theirs, ours, pattern)
    for theirs, ours in _PLAINLY.items():
        pattern = pattern.replace(theirs, ours)
    if "(?x)" not in pattern:
        pattern = pattern.replace(r"\s", " ")
    flags = set("".join(re.findall(r"\(\?([aimsx]+)\)", pattern)))  # Python wants them in front
    pattern = re.sub(r"\(\?[aimsx]+\)", "", pattern)
    return re.compile(f"(?{''.join(sorted(flags))}){pattern}" if flags else pattern)


def _format(rule: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Format | None:
    """Return what a rule says, unless a text alone cannot tell it."""
    expression = _expression(rule["pattern"])
    most = max(map(int, re.findall(r"\{(\d+)", expression.pattern)), default=0) + _MORE
    monkeypatch.setattr(sys.modules["rstr.xeger"], "STAR_PLUS_LIMIT", most)
    generator = Rstr(random.Random(rule["id"]))
    tokens: list[tuple[str, str]] = []
    for _ in range(_MADE):
        if match := expression.search(generator.xeger(expression.pattern)):
            named = "TOKEN" if "TOKEN" in expression.groupindex else 0
            group = named or rule["betterleaks_secret_group"] or 0
            token = match[group] if group else next(filter(None, match.groups()), match[0])
            tokens.append((token.strip(), match[0].strip()))
    beginnings = {token[:3] for token, _ in tokens}
    if len(beginnings) <= len(tokens) / 3:
        return Format(rule["id"], [(token, token) for token, _ in tokens[:_SHOWN]])
    return Format(rule["id"], tokens[:_SHOWN]) if _SOME_WORDS in rule["pattern"] else None


def test_tokens_of_current_formats_are_masked(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """At least 95 of 100 formats, each alone, in a sentence, in a command and in JSON.

    Counted are all rules of the list for secrets that a text can tell: those whose tokens begin
    alike, which stand alone; and those that the list knows by the issuer's name alone, which stand
    behind it, as in `ISSUER_token=`. Not counted are ids and addresses, helpers of other rules,
    and rules for whole files and command lines.
    """
    folder = request.config.cache.mkdir("formats") if request.config.cache else None
    listed = Rules(confidence="low", cache=folder is not None, cache_dir=folder)
    rules = [listed.detail(one["id"]) for one in listed.metadata()]
    closed = [one for one in rules if one["visible"] and not _OPEN.search(one["id"])]
    formats = [one for rule in closed if (one := _format(rule, monkeypatch)) and one.tokens]
    clear = {one.name: shown for one in formats if (shown := one.shown())}
    assert len(formats) >= 350
    assert len(clear) <= len(formats) * 0.05, (len(formats), clear)


def test_harmless_values_are_shown() -> None:
    """At most one of 100 is masked, as text, as a member's value and in a list: names of files and
    of code, hashes, ids, versions, addresses, commands, styles, words; some look like secrets."""
    values = Path(__file__).with_name("harmless_values.txt").read_text("utf-8").splitlines()
    assert len(set(values)) == len(values) >= 500
    masked = [
        one
        for one in values
        if holds_secrets(one)
        or mask({"content": one, "more": [one]}) != {"content": one, "more": [one]}
    ]
    assert len(masked) <= len(values) * 0.01, masked
