"""What stands on messages of Discord whole: each finding, each notice, each choice to remember."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from adapters.discord.cards import (
    MOST_TEXT,
    build_card_view,
    choose_batch_colour,
    choose_colour,
    render_findings,
)
from adapters.discord.full_view import build_full_view, page_fits
from gateway.cards.card import Card, card_of, full_view
from gateway.cards.shared_texts import NO_LINK, count_units
from gateway.domain.records import Approvers
from gateway.domain.risk import StepUp
from gateway.models import Execution, Report, RiskLevel, Status
from tests.discord import scenes
from tests.discord.limits import TEXT, walk
from tests.discord.pictures import HOSTILE
from tests.slack import states

EVERYTHING = 10**9
LONG = "names /srv/" + "a" * 3000


def card(name: str, **changes: Any) -> Card:
    """Return the card of a state, changed."""
    made = replace(states.RECORDS[name], **changes)
    return card_of(made, lines=EVERYTHING, chars=EVERYTHING)


def shown(name: str) -> str:
    """Return all text of a message, without escapes."""
    sent: Any = scenes.messages()[name]().view
    parts = [one for one in walk(sent.to_components()) if one["type"] == TEXT]
    return "\n".join(str(one["content"]) for one in parts).replace("\\", "")


def drawn(name: str) -> str:
    """Return all that a message has, and how."""
    sent: Any = scenes.messages()[name]().view
    return json.dumps(sent.to_components(), ensure_ascii=False)


def test_no_finding_pushes_another_out() -> None:
    """An agent chooses how long the names in them are: each is cut, and none vanishes."""
    found = (LONG, "removes folders whole", f"{LONG}b", "sends data to a host")
    text = render_findings(card("pending", findings=found), 300)
    assert len(text.splitlines()) == 4
    assert "removes folders whole" in text and "sends data to a host" in text
    assert count_units(text) <= 300


def test_equal_findings_are_one_line_and_missing_ones_are_counted() -> None:
    """So that their number is known also where they find no room."""
    same = render_findings(card("pending-git", findings=("names a secret",) * 8), 300)
    assert same.splitlines() == ["⚠️ 8 times\\: Guardrail\\: names a secret"]
    many = render_findings(card("pending", findings=tuple(f"{n} {LONG}" for n in range(20))), 300)
    *rows, last = many.splitlines()
    assert last.startswith(f"⚠️ {20 - len(rows)} more") and count_units(many) <= 300


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("full-pending-number", "Approving requires the number"),
        ("full-pending-number", "1 of 3 wrong numbers typed; the third denies the request"),
        ("full-pending-masked", "1 secret masked"),
        ("full-pending-hostile", "Hidden or reordering characters"),
        ("full-pending-escalated", "Escalated"),
        ("full-pending-hook", "Changed by the policy hook"),
        ("full-pending", "The agent says"),
        ("full-pending", "Expires <t:"),
        ("full-pending-nobody", "Nobody may approve this"),
    ],
)
def test_the_full_view_says_what_the_card_says(name: str, said: str) -> None:
    """Where one approves, nothing is missing that the card warns of."""
    assert said in shown(name)


@pytest.mark.parametrize(
    ("name", "with_address"),
    [
        ("pending-masked", "masked-inbox"), ("pending-hidden", "hidden-inbox"),
        ("pending-passkey", "passkey-inbox"), ("full-pending-passkey", "full-passkey-inbox"),
        ("question-secret", "secret-inbox"), ("step-up-no-address", "step-up"),
        ("full-pending-hidden", "more-inbox"), ("more-no-address", "more-inbox"),
    ],
)  # fmt: skip
def test_what_needs_an_inbox_without_an_address_says_how_one_gets_there(
    name: str, with_address: str
) -> None:
    """In words, once; where it has an address, that is a button."""
    assert shown(name).count(NO_LINK) == 1
    assert NO_LINK not in shown(with_address) and scenes.INBOX in drawn(with_address)
    assert scenes.INBOX not in drawn(name)


def test_what_needs_no_inbox_says_nothing_of_a_link() -> None:
    """A number is typed here, and a second person answers here."""
    for name in ("pending", "pending-number", "pending-two", "question", "denied"):
        assert NO_LINK not in shown(name)


@pytest.mark.parametrize("name", ["pending-abandoned", "pending-nobody"])
def test_how_an_idle_card_stands_is_said_once(name: str) -> None:
    """By its notice, not at its foot again."""
    assert f"{card(name).icon} {card(name).word}" not in shown(name)
    notice = card(name).notices[0]
    assert notice.startswith(("Nobody", "The agent stopped")) and f"⚠️ {notice}" in shown(name)
    assert "Expires <t:" in shown(name)


def test_two_people_of_another_platform_are_told_apart() -> None:
    """Nobody here has their names; their ids say that they are two."""
    decision: Any = states.RECORDS["approved-by-id"].decision
    other = replace(decision, decided_by=replace(decision.decided_by, name="slack:T1/U8"))
    texts = []
    for one in (decision, other):
        view: Any = build_card_view(card("approved-by-id", decision=one), scenes.COPY).view
        texts.append(json.dumps(view.to_components()).replace("\\", ""))
    assert "Approved by somebody in Slack (U7)" in texts[0]
    assert "Approved by somebody in Slack (U8)" in texts[1]


@pytest.mark.parametrize("name", ["pending-findings", "full-pending-findings"])
def test_all_findings_stand_on_the_card_and_in_the_full_view(name: str) -> None:
    """Eight equal ones, the longest that there are."""
    (line,) = [one for one in shown(name).splitlines() if one.startswith("⚠️ 8 times: Guardrail")]
    assert line.endswith('…": it may hold secrets')


def test_choices_to_remember_have_numbers_and_end_where_their_words_pause() -> None:
    """The rest stands below; a pass is offered by itself, with lifetimes of its own."""
    modal = json.dumps(scenes.modals()["remember-approve"].to_dict(), ensure_ascii=False)
    assert '"1. exactly this…"' in modal and '"3. git log with any names…"' in modal
    assert "until revoked" in modal and "a pass" not in modal
    passes = json.dumps(scenes.modals()["remember-pass"].to_dict(), ensure_ascii=False)
    assert '"5. a pass…"' in passes and "until revoked" not in passes
    assert "all sessions" not in passes and "1w" not in passes


def test_a_command_that_is_remembered_stands_quoted() -> None:
    """A menu renders no marks of code."""
    for name in ("remember-approve", "remember-deny"):
        modal = json.dumps(scenes.modals()[name].to_dict(), ensure_ascii=False)
        assert "`" not in modal and "git log --oneline -n 5" in modal.replace("\\", "")


def test_what_a_denial_can_cover_is_whole_where_it_is_chosen() -> None:
    """With the numbers of the menu below."""
    modal = json.dumps(scenes.modals()["remember-deny"].to_dict(), ensure_ascii=False)
    assert "**4.** shell with any arguments" in modal.replace("\\", "")
    assert '"4. shell with any arguments"' in modal
    assert "Press Deny and remember to see its scopes" in shown("options")


def test_a_batch_has_the_colour_of_the_loudest() -> None:
    """Red where one is high risk, none where nothing was found."""
    quiet, loud = card("pending-git"), card("pending-high-risk")
    found = card("pending-findings")
    assert loud.risk is RiskLevel.HIGH
    assert choose_batch_colour([quiet, found, loud]) == choose_colour(loud)
    assert choose_batch_colour([quiet, found]) == choose_colour(found)
    assert choose_batch_colour([quiet, quiet]) is None


def test_what_only_the_inbox_can_take_leads_there() -> None:
    """A secret's answer and a passkey's approval: a link, and no button that is always refused."""
    secret, passkey = drawn("secret-inbox"), drawn("passkey-inbox")
    assert "Answer in the inbox" in secret and '"label": "Answer"' not in secret
    assert "This form asks for a secret" in shown("secret-inbox")
    assert "Approve in the inbox" in passkey and "Review…" not in passkey
    full = drawn("full-passkey-inbox")
    assert "Approve in the inbox" in full and "I have read it" not in full


def test_without_an_address_nothing_is_offered_that_is_refused() -> None:
    """The words say where it is done; no button only refuses."""
    for name in ("pending-passkey", "full-pending-passkey"):
        made = drawn(name)
        assert "requires a passkey in the inbox" in shown(name)
        assert "Review…" not in made and "I have read it" not in made and "Deny" in made


def test_the_list_of_what_waits_names_agents_and_marks_high_risk() -> None:
    """The id stands last, in the list and in the menu."""
    rows = [row for row in shown("pending-list").splitlines() if row.startswith("- ")]
    assert all("deployer: " in row for row in rows)
    assert ["🔴 High risk" in row for row in rows] == [False, True, False]
    assert all(row.endswith("`") for row in rows)
    assert '· 5c5c5c5c"' in drawn("pending-list")


def test_what_ended_badly_is_not_green() -> None:
    """Nor has it a tick: approved and failed, never fetched, answered instead."""
    good = choose_colour(card("approved"))
    for name in ("approved-failed", "approved-never-fetched", "responded"):
        assert choose_colour(card(name)) != good
        assert card(name).icon != "✅"
        assert card(name).status is Status.APPROVED
    ran = card("approved", report=Report(execution=Execution.SUCCEEDED))
    assert (ran.icon, choose_colour(ran)) == ("✅", good)
    assert 'Not run: answered instead by bob: "use staging"' in shown("responded")


def test_the_fullest_page_keeps_to_discords_limits() -> None:
    """The longest findings, eight notices, votes, the agent's words and an edit, all at once."""
    made = replace(
        states.HOSTILE,
        findings=tuple(f"names {LONG}{n}: it may hold secrets" for n in range(12)),
        tier=1,
        waiting=False,
        quorum=3,
        numbered=True,
        guesses=1,
        approvers=Approvers(names=("ann", "bob", "eve"), step_up=(StepUp.NUMBER, StepUp.PERSON)),
        edited={"command": HOSTILE * 60},
    )
    whole = card_of(made, lines=EVERYTHING, chars=EVERYTHING)
    pages = full_view(made, fits=page_fits)
    view: Any = build_full_view(whole, pages, scenes.BUTTON).view
    texts = [str(one["content"]) for one in walk(view.to_components()) if one["type"] == TEXT]
    assert sum(map(count_units, texts)) <= MOST_TEXT
    said = "\n".join(texts).replace("\\", "")
    assert "Escalated" in said and "stopped waiting" in said and "wrong numbers typed" in said
