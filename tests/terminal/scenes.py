"""Every screen that a prompt of the terminal shows, made of fixed requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from rich.text import Text
from textual.pilot import Pilot
from textual.screen import ModalScreen

from adapters.terminal.cards import (
    HELP,
    ReadableApp,
    render_about,
    render_diff,
    render_edited,
    render_full,
    render_remembered,
    render_risk,
    render_summary,
)
from adapters.terminal.prompts import (
    FormScreen,
    FullTextScreen,
    RememberScreen,
    WordsScreen,
    ask_which,
    render_grants,
)
from adapters.terminal.screen import CARD_CHARS, CARD_LINES, DENY, TerminalApp, ask_edited
from gateway.cards.blocks import changes
from gateway.cards.card import card_of, full_view
from gateway.cards.remember_options import scopes_of
from gateway.domain.records import Identity, StoredRequest
from gateway.models import Action, RiskLevel
from gateway.ports.adapter_api import address_of
from tests.slack import states

HEIGHT = 30
ALL = 10**9
INBOX = "https://approvals.example/inbox"
THEMES = {"dark": "textual-dark", "light": "textual-light"}


def terminal_scenes() -> dict[str, Callable[[], ModalScreen[Any]]]:
    """Return what makes each screen."""
    records = states.RECORDS
    sized = partial(card_of, lines=CARD_LINES, chars=CARD_CHARS)
    about = render_about(sized(records["pending"]))
    git = records["pending-git"]
    kept = render_remembered(sized(git))
    options = [(one, states.REACH) for one in scopes_of(git, Action.APPROVE, passes=True)]
    listed = render_grants(states.GRANTS)
    return {
        "deny": lambda: WordsScreen(DENY, shown=about, enter="denies"),
        "confirm": lambda: _confirm("pending-two"),
        "confirm-findings": lambda: _confirm("pending-findings"),
        "edit": lambda: _edit(states.asked()),
        "edit-high": lambda: _edit(replace(states.asked(risk=states.HIGH), quorum=2)),
        "grants": lambda: WordsScreen(ask_which(states.GRANTS, 4), shown=listed, enter="revokes"),
        "answer": lambda: FormScreen(sized(records["question"])),
        "answer-secret": lambda: FormScreen(sized(records["question-secret"])),
        "remember": lambda: RememberScreen(git, options, kept),
        "full": lambda: _full(states.LONG),
        "full-findings": lambda: _full(records["pending-findings"]),
        "help": lambda: FullTextScreen(Text("Keys", "bold"), Text(HELP)),
    }


def _confirm(name: str) -> WordsScreen:
    card = card_of(states.RECORDS[name], lines=CARD_LINES, chars=CARD_CHARS)
    control = next(one for one in card.controls if one.confirm)
    question = f"{control.question} Type yes"
    return WordsScreen(question, shown=render_about(card), enter="sends", alarmed=True)


def _edit(record: StoredRequest) -> WordsScreen:
    arguments = {"command": "make release"}
    edited = record.edited_as(arguments, states.BOB)
    now, before = (card_of(one, lines=CARD_LINES, chars=CARD_CHARS) for one in (edited, record))
    diff = render_diff(changes(record.arguments, arguments))
    control = next(one for one in now.controls if one.action is Action.EDIT)
    question = f"{ask_edited(record, now, control)} Type yes"
    high = record.risk.level is RiskLevel.HIGH
    return WordsScreen(question, shown=render_edited(now, diff, before), alarmed=high)


def _full(record: StoredRequest) -> FullTextScreen:
    card, view = card_of(record, lines=ALL, chars=ALL), full_view(record)
    return FullTextScreen(
        render_summary(card),
        render_full(card, view.undeclared),
        why_not=lambda key: None,
        size=f"{view.chars} characters, digest {view.digest[:12]}",
        risk=render_risk(card),
    )


class _Fixed:
    """A clock that stands still."""

    def now_ms(self) -> int:
        """Return when the requests were made."""
        return states.MADE


class _Main(TerminalApp):
    """The main screen as it stands, which follows nothing."""

    def __init__(
        self,
        queue: list[StoredRequest],
        *,
        gone: bool = False,
        refusal: str | None = None,
        inbox: str = "",
    ) -> None:
        api = SimpleNamespace(address_of=partial(address_of, inbox))
        super().__init__(cast("Any", api), Identity(platform="terminal", id="ann"), _Fixed())
        self._queue = queue
        self._refusals = {one.id: refusal for one in queue}
        self.gone = gone

    async def on_mount(self) -> None:
        """Draw it, once."""
        self._draw()

    def _follow(self) -> Any:
        """Follow nothing."""

    def _watch(self) -> Any:
        """Watch nothing."""


def main_scenes() -> dict[str, Callable[[], TerminalApp]]:
    """Return what makes the main screen in each of its states."""
    waiting = [states.asked(), states.PAYMENT, states.QUESTION]
    return {
        "waiting": lambda: _Main(waiting),
        "one": lambda: _Main([states.asked()]),
        "question": lambda: _Main([states.QUESTION]),
        "cut": lambda: _Main([states.LONG]),
        "nobody": lambda: _Main([states.RECORDS["pending-nobody"]]),
        "hidden": lambda: _Main([states.RECORDS["pending-hidden"]], inbox=INBOX),
        "hidden-no-address": lambda: _Main([states.RECORDS["pending-hidden"]]),
        "looking": lambda: _Main(waiting, refusal="you are not an approver"),
        "empty": lambda: _Main([]),
        "disconnected": lambda: _Main(waiting, gone=True),
    }


class Stage(ReadableApp):
    """What the prompts stand on."""

    CSS = TerminalApp.CSS
    ENABLE_COMMAND_PALETTE = False


async def drawn_screen(screen: ModalScreen[Any], columns: int, look: str = "dark") -> str:
    """Return a screen as SVG."""
    app = Stage()
    app.theme = THEMES[look]
    async with app.run_test(size=(columns, HEIGHT)) as pilot:
        await app.push_screen(screen)
        await settle(pilot)
        return app.export_screenshot(title="gateway adapter terminal")


async def drawn_main(app: TerminalApp, columns: int, look: str = "dark") -> str:
    """Return the main screen as SVG."""
    app.theme = THEMES[look]
    async with app.run_test(size=(columns, HEIGHT)) as pilot:
        await settle(pilot)
        return app.export_screenshot(title="gateway adapter terminal")


async def settle(pilot: Pilot[None]) -> None:
    """Wait until all that is laid out again has been: rows, then the keys, then their line."""
    for _ in range(4):
        await pilot.pause()
