"""What is shortened is not cut within a secret: half of one would not be known, and so shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.cards.blocks import headline
from gateway.cards.card import HEADLINE_CHARS
from gateway.domain.parsing import check_schema
from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import render_safe
from gateway.errors import InvalidRequest
from gateway.policy.chain import Chain
from gateway.policy.grants.offers import offers
from gateway.policy.guardrails import find_dangers
from gateway.policy.hooks import approval
from tests.unit.test_cards import card, record
from tests.world import request

SECRET = "ghp_" + "a" * 36


def before(most: int) -> str:
    """Return text with a secret that begins shortly before so many characters."""
    return f"{'x' * (most - 12)} {SECRET} and more"


def of_offers() -> str:
    """Remember any text beside an argument that is the same each time."""
    arguments = {"to": "#ops", "cc": before(60).replace(" ", "/"), "body": "some words"}
    asked = {"tool": "send_message", "arguments": arguments}
    return repr([one.words for one in offers(record(ask=asked))])


def of_many_offers() -> str:
    """Remember with about as many arguments as their words have room for."""
    words: list[str] = []
    for letters in range(0, 16, 5):
        arguments = {"a": "x" * 50, "b": "x" * 50, "c": "x" * 50, "d": "x" * 50, "e": "x" * 50}
        arguments["f" * letters] = SECRET
        asked = {"tool": "read_file", "arguments": {**arguments, "path": "/ws/a"}}
        words += [one.words for one in offers(record(ask=asked))]
    return repr(words)


def of_a_schema() -> str:
    """Say what does not fit."""
    with pytest.raises(InvalidRequest) as raised:
        check_schema({"properties": {"a": {"type": "integer"}}}, {"a": before(300)})
    return str(raised.value)


@pytest.mark.parametrize(
    "said",
    [
        of_offers,
        of_many_offers,
        of_a_schema,
        lambda: approval({"approved": False, "reason": before(2000)}).reason,
        lambda: repr(find_dangers(record(ask={"arguments": {"path": f"/{before(80)}/.env"}}))),
        lambda: card(record(ask={"tool": before(80)})).title,
        lambda: headline(record(ask={"arguments": {"command": before(240)}}), HEADLINE_CHARS).text,
        lambda: headline(record(ask={"arguments": {"a": before(231)}}), HEADLINE_CHARS).text,
    ],
)
def test_nothing_is_cut_within_a_secret(said: Callable[[], str]) -> None:
    """Wherever it is said or shown."""
    assert "xx" in said()
    assert "ghp_" not in render_safe(said()).text


async def test_what_a_rule_failed_at_is_not_cut_within_a_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The audit keeps what shadows would have done; that one failed is in the log."""

    class Broken:
        name, priority = "broken", 1

        async def decide(self, record: StoredRequest, route: Route) -> Any:
            """Have no opinion."""

        async def shadows(self, record: StoredRequest) -> Any:
            """Fail with what the request said."""
            raise ValueError(before(180))

    (one,) = await Chain([Broken()]).shadows(record())
    assert "xx" in one.why
    assert "ghp_" not in render_safe(one.why).text
    assert "a report-only decider failed" in caplog.text


def test_a_name_that_does_not_fit_is_not_said_in_part() -> None:
    """Whole or not at all."""
    with pytest.raises(InvalidRequest, match="session of 118 characters does not match"):
        request(session=before(80))
    with pytest.raises(InvalidRequest, match="session of 3 characters does not match"):
        request(session="a b")
