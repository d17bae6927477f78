"""Decide whether a masked value could act. Start reading at `hides`. Nobody can approve a call
whose effect a mask hides.

A mask hides a part of the call. If it covers only a secret's value, the rest of the call shows what
happens. If it covers a program, a path or a host, the effect is hidden. So a masked value counts as
shown only if its place proves that it is data. Such a place is a whole member named as a password,
a header, or a variable. It may also be one word that has a value and a flag, an assignment, a
header or an address. The value may have only characters that tokens have. A name such as `token` is
not enough, because the call may be about a token: the value must also look like an issued secret. A
plain word is never proven to be data. In a call that revokes a token, no name proves it, because
the value selects the token. All other values must be revealed before approval.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from gateway import __version__
from gateway.cards.blocks import texts_of
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import mask_of, masks_in, secrets_behind, secrets_in
from gateway.domain.secret_names import list_words, load_words, name_items
from gateway.models import Action
from gateway.policy.calls.call_effects import effects_of
from gateway.policy.grants.grant import Effect, Shape
from gateway.policy.grants.offers import Offer
from gateway.wire.roles import Role

NEEDS_ALL_SEEN = (Action.APPROVE, Action.EDIT, Action.RESPOND)
COULD_ACT = "A masked value could change what runs. Reveal it before you approve"
HIDDEN = "A masked value could change what runs. Reveal it in the inbox before you approve."

_MOST_KNOWN = 10_000
_MOST_MASKS = 100  # in one request; with more, nothing is proven
_MASKED = re.compile("⟨secret (?:number )?of [0-9]+ characters")  # also where the rest was cut off
_MOST_CHARS = 20_000  # longer texts are not split into words
_NAME = r"(?:password|passwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|token|authorization)"
# No call is about these themselves: they only give access.
_SURE = r"(?:password|passwd|passphrase|client[_-]?secret|private[_-]?key)"
_SCHEMES = r"(?:bearer|basic|token) "
_HEADER = (
    rf"(?:(?:proxy-)?authorization: ?{_SCHEMES}"
    r"|(?:x-(?:[a-z0-9]{1,20}-){0,4}(?:token|key)|private-token): ?)"
)
_NAMED = re.compile(rf"{_NAME}\Z", re.I)
_SURELY_NAMED = re.compile(rf"{_SURE}\Z", re.I)
_SCHEMED = re.compile(_SCHEMES, re.I)
_HEADED = re.compile(_HEADER, re.I)
_HEADER_NAME = re.compile(r"x-(?:[a-z0-9]{1,20}-){0,4}(?:token|key)|private-token", re.I)
_HEADERS = frozenset({"header", "headers"})
_VARIABLES = frozenset({"env", "environ", "environment"})
_WORKS_IN = (Role.REMARK, Role.WORKING_FOLDER)
_IDENTIFIER = re.compile(r"[\w.-]*")
# The form of a token: no blank, quote or operator, no path, and no host. Only the three parts of a
# signed token have dots, and no host ends in so long a part.
_TOKEN = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9_+-]*={0,2}|[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{27,}"
)
# Everyday words with a few digits after them: a chosen word may say what is done.
_PLAIN_WORDS = re.compile(r"(?:[A-Za-z]+\d{0,5}|\d+)(?:[_.+-]+(?:[A-Za-z]+\d{0,5}|\d+))*[_=+-]*")
_NUMBER = re.compile(r"\d+")
# A call with these words is about the token itself.
_ENDS, _ENDED = frozenset(load_words("ends")), frozenset(load_words("ended"))
_REVOKES = re.compile(r"(?<![A-Za-z])(?:revoke|revocation|invalidate)", re.I)
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----\n"
    r"(?:[A-Za-z0-9+/]{16,76}\n)*[A-Za-z0-9+/]{4,76}={0,2}\n"
    r"-----END [A-Z ]{0,20}PRIVATE KEY-----\n?"
)
# A whole word that has a value in it: the parts before and after the value.
_QUERY = r"(?:[a-z][a-z0-9+.-]*://[^\s?#\\@]+\?)?(?:[\w.-]+=[^&\s]*&)*[\w.-]*"
_WORDS = (
    (rf"--?[a-z0-9_-]*{_SURE}=", ""),
    (rf"(?:-H|--header=)?{_HEADER}", ""),
    (r"[a-z][a-z0-9+.-]*://[^\s/:@\"'?#\\]*:", r"@[^\s@\\]+"),
    (rf"{_QUERY}(?:{_SURE}|api[_-]?key)=", r"(?:&\S*)?"),
)
# More of them, for a value that looks issued.
_WORDS_OF_ISSUED = ((rf"--?[a-z0-9_-]*{_NAME}=", ""), (rf"{_QUERY}{_NAME}=", r"(?:&\S*)?"))
_ASSIGNED = re.compile(rf"\w*{_NAME}=", re.I)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.S)
# Programs with a flag that takes a secret: the words before the value, as one text, and the start
# of the value's own word. A flag that may itself be another flag's value is not certain.
_FLAGS = (
    (re.compile(r"curl(?: -[sSfLkvi]+)*(?: -u| --user)"), re.compile(r"[A-Za-z0-9_.-]*:")),
    (re.compile(r"(?:mysql(?:dump|admin)?|mariadb)(?: -[uh] [A-Za-z0-9_.-]+)*"), re.compile("-p")),
    (re.compile(r"sshpass -p"), re.compile("")),
)
# With these, the call may read a value from one place and run it in another.
_TAKES_UP = re.compile(
    r"[`$]|<<|[<>]\(|\|(?![ \t]*(?:jq|head|tail|wc|less|grep)\b)|%\w+%|(?:\A|[\s;&|()])#"
    r"|\b(?:eval|xargs|alias|exec|environ|getenv|printenv)\b|(?<![\w./-])source(?![\w./-])"
    r"|(?<![\w.-])(?:ba|da|z|k|c|tc|fi|a)?sh\b|(?:\A|[\n;&|])[ \t]*\.[ \t]"
    # Redirection to a file, or a program that is written in the command itself.
    r"|>(?![ \t]*/dev/null(?![\w./-])|&[0-9-])|\btee\b"
    r"|(?<![\w.-])(?:[gmn]?awk|sed|parallel|tclsh|expect)\b"
    r"|(?<![\w.-])(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|julia|rscript|osascript"
    r"|groovy|pwsh|powershell)[\d.]*[ \t](?:[^\n;|&]*[ \t])?"
    r"(?:-\w*[cerp]\b|--?(?:eval|print)|eval\b)",
    re.IGNORECASE,
)


class _Part(NamedTuple):
    """One text in a request: the value of a member or item or, if `data` is False, a text that
    never counts as data. `runs` is False for texts that nothing could run, such as a remark or a
    folder."""

    text: str
    name: str = ""
    data: bool = True
    environment: bool = False
    header: bool = False
    runs: bool = True


class MaskProofs:
    """Remembers the results of `hides` for pending requests, because the first check may take long.

    Each process has a cache. A record can also contain a proof that its masks hide nothing, so that
    other gateways need not check it. A proof needs `key`, which only gateways have, so nobody can
    forge it in Redis. Without a key there are no proofs.
    """

    def __init__(self, key: bytes = b"") -> None:
        self._secret = hashlib.sha256(key).digest() if key else b""
        self._known: dict[tuple[str, int, str], bool] = {}

    def prove(self, record: StoredRequest) -> StoredRequest:
        """Check the masks of a new request. Return the record with a proof if they hide nothing."""
        if not self._secret or self.hides(record):
            return record
        return record.copy_with(proof=self._sign(record))

    def hides(self, record: StoredRequest) -> bool:
        """Return whether a mask hides a value that is not proven to be data."""
        known = self.recall(record)
        if known is None:
            known = hides(record)
            if not record.final:  # a decided request may be erased
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[_key(record)] = known
        return known

    def recall(self, record: StoredRequest) -> bool | None:
        """Return the known result, or None if the check has not been made yet."""
        if record.final:
            return None
        known = self._known.get(_key(record))
        if known is None and self._secret and record.proof:
            return False if hmac.compare_digest(record.proof, self._sign(record)) else None
        return known

    def _sign(self, record: StoredRequest) -> str:
        """Return the proof for exactly this call, as operators declared it, in this version."""
        roles = sorted(record.declared.items())
        subject = repr((__version__, *_key(record), roles, record.trusted))
        return hashlib.blake2b(subject.encode(), key=self._secret, digest_size=16).hexdigest()


def hides(record: StoredRequest) -> bool:
    """Return whether a mask hides a value of the request that is not proven to be data."""
    return _proven_in(record) is None


def hides_offer(record: StoredRequest, offer: Offer, effect: Effect) -> bool:
    """Whether a mask in the words of an offer hides a value that could act.

    An exact offer covers only the call that the card shows, and an exact deny offer hides nothing.
    """
    if offer.match.shape is Shape.EXACT:
        return effect is Effect.ALLOW and hides(record)
    return _hides_words(record, offer.words)


def _hides_words(record: StoredRequest, words: str) -> bool:
    """Whether a mask in a text about a request hides more than values that are proven data."""
    found = [words[start:end] for start, end in record.find_secrets(words)]
    if not found and not _MASKED.search(words):
        return False
    proven = _proven_in(record)
    if proven is None or not proven.issuperset(found):
        return True
    return not masks_in(words) <= set(map(mask_of, proven))


def _key(record: StoredRequest) -> tuple[str, int, str]:
    return record.id, record.shown_since, record.digest


def _proven_in(record: StoredRequest) -> frozenset[str] | None:
    """Return the secrets if all of them are proven to be only data, else None."""
    parts = list(_parts(record))
    found = [(part, list(dict.fromkeys(_spans(part)))) for part in parts]
    if not any(spans for _, spans in found) and not _shown_in(record):
        return frozenset()
    if sum(len(spans) for _, spans in found) > _MOST_MASKS:
        return None
    everything = "\n".join(part.text for part in parts if part.runs)
    taking = (part.text for part in parts if part.runs and not _is_plain_name(part))
    taken_up = _TAKES_UP.search("\n".join(taking)) is not None
    ends = _ends_secrets(record.request.tool, everything)
    proven: set[str] = set()
    for part, spans in found:
        for secret in {part.text[start:end] for start, end in spans}:
            if _is_plain(secret) or (ends and not part.header and not _HEADED.match(part.text)):
                return None
            if not _is_data(part, secret, everything, taken_up=taken_up):
                return None
            proven.add(secret)
    # Cards show JSON: each value that is masked there must be a proven one.
    return frozenset(proven) if proven.issuperset(_shown_in(record)) else None


def _shown_in(record: StoredRequest) -> set[str]:
    """Return the secrets that a card's texts mask."""
    found = set()
    for _, kind, text in texts_of(record):
        for start, end in record.find_secrets(text):
            secret = text[start:end]
            found.add(_decode(secret) if kind == "json" else secret)
    return found


def _decode(secret: str) -> str:
    try:
        return str(json.loads(f'"{secret}"'))
    except ValueError:
        return secret


def _parts(record: StoredRequest) -> Iterator[_Part]:
    request, context = record.request, record.request.context
    for text in (request.tool, context.cwd, context.host):
        yield _Part(text or "", data=False, runs=False)
    leaves = effects_of(record)[0].leaves if record.arguments else ()
    idle = {one.place for one in leaves if one.role in _WORKS_IN}
    for name, value in record.arguments.items():
        parts = _within({name: value})
        yield from (one._replace(runs=False) for one in parts) if name in idle else parts
    for other in (request.payload, context.files):
        yield from _within(other)
    yield from _within(context.env, "env")


def _within(value: Any, name: str = "", kept: str = "") -> Iterator[_Part]:
    """Yield the texts in a value. `kept` is the name of the member that contains the value."""
    if isinstance(value, dict | list | tuple):
        place = name.lower() if name.lower() in _HEADERS | _VARIABLES else kept
        for member, told, item in name_items(value, name):
            if member is not None:
                yield _Part(member, data=False)
            yield from _within(item, told, place)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        in_headers, in_variables = kept in _HEADERS, kept in _VARIABLES
        yield _Part(str(value), name, environment=in_variables, header=in_headers)


def _is_plain_name(part: _Part) -> bool:
    """Whether a text is the name of a member, in which nothing could run."""
    return not part.data and _IDENTIFIER.fullmatch(part.text) is not None


def _spans(part: _Part) -> Iterator[tuple[int, int]]:
    """Yield the positions of the secrets in a text, found both with the text's name and without
    it."""
    yield from secrets_in(part.text)
    if part.name:
        yield from secrets_behind(part.name, part.text)


def _is_data(part: _Part, secret: str, everything: str, *, taken_up: bool) -> bool:
    text, named = part.text, bool(_NAMED.search(part.name) or _SURELY_NAMED.search(part.name))
    if not part.data or (part.environment and taken_up):
        return False
    if named and _KEY_BLOCK.fullmatch(text):
        return True
    if not _TOKEN.fullmatch(secret):
        return False
    if _is(_SCHEMED if named else _HEADED, text, secret) and (named or not part.name):
        return True
    if named and text == secret and (_is_credential(part) or _looks_issued(secret)):
        return True
    words = [] if taken_up else _words(text)
    places = [at for at, word in enumerate(words) if secret in word]
    return bool(places) and all(
        _word_is_data(words, at, secret, everything) or _is_of_flag(words, at, secret)
        for at in places
    )


def _is_plain(secret: str) -> bool:
    """Whether a value reads like a name. Numbers do not count."""
    if not _PLAIN_WORDS.fullmatch(secret) or _NUMBER.fullmatch(secret):
        return False
    return not _looks_issued(secret)


def _ends_secrets(tool: str, everything: str) -> bool:
    """Whether a call acts on a secret itself, for example by revoking a token."""
    words = set(list_words(tool))
    if words & _ENDS and (words & _ENDED or words <= _ENDS):
        return True
    return _REVOKES.search(everything) is not None


def _is_credential(part: _Part) -> bool:
    """Whether a value with this name, in this place, can only be a credential."""
    named = _SURELY_NAMED.search(part.name) or _HEADER_NAME.fullmatch(part.name)
    return part.environment or part.header or named is not None


def _looks_issued(secret: str) -> bool:
    """Whether a value is recognized as a secret by its form alone."""
    return list(secrets_in(secret)) == [(0, len(secret))]


def _is_of_flag(words: list[str], at: int, secret: str) -> bool:
    """Whether a word of a command is the value of a flag that passes a secret to a known
    program."""
    before = " ".join(words[:at])
    return any(
        flags.fullmatch(before) and _is(beginning, words[at], secret) for flags, beginning in _FLAGS
    )


def _is(beginning: re.Pattern[str], text: str, secret: str) -> bool:
    return text.endswith(secret) and bool(beginning.fullmatch(text, 0, len(text) - len(secret)))


def _words(text: str) -> list[str]:
    """Return a command's words. A text that cannot be parsed is returned as one word that proves
    nothing."""
    if len(text) > _MOST_CHARS:
        return [f"\n{text}"]
    reader = shlex.shlex(text, posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    try:
        return list(reader)
    except ValueError:
        return [f"\n{text}"]


def _word_is_data(words: list[str], at: int, secret: str, everything: str) -> bool:
    word, value = words[at], re.escape(secret)
    places = (*_WORDS, *_WORDS_OF_ISSUED) if _looks_issued(secret) else _WORDS
    known = any(re.fullmatch(f"(?i:{one}){value}{behind}", word) for one, behind in places)
    # A variable that is set for the program after it.
    assigned = _is(_ASSIGNED, word, secret) and all(map(_ASSIGNMENT.fullmatch, words[:at]))
    name = word.removesuffix(f"={secret}")
    return (known or assigned) and (not name.isidentifier() or _once(name, everything))


def _once(name: str, everything: str) -> bool:
    """Whether a variable is named only once, so that it is set and never used."""
    return len(re.findall(rf"\b{re.escape(name)}\b", everything)) == 1
