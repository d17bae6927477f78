"""What a person reads on a surface, put together again: the way back from headings, escapes, masks.

Nothing here asks the product how it wrote anything.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterable
from typing import Any

from gateway.domain.records import StoredRequest
from gateway.models import Kind
from tests.conftest import MASK_KEY
from tests.contract.texts import unescaped

Json = dict[str, Any]
Section = tuple[str, str]

_TEXTS = "command|cmd|script|diff|patch"
_LABEL = (
    rf'{_TEXTS}|arguments|argument(?: ".*")?|payload|changed environment|files and their SHA-256'
    r"|calls|name of the (?:tool|host|folder)"
)
_HEADING = re.compile(rf"(?:\A|\n\n)── ⟨(?P<label>{_LABEL})⟩ ──\n")
_MASK = re.compile(
    r"⟨secret (?P<number>number )?of (?P<size>\d+) characters, digest (?P<digest>[0-9a-f]{8})…⟩"
)
_OF_MASKS = hmac.digest(MASK_KEY, b"masks", "sha256")
_NAMED = re.compile(r'argument (?P<name>".*")')
_TOKEN = re.compile(r"[A-Za-z0-9_.+/=-]+")
_KEY = re.compile(r"(?:\\n|[A-Za-z0-9+/=\n])+")


def what_runs(record: StoredRequest) -> str:
    """Return all that would run as one text, in which 1, 1.0, true and "1" differ."""
    request, context = record.request, record.request.context
    return told(
        {
            "tool": request.tool,
            "arguments": record.arguments,
            "payload": request.payload,
            "host": context.host,
            "folder": context.cwd,
            "environment": context.env,
            "files": context.files,
        }
    )


def told(read: Json) -> str:
    """Return what was read in the same form."""
    return json.dumps(read, sort_keys=True)


class Reader:
    """Reads what is shown of one record. `hidden` are the secrets that were masked."""

    def __init__(self, record: StoredRequest) -> None:
        self._pool = list(_texts_in(record))
        numbers = _numbers_in(json.loads(what_runs(record)))
        self._pool += [str(one) for one in numbers]
        self.hidden: set[str] = set()

    def text(self, shown: str) -> str:
        """Return a text without our escapes, each masked value in its place."""
        made, done = [], 0
        for mask in _MASK.finditer(shown):
            made += [unescaped(shown[done : mask.start()]), self._find(mask)]
            done = mask.end()
        return "".join([*made, unescaped(shown[done:])])

    def name(self, shown: str) -> str:
        """Return a quoted name."""
        found = json.loads(self.text(shown))
        assert isinstance(found, str)
        return found

    def said(self, value: Any) -> Any:
        """Return a JSON value of the HTTP API with each masked value in its place; a mask says
        of a number that it is one."""
        if isinstance(value, str):
            if (mask := _MASK.fullmatch(value)) and mask["number"]:
                return json.loads(self._find(mask))
            made, done = [], 0
            for mask in _MASK.finditer(value):
                made += [_unspelled(value[done : mask.start()]), self._find(mask)]
                done = mask.end()
            return "".join([*made, _unspelled(value[done:])])
        if isinstance(value, dict):
            return {self.said(name): self.said(item) for name, item in value.items()}
        return [self.said(item) for item in value] if isinstance(value, list) else value

    def full(self, text: str) -> list[Section]:
        """Return the sections of a full view."""
        assert text.startswith("── ⟨")
        found = list(_HEADING.finditer(text))
        ends = [one.start() for one in found[1:]] + [len(text)]
        return [(one["label"], text[one.end() : end]) for one, end in zip(found, ends, strict=True)]

    def gather(self, sections: Iterable[Section], facts: Json) -> Json:
        """Return what runs by these sections; `facts` has what else names tool, host, folder."""
        arguments: Json = {}
        read: Json = {"payload": None, "environment": {}, "files": {}, "host": None, "folder": None}
        members = {"changed environment": "environment", "files and their SHA-256": "files"}
        for label, shown in sections:
            text = self.text(shown)
            if label.startswith("name of the "):
                facts = {**facts, label.removeprefix("name of the "): json.dumps(text)}
            elif label in ("arguments", "argument"):
                _add(arguments, strict(text))
            elif label in _TEXTS.split("|"):
                _add(arguments, {label: text})
            elif label == "calls":
                _add(arguments, read_plan(text))
            elif named := _NAMED.fullmatch(label):
                _add(arguments, {self.name(named["name"]): text})
            else:
                read[members.get(label, label)] = strict(text)
        for name, shown in facts.items():
            read[name] = self.name(shown)
        return {**read, "arguments": arguments}

    def _find(self, mask: re.Match[str]) -> str:
        size, wanted = int(mask["size"]), mask["digest"]
        for text in self._pool:
            for at in range(len(text) - size + 1):
                part = text[at : at + size]
                if hmac.digest(_OF_MASKS, part.encode(), "sha256").hex().startswith(wanted):
                    self.hidden.add(part)
                    return part
        raise AssertionError(f"nothing that runs is what was masked: {mask.group()}")

    def all_data(self) -> bool:
        """Whether nothing that was masked could act: no blank, no operator, no more than a token
        or the letters of a key."""
        return all(_TOKEN.fullmatch(one) or _KEY.fullmatch(one) for one in self.hidden)


def read_plan(text: str) -> Json:
    """Return the plan that a card's lines say."""
    begun = re.match(r"For (\d+) minutes? in this session, at most:\n", text)
    assert begun is not None
    calls: list[Json] = []
    rest = text[begun.end() :]
    while rest:
        number = f"{len(calls) + 1}. "
        assert rest.startswith(number)
        tool, rest = _take_json(rest.removeprefix(number))
        call: Json = {"tool": tool}
        for kind, words in ((Kind.COMMAND, " (command)"), (Kind.FILE_CHANGE, " (file change)")):
            if rest.startswith(words):
                call["kind"], rest = kind.value, rest.removeprefix(words)
        often = re.match(r", (?:once|(\d+) times)", rest)
        assert often is not None
        call |= {"times": int(often[1])} if often[1] else {}
        rest = rest[often.end() :]
        if rest.startswith(", any text in "):
            call["any_text"], rest = [], rest.removeprefix(", any text in")
            while rest.startswith((' "', ', "')):
                name, rest = _take_json(rest.lstrip(", "))
                call["any_text"].append(name)
        if rest.startswith(roles := ", with the roles "):
            call["roles"], rest = _take_json(rest.removeprefix(roles))
        assert rest[:2] in (": ", ":\n")
        call["arguments"], rest = _take_json(rest[2:])
        assert rest[:1] in ("", "\n")
        rest = rest[1:]
        calls.append(call)
    return {"calls": calls, "minutes": int(begun[1])}


def _take_json(text: str) -> tuple[Any, str]:
    """Return the JSON value that a text begins with, and the rest of the text."""
    value, end = json.JSONDecoder().raw_decode(text)
    return value, text[end:]


def _unspelled(text: str) -> str:
    return text.replace("⟨U+27E8⟩", "⟨")


def strict(text: str) -> Any:
    """Return the JSON value of a text; a name that stands twice is an error."""
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    made: Json = {}
    _add(made, dict(pairs))
    assert len(made) == len(pairs)
    return made


def _add(arguments: Json, more: Json) -> None:
    assert not arguments.keys() & more.keys()
    arguments.update(more)


def _texts_in(record: StoredRequest) -> Iterable[str]:
    yield from _leaves(json.loads(what_runs(record)))
    yield json.dumps(json.loads(what_runs(record)), ensure_ascii=False)


def _numbers_in(value: Any) -> Iterable[int | float]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _numbers_in(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _leaves(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
