"""Scenarios 22 to 30: who may decide is read at the click, and modals change nothing about it."""

from __future__ import annotations

import pytest

from gateway.domain.risk import RiskRule
from gateway.models import Origin, Reason, RiskLevel, Status
from tests.discord.interactions import OPEN_MODAL
from tests.discord.messages import shown_text
from tests.discord.person import Person
from tests.discord.stage import Stage, labels, private_text, told_privately
from tests.discord.town import EVERYTHING
from tests.world import over_http


def role_of(stage: Stage, name: str, *members: Person) -> str:
    """Make a role of the server, and return it as a route writes it."""
    guild = stage.server.guild
    role = stage.server.discord.town.role(guild, name)
    for person in members:
        guild.members[person.id].roles.append(role)
    return f"discord:{guild.id}/{role}"


async def test_22_a_role_counts_only_in_its_own_server(stage: Stage) -> None:
    """The same number as a role elsewhere, and a role of another server, admit nobody."""
    town, server = stage.server.discord.town, stage.server
    away = town.guild("Elsewhere", server.eve.user)
    town.join(away, server.app.user)
    channel = town.channel(away, "approvals")
    here = role_of(stage, "deployers")
    number = here.rpartition("/")[2]
    town.role(away, "deployers", role_id=number)
    away.members[server.eve.id].roles.append(number)
    await stage.policy(
        stage.route(approvers=(here,), targets=(stage.target, f"discord:{away.id}/{channel.id}"))
    )
    record = await stage.ask()
    card = await stage.card(record, channel)
    done = await stage.click(server.eve, card, "Approve", channel=channel)
    assert "not an approver" in private_text(done)
    server.guild.members[server.bob.id].roles.append(number)
    await stage.click(server.bob, await stage.card(record), "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED


async def test_22_an_unknown_person_is_told_their_own_id(stage: Stage) -> None:
    """As the policy would name them, so that they can say it to whoever writes the policy."""
    owner = stage.server.discord.as_person(stage.server.guild.owner)
    _, card = await stage.asked()
    done = await stage.click(owner, card, "Approve")
    told = private_text(done).replace("\\", "")
    assert f"the policy does not know discord:{owner.id}" in told


async def test_23_direct_messages_take_people_not_roles(stage: Stage) -> None:
    """A role-only route refuses a click in a direct message; a person's id is accepted there."""
    server = stage.server
    role = role_of(stage, "deployers", server.ann)
    inbox = server.ann.inbox(server.app)
    await stage.policy(stage.route(approvers=(role,), targets=(f"discord:@{server.ann.id}",)))
    record = await stage.ask()
    done = await stage.click(server.ann, await stage.card(record, inbox), "Approve", channel=inbox)
    assert "not an approver" in private_text(done)
    await stage.policy(stage.route(targets=(f"discord:@{server.ann.id}",)))
    done = await stage.click(server.ann, await stage.card(record, inbox), "Approve", channel=inbox)
    assert (await stage.ended(record)).status is Status.APPROVED


async def test_24_a_role_is_lost_between_card_click_and_modal(stage: Stage) -> None:
    """Taken away after posting, or while the modal is open: refused both times."""
    server = stage.server
    role = role_of(stage, "deployers", server.eve)
    await stage.policy(stage.route(approvers=(role,)))
    record, card = await stage.asked()
    opened = await stage.click(server.eve, card, "Deny")
    assert opened.answer == OPEN_MODAL
    server.guild.members[server.eve.id].roles.clear()
    done = await server.eve.submit(opened, reason="late")
    assert "not an approver" in private_text(done)
    done = await stage.click(server.eve, card, "Approve")
    assert "not an approver" in private_text(done)
    assert not (await stage.core.requests.get(record.id)).final


async def test_25_neither_bots_nor_the_timed_out_nor_the_mighty_decide(stage: Stage) -> None:
    """The server's owner, an administrator, a bot on the list and a timed-out approver."""
    server, town = stage.server, stage.server.discord.town
    admin = town.role(server.guild, "admins", permissions=EVERYTHING)
    server.guild.members[server.eve.id].roles.append(admin)
    record, card = await stage.asked()
    owner = server.discord.as_person(server.guild.owner)
    for mighty in (owner, server.eve):
        assert "not an approver" in private_text(await stage.click(mighty, card, "Approve"))
    server.bob.user.bot = True
    assert "Bots cannot decide requests" in private_text(
        await stage.click(server.bob, card, "Approve")
    )
    await stage.asked(arguments={"command": "ls other"})
    more = [(await stage.click(server.ann, card, "More…")).private[0] for _ in range(2)]
    await stage.click(server.ann, more[1], "All 2…")
    server.guild.members[server.ann.id].timed_out_until = "2100-01-01T00:00:00+00:00"
    for shown, label in (
        (card, "Approve"),
        (card, "Deny"),
        (more[0], "I'm looking"),
        (more[0], "All 2…"),
        (more[1], "Approve all 2"),
        (card, "Details"),
    ):
        assert "timed out" in private_text(await stage.click(server.ann, shown, label))
    assert not (await stage.core.requests.get(record.id)).final
    assert len(await stage.events("refused")) == 9


async def test_25_nobody_approves_their_own_dangerous_request(stage: Stage) -> None:
    """High risk: the one on whose behalf the agent asks is refused, another approver is not."""
    risky = RiskRule(name="all", level=RiskLevel.HIGH, reason="everything is dangerous here")
    await stage.policy(stage.route(), risks=(risky,))
    record, card = await stage.asked(
        origin=Origin(channel="discord", sender=stage.server.ann.id), arguments={"command": "drop"}
    )
    done = await stage.click(stage.server.ann, card, "Review…")
    assert "submitted this request yourself" in private_text(done)
    view = await stage.click(stage.server.bob, card, "Review…")
    await stage.click(stage.server.bob, view.private[0], "Approve: I have read it")
    assert (await stage.ended(record)).status is Status.APPROVED


async def test_26_roles_are_read_although_the_server_is_not_cached(stage: Stage) -> None:
    """Discord has not sent the server yet: the payload's own role ids count."""
    server = stage.server
    role = role_of(stage, "deployers", server.eve)
    await stage.policy(stage.route(approvers=(role,)))
    server.guild.unavailable = True
    await server.discord.gateway.command(9, False)
    await server.discord.gateway.until(lambda: server.discord.gateway.identified == 2)
    record, card = await stage.asked()
    await stage.click(server.eve, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED


async def test_27_a_quorum_counts_people_and_one_denial_ends_it(stage: Stage) -> None:
    """Ann twice is once; ann and bob are two; bob's denial ends another one."""
    await stage.policy(stage.route(quorum=2))
    record, card = await stage.asked()
    await stage.click(stage.server.ann, card, "Approve")
    await stage.shows(card, "1 of 2 approvals", "ann")
    again = await stage.click(stage.server.ann, card, "Approve")
    assert "You approved; waits for 1 more: bob" in (await told_privately(again)).replace("\\", "")
    await stage.shows(card, "waits for", "bob")
    # The full view is one person's: hers has no Approve, his has.
    mine = await stage.click(stage.server.ann, card, "Details")
    assert "You approved; waits for 1 more: bob" in private_text(mine).replace("\\", "")
    assert "Approve" not in labels(mine.private[0])
    his = await stage.click(stage.server.bob, card, "Details")
    assert "Approve" in labels(his.private[0])
    await stage.click(stage.server.bob, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "Approved by ann and bob")
    record, card = await stage.asked()
    await stage.click(stage.server.ann, card, "Approve")
    opened = await stage.click(stage.server.bob, card, "Deny")
    await stage.server.bob.submit(opened)
    assert (await stage.ended(record)).status is Status.DENIED


async def test_what_nobody_may_approve_has_no_approve(stage: Stage) -> None:
    """The route names no approvers: the card says so, and what is left is to deny."""
    await stage.policy(stage.route(approvers=()))
    _, card = await stage.asked()
    await stage.shows(card, "Nobody may approve this: its route has no approvers")
    assert "Deny" in labels(card)
    assert not {"Approve", "Edit"} & labels(card)


async def test_27_a_vote_lasts_as_long_as_the_policy_admits_it(stage: Stage) -> None:
    """Eve approves by her role and leaves the server: what she said stands, as nobody tells us of
    roles between taps. Once the policy drops the role, her vote is void, and one more is needed."""
    server = stage.server
    role = role_of(stage, "deployers", server.eve)
    route = stage.route(approvers=("ann", "bob", role), quorum=2)
    await stage.policy(route)
    record, card = await stage.asked()
    await stage.click(server.eve, card, "Approve")
    await stage.shows(card, "1 of 2 approvals", "eve")
    del server.guild.members[server.eve.id]
    await stage.policy(stage.route(quorum=2))
    await stage.click(server.bob, card, "Approve")
    assert not (await stage.core.requests.get(record.id)).final
    await stage.click(server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED


async def test_28_commands_check_what_buttons_check(stage: Stage) -> None:
    """Only what the caller may decide is offered or decided; all answers are private."""
    server = stage.server
    await stage.policy(stage.route(name="mine", tools=("shell",)), stage.route(approvers=("eve",)))
    record, _ = await stage.asked()
    other, _ = await stage.asked(tool="mail")
    offered = await server.ann.complete(server.app, server.channel, "approve", "request")
    assert [one["value"] for one in offered] == [record.id]
    refused = await server.ann.command(server.app, server.channel, "deny", request=other.id)
    assert "not an approver" in private_text(refused)
    listed = await server.ann.command(server.app, server.channel, "pending")
    assert record.id[:8] in private_text(listed) and other.id[:8] not in private_text(listed)
    menu = listed.private[0]["components"][1]["components"][0]
    (label,) = (one["label"] for one in menu["options"])
    view = await server.ann.choose(server.app, server.channel, listed.private[0], label)
    assert "Approve" in labels(view.private[0])
    done = await server.ann.command(
        server.app, server.channel, "deny", request=record.id[:8], reason="no"
    )
    assert "Denied" in private_text(done)
    ended = await stage.ended(record)
    assert ended.decision is not None and ended.decision.message == "no"
    empty = await server.bob.command(server.app, server.channel, "pending")
    assert "You have no pending" in private_text(empty)
    gone = await server.bob.command(server.app, server.channel, "deny", request="0" * 32)
    assert "no longer available" in private_text(gone)


async def test_29_a_removed_approver_is_refused_on_the_next_click(stage: Stage) -> None:
    """The card is out; the policy changes; the button does nothing more."""
    record, card = await stage.asked()
    await stage.policy(stage.route(approvers=("bob",)))
    done = await stage.click(stage.server.ann, card, "Approve")
    assert "not an approver" in private_text(done)
    assert not (await stage.core.requests.get(record.id)).final


@pytest.mark.parametrize("reason", ["", "x" * 4000, "🔥 لا 🙅🏽‍♀️ \u202egnp.exe"])
async def test_30_reasons_of_every_kind_arrive_as_typed(stage: Stage, reason: str) -> None:
    """Empty, as long as the field takes, emoji and right-to-left: told as typed, shown inert."""
    record, card = await stage.asked()
    opened = await stage.click(stage.server.ann, card, "Deny")
    await stage.server.ann.submit(opened, reason=reason)
    ended = await stage.ended(record)
    assert ended.decision is not None and ended.decision.message == reason
    text = await stage.shows(card, "Denied")
    assert "\u202e" not in text


async def test_30_a_modal_that_is_overtaken_or_left_decides_nothing(stage: Stage) -> None:
    """Two people open it; one submits, the other hears; a cancelled one changes nothing; one
    submitted after the end is told so."""
    record, card = await stage.asked()
    left = await stage.click(stage.server.ann, card, "Deny")
    assert left.answer == OPEN_MODAL
    mine = await stage.click(stage.server.bob, card, "Deny")
    await stage.server.bob.submit(mine, reason="first")
    done = await stage.server.ann.submit(left, reason="second")
    assert "bob" in await told_privately(done)
    record, card = await stage.asked(tool="another")
    late = await stage.click(stage.server.ann, card, "Deny")
    await stage.approvals.cancel(record.id, over_http(), reason=Reason.CANCELLED_BY_AGENT)
    done = await stage.server.ann.submit(late, reason="late")
    assert "decided already" in await told_privately(done)
    assert (await stage.ended(record)).status is Status.CANCELLED
    record, card = await stage.asked(tool="third", timeout=5)
    late = await stage.click(stage.server.ann, card, "Deny")
    assert (await stage.ended(record)).status is Status.EXPIRED
    done = await stage.server.ann.submit(late, reason="late")
    assert "expired" in await told_privately(done)


async def test_someone_says_that_they_are_looking(stage: Stage) -> None:
    """A claim is shown to everybody, and taken back by whoever made it."""
    _, card = await stage.asked()
    await stage.click(stage.server.ann, card, "I'm looking")
    await stage.shows(card, "ann is looking at it")
    more = await stage.click(stage.server.bob, card, "More…")
    assert "I'm looking" in labels(more.private[0])
    await stage.click(stage.server.ann, card, "Not looking")
    await stage.seen(lambda: "is looking at it" not in shown_text(card))


async def test_row_49_a_nickname_like_an_approvers_admits_nobody(stage: Stage) -> None:
    """Eve calls herself what Ann is called: her id is what counts."""
    server = stage.server
    server.guild.members[server.eve.id].nick = server.ann.user.name
    record = await stage.ask()
    done = await stage.click(server.eve, await stage.card(record), "Approve")
    assert "not an approver" in private_text(done)
    assert (await stage.core.requests.get(record.id)).status is Status.PENDING


async def test_row_51_a_reaction_decides_nothing(stage: Stage) -> None:
    """Not even an approver's: only a button is an answer."""
    server = stage.server
    record = await stage.ask()
    card = await stage.card(record)
    reaction = {
        "user_id": server.ann.id, "channel_id": server.channel.id, "message_id": card["id"],
        "guild_id": server.guild.id, "emoji": {"id": None, "name": "\u2705"}, "type": 0,
    }  # fmt: skip
    await server.discord.gateway.send_raw("MESSAGE_REACTION_ADD", reaction)
    # A stranger's click is handled after it, on the same line.
    await stage.click(server.eve, card, "Approve")
    assert (await stage.core.requests.get(record.id)).status is Status.PENDING
