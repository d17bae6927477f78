"""Dialogs: they begin at the top, tell the way back, and take no silence for an answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from rich.style import Style
from rich.text import Text
from textual.app import App

from adapters.terminal.keys import HELP_KEY, Key, fit_keys
from adapters.terminal.prompts import FormScreen, FullTextScreen, RememberScreen, WordsScreen
from gateway.cards.remember_options import LIFETIME_WORDS, RememberOption, scopes_of
from gateway.domain.records import Identity, Remember
from gateway.domain.redaction import render_safe
from gateway.models import Action, FieldKind, Kind, Question, Status
from tests.slack import states
from tests.sweeps import sweep
from tests.terminal.scenes import HEIGHT, THEMES, Stage, main_scenes, settle, terminal_scenes
from tests.terminal.seat import seated, staffed
from tests.terminal.test_cards import READABLE, contrast
from tests.world import World

WIDTHS = (45, 80)
FRAMES = " ─│╭╮╰╯━┃┏┓┗┛▁▂▃▄▅▆▇█▊▎▔▌▐"


def words_of(app: App[None]) -> str:
    """Return the words on the screen, as if it had no frames and no end of a row."""
    return " ".join(re.sub(f"[{FRAMES}]", " ", text_of(app)).split())


def chosen_of(asking: RememberScreen) -> str:
    """Return all the words of what is chosen to be remembered."""
    chosen = next(one for one in asking.what.entries if one.on)
    return " ".join(f"(•) {chosen._text.plain}".split())


def foot_of(app: App[None]) -> str:
    """Return the line at the foot of the screen."""
    return text_of(app).splitlines()[-1].strip()


def text_of(app: App[None]) -> str:
    """Return all that is on the screen."""
    lines = app.screen._compositor.render_strips(app.size)
    return "\n".join("".join(segment.text for segment in strip) for strip in lines)


@sweep(("name", "columns"), product(sorted(terminal_scenes()), WIDTHS), few=7)
async def test_every_dialog_tells_the_way_back(name: str, columns: int) -> None:
    """Whatever it asks."""
    app = Stage()
    async with app.run_test(size=(columns, HEIGHT)) as pilot:
        await app.push_screen(terminal_scenes()[name]())
        await pilot.pause()
        await pilot.pause()
        assert "esc back" in text_of(app)


@pytest.mark.parametrize("columns", WIDTHS)
async def test_what_to_remember_is_read_before_it_is_chosen(columns: int) -> None:
    """From the head on, each option whole; walking chooses nothing, and Space does."""
    app = Stage()
    async with app.run_test(size=(columns, HEIGHT)) as pilot:
        asking = terminal_scenes()["remember"]()
        assert isinstance(asking, RememberScreen)
        await app.push_screen(asking)
        await pilot.pause()
        await pilot.pause()
        seen = words_of(app)
        assert 'Runs "git log --oneline -n 5"' in seen
        assert '(•) exactly this: "git log --oneline -n 5" in /srv/app on ci-7' in seen
        assert "( ) git log, with no flags but --oneline -n, run in /srv/app on ci-7" in seen
        first = asking.what.chosen
        await pilot.press(*["down"] * (len(asking.what.values) - 1))
        await pilot.pause()
        assert asking.what.chosen == first
        seen = words_of(app)
        assert "run later require approval" in seen
        await pilot.press("space")
        assert asking.what.chosen == asking.what.values[-1:]


async def test_the_usual_choice_is_chosen_first() -> None:
    """Also where it is not the narrowest; without one that is."""
    git = states.RECORDS["pending-git"]
    options = [(one, states.REACH) for one in scopes_of(git, Action.APPROVE)]
    for usual, at in (("", 0), (options[1][0].id, 1)):
        app = Stage()
        async with app.run_test(size=(80, HEIGHT)) as pilot:
            asking = RememberScreen(git, options, Text("git"), usual)
            sent: list[Remember | None] = []
            await app.push_screen(asking, sent.append)
            await settle(pilot)
            assert asking.what.chosen == [options[at][0].id]
            while not sent:
                await pilot.press("ctrl+s")
                await settle(pilot)
            assert sent[0] is not None and sent[0].offer == options[at][0].id


@pytest.mark.parametrize("columns", WIDTHS)
async def test_marks_differ_in_shape(columns: int) -> None:
    """What is not ticked has no x."""
    app = Stage()
    async with app.run_test(size=(columns, HEIGHT)) as pilot:
        asking = terminal_scenes()["answer"]()
        assert isinstance(asking, FormScreen)
        await app.push_screen(asking)
        await pilot.pause()
        assert "( ) Production" in text_of(app)
        await pilot.press("space", *["tab"] * 4, "space")
        await pilot.pause()
        shown = text_of(app)
        assert "Who is told?" in shown
        assert "[x] ops" in shown
        assert "[ ] sales" in shown


async def test_an_untouched_yes_or_no_is_no_answer(world: World) -> None:
    """It is asked for where it is needed; "no" is said by who chose it."""
    await staffed(world)
    questions = (Question(id="sure", text="Is the window open?", kind=FieldKind.BOOLEAN),)
    record = await world.submit(
        kind=Kind.QUESTION, arguments={}, allowed=(Action.ANSWER,), questions=questions
    )
    async with seated(world) as seat:
        await seat.sees("Question")
        await seat.press("y")
        await seat.sees("( ) yes", "( ) no")
        await seat.press("ctrl+s")
        await seat.sees("this field needs an answer")
        assert (await world.core.requests.get(record.id)).status is Status.PENDING
        await seat.press("down", "space", "ctrl+s")
        decision = (await seat.ended(record)).decision
    assert decision is not None
    assert decision.answers == {"sure": False}


async def test_a_text_field_has_an_edge(world: World) -> None:
    """Also while another has the keys."""
    app = Stage()
    async with app.run_test(size=(80, HEIGHT)) as pilot:
        await app.push_screen(terminal_scenes()["answer"]())
        await pilot.pause()
        lines = text_of(app).split("\n")
        at = next(at for at, line in enumerate(lines) if "Why now?" in line)
        assert "╭──" in lines[at + 1]


async def test_the_full_text_is_approved_once_its_end_was_seen(world: World) -> None:
    """Before that the key says which lines are on the screen."""
    await staffed(world)
    record = await world.submit(arguments={"command": "true\n" * 100 + "rm -rf /"})
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        await seat.press("f")
        await seat.sees("lines 1\N{EN DASH}", " of 10")
        await seat.press("y")
        await seat.sees("read the request to its end")
        assert isinstance(seat.screen.screen, FullTextScreen)
        assert (await world.core.requests.get(record.id)).status is Status.PENDING
        await seat.press("end")
        await seat.sees("rm -rf /")
        await seat.press("y")
        assert (await seat.ended(record)).status is Status.APPROVED


# With 20 lines the last one would be covered by words that fold in two.
@sweep("lines", (20, *range(15, 20), *range(21, 27)), few=3)
async def test_a_full_text_counts_as_read_with_its_last_line_on_the_screen(
    world: World, lines: int
) -> None:
    """Also where it fits but for a line, and the words that say where one is fold in two."""
    await staffed(world)
    command = "\n".join([*(f"true {at}" for at in range(lines - 1)), "rm -rf /last"])
    await world.submit(arguments={"command": command})
    async with seated(world, size=(45, 30)) as seat:
        await seat.sees("Approval needed")
        await seat.press("f")
        await seat.sees("lines 1\N{EN DASH}")
        screen = seat.screen.screen
        assert isinstance(screen, FullTextScreen)
        for _ in range(3):  # whatever is measured again has been
            await seat.pilot.pause()
        assert ("read on" in seat.text()) == ("rm -rf /last" not in seat.text())


async def test_the_full_text_of_high_risk_says_so_below_its_head(world: World) -> None:
    """The head stands first, not a count of characters."""
    await staffed(world)
    await world.submit(arguments={"command": "deploy prod"})
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        await seat.press("f")
        await seat.sees("lines 1\N{EN DASH}")
        shown = [line.strip(" │") for line in seat.text().split("\n")]
        head = next(at for at, line in enumerate(shown) if "deploy" in line)
        assert shown[head + 1] == "high risk", shown


async def test_a_high_risk_confirmation_shows_what_runs(world: World) -> None:
    """Where the yes is typed."""
    await staffed(world)
    await world.submit(arguments={"command": "deploy prod"})
    async with seated(world) as seat:
        await seat.sees("high risk")
        await seat.press("y")
        await seat.sees("Have you read all of it?", "deploy prod", "touches prod", 'Agent "bot"')
        assert seat.screen.screen.query(".alarmed")


async def test_denying_says_what_enter_does() -> None:
    """So that nobody denies by accident."""
    app = Stage()
    async with app.run_test(size=(45, HEIGHT)) as pilot:
        await app.push_screen(terminal_scenes()["deny"]())
        await settle(pilot)
        assert foot_of(app) == "enter denies  esc back"


async def test_what_is_remembered_uses_the_rows_that_are_free() -> None:
    """Folded rows keep the margin, and the question counts."""
    app = Stage()
    async with app.run_test(size=(80, HEIGHT)) as pilot:
        asking = terminal_scenes()["grants"]()
        assert isinstance(asking, WordsScreen)
        await app.push_screen(asking)
        await pilot.pause()
        await pilot.pause()
        shown = text_of(app)
    lines = [line.strip("│ ").rstrip() for line in shown.split("\n")]
    assert len([line for line in lines if line]) >= HEIGHT - 3  # two of margin, and an empty field
    said = " ".join(shown.replace("│", " ").split())
    assert "or all. You can revoke 4 of the 6 listed." in said
    held = [line[line.index("│") :] for line in shown.split("\n") if "│" in line]
    assert [line for line in held if line.startswith(("│ yet", "│ times", "│ exactly"))] == []


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("waiting", "1 of 3 pending · ← → the others"),
        ("empty", "No pending requests"),
        ("disconnected", "you cannot decide"),
        ("one", "1 of 1 pending · ann"),
    ],
)
async def test_the_main_screen_says_how_it_stands(name: str, said: str, columns: int) -> None:
    """With the keys of the help and of the way out, also where it is narrow."""
    app = main_scenes()[name]()
    assert app._who == Identity(platform="terminal", id="ann")
    async with app.run_test(size=(columns, HEIGHT)) as pilot:
        await settle(pilot)
        shown = " ".join(text_of(app).split())
        assert said in shown
        assert foot_of(app).endswith(("? help  q quit", "? more  q quit"))


@pytest.mark.parametrize(
    ("name", "listed", "not_listed"),
    [
        ("waiting", ("approve", "deny", "read", "edit", "several"), ("answer",)),
        ("question", ("answer", "deny", "read"), ("approve", "edit", "remember", "several")),
        ("cut", ("deny", "read", "scroll"), ("approve", "answer", "remember", "several")),
        ("nobody", ("deny", "read"), ("approve", "edit", "remember", "several")),
        ("looking", ("read", "copy"), ("approve", "deny", "edit", "several", "looking", "plan")),
        ("empty", ("grants",), ("approve", "deny", "read", "edit", "several", "copy")),
        ("disconnected", (), ("approve", "deny", "read", "edit", "several", "grants")),
    ],
)
async def test_the_foot_lists_the_keys_that_do_something(
    name: str, listed: tuple[str, ...], not_listed: tuple[str, ...]
) -> None:
    """And a key that is not listed says why, and goes no further."""
    app = main_scenes()[name]()
    async with app.run_test(size=(140, HEIGHT), notifications=True) as pilot:
        await settle(pilot)
        words = foot_of(app).split()
        assert [word for word in listed if word not in words] == []
        assert [word for word in not_listed if word in words] == []
        for one in app.KEYS:
            hindered = one.word not in ("", "scroll") and app.why_not(one.action) is not None
            if hindered and app.why_not(one.action) != app.refusal and one.action != "copy":
                app.clear_notifications()
                await pilot.press(one.names)
                await settle(pilot)
                (told,) = app._notifications
                assert told.message == app.why_not(one.action)
        assert len(app.screen_stack) == 1


async def test_a_key_decides_nothing_but_what_is_drawn() -> None:
    """Not what took its place a moment ago, nor what somebody edited meanwhile."""
    app = main_scenes()["one"]()
    async with app.run_test(size=(80, HEIGHT)) as pilot:
        await settle(pilot)
        drawn = app._queue[0]
        actions = ("approve", "deny", "edit", "remember", "replan", "full", "several")
        assert [one for one in actions if app.why_not(one) is not None] == []
        for other in (states.known_as(drawn, "3a"), replace(drawn, revision=drawn.revision + 1)):
            app._queue = [other]
            for one in actions:
                assert "read it again before" in str(app.why_not(one))
        app._draw()
        assert app.why_not("approve") is None


def test_a_line_keeps_what_lasts_and_the_most_needed() -> None:
    """Whatever its width, and the order is that of need."""
    keys = [*(Key(k, k, "w" * 7) for k in "abc"), Key("q", "quit", "quit", lasts=True)]
    assert [one.names for one in fit_keys(keys, 100)] == ["a", "b", "c", "q"]
    assert [one.names for one in fit_keys(keys, 30)] == ["a", "b", "q"]
    assert [one.names for one in fit_keys(keys, 5)] == ["q"]
    assert sum(one.width for one in fit_keys(keys, 30)) == 30


def test_a_line_that_has_no_room_for_a_key_tells_of_more() -> None:
    """And of the key that shows them."""
    keys = [*(Key(k, k, "w" * 7) for k in "abc"), HELP_KEY]
    for width, said in ((100, "help"), (41, "help"), (40, "more"), (5, "more")):
        assert fit_keys(keys, width)[-1].word == said


@pytest.mark.parametrize("name", ["waiting", "question", "cut", "looking"])
async def test_no_key_is_dropped_in_silence(name: str) -> None:
    """Where it is narrow; neither in the full text."""
    app = main_scenes()[name]()
    async with app.run_test(size=(45, HEIGHT)) as pilot:
        await settle(pilot)
        for keys in ("", "f"):
            await pilot.press(*keys)
            await settle(pilot)
            shown: Any = app.screen if keys else app
            left = [one.word for one in shown.list_keys() if one.word not in foot_of(app)]
            assert not left or " ? more " in f" {foot_of(app)} "
        await pilot.press("question_mark")
        await settle(pilot)
        assert ("approve several" in words_of(app)) == (name != "question")


async def test_a_key_in_the_line_can_be_clicked() -> None:
    """As in any line of keys."""
    app = main_scenes()["waiting"]()
    async with app.run_test(size=(80, HEIGHT)) as pilot:
        await settle(pilot)
        at = foot_of(app).index("? more")
        await pilot.click(offset=(at + 2, HEIGHT - 1))
        await settle(pilot)
        assert isinstance(app.screen, FullTextScreen)


@pytest.mark.parametrize("columns", WIDTHS)
async def test_below_a_dialog_no_key_of_the_queue_is_listed(columns: int) -> None:
    """Letters are typed there."""
    app = main_scenes()["waiting"]()
    async with app.run_test(size=(columns, HEIGHT)) as pilot:
        await settle(pilot)
        await pilot.press("n")
        await settle(pilot)
        assert foot_of(app).startswith("enter denies  esc back")
        assert "approve" not in foot_of(app)


@sweep(("columns", "rows"), [(45, 24), (80, 24), (45, 60)], few=1)
async def test_what_is_remembered_where_and_how_long_are_in_sight(columns: int, rows: int) -> None:
    """Whenever the confirming key acts; else it shows what is chosen."""
    app = Stage()
    async with app.run_test(size=(columns, rows)) as pilot:
        asking = terminal_scenes()["remember"]()
        assert isinstance(asking, RememberScreen)
        sent: list[Remember | None] = []
        await app.push_screen(asking, sent.append)
        await settle(pilot)
        for at, value in enumerate(asking.what.values):
            await pilot.press("space")
            for _ in range(len(asking.what.values)):  # back to the top: the choice may be far below
                await pilot.press("up")
            await settle(pilot)
            shown, lives = words_of(app), next(iter(LIFETIME_WORDS.values()))
            words = ("only in the session", "in all sessions", f"how long {lives}")
            assert [one for one in words if one not in shown] == []
            assert ("approve and remember" in foot_of(app)) == (chosen_of(asking) in shown)
            while "show your choice" in foot_of(app):
                await pilot.press("ctrl+s")
                await settle(pilot)
                assert sent == []
            assert chosen_of(asking) in words_of(app)
            assert "^s approve and remember" in foot_of(app)
            await pilot.press(*["down"] * (at + 1))
            assert asking.what.chosen == [value]
        await pilot.press("space")
        while not sent:
            await pilot.press("ctrl+s")
            await settle(pilot)
    assert sent[0] is not None and sent[0].offer == asking.what.values[-1]


async def test_a_choice_higher_than_the_screen_is_remembered_from_its_end() -> None:
    """The confirming key pages through it."""
    record = states.asked()
    said = render_safe("\n".join(f"row {at}" for at in range(60)))
    offers = [(RememberOption(id="long", words=said), "the end")]
    app = Stage()
    async with app.run_test(size=(45, 24)) as pilot:
        sent: list[Remember | None] = []
        await app.push_screen(RememberScreen(record, offers, Text("about")), sent.append)
        await settle(pilot)
        seen = set()
        while not sent:
            assert "the end" not in text_of(app) or "approve and remember" in foot_of(app)
            seen |= {at for at in range(60) if f"row {at} " in text_of(app)}
            await pilot.press("ctrl+s")
            await settle(pilot)
    assert seen == set(range(60))


async def test_the_full_text_offers_approval_once_its_end_was_seen() -> None:
    """Until then the line at the foot leads there."""
    app = Stage()
    async with app.run_test(size=(45, 24)) as pilot:
        sent: list[str | None] = []
        await app.push_screen(terminal_scenes()["full"](), sent.append)
        await settle(pilot)
        assert foot_of(app).startswith("PgDn read on  n deny ")
        assert "approve" not in foot_of(app)
        await pilot.press("y")
        assert sent == []
        await pilot.press("end")
        await settle(pilot)
        assert foot_of(app).startswith("y approve  n deny ")
        assert "read on" not in foot_of(app)
        await pilot.press("y")
    assert sent == ["y"]


@pytest.mark.parametrize("columns", WIDTHS)
async def test_the_full_text_says_for_whom_and_where(columns: int) -> None:
    """Above all that would run."""
    app = Stage()
    async with app.run_test(size=(columns, 24)) as pilot:
        await app.push_screen(terminal_scenes()["full"]())
        await settle(pilot)
        above = text_of(app).partition("── ⟨")[0]
        for fact in ('Agent "deployer"', 'Host "ci-7"', 'Folder "/srv/app"'):
            assert fact in above


@sweep(
    ("look", "columns"),
    [
        ("dark", 45),
        ("light", 80),
        ("dark", 80),
        ("light", 45),
    ],
    few=1,
)
async def test_every_word_can_be_read_in_both_looks(look: str, columns: int) -> None:
    """Of the screen and of each dialog, as the library draws it: text has 4.5 to its ground."""
    poor = set()
    makes: list[tuple[str, Callable[[], App[None]], Any]] = [
        *((name, make, None) for name, make in main_scenes().items()),
        *((name, Stage, make) for name, make in terminal_scenes().items()),
    ]
    for name, make, prompt in makes:
        app = make()
        app.theme = THEMES[look]
        async with app.run_test(size=(columns, HEIGHT), notifications=True) as pilot:
            if prompt is not None:
                await app.push_screen(prompt())
            app.notify("told", severity="error")
            await settle(pilot)
            for strip in app.screen._compositor.render_strips(app.size):
                for part in strip:
                    words = part.text.strip(FRAMES)
                    style = part.style or Style()
                    ink, ground = style.color, style.bgcolor
                    if words and ink and ground:
                        assert ink.triplet and ground.triplet
                        found = round(contrast(ink.triplet, ground.triplet), 2)
                        poor |= {(name, words, found)} if found < READABLE else set()
    assert poor == set()
