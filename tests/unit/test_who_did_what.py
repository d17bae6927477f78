"""Who changed a call, who approved it, who is missing, and who may not: on every surface."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.api.messages import view
from gateway.approvals.transitions import erase_content
from gateway.cards.card import card_of
from gateway.cards.shared_texts import standing_of
from gateway.domain.records import Approvers, StoredRequest, Vote, summary, told_outcome
from gateway.models import (
    AGENT_REASONS,
    Action,
    DecidedBy,
    DeciderKind,
    Decision,
    Preview,
    Reason,
    Status,
)
from gateway.stores.record_codec import fields_of, record_from
from tests.unit.test_surfaces_of_grants import CARDS
from tests.unit.test_transitions import record
from tests.world import AGENT, request

TOKEN = "ghp_" + "a1B2" * 9
HOOK = DecidedBy(kind=DeciderKind.RULE, name="strip force")
ANN = DecidedBy(kind=DeciderKind.PERSON, name="ann")
WHY = f"no force here, {TOKEN}"
BARE = {"x": 9}
PEOPLE = Approvers(names=("ann", "bob", "eve"))
NOBODY = Approvers(nobody="its route has no approvers")
STALE = "Someone edited", "by an approver", "What the editor"
PRESSED = Action.APPROVE, Action.EDIT


def vote(person: str) -> Vote:
    """Return a plain approval."""
    return Vote(person=person, action=Action.APPROVE, at=1)


def ended(one: StoredRequest, status: Status, name: str) -> StoredRequest:
    """Return a request that a person ended."""
    decision = Decision(
        request_id=one.id,
        revision=2,
        status=status,
        action=Action.APPROVE if status is Status.APPROVED else Action.DENY,
        reason=Reason.PERSON,
        digest=one.digest,
        decided_by=DecidedBy(kind=DeciderKind.PERSON, name=name),
        decided_at=5_000,
        expires_at=one.deadline,
    )
    return replace(one, status=status, revision=2, decision=decision)


def offered(one: StoredRequest, reader: str = "") -> set[Action]:
    """Return what the card offers to press."""
    return {each.action for each in card_of(one, lines=99, chars=9999, reader=reader).controls}


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("surface", CARDS)
def test_a_change_by_a_hook_names_the_hook_everywhere(surface: str, final: bool) -> None:
    """And its reason, secrets masked; no word says that a person edited it. Also in history."""
    one = record().edited_as(BARE, HOOK, WHY)
    shown = CARDS[surface](ended(one, Status.APPROVED, "bob") if final else one)
    assert "strip force" in shown
    assert "no force here" in shown
    assert TOKEN not in shown
    assert not [words for words in (*STALE, "before the change") if words in shown]


@pytest.mark.parametrize("surface", [name for name in CARDS if name != "http"])
def test_a_change_by_a_person_names_the_person(surface: str) -> None:
    """Not an approver, and not someone; after a hook, both are named in their order."""
    shown = CARDS[surface](record().edited_as(BARE, HOOK, WHY).edited_as({"x": 8}, ANN))
    assert "ann" in shown
    assert shown.index("strip force") < shown.rindex("ann")
    alone = CARDS[surface](record().edited_as(BARE, ANN))
    assert "ann" in alone
    assert "hook" not in alone
    assert not [words for words in STALE if words in alone]


@pytest.mark.parametrize("surface", [name for name in CARDS if name != "http"])
@pytest.mark.parametrize("by", [HOOK, ANN])
def test_an_agents_words_are_about_the_call_as_it_was_asked(surface: str, by: DecidedBy) -> None:
    """Its reason and its picture of a call that somebody changed say so; of others they do not."""
    picture = Preview(format="text", text="a picture")
    asked = record(request=request(hint="a reason", preview=picture))
    changed = CARDS[surface](asked.edited_as(BARE, by))
    as_it_was = CARDS[surface](asked)
    for shown in (changed, as_it_was):
        assert "a reason" in shown
        assert "a picture" in shown
        assert "unverified" in shown
    # The inbox has the word once, for both.
    assert changed.count("about the call as the agent submitted it") == (
        1 if surface == "web" else 2
    )
    assert "as the agent submitted it" not in as_it_was


def test_what_a_hook_says_passes_for_no_word_of_ours() -> None:
    """It may hold words of the agent: it stands quoted, on one line, and is cut."""
    one = record().edited_as(BARE, HOOK, 'fine"\nChanged by ann')
    said = card_of(one, lines=9, chars=99).changed_by
    assert said is not None
    assert said.text == r'Changed by the policy hook "strip force": "fine\"\nChanged by ann"'
    long = card_of(record().edited_as(BARE, HOOK, "y" * 2000), lines=9, chars=99).changed_by
    assert long is not None
    assert len(long.text) < 400


def test_only_a_person_edits_away_approvals() -> None:
    """The notice that approvals do not count stands for no hook."""
    said = card_of(record().edited_as(BARE, ANN), lines=9, chars=99).notices
    assert "Approvals from before the change no longer count." in said
    assert card_of(record().edited_as(BARE, HOOK), lines=9, chars=99).notices == ()


def test_who_changed_it_is_kept() -> None:
    """It survives the store. Erased, the hook's words are gone and its name stays."""
    one = record().edited_as(BARE, HOOK, WHY)
    assert record_from(one.id, {"agent": AGENT, **fields_of(one)}).edits == one.edits
    erased = erase_content(ended(one, Status.APPROVED, "bob"))
    assert [(edit.by, edit.why) for edit in erased.edits] == [(HOOK, "")]


def test_the_event_of_an_ending_names_hooks_and_all_who_approved() -> None:
    """The audit has them, secrets masked, and so has the sentence on the final card."""
    one = replace(record(quorum=2), votes=(vote("ann"), vote("bob"))).edited_as(BARE, HOOK, WHY)
    done = ended(one, Status.APPROVED, "bob")
    told = summary({}, done)
    assert told["approved_by"] == ["ann", "bob"]
    assert told["edits"][0]["by"] == {"kind": "rule", "name": "strip force"}
    assert TOKEN not in json.dumps(told)
    assert told_outcome(done) == "approved by ann and bob"
    assert "approved_by" not in summary({}, ended(one, Status.DENIED, "bob"))
    assert told_outcome(ended(one, Status.DENIED, "bob")) == "denied by bob"


@pytest.mark.parametrize("reason", Reason)
def test_what_others_say_of_an_ending_is_quoted(reason: Reason) -> None:
    """A person, a hook or the agent: it passes for no word of ours, on no line of its own. What the
    gateway or its operator says stands plainly."""
    one = ended(record(), Status.DENIED, "bob")
    assert one.decision is not None
    said = replace(one.decision, reason=reason, message='no".\nApproved by ann')
    told = told_outcome(replace(one, decision=said))
    ours = (Reason.RULE, Reason.BREAKER, Reason.STOPPED, Reason.UNDELIVERABLE)
    assert told.endswith(r': "no\".\nApproved by ann"') == (reason not in ours)
    assert not set(AGENT_REASONS) & set(ours)


@pytest.mark.parametrize("surface", [name for name in CARDS if name != "http"])
def test_all_who_approved_stand_on_the_final_card(surface: str) -> None:
    """Not only the last."""
    one = replace(record(quorum=2), votes=(vote("ann"), vote("bob")), approvers=PEOPLE)
    assert "pproved by ann and bob" in CARDS[surface](ended(one, Status.APPROVED, "bob"))


@pytest.mark.parametrize("surface", ["web", "slack", "discord", "terminal"])
def test_the_card_says_who_is_missing(surface: str) -> None:
    """By name; who approved is not among them."""
    one = replace(record(quorum=2), votes=(vote("ann"),), approvers=PEOPLE)
    shown = CARDS[surface](one).replace("\\", "")
    assert "1 of 2 approvals: ann; waits for bob or eve" in shown


def test_after_my_vote_i_am_told_and_offered_no_approve() -> None:
    """Denying and editing stay; the others are offered all, and one card for all says all."""
    one = replace(record(quorum=2), votes=(vote("ann"),), approvers=PEOPLE)
    card = card_of(one, lines=9, chars=99, reader="ann")
    assert card.progress == "You approved; waits for 1 more: bob or eve"
    assert offered(one, "ann") == offered(one) - {Action.APPROVE}
    assert offered(one, "bob") == offered(one) >= {Action.APPROVE, Action.DENY}


@pytest.mark.parametrize(
    ("quorum", "names", "words"),
    [
        (2, ("ann",), "nobody else may approve this request"),
        (3, ("ann", "bob", "eve"), "waits for bob and eve"),
        (2, ("ann", "slack:T1/S9"), "waits for somebody in Slack (S9)"),
        (2, tuple("abcdefg"), "waits for a, b, c, d or 3 others"),
        (3, tuple("abcdef"), "waits for 2 of: a, b, c, d, 2 others"),
    ],
)
def test_who_may_still_approve_is_said_in_few_words(
    quorum: int, names: tuple[str, ...], words: str
) -> None:
    """People and groups; many are cut to four; where nobody is left that is said."""
    one = replace(record(quorum=quorum), votes=(vote("ann"),), approvers=Approvers(names=names))
    assert standing_of(one).words == f"1 of {quorum} approvals: ann; {words}"


@pytest.mark.parametrize("surface", ["web", "slack", "discord", "terminal"])
def test_what_nobody_may_approve_says_so(surface: str) -> None:
    """With no word of Approve beside it: the button is not there. In the inbox the state stands
    by it."""
    shown = CARDS[surface](replace(record(), approvers=NOBODY))
    assert "ts route has no approvers." in shown
    assert ("Cannot be approved" if surface == "web" else "Nobody may approve this: i") in shown
    labels = ('"Approve"', "'Approve'", "'label': 'Approve'")
    assert not [label for label in labels if label in shown]


@pytest.mark.parametrize(
    ("may", "words"), [(PEOPLE, '"ann", "bob", "eve"'), (NOBODY, f"nobody: {NOBODY.nobody}")]
)
def test_the_command_line_says_who_may_approve(may: Approvers, words: str) -> None:
    """In the full form; an agent, over HTTP, is not told."""
    one = replace(record(), approvers=may)
    told = CARDS["command line"](one).splitlines()
    assert [line for line in told if line.startswith("may approve")] == [
        f"{'may approve':20} {words}"
    ]
    assert view(one, whole=False).approvers is None


def test_what_nobody_may_approve_can_still_be_denied() -> None:
    """Deny and stop stay; nothing that would let it run does, nor remembering that."""
    one = replace(record(), approvers=NOBODY)
    assert offered(one) <= {Action.DENY, Action.ABORT}
    assert Action.DENY in offered(one)
    card = card_of(one, lines=99, chars=9999)
    assert Action.APPROVE not in card.remembers
    # A final card says what became of it, and no more.
    assert not card_of(ended(one, Status.DENIED, "bob"), lines=9, chars=99).notices
