"""A person becomes a mention on Discord only where the gateway itself names them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from adapters.discord.cards import build_card_view, build_outcome_view
from gateway.cards.card import card_of
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Claim, Identity, Person, StoredRequest
from gateway.models import Context, DecidedBy, DeciderKind, Decision, Origin, Reason, Status
from tests.discord.stage import Stage
from tests.grants.making import asked
from tests.world import click

STRANGER, DECIDER = "discord:111111111111111111", "discord:222222222222222222"
TRICKS = (STRANGER, f"<@{STRANGER[8:]}>", f"approved by {STRANGER}", f"{STRANGER}: yes")


def everywhere(trick: str) -> StoredRequest:
    """Return a request in which each text of the agent's names a stranger."""
    context = Context(cwd=f"/{trick}", host=trick, env={trick: trick})
    return asked(
        trick, arguments={trick: trick, "list": [trick]}, hint=trick, context=context,
        origin=Origin(sender=trick, chat=trick, channel="discord", parent_agent="x"),
    )  # fmt: skip


def ended(record: StoredRequest, reason: Reason, by: DecidedBy, message: str) -> StoredRequest:
    """Return the request as it ended."""
    status = Status.DENIED if by.kind is DeciderKind.PERSON else Status.CANCELLED
    decision = Decision(
        request_id=record.id, revision=2, status=status, action=None, reason=reason,
        digest=record.digest, decided_by=by, decided_at=5, expires_at=9, message=message,
    )  # fmt: skip
    return replace(record, status=status, decision=decision, note=message)


def mentions(record: StoredRequest) -> set[str]:
    """Return whom the views of a request mention."""
    card = card_of(record, lines=40, chars=2000)
    views: list[Any] = [build_card_view(card, "0" * 22)]
    if record.final:
        views.append(build_outcome_view(card))
    shown = json.dumps([view.view.to_components() for view in views]).replace("\\\\", "\\")
    outside = re.sub(r"```.*?```|`[^`]*`", "", shown)  # in code nothing is a mention
    return set(re.findall(r"(?<!\\)<@!?&?(\d+)>", outside))


@pytest.mark.parametrize("trick", TRICKS)
def test_no_text_of_an_agent_mentions_anybody(trick: str) -> None:
    """In a name, an argument, the plea, the place, where it comes from, or its farewell."""
    record = everywhere(trick)
    system = DecidedBy(kind=DeciderKind.SYSTEM, name="gateway")
    assert mentions(record) == set()
    assert mentions(ended(record, Reason.CANCELLED_BY_AGENT, system, trick)) == set()


@pytest.mark.parametrize("trick", TRICKS)
def test_who_decides_or_looks_is_mentioned_and_nobody_else(trick: str) -> None:
    """The gateway names them; what they write names nobody."""
    record, ann = everywhere(trick), DecidedBy(kind=DeciderKind.PERSON, name=DECIDER)
    looking = replace(record, claim=Claim(person=DECIDER, at=1))
    assert mentions(looking) == {DECIDER[8:]}
    assert mentions(ended(record, Reason.PERSON, ann, trick)) == {DECIDER[8:]}


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_who_decided_is_named_as_discord_names_people(stage: Stage, where: str) -> None:
    """Known by another name or deciding elsewhere, they are a mention on the card, and notified by
    nothing: neither the answer to the tap nor the edit permits a mention."""
    await stage.policy(stage.route())
    record, card = await stage.asked()
    ann = stage.server.ann
    if where == "here":
        await stage.click(ann, card, "Approve")
    else:
        who = Identity(platform="discord", id=ann.id)
        await stage.core.requests.decide(replace(click(record), identity=who))
    await stage.shows(card, "Approved by ann", f"<@{ann.id}>")
    assert stage.server.discord.board.pinged[card["id"]] == set()


def test_one_account_of_a_person_is_named_once() -> None:
    """The first of theirs in each place; who is nobody's stands for themselves; others are left
    out."""
    people = (
        Person(name="ann", identities=("slack:T1/U1", "slack:T1/U2", "slack:T2/U3", "discord:4")),
        Person(name="bob", identities=("token:bob",)),
    )
    policy = PolicyDocument(people=people)
    assert policy.accounts_of(("ann", "bob", "slack:T1/U9"), "slack") == ("T1/U1", "T2/U3", "T1/U9")
    assert policy.accounts_of(("ann", "bob"), "discord") == ("4",)
