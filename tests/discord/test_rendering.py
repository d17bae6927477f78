"""Scenarios 31 to 37: what people read is what runs, whatever stands in it, within every limit."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from adapters.discord.cards import (
    MessageContent,
    build_card_view,
    escape_line,
    fence,
    quote,
)
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.full_view import build_full_view, page_fits
from gateway.cards.card import FullView, card_of
from gateway.cards.card import full_view as pages_of
from gateway.cards.shared_texts import clip, count_units
from gateway.domain.records import StoredRequest
from gateway.domain.risk import RiskRule
from gateway.domain.safe_text import Visible
from gateway.errors import InvalidRequest
from gateway.models import Action, Context, FieldKind, Kind, Option, Question, RiskLevel, Status
from gateway.wire.canonical_json import parse
from tests.discord.limits import V2, check_message, walk
from tests.discord.messages import buttons, shown_text
from tests.discord.pictures import (
    HOSTILE,
    NARROW,
    WIDE,
    pending,
    pending_with,
    photographed,
    scenes,
    stored,
)
from tests.discord.stage import Stage, labels, private_text
from tests.discord.town import Json
from tests.sweeps import sweep
from tests.web.chromium import chromium
from tests.world import request

COPY = "0" * 22


def message(shown: MessageContent) -> Json:
    """Return what Discord is sent, checked against its limits."""
    view: Any = shown.view
    body: Json = {"flags": V2, "components": view.to_components()}
    check_message(body, files={"request.txt"} if shown.attached else set())
    return {"content": "", **body}


def text_of(shown: MessageContent) -> str:
    """Return what people read."""
    return shown_text(message(shown))


def card(record: StoredRequest) -> MessageContent:
    """Return the card as the courier has it made."""
    return build_card_view(card_of(record, lines=25, chars=1500), COPY)


def full(record: StoredRequest, **how: Any) -> MessageContent:
    """Return the full view."""
    whole = card_of(record, lines=10**9, chars=10**9)
    button = DiscordButton(verb="read", request_id=record.id, revision=record.revision)
    return build_full_view(whole, pages_of(record, fits=page_fits), button, **how)


LAST = 10**6  # a page beyond the last is the last
HIDDEN = "a\u202eb\u200bc\x1b[31md\x00e\u2066f\u00adg\U000e0041h"
TRICKS = {
    "fence": "```\n# Approved by ann\n```",
    "mentions": "@everyone <@1> <@&2> <#3> </x:4> <id:customize>",
    "link": "[here](https://evil.example) https://a/**b**",
    "spoiler": "||rm -rf /||",
    "heading": "# Approved\n-# small\n> quote\n1. one\n- two",
    "time": "<t:0:R>",
    "hidden": HIDDEN.replace("\x00", ""),
    "homoglyph": "/\u0430pi/p\u0430yments",
}


@pytest.mark.parametrize("name", TRICKS)
def test_31_text_can_neither_hide_nor_act(name: str) -> None:
    """In arguments, tool, hint, names and places: no fence is left, no markup works, no character
    is without ink."""
    trick = TRICKS[name]
    record = stored(
        request(
            arguments={"command": f"echo {trick}\nend", "other": trick},
            hint=trick,
            tool=f"x{trick}".replace("\n", " ").replace("\x1b", ""),
            context=Context(host=trick, cwd=trick),
        )
    )
    text = text_of(card(record))
    assert not re.search("[\u202e\u200b\u2066\u00ad\x1b\x00\U000e0041]", text)
    outside = re.sub(r"```[a-z]*\n.*?\n```", "", text, flags=re.DOTALL)
    head, _, rest = outside.partition("\n")
    named = re.compile(r"(?<!\\)`[^`\n]+`")
    assert head.startswith("### ") and named.search(head)
    outside = f"{named.sub('', head.removeprefix('### '))}\n{rest}"
    assert "`" not in outside.replace("\\`", "")
    live = re.sub(r"\\[^\w\s]", "", outside)  # what a backslash has made plain does nothing
    for trick in ("@", "<@", "<#", "</", "](", "||", "://", "<t:0"):
        assert trick not in live, (trick, outside)
    quiet = "-#(?! ⏳ Approval needed · expires)"
    assert not re.search(rf"^(#|{quiet})", outside, flags=re.MULTILINE)


def test_31_a_fence_cannot_be_closed_from_within() -> None:
    """Backticks in a row are spelled out, also where a cut could make new ones."""
    for text in ("```", "a````b", "`" * 4000, "x\n```\n# no"):
        made, _ = fence(text, "text", 200)
        assert made.count("```") == 2
        assert made.startswith("```\n") and made.endswith("\n```")
        assert count_units(made) <= 200


def test_31_lone_surrogates_and_ten_thousand_lines_are_sendable() -> None:
    """Whatever Python can hold as text becomes a message that Discord takes."""
    odd = stored(replace(request(), hint="\ud800 odd", arguments={"command": "a\udfffb"}))
    message(card(odd))
    message(full(odd))
    many = pending_with(command="\n".join(f"line {number}" for number in range(10_000)))
    assert "Approve" not in labels(message(card(many)))
    assert "Approve" not in labels(message(full(many)))
    assert "Approve" in labels(message(full(many, page=LAST)))


@sweep("unit", ["```", "😀", "👩🏽‍🚒", "`", "x", "\\", "@", "\u202e", "я"], few=3)
@pytest.mark.parametrize(
    "count",
    [
        *(1, 100, 1500, 1501, 9000),
        *(pytest.param(one, marks=pytest.mark.thorough) for one in (99, 1499, 2000, 4000)),
    ],
)
def test_32_a_card_is_sendable_at_every_length(unit: str, count: int) -> None:
    """Lengths at and around each limit, in units that grow when they are made inert; and a card
    that could not show all has no Approve."""
    text = unit * count
    record = stored(
        request(
            arguments={"command": text, "more": text[:3000]},
            hint=text,
            context=Context(host=text[:500], cwd=text[:500]),
            tool=("t" + unit * min(count, 80))[:250].replace("\u202e", "r"),
        )
    )
    sent = message(card(record))
    if "Approve" in labels(sent):
        assert "✂️" not in shown_text(sent)
    message(full(record))


def test_32_what_does_not_fit_here_is_not_approved_here() -> None:
    """Complete by the core's count, too long once it is inert or counted as Discord counts."""
    for text in ("😀" * 1490, "```a" * 370):
        record = pending_with(command=text)
        assert card_of(record, lines=25, chars=1500).complete
        assert "Approve" not in labels(message(card(record)))
        assert "Approve" in labels(message(full(record, page=LAST)))


def test_32_escaping_and_cutting_keep_to_their_budget() -> None:
    """No helper ever returns more than it was given room for."""
    for text in ("x" * 500, "*" * 500, "😀" * 500, "a\n" * 300, "⟨U+202E⟩" * 80):
        for budget in (5, 40, 100, 333):
            assert count_units(escape_line(text, budget)) <= budget
            assert count_units(clip(text, budget)) <= budget
            assert count_units(quote(text, budget)) <= budget


def test_32_an_escape_is_never_cut_in_half() -> None:
    """Half an escape would read as plain text of the agent."""
    for budget in range(30, 60):
        made, _ = fence("ab⟨U+202E⟩cd" * 20, "text", budget)
        assert made.count("⟨") == made.count("⟩")


async def test_33_a_large_request_is_attached_and_its_digest_is_right(stage: Stage) -> None:
    """Characters that grow sixfold when they are made visible go through Discord whole, and are
    what the digest says; more than a megabyte is refused before anybody is asked."""
    command = "\x7fa" * 50_000
    record, shown = await stage.asked(arguments={"command": command})
    view = await stage.click(stage.server.ann, shown, "Read the full text")
    (file,) = view.private[0]["attachments"]
    assert file["size"] > 600_000
    assert stage.server.discord.board.sha256_of(file) in private_text(view)
    assert record.digest in private_text(view)
    with pytest.raises(InvalidRequest, match="more than 1048576"):
        parse(json.dumps({"command": "x" * 9_000_000}).encode())


@pytest.mark.parametrize(("size", "fits"), [(9_000_000, True), (11_000_000, False)])
def test_33_what_fits_is_attached_and_what_does_not_is_refused_here(size: int, fits: bool) -> None:
    """By Discord's own limit of ten megabytes: nine are a file with the right digest; with eleven
    there is nothing to press, and the inbox is named."""
    record = pending_with(command="x")
    whole = card_of(record, lines=10**9, chars=10**9)
    parts = ["x" * 1500] * (size // 1500) + ["x" * (size % 1500 + 1)]
    pages = tuple(Visible(((part, False),)) for part in parts)
    view = FullView(pages=pages, chars=size, digest=record.digest)
    button = DiscordButton(verb="read", request_id=record.id, revision=record.revision)
    shown = build_full_view(whole, view, button, page=LAST)
    assert (shown.attached is not None) == fits
    assert ("Approve" in labels(message(shown))) == fits
    if shown.attached is not None:
        assert hashlib.sha256(shown.attached).hexdigest() in text_of(shown)
        assert len(shown.attached) == size + 1
    else:
        assert "inbox" in text_of(shown)


def test_33_a_page_that_is_not_shown_whole_can_only_be_denied() -> None:
    """However it came about: nothing is approved from a view that lacks a part, on no page."""
    record = pending_with(command="x")
    whole = card_of(record, lines=10**9, chars=10**9)
    pages = tuple(Visible(((part, False),)) for part in ("ls\n", "```a" * 400, "ls"))
    view = FullView(pages=pages, chars=1600, digest=record.digest)
    button = DiscordButton(verb="read", request_id=record.id, revision=record.revision)
    for page in range(len(pages)):
        sent = message(build_full_view(whole, view, button, page=page))
        assert labels(sent) <= {"Deny", "Deny and stop", "◀ Back", "Next ▶"}
        assert "Deny" in labels(sent)
        assert "cannot show a page in full" in shown_text(sent)


async def test_34_secrets_reach_neither_card_nor_file_nor_log(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """A token in the arguments is masked everywhere, and the bot's own is never logged."""
    secret = "ghp_" + "a1B2" * 9
    caplog.set_level("DEBUG")
    _, shown = await stage.asked(arguments={"command": f"git push https://x:{secret}@host"})
    view = await stage.click(stage.server.ann, shown, "Details")
    files = b"".join(stage.server.discord.board.files.values())
    for text in (shown_text(shown), private_text(view), files.decode()):
        assert secret not in text
        assert "secret of" in text
    said = [one.getMessage() for one in caplog.records]
    assert not any(stage.server.app.token in line for line in said)
    ours = [one.getMessage() for one in caplog.records if one.name.startswith("adapters")]
    assert not any(secret in line for line in ours)


SEEN = (
    ("pending", WIDE, True),
    ("pending", NARROW, False),
    ("denied", WIDE, False),
    ("hostile", NARROW, True),
    ("grants", NARROW, False),
)


@pytest.mark.browser
async def test_35_cards_are_drawn_whole_and_legible(tmp_path: Path) -> None:
    """In Chromium, dark and light, wide and on a phone: the state's word, no control of a decided
    card, and nothing that reaches over the edge."""
    words = {"pending": "Approval needed", "denied": "Denied", "hostile": "U+202E"}
    async with chromium() as page:
        for name, size, dark in SEEN:
            path = tmp_path / "picture.png"
            word = words.get(name, "Grants")
            text = await photographed(page, scenes()[name], path, size, word=word, dark=dark)
            assert ("Approve\n" in text) == (name in ("pending", "hostile"))
            with Image.open(path) as picture:
                corner = picture.convert("L").crop((2, picture.height - 4, 3, picture.height - 3))
            assert (corner.tobytes()[0] < 100) == dark
            over = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert not await page.evaluate(over)


async def test_36_a_decided_card_keeps_what_was_approved_and_calls_nobody(stage: Stage) -> None:
    """The arguments stay readable; neither card, edit nor agent's text notifies anyone."""
    ann = stage.server.ann.id
    record, shown = await stage.asked(
        arguments={"command": "make deploy"}, hint=f"@everyone <@{ann}>"
    )
    await stage.click(stage.server.ann, shown, "Approve")
    await stage.ended(record)
    assert "make deploy" in await stage.shows(shown, "Approved")
    assert stage.server.discord.board.pinged[shown["id"]] == set()


@pytest.mark.parametrize("skew", [-300, 300])
async def test_37_a_clock_that_is_wrong_loses_no_tap(stage: Stage, skew: float) -> None:
    """Discord's clock is five minutes off ours, either way: cards and taps do not care."""
    stage.server.discord.calendar.advance(skew)
    record, shown = await stage.asked()
    await stage.click(stage.server.ann, shown, "Details")
    opened = await stage.click(stage.server.ann, shown, "Deny")
    assert not (await stage.server.ann.submit(opened)).failed
    assert (await stage.ended(record)).status is Status.DENIED


def test_37_times_are_discords_own_markup() -> None:
    """Deadlines and decisions are written in seconds of UTC, which each client shows as local and
    lets tick; the host's clock has no part in it."""
    record = pending()
    assert f"<t:{record.deadline // 1000}:R>" in text_of(card(record))
    done = scenes()["approved"]
    assert re.search(r"<t:\d{10}:t>", text_of(done))
    assert "expires" not in text_of(done)


QUESTIONS = (
    Question(id="why", text="Why now?"),
    Question(id="n", text="How many?", kind=FieldKind.NUMBER),
    Question(id="sure", text="Sure?", kind=FieldKind.BOOLEAN),
    Question(
        id="env",
        text="Where?",
        kind=FieldKind.CHOICE,
        options=(Option(value="p", label="production"), Option(value="s", label="staging")),
    ),
    Question(
        id="days",
        text="On which days?",
        kind=FieldKind.CHOICES,
        options=tuple(Option(value=day) for day in ("mon", "tue", "wed")),
        required=False,
    ),
)


async def test_a_question_is_answered_in_a_modal(stage: Stage) -> None:
    """Text, number, yes or no, one choice and several come back as the right values."""
    record, shown = await stage.asked(
        kind=Kind.QUESTION, questions=QUESTIONS, arguments={}, allowed=(Action.ANSWER, Action.DENY)
    )
    await stage.shows(shown, "Question", "Why now?", "production")
    opened = await stage.click(stage.server.ann, shown, "Answer")
    wrong = await stage.server.ann.submit(
        opened, field0="x", field1="many", field2="yes", field3="1", field4=["0", "2"]
    )
    assert "is not a number" in private_text(wrong)
    opened = await stage.click(stage.server.ann, shown, "Answer")
    await stage.server.ann.submit(
        opened, field0="because", field1="4.5", field2="no", field3="1", field4=["0", "2"]
    )
    ended = await stage.ended(record)
    assert ended.status is Status.APPROVED and ended.decision is not None
    assert ended.decision.answers == {
        "why": "because",
        "n": 4.5,
        "sure": False,
        "env": "s",
        "days": ["mon", "wed"],
    }


async def test_what_no_modal_can_carry_goes_to_the_inbox(stage: Stage) -> None:
    """Secrets, too many fields, and arguments that are too long are not asked for in Discord."""
    secret = (Question(id="key", text="The key?", secret=True),)
    many = tuple(Question(id=f"q{number}", text="?") for number in range(6))
    asked = {"kind": Kind.QUESTION, "arguments": {}, "allowed": (Action.ANSWER,)}
    _, shown = await stage.asked(questions=secret, **asked)
    await stage.shows(shown, "Answer it in the inbox")
    assert "Answer" not in labels(shown)
    _, shown = await stage.asked(questions=many, **asked)
    assert "inbox" in private_text(await stage.click(stage.server.ann, shown, "Answer"))
    _, shown = await stage.asked(arguments={"command": "x" * 5000})
    view = await stage.click(stage.server.ann, shown, "Read the full text")
    while "Edit" not in labels(view.private[0]):
        await stage.click(stage.server.ann, view.private[0], "Next ▶")
    done = await stage.click(stage.server.ann, view.private[0], "Edit")
    assert "too long" in private_text(done)


async def test_high_risk_is_confirmed_from_the_full_view(stage: Stage) -> None:
    """One tap shows everything, a second one decides; the first alone does nothing."""
    risky = RiskRule(name="all", level=RiskLevel.HIGH, reason="touches production")
    await stage.policy(stage.route(), risks=(risky,))
    record, shown = await stage.asked()
    await stage.shows(shown, "High risk", "touches production")
    view = await stage.click(stage.server.ann, shown, "Review…")
    assert not (await stage.core.requests.get(record.id)).final
    custom_id = buttons(view.private[0])["Approve: I have read it"]["custom_id"]
    data = {"custom_id": custom_id.removesuffix("sure"), "component_type": 2, "id": 1}
    forged = await stage.server.discord.raw(
        stage.server.app, stage.server.ann.user, stage.server.channel, data, message=view.private[0]
    )
    assert "confirm" in private_text(await stage.server.ann.outcome(forged))
    assert not (await stage.core.requests.get(record.id)).final
    await stage.click(stage.server.ann, view.private[0], "Approve: I have read it")
    assert (await stage.ended(record)).status is Status.APPROVED


def test_every_control_has_an_id_of_its_own_that_fits() -> None:
    """At most 100 characters, at most 40 components, and never two alike."""
    record = replace(pending_with(command=HOSTILE * 40), revision=123_456)
    for shown in (card(record), full(record, page=1)):
        body = message(shown)
        ids = [one["custom_id"] for one in walk(body["components"]) if "custom_id" in one]
        assert len(ids) == len(set(ids)) >= 3
