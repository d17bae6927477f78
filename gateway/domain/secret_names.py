"""Find secrets by the name before them: which names mean a secret, and where each value ends.

Start reading at `find_named`. The words of a name count, however they are joined: `dbPass`,
`DB_PASS`, `db-pass`. If code, a type or a name is written instead of the value, it is not a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from gateway.domain.safe_text import MASK, Span


class Tells(IntEnum):
    """How surely a name means that its value is a secret. For LIKELY the value must be one word;
    for MAYBE it must also have a digit."""

    NOTHING = 0
    MAYBE = 1
    LIKELY = 2
    SURELY = 3


# Every name that tells of a secret contains one of these words.
STEMS = ("pass", "pw", "pin", "secret", "token", "key", "cred", "auth", "cookie", "jwt")


def load_words(row: str) -> tuple[str, ...]:
    """Return the words in the rows of `secret_words.txt` that have this name."""
    text = files(__package__).joinpath("secret_words.txt").read_text("utf-8")
    rows = (line.split() for line in text.splitlines())
    return tuple(word for name, *words in rows if name == row for word in words)


_SURE = load_words("sure")
_KEYS = frozenset(load_words("keys"))
_TOKENS = frozenset(load_words("tokens"))
_JOINED = (*load_words("joined"), *(f"{one}key" for one in _KEYS))
_LAST = frozenset(load_words("last"))
_PERHAPS = frozenset(load_words("perhaps"))
_ABOUT = frozenset(load_words("about"))
_NO_ACCESS = frozenset(load_words("no_access"))
_ASKED = frozenset(load_words("asked"))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_AS_ASCII = str.maketrans("\u017f\u212a\u0131\u0130", "skii")
_NAME = re.compile(r"[\w.-]{0,60}")
_MOST_NAME = 60
_BEHIND = frozenset("\"'`=:]%> \t\\")  # one of these follows a name that tells

_SPACE = r"[ \t]{0,20}"
_QUOTE = r"\\{0,15}[\"'`]"
_TYPE = (
    r"(?:[&*]?(?:'static )?[A-Za-z][\w.]{0,40}(?:\[[\w., \[\]]{0,40}\])?\??"
    r"(?:[ \t]?\|[ \t]?[\w.]{1,40}){0,3})"
)
_IS = re.compile(
    rf"(?P<close>{_QUOTE})?(?:(?P<item>\])?{_SPACE}(?::{_SPACE}{_TYPE}|string)?{_SPACE}"
    rf"(?P<set>=>|=(?![=~])|:=){_SPACE}|{_SPACE}(?P<tell>:)(?!:){_SPACE}|(?P<url>%3(?i:[ad])))"
)
# Between a flag and its value: the next word of a command, even on the next line, or of a list.
_NEXT = re.compile(
    r"[ \t]{1,3}(?:(?:\\\r?\n|\\{2,7}n)[ \t]{0,40})?|\\{0,7}[\"'],\s{0,80}(?=\\{0,7}[\"'])"
)
# After these words, a blank separates a name from its value.
_BLANK_BEHIND = re.compile(
    r"(?i:\b(?:user|role|login|encrypted|with)\b[^;\n]{0,100}"
    r"|\b(?:login|account)[ \t\n]{1,9}\S{1,99}[ \t\n]{1,9}"
    r"|\b(?:config|configure)[\s\"',]{1,9}set[\s\"',]{1,9}(?:\S{0,99}:)?)\Z"
)
_FIRST_OF_PAIR = re.compile(
    rf"{_QUOTE}(?i:name|key|field|parameter|param|variable|option|header|k)"
    rf"{_QUOTE}\s{{0,3}}:\s{{0,3}}{_QUOTE}\Z"
)
_SECOND_OF_PAIR = re.compile(
    rf"{_QUOTE}\s{{0,3}},\s{{0,80}}{_QUOTE}(?i:value|val){_QUOTE}\s{{0,3}}:\s{{0,3}}"
)
_OF_TWO = re.compile(rf"\[\s{{0,80}}{_QUOTE}\Z")
_SECOND_OF_TWO = re.compile(
    rf"{_QUOTE}\s{{0,3}},\s{{0,80}}(?={_QUOTE}[^\"'`\n]{{1,400}}{_QUOTE}\s{{0,80}}\])"
)
_MEMBER = r"(?i:value|values|val|secret|data|text|plain|plaintext|raw|current|old|new|default)"
_MEMBER_NAME = re.compile(rf"{_MEMBER}\Z")
_INTO = re.compile(
    rf"\{{[^{{}}\[\]]{{0,400}}?{_QUOTE}{_MEMBER}{_QUOTE}\s{{0,3}}:\s{{0,3}}|\[\s{{0,80}}"
)
_AND_NEXT = re.compile(rf"{_QUOTE}\s{{0,80}},\s{{0,80}}(?={_QUOTE})")
_OPENS = re.compile(r"[rbfuRBFU]{0,2}(\\{0,15})([\"'`])")
_ENDS = re.compile(r"[\s;&|),\]}\"'`]|\\n|\Z")
_ANY_QUOTE = re.compile(r"(\\*)([\"'`])")
_BARE = re.compile(
    r"(?:[^\s\"'`$;|&<>()\\{}\[\],]|,(?!\w{1,40}[=:])(?=[^\s,\"'\]})\\])|\\[$;&|<>()!#]"
    r"|\$(?![({A-Z])|\{[^\s{}\"']{0,99}\}|\[[^\s\[\]\"']{0,99}\])+"
)
_OF_FLAG = re.compile(r"[^\s\"'`$;|&<>()\\]+")
_XML = re.compile(r">([^<\n]{4,400})</")
_BLOCK = re.compile(
    r"[|>][+-]?(?:\n|\\{1,7}n)[ \t]+([^\n\\\"]+(?:(?:\n|\\{1,7}n)[ \t]+[^\n\\\"]+)*)"
)
_SCHEME = re.compile(r"(?i:bearer|basic|token|digest|apikey)[ \t]+")
_PLAIN = re.compile(
    r"(?i:none|null|nil|true|false|string|str|text|secretstr|optional|undefined|required|enabled"
    r"|disabled|inherit|boolean|integer|number|object|buffer|bearer|basic|digest|token|include|omit"
    r"|same-origin|default|hidden|masked|redacted|password)(?:[|?\[ ].*)?"
)
# References that a program or template fills in, and placeholders for values that were left out.
_REFERENCE = re.compile(
    r"\$\{[^}]*\}|\$\([^)]*\)|\$[A-Z_][A-Z0-9_]*|\$[A-Za-z_]+|\{\{.*\}\}|\{[A-Za-z_.]*\}"
    rf"|<[A-Za-z _-]*>|%[A-Za-z_]+%|\[[A-Za-z _-]*\]|[*.\u2022\u2026]+|[xX]+|{MASK.pattern}"
)
_ELSEWHERE = re.compile(r"\.{0,2}/|~/|~\Z|arn:")
_ADDRESS = re.compile(r"-----BEGIN\b|[A-Za-z][A-Za-z0-9+.-]{0,15}://")
_LOOKED_UP = re.compile(
    r"(?:self|this|process\.env|os\.environ|import\.meta\.env|req|request|settings|config|vars?|env"
    r"|secrets|params|options|opts|args|props|state|ctx|data|form|body|user|event)"
    r"(?:\??\.[A-Za-z_]{1,40}){1,4}"
)
_CALLS = re.compile(r"\(|:{0,2}<(?!/)|\[\\{0,15}[\"']")
_FLAG_POINTS = re.compile(r"-|id=|type=|(?:file|env|fd):")


class _Name(NamedTuple):
    """A name in a text, how surely it means a secret, and how the value follows it."""

    text: str
    begin: int
    end: int
    tells: Tells
    flag: bool = False
    sets: bool = False  # an assignment sign follows directly
    prose: bool = False  # a word and a blank are before it


@lru_cache(maxsize=4096)
def judge(name: str) -> Tells:
    """Return how surely a name means that its value is a secret."""
    words = list_words(name)
    while words and (words[-1].isdigit() or words[-1] == "value"):
        words.pop()
    if not words or words[-1] in _ABOUT:
        return Tells.NOTHING
    if name.startswith("-") and words[0] in _ASKED:
        return Tells.NOTHING
    for at in range(len(words) - 1, -1, -1):
        tells = _judge_word(words[:at], words[at], last=at == len(words) - 1)
        if tells:
            return tells
    headed = words[0] == "x" and "-" in name and (words[-1] == "key" or "auth" in words[:2])
    return Tells.LIKELY if headed else Tells.NOTHING


def _judge_word(before: list[str], word: str, *, last: bool) -> Tells:
    one = before[-1] if before else ""
    if word.endswith(_SURE) or (one, word) == ("client", "secret"):
        return Tells.SURELY
    if word == "token" and one in _NO_ACCESS:
        return Tells.NOTHING
    if word.endswith(_JOINED) or (word == "key" and one in _KEYS):
        return Tells.LIKELY
    if (word == "token" and one in _TOKENS) or (last and (word in _LAST or word.endswith("pwd"))):
        return Tells.LIKELY
    return Tells.MAYBE if last and word in _PERHAPS else Tells.NOTHING


def list_words(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    return [one.lower() for one in _WORD.findall(name.translate(_AS_ASCII))]


@lru_cache(maxsize=2)  # each search folds the same text
def fold(text: str) -> str:
    """Return text in lower case without changing its length, as a case-insensitive regular
    expression compares it."""
    if text.isascii():
        return text.lower()
    return text.replace("\u0130", "i").lower().replace("\u0131", "i").replace("\u017f", "s")


def name_items(value: Any, name: str) -> Iterator[tuple[str | None, str, Any]]:
    """Yield each item of an object or list. Each result is the name of the item's member, if any,
    the name that decides whether it is a secret, and the item.

    {"name": "password", "value": …}, {"password": {"value": …}} and ["password", …] are treated
    like members, because rules and variables are written in these forms.
    """
    told = name if judge(name) else ""
    if isinstance(value, dict):
        called = next(
            (one for key in value if _is_first(key) and isinstance(one := value[key], str)), ""
        )
        for member, item in value.items():
            passed = _MEMBER_NAME.match(member) is not None
            named = called if member.lower() in ("value", "val") and called else ""
            yield member, named or (told if passed and told else member), item
        return
    pair = len(value) == 2 and all(isinstance(one, str) for one in value)  # noqa: PLR2004
    for at, item in enumerate(value):
        second = pair and at == 1 and any(map(str.isdigit, item)) and judge(value[0])
        yield None, value[0] if second else told, item


def _is_first(member: str) -> bool:
    return member.lower() in (
        *("name", "key", "field", "parameter", "param", "variable", "option", "header", "k"),
    )


def value_behind(name: str, text: str) -> list[Span]:
    """Return the position of the secret in the value of a member with this name. The list is empty
    if the value is not a secret."""
    if tells := judge(name):
        return _within(_Name(name, 0, 0, tells), text, 0, len(text), quoted=True)
    return []


def find_named(text: str, *, words: bool = False) -> Iterator[Span]:
    """Yield the values in a text that are secrets because of the name before them, in order. With
    `words`, yield only those after a flag or a blank, which may be the next item of a list."""
    folded = fold(text)
    starts: set[int] = set()
    for stem in STEMS:
        at = folded.find(stem)
        while at >= 0:
            starts.add(at)
            at = folded.find(stem, at + len(stem))
    done = 0
    for at in sorted(starts):
        if at < done:
            continue
        end = _NAME.match(text, at).end()  # type: ignore[union-attr]
        name = _name_at(text, at, end, done) if text[end : end + 1] in _BEHIND else None
        done = end
        if name and name.tells:
            for span in _spans_behind(text, name, words=words):
                yield span
                done = max(done, span[1])


def _name_at(text: str, at: int, end: int, floor: int) -> _Name:
    begin = at
    while begin > max(floor, at - _MOST_NAME) and (
        text[begin - 1].isalnum() or text[begin - 1] in "_.-"
    ):
        begin -= 1
    if text[begin - 1 : begin] == "\\" and text[begin] in "nrt" and begin < at:
        begin += 1  # after a line break in JSON
    name = text[begin:end]
    if text[begin - 1 : begin] == ":" and text[begin - 2 : begin - 1].isdigit():
        return _Name(name, begin, end, Tells.NOTHING)  # part of an ARN
    prose = text[begin - 1 : begin] == " " and text[begin - 2 : begin - 1].isalpha()
    return _Name(name, begin, end, judge(name), name.startswith("-"), prose=prose)


def _spans_behind(  # noqa: PLR0911 (one for each way to write a name and its value)
    text: str, name: _Name, *, words: bool
) -> list[Span]:
    end, before = name.end, text[max(0, name.begin - 130) : name.begin]
    if name.flag and (gone := _NEXT.match(text, end)):
        return _value(text, gone.end(), name)
    if (sign := _IS.match(text, end)) and not (words and not name.flag):
        if sign["item"] and not sign["set"]:
            return []
        sets = (sign["set"] or sign["url"] or "") != "" and sign[0] in ("=", "%3D", "%3d")
        return _value(text, sign.end(), name._replace(sets=sets))
    if (gone := _NEXT.match(text, end)) and _BLANK_BEHIND.search(before):
        quoted = _OPENS.match(text, gone.end())
        plain = not before.rstrip().lower().endswith(("with", "user", "role", "encrypted"))
        return _value(text, gone.end(), name._replace(sets=True)) if quoted or plain else []
    if words:
        return []
    if before.endswith("<") and (found := _XML.match(text, end)):
        return _within(name, text, *found.span(1), quoted=True)
    for first, second in ((_FIRST_OF_PAIR, _SECOND_OF_PAIR), (_OF_TWO, _SECOND_OF_TWO)):
        if (gone := second.match(text, end)) and first.search(before):
            return _value(text, gone.end(), name)
    return []


def _value(text: str, at: int, name: _Name) -> list[Span]:
    """Return the positions of secrets after a name and the `=`, `:` or blank that follows it."""
    if opened := _OPENS.match(text, at):
        if _ENDS.match(text, opened.end()):
            return []  # the closing quote of a text that ends with the name
        end = _close(text, opened.end(), opened[1], opened[2])
        return _within(name, text, opened.end(), end, quoted=True)
    if block := _BLOCK.match(text, at):
        return [block.span(1)] if name.tells > Tells.MAYBE else []
    found: list[Span] = []
    if into := _INTO.match(text, at):
        while opened := _OPENS.match(text, into.end()):
            end = _close(text, opened.end(), opened[1], opened[2])
            found += _within(name, text, opened.end(), end, quoted=True)
            if not (into := _AND_NEXT.match(text, end)) or text[at] != "[":
                break
        return found
    scheme = _SCHEME.match(text, at)
    begin = scheme.end() if scheme else at
    bare = (_OF_FLAG if name.flag else _BARE).match(text, begin)
    if not bare or _CALLS.match(text, bare.end()):
        return []
    return _within(name, text, begin, bare.end(), quoted=False)


def _close(text: str, begin: int, depth: str, quote: str) -> int:
    """Return the end of a quoted text. If the closing quote is missing, the text ends with its
    line."""
    line = text.find("\n", begin) if quote != "`" else -1
    line = len(text) if line < 0 else line
    for found in _ANY_QUOTE.finditer(text, begin, line):
        same = len(found[1]) == len(depth) or (not depth and len(found[1]) % 2 == 0)
        if found[2] == quote and same:
            return found.end() - 1 - len(depth)
    return line


def _within(name: _Name, text: str, begin: int, end: int, *, quoted: bool) -> list[Span]:
    """Return the position of the secret in a value. The list is empty if the value has no
    secret."""
    value = text[begin:end]
    if quoted and (scheme := _SCHEME.match(value)):
        begin += scheme.end()
        value = value[scheme.end() :]
    if not quoted:
        value = value.rstrip(":")
        end = begin + len(value)
    blank = quoted and re.search(r"[\s\"']", value)
    if blank and name.tells < Tells.SURELY:
        first = _BARE.match(value)
        value = first[0] if first and any(map(str.isdigit, first[0])) else ""
        end = begin + len(value)
    return [(begin, end)] if _is_secret(name, value, text, end, quoted=quoted) else []


def _is_secret(  # noqa: PLR0911 (each line is a separate reason)
    name: _Name, value: str, text: str, end: int, *, quoted: bool
) -> bool:
    sure, digits = name.tells is Tells.SURELY, any(map(str.isdigit, value))
    least = 4 if sure or name.flag or (name.tells is Tells.MAYBE and value.isdigit()) else 6
    if len(value) < least or _PLAIN.fullmatch(value) or _REFERENCE.fullmatch(value):
        return False
    if _ADDRESS.match(value) or (_ELSEWHERE.match(value) and not (sure and quoted)):
        return False
    if _points_elsewhere(name, value, text):
        return False
    if name.tells is Tells.MAYBE and not digits and not (name.sets and name.text.isupper()):
        return False
    if list_words(value) == list_words(name.text) and not digits:
        return False
    if quoted or (name.sets and name.text.isupper()):
        return True
    return not (value.startswith("$") or _is_code(name, value, text, end, digits=digits))


def _points_elsewhere(name: _Name, value: str, text: str) -> bool:
    """Whether a value is a folder, a list of cookies (each cookie is found separately), or a
    reference to where a secret is stored."""
    said = name.text.lower()
    if said.endswith("pwd") and "/" in value and text[name.begin - 1 : name.begin] != ";":
        return True
    if said.endswith("cookie") and re.match(r"[\w.-]{1,99}=", value):
        return True
    return name.flag and _FLAG_POINTS.match(value) is not None


def _is_code(name: _Name, value: str, text: str, end: int, *, digits: bool) -> bool:
    """Whether a value without quotes is a name, a type, a function call or a word of a sentence."""
    if re.match(r"[A-Za-z_.]{1,60}(?:\[|::)", value) or _LOOKED_UP.fullmatch(value):
        return True
    if re.fullmatch(r"token", name.text) and text[end - len(value) - 1] == ":":
        return re.fullmatch(r"[\w-]{1,19}", value) is not None  # people are named so
    if digits:
        return False
    sure = name.tells is Tells.SURELY
    if re.fullmatch(r"[A-Za-z_]+" if sure else r"[A-Za-z_-]+", value):
        said = list_words(value)
        own = len(said) > 1 or value in _SURE or value in _LAST  # `userPassword`, not `mypassword`
        if judge(value) and (not sure or (own and not name.flag)):
            return True
        if not sure and not {"secret", "token", "key", "password"}.isdisjoint(said):
            return True
    follows = re.match(r"[ ][a-z]{2,}", text[end : end + 4])
    return not sure and value.isalpha() and value.islower() and bool(name.prose or follows)
