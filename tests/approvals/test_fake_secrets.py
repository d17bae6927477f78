"""Fake secrets of every kind through every path: in the clear at no place where text is kept or
shown. Agents get back what they sent, and the inbox shows it after Reveal: those are not places."""

from __future__ import annotations

import io
import json
import logging
import shlex
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from rich.console import Console

from adapters.discord.cards import build_card_view
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.full_view import build_full_view, page_fits
from adapters.slack import cards, modals
from adapters.slack.payloads import ModalMetadata
from adapters.terminal.cards import render_card
from adapters.web.cards import build_row, build_whole
from gateway.api.messages import masked_view
from gateway.cards.card import card_of, full_view
from gateway.cards.remember_options import scopes_of
from gateway.cli.requests import format_request, format_row
from gateway.cli.serve import JsonFormatter, LineFormatter
from gateway.delivery.webhooks import body_of
from gateway.domain.audit import event_line
from gateway.domain.records import StoredRequest
from gateway.models import Action, Context, Execution, Preview, Reason, Report, new_id
from tests.fake_secrets import FakeSecret, fake_secrets
from tests.sweeps import sweep
from tests.unit.test_cards import record
from tests.world import World, click, over_http, request

pytestmark = pytest.mark.timeout(120)


def words_of(text: str) -> list[str]:
    """Return a command as the list of its words; several lines are one word."""
    return [text] if "\n" in text else shlex.split(text)


# How one text of a kind is part of a request.
PATHS: dict[str, Callable[[str], dict[str, Any]]] = {
    "argument": lambda text: {"arguments": {"note": text}},
    "command": lambda text: {"arguments": {"command": text}},
    "nested": lambda text: {"arguments": {"a": [{"b": [text]}]}},
    "name of a member": lambda text: {"arguments": {text: 1}},
    "words": lambda text: {"arguments": {"argv": words_of(text)}},
    "JSON in a text": lambda text: {"arguments": {"body": json.dumps({"x": text})}},
    "payload": lambda text: {"payload": {"code": text}},
    "preview": lambda text: {"preview": Preview(format="text", text=text)},
    "hint": lambda text: {"hint": text},
    "tool": lambda text: {"tool": text.replace("\n", " ")},
    "host": lambda text: {"context": Context(host=text)},
    "folder": lambda text: {"context": Context(cwd=text)},
    "environment": lambda text: {"context": Context(env={"NOTE": text})},
}


def shown_in_slack(one: StoredRequest) -> str:
    """Return the blocks of a card and of its details."""
    card, full = card_of(one, lines=25, chars=1500), full_view(one)
    form = ModalMetadata(one.id, one.revision, copy="0" * 22, page=0)
    details = modals.build_details(card, full, form, refusal="")
    return json.dumps([cards.build_message(card, "0" * 22), details], default=str)


def shown_in_discord(one: StoredRequest) -> str:
    """Return the components of a card and of its first page."""
    card, full = card_of(one, lines=25, chars=1500), full_view(one, fits=page_fits)
    button = DiscordButton(verb="read", request_id=one.id, revision=one.revision)
    made = [build_card_view(card, "0" * 22)]
    made += [build_full_view(card, full, button, page=page) for page in range(len(full.pages))]
    return json.dumps([pressed_or_read(view.view) for view in made])


def pressed_or_read(view: Any) -> Any:
    """Return the components of a view of the library, which has no types for them."""
    return view.to_components()


def shown_in_terminal(one: StoredRequest) -> str:
    """Return a card and a line as text."""
    card = card_of(one, lines=10**6, chars=10**6)
    console = Console(file=io.StringIO(), width=2_000)
    console.print(render_card(card, now_ms=one.created))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def logged(one: StoredRequest) -> str:
    """Return what the log would hold of it, should anything log it."""
    said = logging.LogRecord("x", logging.INFO, "", 0, f"{one.request.arguments}", (), None)
    return LineFormatter().format(said) + JsonFormatter().format(said)


PLACES: dict[str, Callable[[StoredRequest], str]] = {
    "approvers' HTTP": lambda one: json.dumps(masked_view(one), ensure_ascii=False),
    "command line, one": lambda one: format_request(masked_view(one)),
    "command line, list": lambda one: format_row(masked_view(one)),
    "inbox": lambda one: json.dumps([build_row(one), build_whole(one)], ensure_ascii=False),
    "Slack": shown_in_slack,
    "Discord": shown_in_discord,
    "terminal": shown_in_terminal,
    "log": logged,
    "offers": lambda one: "".join(scope.words.text for scope in scopes_of(one, Action.APPROVE)),
}


def in_clear(said: str, of: FakeSecret) -> bool:
    """Whether a place shows it, also where it escapes text or ends lines for JSON."""
    return any(of.is_in(form) for form in (said, said.replace("\\", ""), said.replace("\n", "")))


@sweep("path", PATHS, few=3)
def test_no_surface_shows_a_secret(path: str) -> None:
    """Every kind in a command; through each other path another sixth of the kinds."""
    at = list(PATHS).index(path)
    leaks = set()
    for one in fake_secrets(path)[slice(None) if path == "command" else slice(at % 6, None, 6)]:
        made = record(ask={"id": new_id(), "allowed": tuple(Action), **PATHS[path](one.text)})
        leaks |= {(place, one.kind) for place, show in PLACES.items() if in_clear(show(made), one)}
    assert sorted(leaks) == []


@pytest_asyncio.fixture
async def quiet(world: World) -> AsyncIterator[World]:
    """A gateway of which the audit is read at the end."""
    yield world


@sweep("part", range(6), few=2)
async def test_no_event_keeps_a_secret(quiet: World, part: int) -> None:
    """Asked, decided with words, edited, reported, withdrawn, refused: stream, export, webhook."""
    kinds = fake_secrets("events")[part::6]
    core = quiet.core.requests
    for one in kinds:
        first = await quiet.submit(arguments={"command": one.text}, hint=one.text)
        await core.decide(click(first, Action.DENY, message=one.text, note=one.text))
        edited = await quiet.submit()
        changed = {"command": "ls", "note": one.text}
        await core.decide(click(edited, Action.EDIT, arguments=changed, message=one.text))
        report = Report(execution=Execution.FAILED, detail=one.text)
        await quiet.approvals.report(edited.id, report, over_http())
        await quiet.approvals.cancel(
            new_id(), over_http(), reason=Reason.CANCELLED_BY_AGENT, message=one.text
        )
        for name in ("id", "agent", "tool", "session", "digest"):
            text = f"{one.text}\n"
            await quiet.send("submit", {**plain_request(), name: text})
        await quiet.send("sync", {one.text: []})
        await quiet.send("sync", {"ids": [one.text]})
        await quiet.send(one.secret, {})
    await quiet.handled()
    events = await quiet.events()
    refused = [event for event in events if event.type == "refused"]
    assert len(refused) == len(kinds) * 8
    for event in events:
        said = event_line(event) + body_of(event).decode()
        assert [one.kind for one in kinds if in_clear(said, one)] == [], event


def plain_request() -> dict[str, Any]:
    """Return a request as an agent sends it."""
    one = request()
    return {
        "id": one.id,
        "agent": one.agent,
        "tool": one.tool,
        "arguments": one.arguments,
        "digest": one.digest,
    }


async def test_no_event_names_a_process_by_its_token(quiet: World) -> None:
    """Whoever reads the audit could take an approval with it; two processes are told apart."""
    asked = await quiet.submit()
    await quiet.core.requests.decide(click(asked))
    tokens = ["q" * 32, "r" * 32]
    for token in tokens:
        await quiet.approvals.consume(asked.id, over_http(token))
    waits = await quiet.submit()
    await quiet.send("sync", {"ids": [waits.id]}, process="s" * 32)
    await quiet.handled()
    events = await quiet.events()
    said = "".join(event_line(event) for event in events)
    assert [token for token in (*tokens, "s" * 32, "p" * 16) if token in said] == []
    named = [event.data["process"] for event in events if "process" in event.data]
    assert len(named) == len(set(named)) >= 2
