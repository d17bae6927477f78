"""Slash commands: ours are there, others stay, and who cannot use one does not see it."""

from __future__ import annotations

import logging

import pytest
from pydantic import SecretStr

from adapters.discord.commands import DEFINITIONS, register_missing
from adapters.discord.connection import log_in
from adapters.discord.edits import read_content
from adapters.discord.library import prepare
from adapters.discord.settings import DiscordSettings, read_settings
from gateway.cards.card import Field
from gateway.errors import InvalidRequest
from gateway.models import Action, FieldKind
from gateway.ports import make_visible
from gateway.server.background import adapter_api
from tests.discord.stage import Stage

_OURS = {one["name"] for one in DEFINITIONS}
_FOREIGN = {"name": "weather", "description": "of another bot's part", "type": 1, "options": []}


def names(stage: Stage) -> set[str]:
    """Return the names of the registered commands."""
    return {one["name"] for one in stage.server.app.commands.get("", [])}


async def register(stage: Stage) -> None:
    """Register as at a start."""
    client = await log_in(read_settings())
    try:
        api = adapter_api("discord", stage.core, stage.gateway.backend.store)
        await register_missing(client, api.notes)
    finally:
        await client.close()


async def test_foreign_commands_stay_and_ours_come_back(stage: Stage) -> None:
    """Another namespace has one of its own and took some of ours away: both are there then."""
    await stage.seen(lambda: names(stage) == _OURS)
    kept = [one for one in stage.server.app.commands[""] if one["name"] in ("deny", "approve")]
    stage.server.app.commands[""] = [_FOREIGN, *kept]
    await register(stage)
    assert names(stage) == {*_OURS, "weather"}
    made = len(stage.server.discord.rest.made("POST", "/applications/#/commands"))
    await register(stage)
    assert len(stage.server.discord.rest.made("POST", "/applications/#/commands")) == made


async def test_the_kill_switch_is_for_who_manages_the_server(stage: Stage) -> None:
    """Discord shows it to nobody else, unless the server's settings say so."""
    await stage.seen(lambda: names(stage) == _OURS)
    shown = {
        one["name"]: one["default_member_permissions"] for one in stage.server.app.commands[""]
    }
    assert shown.pop("stop-all") == str(1 << 5)
    assert set(shown.values()) == {None}


def test_a_reconnect_is_one_line_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """discord.py reconnects by itself, and logs it as an error with a traceback; its errors that
    are none of that stay errors."""
    prepare(DiscordSettings(token=SecretStr("t")))
    prepare(DiscordSettings(token=SecretStr("t")))
    theirs = logging.getLogger("discord.client")
    with caplog.at_level(logging.INFO):
        for said in ("Attempting a reconnect in %.2fs", "something else, %.2f"):
            try:
                raise ConnectionResetError("cut")
            except ConnectionResetError:
                theirs.exception(said, 1.0)
    reconnect, other = caplog.records
    assert (reconnect.levelno, reconnect.exc_info) == (logging.INFO, None)
    assert other.levelno == logging.ERROR and other.exc_info


def test_a_wrong_answer_is_named_by_its_label() -> None:
    """Not by the name that only the agent's code knows."""
    field = Field(id="n", text=make_visible("How many servers"), kind=FieldKind.NUMBER)
    data = {"components": [{"component": {"custom_id": "field0", "type": 4, "value": "many"}}]}
    with pytest.raises(InvalidRequest, match="How many servers"):
        read_content(Action.ANSWER, data, (field,))


def test_only_options_of_text_are_completed() -> None:
    """Discord knows `autocomplete` for text and numbers, and refuses it for yes or no."""
    text = 3
    options = [option for one in DEFINITIONS for option in one["options"]]
    assert {one["type"] for one in options if "autocomplete" in one} == {text}
    assert any(one["type"] != text for one in options)
