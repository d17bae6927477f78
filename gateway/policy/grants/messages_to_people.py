"""Messages to people: the one kind of call whose text may differ though nobody declared it.

Everything here is a list of what is permitted. A tool, an argument or an address that it does not
know makes the text part of the action, and then it is the same each time.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

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
# It calls a whole channel, or a bot acts upon it: `@here`, `<!channel>`, a line `/merge`.
_CALLS_MANY = re.compile(r"@(?:all|channel|everyone|here|room)\b|<!|<@&|^\s*/\w", re.I | re.M)
_MESSAGE_IDS = frozenset({"inreplyto", "messageid", "messagets", "replyto"})


def is_message(touches: Touches) -> bool:
    """Whether a call is a message to people at an address that is known as one."""
    if touches.call.kind is not Kind.TOOL or touches.family is not Family.MESSAGE:
        return False
    known = all(one.role in _BESIDE or _is_id(one) for one in touches.leaves)
    return known and any(
        plain_name(one.name) in _ADDRESSES and _is_address(one) for one in touches.leaves
    )


def is_message_text(value: Any) -> bool:
    """Whether a value is text for people: it calls nobody else, and is no path, URL or flag."""
    if not isinstance(value, str) or _CALLS_MANY.search(unicodedata.normalize("NFKC", value)):
        return False
    return looks_like(value) is None and not (value[:1] == "-" and len(value.split()) == 1)


def _is_id(leaf: Leaf) -> bool:
    return plain_name(leaf.name) in _MESSAGE_IDS and not isinstance(leaf.value, dict | list)


def _is_address(leaf: Leaf) -> bool:
    form = _REPOSITORY if plain_name(leaf.name) in ("repo", "repository") else _KNOWN_FORM
    return type(leaf.value) in (int, str) and form.fullmatch(str(leaf.value)) is not None
