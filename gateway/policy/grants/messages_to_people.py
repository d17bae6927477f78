"""Messages to people: the one kind of call whose text may differ though nobody declared it.

Everything here is a list of what is permitted. A tool, an argument or an address that it does not
know makes the text part of the action, and then it is the same each time.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Any

from gateway.domain.redaction import holds_secrets
from gateway.models import Kind
from gateway.policy.calls.roles import looks_like, plain_name
from gateway.policy.calls.tool_names import Family
from gateway.policy.calls.touches import Leaf, Touches
from gateway.wire.roles import Role

# What may stand in a message beside its text: it is the same each time, and the words say it.
_BESIDE = frozenset({Role.RECIPIENT, Role.ID, Role.DATA})
_ADDRESSES = frozenset(
    {"to", "channel", "channelid", "channelname", "chatid", "email", "issue", "issueid",
     "issuekey", "issuenumber", "number", "prnumber", "pullnumber", "recipient", "recipients",
     "repo", "repository", "room", "roomid", "ticket", "ticketid"}
)  # fmt: skip
# A channel, a chat's id, an e-mail address, an issue by its key or number, a repository.
_KNOWN_FORM = re.compile(
    r"#[\w.-]{1,80}|[CGD][A-Z0-9]{8,20}|-?[0-9]{1,20}"
    r"|[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
    r"|[A-Z][A-Z0-9]{1,10}-[0-9]{1,9}"
)
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
# Only a text under one of these names may have several lines; any other may end up in a header.
_OF_MANY_LINES = frozenset(
    {"body", "comment", "content", "contents", "description", "message", "note", "text"}
)
# What a header decodes to a line end, or to other text than it shows.
_ENCODED = re.compile(r"%0[ad]|=\?", re.IGNORECASE)
_EMAIL = re.compile(
    r"(?<![\w.%+@-])[A-Za-z0-9](?:[\w.%+-]{0,62}[A-Za-z0-9])?"
    r"@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}(?![\w@/])",
    re.ASCII,
)
# An at sign before a blank is one of measure, and so is `<`; a link stands in `<…>`, too.
_MENTION = re.compile(r"@(?!\s|$)|<(?![\s\d=]|$|https?://)|\[~|tg://", re.IGNORECASE)
# What stands before the first word of a line: blanks, quotes, brackets, a sign of a list.
_LEAD = re.compile(
    r"(?:\[[xX]\]|\s|[\"'`\u2018-\u201f\u00ab\u00bb*_(\[{>|)\]}]"
    r"|[-+\u2013\u2014\u2022#]+(?=\s|$)|[0-9]{1,3}[.)]\s)*"
)
_FIRST = re.compile(r"\w|[^\x00-\x7f]|[<,=@]|\.\.\.|:(?!\w)|-+$|$")
# Words by which bots are told to act, as a whole line or at its beginning.
_TOLD = re.compile(
    r"(?:approved?|deploy(?: (?:it|this))?|lgtm|merge(?: (?:it|this))?|queue|rebase|recheck|release"
    r"|rerun|retest|retry|run tests?|ship ?it|try)\W*$"
    r"|(?:ok(?:ay)? to test|(?:re)?test this|add to (?:allow|white)list|r[+-]|r=|delegate[+=])"
    r"|(?:bors|claude|codex|copilot|cursor|dependabot|devin|homu|hubot|jenkins|mergify(?:io)?"
    r"|renovate|rultor)\b",
    re.IGNORECASE,
)
_MESSAGE_IDS = frozenset({"inreplyto", "messageid", "messagets", "replyto"})


def is_message(touches: Touches) -> bool:
    """Whether a call is a message to people at an address that is known as one."""
    if touches.call.kind is not Kind.TOOL or touches.family is not Family.MESSAGE:
        return False
    known = all(one.role in _BESIDE or _is_id(one) for one in touches.leaves)
    return known and any(
        plain_name(one.name) in _ADDRESSES and _is_address(one) for one in touches.leaves
    )


def is_message_text(name: str, value: Any) -> bool:
    """Whether a value of this name is text for people alone: it mentions nobody, tells no bot what
    to do, holds no secret, is no path, URL or flag, and has one line where its name does not permit
    several."""
    if not isinstance(value, str) or not _has_plain_lines(name, value):
        return False
    if holds_secrets(value) or any(map(_calls, (value, html.unescape(value)))):
        return False
    return looks_like(value) is None and not (value[:1] == "-" and len(value.split()) == 1)


def _has_plain_lines(name: str, value: str) -> bool:
    many = plain_name(name) in _OF_MANY_LINES
    if not many and _ENCODED.search(value):
        return False
    rest = value.replace("\r\n", "\n").replace("\n", "").replace("\t", "") if many else value
    return not any(unicodedata.category(one) in ("Cc", "Zl", "Zp") for one in rest)


def _calls(text: str) -> bool:
    """Whether a text mentions anybody or may tell a bot what to do, however it is written."""
    text = unicodedata.normalize("NFKC", text)
    text = "".join(one for one in text if unicodedata.category(one) != "Cf")
    return _MENTION.search(_EMAIL.sub("", text)) is not None or any(
        map(_tells_bot, text.splitlines())
    )


def _tells_bot(line: str) -> bool:
    lead = _LEAD.match(line)
    begin = lead.end() if lead else 0
    return _FIRST.match(line, begin) is None or _TOLD.match(line, begin) is not None


def _is_id(leaf: Leaf) -> bool:
    return plain_name(leaf.name) in _MESSAGE_IDS and not isinstance(leaf.value, dict | list)


def _is_address(leaf: Leaf) -> bool:
    form = _REPOSITORY if plain_name(leaf.name) in ("repo", "repository") else _KNOWN_FORM
    return type(leaf.value) in (int, str) and form.fullmatch(str(leaf.value)) is not None
