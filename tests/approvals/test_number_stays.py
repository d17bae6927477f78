"""The number that an agent shows stands nowhere where an approver, or whoever reads logs, could
read it: then it would prove nothing."""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from adapters.web.cards import build_row, build_whole
from gateway.api.messages import masked_view, view
from gateway.approvals import decisions
from gateway.cards.card import card_of, discreet_notification, full_view
from gateway.cli.requests import format_request, format_row
from gateway.delivery.webhooks import body_of
from gateway.domain.records import AuditEvent, StoredRequest
from gateway.errors import GatewayError
from gateway.models import Action
from gateway.wire.codec import plain
from tests.approvals.test_step_up import DANGEROUS, EITHER, in_force
from tests.world import World, click, identity, over_http

# No clock and no digest happens to hold so many digits in a row.
LONG = 8_0451_9326_7714_0582_9931
SURFACES: dict[str, Callable[[StoredRequest], Any]] = {
    "record": repr,
    "card": lambda record: card_of(record, lines=99, chars=9999),
    "card, revealed": lambda record: card_of(record, lines=99, chars=9999, reveal=True),
    "full view": lambda record: full_view(record, reveal=True),
    "notification": discreet_notification,
    "api": lambda record: plain(view(record, whole=True)),
    "api, to the agent": lambda record: plain(view(record, whole=False)),
    "api, masked": masked_view,
    "inbox row": build_row,
    "inbox": lambda record: build_whole(record, reveal=True),
    "command line": lambda record: format_request(masked_view(record)),
    "command line, in short": lambda record: format_row(masked_view(record)),
    "state for another process": lambda record: plain(record.state_for("q" * 16)),
}
EVENTS: dict[str, Callable[[AuditEvent], Any]] = {
    "audit": plain,
    "webhook": lambda event: body_of(event, "https://inbox.example/r/1"),
}


@pytest.fixture
def long_numbers(monkeypatch: pytest.MonkeyPatch) -> str:
    """Have numbers drawn that cannot stand anywhere by chance; return the one."""
    monkeypatch.setattr(secrets, "randbelow", lambda _: LONG - 100)
    monkeypatch.setattr(decisions, "NUMBER", re.compile("[0-9]+"))
    return str(LONG)


def found(number: str, record: StoredRequest, events: list[AuditEvent], logs: str) -> Iterator[str]:
    """Yield each surface on which a number stands."""
    for name, shown in SURFACES.items():
        if number in str(shown(record)):
            yield name
    for event in events:
        for name, told in EVENTS.items():
            if number in str(told(event)):
                yield f"{name} of {event.type}"
    if number in logs:
        yield "logs"


async def test_the_number_stands_on_no_surface_in_any_state(
    world: World, long_numbers: str, caplog: pytest.LogCaptureFixture
) -> None:
    """While it waits, after a wrong one, after a vote, an edit, and however it ends."""
    caplog.set_level(logging.DEBUG)
    await in_force(world, EITHER)
    wrong, right = {"number": "1" + long_numbers}, {"number": long_numbers}
    ways: dict[str, list[tuple[Action, dict[str, Any]]]] = {
        "waits": [],
        "guessed": [(Action.APPROVE, wrong)],
        "denied by numbers": [(Action.APPROVE, wrong)] * 3,
        "voted": [(Action.APPROVE, {"confirmed": True})],
        "approved": [(Action.APPROVE, wrong), (Action.APPROVE, right)],
        "edited": [(Action.EDIT, {"arguments": {"command": "prod 2"}, **right})],
        "denied": [(Action.DENY, {"message": "no", "number": long_numbers})],
    }
    for name, answers in ways.items():
        record = await world.submit(arguments=DANGEROUS)
        told = await world.approvals.state(record.id, over_http())
        assert told.number == long_numbers
        for action, more in answers:
            now = await world.core.requests.get(record.id)
            try:
                await world.core.requests.decide(click(now, action, **more))
            except GatewayError as refusal:
                assert long_numbers not in str(refusal)
        now = await world.core.requests.get(record.id)
        told_events = await world.events()
        assert list(found(long_numbers, now, told_events, caplog.text)) == [], name


async def test_only_its_agent_is_told_the_number(world: World, long_numbers: str) -> None:
    """And not when it is read again, by whichever process, nor once it is decided."""
    await in_force(world, EITHER)
    record = await world.submit(arguments=DANGEROUS)
    with pytest.raises(GatewayError):
        await world.approvals.state(record.id, over_http(agent="other"))
    read = plain(await world.approvals.fetch(record.id, over_http()))
    assert long_numbers not in json.dumps(read)
    await world.core.requests.decide(click(record, Action.DENY, identity=identity("bob")))
    assert long_numbers not in json.dumps(
        await world.store.redis.hgetall(world.store.keys.record(record.id))
    )
