"""A secret in each place of a request is in no text that is made from it: findings, heads, cards of
every surface, notifications, words of grants, explanations, events, exports, figures, the log.

The stored request, Reveal and what the agent itself is answered are the only exceptions. Set
`SECRET_PLACES_SEEDS` to plant more secrets than a usual run does.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from gateway.cards.summary import plain_summary, summarize
from gateway.cli.audit import write_form
from gateway.delivery.webhooks import body_of
from gateway.domain.audit import event_line
from gateway.domain.policy_document import Guardrails, PolicyDocument
from gateway.domain.records import StoredRequest, told_outcome
from gateway.models import Action, Context, Kind, Preview, Status, new_id
from gateway.policy.grants.coverage import what_differs
from gateway.policy.grants.grant import Effect, Grant
from gateway.policy.grants.offers import offers
from gateway.policy.guardrails import assess
from gateway.push.notifications import end_of_notification, notification_of
from gateway.wire.codec import plain
from tests.api.replica import ANN_TOKEN, EVE_TOKEN, POLICY, Replica, made, replica
from tests.approvals.test_fake_secrets import PLACES as SURFACES
from tests.sweeps import sweep
from tests.unit.test_cards import decided, record

SEEDS = range(int(os.environ.get("SECRET_PLACES_SEEDS", "1")))
# Words by which the guardrails take a text for a path that may hold secrets, and plain ones.
SHAPES = ("hunter{}secret", "my-secret-{}", "{}.credentials", "prod_password_{}", "api-token.{}",
          "S3cr{}tK3y", "id_rsa-{}")  # fmt: skip


def secret_of(place: str, seed: int) -> str:
    """Return a secret that no text of ours has."""
    random = Random(f"{place} {seed}")
    letters = "".join(random.choice("abcdefghkmnpqrstuvwxyz0123456789") for _ in range(8))
    return random.choice(SHAPES).format(f"Q7{letters}")


# How a secret is part of a request.
PLANTED: dict[str, Callable[[str], dict[str, Any]]] = {
    "telling name": lambda one: {"arguments": {"password": one}},
    "token": lambda one: {"arguments": {"auth_token": one, "amount": 3}},
    "nested": lambda one: {"arguments": {"db": {"login": {"user": "bot", "passwd": one}}}},
    "name and value": lambda one: {"arguments": {"rules": [{"name": "password", "value": one}]}},
    "header": lambda one: {"arguments": {"headers": {"X-Vault-Token": one}}},
    "behind a flag in a list": lambda one: {"arguments": {"argv": ["deploy", "--token", one]}},
    "flag": lambda one: {"arguments": {"command": f"mysql --password={one} shop"}},
    "flag and word": lambda one: {"arguments": {"command": f"deploy --token {one} now"}},
    "mysql": lambda one: {"arguments": {"command": f"mysql -u root -p{one} shop"}},
    "header of curl": lambda one: {
        "arguments": {"command": f"curl -H 'Authorization: Bearer {one}' https://h.example"}
    },
    "variable": lambda one: {"arguments": {"command": f"API_KEY={one} make"}},
    "several commands": lambda one: {
        "arguments": {"command": f"cd /etc && export DB_PASSWORD={one}\nrm -rf /srv/x"}
    },
    "address": lambda one: {"arguments": {"url": f"https://bot:{one}@h.example/x"}},
    "heredoc": lambda one: {
        "arguments": {"command": f"cat > /etc/app.conf <<EOF\npassword={one}\nEOF"}
    },
    "patch": lambda one: {
        "tool": "apply_patch",
        "kind": Kind.FILE_CHANGE,
        "arguments": {
            "patch": f"--- a/x.env\n+++ b/x.env\n@@ -1 +1 @@\n-a\n+DB_PASSWORD={one}\n"
        },
    },
    "content": lambda one: {
        "tool": "write_file",
        "arguments": {"path": "/srv/.env", "content": f"DB_PASSWORD={one}\nDEBUG=1\n"},
    },
    "JSON in a text": lambda one: {"arguments": {"body": json.dumps({"password": one})}},
    "a message": lambda one: {
        "tool": "send_message",
        "arguments": {"to": "kim@example.org", "text": f"the password: {one}"},
    },
    "a second place": lambda one: {
        "arguments": {"login": {"password": one}, "then": {"password": one}}
    },
    "payload": lambda one: {"payload": {"password": one}},
    "description": lambda one: {
        "arguments": {"command": "ls", "description": f"Logs in with password={one}"}
    },
    "environment": lambda one: {"context": Context(env={"DB_PASSWORD": one})},
    "folder": lambda one: {"context": Context(cwd=f"/srv/token={one}")},
    "hint": lambda one: {"hint": f"I use password: {one}"},
    "hint on an argument": lambda one: {
        "arguments": {"password": one}, "hint": f"I log in as bot with {one}."
    },
    "preview of an argument": lambda one: {
        "arguments": {"password": one}, "preview": Preview(format="text", text=f"login {one}")
    },
    "tool": lambda one: {"tool": f"curl password={one}"},
}  # fmt: skip


def in_clear(said: str, secret: str) -> bool:
    """Whether a good part of a secret is in a text, also where it escapes characters."""
    core = secret[secret.index("Q7") :][:8]
    return any(core in one for one in (said, said.replace("\\", "")))


def assessed(ask: dict[str, Any], **members: Any) -> StoredRequest:
    """Return a record with its findings."""
    asked = {"id": new_id(), "allowed": tuple(Action), **ask}
    made = record(ask=asked, **members)
    return assess(made, PolicyDocument(guardrails=Guardrails.ASK).ruling_on(made.request))


def ended(one: StoredRequest, secret: str) -> StoredRequest:
    """Return a record that a person denied, saying its secret."""
    words = f"never use {secret} here"
    closed = decided(Status.DENIED, message=words)
    return one.copy_with(status=Status.DENIED, decision=closed.decision, note=words, revision=2)


MADE: dict[str, Callable[[StoredRequest], str]] = {
    **{name: make for name, make in SURFACES.items() if name != "log"},  # nothing logs a request
    "findings": lambda one: json.dumps([one.findings, one.located_findings]),
    "head": lambda one: plain_summary(summarize(one)),
    "notification": lambda one: repr(
        [notification_of(one, "ann"), notification_of(one, "ann", discreet=True)]
    ),
    "end of a notification": lambda one: repr(end_of_notification(one)),
    "words of grants": lambda one: "".join(
        one.hide(offer.words) for effect in Effect for offer in offers(one, effect)
    ),
    "outcome": lambda one: one.hide(told_outcome(one)),
}


@sweep("place", PLANTED, few=7)
def test_no_text_that_is_made_from_a_request_says_its_secrets(place: str) -> None:
    """Nor when it waits, nor edited, nor when it has ended."""
    leaks = set()
    for seed in SEEDS:
        secret = secret_of(place, seed)
        waits = assessed(PLANTED[place](secret))
        edited = waits.copy_with(edited={**waits.arguments, "dry_run": True})
        edited = edited.copy_with(asks_because=f"its value is {secret}, remembered other")
        for one in (waits, edited, ended(waits, secret)):
            leaks |= {name for name, make in MADE.items() if in_clear(make(one), secret)}
    assert sorted(leaks) == []


@pytest.mark.parametrize("place", PLANTED)
def test_what_differs_from_a_remembered_approval_says_no_secret(place: str) -> None:
    """Neither the new one, nor that which was remembered."""
    for seed in SEEDS:
        old, new = secret_of(place, seed), secret_of(f"new {place}", seed)
        before, now = (assessed(PLANTED[place](one)) for one in (old, new))
        for offer in offers(before):
            grant = Grant(id="0" * 32, effect=Effect.ALLOW, agent="bot", match=offer.match,
                          made_by="ann", made_at=0)  # fmt: skip
            said = now.hide(str(what_differs(grant, now)))
            assert (in_clear(said, old), in_clear(said, new)) == (False, False), said


@pytest.mark.parametrize("at", range(3))
async def test_no_answer_event_export_or_log_says_a_secret(
    server_url: str, namespace: str, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    """Asked, explained, offered, remembered, denied with its words, listed, searched, exported."""
    caplog.set_level(logging.DEBUG, logger="gateway")
    planted: dict[str, str] = {}
    said: list[str] = []
    async with replica(server_url, namespace) as gate:
        await over_all_agents(gate)
        for place in [*PLANTED][at::3]:
            secret = planted[place] = secret_of(place, at)
            asked = {name: plain(one) for name, one in PLANTED[place](secret).items()}
            request = made(**{"arguments": {"command": "ls"}, **asked})
            body = {"request": plain(request)}
            said.append((await gate.call("POST", "/v1/explain", body, token=ANN_TOKEN)).text)
            await gate.submitted(request)
            for path in ("", "/offers", "/reach"):
                answer = await gate.call("GET", f"/v1/requests/{request.id}{path}", token=ANN_TOKEN)
                said.append(answer.text)
            for example in (request.id, {"tool": request.tool, "arguments": request.arguments}):
                body = {"agent": "agent1", "effect": "allow", "example": example}
                answer = await gate.call("POST", "/v1/grants/offers", body, token=ANN_TOKEN)
                said.append(answer.text)
            said.append((await gate.decided(request.id, message=f"no {secret}", note=secret)).text)
            words = {"message": f"no {secret}", "note": f"it is {secret}", "remember": {}}
            denied = await gate.decided(request.id, action="deny", **words)
            said.append(denied.text)
            again = {name: one for name, one in plain(request).items() if name != "digest"}
            await gate.submitted(made(**{**again, "id": new_id(), "session": "later"}))
        for path in ("/v1/requests", "/v1/requests?final=true", "/v1/grants", "/metrics"):
            for token in (ANN_TOKEN, EVE_TOKEN):
                said.append((await gate.call("GET", path, token=token)).text)
        events = await gate.store.history(None, 10_000)
        for form in ("interchange", "trace"):
            said += [line async for line in write_form(gate.store, form)]
    assert len(events) > 2 * len(planted)
    said += [event_line(one) + body_of(one).decode() for one in events]
    said.append(caplog.text)
    found = {(place, text[:300]) for place, one in planted.items() for text in said
             if in_clear(text, one)}  # fmt: skip
    assert sorted(found) == []


async def over_all_agents(gate: Replica) -> None:
    """Make ann an admin, and have guardrails report what they find."""
    people = tuple(replace(one, admin=one.name == "ann") for one in POLICY.people)
    await gate.store.apply(replace(POLICY, people=people, guardrails=Guardrails.SHADOW), by="test")
