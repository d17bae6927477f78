"""Cards: everything an approver must see, nothing that deceives, no button that must not be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.blocks import changes, cut
from gateway.cards.card import Card, card_of, full_view
from gateway.domain.records import Claim, StoredRequest, Vote
from gateway.domain.redaction import render_safe
from gateway.models import (
    Action,
    Context,
    DecidedBy,
    DeciderKind,
    Decision,
    Execution,
    FieldKind,
    Kind,
    Origin,
    Preview,
    Question,
    Reason,
    Report,
    Risk,
    RiskLevel,
    Status,
)
from tests.world import request

FORMS = {"kind": Kind.QUESTION, "allowed": (Action.ANSWER,), "arguments": {}}


def record(**members: Any) -> StoredRequest:
    """Return a pending record; members of the request are given with `ask`."""
    asked = request(**members.pop("ask", {}))
    values = {
        "request": asked,
        "status": Status.PENDING,
        "revision": 1,
        "shown_since": 1,
        "digest": asked.digest,
        "created": 1_000,
        "deadline": 901_000,
        "route": "default",
        **members,
    }
    return StoredRequest(**values)


def decided(status: Status, **members: Any) -> StoredRequest:
    """Return a record that has ended."""
    waiting = record(**members.pop("about", {}))
    decision = Decision(
        request_id=waiting.id,
        revision=2,
        status=status,
        action=members.pop("action", None),
        reason=members.pop("reason", Reason.PERSON),
        digest=waiting.digest,
        decided_by=DecidedBy(kind=DeciderKind.PERSON, name="ann"),
        decided_at=5_000,
        expires_at=waiting.deadline,
        **members,
    )
    return replace(waiting, status=status, revision=2, decision=decision)


def card(
    one: StoredRequest, *, lines: int = 100, chars: int = 10_000, reveal: bool = False
) -> Card:
    """Return the card of a record with room for most."""
    return card_of(one, lines=lines, chars=chars, reveal=reveal)


def actions(made: Card) -> set[Action]:
    """Return what can be pressed."""
    return {control.action for control in made.controls}


def everything(made: Card) -> str:
    """Return all text of a card."""
    return repr(made)


def test_a_card_says_who_asks_what_and_where() -> None:
    """Agent, owner, session, host, folder, claims of the agent, and its own words apart."""
    made = card(
        record(
            owner="ann",
            ask={
                "hint": "to free space",
                "context": Context(cwd="/srv/app", host="box"),
                "origin": Origin(
                    sender="U1", parent_agent="boss > aide", channel="slack", chat="C1"
                ),
                "turn": "t7",
            },
        ),
    )
    facts = {fact.label: fact.text.text for fact in made.facts}
    assert facts == {
        "Agent": '"bot"',
        "Tool": '"shell"',
        "Asked by": "ann",
        "On behalf of (says the agent)": '"U1"',
        "Chat (says the agent)": '"slack / C1"',
        "Parent agent": '"boss > aide"',
        "Session": '"default"',
        "Turn": '"t7"',
        "Host": '"box"',
        "Folder": '"/srv/app"',
    }
    assert made.says is not None
    assert made.says.text == "to free space"
    assert made.title == '⏳ Approval needed · "shell"'
    assert made.notification == 'bot wants to run "ls"'


def test_a_long_tool_name_is_shown_whole() -> None:
    """Its end could name another tool than its beginning."""
    tool = "read_file" + "_" * 100 + "and_delete_it"
    made = card(record(ask={"tool": tool}))
    assert made.tool.text.endswith("…")
    assert ("name of the tool", tool) in {(one.label, one.text.text) for one in made.blocks}


def test_a_card_shows_all_that_the_digest_covers() -> None:
    """Arguments, payload, environment and bound files are blocks."""
    made = card(
        record(
            ask={
                "arguments": {"command": "make", "n": 3},
                "payload": {"p": 1},
                "context": Context(env={"A": "b"}, files={"f": "0" * 64}),
            }
        ),
    )
    assert [block.label for block in made.blocks] == [
        "command",
        "arguments",
        "payload",
        "changed environment",
        "files and their SHA-256",
    ]
    assert made.complete


def test_a_cut_card_cannot_be_approved() -> None:
    """What does not fit is said, and only the full view has the controls."""
    long = record(ask={"arguments": {"command": "true\n" * 200 + "rm -rf /"}})
    made = card(long)
    assert not made.complete
    assert actions(made) == {Action.DENY, Action.ABORT}
    assert "of 1 008 characters shown" in made.size
    view = full_view(long, fits=lambda text: len(text) <= 300)
    assert view.text.endswith("rm -rf /")
    assert all(len(page.text) <= 300 for page in view.pages)
    assert len(view.pages) > 3
    assert Action.APPROVE in actions(card(long, lines=1000, chars=10_000))


def test_one_long_line_is_cut_too() -> None:
    """A payload pushed out of sight to the right is not approved unseen."""
    made = card(record(ask={"arguments": {"command": "x" * 20_000}}), lines=50, chars=3000)
    assert not made.complete
    assert len(made.blocks[0].text.text) == 3000


@pytest.mark.parametrize("field", ["hint", "tool", "reason", "command", "note", "question"])
def test_hidden_characters_are_visible_everywhere(field: str) -> None:
    """A right-to-left override never reaches a card raw, wherever an agent puts it."""
    evil = "safe\u202egnp.exe\u200b"
    places: dict[str, dict[str, Any]] = {
        "hint": {"hint": evil},
        "tool": {"tool": evil},
        "command": {"arguments": {"command": evil}},
        "question": {**FORMS, "questions": (Question(id="q", text=evil),)},
    }
    asked = places.get(field, {})
    risk = Risk(level=RiskLevel.LOW, reasons=(evil,))
    one = record(ask=asked, risk=risk) if field == "reason" else record(ask=asked)
    made = card(replace(one, note=evil) if field == "note" else one)
    text = everything(replace(made, editable=None))
    assert "\\u202e" not in text
    assert "\u202e" not in text
    assert "⟨U+202E⟩" in text


def test_hidden_characters_raise_a_notice() -> None:
    """The card says that something was made visible."""
    made = card(record(ask={"arguments": {"command": "ls\u200b"}}))
    assert "Hidden or reordering characters are shown as escapes." in made.notices


def test_no_text_can_imitate_an_escape() -> None:
    """Our own brackets are escaped in what others write."""
    assert render_safe("⟨secret of 3 characters⟩").text.startswith("⟨U+27E8⟩")


def test_a_denial_that_nobody_was_asked_about_is_told_from_a_persons() -> None:
    """At a glance, in lists that show no more than the word."""
    assert card(decided(Status.DENIED)).word == "Denied"
    unasked = card(decided(Status.DENIED, reason=Reason.BREAKER))
    assert unasked.word == "Denied without asking anybody"


def test_plain_text_in_any_language_stays_as_it_is() -> None:
    """Readable text raises no false alarm."""
    text = "日本語 עברית émoji 👩‍💻 кириллица"
    assert render_safe(text).text == text


@pytest.mark.parametrize(
    "secret",
    [
        "xoxb-" + "1" * 12,
        "ghp_" + "a" * 36,
        "AKIA" + "B" * 16,
        "sk-" + "c" * 40,
        "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl",
    ],
)
def test_secrets_are_masked_with_length_and_digest(secret: str) -> None:
    """Nothing of a secret stands on a card, the digest covers the real bytes, and it says so."""
    one = record(ask={"arguments": {"command": f"curl -H 'X: {secret}' https://h"}})
    made = card(one)
    assert secret not in everything(made)
    assert f"secret of {len(secret)} characters" in made.blocks[0].text.text
    assert made.editable is None
    assert any("masked" in notice for notice in made.notices)
    assert secret in card(one, reveal=True).blocks[0].text.text
    assert secret not in full_view(one, fits=lambda text: len(text) <= 1000).text


def test_a_mask_swallows_no_command() -> None:
    """What could act stays in sight, however it is dressed up as a secret."""
    for text in (
        "password=$(rm -rf /) ls",
        "token: 'abcdefghijkl'; rm -rf /",
        "Bearer abcdefghijklmnop && rm -rf /",
        "https://user:pw123@host/; rm -rf /",
        "password=/bin/evil",
    ):
        assert "rm -rf /" in render_safe(text).text or "/bin/evil" in render_safe(text).text


def test_high_risk_asks_again_and_says_why() -> None:
    """Every way to let it run needs a confirmation; saying no does not."""
    made = card(record(risk=Risk(level=RiskLevel.HIGH, reasons=("prod",))))
    confirmed = {control.action for control in made.controls if control.confirm}
    assert confirmed == {Action.APPROVE, Action.EDIT, Action.RESPOND}
    assert [reason.text for reason in made.reasons] == ["prod"]


def test_deny_is_always_there() -> None:
    """Whatever the agent allows, people may say no."""
    assert Action.DENY in actions(card(record(ask={"allowed": (Action.APPROVE,)})))


def test_a_quorum_shows_who_approved() -> None:
    """The count and the names."""
    one = record(quorum=2, votes=(Vote(person="ann", action=Action.APPROVE, at=1),))
    assert card(one).progress == "1 of 2 approvals: ann"
    assert card(record()).progress == ""


def test_an_edit_is_shown_as_a_diff() -> None:
    """Old and new line, and that earlier votes do not count."""
    made = card(record(edited={"command": "ls -l"}))
    assert [(row.sign, row.text.text.strip()) for row in made.changed if row.sign in "+-"] == [
        ("-", '"command": "ls"'),
        ("+", '"command": "ls -l"'),
    ]
    assert "Approvals from before the change no longer count." in made.notices
    assert changes({"a": 1}, {"a": 1}) == ()


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (decided(Status.APPROVED, action=Action.APPROVE), "Approved"),
        (decided(Status.APPROVED, action=Action.EDIT), "Approved with changes"),
        (decided(Status.APPROVED, action=Action.RESPOND), "Not run: answered instead"),
        (decided(Status.DENIED, action=Action.DENY), "Denied"),
        (decided(Status.DENIED, action=Action.ABORT), "Denied, and the turn stopped"),
        (decided(Status.EXPIRED, reason=Reason.TIMEOUT), "Expired"),
        (decided(Status.CANCELLED, reason=Reason.CANCELLED_BY_AGENT), "Cancelled"),
    ],
)
def test_an_ended_card_has_no_controls_and_says_what_happened(
    one: StoredRequest, word: str
) -> None:
    """Buttons gone; who, when and why in the outcome."""
    made = card(one)
    assert (made.word, made.controls, made.decided_at) == (word, (), 5_000)
    assert made.outcome is not None


def test_nobody_is_told_that_a_person_denied_when_nobody_did() -> None:
    """The outcome's sentence comes from the reason."""
    made = card(decided(Status.EXPIRED, reason=Reason.TIMEOUT))
    assert made.outcome is not None
    assert made.outcome.text == "expired: nobody answered in time"


def test_the_result_is_told_when_the_agent_reports_it() -> None:
    """What ran, how it went, and how long it took."""
    done = replace(
        decided(Status.APPROVED, action=Action.APPROVE),
        report=Report(execution=Execution.FAILED, duration_ms=1500, detail="exit 1"),
    )
    result = card(done).result
    assert result is not None
    assert result.text == "The agent says: failed after 1.5 s: exit 1"


def test_a_question_shows_its_fields() -> None:
    """The form, the word, and only answer or deny."""
    form = {**FORMS, "questions": (Question(id="q", text="Which?", secret=True),)}
    made = card(record(ask=form))
    assert (made.icon, made.word) == ("❓", "Question")
    assert actions(made) == {Action.ANSWER, Action.DENY}
    assert made.fields[0].secret


def test_what_was_answered_stands_on_the_card() -> None:
    """In order and quoted; a secret is only said to be one."""
    form = {
        **FORMS,
        "questions": (
            Question(id="colour", text="Which?"),
            Question(id="key", text="Key?", secret=True),
            Question(id="many", text="How many?", kind=FieldKind.NUMBER),
            Question(id="left", text="More?", required=False),
        ),
    }
    answers = {"many": 3, "key": None, "colour": "red; approved by bob"}
    one = decided(Status.APPROVED, action=Action.ANSWER, answers=answers, about={"ask": form})
    said = card(one).outcome
    assert said is not None
    told = (
        ': "Which?": "red; approved by bob"; "Key?": a secret; "How many?": "3"; '
        '"More?": not answered'
    )
    assert said.text.endswith(told)
    made = card(one)
    assert [(one.question.text, one.given and one.given.text) for one in made.answers] == [
        ("Which?", "red; approved by bob"),
        ("Key?", None),
        ("How many?", "3"),
        ("More?", None),
    ]
    words = ["", "A secret was entered; only the agent gets it", "", "Not answered"]
    assert [one.words for one in made.answers] == words
    assert made.ending is not None
    assert made.short_ending is not None
    assert made.ending.text == f"{made.short_ending.text}{told}"


def test_small_states_are_said() -> None:
    """A claim, a waiter gone, an escalation, and the agent's own preview."""
    one = record(
        claim=Claim(person="ann", at=1),
        waiting=False,
        tier=1,
        ask={"preview": Preview(format="diff", text="-a\n+b")},
    )
    made = card(one)
    assert made.claimed == "ann is looking at it"
    assert len(made.notices) == 2
    assert made.preview is not None
    assert made.preview.lines == 2


@pytest.mark.parametrize(
    ("text", "lines"), [("a", 1), ("a\n", 1), ("a\nb", 2), ("a\nb\n", 2), ("a\n\n", 2)]
)
def test_a_last_line_end_begins_no_line(text: str, lines: int) -> None:
    """Nobody sees it: what is left of a text is counted without it."""
    made = card(record(ask={"arguments": {"command": text}}))
    assert made.blocks[0].lines == lines
    assert made.size.endswith(f", {lines} line{'' if lines == 1 else 's'}")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", ["x" * 200_000, "eyJ-" * 20_000, "password" * 20_000, "https://" * 20_000]
)
def test_no_text_makes_the_search_for_secrets_slow(text: str) -> None:
    """What an agent sends is searched in time that grows with its length alone."""
    assert render_safe(text).masked == 0


def test_cutting_keeps_escapes_whole() -> None:
    """A cut in the middle of an escape would show half a warning."""
    made = card(record(ask={"arguments": {"command": "ab\u202ecd"}}))
    assert cut(made.blocks, lines=1, chars=3)[0].text.text == "ab⟨U+202E⟩"
