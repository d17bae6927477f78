"""Describe in one sentence how a request ended and who decided it; start with `sentence`."""

from __future__ import annotations

from collections.abc import Sequence

_BY_REASON = {
    "person": "{status} by {name}",
    "feedback": "{name} asks for another plan",
    "grant": "{status} by the grant {name}",
    "rule": '{status} by the rule "{name}"; no person was asked',
    "hook": '{status} by the hook "{name}"; no person was asked',
    "timeout": "expired: nobody answered in time",
    "cancelled_by_agent": "cancelled by the agent",
    "cancelled_by_operator": "cancelled by an operator",
    "abandoned": "cancelled: nobody waits for the decision anymore",
    "undeliverable": "denied: the request could not be shown to anyone",
    "superseded": "cancelled: a newer request took its place",
    "resolved_elsewhere": "cancelled: the request was decided elsewhere",
    "stopped": "denied: the gateway's kill switch is on",
    "wrong_number": "denied: a wrong number was typed three times",
    "breaker": "denied without asking anybody: "
    "people denied too many of this agent's requests in a row",
}


def sentence(*, reason: str, status: str, name: str, message: str) -> str:
    """Return the outcome as a sentence. If the reason is unknown to this version, it is left
    out."""
    outcome = _BY_REASON.get(reason, "{status}").format(status=status, name=name)
    return f"{outcome}: {message}" if message else outcome


def say_unverified(*, changed: bool) -> str:
    """Return a label for text that the agent wrote. `changed` means that the call changed since
    then."""
    return "unverified, about the call as the agent submitted it" if changed else "unverified"


def say_number(number: object, request_id: str) -> str:
    """Return the verification code as a line for people who watch the agent, or "" without one."""
    if not (isinstance(number, str) and number.isascii() and number.isdigit()):
        return ""
    return f"number {number}: the approver of request {request_id[:8]} may be asked for it"


def join_names(names: Sequence[str], word: str) -> str:
    """Return names as a list for a sentence, with `word` before the last name."""
    *most, last = names or ("",)
    return f"{', '.join(most)} {word} {last}" if most else last


def say_cards(urls: object, tool: str) -> list[str]:
    """Return a line with each address of a pending request's cards in chats."""
    known = [one for one in urls if isinstance(one, str)] if isinstance(urls, list | tuple) else []
    return [f"the card for {tool!r}: {one}" for one in known if one.isascii() and one.isprintable()]
