"""The example of an agent in Slack, on its own Bolt app, with a whole gateway beside it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from slack_bolt.request.async_request import AsyncBoltRequest

from gateway.domain.policy_document import PolicyDocument
from gateway.server.app import run_gateway
from gateway.server.settings import Settings
from tests.frame.tree import ROOT
from tests.slack.counterpart.person import Human
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import PEOPLE, environment, shown
from tests.slack.test_origin import ROUTE, THREAD, begin, thread
from tests.world import AGENT


def load(name: str) -> ModuleType:
    """Return an example as a module of its own."""
    spec = importlib.util.spec_from_file_location(
        f"example_{name}", ROOT / f"examples/{name}/agent.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mention(slack: Slack, text: str) -> AsyncBoltRequest:
    """Return what Slack sends when eve mentions the agent in the thread."""
    event = {"type": "app_mention", "user": "UEVE", "channel": "CTALK", "text": text}
    event |= {"ts": "1780000000.000900", "thread_ts": THREAD}
    body: dict[str, Any] = {"type": "event_callback", "team_id": "T1", "event": event}
    body["authorizations"] = [{"team_id": "T1", "user_id": "UAGENT", "is_bot": True}]
    return AsyncBoltRequest(body=json.dumps(body), mode="socket_mode")


@pytest.mark.usefixtures("own_clients")
async def test_its_cards_are_where_it_is_asked(
    slack: Slack, server_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eve asks twice in a thread; ann approves one and denies the other there."""
    begin(slack, "CTALK")
    slack.person("UEVE", name="eve")
    ann = slack.person("UANN")
    files = [tmp_path / "old.txt", tmp_path / "new.txt"]
    for one in files:
        one.write_text("x", encoding="utf-8")
    monkeypatch.setenv("SLACK_BOT_TOKEN", slack.workspace().bot_token)
    agent = load("slack")
    agent.app.client.base_url = slack.api_url
    place: Any = {"REDIS_URL": server_url, "namespace": namespace, "data_dir": tmp_path}
    settings = Settings(**place, port=0, adapters=("slack",))
    with environment(slack):
        async with run_gateway(settings) as gateway:
            store = gateway.backend.store
            now = await store.policy()
            policy = PolicyDocument(generation=now.generation, people=PEOPLE, routes=(ROUTE,))
            await store.apply(policy, by="test")
            made = await gateway.backend.credentials.add_agent(AGENT)
            monkeypatch.setenv("GATEWAY_URL", gateway.url)
            monkeypatch.setenv("GATEWAY_TOKEN", made.token)
            monkeypatch.setenv("GATEWAY_AGENT", AGENT)
            for one, label in zip(files, ("Approve", "Deny…"), strict=True):
                working = asyncio.create_task(
                    agent.app.async_dispatch(mention(slack, f"<@UAGENT> delete {one}"))
                )
                await press(slack, ann, one.name, label)
                await working
            await slack.until(lambda: len(answers(slack)) == len(files))
    said = answers(slack)
    assert said[0] == f"deleted {files[0]}"
    assert said[1].startswith("not deleted: denied by ann")
    assert [one.exists() for one in files] == [False, True]
    assert slack.messages("C1") == []


def answers(slack: Slack) -> list[str]:
    """Return what the agent said in the thread."""
    return [one.text for one in thread(slack) if one.text.startswith(("deleted", "not deleted"))]


async def press(slack: Slack, ann: Human, about: str, label: str) -> None:
    """Press a button on the card about something, once it is in the thread."""

    def card() -> Message | None:
        return next((one for one in thread(slack) if one.metadata and about in shown(one)), None)

    await ann.click(await slack.until(card), label)
    if label == "Deny…":
        await slack.until(lambda: ann.has_modal and ann.modal.view.get("submit"))
        await ann.submit()
