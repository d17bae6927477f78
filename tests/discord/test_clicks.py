"""Scenarios 9 to 21: every click is answered in time and truly, and decides at most once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gateway.cards.card import Card, card_of
from gateway.domain.records import MessageRef, StoredRequest
from gateway.models import Execution, Reason, Report, Status
from tests.discord.furnished import Server
from tests.discord.ground import Ground
from tests.discord.interactions import COMPONENT, DEFERRED_UPDATE, UPDATE, Interaction
from tests.discord.messages import buttons
from tests.discord.stage import Stage, labels, private_text, told_privately
from tests.discord.town import Json
from tests.waiting import moment
from tests.world import over_http


async def test_09_a_stalled_store_is_acknowledged_in_time(stage: Stage) -> None:
    """Redis stands still for five seconds: the click is deferred within three, then decided."""
    record, card = await stage.asked()
    redis = stage.gateway.backend.store.redis
    await redis.execute_command("CLIENT", "PAUSE", "5000", "ALL")
    done = await stage.click(stage.server.ann, card, "Approve")
    assert done.answer == DEFERRED_UPDATE
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "Approved")


async def test_09_a_denial_opens_its_modal_though_the_store_stalls(stage: Stage) -> None:
    """A modal must come first and at once; what it says is checked and decided at submission."""
    record, card = await stage.asked()
    redis = stage.gateway.backend.store.redis
    await redis.execute_command("CLIENT", "PAUSE", "3000", "ALL")
    opened = await stage.click(stage.server.ann, card, "Deny")
    done = await stage.server.ann.submit(opened, reason="no")
    assert not done.failed
    assert (await stage.ended(record)).status is Status.DENIED


async def test_a_denial_with_a_reason_is_final(stage: Stage) -> None:
    """In the form and in the command; the agent plans again only where somebody says so."""
    ann, app, channel = stage.server.ann, stage.server.app, stage.server.channel
    record, card = await stage.asked()
    await ann.submit(await stage.click(ann, card, "Deny"), reason="use staging")
    assert (await _why(stage, record)) is Reason.PERSON
    assert await _words(stage, record) == "use staging"
    record = await stage.ask(tool="another")
    await ann.command(app, channel, "deny", request=record.id, reason="not today")
    assert (await _why(stage, record)) is Reason.PERSON
    assert await _words(stage, record) == "not today"


async def test_another_plan_is_asked_for_in_so_many_words(stage: Stage) -> None:
    """It needs words for the agent: without any, nothing is decided."""
    ann, app, channel = stage.server.ann, stage.server.app, stage.server.channel
    record, card = await stage.asked()
    opened = await stage.click(ann, card, "Deny")
    refused = await ann.submit(opened, next=["replan"])
    assert "what the agent should plan instead" in private_text(refused)
    refused = await ann.command(app, channel, "deny", request=record.id, plan=True)
    assert "what the agent should plan instead" in private_text(refused)
    assert (await stage.core.requests.get(record.id)).status is Status.PENDING
    await ann.submit(await stage.click(ann, card, "Deny"), reason="staging", next=["replan"])
    assert (await _why(stage, record)) is Reason.FEEDBACK
    record = await stage.ask()
    await ann.command(app, channel, "deny", request=record.id, reason="staging", plan=True)
    assert (await _why(stage, record)) is Reason.FEEDBACK


async def _why(stage: Stage, record: StoredRequest) -> Reason:
    decision = (await stage.ended(record)).decision
    assert decision is not None and decision.status is Status.DENIED
    return decision.reason


async def _words(stage: Stage, record: StoredRequest) -> str:
    """Return what the agent is told in the person's own words."""
    decision = (await stage.ended(record)).decision
    assert decision is not None
    return decision.message


async def test_09_a_tap_is_answered_in_time_while_others_want_the_interpreter(stage: Stage) -> None:
    """Another thread computes all the time, and nobody reads what the agent is told."""
    record, card = await stage.asked()
    done = threading.Event()

    def compute() -> None:
        while not done.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        assert not (await stage.click(stage.server.ann, card, "Approve")).failed
        assert (await stage.ended(record)).status is Status.APPROVED
    finally:
        done.set()
        thread.join()


async def test_09_a_large_card_is_drawn_beside_the_event_loop(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the courier, and for the answer to a tap: other people's taps need the loop meanwhile."""
    drawn: list[tuple[str, bool]] = []

    def noting(record: StoredRequest, **how: Any) -> Card:
        drawn.append((record.id, threading.current_thread() is threading.main_thread()))
        return card_of(record, **how)

    for module in ("gateway.approvals.request_service", "gateway.chat.answering"):
        monkeypatch.setattr(f"{module}.card_of", noting)
    small, card = await stage.asked()
    await stage.click(stage.server.ann, card, "Approve")
    large, card = await stage.asked(arguments={"command": "echo 1\n" * 8_000})
    view = await stage.click(stage.server.ann, card, "Read the full text")
    await stage.click(stage.server.ann, view.private[0], "Next ▶")
    for record, on_the_loop in ((small, True), (large, False)):
        seen = [where for request_id, where in drawn if request_id == record.id]
        assert len(seen) > 1 and set(seen) == {on_the_loop}


async def test_10_a_late_acknowledgement_decides_all_the_same(stage: Stage) -> None:
    """10062: the person sees a failure, but the decision counts once and the card is repaired."""
    record, card = await stage.asked()
    stage.server.discord.releasing.clear()
    task = asyncio.create_task(stage.click(stage.server.ann, card, "Approve", wait=False))
    await asyncio.sleep(0)
    stage.server.discord.calendar.advance(4)
    stage.server.discord.releasing.set()
    clicked = await task
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "Approved", "ann")
    assert clicked.failed
    assert len(await stage.events("approved")) == 1


async def test_11_of_two_opposite_clicks_one_wins_and_the_other_hears_who(stage: Stage) -> None:
    """Ann approves and bob denies at one instant: one decision; the loser is told by whom."""
    record, card = await stage.asked()
    opened = await stage.click(stage.server.bob, card, "Deny")
    approved, denied = await asyncio.gather(
        stage.click(stage.server.ann, card, "Approve"), stage.server.bob.submit(opened)
    )
    ended = await stage.ended(record)
    winner = "ann" if ended.status is Status.APPROVED else "bob"
    told = await told_privately(denied if winner == "ann" else approved)
    assert "decided already" in told and winner in told
    await stage.shows(card, winner)


async def test_12_a_double_click_is_one_decision(stage: Stage) -> None:
    """The same person presses twice before anything changes: both are answered, one event."""
    record, card = await stage.asked()
    first, second = await asyncio.gather(
        stage.click(stage.server.ann, card, "Approve"),
        stage.click(stage.server.ann, card, "Approve"),
    )
    assert not first.failed and not second.failed
    assert (await stage.ended(record)).status is Status.APPROVED
    assert len(await stage.events("approved")) == 1


async def test_13_two_processes_on_one_token_make_one_decision(
    stage: Stage, ground: Ground
) -> None:
    """Both get the click and both handle it: one decision, one audit row, one truth shown."""
    server = stage.server
    record, card = await stage.asked()
    async with ground.staged("two"):
        store = stage.gateway.backend.store
        await store.redis.delete(store.keys.note("discord", "gateway connection"))
        await server.discord.gateway.until(lambda: server.discord.gateway.connected == 2)
        done = await stage.click(server.ann, card, "Approve")
        assert not done.failed
        assert (await stage.ended(record)).status is Status.APPROVED
        assert len(await stage.events("approved")) == 1
        assert not await stage.events("refused")
        await stage.shows(card, "Approved", "ann")


async def test_13_a_tap_that_comes_again_is_answered_as_the_one_that_won(stage: Stage) -> None:
    """The line is cut between the decision and the answer, and Discord delivers the tap again: the
    card shows the end, and nobody is told that somebody else was faster."""
    server = stage.server
    record, card = await stage.asked()
    data = {
        "custom_id": buttons(card)["Approve"]["custom_id"],
        "component_type": 2,
        "id": 1,
    }
    tap, payload = server.discord.api.start(
        server.app, server.ann.user, server.channel, COMPONENT, data, card
    )
    cut = server.discord.rest.stage("POST", "/callback", refuse=True)
    await server.discord.deliver(server.app, payload)
    await cut.reached.wait()
    assert (await stage.ended(record)).status is Status.APPROVED
    await server.discord.deliver(server.app, payload)
    await stage.seen(lambda: tap.answer)
    assert tap.answer == UPDATE
    await stage.shows(card, "Approved", "ann")
    # A word of its own would have come before this one is asked, shown and opened.
    _, another = await stage.asked(arguments={"command": "another"})
    await stage.click(server.ann, another, "Details")
    assert tap.followups == []


async def test_14_clicks_on_what_has_ended_are_told_the_truth(stage: Stage) -> None:
    """Expired, cancelled, decided and purged: nothing changes, and each says what happened."""
    record, card = await stage.asked()
    before = {**card, "components": card["components"]}
    await stage.approvals.cancel(record.id, over_http(), reason=Reason.CANCELLED_BY_AGENT)
    await stage.shows(card, "Cancelled")
    done = await _pressed_late(stage, before, card)
    assert "decided already" in await told_privately(done)
    await stage.gateway.backend.store.redis.delete(
        stage.gateway.backend.store.keys.record(record.id)
    )
    done = await _pressed_late(stage, before, card)
    assert "no longer available" in private_text(done)


async def _pressed_late(stage: Stage, before: Json, card: Json) -> Interaction:
    """Press a button that stood there until a moment ago."""
    data = {"custom_id": buttons(before)["Approve"]["custom_id"], "component_type": 2, "id": 1}
    made = await stage.server.discord.raw(
        stage.server.app, stage.server.ann.user, stage.server.channel, data, message=card
    )
    return await stage.server.ann.outcome(made)


async def test_14_an_expired_request_cannot_be_approved(stage: Stage) -> None:
    """The deadline passes between the look and the tap: expired, and the card says so."""
    record, card = await stage.asked(timeout=0.3)
    before = {**card}
    assert (await stage.ended(record)).status is Status.EXPIRED
    await stage.shows(card, "Expired")
    done = await _pressed_late(stage, before, card)
    assert "expired" in await told_privately(done)
    assert labels(card) == {"Details"}


async def test_15_a_card_elsewhere_or_another_id_decides_nothing(stage: Stage) -> None:
    """A button is good only on the message that we posted it to; a guessed copy is refused."""
    record, card = await stage.asked()
    other = stage.server.discord.town.channel(stage.server.guild, "elsewhere")
    forged = {**card, "id": stage.server.discord.calendar.snowflake(), "channel_id": other.id}
    custom_id = buttons(card)["Approve"]["custom_id"]
    parts = custom_id.split(":")
    guessed = ":".join([*parts[:4], "0" * 22, *parts[5:]])
    view = await stage.click(stage.server.ann, card, "Details")
    of_view = buttons(view.private[0])["Approve"]["custom_id"]
    for place, message, wanted in (
        (stage.server.channel, forged, of_view),
        (other, forged, custom_id),
        (stage.server.channel, forged, custom_id),
        (stage.server.channel, card, guessed),
    ):
        data = {"custom_id": wanted, "component_type": 2, "id": 1}
        made = await stage.server.discord.raw(
            stage.server.app, stage.server.ann.user, place, data, message=message
        )
        assert "did not post this card" in private_text(await stage.server.ann.outcome(made))
    assert not (await stage.core.requests.get(record.id)).final
    assert len(await stage.events("refused")) == 4


async def test_16_a_button_of_another_version_is_answered(stage: Stage) -> None:
    """After an upgrade an old card says what to do instead of failing."""
    record, card = await stage.asked()
    for old in ("ag0:approve:x", "ag9:approve:1:2:3:4:5", "ag1:approve:!!:1:::"):
        data = {"custom_id": old, "component_type": 2, "id": 1}
        made = await stage.server.discord.raw(
            stage.server.app, stage.server.ann.user, stage.server.channel, data, message=card
        )
        assert "/pending" in private_text(await stage.server.ann.outcome(made))
    assert not (await stage.core.requests.get(record.id)).final


async def test_17_a_deleted_card_leaves_the_command(stage: Stage) -> None:
    """A moderator deletes the message: the request still waits, and /approve decides it."""
    record, card = await stage.asked()
    stage.server.discord.board.delete(stage.server.channel, card["id"])
    server = stage.server
    view = await server.ann.command(server.app, server.channel, "approve", request=record.id)
    await stage.click(server.ann, view.private[0], "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.seen(lambda: server.discord.rest.made("PATCH", "/channels/#/messages/#"))
    assert card["id"] not in server.channel.messages


async def test_17_a_card_deleted_after_the_decision_troubles_nobody(stage: Stage) -> None:
    """The result of what ran has no card to stand on: the copy is written off once, and Discord is
    asked no more about it."""
    record, card = await stage.asked()
    await stage.click(stage.server.ann, card, "Approve")
    await stage.ended(record)
    await stage.shows(card, "Approved")
    stage.server.discord.board.delete(stage.server.channel, card["id"])
    report = Report(execution=Execution.SUCCEEDED, duration_ms=5)
    await stage.approvals.report(record.id, report, over_http())
    async with asyncio.timeout(15):
        while not await stage.events("copy_gone"):
            await moment()
    edits = len(stage.server.discord.rest.made("PATCH", "/channels/#/messages/#"))
    await stage.outbox.mark("discord", record.id)
    await stage.asked()
    assert len(stage.server.discord.rest.made("PATCH", "/channels/#/messages/#")) == edits


async def test_18_buttons_that_go_away_under_the_finger_decide_nothing(stage: Stage) -> None:
    """Bob decides while ann's click is on its way: she is told, nothing is decided twice."""
    record, card = await stage.asked()
    before = {**card}
    opened = await stage.click(stage.server.bob, card, "Deny")
    await stage.server.bob.submit(opened, reason="mine")
    await stage.shows(card, "Denied")
    done = await _pressed_late(stage, before, card)
    told = await told_privately(done)
    assert "decided already" in told and "bob" in told
    assert (await stage.ended(record)).status is Status.DENIED


@pytest.mark.thorough
async def test_19_a_process_killed_between_decision_and_edit_leaves_a_true_card(
    server: Server,
    ground: Ground,
) -> None:
    """kill -9 while the answer is on its way: another replica edits the card."""
    first = await ground.replica("a").start()
    async with ground.staged(adapters=()) as stage:
        await server.discord.gateway.until(lambda: server.discord.gateway.connected == 1)
        record, card = await stage.asked()
        faults = [
            server.discord.rest.stage(method, path, held=asyncio.Event())
            for method, path in (("POST", "/callback"), ("PATCH", "/messages/"))
        ]
        await stage.click(server.ann, card, "Approve", wait=False)
        assert (await stage.ended(record)).status is Status.APPROVED
        for fault in faults:
            await fault.reached.wait()
        assert "Approve" in labels(card)
        await first.kill()
        second = await ground.replica("b").start()
        try:
            # The dead one's lease on the copy runs out, and the other looks at it.
            await stage.outbox.mark("discord", record.id)
            await stage.shows(card, "Approved", "ann")
            assert labels(card) == {"Details"}
        finally:
            await second.stop()


async def test_20_a_hundred_live_cards_outlive_their_process(
    server: Server,
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred cards are out, a modal is open, and another process takes over: every button and
    the modal work, without posting or registering anything anew."""
    monkeypatch.setattr("adapters.discord.posting.ALL_PER_MINUTE", 60_000)
    server.discord.rest.limits.overall.limit = 10_000
    async with ground.staged("old") as old:
        cards = await old.spread(100)
        first, place, message = cards[0]
        opened = await old.click(server.bob, message, "Deny", channel=place)
    posts = len(server.discord.rest.made("POST", "/channels/#/messages"))
    async with ground.staged("new") as new:
        await server.discord.gateway.until(lambda: server.discord.gateway.connected == 1)
        assert not (await server.bob.submit(opened, reason="from before")).failed
        for record, channel, card in cards[1:]:
            done = await new.click(server.ann, card, "Approve", channel=channel)
            assert not done.failed
            assert (await new.core.requests.get(record.id)).status is Status.APPROVED
        assert (await new.ended(first)).status is Status.DENIED
        assert len(server.discord.rest.made("POST", "/channels/#/messages")) == posts


async def test_a_copy_is_adopted_by_its_first_click(
    server: Server,
    ground: Ground,
) -> None:
    """Killed with a card out that it had not written down: another process takes its click, and
    knows from then on where it stands."""
    fault = server.discord.rest.stage("POST", "/messages", silent=asyncio.Event())
    first = await ground.replica("a").start()
    async with ground.staged(adapters=()) as stage:
        record = await stage.ask()
        await fault.reached.wait()
        card = await stage.card(record)
        await first.kill()
        (copy,) = (await stage.outbox.copies(record.id)).values()
        assert copy.ref is None
    async with ground.staged("b") as stage:
        await server.discord.gateway.until(lambda: server.discord.gateway.connected == 1)
        done = await stage.click(server.ann, card, "Approve")
        assert done.answer == UPDATE
        (copy,) = (await stage.outbox.copies(record.id)).values()
        assert copy.ref == MessageRef(
            adapter="discord", channel=server.channel.id, message=card["id"]
        )
