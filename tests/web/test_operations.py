"""The page Operations: problems with what to do about each, for admins alone, never out of date."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from gateway.domain.health_and_metrics import StoreFigures
from gateway.domain.policy_document import Budget
from gateway.errors import NotFound
from gateway.models import Action, new_id
from gateway.ports.operations import Operations, PendingShare, RunningGateway
from gateway.server.app import run_adapter, run_gateway
from gateway.server.operations import check_others, check_store
from gateway.server.settings import Settings
from tests.faults.server import Server, own_server
from tests.ports import free_port
from tests.web.chromium import PHONE, Browser, Page
from tests.web.inbox import AGENT, COMMAND, Inbox, inbox
from tests.web.test_access import flaws
from tests.web.visitor import visitor
from tests.world import identity

pytestmark = pytest.mark.timeout(240)

SHOWN = "!document.getElementById('figures').hidden"
LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"
EVIL = "slack:T1/<img src=x onerror=alert(1)>\u202e" + "x" * 90


def says(text: str) -> str:
    """Return the JavaScript expression for whether the page has this text."""
    return f"document.body.textContent.includes({json.dumps(text)})"


def part(name: str) -> str:
    """Return the JavaScript expression for the text of a part of the page."""
    return f"document.getElementById({name!r}).textContent"


async def opened(box: Inbox, page: Page) -> None:
    """Open the page, and wait for its figures."""
    await page.goto(f"{box.gateway.url}/inbox/operations")
    await page.until(SHOWN)


@pytest.mark.browser
async def test_an_admin_gets_there_from_the_menu(box: Inbox, page: Page) -> None:
    """It names this gateway as the leader, its adapters, and the checks that passed."""
    await box.ask(**COMMAND)
    await page.evaluate("document.querySelector('.menu').open = true")
    await page.press("Operations")
    await page.until(SHOWN)
    assert await page.evaluate("location.pathname") == "/inbox/operations"
    gateways = await page.evaluate(part("gateways"))
    assert gateways.count(", process ") == 1
    assert "leader" in gateways
    assert "webStateWorks" in await page.evaluate(part("adapters"))
    assert "Pending1" in await page.evaluate(part("queues"))
    assert f"Pending requests of {AGENT}" not in await page.evaluate(part("capacity"))
    assert "nothing is overdue" in await page.evaluate(part("passed"))
    assert await page.evaluate("document.getElementById('cooling').hidden")


@pytest.mark.browser
async def test_others_are_refused(box: Inbox, browser: Browser) -> None:
    """Bob has no link to it; the page shows him nothing, and the call is forbidden."""
    tab = await browser.tab()
    await box.sign_in(tab, "bob")
    assert await tab.evaluate("document.getElementById('operations').hidden")
    await tab.goto(f"{box.gateway.url}/inbox/operations")
    await tab.until(says("You cannot see this page: only an admin"))
    assert not await tab.evaluate(SHOWN)
    async with (
        visitor(box, "bob") as bob,
        bob.http.get(f"{bob.url}/inbox/api/operations") as answer,
    ):
        assert answer.status == 403
        assert set(await answer.json()) == {"type", "title", "status", "code", "detail"}
    async with (
        aiohttp.ClientSession() as nobody,
        nobody.get(f"{box.gateway.url}/inbox/api/operations") as answer,
    ):
        assert answer.status == 401


async def test_who_is_no_admin_is_refused_at_once(box: Inbox) -> None:
    """The right is read again at each call; another person in the policy never has it."""
    async with visitor(box) as ann:
        assert (await ann.get("operations"))["status"] == "ready"
        store = box.gateway.backend.store
        policy = await store.policy()
        people = tuple(replace(one, admin=False) for one in policy.people)
        await store.apply(replace(policy, people=people), by="test")
        async with ann.http.get(f"{ann.url}/inbox/api/operations") as answer:
            assert answer.status == 403
            assert "only an admin" in (await answer.json())["detail"]


async def test_two_gateways_are_told_apart(server_url: str, namespace: str, tmp_path: Path) -> None:
    """Each has a row with its version; one of them leads, and one that left is gone."""

    def settings(name: str) -> Settings:
        url = SecretStr(server_url)
        return Settings(data_dir=tmp_path / name, port=0, namespace=namespace, REDIS_URL=url)

    async with run_gateway(settings("one")) as one:
        made = Inbox(one)
        await made.route()
        async with visitor(made) as ann:
            async with run_gateway(settings("two")):
                found = (await ann.get("operations"))["gateways"]
                assert [row["leader"] for row in found].count(True) == 1
                assert len(found) == 2
                assert len({row["version"] for row in found}) == 1
                assert all(row["renewed"] < 6 for row in found)
            assert len((await ann.get("operations"))["gateways"]) == 1


async def test_an_inbox_in_its_own_process_shows_the_gateways(
    server_url: str, namespace: str, tmp_path: Path
) -> None:
    """It finds the gateway in Redis, and tells adapters of its own process from others."""

    def settings(name: str, **more: Any) -> Settings:
        url = SecretStr(server_url)
        return Settings(
            data_dir=tmp_path / name, port=0, namespace=namespace, REDIS_URL=url, **more
        )

    async with run_gateway(settings("one", adapters=())) as one:
        await Inbox(one).route(targets=("slack:T1/C1",))
        async with (
            run_adapter(settings("two", adapters=("web",)), "web") as url,
            visitor(Inbox(replace(one, url=url))) as ann,
        ):
            found = await ann.get("operations")
    assert [row["leader"] for row in found["gateways"]] == [True]
    assert {row["name"]: row["state"] for row in found["adapters"]} == {
        "web": "working",
        "slack": "elsewhere",
    }


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """Yield a server that the test may kill."""
    with tempfile.TemporaryDirectory(prefix="agw") as folder:
        async with own_server(Path(folder)) as made:
            yield made


@pytest.mark.browser
async def test_no_old_figures_are_shown_while_redis_is_away(
    tmp_path: Path, server: Server, browser: Browser
) -> None:
    """The page says since when it knows nothing, why, and what to do; then it recovers."""
    async with inbox(tmp_path, redis_url=server.url) as box:
        page = await browser.tab()
        await box.sign_in(page)
        await opened(box, page)
        await box.gateway.backend.store.note_target(EVIL, "closed")
        await server.kill()
        await page.evaluate(LOOK_AGAIN)
        await page.until(says("The state of the gateways is unknown since "))
        assert not await page.evaluate(SHOWN)
        await page.until(says("Redis does not respond"))
        assert await page.evaluate(says("Check that Redis runs"))
        assert "\u202e" not in await page.evaluate(part("problems"))
        assert await flaws(page) == []
        await server.start()
        await page.until(f"{LOOK_AGAIN} && {SHOWN}")


@pytest.mark.browser
async def test_a_gateway_that_is_gone_is_said(
    tmp_path: Path, server_url: str, namespace: str, browser: Browser
) -> None:
    """Without any answer the page names the command to check with."""
    page = await browser.tab()
    async with inbox(tmp_path, redis_url=server_url, namespace=namespace) as box:
        await box.sign_in(page)
        await opened(box, page)
    await page.evaluate(LOOK_AGAIN)
    await page.until(says("the gateway does not answer"))
    assert not await page.evaluate(SHOWN)
    assert await page.evaluate(says("gateway status"))


@pytest.mark.browser
async def test_the_kill_switch_and_a_cool_down_are_ended_here(box: Inbox, page: Page) -> None:
    """Both have a button, and the problem names the command; neither acts at the first press."""
    await box.route(budgets=(Budget(denials=1, pause=1800),))
    await box.decide(await box.ask(**COMMAND), Action.DENY)
    await opened(box, page)
    assert await page.evaluate(says("gateway agent lift NAME"))
    await page.press_twice("Stop everything")
    await page.until(says("every request is denied"))
    assert await box.gateway.backend.store.is_stopped()
    assert await page.evaluate(says("What to do: gateway resume"))
    await page.press_twice("Let agents ask again")
    await page.until(f"{part('kill')}.startsWith('Off.')")
    assert await box.gateway.backend.store.is_stopped() is False
    await page.press_on("document.querySelector('#paused .plain')")
    await page.press_on("document.querySelector('#paused .deny')")
    await page.until("document.getElementById('cooling').hidden")
    assert (await box.gateway.core.operator.status()).paused == ()


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_hostile_names_are_text_and_everybody_can_use_the_page(
    box: Inbox, page: Page, dark: bool
) -> None:
    """On a phone nothing runs, nothing is wider than the screen, and axe finds nothing."""
    store = box.gateway.backend.store
    await store.note_target(EVIL, "<script>alert(1)</script>")
    await store.redis.xadd(store.keys.dead, {"agent": "<b>x</b>"})
    await box.ask(**COMMAND)
    await page.size(PHONE, dark=dark)
    await opened(box, page)
    await page.until(f"{LOOK_AGAIN} && {says('<img src=x onerror=alert(1)>')}")
    assert await page.evaluate("document.querySelector('main img, main script, main b')") is None
    assert "\u202e" not in await page.evaluate(part("problems"))
    assert await page.evaluate(says("U+202E"))
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await flaws(page) == []
    assert all(name.strip() for _, name in await page.controls())


async def test_a_webhooks_address_stays_secret(
    tmp_path: Path, server_url: str, namespace: str
) -> None:
    """Only its host is told, and how long the next webhook has waited: nobody listens there."""
    port = free_port()
    hook: dict[str, Any] = {
        "webhook_url": f"http://localhost:{port}/T0/hidden-path?token=hidden-token",
        "webhook_secret": SecretStr("whsec_" + "A" * 40),
        "webhook_hosts": (f"localhost:{port}",),
    }
    async with (
        inbox(tmp_path, redis_url=server_url, namespace=namespace, **hook) as box,
        visitor(box) as ann,
    ):
        await box.ask(**COMMAND)
        found: dict[str, Any] = {"webhook_seconds": 0}
        while not found["webhook_seconds"]:
            await box.ask(**COMMAND, id=new_id())
            found = await ann.get("operations")
        assert found["webhook_host"] == "localhost"
        assert "hidden" not in json.dumps(found)


async def test_a_process_that_measures_nothing_says_so(box: Inbox) -> None:
    """Without the server's function there is nothing to show, and nothing is made up."""
    box.gateway.core.operator.measure = None
    with pytest.raises(NotFound):
        await box.gateway.core.operator.inspect(identity("ann"))


def figures(**changed: Any) -> StoreFigures:
    """Return the figures of a healthy store, with changes."""
    healthy = {
        "stopped": False,
        "paused_agents": 0,
        "replicas": 1,
        "memory": 8,
        "room": 10,
        "unsealed": 2.0,
        "intake": 0.1,
        "intake_messages": 1,
        "lease": 2.0,
        "unarchived": 3600.0,
        "archive_bytes": 1,
    }
    return StoreFigures(**{**healthy, **changed})


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({}, None),
        ({"memory": 100, "room": 0}, None),
        ({"memory": 9}, "memory"),
        ({"lease": 6.0}, "leader"),
        ({"intake": 61.0}, "intake"),
        ({"unsealed": 121.0}, "audit"),
        ({"unarchived": 7201.0}, "archive"),
    ],
)
def test_each_figure_out_of_bounds_is_a_problem(changed: dict[str, Any], name: str | None) -> None:
    """It comes with what to do about it; a healthy store has none."""
    found = list(check_store(figures(**changed)))
    assert [one.name for one in found] == ([name] if name else [])
    assert all(one.remedy and one.result == "warn" for one in found)


def test_versions_budgets_and_webhooks_are_problems_too() -> None:
    """Of gateways that differ, an agent near its limit, and a receiver that does not answer."""

    def state(versions: tuple[str, ...], pending: int, late: float) -> Operations:
        gateways = [
            RunningGateway(name=f"host, process {number}", version=one, leader=False, renewed=1.0)
            for number, one in enumerate(versions)
        ]
        return Operations(
            at=1,
            status="ready",
            checks=(),
            pending=pending,
            oldest=0.0,
            store=figures(),
            gateways=tuple(gateways),
            adapters=(),
            agents=(PendingShare(agent=AGENT, pending=pending, most=1000),),
            paused=(),
            webhook_host="hooks.example.com",
            webhook_seconds=late,
        )

    assert list(check_others(state(("1", "1"), 800, 60.0))) == []
    found = list(check_others(state(("1", "2"), 801, 61.0)))
    assert [one.name for one in found] == ["versions", "budget", "webhooks"]
    assert all(one.remedy for one in found)
