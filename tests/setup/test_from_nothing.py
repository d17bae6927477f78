"""The way of each chat, from an empty folder to the first tap, is no longer than promised."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from adapters.slack.installation import build_manifest
from tests.discord.server import FakeDiscord
from tests.setup.__main__ import tabulate
from tests.setup.discord_portal import DiscordPortal
from tests.setup.slack_manifest import Json
from tests.setup.slack_portal import SlackPortal
from tests.setup.walks import walk_discord, walk_slack
from tests.setup.way import PortalRefuses, Way
from tests.slack.counterpart.slack import Slack

MOST_SECONDS = 120
LINK = "https://api.slack.com/apps?new_app=1&manifest_json="


def check(way: Way, *, steps: int, acts: int, links: int) -> None:
    """Print what a way costs, and compare. The acts are counted as they are: one less is a reason
    to lower the number here, and one more to think."""
    sys.stdout.write(f"{tabulate(way)}\n")
    assert len(way.steps) == way.walked == steps
    assert (len(way.acts), way.links) == (acts, links)
    assert (way.copied_ids, way.files) == ([], [])
    assert way.seconds < MOST_SECONDS


async def test_slack_from_nothing_to_the_first_tap(tmp_path: Path) -> None:
    """Six steps. Of the acts 13 are Slack's forms for an app, its token and its second token."""
    check(await walk_slack(tmp_path), steps=6, acts=23, links=2)


async def test_discord_from_nothing_to_the_first_tap(tmp_path: Path) -> None:
    """Five steps. Of the acts 11 are Discord's forms for an application and for adding its bot."""
    check(await walk_discord(tmp_path), steps=5, acts=20, links=2)


def without_scopes(manifest: Json) -> None:
    """Have the app ask for no scope."""
    manifest["oauth_config"]["scopes"]["bot"] = []


def without_socket(manifest: Json) -> None:
    """Have clicks arrive nowhere."""
    manifest["settings"]["socket_mode_enabled"] = False


def with_a_long_name(manifest: Json) -> None:
    """Give the app a name that Slack cuts."""
    manifest["display_information"]["name"] = "x" * 36


def with_a_slip(manifest: Json) -> None:
    """Write a member as nobody reads it."""
    manifest["settings"]["socket_mode"] = True


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without_scopes, "needs the scope"),
        (without_socket, "Socket Mode"),
        (with_a_long_name, "1 to 35"),
        (with_a_slip, "unknown member socket_mode"),
    ],
)
def test_a_manifest_that_slack_refuses_makes_no_app(
    spoil: Callable[[Json], None], said: str
) -> None:
    """The portal of this test says so, as the real one does; else the way would prove nothing."""
    manifest = build_manifest()
    spoil(manifest)
    portal = SlackPortal(Way("slack"), Slack(), "T1")
    portal.open(LINK + quote(json.dumps(manifest), safe=""))
    portal.choose_workspace()
    with pytest.raises(PortalRefuses, match=said):
        portal.press_next()


@pytest.mark.parametrize(
    "link",
    [
        "https://api.slack.com/apps?new_app=1",
        "https://api.slack.com/apps/A0OTHER/general",
        LINK.replace("api.slack.com", "api.slack.test") + "%7B%7D",
        LINK + "%7B%7D&x=" + "x" * 8000,
    ],
)
def test_a_link_that_leads_nowhere_is_refused(link: str) -> None:
    """No manifest, somebody else's app, another host, more than a server reads."""
    with pytest.raises(PortalRefuses, match="no such page"):
        SlackPortal(Way("slack"), Slack(), "T1").open(link)


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (
            "https://discord.com/oauth2/authorise?client_id=APP&scope=bot&permissions=0",
            "no such page",
        ),
        ("https://discord.com/developers/applications/1", "no such page"),
        ("https://discord.com/oauth2/authorize?client_id=1&scope=bot&permissions=0", "adds no bot"),
        (
            "https://discord.com/oauth2/authorize?client_id=APP&scope=bot&permissions=0",
            "no commands",
        ),
        (
            "https://discord.com/oauth2/authorize?client_id=APP"
            "&scope=bot+applications.commands&permissions=8",
            "too much",
        ),
        (
            "https://discord.com/oauth2/authorize?client_id=APP"
            "&scope=bot+applications.commands&permissions=0&response_type=code",
            "nobody knows",
        ),
    ],
)
def test_a_link_that_discord_refuses_adds_no_bot(link: str, said: str) -> None:
    """Another page, another application, no commands, everything, and an answer to nowhere."""
    discord = FakeDiscord()
    portal = DiscordPortal(Way("discord"), discord, discord.town.user("ann"))
    portal.open("https://discord.com/developers/applications?new_application=true")
    portal.name_application("Approvals")
    portal.accept_terms()
    portal.press_create()
    with pytest.raises(PortalRefuses, match=said):
        portal.open(link.replace("APP", portal.app.id))
