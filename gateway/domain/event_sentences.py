"""Describe an event of the audit log in one sentence, and list its members as lines.

Text by agents and people is quoted if it is more than one word, so that it cannot imitate the
gateway's words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from gateway.domain.records import AuditEvent
from gateway.domain.redaction import mask
from gateway.models import ENDINGS, Action, Reason, Status
from gateway.wire.outcome_text import sentence

_LATEST_MS = 10**14
_NAME = re.compile(r"[A-Za-z0-9_]{1,80}")
_WORD = re.compile(r"[\w.:/@-]{1,80}")
_SPANS = (("s", 1000, 120), ("min", 60_000, 120), ("h", 3_600_000, 48))
"""Units of time: name, milliseconds, and the largest number to show in it."""
_DAY_MS = 24 * 3_600_000
_THIS = "the request of agent {agent}"
_DID: dict[str, str] = {
    Action.EDIT: "changed and approved",
    Action.ANSWER: "filled in the form of",
    Action.RESPOND: "replied instead of running",
    Action.ABORT: "denied, and stopped the agent after,",
}
_SENTENCES = {
    "submitted": "agent {agent} asked for approval",
    "shown": _THIS + " was shown to people",
    "reviewed": "the policy hooks have looked at " + _THIS,
    "waiter_lost": "agent {agent} stopped waiting for the decision",
    "attached": "agent {agent} waits for the decision again",
    "claimed": "{person} is looking at " + _THIS,
    "reassigned": "somebody is away or back, so " + _THIS + " asks other people",
    "unclaimed": "{person} stopped looking at " + _THIS,
    "voted": "{vote_person} approved " + _THIS + "; it needs more people",
    "edited": "{vote_person} changed and approved " + _THIS + "; it needs more people",
    "number_refused": "somebody typed a wrong verification code for " + _THIS,
    "recounted": "the approvals of "
    + _THIS
    + " were counted again, because the policy has changed",
    "consumed": "agent {agent} picked up the approval",
    "never_fetched": "agent {agent} never picked up the approval",
    "reported": "agent {agent} reported how the call went: {execution}",
    "revealed": "{person} read the secrets in " + _THIS,
    "erased": "{by} erased the content of " + _THIS,
    "refused": "the gateway refused {agent}: {why}",
    "dead_letter": "the gateway failed to handle a message of agent {agent}",
    "delivered": "a card for agent {agent} was posted to {target}",
    "undelivered": "a card for agent {agent} could not be posted to {target}: {why}",
    "delivery_uncertain": "a card for agent {agent} may be missing at {target}: {why}",
    "copy_gone": "a card for agent {agent} is gone from {target}: {why}",
    "copy_stuck": "a card for agent {agent} at {target} could not be updated: {why}",
    "session_ended": "the session {session} of agent {agent} ended",
    "grant_made": "{grant_made_by} made a grant for agent {agent}: {grant_effect} {grant_tool}, "
    "scope {grant_scope}",
    "grant_ending": "a grant of agent {agent} ends soon",
    "grant_ended": "a grant of agent {agent} ended: {why}",
    "grant_outdated": "a grant of agent {agent} is suspended: {why}",
    "grant_suspended": "a grant of agent {agent} is suspended",
    "grant_resumed": "a grant of agent {agent} is active again",
    "breaker_opened": "agent {agent} has a cool-down: people denied {denials} requests in a row",
    "breaker_lifted": "{by} ended the cool-down of agent {agent}",
    "policy_applied": "{by} applied a policy",
    "tool_declared": "{by} declared {address} of the tool {tool} as {role}",
    "agent_added": "agent {agent} was added",
    "agent_rotated": "agent {agent} got a new token",
    "agent_revoked": "agent {agent} was revoked",
    "approver_rotated": "{name} got a new token",
    "old_token_ended": "the old token of {name} ended",
    "login_link_made": "{person} got a sign-in link",
    "signed_in": "{person} signed in to the inbox",
    "signed_out": "{by} signed {person} out of the inbox",
    "sign_in_refused": "a sign-in from {from} was refused: {why}",
    "member_left": "{person} lost the rights of all groups: {why}",
    "passkey_added": "{person} added the passkey {name}",
    "passkey_removed": "{by} removed a passkey of {person}",
    "push_added": "{person} turned notifications on for {device}",
    "push_removed": "notifications of {person} ended for {device}: {why}",
    "push_quiet": "{person} changed the hours without notifications",
    "away_begun": "{person} is away until {until_at}; {delegate} is asked instead",
    "away_ended": "{person} is back",
    "place_claimed": "{by} sent the requests of the route {route} to {place}",
    "account_claimed": "{by} added the account {identity} to {person}",
    "claim_denied": "{by} denied a claim from a chat",
    "stopped": "{by} turned the kill switch on",
    "resumed": "{by} turned the kill switch off",
    "restored": "{by} restored a backup that was made at {made}",
    "restore_confirmed": "{by} confirmed the {kind} of a restored backup",
    "evidence_made": "{by} made an evidence report: {about}",
    "archive_given_up": "{by} gave up lost segments of the archive: {segments}",
}


def say_event(event: AuditEvent, about: str = "", asked: int | None = None) -> str:
    """Describe an event in one sentence, with secrets masked. `about` says what the request would
    do, and `asked` when it was submitted, if the caller knows them."""
    data, agent = mask(event.data), _quote(event.agent)
    if event.type in ENDINGS:
        waited = None if asked is None else event.at - asked
        said = say_ending(data, event.type, event.agent, waited=waited)
    else:
        # Of all votes the last one is what happened; a chat's claim is about no request.
        members = {**data, "vote": (data.get("votes") or [{}])[-1]}
        known = {"_".join(names): value for names, value in _flatten(members)}
        kind = "" if event.type == "claimed" and not event.request_id else event.type
        try:
            said = _SENTENCES[kind].format_map({**known, "agent": agent})
        except KeyError:  # of another version, or without that member
            said = name_event(event.type) + (f" by agent {agent}" if event.agent else "")
    return f"{said}: {about}" if about else said


def say_ending(
    decision: dict[str, Any], status: str, agent: str, *, name: str = "", waited: int | None = None
) -> str:
    """Say who decided an agent's request and how and, for a person's decision, how long after the
    submission. `name` replaces the name of the last decider."""
    name = name or _say("name", (decision.get("decided_by") or {}).get("name", ""))
    this, reason = _THIS.format(agent=_quote(agent)), str(decision.get("reason"))
    after = "" if waited is None else f", {say_span(max(0, waited))} after it asked"
    said = f"{name} {_DID.get(decision.get('action') or '', status)} {this}{after}"
    if reason == Reason.FEEDBACK:
        said = f"{name} asked for another plan instead of {this}{after}"
    elif reason != Reason.PERSON:
        outcome = sentence(reason=reason, status=status, name=name, message="")
        was = "" if status == Status.EXPIRED else "was "
        said = f"{this} {was}{outcome.replace(': ', ' because ', 1)}"
    return f"{said} ({_quote(message)})" if (message := decision.get("message")) else said


def say_span(ms: int) -> str:
    """Return a duration in the largest unit that fits."""
    for unit, length, most in _SPANS:
        if ms < most * length:
            return f"{ms // length} {unit}"
    return f"{ms // _DAY_MS} days"


def name_event(kind: str) -> str:
    """Return an event's kind as people read it: "grant made" for `grant_made`."""
    return kind.replace("_", " ")


def list_facts(event: AuditEvent) -> list[str]:
    """Return the members of an event, one line each, with secrets masked. Text of more than one
    word is quoted as in JSON, so that nothing in it can imitate another line."""
    return [f"{' '.join(map(_say_name, names))}: {said}"
            for names, said in _flatten(mask(event.data))]  # fmt: skip


def _flatten(data: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield from (((name, within), _say(within, part)) for within, part in value.items())
        elif value is not None:
            # `gateway audit export` has the bytes of a signature.
            yield (name,), "there is one" if name == "signature" and value else _say(name, value)


def _say_name(name: str) -> str:
    return name.replace("_", " ") if _NAME.fullmatch(name) else json.dumps(name)


def _quote(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _say(name: str, value: Any) -> str:
    if name.endswith("_at") and type(value) is int and 0 < value < _LATEST_MS:
        return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, str) and _WORD.fullmatch(value):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_say(name, one) for one in value) or "none"
    if isinstance(value, dict):
        inside = "; ".join(f"{_say_name(key)}: {_say(key, part)}" for key, part in value.items())
        return f"({inside})" if inside else "nothing"
    return _quote(value)
