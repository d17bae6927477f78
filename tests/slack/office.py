"""A gateway with the Slack adapter at work on the counterpart, as the product runs it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from adapters.slack import SlackAdapter
from adapters.slack.posting import UPDATES
from gateway.delivery.outbox_worker import TIMINGS, Timings
from gateway.domain.policy_document import Budget, PolicyDocument, Route
from gateway.domain.records import Person, StoredRequest
from gateway.models import Risk, RiskLevel
from gateway.ports import AdapterApi, WebPages
from gateway.server.background import adapter_api, run_reminders, serve_adapters
from tests.slack.counterpart.person import Human, NotShown
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.waiting import moment
from tests.world import World

HIGH = Risk(level=RiskLevel.HIGH, reasons=("deletes data",))
PEOPLE = (
    Person(name="ann", identities=("slack:T1/UANN", "token:ann")),
    Person(name="bob", identities=("slack:T1/UBOB", "slack:T1/UBOB2", "token:bob")),
    Person(name="eve", identities=("slack:T1/UEVE",)),
    Person(name="root", identities=("token:root",), admin=True),
)
BUTTONS = ["Approve", "Deny…", "More…"]
ROUTE = Route(approvers=("ann", "bob"), targets=("slack:T1/C1",))


async def form(human: Human, kind: str) -> None:
    """Wait until somebody's modal is filled."""
    await human.state.until(lambda: human.has_modal and human.modal.view.get("callback_id") == kind)


async def told(human: Human, part: str) -> None:
    """Wait until somebody is told something in private."""
    await human.state.until(lambda: any(part in text for text in human.private()))


@contextmanager
def environment(slack: Slack, **changes: str) -> Iterator[None]:
    """Set the adapter's settings for the counterpart."""
    values = {
        "GATEWAY_SLACK_API_URL": slack.api_url,
        "GATEWAY_SLACK_BOT_TOKEN": slack.workspace().bot_token,
        "GATEWAY_SLACK_APP_TOKEN": slack.state.app_token,
        "GATEWAY_SLACK_SIGNING_SECRET": slack.state.signing_secret,
        **changes,
    }
    before = dict(os.environ)
    os.environ.update({name: value for name, value in values.items() if value})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@dataclass
class Office:
    """Who works here, and what they look at."""

    slack: Slack
    world: World
    adapter: SlackAdapter
    api: AdapterApi
    route: Route = ROUTE
    ann: Human = field(init=False)
    bob: Human = field(init=False)

    def __post_init__(self) -> None:
        self.ann = self.slack.person("UANN", name="ann")
        self.bob = self.slack.person("UBOB", name="bob")

    async def ask(self, **changes: Any) -> StoredRequest:
        """Submit a request."""
        return await self.world.submit(**changes)

    async def asked(self, **changes: Any) -> tuple[StoredRequest, Message]:
        """Submit a request and wait for its card in C1."""
        before = len(self.slack.messages("C1"))
        record = await self.ask(**changes)
        await self.slack.until(lambda: len(self.slack.messages("C1")) > before)
        return await self.api.requests.get(record.id), self.slack.messages("C1")[-1]

    async def ended(self, record: StoredRequest) -> StoredRequest:
        """Return the record once it ended."""
        async with self.world.core.feed.changes() as changes:
            while not (now := await self.api.requests.get(record.id)).final:
                await anext(changes)
        return now

    async def settled(self) -> None:
        """Wait until all that people asked for is done."""
        async with asyncio.timeout(40):
            while self.adapter.busy:
                await moment()

    async def until_kept(self, record: StoredRequest, target: str) -> None:
        """Wait until the place of a copy is written down."""
        async with self.world.core.feed.changes() as changes:
            while True:
                copy = (await self.world.core.outbox.copies(record.id)).get(target)
                if copy is not None and copy.ref is not None:
                    return
                await anext(changes)

    async def until_event(self, kind: str) -> Any:
        """Return the first event of a type, once there is one."""
        events = await self.world.until(lambda all_: any(one.type == kind for one in all_))
        return next(one for one in events if one.type == kind)

    def modal_says(self, human: Human) -> str:
        """Return the words of somebody's modal, empty without one."""
        return " ".join(words(human.modal.view["blocks"])) if human.has_modal else ""

    async def page(self, human: Human, number: int) -> None:
        """Wait until somebody sees this page of the full view."""
        await self.slack.until(lambda: f"Page {number}" in self.modal_says(human))

    async def told_in_modal(self, human: Human, part: str) -> None:
        """Wait until somebody's modal says this."""
        await self.slack.until(lambda: part in self.modal_says(human))

    def modal_buttons(self, human: Human) -> list[str]:
        """Return the labels of the buttons in somebody's modal."""
        seen = human.buttons(human.modal.view["blocks"])
        return [element["text"]["text"] for _, element in seen]

    async def modal_offers(self, human: Human, label: str) -> None:
        """Wait until somebody has a modal open that offers this button."""

        def offered() -> bool:
            try:
                return label in self.modal_buttons(human)
            except NotShown:  # it is on its way
                return False

        await self.slack.until(offered)

    async def card_says(self, message: Message, text: str) -> None:
        """Wait until a card says something."""
        await self.slack.until(lambda: text in shown(message))

    async def events(self, *types: str) -> list[Any]:
        """Return the events of these types."""
        return [one for one in await self.world.events() if one.type in types]


def shown(message: Message) -> str:
    """Return all the words of a message, as one text."""
    return " ".join([message.text, *words(message.blocks)])


def words(value: Any) -> Iterator[str]:
    """Yield every text in blocks or a view, but for what only our code reads."""
    if isinstance(value, list):
        for one in value:
            yield from words(one)
    elif isinstance(value, dict):
        if isinstance(value.get("text"), str):
            yield value["text"]
        if value.get("type") == "user":
            yield f"<@{value['user_id']}>"
        for name, one in value.items():
            if name not in ("private_metadata", "value", "action_id"):
                yield from words(one)
                if name in ("initial_value", "errors") and isinstance(one, str):
                    yield one


def labels(human: Human, message: Message) -> list[str]:
    """Return the labels of the buttons that somebody sees on a card."""
    return [one["text"]["text"] for _, one in human.buttons(message.blocks)]


async def use_up(office: Office, *, leave: int = 0) -> None:
    """Take all turns to edit in T1, but for so many that are left to what is urgent."""
    most, seconds = UPDATES.most, UPDATES.seconds
    for number in range(most):
        await office.api.notes.take_turn(
            "update T1", f"other {number}", rank=0, most=most, seconds=seconds, leave=leave
        )


async def put_in_force(
    world: World,
    *routes: Route,
    people: tuple[Person, ...] = PEOPLE,
    budgets: tuple[Budget, ...] = (),
) -> None:
    """Put these routes in force."""
    current = await world.store.policy()
    await world.store.apply(
        PolicyDocument(
            generation=current.generation, people=people, routes=routes, budgets=budgets
        ),
        by="test",
    )
    world.core.writer.forget_policy()


@asynccontextmanager
async def at_work(
    slack: Slack,
    world: World,
    *routes: Route,
    adapter: SlackAdapter | None = None,
    steps: bool = False,
    env: Mapping[str, str] | None = None,
    inbox: str = "",
    timings: Timings = TIMINGS,
) -> AsyncIterator[Office]:
    """Run the adapter, its courier and, with `steps`, reminders and fail-over."""
    await put_in_force(world, *(routes or (ROUTE,)))
    adapter = adapter or SlackAdapter()
    adapter.ping_seconds = 0.5
    api = adapter_api("slack", world.core, world.store, inbox=inbox)
    public = {"GATEWAY_PUBLIC_URL": "http://127.0.0.1"}
    async with AsyncExitStack() as stack:
        stack.enter_context(environment(slack, **{**public, **(env or {})}))
        serving = serve_adapters(adapter, api, world.core, timings=timings)
        pages = await stack.enter_async_context(serving)
        if steps:
            await stack.enter_async_context(run_reminders(world.core))
        if env and env.get("GATEWAY_SLACK_MODE") == "http":
            await stack.enter_async_context(_site(slack, pages))
        yield Office(slack, world, adapter, api)


@asynccontextmanager
async def _site(slack: Slack, pages: WebPages) -> AsyncIterator[None]:
    app = web.Application()
    app.add_routes(pages.routes)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    slack.deliveries.request_url = f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events"
    try:
        yield
    finally:
        await runner.cleanup()
