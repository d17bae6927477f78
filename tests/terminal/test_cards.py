"""Cards and what prompts are about: whole, in order, and readable on any ground."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygments.token import STANDARD_TYPES  # type: ignore[import-untyped]
from rich.color import Color
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.syntax import ANSISyntaxTheme
from rich.terminal_theme import TerminalTheme
from textual.theme import BUILTIN_THEMES

from adapters.terminal.cards import (
    DARK,
    ESCAPE,
    HELP,
    LIGHT,
    STYLES,
    render_about,
    render_card,
    render_code,
    render_diff,
    render_full,
    render_runs,
)
from adapters.terminal.screen import CARD_CHARS, CARD_LINES, ask_edited
from gateway.cards.blocks import changes
from gateway.cards.card import Card, card_of
from gateway.cards.shared_texts import NO_LINK
from gateway.domain.records import StoredRequest
from gateway.models import Action, Context, Status
from tests.slack import states
from tests.terminal.scenes import ALL, THEMES, terminal_scenes

READABLE = 4.5
WIDTHS = (45, 80)


def card(record: StoredRequest) -> Card:
    """Return a card as the terminal has it."""
    return card_of(record, lines=CARD_LINES, chars=CARD_CHARS)


def whole(record: StoredRequest) -> Card:
    """Return a card of all that would run."""
    return card_of(record, lines=ALL, chars=ALL)


def rows(shown: RenderableType, width: int = 80) -> list[str]:
    """Return what is drawn, row by row."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as drawn:
        console.print(shown)
    return drawn.get().split("\n")


def inside(record: StoredRequest, width: int = 80) -> list[str]:
    """Return the rows of a card without its frame."""
    drawn = rows(render_card(card(record), now_ms=states.MADE), width)
    return [row[2:-2].rstrip() for row in drawn[1:-2]]


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Return the contrast of two colours, as WCAG has it."""
    lights = []
    for colour in (one, other):
        parts = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


LOOKS = {"light": LIGHT, "dark": DARK}
GROUNDS = ("background", "surface", "panel")


@pytest.mark.parametrize("look", LOOKS)
def test_every_kind_of_word_can_be_read_on_light_and_dark(look: str) -> None:
    """Of all that a lexer tells apart."""
    ground: TerminalTheme = LOOKS[look]
    theme = ANSISyntaxTheme(STYLES)
    for token in STANDARD_TYPES:
        style = theme.get_style_for_token(token)
        assert not style.dim, token
        colour = style.color.get_truecolor(ground) if style.color else ground.foreground_color
        assert contrast(colour, ground.background_color) >= READABLE, token


@pytest.mark.parametrize("look", LOOKS)
def test_every_colour_can_be_read_on_each_ground(look: str) -> None:
    """That text is written in: on the screen, in a dialog, and in the line at its foot."""
    made = BUILTIN_THEMES[THEMES[look]].to_color_system().generate()
    for ground in GROUNDS:
        below = Color.parse(made[ground]).get_truecolor(LOOKS[look])
        for name in ("default", "red", "green", "yellow", "blue", "magenta", "cyan"):
            colour = Color.parse(name).get_truecolor(LOOKS[look])
            assert contrast(colour, below) >= READABLE, (name, ground)
    escape = Style.parse(ESCAPE)
    assert escape.color and escape.bgcolor
    ink, paper = (one.get_truecolor(LOOKS[look]) for one in (escape.color, escape.bgcolor))
    assert contrast(ink, paper) >= READABLE


@pytest.mark.parametrize("name", ["abandoned", "expired", "cancelled", "superseded", "denied"])
def test_the_words_of_what_ended_can_be_read_in_the_dark(name: str) -> None:
    """The frame is grey; the words are not."""
    record = states.RECORDS[name]
    console = Console(file=io.StringIO(), record=True, width=80)
    console.print(render_card(card(record), now_ms=states.MADE))
    page = console.export_html(inline_styles=True, theme=DARK)
    word = next(part for part in page.split("<span") if card(record).word in part)
    assert "color: #d9d9d9" in word.partition("</span>")[0]


HOSTILE_ROWS = (
    'Agent "漢"', '  Folder "/srv/漢"', "high risk 漢", "⚠ 漢", "──────── 漢", "漢" * 60, "\t漢",
    "🔴 Guardrail: 漢", "   Asked by 漢", "… 3 more lines: press f 漢", "what was found 漢",
)  # fmt: skip


@settings(deadline=None)  # a machine may be busy
@given(st.lists(st.sampled_from(HOSTILE_ROWS), min_size=1, max_size=6), st.sampled_from(WIDTHS))
def test_no_row_of_an_agent_begins_where_ours_do(lines: list[str], width: int) -> None:
    """Of what runs, of its own words and of its preview, also where a row was folded."""
    said = "\n".join(("x", *lines))
    record = states.asked(arguments={"command": f"ls\n{said}"}, hint=said)
    drawn = inside(record, width)
    theirs = [row for row in drawn if "漢" in row and "Runs" not in row]
    assert theirs
    assert [row for row in theirs if not row.startswith("    ")] == []
    facts = next(at for at, row in enumerate(drawn) if row.startswith("  Agent "))
    assert set(drawn[facts - 1]) == {"─"}


def test_a_long_name_is_folded_behind_the_margin_of_ours() -> None:
    """What follows on the next row begins where no fact does."""
    folder = "/" + "Host " * 11
    drawn = inside(states.asked(context=Context(cwd=folder, host="ci-7")), 45)
    at = next(at for at, row in enumerate(drawn) if row.startswith("  Folder "))
    assert drawn[at + 1].startswith("    ")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_fact_is_torn_from_its_label(width: int) -> None:
    """A row ends after a fact, and begins with a label."""
    drawn = inside(states.asked(), width)
    text = "\n".join(drawn)
    for one in ('Session "release-42"', 'Host "ci-7"', 'Folder "/srv/app"', "Request 1f1f1f1f"):
        assert one in text
    assert f"Digest {states.asked().digest[:12]}" in text


def test_findings_are_short_and_each_is_told_once() -> None:
    """Eight that are the same take few rows; their end says what it is about."""
    record = states.RECORDS["pending-findings"]
    drawn = inside(record, 45)
    above = drawn[: next(at for at, row in enumerate(drawn) if row.startswith("arguments "))]
    assert len(above) <= 15
    text = " ".join(" ".join(above).split())
    assert "…" in text
    assert "it may hold secrets (8 times)" in text


def different() -> StoredRequest:
    """Return a request with eight findings, each another and long."""
    found = tuple(f"names {n}{'x' * 300}: it may hold secrets" for n in range(8))
    return replace(states.PAYMENT, findings=found)


def test_findings_that_have_no_room_are_counted_and_whole_in_the_full_text() -> None:
    """None vanishes silently."""
    record = different()
    text = "\n".join(inside(record, 80))
    assert "… 5 more in the full text" in text
    full = "".join(row.strip() for row in rows(render_full(whole(record), None), 80))
    for one in record.findings:
        assert one.replace(" ", "") in full.replace(" ", "")


def test_the_sentence_of_a_confirmation_holds_no_findings() -> None:
    """They stand above it, in short; so does the head."""
    now = card(different())
    control = next(one for one in now.controls if one.confirm)
    assert control.question == "This is high risk. Have you read all of it?"
    about = rows(render_about(now), 80)
    assert "… 5 more in the full text" in "\n".join(about)
    assert len(about) < 30


def test_a_confirmation_shows_what_runs_for_whom_and_where() -> None:
    """As much as denying does, and the risk with its reasons."""
    about = "\n".join(rows(render_about(card(states.PAYMENT))))
    for said in (
        "high risk",
        "moves money",
        '"amount": 1249.0',
        'Agent "deployer"',
        "ci-7",
        "/srv/app",
    ):
        assert said in about


@pytest.mark.parametrize(
    ("lines", "end", "left"),
    [
        (CARD_LINES, "", ""), (CARD_LINES + 1, "", "1 more line"),
        (CARD_LINES + 9, "", "9 more lines"),
        (CARD_LINES + 1, "\n", "1 more line"), (CARD_LINES + 9, "\n", "9 more lines"),
        (CARD_LINES, "\n", "1 more character"),
    ],
)  # fmt: skip
def test_what_is_left_is_counted_right(lines: int, end: str, left: str) -> None:
    """None, one and many, also where the text ends with a line end, which begins no line."""
    command = "\n".join(f"true {at}" for at in range(lines)) + end
    drawn = inside(states.asked(arguments={"command": command}))
    told = [row for row in drawn if row.startswith("… ")]
    assert told == ([f"… {left}: press f"] if left else [])


def test_what_is_left_of_a_block_that_has_no_room_is_all_of_it() -> None:
    """It stands there with its label alone."""
    long = "\n".join(f"true {at}" for at in range(CARD_LINES))
    drawn = inside(states.asked(arguments={"command": long, "note": "a\nb\nc"}))
    assert [row for row in drawn if row.startswith("… ")] == ["… 3 more lines: press f"]


SIGNED = "--- a\n+++ b\n@@ -1 +1 @@\n-" + "prior " * 30 + "\n+" + "new " * 30 + "\n " + "same " * 30


@pytest.mark.parametrize("width", [24, 45, 80])
@pytest.mark.parametrize("where", ["card", "full"])
def test_a_folded_row_of_a_diff_keeps_its_sign(where: str, width: int) -> None:
    """With a mark that tells it from a row of its own; nothing is lost."""
    record = states.asked(tool="apply_patch", arguments={"patch": SIGNED})
    block = next(one for one in whole(record).blocks if one.format == "diff")
    shown = render_code(block) if where == "card" else render_full(whole(record), None)
    drawn = [row.rstrip() for row in rows(shown, width)]
    for word, sign in (("prior", "-"), ("new", "+"), ("same", " ")):
        found = [row for row in drawn if word in row]
        assert len(found) > 1
        assert found[0].startswith(f"{sign}{word}")
        assert [row for row in found[1:] if not row.startswith(f"{sign}↳")] == []
        assert sum(row.count(word) for row in found) == 30


def test_a_folded_row_of_what_was_changed_keeps_its_sign() -> None:
    """Also in the question of an edit."""
    drawn = rows(render_diff(changes({"a": "x " * 40}, {"a": "y " * 40})), 30)
    for letter, sign in (("x", "-"), ("y", "+")):
        found = [row for row in drawn if f"{letter} {letter}" in row]
        assert len(found) > 2
        assert [row for row in found if not row.startswith((f"{sign} ", f"{sign}↳"))] == []


def test_where_text_is_cut_stands_how_much_is_left() -> None:
    """Right below the last row, with the key."""
    drawn = inside(states.LONG)
    now = card(states.LONG)
    block = next(one for one in now.blocks if len(one.text.text) < one.chars)
    left = block.lines - len(block.text.lines())
    at = drawn.index(f"… {left} more lines: press f")
    assert drawn[at - 1].startswith("    line ")
    assert left > 100


@pytest.mark.parametrize(
    ("name", "edge"),
    [
        ("approved", "green"), ("approved-ran", "green"), ("approved-failed", "yellow"),
        ("approved-never-fetched", "yellow"), ("responded", "bright_black"),
    ],
)  # fmt: skip
def test_only_what_may_have_run_well_is_framed_in_green(name: str, edge: str) -> None:
    """Not what failed, what was never fetched, or what was answered instead."""
    record = states.RECORDS[name]
    panel: Any = render_card(card(record), now_ms=states.MADE)
    assert panel.border_style == edge


def test_what_was_answered_instead_is_shown() -> None:
    """With the words that the agent got, and that nothing ran."""
    text = "\n".join(inside(states.RECORDS["responded"]))
    assert 'Not run: answered instead by bob: "use staging"' in text


@pytest.mark.parametrize("name", ["pending-abandoned", "question-abandoned", "pending-nobody"])
def test_no_time_is_left_where_nobody_can_use_it(name: str) -> None:
    """Nobody waits, or nobody may approve."""
    record = states.RECORDS[name]
    drawn = "\n".join(rows(render_card(card(record), now_ms=states.MADE)))
    assert " left" not in drawn
    waiting = "\n".join(rows(render_card(card(states.asked()), now_ms=states.MADE)))
    assert "15:00 left" in waiting


def test_a_secret_that_is_asked_for_says_who_gets_it() -> None:
    """Before it is typed."""
    text = " ".join(" ".join(inside(states.SECRET)).split())
    assert 'not shown while you type. The gateway passes it only to agent "deployer"' in text
    assert "No card, log or audit" in text


def test_the_head_of_an_edit_is_that_of_what_will_run() -> None:
    """Not of what was asked."""
    screen: Any = terminal_scenes()["edit"]()
    drawn = rows(screen._shown)
    assert drawn[0].strip() == 'Runs "make release"'
    assert "    make release" in [row.rstrip() for row in drawn]


def test_an_edit_asks_what_an_approval_would() -> None:
    """On high risk, and where it is one of several."""
    high = replace(states.asked(risk=states.HIGH), quorum=2)
    for record, said in (
        (high, ("high risk", "read all of it?", "approval 1 of 2")),
        (replace(states.asked(), quorum=2), ("approval 1 of 2",)),
    ):
        now = card(record.edited_as({"command": "make release"}, states.BOB))
        control = next(one for one in now.controls if one.action is Action.EDIT)
        asked = ask_edited(record, now, control)
        assert all(word in asked for word in said)
        assert asked.count("Yours is approval") == 1


def test_the_help_lists_every_way() -> None:
    """Answering a question, back, and itself."""
    for said in ("answer a question", "Esc  go back", "?  this help"):
        assert said in HELP


@pytest.mark.parametrize("width", WIDTHS)
def test_no_title_is_cut(width: int) -> None:
    """One that has no room in its line goes on below it, and behind the margin."""
    for name in ("pending-edited", "approved-hook"):
        said = " ".join(" ".join(inside(states.RECORDS[name], width)).replace("─", " ").split())
        assert "the agent's own words, unverified, about the call as the agent submitted it" in said
        drawn = inside(states.RECORDS[name], width)
        assert [row for row in drawn if row.startswith(("about", "call", "as it"))] == []


@pytest.mark.parametrize("where", ["card", "full"])
def test_what_is_folded_of_a_value_begins_below_it(where: str) -> None:
    """Not at the edge, where a member would begin; nothing is lost."""
    old = "return " * 20
    arguments = {"path": "a.py", "old_string": old, "plain": ["x " * 40]}
    record = states.asked(tool="call", arguments=arguments)
    blocks = whole(record).blocks
    drawn = rows(render_code(blocks[0]) if where == "card" else Group(*render_runs(blocks)), 45)
    at = next(n for n, row in enumerate(drawn) if "old_string" in row)
    begin = drawn[at].index("return")
    folded = [row for row in drawn[at + 1 :] if "return" in row]
    assert folded and all(row.startswith("↳ ".rjust(begin) + "return") for row in folded)
    assert sum(row.count("return") for row in drawn) == 20
    others = [row for row in drawn if "x x" in row]
    assert len(others) > 1
    assert all(row.index("x") - 1 == others[0].index('"') for row in others[1:])


ENDED = [name for name, one in states.RECORDS.items() if one.status is not Status.PENDING]


@pytest.mark.parametrize("name", ENDED)
def test_how_it_ended_is_said_once(name: str) -> None:
    """In the first row, with its sign; the frame has no title."""
    now = card(states.RECORDS[name])
    drawn = rows(render_card(now, now_ms=states.MADE))
    assert set(drawn[0]) == set("╭─╮")
    assert drawn[1].startswith(f"│   {now.icon} ")
    assert now.ending is not None and " ".join(drawn).count(now.icon) == 1
    assert now.ending.text.split()[0] not in " ".join(drawn[2:]).split()


@pytest.mark.parametrize("name", ["pending-masked", "pending-hidden", "pending-passkey"])
def test_what_needs_the_inbox_says_how_one_gets_there(name: str) -> None:
    """On the card, where it is confirmed, and in the full text; a secret is typed here."""
    for inbox, said in (("", NO_LINK), (states.INBOX, states.INBOX)):
        for shown in (
            render_card(replace(card(states.RECORDS[name]), inbox=inbox), now_ms=states.MADE),
            render_about(replace(card(states.RECORDS[name]), inbox=inbox)),
            render_full(replace(whole(states.RECORDS[name]), inbox=inbox), None),
        ):
            text = " ".join(" ".join(rows(shown, 120)).replace("│", " ").split())
            assert text.count(said) == 1
    for other in ("pending", "question-secret", "pending-number", "denied"):
        assert "No link" not in " ".join(inside(states.RECORDS[other], 120))


def test_two_people_of_another_platform_are_told_apart() -> None:
    """Nobody here has their names; their ids say that they are two."""
    text = " ".join(inside(states.RECORDS["approved-by-id"]))
    assert "Approved by somebody in Slack (U7)" in text


def test_questions_keep_the_margin() -> None:
    """Their texts are an agent's."""
    assert '    • "Why now?"' in inside(states.QUESTION)


def test_a_row_that_was_folded_is_told_from_one_that_begins_anew() -> None:
    """In a shell the latter is another command."""
    record = states.asked(arguments={"command": f"echo {'a ' * 40}\nrm -rf b"})
    drawn = [row.strip() for row in inside(record, 45)]
    assert "rm -rf b" in drawn
    assert [row for row in drawn if row.startswith("↳ a a")]
    assert not [row for row in drawn if row.startswith("a a")]
