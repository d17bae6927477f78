"""Messages to people: the one kind of call whose text may differ from what was approved.

Everything here is a list of what is permitted. A tool, an argument or an address that it does not
know makes the text part of the action, and then it is the same each time.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from gateway.models import Kind
from gateway.policy.calls.argument_names import pathlike, plain_name, words_of_name
from gateway.policy.calls.paths import delicate
from gateway.wire.codec import JsonObject

_VERBS = frozenset(
    {"announce", "comment", "email", "mail", "message", "notify", "post", "reply", "send"}
)
_MAKING = frozenset({"add", "create"})
_MADE = frozenset({"comment", "issue", "note"})
_NOUNS = frozenset(
    {"a", "announcement", "channel", "chat", "comments", "direct", "discord", "dm", "github",
     "gitlab", "gmail", "in", "issue", "jira", "linear", "mcp", "messages", "note", "notification",
     "on", "outlook", "pr", "slack", "teams", "telegram", "text", "thread", "ticket", "to", "user"}
)  # fmt: skip
_TEXTS = frozenset(
    {"text", "message", "comment", "content", "body", "description", "subject", "title", "note"}
)
_ADDRESSES = frozenset(
    {"to", "channel", "channelid", "channelname", "chatid", "email", "issue", "issueid",
     "issuekey", "issuenumber", "number", "prnumber", "pullnumber", "recipient", "recipients",
     "repo", "repository", "room", "roomid", "ticket", "ticketid"}
)  # fmt: skip
# What else may stand beside: it is the same each time, and the words of the offer say it.
_BESIDE = frozenset(
    {"bcc", "cc", "inreplyto", "messageid", "messagets", "owner", "replyto", "threadid", "threadts"}
)
# A channel, a chat's id, an e-mail address, an issue by its key or number, a repository.
_KNOWN_FORM = re.compile(
    r"#[\w.-]{1,80}|[CGD][A-Z0-9]{8,20}|-?[0-9]{1,20}"
    r"|[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
    r"|[A-Z][A-Z0-9]{1,10}-[0-9]{1,9}"
)
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
# It calls a whole channel, or a bot acts upon it: `@here`, `<!channel>`, a line `/merge`.
_CALLS_MANY = re.compile(r"@(?:all|channel|everyone|here|room)\b|<!|<@&|^\s*/\w", re.I | re.M)


def is_message(tool: str, kind: Kind, arguments: JsonObject) -> bool:
    """Whether a call is a message to people at an address that is known as one."""
    if kind is not Kind.TOOL or not _speaks(tool):
        return False
    plain = {plain_name(name): value for name, value in arguments.items()}
    if len(plain) != len(arguments) or not set(plain) <= _TEXTS | _ADDRESSES | _BESIDE:
        return False
    fixed = {name: value for name, value in plain.items() if name not in _TEXTS}
    return all(map(_is_plain, fixed.values())) and any(
        name in _ADDRESSES and _is_address(name, value) for name, value in fixed.items()
    )


def is_message_text(argument: str, value: Any) -> bool:
    """Whether an argument is text for people, and calls nobody else than the address."""
    if plain_name(argument) not in _TEXTS or not isinstance(value, str):
        return False
    if _CALLS_MANY.search(unicodedata.normalize("NFKC", value)):
        return False
    return len(value.split()) > 1 or not (delicate(value) or any(pathlike(value)))


def _speaks(tool: str) -> bool:
    words = words_of_name(tool)
    verbs = words & _VERBS or (words & _MAKING and words & _MADE)
    return bool(verbs) and words <= _VERBS | _MAKING | _NOUNS


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return value is None or isinstance(value, str | int)


def _is_address(name: str, value: Any) -> bool:
    form = _REPOSITORY if name in ("repo", "repository") else _KNOWN_FORM
    several = value if isinstance(value, list) else [value]
    return bool(several) and all(
        not isinstance(one, bool) and form.fullmatch(str(one)) for one in several
    )
