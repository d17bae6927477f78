"""Every screen that a prompt of the terminal shows, made of fixed requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import Group
from rich.text import Text
from textual.app import App
from textual.screen import ModalScreen

from adapters.terminal.card_text import HELP, render_about, render_diff, render_head
from adapters.terminal.grants import render_grants
from adapters.terminal.prompts import FormScreen, FullTextScreen, RememberScreen, WordsScreen
from adapters.terminal.screen import CARD_CHARS, CARD_LINES, TerminalApp
from gateway.models import Action
from gateway.ports.blocks import changes
from gateway.ports.cards import card_of, full_view
from gateway.ports.remember_options import scopes_of
from tests.slack import states

HEIGHT = 30


def terminal_scenes() -> dict[str, Callable[[], ModalScreen[Any]]]:
    """Return what makes each screen."""
    records = states.RECORDS
    sized = partial(card_of, lines=CARD_LINES, chars=CARD_CHARS)
    about = render_about(sized(records["pending"]))
    diff = render_diff(changes(states.asked().arguments, {"command": "make release"}))
    edited = Group(render_head(sized(records["pending"])), diff)
    two = next(one for one in sized(records["pending-two"]).controls if one.confirm)
    git = records["pending-git"]
    options = [(one, states.REACH) for one in scopes_of(git, Action.APPROVE, passes=True)]
    text = Text(full_view(states.LONG).text)
    listed = render_grants(states.GRANTS)
    return {
        "deny": lambda: WordsScreen("Deny. Words for the agent, or just Enter", shown=about),
        "confirm": lambda: WordsScreen(f"{two.confirm} Type yes"),
        "edit": lambda: WordsScreen("Approve with these changes? Type yes", shown=edited),
        "grants": lambda: WordsScreen("Revoke which? A number, or all", shown=listed),
        "answer": lambda: FormScreen(sized(records["question"])),
        "answer-secret": lambda: FormScreen(sized(records["question-secret"])),
        "remember": lambda: RememberScreen(git, options),
        "full": lambda: FullTextScreen("Writes notes.md", text, decides=True),
        "help": lambda: FullTextScreen("Keys", Text(HELP), decides=False),
    }


class _Stage(App[None]):
    CSS = TerminalApp.CSS
    ENABLE_COMMAND_PALETTE = False


async def drawn_screen(screen: ModalScreen[Any], columns: int) -> str:
    """Return a screen as SVG."""
    app = _Stage()
    async with app.run_test(size=(columns, HEIGHT)) as pilot:
        await app.push_screen(screen)
        await pilot.pause()
        return app.export_screenshot(title="gateway adapter terminal")
