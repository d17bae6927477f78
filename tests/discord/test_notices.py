"""Reminders call those who may decide, outcomes reach who asked, and words stay words."""

from __future__ import annotations

from dataclasses import replace

from adapters.discord.interactions import build_refusal
from gateway.domain.policy_document import Budget, Escalation, Route
from gateway.domain.records import Identity
from gateway.errors import Conflict, InvalidRequest, Unauthorized
from gateway.models import Action, Reason, Status
from tests.discord.ground import Ground
from tests.discord.messages import buttons
from tests.discord.stage import Stage
from tests.discord.test_authorization import role_of
from tests.discord.test_rendering import text_of
from tests.discord.town import Json
from tests.world import click


async def replies(stage: Stage, count: int) -> list[Json]:
    """Return the reminders in the channel, once there are so many."""

    def look() -> list[Json] | None:
        found = [
            m for m in stage.server.channel.messages.values() if "Still pending" in m["content"]
        ]
        return found if len(found) >= count else None

    found: list[Json] = await stage.seen(look)
    return found


async def test_a_reminder_calls_the_approvers_and_nobody_else(stage: Stage) -> None:
    """Both people by name and the role of this server; a role of another one is not called, and
    the tool's name calls nobody."""
    here = role_of(stage, "deployers")
    away = f"discord:{int(stage.server.guild.id) + 1}/77"
    route = stage.route(approvers=("ann", "bob", here, away), remind_after=(0.2,))
    await stage.policy(route)
    await stage.asked(tool="@everyone")
    (reminder,) = await replies(stage, 1)
    pinged = stage.server.discord.board.pinged[reminder["id"]]
    role = here.rpartition("/")[2]
    assert pinged == {stage.server.ann.id, stage.server.bob.id, role}


async def test_a_reminder_whose_answer_was_lost_is_not_doubled(stage: Stage) -> None:
    """Posted, and the line cut before we knew: the repeated one is the same message."""
    await stage.policy(stage.route(remind_after=(0.2,)))
    await stage.asked()
    stage.server.discord.rest.stage("POST", "/messages", drop=True)
    await replies(stage, 1)
    await stage.seen(lambda: len(stage.server.discord.rest.made("POST", _POSTS)) >= 3, 30)
    assert len(await replies(stage, 1)) == 1


_POSTS = "/channels/#/messages"


async def test_a_card_calls_the_approvers_when_the_route_says_so(stage: Stage) -> None:
    """People and roles of this server, once: neither what the agent says nor an edit calls
    anybody, and what ended calls nobody any more."""
    here = role_of(stage, "deployers")
    await stage.policy(stage.route(approvers=("ann", here), mention=True))
    record, card = await stage.asked(hint="@everyone look", arguments={"command": "<@1>"})
    role = here.rpartition("/")[2]
    pinged = stage.server.discord.board.pinged[card["id"]]
    assert pinged == {stage.server.ann.id, role}
    await stage.click(stage.server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED
    assert f"<@&{role}>" not in await stage.shows(card, "Approved")


async def test_when_nobody_answers_others_are_asked(stage: Stage) -> None:
    """The escalation's channel gets the card, which says so; the first one stays, and both show
    the answer."""
    other = stage.server.discord.town.channel(stage.server.guild, "leads")
    step = Escalation(after=0.3, targets=(f"discord:{stage.server.guild.id}/{other.id}",))
    await stage.policy(stage.route(escalations=(step,)))
    record, card = await stage.asked()
    second = await stage.card(record, other)
    await stage.shows(second, "Escalated")
    await stage.click(stage.server.bob, second, "Approve", channel=other)
    assert (await stage.ended(record)).status is Status.APPROVED
    for one in (card, second):
        await stage.shows(one, "Approved", "bob")


async def test_the_outcome_reaches_who_asked_in_direct_messages(stage: Stage) -> None:
    """Told with its reason, as words that format nothing."""
    target = f"discord:@{stage.server.eve.id}"
    await stage.policy(stage.route(notify=(target,)))
    record, card = await stage.asked()
    opened = await stage.click(stage.server.ann, card, "Deny")
    await stage.server.ann.submit(opened, reason="**no** [x](https://y)")
    assert (await stage.ended(record)).status is Status.DENIED
    inbox = stage.server.eve.inbox(stage.server.app)
    told = await stage.seen(lambda: next(iter(inbox.messages.values()), None))
    assert "Denied" in told["content"]
    assert "**no**" not in told["content"].replace("**Denied**", "")
    assert "](https" not in told["content"].replace("\\", "_")


async def test_a_discreet_route_tells_outcomes_without_what_ran(stage: Stage) -> None:
    """Whoever wants to know reads that it was denied, and not the tool."""
    target = f"discord:@{stage.server.eve.id}"
    await stage.policy(stage.route(notify=(target,), discreet=True))
    _, card = await stage.asked(tool="pay_out")
    opened = await stage.click(stage.server.ann, card, "Deny")
    await stage.server.ann.submit(opened, reason="no")
    inbox = stage.server.eve.inbox(stage.server.app)
    told = await stage.seen(lambda: next(iter(inbox.messages.values()), None))
    assert "Denied" in told["content"]
    assert "pay" not in told["content"]


async def test_a_channel_of_another_server_is_not_posted_to(stage: Stage) -> None:
    """The server in a target is part of its meaning: a wrong one reaches nobody."""
    town = stage.server.discord.town
    away = town.guild("Elsewhere", stage.server.eve.user)
    town.join(away, stage.server.app.user)
    channel = town.channel(away, "approvals")
    target = f"discord:{stage.server.guild.id}/{channel.id}"
    await stage.policy(Route(approvers=("ann",), targets=(target,)))
    ended = await stage.ended(await stage.ask())
    assert ended.decision is not None and ended.decision.reason is Reason.UNDELIVERABLE
    assert not channel.messages


def test_an_errors_words_do_nothing() -> None:
    """They may hold an agent's schema or a colleague's reason."""
    trick = "# Approved\n[x](https://y) @everyone \u202e <@&1>"
    for kind in (Conflict, InvalidRequest, Unauthorized):
        said = text_of(build_refusal(kind(trick)).shown)
        assert "\n#" not in said and "](https" not in said and "\u202e" not in said
        assert " @everyone" not in said and "<@&1" not in said


async def test_the_card_of_a_paused_agent_leads_to_the_gateways_own_inbox(
    ground: Ground,
) -> None:
    """At the address that the operator set, where the inbox is served."""
    both, address = ("web", "discord"), "https://approvals.example/"
    async with ground.staged(adapters=both, public_url=address) as stage:
        store = stage.gateway.backend.store
        policy = replace(await store.policy(), budgets=(Budget(denials=1),))
        await store.apply(policy, by="test")
        record, _ = await stage.asked()
        platform, _, name = policy.people[0].identities[0].partition(":")
        denial = click(record, Action.DENY, identity=Identity(platform=platform, id=name))
        await stage.core.requests.decide(denial)

        def addresses() -> list[str]:
            shown = map(buttons, stage.server.channel.messages.values())
            return [one["url"] for each in shown for one in each.values() if "url" in one]

        assert await stage.seen(addresses, 40) == ["https://approvals.example/inbox"]
