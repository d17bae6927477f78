"""A panel stands alone, and a card says at once when nobody waits for it or may approve it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from adapters.web.cards import Viewer, add_viewer, build_row, build_short_row, build_whole
from gateway.cards.card import state_of
from gateway.cards.remember_options import LIFETIME_WORDS, LIFETIMES_BY_LENGTH
from gateway.cards.shared_texts import DENIALS
from gateway.domain.records import Approvers, StoredRequest, Vote
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.models import Action, Risk, RiskLevel, Status
from tests.slack import states
from tests.slack.states import EDITED, HOSTILE, MADE, PAYMENT, RECORDS, asked
from tests.sweeps import sweep
from tests.web.chromium import PHONE, Page
from tests.web.gallery import scenes
from tests.web.inbox import COMMAND, QUESTION, Inbox, card, line, see

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

OPENERS = {
    "Deny with a reason": "reason",
    "Edit": "edit",
    "Respond instead": "respond",
    "Remember…": "remember",
    "Deny and stop": "abort",
}
TYPED = "Not on a Friday evening."


def pressable(record: StoredRequest) -> str:
    """Return an expression: the names of what can be pressed among the answers of a card."""
    return (
        f"[...{card(record)}.querySelectorAll('.controls button')]"
        ".filter((one) => one.checkVisibility() && !one.disabled).map((one) => one.dataset.key)"
    )


@sweep("opener", OPENERS, few=2)
async def test_an_open_panel_stands_alone(box: Inbox, page: Page, opener: str) -> None:
    """No answer of the card stands beside it, and no letter gives one: a tap there would send
    nothing of what was typed. Back brings them again."""
    record = await box.ask(**COMMAND)
    await see(page, record)
    await page.press(opener, card(record))
    there = await page.until(f"{card(record)}.querySelector('.panel') && {pressable(record)}")
    assert "back" in there
    assert not {"approve", "deny", "more", "answer"} & set(there)
    await page.evaluate(f"{card(record)}.focus()")
    for letter in "adxremic":
        await page.key(letter)
    assert (
        await page.evaluate(f"{card(record)}.querySelector('.panel').dataset.panel")
        == (OPENERS[opener])
    )
    await page.press("Back", card(record))
    await page.until(f"{card(record)}.querySelector('[data-key=approve]')")
    assert (await box.get(record)).status is Status.PENDING


async def test_back_keeps_what_was_typed(box: Inbox, page: Page) -> None:
    """It stands in the panel again when that is opened again."""
    record = await box.ask(**COMMAND)
    await see(page, record)
    await page.press("Deny with a reason", card(record))
    await page.fill("[data-key=reason]", TYPED)
    await page.press("Back", card(record))
    await page.press("Deny with a reason", card(record))
    assert await page.until("document.querySelector('[data-key=reason]')?.value") == TYPED


async def test_a_question_is_not_answered_beside_a_panel(box: Inbox, page: Page) -> None:
    """Its form goes too, and keeps what was typed."""
    record = await box.ask(**QUESTION)
    await see(page, record)
    await page.fill(".card input[type=text]", "Aurora")
    await page.press("Deny with a reason", card(record))
    assert "answer" not in await page.until(
        f"{card(record)}.querySelector('.panel') && {pressable(record)}"
    )
    await page.press("Back", card(record))
    await page.until(f"{card(record)}.querySelector('input[type=text]')?.value === 'Aurora'")


async def test_what_a_tap_denies_says_so(box: Inbox, page: Page) -> None:
    """Each reason is a button whose name begins with what it does; a tap takes the words along."""
    record = await box.ask(**COMMAND)
    await see(page, record)
    await page.press("Deny with a reason", card(record))
    names = {name for role, name in await page.controls() if role == "button"}
    assert {f"Deny: {one[0].lower()}{one[1:]}" for one in DENIALS} <= names
    await page.fill("[data-key=reason]", "Ask on Monday.")
    await page.press("Deny: this is the wrong time", card(record))
    await page.until(f"{card(record)}.classList.contains('denied')")
    decision = (await box.get(record)).decision
    assert decision is not None
    assert decision.message == "This is the wrong time. Ask on Monday."


async def test_what_was_just_decided_can_be_looked_at(box: Inbox, page: Page) -> None:
    """Its details stay in reach, also where the stream told of the end before the answer did."""
    record = await box.ask(**COMMAND)
    await see(page, record)
    await page.send("Network.enable")
    await page.send(
        "Fetch.enable", patterns=[{"urlPattern": "*/decide", "requestStage": "Response"}]
    )
    await page.press("Approve", card(record))
    await page.until(f"{card(record)}.classList.contains('approved')")
    details = f"{card(record)}.querySelector('[data-key=open]')"
    assert not await page.evaluate(f"{details}.disabled")
    await page.send("Fetch.disable")
    await page.until(f"{card(record)}.querySelector('[data-key=open]:enabled')")


async def test_what_nobody_waits_for_does_not_ask(box: Inbox, page: Page) -> None:
    """The card and its line say so first; to approve is possible, and is not the bright button."""
    record = await box.ask(**COMMAND)
    await see(page, record)
    first = f"{card(record)}.querySelector(':scope > *').textContent"
    beside = f"{card(record)}.querySelector('.main > .idle-word')?.textContent"
    assert await page.evaluate(f"{card(record)}.querySelectorAll('button.approve').length") == 1
    await box.leave()
    await page.until(f"{first} === '💤 Agent gone' && {beside} === '💤 Agent gone'")
    assert await page.evaluate(f"{card(record)}.querySelectorAll('button.approve').length") == 0
    text = await page.evaluate(f"{card(record)}.textContent")
    assert "Approval needed" not in text
    assert "If the agent asks again, it gets your decision." in text
    await page.goto(f"{box.gateway.url}/inbox")
    await page.until(f"{line(record)}?.textContent.includes('Agent gone')")
    await see(page, record)
    await page.press("Approve", card(record))
    await page.until(f"{card(record)}.classList.contains('approved')")


async def test_the_first_of_two_is_told_so(box: Inbox, page: Page) -> None:
    """The button that confirms says that one more person is needed."""
    await box.route(risk=RulesByRisk(high=LevelRules(step_up=(StepUp.PERSON,))))
    high = Risk(level=RiskLevel.HIGH, reasons=("touches prod",))
    record = await box.ask(**{**COMMAND, "risk": high})
    await see(page, record)
    await page.press("Review…", card(record))
    assert "by a second" not in await page.evaluate(f"{card(record)}.textContent")
    await page.press("Yes, approve, 1 of 2", card(record))
    await page.until(f"{card(record)}.textContent.includes('You approved')")
    assert (await box.get(record)).status is Status.PENDING


async def test_what_was_found_at_length_begins_folded(box: Inbox, page: Page) -> None:
    """The answers come within two screens, and all of it is there to unfold."""
    record = RECORDS["pending-findings"]
    row = build_row(record)
    assert [len(one) < 200 for one in row["shorts"]] == [True] * 8
    assert all(one.startswith("Guardrail: names ") for one in row["shorts"])
    assert all(one.endswith(": it may hold secrets") for one in row["shorts"])
    seen = json.dumps(add_viewer(row, record, Viewer(name="ann")))
    await page.size(PHONE)
    await page.evaluate(
        f"import('/inbox/static/card.js').then(({{ card }}) => {{ const item = {seen};"
        " document.body.classList.add('opened');"
        # In a list of its own: the page draws what waits in the one that it knows.
        " const list = document.getElementById('list'); list.replaceWith(list.cloneNode());"
        " document.getElementById('list').append("
        "card(item, { online: true, acts: {}, draft: { text: {} } })); return true; })"
    )
    tall = "document.querySelector('.card').getBoundingClientRect().height"
    assert await page.evaluate(tall) < 2 * PHONE[1]
    stands = "[...document.querySelectorAll('.card > *')].map((one) => one.className)"
    names = await page.evaluate(stands)
    assert names.index("reasons high") < names.index("notice finding")
    folded = "[...document.querySelectorAll('.finding p')].map((one) => one.textContent)"
    assert await page.evaluate(folded) == [f"{one}" for one in row["findings"]]


def test_an_escape_stays_whole_where_a_finding_is_folded() -> None:
    """What was made visible is cut nowhere, and stays marked."""
    record = replace(asked(), findings=(f"names {chr(0x202E) * 90} x: it may hold secrets",))
    (short,) = build_row(record)["shorts"]
    marks = [text for text, escape in short if escape]
    assert marks
    assert all(text.startswith("⟨") and text.endswith("⟩") for text in marks)


def test_one_secret_is_one() -> None:
    """It is counted by the button that reveals it, and not among the notices."""
    row = build_row(RECORDS["pending-masked"])
    assert (row["masks"], row["reveals"], row["notices"]) == ("1 secret masked.", "", [])
    two = asked(
        arguments={
            "command": "curl -H 'Authorization: Bearer abcdefgh12345678'",
            "x": {"password": "abcdefgh12345678"},
        }
    )
    assert build_row(two)["masks"] == "2 secrets masked."


@sweep("name", scenes(), few=12)
def test_nobody_is_sent_to_where_they_are(name: str) -> None:
    """No sentence of a card names the inbox: whoever reads it is there."""
    item = scenes()[name].item()
    said = [item["notices"], item["masks"], item["reveals"], item["steps"], item["tries"]]
    said += [item["progress"], item["refusal"], [one["confirm"] for one in item["controls"]]]
    assert "inbox" not in json.dumps(said)


_EDITED_ON = replace(EDITED, approvers=Approvers(names=("eve",)))


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (RECORDS["pending-abandoned"], ["If the agent asks again, it gets your decision."]),
        (RECORDS["pending-nobody"], ["Its route has no approvers."]),
        (
            replace(RECORDS["pending-nobody"], waiting=False),
            [
                "Its route has no approvers.",
                "The agent stopped waiting. If the agent asks again, it gets your decision.",
            ],
        ),
        (EDITED, ["Approvals from before the change no longer count."]),
        (
            _EDITED_ON,
            [
                "Approvals from before the change no longer count. bob"
                " may not approve this version, which is of medium risk. It needs eve."
            ],
        ),
    ],
)
def test_a_notice_repeats_nothing_of_its_card(record: StoredRequest, says: list[str]) -> None:
    """The word of the state says that nobody waits or may approve, and who edited it stands over
    what was changed."""
    row = build_row(record)
    assert row["notices"] == says
    assert row["idle"] or row["changed_by"] == "Changed by bob"


def test_a_second_person_is_counted_and_not_told_besides() -> None:
    """Where a number would do instead, it is told what it takes."""
    pair = RECORDS["pending-two"]
    seen = add_viewer(build_row(pair), pair, _ANN)
    assert (seen["steps"], seen["progress"]) == ("", "0 of 2 approvals; waits for ann and bob")
    assert "or a second person" in build_row(RECORDS["pending-number"])["steps"]


def test_approvals_of_a_question_are_not_counted() -> None:
    """It is answered, and nobody is offered to where that takes two; its line says none either."""
    record = replace(states.QUESTION, quorum=2)
    seen = add_viewer(build_row(record), record, _ANN)
    why = "It needs 2 people, but only one can answer a question."
    assert (seen["idle"], seen["notices"], seen["progress"]) == (
        "Cannot be answered",
        [why],
        "",
    )
    assert "answer" not in {one["action"] for one in seen["controls"]}
    assert build_short_row(record)["approved"] == ""
    assert build_short_row(RECORDS["pending-votes"])["approved"] == "1 of 2 approved"


async def test_what_is_asked_is_read_where_it_cannot_be_answered(box: Inbox, page: Page) -> None:
    """Each question stands on the card, without a field or a button that would fail."""
    await box.route(quorum=2)
    record = await box.ask(**QUESTION)
    await see(page, record)
    asked = f"[...{card(record)}.querySelectorAll('.questions li')].map((one) => one.textContent)"
    questions = [one.text for one in record.request.questions]
    assert await page.until(f"{asked}.length && {asked}") == questions
    assert await page.evaluate(f"{card(record)}.querySelector('input, select, .dots')") is None
    assert "answer" not in await page.evaluate(pressable(record))


def test_how_long_is_listed_from_short_to_long() -> None:
    """All ways to end, and no other."""
    assert list(LIFETIMES_BY_LENGTH) == [
        "next5",
        "next20",
        "15m",
        "1h",
        "8h",
        "1d",
        "1w",
        "revoked",
    ]
    assert LIFETIMES_BY_LENGTH == LIFETIME_WORDS


def test_nobody_reads_a_raw_id() -> None:
    """Of whom the gateway knows no name, it says where they are."""
    seen = add_viewer(build_row(RECORDS["pending-missing"]), RECORDS["pending-missing"], _ANN)
    assert "somebody in Slack" in seen["progress"]
    assert "slack:T1" not in seen["progress"]


_ANN = Viewer(name="ann")


def _stepped(**changes: Any) -> StoredRequest:
    may = Approvers(names=("ann", "bob", "eve"), step_up=(StepUp.NUMBER,))
    return replace(PAYMENT.copy_with(approvers=may, numbered=True), **changes)


def test_what_a_step_up_takes_is_said_once() -> None:
    """Apart from the notices, as the panel that asks for it says it again otherwise."""
    row = build_whole(_stepped(guesses=2))
    assert row["steps"] == "Approving requires the number that is shown where the agent waits."
    assert row["tries"] == "2 of 3 wrong numbers typed; the third denies the request."
    assert not [one for one in row["notices"] if "number" in one]


@pytest.mark.parametrize(
    ("quorum", "votes", "says"),
    [
        (1, 0, "Yes, approve"),
        (2, 0, "Yes, approve, 1 of 2"),
        (3, 2, "Yes, approve, 3 of 3"),
        (12, 10, "Yes, approve, 11 of 12"),
        (2, 2, "Yes, approve"),
    ],
)
def test_which_approval_it_is(quorum: int, votes: int, says: str) -> None:
    """By how many are given and how many are needed."""
    given = tuple(Vote(person=f"p{n}", action=Action.APPROVE, at=MADE) for n in range(votes))
    row = build_whole(_stepped(quorum=quorum, votes=given))
    assert [one["yes"] for one in row["controls"] if one["action"] == "approve"] == [says]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pending", ""),
        ("pending-abandoned", "Agent gone"),
        ("pending-nobody", "Cannot be approved"),
        ("cancelled", ""),
    ],
)
def test_who_is_waited_for_is_told(name: str, says: str) -> None:
    """On the card and in its line."""
    record = RECORDS[name]
    assert (build_row(record)["idle"], build_short_row(record)["idle"]) == (says, says)


@sweep("name", RECORDS, few=8)
def test_a_state_has_one_source(name: str) -> None:
    """Its icon, its word and its colour are those that every surface has."""
    state, row = state_of(RECORDS[name]), build_row(RECORDS[name])
    assert (row["icon"], row["word"], row["tone"]) == (state.icon, state.word, state.tone)


def test_hostile_text_is_no_state() -> None:
    """An agent's words never stand where the state does."""
    assert build_row(HOSTILE)["idle"] == ""
