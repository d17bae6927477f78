"""What stands on cards in our own words: who did what, how it stands, and each thing once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from adapters.discord.card_views import MessageContent
from adapters.slack.card_blocks import build_actions, build_message
from gateway.models import Action
from gateway.ports.cards import Card, Style, card_of
from gateway.ports.words import say_names
from tests.discord import scenes
from tests.slack import states

EVERYTHING = 10**9


def card(name: str) -> Card:
    """Return the card of a state."""
    return card_of(states.RECORDS[name], lines=EVERYTHING, chars=EVERYTHING)


def shown(message: MessageContent) -> str:
    """Return all that a message of Discord shows, and how."""
    sent: Any = message.view
    return json.dumps(sent.to_components(), ensure_ascii=False)


@pytest.mark.parametrize(
    ("name", "ending", "aside"),
    [
        ("approved-edited", "Changed and approved by bob", ""),
        ("approved-hook", "Approved by bob", 'Changed by the policy hook "no-force"'),
        ("approved-changed-twice", "Approved by ann", 'Changed by the policy hook "no-force"'),
    ],
)
def test_who_changed_it_and_who_approved_it_are_told_apart(
    name: str, ending: str, aside: str
) -> None:
    """Nobody is credited with what a hook changed, and no name stands twice for one deed."""
    made = card(name)
    assert made.ending is not None
    assert made.ending.text == ending
    assert (made.changed_aside.text if made.changed_aside else "").startswith(aside)
    assert bool(aside) == (made.changed_aside is not None)


@pytest.mark.parametrize(
    ("name", "word", "action", "style"),
    [
        ("pending", "Approval needed", Action.APPROVE, Style.PRIMARY),
        ("pending-abandoned", "Agent gone", Action.APPROVE, Style.PLAIN),
        ("question-abandoned", "Agent gone", Action.ANSWER, Style.PLAIN),
        ("pending-nobody", "Cannot be approved", Action.DENY, Style.DANGER),
    ],
)
def test_what_waits_for_nobody_does_not_say_that_approval_is_needed(
    name: str, word: str, action: Action, style: Style
) -> None:
    """An answer that still counts stays possible, and is not the bright button."""
    made = card(name)
    assert made.word == word
    assert {one.action: one.style for one in made.controls}[action] is style


def test_a_vote_says_that_it_is_one_of_several() -> None:
    """In the sentence, in what confirms it, and on the page where all of it was read."""
    made = card("pending-two")
    approve = next(one for one in made.controls if one.action is Action.APPROVE)
    assert (approve.yes, "Yours is approval 1 of 2." in str(approve.confirm)) == (
        "Approve, 1 of 2",
        True,
    )
    asked = json.dumps(build_actions(made, "", whole=True))
    assert '"confirm": {"type": "plain_text", "text": "Approve, 1 of 2"' in asked
    alone = card("pending-high-risk")
    assert [one.yes for one in alone.controls if one.action is Action.APPROVE] == ["Approve"]


@pytest.mark.parametrize("name", ["pending-two", "pending-votes"])
def test_an_edit_counts_from_one_again(name: str) -> None:
    """It voids the votes before it."""
    risky = replace(states.RECORDS[name], risk=states.HIGH)
    made = card_of(risky, lines=EVERYTHING, chars=EVERYTHING)
    assert [one.yes for one in made.controls if one.action is Action.EDIT] == ["Edit, 1 of 2"]


async def test_a_vote_says_so_in_discord() -> None:
    """On the button below the whole text."""
    view = scenes.messages()["full-pending-two"]()
    assert "Approve, 1 of 2: I have read it" in shown(view)


async def test_the_full_view_says_what_the_card_says() -> None:
    """That the risk is high, and that nobody may approve it: there it is confirmed."""
    made = scenes.messages()
    risky = shown(made["full-pending-high-risk"]())
    assert "High risk: moves money" in risky
    nobody = shown(made["full-pending-nobody"]())
    assert "Nobody may approve this" in nobody
    assert "High risk: moves money" in json.dumps(states.views()["details-two"])


async def test_nothing_is_said_twice() -> None:
    """Not the sentence of a card that stands for a flood, not who changed it, not how it ended."""
    for name in ("crowd", "crowd-paused", "crowd-gone"):
        said = states.crowds()[name].headline.text
        assert json.dumps(build_message(states.crowds()[name], "")[1]).lower().count(said) == 1
        drawn = shown(scenes.messages()[name]())
        assert drawn.lower().count(said) == 1
    ended = card("denied-breaker").ending
    assert ended is not None
    assert ended.text.lower().count("without asking anybody") == 1
    hook = shown(scenes.messages()["full-approved-hook"]())
    assert hook.count("Changed by") == 1


def test_one_secret_is_it_and_two_are_them() -> None:
    """Small grammar is read all the same."""
    one = states.RECORDS["pending-masked"]
    assert "1 secret masked; the inbox can reveal it." in card("pending-masked").notices
    text = str(one.arguments["command"])
    two = states.asked(arguments={"command": f"{text}; {text.replace('abcd', 'bcde')}"})
    said = card_of(two, lines=EVERYTHING, chars=EVERYTHING).notices
    assert "2 secrets masked; the inbox can reveal them." in said


def test_ids_of_platforms_are_said_in_words() -> None:
    """Where Slack can, as a mention; nobody's text becomes one."""
    made = build_message(card("approved-by-id"), "")[1]
    assert '{"type": "user", "user_id": "U7"}' in json.dumps(made)
    assert "slack:T1/U7" not in json.dumps(made)
    assert card("pending-missing").progress.endswith(
        "waits for 2 of: bob, eve, somebody in a Slack group"
    )
    people = {"slack:T1/U7", "discord:123456789012345678"}
    said = "approved by slack:T1/U7 and discord:123456789012345678, not slack:T1/U8"
    assert say_names(said, people) == (
        "approved by somebody in Slack and discord:123456789012345678, not slack:T1/U8"
    )
