"""The shortcut in a message's menu: it opens the request of a card for who may see it."""

from __future__ import annotations

import asyncio

from adapters.slack.installation import build_manifest
from gateway.models import Status
from tests.slack.counterpart.slack import Slack
from tests.slack.office import Office, told
from tests.world import click

(SHORTCUT,) = build_manifest()["features"]["shortcuts"]
CALLBACK = SHORTCUT["callback_id"]


async def test_it_opens_the_request_and_answers_it(office: Office) -> None:
    """The same form as Details, with the buttons: an approval there counts as one on the card."""
    record, message = await office.asked()
    assert (await office.ann.shortcut(message, CALLBACK)).ok
    await office.page(office.ann, 1)
    assert "Approve" in office.modal_buttons(office.ann)
    await office.ann.click_modal("Approve")
    assert (await office.ended(record)).status is Status.APPROVED
    await office.card_says(message, "Approved by ann")


async def test_who_may_not_see_it_learns_nothing(slack: Slack, office: Office) -> None:
    """A member of the channel who is no approver is refused, which is written down."""
    slack.workspace().channels["C1"].members.add("UEVE")
    eve = slack.person("UEVE", name="eve")
    _, message = await office.asked()
    await eve.shortcut(message, CALLBACK)
    await slack.until(lambda: "not an approver" in office.modal_says(eve))
    assert "Approve" not in office.modal_buttons(eve)
    assert len(await office.events("refused")) == 1


async def test_another_message_is_no_request(office: Office) -> None:
    """Whoever uses it there is told where the requests are."""
    _, message = await office.asked()
    message.blocks, message.metadata = [{"type": "divider"}], None
    await office.ann.shortcut(message, CALLBACK)
    await told(office.ann, "This message is not a request. Use /approvals list")
    assert not office.ann.has_modal


async def test_an_ended_card_is_opened_too(office: Office) -> None:
    """It has no buttons, but says which request it is: what ran can be read, and not answered."""
    record, message = await office.asked()
    await office.api.requests.decide(click(record))
    await office.card_says(message, "Approved by ann")
    await office.ann.shortcut(message, CALLBACK)
    await office.page(office.ann, 1)
    assert office.modal_buttons(office.ann) == []


async def test_the_same_use_twice_opens_one_form(office: Office) -> None:
    """Slack may deliver it again, also to another replica."""
    _, message = await office.asked()
    used = office.ann.payloads.on_shortcut("C1", message, CALLBACK)
    await asyncio.gather(*(office.slack.deliveries.interaction(used) for _ in range(3)))
    await office.page(office.ann, 1)
    await office.settled()
    assert len(office.slack.state.called("views.open")) == 1
