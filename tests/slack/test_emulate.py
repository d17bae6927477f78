"""A second counterpart, made by others: npm's emulate. Runs in `make test-emulate` alone.

It knows neither clicks nor Socket Mode nor bot tokens, takes POST bodies only, and checks no
limits; so a bridge turns the SDK's calls into POSTs and says who the bot is, and clicks are signed
here. SDK, Bolt and adapter stay as they are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from adapters.slack.installation import BOT_SCOPES
from gateway.domain.policy_document import Route
from gateway.domain.records import Person
from gateway.models import Status
from tests.ports import free_port
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message, View
from tests.slack.office import at_work, put_in_force, shown
from tests.waiting import moment
from tests.world import World

Json = dict[str, Any]
BIN = os.environ.get("EMULATE")
TEAM, BOT = "T000000001", "U000000001"
SEED = """
tokens: {xoxb-emulated: {login: admin, scopes: ["chat:write"]}}
slack:
  team: {name: Emulated, domain: emulated}
  users: [{name: ann, real_name: Ann, email: ann@example.com}]
"""

pytestmark = pytest.mark.skipif(BIN is None, reason="runs in `make test-emulate`")


class Bridge:
    """Speaks as the SDK expects, and asks emulate."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session
        self.view: Json = {}  # the modal in front, as emulate knows it

    async def call(self, method: str, **arguments: Any) -> Json:
        """Call emulate itself."""
        headers = {"Authorization": "Bearer xoxb-emulated"}
        url = f"{self._url}/api/{method}"
        async with self._session.post(url, json=arguments, headers=headers) as answer:
            found: Json = await answer.json()
            return found

    async def serve(self, request: web.Request) -> web.Response:
        """Answer the SDK."""
        method = request.match_info["method"]
        arguments: Json = dict(request.query)
        if request.content_type == "application/json":
            arguments |= await request.json()
        elif request.method == "POST":
            arguments |= dict(await request.post())
        if method == "auth.test":
            who = {"ok": True, "team_id": TEAM, "user_id": BOT, "bot_id": "B1", "team": "E"}
            return web.json_response(who, headers={"x-oauth-scopes": ",".join(BOT_SCOPES)})
        if method == "bots.info":
            return web.json_response({"ok": True, "bot": {"app_id": "A0GATEWAY"}})
        arguments.pop("token", None)
        found = await self.call(method, **arguments)
        self.view = found.get("view") or self.view
        for trait in ("is_restricted", "is_ultra_restricted"):  # left out where they are false
            found.get("user", {}).setdefault(trait, False)
        if method == "conversations.info":  # Slack always says whether a channel is shared
            found.get("channel", {}).setdefault("is_ext_shared", False)
        return web.json_response(found)


@asynccontextmanager
async def emulated(folder: Path) -> AsyncIterator[tuple[Bridge, str]]:
    """Run emulate and the bridge; yield it and its base URL."""
    (folder / "seed.yaml").write_text(SEED)
    port = str(free_port())
    env = {**os.environ, "PATH": f"{Path(BIN or '').resolve()}:{os.environ['PATH']}"}
    process = await asyncio.create_subprocess_exec(
        "emulate",
        *("start", "-p", port, "-s", "slack", "--seed", "seed.yaml"),
        cwd=folder,
        env=env,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            while b"Ready" not in await process.stdout.readline():
                assert process.returncode is None
        async with aiohttp.ClientSession() as session:
            bridge = Bridge(f"http://127.0.0.1:{port}", session)
            app = web.Application()
            app.router.add_route("*", "/api/{method}", bridge.serve)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield bridge, f"http://127.0.0.1:{runner.addresses[0][1]}/api/"
            await runner.cleanup()
    finally:
        process.terminate()
        await process.wait()


async def card(bridge: Bridge, channel: str, word: str) -> Message:
    """Return the card in the channel, once it says a word."""
    async with asyncio.timeout(15):
        while True:
            history = await bridge.call("conversations.history", channel=channel)
            for one in history.get("messages", []):
                found = Message(
                    ts=one["ts"], user="", text=one["text"], blocks=one.get("blocks", [])
                )
                if word in shown(found):
                    return found


@pytest.mark.timeout(90)  # a card that is refused never comes
async def test_card_click_modal_and_edit_against_emulate(world: World, tmp_path: Path) -> None:
    """Posted, approved by a tap, edited; and posted, denied through a modal, edited."""
    async with emulated(tmp_path) as (bridge, url):
        users = (await bridge.call("users.list"))["members"]
        user = next(one["id"] for one in users if one["name"] == "ann")
        channel = (await bridge.call("conversations.create", name="approvals"))["channel"]["id"]
        slack = Slack()
        slack.workspace(TEAM).channels[channel] = slack.channel("C1", user, team=TEAM)
        ann = slack.person(user, team=TEAM)
        env = {
            "GATEWAY_SLACK_API_URL": url,
            "GATEWAY_SLACK_BOT_TOKEN": "xoxb-emulated",
            "GATEWAY_SLACK_MODE": "http",
        }
        route = Route(approvers=("ann",), targets=(f"slack:{TEAM}/{channel}",))
        people = (Person(name="ann", identities=(f"slack:{TEAM}/{user}",)),)
        async with at_work(slack, world, route, env=env) as office:
            await put_in_force(world, route, people=people)

            async def press(label: str) -> None:
                message = await card(bridge, channel, "Approval needed")
                block, button = next(
                    pair for pair in ann.buttons(message.blocks) if pair[1]["text"]["text"] == label
                )
                payload = ann.payloads.on_message(channel, message, block, button)
                made = await bridge.call("views.generateTriggerId", user_id=user)
                payload["trigger_id"] = made.get("trigger_id", "")
                assert (await slack.deliveries.interaction(payload)).ok

            record = await office.ask()
            await office.until_kept(record, route.targets[0])
            await press("Approve")
            assert (await office.ended(record)).status is Status.APPROVED
            approved = await card(bridge, channel, "Approved by ann")
            await bridge.call("chat.delete", channel=channel, ts=approved.ts)

            record = await office.ask()
            await office.until_kept(record, route.targets[0])
            await press("Deny…")
            async with asyncio.timeout(15):
                while bridge.view.get("callback_id") != "deny":
                    await moment()
            shown_view = View(
                id=bridge.view["id"], user=user, view=bridge.view, hash="", root="", previous=None
            )
            shown_view.state = {"reason": {"text": {"value": "not today"}}}
            assert (await slack.deliveries.interaction(ann.payloads.submission(shown_view))).ok
            assert (await office.ended(record)).status is Status.DENIED
            await card(bridge, channel, 'Denied by ann: "not today"')
