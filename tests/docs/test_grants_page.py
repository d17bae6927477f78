"""The examples of docs/explanation/grants.md are what grants do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.models import Context, Kind, new_id
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import Effect, Grant, MatchResult
from gateway.policy.grants.offers import offers
from tests.unit.test_transitions import record
from tests.world import AGENT, request

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "grants.md"
TEXT = "the deploy of the shop is done, have a look at it"


def command(text: str) -> dict[str, Any]:
    """Return a request to run a command."""
    return {"kind": Kind.COMMAND, "arguments": {"command": text}}


def reading(path: str) -> dict[str, Any]:
    """Return a request to read a file."""
    return {"tool": "read_file", "arguments": {"path": path}}


def telling(channel: str, text: str = TEXT) -> dict[str, Any]:
    """Return a request to post a message."""
    return {"tool": "post_message", "arguments": {"channel": channel, "text": text}}


def weather(tool: str, city: str) -> dict[str, Any]:
    """Return a request about the weather."""
    return {"tool": tool, "arguments": {"city": city}}


# The page's row, words of the offer, what was asked, what goes through, what asks.
ROWS: list[tuple[str, str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        "| exactly this | `./deploy.sh --all` | `./deploy.sh --all -v` |",
        "exactly this",
        command("./deploy.sh --all"),
        command("./deploy.sh --all"),
        command("./deploy.sh --all -v"),
    ),
    (
        "| this command with these flags | `git log --oneline -n 9` | `git log --stat` |",
        "with no flags but",
        command("git log --oneline -n 5"),
        command("git log --oneline -n 9"),
        command("git log --stat"),
    ),
    (
        "| this command with its harmless flags | `git log --stat` | `git log; rm x` |",
        "with any of its",
        command("git log --oneline -n 5"),
        command("git log --stat"),
        command("git log; rm x"),
    ),
    (
        "| this folder | `/srv/app/b.txt` | `/srv/other/b.txt` |",
        "on anything in /srv/app",
        reading("/srv/app/a.txt"),
        reading("/srv/app/b.txt"),
        reading("/srv/other/b.txt"),
    ),
    (
        "| the same, with other text | another text to `#ops` | a text to `#all` |",
        "with any text",
        telling("#ops"),
        telling("#ops", "and now the second one is done too, as it was asked for"),
        telling("#all"),
    ),
    (
        "| the whole tool | `get_weather` of Bergen | another tool |",
        "everything that get_weather can do",
        weather("get_weather", "Oslo"),
        weather("get_weather", "Bergen"),
        weather("set_weather", "Bergen"),
    ),
]


@pytest.mark.parametrize(("row", "words", "asked", "through", "asks"), ROWS)
def test_a_row_of_the_page_is_what_its_grant_covers(
    row: str, words: str, asked: dict[str, Any], through: dict[str, Any], asks: dict[str, Any]
) -> None:
    """The row stands there, the offer is made, and covers the one and not the other."""
    assert row in PAGE.read_text(encoding="utf-8")
    where = {"context": Context(cwd="/srv/app", host="ci")}
    first = record(request=request(**where, **asked), harmless=True)
    (offer,) = [one for one in offers(first) if words in one.words]
    grant = Grant(
        id=new_id(), effect=Effect.ALLOW, agent=AGENT, match=offer.match, made_by="ann", made_at=0
    )
    assert (
        covers(grant, record(request=request(**where, **through), harmless=True)) is MatchResult.YES
    )
    assert (
        covers(grant, record(request=request(**where, **asks), harmless=True))
        is not MatchResult.YES
    )
