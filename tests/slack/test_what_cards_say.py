"""Cards, modals and lists say what is at stake where somebody decides, once and apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from adapters.slack import modals
from adapters.slack.app import describe_error
from adapters.slack.cards import CARD_CHARS, CARD_LINES, build_message
from adapters.slack.commands import build_list, build_request_entry
from adapters.slack.home_tab import build_home, build_switch
from adapters.slack.payloads import ModalMetadata
from adapters.slack.posting import build_grant_message
from gateway.cards.card import Card, card_of, full_view
from gateway.cards.forms import edit_fields
from gateway.cards.grant_cards import grant_card_of
from gateway.cards.shared_texts import NO_LINK, KillSwitch
from gateway.errors import Conflict, Unauthorized
from gateway.models import Kind, Status
from tests.slack import states
from tests.slack.counterpart.blocks import check_message, elements_of
from tests.slack.office import words

Json = dict[str, Any]
WAITING = sorted(name for name, record in states.RECORDS.items() if record.status is Status.PENDING)
FORM = ModalMetadata("1f" * 16, 1, states.COPY, "C1", "1790000000.000001")


def whole(name: str) -> Card:
    """Return the card of a state without a size limit."""
    return card_of(states.RECORDS[name], lines=10**9, chars=10**9)


def says(made: Any) -> str:
    """Return all words of blocks or a view."""
    return "\n".join(words(made))


def labels(made: list[Json]) -> list[str]:
    """Return the labels of all buttons."""
    return [
        one["text"]["text"] for block in made for one in elements_of(block) if "action_id" in one
    ]


def kinds(made: list[Json]) -> Iterator[str]:
    """Yield what each block is, headings by their words."""
    for block in made:
        heading = block["type"] == "header"
        yield block["text"]["text"] if heading else block["type"]


@pytest.mark.parametrize("name", WAITING)
def test_details_have_every_warning_of_the_card(name: str) -> None:
    """Who approves behind Details reads all that stands on the card: what a step-up takes, hidden
    characters, what is masked, that nobody waits, that earlier approvals do not count."""
    card, record = whole(name), states.RECORDS[name]
    view = modals.build_details(card, full_view(record, fits=modals.page_fits), FORM, refusal="")
    shown = says(view["blocks"])
    for notice in card.notices:
        assert notice in shown
        assert shown.count(notice) == 1


def test_warnings_and_findings_stand_each_in_a_line() -> None:
    """Slack shows the elements of a context block beside each other: a line is a line of text."""
    for name in ("pending-hostile", "pending-findings", "pending-passkey-no-address"):
        found = [
            one["text"]
            for block in states.messages()[name][1]
            if block["type"] == "context"
            for one in block["elements"]
            if one["text"].startswith("⚠️")
        ]
        assert found
        for text in found:
            assert all(part.startswith("⚠️") for part in text.split("\n"))
        warning = [b for b in states.messages()[name][1] if says(b).startswith("⚠️")]
        assert all(len(block["elements"]) == 1 for block in warning)


def test_how_it_stands_is_separated() -> None:
    """Until when, who approved and who is looking do not run into each other."""
    made = states.messages()["pending-votes"][1]
    (block,) = (one for one in made if "is looking at it" in says(one))
    until, rest = (one["text"] for one in block["elements"])
    assert until.endswith(" ·")
    assert rest == "1 of 2 approvals: ann · bob is looking at it"


def test_the_card_of_a_grant_keeps_its_words_apart() -> None:
    """Until when and how often it was used, and each warning, do not run into each other."""
    rests = replace(states.GRANT, suspended=True, notices=1)
    _, made = build_grant_message(grant_card_of(rests), states.COPY)
    (block,) = (one for one in made if "not used yet" in says(one))
    assert block["elements"][0]["text"].endswith(" ·")
    (warned,) = (one for one in made if "⚠️" in says(one))
    (text,) = (one["text"] for one in warned["elements"])
    assert [part[:2] for part in text.split("\n")] == ["⚠️"] * 2


def test_what_is_remembered_has_short_labels_with_its_number() -> None:
    """A label names what stands whole above under its number, and is not cut within a word."""
    view = states.views()["remember"]
    (covers,) = (one for one in view["blocks"] if one.get("block_id") == "scope")
    found = [one["text"]["text"] for one in covers["element"]["options"]]
    assert found == [
        "1. exactly this",
        "2. git log, with no flags but --oneline -n (full text under 2 above)",
        "3. git log with any names (full text under 3 above)",
        "4. looking at anything below /srv/app on c… (full text under 4 above)",
        "5. a pass, 8 hours at most",
        "6. a pass, 8 hours at most",
    ]
    above = says([one for one in view["blocks"] if one.get("block_id") == "covers"])
    for number in range(1, 7):
        assert f"{number}. " in above


def test_a_command_that_is_remembered_stands_quoted() -> None:
    """Plain text renders no marks of code."""
    text = says(states.views()["remember"]["blocks"])
    assert '1. exactly this: "git log --oneline -n 5" in /srv/app' in text and "`" not in text


def test_everywhere_is_all_sessions_of_one_agent() -> None:
    """Nothing that is remembered reads as if it were for every agent."""
    shown = [
        *(says(states.views()[name]["blocks"]) for name in ("remember", "home", "home-grants")),
        says(states.replies()["reply-grants"][1]),
    ]
    assert not [text for text in shown if "everywhere" in text.lower()]
    assert "In all sessions of this agent" in shown[0]
    for text in shown[1:]:
        assert "Allow for deployer, in all sessions of the agent: " in text
        assert "remembered by ann" in text


def test_home_keeps_what_waits_and_what_is_remembered_apart() -> None:
    """Each has its heading, and each entry a line before the next one."""
    made = states.views()["home"]["blocks"]
    found = list(kinds(made))
    assert found[:2] == ["Approvals", "Pending requests"]
    remembered = found.index("Grants")
    assert found[remembered - 1] == "divider"
    assert found.count("divider") == 3
    assert "Revoke" not in labels(made[:remembered])
    assert "Approve" not in labels(made[remembered:])


def test_home_counts_what_it_has_no_room_for() -> None:
    """Headings and lines count among a hundred blocks, and not among what waits."""
    waiting = [states.known_as(states.PAYMENT, f"{number:02x}") for number in range(30)]
    view = build_home(waiting, states.GRANTS[:2])
    assert len(view["blocks"]) <= 100
    shown = [one for one in view["blocks"] if str(one.get("block_id", "")).startswith("about ")]
    assert f"{30 + 2 - len(shown)} more: /approvals list" in says(view["blocks"])


def test_a_stopped_home_says_when_in_the_readers_time() -> None:
    """Slack writes the time; the button says what it lets happen again."""
    view = states.views()["home-stopped"]
    (block,) = (one for one in view["blocks"] if "All requests are denied" in says(one))
    (written,) = (e for part in block["elements"] for e in part["elements"] if e["type"] == "date")
    assert written["timestamp"] == states.MADE // 1000
    assert "UTC" not in says(block)
    assert "Let agents ask again" in labels(view["blocks"])
    nobody_knows = KillSwitch(on=True)
    assert nobody_knows.state in says(build_switch(nobody_knows, admin=True))


def test_a_stopped_home_asks_for_no_approval() -> None:
    """What waited is being denied: no word says that it still waits, or for what, and where."""
    passkey = replace(states.RECORDS["pending-passkey"], tier=1)
    for waiting in ([states.asked()], [passkey, states.LONG], []):
        text = says(build_home(waiting, [], stopped=True)["blocks"])
        assert not [one for one in ("Approval needed", " waiting", "until", "for you:", "inbox")
                    if one in text]  # fmt: skip
        assert text.count("Being denied") == len(waiting) + bool(waiting)
    assert "1 request was pending" in says(states.views()["home-stopped"]["blocks"])
    assert "Approval needed" in says(build_home([states.asked()], [])["blocks"])


def test_lists_have_lines_and_keep_slacks_limit() -> None:
    """Entries are apart, and twelve of the longest are no more than Slack takes."""
    found = list(kinds(states.replies()["reply-list"][1]))
    assert found.count("divider") == 2
    long = replace(states.PAYMENT, findings=("removes folders whole",), tier=1, waiting=False)
    entries = [build_request_entry(states.known_as(long, f"{number:02x}")) for number in range(12)]
    made = build_list(entries, len(entries))
    check_message(made, 40_000)
    assert len(made) <= 50
    left = len(entries) - sum(str(one.get("block_id")).startswith("about ") for one in made)
    assert left > 0
    assert f"And {left} more." in says(made)


def test_a_listed_entry_names_the_button_that_shows_the_rest() -> None:
    """What it tells one to press is there; nothing is told where there are no buttons."""
    made = build_request_entry(states.LONG)
    (pressed,) = re.findall(r'press "([^"]+)"', says(made))
    assert pressed in labels(made)
    silent = build_request_entry(states.LONG, stopped=True)
    assert "press" not in says(silent)


def test_a_box_that_is_cut_ends_with_dots() -> None:
    """Where the text goes on elsewhere, the box says so; a whole one is what runs to the letter."""
    for name, cut in (("pending-long", True), ("pending", False)):
        body = next(b for b in states.messages()[name][1] if b.get("block_id") == "body")
        boxes = [
            part["elements"][0]["text"]
            for part in body["elements"]
            if part["type"] == "rich_text_preformatted"
        ]
        assert boxes[-1].endswith("\n…") == cut


def test_what_cannot_be_approved_here_has_no_main_button_to_read_it() -> None:
    """Reading it leads to no approval, so the button is like any other."""
    for name, style in (("pending-long", "primary"), ("pending-long-no-file", None)):
        made = states.messages()[name][1]
        (read,) = (
            one
            for block in made
            for one in elements_of(block)
            if one.get("text", {}).get("text") == "Read full text…"
        )
        assert read.get("style") == style


def test_the_end_stands_at_the_top_of_details_with_the_id() -> None:
    """How it ended is read before what it was; the id is there to look it up by."""
    view = states.views()["details-ended"]
    summary, end, about, *_ = view["blocks"]
    assert summary["block_id"] == "summary"
    assert 'Denied by bob: "not on a Friday"' in says(end)
    assert "1f" * 16 in says(about)
    assert "Denied by bob" not in says(view["blocks"][2:])


def test_an_argument_may_be_left_empty_where_it_was() -> None:
    """A field of an argument that runs is wanted; one that is empty or masked is optional."""
    record = states.asked(
        kind=Kind.TOOL,
        tool="pay",
        arguments={"amount": 12, "note": "", "token": "s3cr3t-Token-0123456789"},
    )
    card = card_of(record, lines=10**9, chars=10**9)
    view = modals.build_field_form(card, edit_fields(record), FORM, {})
    found = {
        one["label"]["text"]: one["optional"] for one in view["blocks"] if one["type"] == "input"
    }
    assert found == {'"amount"': False, '"note"': True, '"token"': True}


def test_a_question_is_asked_once() -> None:
    """The head has the first question: neither the card nor the form says it again, unless the head
    had no room for it."""
    for made in (
        states.messages()["question"][1],
        states.messages()["question-secret"][1],
        states.views()["answer"]["blocks"],
    ):
        text = says(made)
        assert text.count("Which environment?") + text.count("What is the deploy token?") == 1
        assert text.count("Why now?") == ("What is the deploy token?" not in text)
    (first, *rest) = states.QUESTION.request.questions
    long = replace(first, text="Which environment? " * 20)
    record = replace(
        states.QUESTION, request=replace(states.QUESTION.request, questions=(long, *rest))
    )
    card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
    assert long.text.strip() in says(build_message(card, states.COPY)[1])


def test_a_secret_is_answered_behind_a_link() -> None:
    """The card has a button that opens the request in the inbox, in the place of Answer."""
    made = states.messages()["question-secret"][1]
    first, *_ = made[-1]["elements"]
    assert (first["text"]["text"], first["url"]) == ("Answer in the inbox", states.INBOX)


@pytest.mark.parametrize(
    "name", ["pending-masked", "pending-hidden", "pending-passkey", "question-secret"]
)
def test_what_needs_an_inbox_without_an_address_says_how_one_gets_there(name: str) -> None:
    """On the card, in a list, behind More… and Details; with an address, that is a button."""
    record, card = states.RECORDS[name], whole(name)
    pages = full_view(record, fits=modals.page_fits)
    for made in (
        states.messages()[f"{name}-no-address"][1],
        build_request_entry(record),
        modals.build_more(card, FORM, refusal="", mine=False)["blocks"],
        modals.build_details(card, pages, FORM, refusal="")["blocks"],
    ):
        assert says(made).count(NO_LINK) == 1
    card = replace(card, inbox=states.INBOX)
    for made in (
        states.messages()[name][1],
        build_request_entry(record, inbox=states.INBOX),
        modals.build_more(card, FORM, refusal="", mine=False)["blocks"],
        modals.build_details(card, pages, FORM, refusal="")["blocks"],
    ):
        assert NO_LINK not in says(made)
        assert states.INBOX in json.dumps(made)


def test_a_modal_that_sends_people_to_the_inbox_says_how_they_get_there() -> None:
    """What Slack does not take: a secret, too long an edit."""
    long = whole("pending-long")
    for view in (
        modals.build_answer(whole("question-secret"), FORM),
        modals.build_json_form(long, FORM, long.editable),
    ):
        assert NO_LINK in says(view["blocks"])
    for name in ("answer-secret", "edit-too-long-inbox", "told-inbox"):
        assert NO_LINK not in says(states.views()[name]["blocks"])


def test_what_needs_no_inbox_says_nothing_of_a_link() -> None:
    """A number is typed here, and a second person answers here."""
    for name in ("pending", "pending-number", "pending-two", "question", "denied"):
        card = card_of(states.RECORDS[name], lines=CARD_LINES, chars=CARD_CHARS)
        assert NO_LINK not in says(build_message(card, states.COPY)[1])


@pytest.mark.parametrize("name", ["pending-abandoned", "pending-nobody"])
def test_how_an_idle_card_stands_is_said_once(name: str) -> None:
    """By its notice, not in the line of its deadline again; also in a list."""
    for made in (states.messages()[name][1], build_request_entry(states.RECORDS[name])):
        assert whole(name).word not in says(made)
        assert f"⚠️ {whole(name).notices[0]}" in says(made) and " Expires " in says(made)


def test_a_batch_says_why_there_is_no_approve_all() -> None:
    """The line below the buttons says why each is answered alone."""
    alone, batch = (says(states.views()[name]["blocks"]) for name in ("batch-alone", "batch"))
    assert "These cannot all be approved at once. Decide them one at a time." in alone
    assert "one at a time" not in batch


def test_details_of_a_question_ask_it() -> None:
    """Nothing runs, so there is no page: all of its questions stand there, and their answers."""
    record = states.QUESTION
    full = full_view(record, fits=modals.page_fits)
    assert full.pages == ()
    view = modals.build_details(whole("question"), full, FORM, refusal="")
    for question in record.request.questions:
        assert says(view["blocks"]).count(question.text) == 1
    assert labels(view["blocks"]) == ["Answer…", "Deny…"]


@pytest.mark.parametrize("name", ["pending-abandoned", "question-abandoned"])
def test_an_answer_that_nobody_waits_for_says_what_it_does(name: str) -> None:
    """On the card, in a list and behind Details."""
    record = states.RECORDS[name]
    details = modals.build_details(
        whole(name), full_view(record, fits=modals.page_fits), FORM, refusal=""
    )
    for made in (states.messages()[name][1], build_request_entry(record), details["blocks"]):
        assert "If the agent asks again, it gets your decision." in says(made)


def test_private_replies_are_sentences() -> None:
    """They end as sentences do; titles and buttons say what they mean."""
    assert describe_error(Unauthorized("you may not")) == "You may not."
    assert describe_error(Conflict("it is done.")) == "It is done."
    for name in ("reply-decided", "reply-state-pending-votes", "reply-error-3", "reply-login"):
        said = states.replies()[name][0]
        assert said.endswith("."), said
    assert "once, within 10 minutes" in states.replies()["reply-login"][0]
    assert states.views()["check-edit"]["title"]["text"] == "Approve with changes"
    assert "Revoke all of this session" in labels(states.replies()["reply-grants"][1])
