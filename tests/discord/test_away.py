"""`/approvals away` and `back` in Discord: the delegate is called, and no right changes."""

from __future__ import annotations

import asyncio

import pytest

from gateway.models import Status
from tests.discord.messages import shown_text
from tests.discord.stage import Stage, told_privately
from tests.discord.test_authorization import role_of
from tests.discord.test_claims import newcomer, text, use
from tests.discord.test_notices import replies

USAGE = "away until Mon 09:00 to @ben"


async def test_the_delegate_is_called_instead(stage: Stage) -> None:
    """The card and its reminder call bob alone and say why; back again, ann's card says so no
    more."""
    ann, bob = stage.server.ann, stage.server.bob
    await stage.policy(stage.route(mention=True, remind_after=(0.2,)))
    told = text(await use(stage, ann, "away", until="Mon 09:00", delegate=bob.id))
    assert "ann is away until Mon " in told and "09:00 UTC; bob is asked instead" in told
    record, card = await stage.asked(tool="@everyone")
    pinged = stage.server.discord.board.pinged
    assert pinged[card["id"]] == {bob.id}
    assert "bob is asked instead" in shown_text(card).replace("\\", "")
    (reminder,) = await replies(stage, 1)
    assert pinged[reminder["id"]] == {bob.id}
    said = reminder["content"].replace("\\", "")
    assert "bob may decide it. ann is away until Mon " in said and "expires <t:" in said
    assert "You are back" in text(await use(stage, ann, "back"))
    await stage.seen(lambda: "asked instead" not in shown_text(card))
    assert "You are not away" in text(await use(stage, ann, "back"))
    await stage.click(ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED


async def test_who_is_away_still_decides_and_eve_does_not(stage: Stage) -> None:
    """The wrong person is refused, twice; ann's two taps are one decision."""
    ann, bob, eve = stage.server.ann, stage.server.bob, stage.server.eve
    await stage.policy(stage.route())
    await use(stage, ann, "away", until="Mon", delegate=bob.id)
    record, card = await stage.asked()
    for _ in range(2):
        done = await stage.click(eve, card, "Approve")
        assert "not an approver" in await told_privately(done)
    await asyncio.gather(*(stage.click(ann, card, "Approve") for _ in range(2)))
    assert (await stage.ended(record)).status is Status.APPROVED
    assert len(await stage.events("approved")) == 1


@pytest.mark.parametrize(
    ("until", "to", "reply"),
    [
        ("yesterday", "bob", USAGE),
        ("2020-01-01", "bob", USAGE),
        ("2199-01-01", "bob", "not within the next 60 days"),
        ("Mon", "ann", "may approve nothing that you may"),
        ("Mon", "eve", "may approve nothing that you may"),
        ("Mon to bob", "eve", "may approve nothing that you may"),
    ],
)
async def test_what_is_refused_changes_nothing(
    stage: Stage, until: str, to: str, reply: str
) -> None:
    """Each refusal says what is wrong, to the person alone."""
    await stage.policy(stage.route())
    one = getattr(stage.server, to)
    said = text(await use(stage, stage.server.ann, "away", until=until, delegate=one.id))
    assert reply in said
    assert await stage.events("away_begun", "away_ended") == []


async def test_no_stranger_and_no_circle(stage: Stage) -> None:
    """A member whom the policy does not know names nobody; bob cannot name ann, who named him."""
    ann, bob = stage.server.ann, stage.server.bob
    await stage.policy(stage.route(mention=True))
    refused = text(await use(stage, newcomer(stage), "away", until="Mon", delegate=bob.id))
    assert "only people in the policy" in refused.lower()
    await use(stage, ann, "away", until="Mon", delegate=bob.id)
    said = text(await use(stage, bob, "away", until="Mon", delegate=ann.id))
    assert "name somebody else" in said
    _, card = await stage.asked()
    assert stage.server.discord.board.pinged[card["id"]] == {bob.id}


async def test_a_delegate_who_loses_the_right_is_called_no_more(stage: Stage) -> None:
    """Ann is called again, and a role that a rota keeps is called as ever."""
    ann, bob = stage.server.ann, stage.server.bob
    await stage.policy(stage.route(mention=True))
    await use(stage, ann, "away", until="Mon", delegate=bob.id)
    role = role_of(stage, "oncall")
    await stage.policy(stage.route(approvers=("ann", role), mention=True))
    _, card = await stage.asked()
    assert stage.server.discord.board.pinged[card["id"]] == {ann.id, role.rpartition("/")[2]}
    done = await stage.click(bob, card, "Approve")
    assert "not an approver" in await told_privately(done)
