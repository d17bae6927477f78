"""What stands on cards in our own words: who did what, how it stands, and each thing once."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from adapters.discord.cards import MessageContent
from adapters.slack.cards import build_actions, build_message
from adapters.terminal.cards import render_card
from gateway.cards.batch_cards import batch_card_of
from gateway.cards.card import Card, Style, Tone, card_of, full_view
from gateway.cards.grant_cards import grant_card_of
from gateway.cards.shared_texts import KillSwitch, say_names
from gateway.cards.summary import plain_summary
from gateway.domain.records import Approvers
from gateway.domain.risk import StepUp
from gateway.models import Action
from gateway.policy.grants.grant import Effect, End, Shape
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


async def test_a_state_stands_once_where_no_text_may_stand() -> None:
    """In place of the head, and not below it again."""
    made = scenes.messages()
    assert shown(made["silent"]()).count("Approval needed") == 1
    assert shown(made["pending"]()).count("Approval needed") == 1


@pytest.mark.parametrize("name", ["question", "question-abandoned"])
async def test_the_head_of_a_question_counts_the_others_and_none_is_asked_twice(name: str) -> None:
    """On each surface: what the head asks is not said below it, and its choices are."""
    asked = [one.text for one in states.RECORDS[name].request.questions]
    assert plain_summary(card(name).summary) == f'Asks "{asked[0]}" and {len(asked) - 1} more'
    assert [one.text.text for one in card(name).unsaid] == asked[1:]
    drawn = StringIO()
    Console(file=drawn, width=80).print(render_card(card(name), now_ms=states.MADE))
    slack = json.dumps(states.messages()[name][1])
    discord = shown(scenes.messages()[name]())
    for surface in (slack, discord, drawn.getvalue()):
        assert [surface.count(one) for one in asked] == [1] * len(asked)
    assert "Production, stage" in discord


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
    assert card("pending-missing").progress.endswith("2 of: bob, eve, somebody in Slack (S9)")
    people = {"slack:T1/U7", "discord:123456789012345678"}
    said = "approved by slack:T1/U7 and discord:123456789012345678, not slack:T1/U8"
    assert say_names(said, people) == (
        "approved by somebody in Slack (U7) and discord:123456789012345678, not slack:T1/U8"
    )


@pytest.mark.parametrize(
    ("name", "icon", "tone"),
    [
        ("approved", "✅", Tone.GOOD),
        ("approved-ran", "✅", Tone.GOOD),
        ("approved-failed", "⚠️", Tone.TROUBLED),
        ("approved-never-fetched", "⚠️", Tone.TROUBLED),
        ("responded", "💬", Tone.QUIET),
        ("denied", "❌", Tone.REFUSED),
        ("aborted", "🛑", Tone.REFUSED),
        ("expired", "⌛", Tone.QUIET),
        ("pending", "⏳", Tone.QUIET),
    ],
)
def test_only_what_went_well_has_the_tick(name: str, icon: str, tone: Tone) -> None:
    """Approved is not enough: it failed, or nobody fetched it, or it was answered instead."""
    assert (card(name).icon, card(name).state.tone) == (icon, tone)


def test_what_was_answered_instead_is_no_run() -> None:
    """Who answered, and what, whatever stands below of what would have run."""
    made = card("responded")
    assert made.ending is not None and made.outcome is not None
    assert made.ending.text == 'Not run: answered instead by bob: "use staging"'
    assert made.outcome.text == 'not run: answered instead by bob: "use staging"'
    assert made.word == "Not run: answered instead"


def test_the_ways_of_a_step_up_are_told_apart_and_the_third_guess_is_told() -> None:
    """A comma before the last way, or it reads as a part of the one before it."""
    said = " ".join(card("pending-number").notices)
    assert "where the agent waits, or a second person." in said
    assert "1 of 3 wrong numbers typed; the third denies the request." in said
    assert card("pending-passkey").notices == ("Approving requires a passkey in the inbox.",)


def test_that_two_must_approve_is_said_once() -> None:
    """By the count of those who did."""
    two = replace(
        states.asked(),
        quorum=2,
        approvers=Approvers(names=("ann", "bob"), step_up=(StepUp.PERSON,)),
    )
    made = card_of(two, lines=9, chars=99)
    assert (made.notices, made.progress) == ((), "0 of 2 approvals; waits for ann and bob")


def test_a_paused_agents_card_does_not_contradict_itself() -> None:
    """New requests are denied, those that were asked before wait on; a click is told what for."""
    paused, crowd, gone = (
        states.crowds()[name] for name in ("crowd-paused", "crowd", "crowd-gone")
    )
    said = f"{paused.notification} {' '.join(paused.notices)}"
    assert "new ones are denied at once" in said
    assert "Each new request that people would have to decide is denied at once." in said
    assert "for now" not in said
    assert "to decide the" in " ".join(crowd.notices) and "decide them" not in str(crowd.notices)
    assert gone.notification.endswith("it may ask again")


def test_a_remembered_decision_says_which_it_is_in_every_state() -> None:
    """Suspended and over, too; and one that was never used is not "not yet"."""
    first = states.GRANTS[0]
    denial = replace(first, effect=Effect.DENY)
    over = End(at=1, why="revoked", by="ann")
    words = [
        grant_card_of(one).word
        for kind in (first, denial)
        for one in (kind, replace(kind, suspended=True), replace(kind, end=over))
    ]
    assert words == [
        f"{what} {how}"
        for what in ("Approval", "Denial")
        for how in ("remembered", "suspended", "no longer remembered")
    ]
    ended = grant_card_of(replace(first, end=over))
    assert (ended.uses, ended.outcome) == ("never used", "revoked by ann")
    assert grant_card_of(first).uses == "not used yet"
    every = replace(first.match, shape=Shape.WORK, digest=None, tool="*")
    hour = first.made_at + 3_600_000
    given = replace(first, match=every, session="s", expires_at=hour)
    assert grant_card_of(given).word == "Session let through"
    assert grant_card_of(replace(given, end=over)).word == "Session pass ended"


def test_rules_are_quoted_and_nothing_is_called_unasked() -> None:
    """A rule's name may be words; that nobody was asked is said once, in words."""
    rule, breaker = card("approved-rule").ending, card("denied-breaker").ending
    assert rule is not None and breaker is not None
    assert rule.text == 'Approved by the rule "read-only"; no person was asked'
    assert breaker.text.startswith("Denied without asking anybody: people denied")
    assert card("approved-ran").result is not None
    assert "ran for 1.8 s" in str(card("approved-ran").result)


def test_a_batch_counts_requests_and_names_their_kinds() -> None:
    """No word stands for the whole and for a part of it."""
    alone = states.known_as(states.PAYMENT, "3a")
    title = batch_card_of((*states.BATCH, alone), chars=9, each=9).title.text
    assert title == '4 requests of "deployer": 2 file changes, 1 command, 1 call'


def test_what_is_not_declared_is_read_at_a_glance() -> None:
    """What follows from it, of which values, why, and who can change it."""
    said = full_view(states.PAYMENT).undeclared
    assert said is not None
    assert said.text == (
        'A grant covers only the same "order", "amount", "currency", because nobody declared '
        "these values. An admin can, in the inbox."
    )


def test_an_edit_is_not_asked_below_its_old_head() -> None:
    """The sentence of an approval begins with what happens; an edit changes just that."""
    asked = {one.action: one.confirm or "" for one in card("pending-high-risk").controls}
    assert asked[Action.APPROVE].startswith('"refund"')
    assert asked[Action.EDIT].startswith("This is high risk.")


@pytest.mark.parametrize(
    ("waiting", "before", "after"),
    [
        (0, "every new one", "No request was pending"),
        (1, "the pending request and every new one", "The pending request is denied"),
        (3, "all 3 pending requests and every new", "All 3 pending requests are denied"),
    ],
)
def test_a_confirmation_says_what_will_happen(waiting: int, before: str, after: str) -> None:
    """It is read while nothing is stopped, and never as what is true already; once it is, that is
    told as done."""
    switch = KillSwitch(on=False, waiting=waiting)
    assert switch.stopping.startswith(f"This will deny {before}")
    assert switch.stopped.startswith(f"{after}. Every new request is denied")
