"""The addresses of a request's cards in chats, over HTTP and in `gateway show`."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.cli.requests import format_request
from tests.api.replica import ANN_TOKEN, Replica, made

URL = "https://t1.slack.test/archives/C1/p1700000000000100"


@pytest.fixture
def linked(gate: Replica, monkeypatch: pytest.MonkeyPatch) -> Replica:
    """Have each request one card, in Slack."""

    async def link_cards(request_id: str) -> dict[str, str]:
        return {URL: "slack"}

    monkeypatch.setattr(gate.core.copies.links, "link_cards", link_cards)
    return gate


async def test_approvers_read_where_the_cards_are(linked: Replica) -> None:
    """In the list and alone, also with its secrets; `gateway show` prints it."""
    request = made()
    await linked.submitted(request)
    path = f"/v1/requests/{request.id}"
    for where in (path, f"{path}?reveal=true"):
        seen = (await linked.call("GET", where, token=ANN_TOKEN)).json
        assert seen["messages"] == [URL]
    (item,) = (await linked.call("GET", "/v1/requests", token=ANN_TOKEN)).json["items"]
    assert item["messages"] == [URL]
    (row,) = [one for one in format_request(seen).split("\n") if one.startswith("posted at")]
    assert URL in f"{row}{format_request(seen)}"


async def test_the_agent_reads_them_when_it_reads_its_request_again(linked: Replica) -> None:
    """Not with each state of it; nobody else's agent reads them."""
    request = made()
    state = (await linked.submitted(request)).json
    path = f"/v1/requests/{request.id}"
    assert "record" not in state
    assert "record" not in (await linked.call("GET", path)).json
    read: Any = (await linked.call("GET", f"{path}?record=true")).json
    assert read["record"]["messages"] == [URL]


async def test_without_a_card_there_is_no_member(gate: Replica) -> None:
    """As before, for programs that compare."""
    request = made()
    await gate.submitted(request)
    path = f"/v1/requests/{request.id}"
    assert "messages" not in (await gate.call("GET", path, token=ANN_TOKEN)).json
    assert "messages" not in (await gate.call("GET", f"{path}?record=true")).json["record"]
