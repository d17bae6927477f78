"""Links to cards in Slack, and from a card to the message that the agent names as its origin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from gateway.cards.card import TO_ORIGIN
from gateway.models import Origin
from gateway.ports import MessageRef, list_facts
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import ROUTE, Office, at_work, words
from tests.world import World, over_http

TS = "1700000000.000100"
ASKED = Origin(channel="slack", chat="T1/C7", message=TS)
ADDRESS = "https://t1.slack.test/archives/C7/p1700000000000100"


def links(message: Message) -> dict[str, str]:
    """Return the addresses of a card's buttons that open a page, by their labels."""
    made = [one for block in message.blocks or () for one in block.get("elements", ())]
    return {one["text"]["text"]: one["url"] for one in made if one.get("url")}


async def posted_at(office: Office, record: Any) -> tuple[str, ...]:
    """Return the addresses that the agent gets when it reads its request again."""
    await office.until_event("delivered")
    state = await office.world.approvals.fetch(record.id, over_http())
    assert state.record is not None
    return state.record.messages


async def test_a_card_s_address_is_what_slack_calls_its_permalink(
    office: Office, client: AsyncWebClient
) -> None:
    """For the agent, the inbox and the audit, after the decision too."""
    record, message = await office.asked()
    told = await client.chat_getPermalink(channel="C1", message_ts=message.ts)
    url = told["permalink"]
    assert await posted_at(office, record) == (url,)
    assert await office.api.messages.link_all(record) == {url: "Open the card in Slack"}
    (event,) = await office.events("delivered")
    assert event.data["url"] == url
    assert f"url: {url}" in list_facts(event)  # as `gateway audit` and the inbox show it
    await office.ann.click(message, "Approve")
    assert await posted_at(office, await office.ended(record)) == (url,)


async def test_a_card_in_a_thread_has_the_address_of_a_reply(slack: Slack, world: World) -> None:
    """As Slack documents it: with the thread and the channel."""
    async with at_work(slack, world) as office:
        _, first = await office.asked()
        place = f"slack:T1/C1/{first.ts}"
        assert await office.api.messages.link(place, ref_of(TS)) == (
            f"https://t1.slack.test/archives/C1/p1700000000000100?thread_ts={first.ts}&cid=C1"
        )


def ref_of(ts: str) -> MessageRef:
    """Return the reference of a message in Slack."""
    return MessageRef(adapter="slack", channel="T1/C1", message=ts)


async def test_a_card_leads_to_the_message_that_the_agent_names(office: Office) -> None:
    """By a button, which has no preview; the ended card has it too. Its notification has not."""
    record, message = await office.asked(origin=ASKED)
    assert links(message) == {TO_ORIGIN: ADDRESS}
    assert (await office.api.messages.link_all(record))[ADDRESS] == TO_ORIGIN
    assert ADDRESS not in message.text
    await office.ann.click(message, "Approve")
    await office.card_says(message, "Approved by ann")
    assert links(office.slack.messages("C1")[-1]) == {TO_ORIGIN: ADDRESS}


async def test_a_discreet_route_notifies_without_addresses(slack: Slack, world: World) -> None:
    """Nor does its outcome have any; only the card leads somewhere."""
    shy = replace(ROUTE, discreet=True, notify=("slack:T1/UBOB",))
    async with at_work(slack, world, shy) as office:
        record, message = await office.asked(origin=ASKED)
        await office.ann.click(message, "Approve")
        await office.ended(record)
        await slack.until(lambda: slack.workspace().channels.get("DBOB"))
        await slack.until(lambda: slack.messages("DBOB"))
        (told,) = slack.messages("DBOB")
        assert "http" not in message.text + told.text + " ".join(words(told.blocks))


@pytest.mark.parametrize(
    "claimed",
    [
        {"chat": "T9/C7"},  # a workspace without the app
        {"chat": "C7"},
        {"chat": "t1/c7"},
        {"chat": "T1/C7/../../evil"},
        {"chat": "T1/../C7"},
        {"chat": "slack:T1/C7"},
        {"chat": "T1/C7 "},
        {"chat": "https://evil.example/T1/C7"},
        {"chat": "T1/C7", "message": "https://evil.example"},
        {"chat": "T1/C7", "message": f"{TS}/../x"},
        {"chat": "T1/C7", "message": TS.replace("1", "\u0661")},
        {"chat": "T1/C7", "message": f"{TS}\n"},
        {"channel": "web"},
        {"channel": "discord"},
        {"channel": "https://evil.example"},
        {"message": ""},
    ],
)
async def test_what_names_no_message_here_is_no_link(
    office: Office, claimed: dict[str, str]
) -> None:
    """The card is there all the same, and can be approved."""
    record, message = await office.asked(origin=replace(ASKED, **claimed))
    assert links(message) == {}
    assert TO_ORIGIN not in (await office.api.messages.link_all(record)).values()


async def test_without_slack_there_is_no_link_and_the_card_still_comes(
    slack: Slack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter that throws, hangs or names another kind of address costs only the link."""
    async with at_work(slack, world) as office:
        for answer in (Fault, "javascript:alert(1)", "http://plain.example"):

            async def link(target: str, ref: Any, answer: Any = answer) -> str:
                return str(answer) if isinstance(answer, str) else answer("no such fault")

            monkeypatch.setitem(world.core.copies.links.links, "slack", link)
            said = {"command": f"echo {answer}"}
            record, message = await office.asked(origin=ASKED, arguments=said)
            assert links(message) == {}
            assert await posted_at(office, record) == ()
