"""What every adapter that posts must keep together with the core: from a request to its end.

The core and the adapter are the real ones, the platform is each adapter's stage.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gateway.delivery.outbox_worker import TIMINGS, Timings
from gateway.domain.policy_document import Budget, PolicyDocument, Route
from gateway.domain.records import Person, StoredRequest
from gateway.models import Action, Kind, Question, Status
from gateway.ports import AdapterApi
from gateway.ports.outgoing import CopyState
from gateway.server.background import adapter_api, serve_adapters
from tests.contract.stages import Faulty, Stage, until
from tests.waiting import moment
from tests.world import AGENT, World, click, identity

ADDRESS = "https://approvals.example/inbox"


@dataclass
class Play:
    """An adapter at work on its stage, and what the test asks of the core."""

    stage: Any
    world: World
    api: AdapterApi

    async def asked(self, **changes: Any) -> StoredRequest:
        """Submit a request; return it once its card says so, with Approve on it."""
        before = len(self.stage.texts())
        record = await self.world.submit(**changes)
        await until(lambda: len(self.stage.texts()) > before)
        await self.kept(record)
        return record

    async def kept(self, record: StoredRequest) -> None:
        """Wait until the place of the card is written down."""
        async with asyncio.timeout(40):
            while (await self.copy(record)) not in (CopyState.POSTED, CopyState.GONE):
                await moment()

    async def copy(self, record: StoredRequest) -> CopyState | None:
        """Return how far the one copy of a request has come."""
        known = (await self.world.core.outbox.copies(record.id)).get(self.stage.target)
        return known.state if known else None

    async def until_copy(self, record: StoredRequest, state: CopyState) -> None:
        """Wait until the copy has come so far."""
        async with asyncio.timeout(40):
            while await self.copy(record) is not state:
                await moment()

    async def shows(self, words: str) -> None:
        """Wait until the one card says this."""
        await until(lambda: [words in text for text in self.stage.texts()] == [True])

    async def decided(
        self, record: StoredRequest, action: Action = Action.APPROVE, **more: Any
    ) -> StoredRequest:
        """Decide elsewhere, as bob at his terminal."""
        now = await self.api.requests.get(record.id)
        made = click(now, action, identity=identity("bob"), **more)
        return await self.world.core.requests.decide(made)


@asynccontextmanager
async def playing(
    stage: Stage, world: World, *, inbox: str = "", timings: Timings = TIMINGS, **route: Any
) -> AsyncIterator[Play]:
    """Run an adapter with its courier; ann at the platform and bob elsewhere may approve."""
    await in_force(stage, world, **route)
    api = adapter_api(stage.target.partition(":")[0], world.core, world.store, inbox=inbox)
    adapter = stage.adapter(api)
    async with serve_adapters(adapter, api, world.core, timings=timings):
        yield Play(stage, world, api)


async def in_force(
    stage: Stage, world: World, *, budgets: tuple[Budget, ...] = (), **route: Any
) -> None:
    """Put a route to the stage in force."""
    people = (
        Person(name="ann", identities=(stage.who,)),
        Person(name="bob", identities=("token:bob",)),
    )
    values = {"approvers": ("ann", "bob"), "targets": (stage.target,), **route}
    generation = await world.store.generation()
    document = PolicyDocument(
        generation=generation, people=people, routes=(Route(**values),), budgets=budgets
    )
    await world.store.apply(document, by="test")
    world.core.writer.forget_policy()


async def ended(play: Play, record: StoredRequest) -> StoredRequest:
    """Return a request once it has ended."""
    async with asyncio.timeout(40):
        while not (now := await play.api.requests.get(record.id)).final:
            await moment()
    return now


async def test_one_press_decides_and_the_card_says_who(stage: Stage, world: World) -> None:
    """Posted once, pressed once: approved by the person behind the identity."""
    async with playing(stage, world) as play:
        record = await play.asked()
        await stage.press()
        done = await ended(play, record)
        assert done.decision is not None
        assert (done.status, done.decision.decided_by.name) == (Status.APPROVED, "ann")
        await play.shows("ann")
        assert "Approval needed" not in stage.texts()[0]


async def test_what_was_decided_elsewhere_comes_to_show(stage: Stage, world: World) -> None:
    """An edit with its outcome; no second message, and nothing to press."""
    async with playing(stage, world) as play:
        record = await play.asked()
        await play.decided(record, Action.EDIT, arguments={"command": "ls -l"})
        await play.shows("pproved by bob")
        assert "bob" in stage.texts()[0]


async def test_a_double_click_is_one_decision(stage: Stage, world: World) -> None:
    """Two presses at once: one of them decides."""
    async with playing(stage, world) as play:
        record = await play.asked()
        await asyncio.gather(stage.press(), stage.press())
        assert (await ended(play, record)).status is Status.APPROVED
        await play.shows("Approved")
        kinds = [event.type for event in await world.events(record.id)]
        assert kinds.count("approved") == 1


async def test_a_press_on_an_older_card_decides_nothing(faulty: Faulty, world: World) -> None:
    """What would run was changed, and the card could not be edited yet: she is told."""
    async with playing(faulty, world, quorum=2) as play:
        record = await play.asked()
        faulty.refuse_edits(1)
        await play.decided(record, Action.EDIT, arguments={"command": "rm -rf /"})
        before = len(faulty.told())
        await faulty.press()
        await until(lambda: len(faulty.told()) > before)
        now = await play.api.requests.get(record.id)
        assert (now.status, [vote.person for vote in now.votes]) == (Status.PENDING, ["bob"])


async def test_refused_edits_are_made_later(faulty: Faulty, world: World) -> None:
    """The decision stands meanwhile, and the card follows."""
    async with playing(faulty, world, timings=Timings(retry=0.05, idle=0.1)) as play:
        record = await play.asked()
        faulty.refuse_edits(2)
        await play.decided(record, Action.DENY)
        await play.shows("Denied")
        assert (await play.api.requests.get(record.id)).status is Status.DENIED


async def test_a_refusal_has_an_end(faulty: Faulty, world: World) -> None:
    """The copy is stuck, and that is noted."""
    timings = Timings(retry=0.01, idle=0.1, most_refusals=2)
    async with playing(faulty, world, timings=timings) as play:
        record = await play.asked()
        faulty.refuse_edits(100)
        await play.decided(record)
        await play.until_copy(record, CopyState.STUCK)
        await world.until(lambda events: any(one.type == "copy_stuck" for one in events))


async def test_a_deleted_card_is_let_go(stage: Stage, world: World) -> None:
    """It is noted as gone, and no other one is posted."""
    async with playing(stage, world) as play:
        record = await play.asked()
        stage.delete()
        await play.decided(record)
        await play.until_copy(record, CopyState.GONE)
        assert stage.texts() == []


async def test_a_rate_limit_is_waited_out(faulty: Faulty, world: World) -> None:
    """One card in the end."""
    async with playing(faulty, world) as play:
        faulty.limit_posts()
        await play.asked()
        assert len(faulty.texts()) == 1


async def test_a_card_outlives_the_adapter(stage: Stage, world: World) -> None:
    """What is decided while nothing runs comes to show, and older cards can be pressed."""
    async with playing(stage, world) as play:
        record = await play.asked()
    await play.decided(record)
    async with playing(stage, world) as play:
        await play.shows("Approved")
        stage.delete()
        record = await play.asked()
    async with playing(stage, world) as play:
        await stage.press()
        assert (await ended(play, record)).status is Status.APPROVED
        await play.shows("Approved")


async def test_a_place_that_is_not_there_is_noted(stage: Stage, world: World) -> None:
    """The copy failed, with the platform's reason."""
    async with playing(stage, world, targets=(stage.nowhere,)) as play:
        record = await world.submit()
        await world.until(lambda events: any(one.type == "undelivered" for one in events))
        copy = (await play.world.core.outbox.copies(record.id))[stage.nowhere]
        assert (copy.state, bool(copy.why)) == (CopyState.FAILED, True)


async def test_a_crowd_leads_on_and_a_pause_says_its_end(stage: Stage, world: World) -> None:
    """The overflow card leads to the inbox; it says until when its agent is paused."""
    budgets, timings = (Budget(cards=1, denials=1),), Timings(count_ms=0)
    async with playing(stage, world, inbox=ADDRESS, timings=timings, budgets=budgets) as play:
        first = await play.asked()
        await world.submit(arguments={"command": "make"})
        await until(lambda: stage.links() == [ADDRESS])
        await play.decided(first, Action.DENY)
        how = f"gateway agent lift {AGENT}"
        (said,) = await until(lambda: [text for text in stage.texts() if how in text])
        (paused,) = (await play.api.operator.status()).paused
        assert stage.moment(paused.until) in said
        await play.world.core.held.resume_agent(AGENT, by="ann")
        await until(lambda: not any(how in text for text in stage.texts()))
        assert len(stage.texts()) == 2
        assert stage.links() == [ADDRESS]


async def test_what_the_inbox_alone_can_do_leads_there(stage: Stage, world: World) -> None:
    """A card that cannot be approved in the chat, as a secret is asked for or a mask hides what
    runs, has a button that opens this request; any other card has none."""
    async with playing(stage, world, inbox=ADDRESS) as play:
        await play.asked()
        assert stage.links() == []
        masked = await world.submit(arguments={"command": "echo password=shutdown-now | sh"})
        await until(lambda: stage.links() == [f"{ADDRESS}/r/{masked.id}"])
        question = Question(id="key", text="Deploy key?", secret=True)
        asks = {"kind": Kind.QUESTION, "questions": (question,), "allowed": (Action.ANSWER,)}
        asked = await world.submit(arguments={}, **asks)
        await until(lambda: f"{ADDRESS}/r/{asked.id}" in stage.links())
        await play.decided(masked, Action.DENY)
        await until(lambda: stage.links() == [f"{ADDRESS}/r/{asked.id}"])


async def test_a_crowd_without_an_address_names_the_chats_own_list(
    stage: Stage, world: World
) -> None:
    """Where people have a command that lists what waits, the overflow card says it."""
    async with playing(stage, world, budgets=(Budget(cards=1),)) as play:
        await play.asked()
        await world.submit(arguments={"command": "make"})
        adapter = stage.adapter(play.api)
        where = adapter.list_command or "Open the inbox"
        await until(lambda: any(f"{where} " in text for text in stage.texts()))
        assert stage.links() == []
