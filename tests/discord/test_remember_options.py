"""Remembering in Discord: read first, chosen in a modal, seen in /grants, taken back in one tap."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.records import Identity
from gateway.domain.risk import RiskRule
from gateway.models import Kind, Reason, RiskLevel, Status
from gateway.policy.grants.offers import passes_for
from tests.discord.interactions import OPEN_MODAL, Interaction
from tests.discord.stage import Stage, labels, private_text
from tests.discord.town import Json
from tests.world import click


async def remembered(
    stage: Stage, card: Json, verb: str, what: str = "remember", **chosen: Any
) -> Interaction:
    """Press "Remember…", then the button of the verb, and submit the modal."""
    offer = await stage.click(stage.server.ann, card, "Remember…")
    assert "exactly this" in private_text(offer)
    opened = await stage.click(stage.server.ann, offer.private[0], f"{verb} and {what}…")
    assert opened.answer == OPEN_MODAL
    return await stage.server.ann.submit(opened, **chosen)


def last(done: Interaction) -> Json:
    """Return the private message that an answer changed."""
    assert done.response is not None
    return done.response


async def test_an_approval_is_remembered_and_the_next_one_needs_nobody(stage: Stage) -> None:
    """The same request is then settled by the grant; it names it, and the first card is true."""
    record, card = await stage.asked(arguments={"command": "make lint"})
    done = await remembered(stage, card, "Approve", life="1d")
    assert "Revoke" in labels(last(done))
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "Approved")
    again = await stage.ended(await stage.ask(arguments={"command": "make lint"}))
    assert again.decision is not None and again.decision.reason is Reason.GRANT


async def test_what_is_remembered_is_taken_back_in_one_tap(stage: Stage) -> None:
    """From then on people are asked again."""
    _, card = await stage.asked(arguments={"command": "make lint"})
    done = await remembered(stage, card, "Approve")
    server = stage.server
    back = await stage.click(server.ann, last(done), "Revoke")
    assert "Revoked" in private_text(back)
    await stage.asked(arguments={"command": "make lint"})


async def test_a_denial_is_remembered_everywhere(stage: Stage) -> None:
    """In another session, too, and with its reason told now."""
    record, card = await stage.asked(arguments={"command": "rm -rf /"})
    await remembered(stage, card, "Deny", where="everywhere", life="revoked", reason="never")
    ended = await stage.ended(record)
    assert ended.decision is not None and ended.decision.message == "never"
    again = await stage.ended(await stage.ask(arguments={"command": "rm -rf /"}, session="other"))
    assert again.status is Status.DENIED


async def test_grants_are_listed_and_revoked_by_command(stage: Stage) -> None:
    """Who may take them back sees them, strangers do not; /revoke completes them and checks."""
    server = stage.server
    _, card = await stage.asked(arguments={"command": "make lint"})
    await remembered(stage, card, "Approve")
    listed = await server.bob.command(server.app, server.channel, "grants")
    assert "Grants" in private_text(listed) and "allow" in private_text(listed)
    stranger = server.discord.person("mallory")
    server.discord.town.join(server.guild, stranger.user)
    for other in (stranger, server.eve):
        empty = await other.command(server.app, server.channel, "grants")
        assert "no grants that you can revoke" in private_text(empty)
    assert await stranger.complete(server.app, server.channel, "revoke", "grant") == []
    choice, *more = await server.bob.complete(server.app, server.channel, "revoke", "grant", "")
    assert [one["value"] for one in more] == ["all", "session bot default"]
    refused = await server.eve.command(server.app, server.channel, "revoke", grant=choice["value"])
    assert "⛔" in private_text(refused)
    done = await server.bob.command(server.app, server.channel, "revoke", grant=choice["value"])
    assert "Revoked" in private_text(done)
    empty = await server.bob.command(server.app, server.channel, "grants")
    assert "no grants that you can revoke" in private_text(empty)


async def test_nothing_dangerous_is_offered_to_be_remembered(stage: Stage) -> None:
    """An approval of high risk is never remembered, from the card or the full view."""
    risky = RiskRule(name="all", level=RiskLevel.HIGH, reason="dangerous")
    await stage.policy(stage.route(), risks=(risky,))
    _, card = await stage.asked()
    for message in (card, (await stage.click(stage.server.ann, card, "Details")).private[0]):
        if "Remember…" in labels(message):
            offer = await stage.click(stage.server.ann, message, "Remember…")
            assert "Approve and remember…" not in labels(offer.private[0])


async def test_a_stranger_learns_nothing_and_remembers_nothing(stage: Stage) -> None:
    """Eve is refused at the list, and with a modal that she got while she was an approver."""
    await stage.policy(stage.route(approvers=("ann", "eve")))
    record, card = await stage.asked(arguments={"command": "make lint"})
    offer = await stage.click(stage.server.eve, card, "Remember…")
    opened = await stage.click(stage.server.eve, offer.private[0], "Approve and remember…")
    await stage.policy(stage.route(approvers=("ann",)))
    assert "⛔" in private_text(await stage.server.eve.submit(opened))
    assert "⛔" in private_text(await stage.click(stage.server.eve, card, "Remember…"))
    assert not (await stage.core.requests.get(record.id)).final


async def test_a_pass_is_given_in_the_modal(stage: Stage) -> None:
    """It stands last, lets the session's next through, is listed with its end and taken back."""
    record, card = await stage.asked(arguments={"command": "make lint"})
    server, offer = stage.server, passes_for(record)[-1].id
    done = await remembered(stage, card, "Approve", "give a pass", scope=offer, life="8h")
    assert (await stage.ended(record)).status is Status.APPROVED
    again = await stage.ended(await stage.ask(tool="bash", arguments={"command": "ls"}))
    assert again.decision is not None and again.decision.reason is Reason.GRANT
    listed = private_text(await server.bob.command(server.app, server.channel, "grants"))
    assert "running the project" in listed and "until <t:" in listed and "used once" in listed
    assert "Revoked" in private_text(await stage.click(server.ann, last(done), "Revoke"))
    await stage.asked(tool="bash", arguments={"command": "ls"})


async def test_too_long_a_pass_is_refused_in_words(stage: Stage) -> None:
    """Nothing is decided then; the next five of the ordinary kind are remembered as such."""
    record, card = await stage.asked(arguments={"command": "make lint"})
    offer = passes_for(record)[-1].id
    asked = await stage.click(stage.server.ann, card, "Remember…")
    opened = await stage.click(stage.server.ann, asked.private[0], "Approve and give a pass…")
    menus = {
        one["component"]["custom_id"]: one["component"] for one in opened.answer_data["components"]
    }
    assert set(menus) == {"scope", "life"}
    assert "revoked" not in [one["value"] for one in menus["life"]["options"]]
    menus["life"]["options"].append({"value": "revoked", "label": "forged"})
    refused = await stage.server.ann.submit(opened, scope=offer, life="revoked")
    assert "8 hours at most" in private_text(refused)
    assert not (await stage.core.requests.get(record.id)).final
    await remembered(stage, card, "Approve", life="next5")
    await stage.ended(record)
    (grant,) = await stage.core.grants.all()
    assert (grant.match.shape.value, grant.max_uses) == ("exact", 5)


async def test_who_may_not_give_a_pass_sees_none(stage: Stage) -> None:
    """Ann answers for one tool of the agent alone."""
    await stage.policy(
        stage.route(tools=("sh",)),
        stage.route(approvers=("bob",)),
    )
    _, card = await stage.asked(tool="sh", arguments={"command": "make lint"})
    for who, sees in ((stage.server.ann, False), (stage.server.bob, True)):
        offer = private_text(await stage.click(who, card, "Remember…"))
        assert ("a pass" in offer) is sees


async def opened(stage: Stage, card: Json) -> tuple[str, Interaction, str]:
    """Return what is listed, the modal of an approval, and the label that is chosen in it."""
    listed = await stage.click(stage.server.ann, card, "Remember…")
    modal = await stage.click(stage.server.ann, listed.private[0], "Approve and remember…")
    menus = (one.get("component", {}) for one in modal.answer_data["components"])
    scopes = next(one for one in menus if one.get("custom_id") == "scope")
    (chosen,) = (one["label"] for one in scopes["options"] if one.get("default"))
    return private_text(listed), modal, chosen


async def test_the_usual_choice_comes_first_in_the_modal(stage: Stage) -> None:
    """It is the one that the list names so; without a history the narrowest is."""
    said = "it covers the last 10 similar requests"
    _, card = await stage.asked(kind=Kind.COMMAND, arguments={"command": "git log -n 0"})
    listed, _, chosen = await opened(stage, card)
    assert said not in listed and chosen.startswith("1. ")
    ann = Identity(platform="discord", id=str(stage.server.ann.id))
    for number in range(1, 11):
        record = await stage.ask(kind=Kind.COMMAND, arguments={"command": f"git log -n {number}"})
        await stage.core.requests.decide(click(record, identity=ann))
    record, card = await stage.asked(kind=Kind.COMMAND, arguments={"command": "git log -n 99"})
    listed, modal, chosen = await opened(stage, card)
    assert listed.count(said) == 1 and chosen.startswith("2. ")
    await stage.server.ann.submit(modal)
    assert (await stage.ended(record)).status is Status.APPROVED
    (grant,) = await stage.core.grants.all()
    assert "git log" in grant.words and "exactly this" not in grant.words


async def test_a_suggestion_is_told_in_private_and_takes_a_no(stage: Stage) -> None:
    """After the tap, beside the card that shows the end; the no is kept."""
    who = Identity(platform="discord", id=str(stage.server.ann.id))
    for number in range(11):
        record = await stage.ask(kind=Kind.COMMAND, arguments={"command": f"git log -n {number}"})
        await stage.core.requests.decide(click(record, identity=who))
    record, card = await stage.asked(kind=Kind.COMMAND, arguments={"command": "git log -n 99"})
    tapped = await stage.click(stage.server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "Approved")
    await stage.seen(lambda: bool(tapped.private))
    said = private_text(tapped)
    assert "You approved this 12 times in 14 days, and nobody denied it" in said
    assert "choose Remember… on the next card like this" in said
    stage.server.ann.private |= {one["id"]: one for one in tapped.private}
    done = await stage.click(stage.server.ann, tapped.private[0], "Not again")
    assert "not see this suggestion for 90 days" in str(last(done))
    store = stage.gateway.backend.store
    notes = store.keys.note("suggestions", "no *")
    (no,) = [key async for key in store.redis.scan_iter(match=notes)]
    assert no.endswith(f" {stage.server.ann.user.name}")


async def test_a_failing_look_hinders_no_approval(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card shows the end, and nothing is told in private."""

    async def fail(*_: object) -> None:
        raise RuntimeError("the store is gone")

    monkeypatch.setattr(type(stage.core.suggestions), "suggest", fail)
    record, card = await stage.asked(kind=Kind.COMMAND, arguments={"command": "git log -n 99"})
    tapped = await stage.click(stage.server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "Approved")
    assert tapped.private == []
