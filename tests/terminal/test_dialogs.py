"""Dialogs: they begin at the top, tell the way back, and take no silence for an answer."""

from __future__ import annotations

import pytest
from textual.app import App

from adapters.terminal.prompts import FormScreen, FullTextScreen, RememberScreen, WordsScreen
from gateway.domain.records import Identity
from gateway.models import Action, FieldKind, Kind, Question, Status
from tests.terminal.scenes import HEIGHT, Stage, main_scenes, terminal_scenes
from tests.terminal.seat import seated, staffed
from tests.world import World

WIDTHS = (45, 80)


def text_of(app: App[None]) -> str:
    """Return all that is on the screen."""
    lines = app.screen._compositor.render_strips(app.size)
    return "\n".join("".join(segment.text for segment in strip) for strip in lines)


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", sorted(terminal_scenes()))
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
        seen = " ".join(text_of(app).replace("│", " ").split())
        assert 'Runs "git log --oneline -n 5"' in seen
        assert "(•) exactly this: `git log --oneline -n 5` in /srv/app on ci-7" in seen
        assert "( ) git log, with no flags but --oneline -n, run in /srv/app on ci-7" in seen
        first = asking.what.chosen
        await pilot.press(*["down"] * (len(asking.what.values) - 1))
        await pilot.pause()
        assert asking.what.chosen == first
        seen = " ".join(text_of(app).replace("│", " ").split())
        assert "looks destructive" in seen
        await pilot.press("space")
        assert asking.what.chosen == asking.what.values[-1:]


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
        await seat.sees("read it to its end first: lines 1\N{EN DASH}")
        assert isinstance(seat.screen.screen, FullTextScreen)
        assert (await world.core.requests.get(record.id)).status is Status.PENDING
        await seat.press("end")
        await seat.sees("rm -rf /")
        await seat.press("y")
        assert (await seat.ended(record)).status is Status.APPROVED


@pytest.mark.parametrize("lines", range(15, 27))
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
        await pilot.pause()
        assert "enter denies · esc back" in text_of(app)


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
    assert "or all: the 6 listed" in shown
    held = [line[line.index("│") :] for line in shown.split("\n") if "│" in line]
    assert [line for line in held if line.startswith(("│ yet", "│ times", "│ exactly"))] == []


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("waiting", "1 of 3 waiting"),
        ("empty", "Nothing waits"),
        ("disconnected", "no key does anything"),
    ],
)
async def test_the_main_screen_says_how_it_stands(name: str, said: str, columns: int) -> None:
    """With the key of the help, also where it is narrow."""
    app = main_scenes()[name]()
    assert app._who == Identity(platform="terminal", id="ann")
    async with app.run_test(size=(columns, HEIGHT)) as pilot:
        await pilot.pause()
        shown = " ".join(text_of(app).split())
        assert said in shown
        assert "? help" in shown
