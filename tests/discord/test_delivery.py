"""Scenarios 1 to 8: cards arrive once, somewhere, or the agent hears that they did not."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from adapters.discord.posting import POSTS
from gateway.delivery.outbox_worker import OrderedLock
from gateway.domain.policy_document import Budget, Escalation
from gateway.models import Reason, Status
from gateway.ports.rate_limit import Rate
from tests.discord.faults import VIA
from tests.discord.furnished import Server
from tests.discord.ground import Ground
from tests.discord.messages import shown_text
from tests.discord.stage import Stage, labels
from tests.discord.town import FORUM
from tests.waiting import moment
from tests.world import over_http

JSON = {"Content-Type": "application/json"}


@pytest.mark.thorough
async def test_01_a_card_is_posted_once_though_the_process_dies_before_it_knows(
    server: Server,
    ground: Ground,
) -> None:
    """kill -9 after Discord has the message and before we have its id: the nonce finds it again."""
    fault = server.discord.rest.stage("POST", "/messages", silent=asyncio.Event())
    first = await ground.replica("a").start()
    async with ground.staged(adapters=()) as stage:
        record = await stage.ask()
        await fault.reached.wait()
        card = await stage.card(record)
        await first.kill()
        second = await ground.replica("b").start()
        try:
            # The dead one's lease on the copy runs out, and the other posts it again.
            await stage.outbox.mark("discord", record.id)
            await stage.seen(lambda: len(server.discord.rest.made("POST", _POSTS)) > 1)
            await server.discord.gateway.until(lambda: server.discord.gateway.connected > 0, 30)
            assert len(server.channel.messages) == 1
            await stage.click(server.ann, card, "Approve")
            assert (await stage.ended(record)).status is Status.APPROVED
        finally:
            await second.stop()


_POSTS = "/channels/#/messages"


async def test_02_a_line_cut_in_the_middle_makes_one_message(stage: Stage) -> None:
    """The answer to the POST never comes; it is sent again with the same nonce."""
    fault = stage.server.discord.rest.stage("POST", "/messages", drop=True)
    record = await stage.ask()
    await fault.reached.wait()
    await stage.seen(lambda: len(stage.server.discord.rest.made("POST", _POSTS)) == 2, 30)
    card = await stage.card(record)
    assert len(stage.server.channel.messages) == 1
    await stage.click(stage.server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED


async def test_03_a_channel_of_another_server_gets_no_card(stage: Stage) -> None:
    """The bot is a member there too, but the policy names the channel as one of this server."""
    town = stage.server.discord.town
    guild = town.guild("elsewhere", stage.server.eve.user)
    town.join(guild, stage.server.app.user)
    elsewhere = town.channel(guild, "general")
    target = f"discord:{stage.server.guild.id}/{elsewhere.id}"
    await stage.policy(stage.route(targets=(target,)))
    record = await stage.ask()
    ended = asyncio.create_task(stage.ended(record))
    posted = asyncio.create_task(stage.seen(lambda: elsewhere.messages))
    await asyncio.wait({ended, posted}, return_when=asyncio.FIRST_COMPLETED)
    posted.cancel()
    assert not elsewhere.messages
    assert (await ended).status is Status.DENIED
    assert (await stage.events("undelivered"))[0].data["target"] == target


@pytest.mark.parametrize("trouble", ["unknown", "hidden", "mute"])
async def test_03_a_refusing_channel_fails_over_or_is_said(stage: Stage, trouble: str) -> None:
    """10003, 50001 and 50013: the next target gets the card; without one the agent hears at once
    that nobody was reached, and nothing is approved."""
    town = stage.server.discord.town
    bad = town.channel(stage.server.guild, "bad")
    target = f"discord:{stage.server.guild.id}/{bad.id}"
    if trouble == "unknown":
        del town.channels[bad.id]
    else:
        bad.overwrites[stage.server.guild.id] = (0, 1 << (10 if trouble == "hidden" else 11))
    await stage.policy(
        stage.route(
            targets=(target,), escalations=(Escalation(after=900, targets=(stage.target,)),)
        )
    )
    await stage.card(await stage.ask())
    assert (await stage.events("undelivered"))[0].data["target"] == target
    await stage.policy(stage.route(targets=(target,)))
    ended = await stage.ended(await stage.ask(arguments={"command": "pwd"}))
    assert ended.status is Status.DENIED
    assert ended.decision is not None and ended.decision.reason is Reason.UNDELIVERABLE


async def test_04_closed_direct_messages_go_to_the_next_target(stage: Stage) -> None:
    """50007 fails over."""
    stage.server.ann.user.takes_direct = False
    step = Escalation(after=900, targets=(stage.target,))
    await stage.policy(
        stage.route(targets=(f"discord:@{stage.server.ann.id}",), escalations=(step,))
    )
    await stage.card(await stage.ask())
    assert "direct messages" in (await stage.events("undelivered"))[0].data["why"]


async def test_05_text_that_moderation_blocks_still_reaches_people(stage: Stage) -> None:
    """200000: the card comes without the agent's text, and is approved from the full view only."""
    stage.server.channel.blocked_words = ("frobnicate",)
    record, card = await stage.asked(arguments={"command": "frobnicate --all"})
    assert "moderation" in shown_text(card)
    assert "Approve" not in labels(card)
    view = await stage.click(stage.server.ann, card, "Read the full text")
    await stage.click(stage.server.ann, view.private[0], "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "Approved")


async def test_06_a_burst_arrives_whole_in_order_and_within_the_limits(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty in a row, Discord's limit and our pace ten times as fast: all come, one of them after
    the other as they were asked for, and none is refused."""
    monkeypatch.setattr("adapters.discord.posting.POSTS", Rate(POSTS.most, POSTS.seconds / 10))
    # At Discord's own pace a call is over long before the next slot; at ten times it, a line forms.
    monkeypatch.setattr("gateway.ports.rate_limit._CROWDED_SECONDS", 50.0)
    # Whoever stands in line waits for a second at most, which a busy machine takes for one look.
    monkeypatch.setattr("gateway.delivery.request_cards.OrderedLock", lambda _: OrderedLock(50.0))
    rest = stage.server.discord.rest
    rest.limits.rule("POST", r"/channels/\d+/messages$", 5, 0.5)
    await stage.policy(stage.route(), budgets=(Budget(cards=50),))
    records = [await stage.ask(arguments={"command": f"ls {n}"}) for n in range(50)]
    await stage.seen(lambda: len(stage.server.channel.messages) == 50, 60)
    asked = sorted(records, key=lambda one: one.created)
    posted = [shown_text(one) for one in stage.server.channel.messages.values()]
    stood = [next(r for r in asked if r.id[:8] in text).created for text in posted]
    assert stood == [one.created for one in asked]
    assert rest.invalid == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_06_two_hundred_requests_to_two_channels(stage: Stage) -> None:
    """Within Discord's limits of five in five seconds a channel, for posts and for edits, and fifty
    a second in all: every card arrives and comes to say that nobody waits; nothing is refused.
    Prints the counts for tests/verification.md."""
    server, rest = stage.server, stage.server.discord.rest
    for method, path in (("POST", "messages$"), ("PATCH", r"messages/\d+$")):
        rest.limits.rule(method, rf"/channels/\d+/{path}", 5, 5.0)
    other = server.discord.town.channel(server.guild, "others")
    second = f"discord:{server.guild.id}/{other.id}"
    await stage.policy(
        stage.route(name="one", tools=("shell",)),
        stage.route(name="two", tools=("mail",), targets=(second,)),
        budgets=(Budget(cards=200),),
    )
    began = asyncio.get_running_loop().time()
    for number in range(100):
        for tool in ("shell", "mail"):
            await stage.ask(tool=tool, timeout=3600, arguments={"command": f"ls {number}"})
    channels = (server.channel, other)
    now = asyncio.get_running_loop().time
    await stage.seen(lambda: all(len(one.messages) == 100 for one in channels), 200)
    posted = now() - began
    # The agent's process is taken to be gone, and every card is edited to say so.
    cards = [card for one in channels for card in one.messages.values()]
    await stage.seen(lambda: all("stopped waiting" in shown_text(card) for card in cards), 150)
    counts = {
        "cards": len(cards),
        "posted_s": round(posted, 1),
        "edited_s": round(now() - began - posted, 1),
        "refused": rest.invalid,
    }
    sys.stdout.write(f"burst of Discord: {json.dumps(counts)}\n")
    assert rest.invalid == 0


@pytest.mark.parametrize("kind", ["global", "bucket", "503", "502"])
async def test_07_passing_refusals_are_waited_out(stage: Stage, kind: str) -> None:
    """429 of every kind and failures of Discord's own: one card in the end."""
    rest = stage.server.discord.rest
    if kind in ("502", "503"):
        rest.stage("POST", "/messages", status=int(kind), body={"message": "x"}, headers=JSON)
    else:
        body = {"message": "slow", "retry_after": 0.05, "global": kind == "global"}
        headers = {**VIA, **JSON, "X-RateLimit-Remaining": "1"}
        rest.stage("POST", "/messages", status=429, body=body, headers=headers)
    record = await stage.ask()
    await stage.card(record)
    assert len(stage.server.channel.messages) == 1


async def test_07_a_ban_by_the_proxy_is_not_hammered(stage: Stage) -> None:
    """A 429 without Via: one try, then a long pause for all; the requests stay pending."""
    rest = stage.server.discord.rest
    fault = rest.stage("POST", "/messages", times=100, status=429, body="<html>no</html>")
    record = await stage.ask()
    await fault.reached.wait()
    other = await stage.ask()
    line = stage.gateway.backend.store.keys.note("discord", f"line posts {stage.server.channel.id}")
    async with asyncio.timeout(40):
        while await stage.gateway.backend.store.redis.zcard(line) < 1:
            await moment()
    assert [one.final for one in (record, other)] == [False, False]
    assert len(rest.made("POST", _POSTS)) == rest.invalid == 1


async def test_07_edits_of_old_messages_are_limited_and_the_card_follows_later(
    stage: Stage,
) -> None:
    """30046: the click's own answer changes the card all the same; the decision stands."""
    record, card = await stage.asked(timeout=0)
    stage.server.discord.calendar.advance(3700)
    stage.server.discord.board.old_edits = 0
    await stage.click(stage.server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "Approved")


async def test_07_a_copy_whose_edit_was_limited_follows_later(stage: Stage) -> None:
    """30046 for a copy that nobody tapped: it is put off, not hammered, and follows."""
    record, card = await stage.asked(timeout=0)
    stage.server.discord.calendar.advance(3700)
    stage.server.discord.board.old_edits = 0
    await stage.approvals.cancel(record.id, over_http(), reason=Reason.CANCELLED_BY_AGENT)
    edits = "/channels/#/messages/#"
    await stage.seen(lambda: stage.server.discord.rest.made("PATCH", edits))
    await stage.asked()
    assert len(stage.server.discord.rest.made("PATCH", edits)) == 1
    assert "Cancelled" not in shown_text(card)
    stage.server.discord.board.old_edits = 10
    await stage.outbox.mark("discord", record.id)  # the minute that Discord wanted is over
    await stage.shows(card, "Cancelled")


async def test_08_threads_are_answered_in_archived_ones_woken_locked_ones_refused(
    stage: Stage,
) -> None:
    """A card in a thread; its edit after archiving; a locked thread and a forum fail over."""
    town = stage.server.discord.town
    thread = town.thread(stage.server.channel, "deploys")
    target = f"discord:{stage.server.guild.id}/{thread.id}"
    await stage.policy(stage.route(targets=(target,)))
    record = await stage.ask()
    card = await stage.card(record, thread)
    thread.archived = True
    await stage.approvals.cancel(record.id, over_http(), reason=Reason.CANCELLED_BY_AGENT)
    await stage.shows(card, "Cancelled")
    thread.archived = thread.locked = True
    forum = town.channel(stage.server.guild, "forum", FORUM)
    step = Escalation(after=900, targets=(stage.target,))
    for bad in (thread, forum):
        bad_target = f"discord:{stage.server.guild.id}/{bad.id}"
        await stage.policy(stage.route(targets=(bad_target,), escalations=(step,)))
        await stage.card(await stage.ask(arguments={"command": f"ls {bad.id}"}))
