"""The screen: shows one pending request at a time and handles the keys."""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.driver import Driver
from textual.screen import ModalScreen
from textual.widgets import Footer, Static
from textual.worker import Worker, WorkerState

from adapters.terminal.card_text import (
    HELP,
    render_about,
    render_card,
    render_edited,
    render_full,
    render_head,
    render_remembered,
    render_risk,
)
from adapters.terminal.code_text import render_diff
from adapters.terminal.editor import edit_text
from adapters.terminal.grants import ask_which, describe_event, render_grants, revoke_chosen
from adapters.terminal.prompts import YES, FormScreen, FullTextScreen, RememberScreen, WordsScreen
from gateway.errors import GatewayError, StepUpNeeded, Unconfirmed
from gateway.models import Action, DecidedBy, DeciderKind, RiskLevel
from gateway.ports import (
    ANOTHER_PLAN,
    HIDDEN,
    SAY_THE_PLAN,
    Card,
    Click,
    Clock,
    Control,
    Desk,
    Identity,
    JsonObject,
    Query,
    Record,
    card_of,
    changes,
    check_edit,
    full_view,
    hides,
    parse_json,
    scopes_of,
    standing_of,
)

log = logging.getLogger("adapters.terminal")

CARD_LINES, CARD_CHARS = 60, 6000
_ALL = 10**9  # a card without a limit
_MOST_LISTED = 200
_LOOK_SECONDS = 2.0
_GONE = "The gateway does not answer: what is shown may be old, and no key does anything"
_OR_YES = f", or {YES} to have somebody else approve it, too"
_AFTER_YES = "sends what you typed"
_HIGH_NOW = "With these changes it is high risk. Approve it all the same?"
DENY = "Deny it? Words for the agent, if you like"
_NOT_DONE = "no answer: nothing was done"


def ask_edited(record: Record, edited: Card, control: Control | None) -> str:
    """Return the question of an edit: what an approval would be asked, and whether it is one of
    several."""
    asked = control.question if control is not None else ""
    share = "" if "Yours is approval" in asked else say_share(record)
    return " ".join(filter(None, ("Approve with these changes?", asked))) + share


def say_share(record: Record) -> str:
    """Say of an edit that it is the first of several approvals: it voids those before."""
    return f" Yours is approval 1 of {record.quorum}." if record.quorum > 1 else ""


Key = Callable[["TerminalApp"], Coroutine[Any, Any, None]]


def _told_of_failures(key: Key) -> Callable[[TerminalApp], Worker[None]]:
    """Have a key's failure told, which ends neither the screen nor the gateway, and a gateway that
    is gone told at once."""

    @functools.wraps(key)
    async def pressed(screen: TerminalApp) -> None:
        if screen.gone:
            screen.notify(_NOT_DONE, severity="error", markup=False)
        else:
            await key(screen)

    return work(exit_on_error=False)(pressed)


class TerminalApp(App[None]):
    """Shows pending requests to one person and submits their decisions."""

    CSS = """
    #top { dock: top; height: auto; max-height: 3; background: $primary-background; padding: 0 1; }
    #top.gone { background: #8b0000; color: #ffffff; text-style: bold; }
    #card { padding: 0 1; }
    .asking { width: 96%; max-width: 90; height: auto; max-height: 100%; padding: 0 1;
              border: round $primary; background: $surface; }
    .asking Label { width: 100%; }
    .asking VerticalScroll { height: auto; max-height: 45vh; }
    .alarmed { border: heavy $error; }
    .alarmed > Label { color: $text-error; }
    .alarmed > .ways { color: $foreground; }
    .field { height: auto; margin-bottom: 1; }
    .asking Input, .asking Select > SelectCurrent { border: round $foreground 70%; }
    .asking Input:focus, .asking Select:focus > SelectCurrent { border: round $accent; }
    Choices { height: auto; }
    ChoiceRow { height: auto; padding: 0 1; }
    ChoiceRow:focus { background: $primary 40%; }
    .reading { width: 96%; height: 1fr; padding: 0 1; border: round $primary;
               background: $surface; }
    .reading VerticalScroll { height: 1fr; }
    .reading Label { width: 100%; }
    WordsScreen, FormScreen, FullTextScreen, RememberScreen { align: center middle; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        ("y", "approve", "approve"),
        ("n", "deny", "deny"),
        ("e", "edit", "edit"),
        ("f", "full", "read"),
        ("question_mark", "help", "help"),
        ("r", "remember", "remember"),
        # These are told by `?`: the line at the foot is whole on a terminal of 80 columns.
        Binding("p", "replan", "another plan", show=False),
        Binding("c", "copy", "copy", show=False),
        Binding("k", "claim", "looking", show=False),
        Binding("a", "several", "several", show=False),
        Binding("g", "granted", "remembered", show=False),
        ("left", "move(-1)", "◀"),
        ("right", "move(1)", "▶"),
        ("q", "quit", "quit"),
    ]

    def __init__(
        self, desk: Desk, who: Identity, clock: Clock, driver: type[Driver] | None = None
    ) -> None:
        super().__init__(driver_class=driver)
        self._clock = clock
        self._desk = desk
        self._who = who
        self._queue: list[Record] = []
        self._at = 0
        self._more = False
        self._refusals: dict[str, str | None] = {}
        self.gone = False
        self._reader = who.written
        self._typed: dict[str, str] = {}  # into the last edit, by what it was of

    def compose(self) -> ComposeResult:
        """Lay out the queue's status line, the card and the keys."""
        yield Static(id="top", markup=False)
        with VerticalScroll():
            yield Static(id="card", markup=False)
        yield Footer()

    async def on_mount(self) -> None:
        """Start following events."""
        self.query_one(VerticalScroll).focus()
        self.set_interval(1.0, self._draw)
        self._follow()
        self._watch()

    @property
    def record(self) -> Record | None:
        """The displayed request."""
        return self._queue[self._at] if self._queue else None

    # ---------------------------------------------------------------- what happens elsewhere

    @work(exclusive=True)
    async def _follow(self) -> None:
        while True:
            try:
                async with self._desk.feed.changes() as events:
                    await self._reload()
                    async for event in events:
                        if event.request_id:
                            await self._reload()
                        elif news := describe_event(event):
                            self._say(news)
            except Exception as error:
                # Whatever it was, the screen must go on: its end would stop the gateway.
                log.warning("the queue was not read: %s", error, extra={"event": "terminal_behind"})
                self._say(f"not up to date: {error}", bad=True)
                await asyncio.sleep(1)

    @work(exit_on_error=False)
    async def _watch(self) -> None:
        """Say lastingly while the gateway does not answer; then look at everything anew."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            gone = self.gone
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._desk.requests.page(Query(limit=1))
                    if gone:
                        await self._reload()
                self.gone = False
            except Exception as error:
                self.gone = True
                if not gone:
                    log.warning("no answer: %r", error, extra={"event": "terminal_gone"})
            if self.gone != gone:
                self._draw()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Report that a key's action failed; it may be tried again."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and isinstance(error, Exception):
            log.error("a key failed", exc_info=error, extra={"event": "terminal_failed"})
            self._say(f"it failed: {error}", bad=True)

    async def _reload(self) -> None:
        query = Query(soonest=True, followers=False, limit=_MOST_LISTED)
        page = await self._desk.requests.page(query)
        waiting = list(page.items)
        known, shown = {one.id for one in self._queue}, self.record
        if any(one.id not in known for one in waiting):
            self.bell()
        refusals = {one.id: await self._desk.requests.may_decide(self._who, one) for one in waiting}
        if person := await self._desk.requests.person(self._who):
            self._reader = person.name
        self._queue, self._refusals, self._more = waiting, refusals, page.next is not None
        places = {one.id: number for number, one in enumerate(waiting)}
        if shown is not None and shown.id in places:
            self._at = places[shown.id]
        else:
            self._at = min(self._at, max(0, len(waiting) - 1))
            if shown is not None:
                await self._report_outcome(shown)
        self._draw()

    async def _report_outcome(self, before: Record) -> None:
        """Report the outcome of the displayed request, and close open prompts."""
        if isinstance(self.screen, ModalScreen):
            self.screen.dismiss(None)
        ended = await self._desk.requests.get(before.id)
        card = self._build_card(ended)
        self._say(f"{card.title}: {card.outcome.text}" if card.outcome else card.title)

    # ---------------------------------------------------------------- keys

    def action_move(self, by: int) -> None:
        """Show the next or previous request."""
        if self._queue:
            self._at = (self._at + by) % len(self._queue)
            self._draw()
            self.query_one(VerticalScroll).scroll_home(animate=False)

    @_told_of_failures
    async def action_approve(self) -> None:
        """Approve the displayed request, or answer its question."""
        record = self.record
        if record is None:
            return
        card = self._build_card(record)
        if card.fields:
            await self._answer(record, card)
        elif not card.complete:
            self._say("it does not fit here: press f, read it, and approve it there", bad=True)
        else:
            await self._approve(record, card)

    @_told_of_failures
    async def action_deny(self) -> None:
        """Deny the displayed request."""
        if (record := self.record) is not None:
            await self._deny(record)

    @_told_of_failures
    async def action_replan(self) -> None:
        """Deny the displayed request, and have the agent plan again."""
        if (record := self.record) is not None:
            await self._replan(record)

    @_told_of_failures
    async def action_full(self) -> None:
        """Show the full text, where it can also be decided."""
        record = self.record
        if record is None:
            return
        view, card = full_view(record), self._build_card(record)
        key = await self.push_screen_wait(
            FullTextScreen(
                render_head(card),
                render_full(card, view.pages, view.undeclared),
                decides=not card.fields,
                size=f"{view.chars} characters, digest {view.digest[:12]}",
                risk=render_risk(card),
            )
        )
        if key == "y":
            await self._approve(record, self._build_card(record, whole=True))
        elif key == "n":
            await self._deny(record)
        elif key == "p":
            await self._replan(record)

    @_told_of_failures
    async def action_edit(self) -> None:
        """Edit the arguments in the person's editor, show the changes, and approve them."""
        record = self.record
        if record is None or not self._allows(record, Action.EDIT):
            return
        if (text := self._build_card(record, whole=True).editable) is None:
            place = self._desk.address_of(record.id)
            self._say(
                f"it holds secrets: edit it {f'at {place}' if place else 'in the inbox'}", bad=True
            )
            return
        # What was refused before is still there.
        text = self._typed.get(record.digest, text)
        with self.suspend():
            left = await asyncio.to_thread(edit_text, text)
        self._typed = {record.digest: left}
        try:
            arguments = parse_json(left.encode())
            if isinstance(arguments, dict):
                check_edit(record, arguments)
        except GatewayError as error:
            self._say(f"not sent, press e to go on with what you typed: {error}", bad=True)
            return
        if not isinstance(arguments, dict) or arguments == record.arguments:
            self._say("nothing was changed")
            return
        await self._approve_edit(record, arguments)

    @_told_of_failures
    async def action_several(self) -> None:
        """Approve all pending requests that need no confirmation, or a number of them."""
        count = await self.push_screen_wait(
            WordsScreen("Approve how many? A number, or all", "all", enter="lists them first")
        )
        if count is None:
            return
        if not (count == "all" or count.isdecimal()):
            self._say("a number, or all", bad=True)
            return
        plain = [one for one in self._queue[self._at :] if self._is_plain(one)]
        chosen = plain if count == "all" else plain[: int(count)]
        if not chosen:
            self._say("none of them can be approved without a closer look", bad=True)
            return
        now = self._clock.now_ms()
        listed = Group(*(render_card(self._build_card(one), now_ms=now) for one in chosen))
        question = f"Approve these {len(chosen)}? Type {YES}"
        asking = WordsScreen(question, shown=listed, enter=_AFTER_YES)
        if await self.push_screen_wait(asking) == YES:
            for one in chosen:
                await self._click(one, Action.APPROVE)

    @_told_of_failures
    async def action_remember(self) -> None:
        """Approve the displayed request, and remember the decision."""
        record = self.record
        if record is None or not self._allows(record, Action.APPROVE, anew=True):
            return
        card = self._build_card(record)
        if Action.APPROVE not in card.remembers:
            self._say("this one is asked about each time", bad=True)
            return
        may = await self._desk.requests.may_pass(self._who, record)
        offered = scopes_of(record, Action.APPROVE, passes=may)
        reach = self._desk.requests.reach
        scopes = [(one, await reach(record.id, one.id)) for one in offered]
        chosen = await self.push_screen_wait(
            RememberScreen(record, scopes, render_remembered(card))
        )
        if chosen is not None:
            await self._click(record, Action.APPROVE, remember=chosen)

    @_told_of_failures
    async def action_granted(self) -> None:
        """List remembered decisions and revoke the chosen one."""
        grants = await self._desk.grants.newest()
        if not grants:
            self._say("nothing is remembered")
            return
        asking = WordsScreen(ask_which(grants), shown=render_grants(grants), enter="takes it back")
        chosen = await self.push_screen_wait(asking)
        if not chosen:
            return
        try:
            self._say(await revoke_chosen(self._desk, self._who, grants, chosen.strip()))
        except GatewayError as error:
            self._say(str(error), bad=True)

    def action_copy(self) -> None:
        """Copy what would run to the clipboard."""
        if (record := self.record) is not None:
            self.copy_to_clipboard(full_view(record).text)
            self._say("copied")

    @_told_of_failures
    async def action_claim(self) -> None:
        """Claim the displayed request, or release the claim."""
        if (record := self.record) is not None:
            claim = self._desk.requests.claim(record.id, self._who, on=record.claim is None)
            await self._try(record.id, claim)

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(FullTextScreen(Text("Keys", "bold"), Text(HELP), decides=False))

    # ---------------------------------------------------------------- clicks

    async def _approve(self, record: Record, card: Card) -> None:
        if not self._allows(record, Action.APPROVE):
            return
        control = next((one for one in card.controls if one.action is Action.APPROVE), None)
        more: dict[str, Any] | None = {}
        if control is not None and control.confirm is not None:
            more = await self._confirm(
                control.question,
                number=control.number,
                optional=control.optional,
                shown=render_about(card),
                alarmed=card.risk is RiskLevel.HIGH,
            )
        if more is None:
            self._say("not approved")
            return
        await self._click(record, Action.APPROVE, **more)

    async def _approve_edit(self, record: Record, arguments: JsonObject) -> None:
        """Show what will run instead, and approve that after a confirmation."""
        me = DecidedBy(kind=DeciderKind.PERSON, name=self._reader)
        edited = record.edited_as(arguments, me)
        now, before = self._build_card(edited), self._build_card(record)
        changed = render_diff(changes(record.arguments, arguments))
        shown = render_edited(now, changed, before)
        sure = record.risk.level is RiskLevel.HIGH
        control = self._control_of(edited, Action.EDIT)
        number = control is not None and control.number
        optional = control is not None and control.optional
        asked = ask_edited(record, now, control)
        while said := await self._confirm(
            asked, number=number, optional=optional, shown=shown, alarmed=sure
        ):
            more = said if sure or "number" in said else {}
            told = await self._click(record, Action.EDIT, arguments=arguments, **more)
            if not isinstance(told, Unconfirmed):
                return
            number, sure = number or isinstance(told, StepUpNeeded), True
            asked = f"{_HIGH_NOW}{say_share(record)}"

    async def _confirm(
        self,
        sentence: str,
        *,
        number: bool,
        optional: bool,
        shown: RenderableType,
        alarmed: bool,
    ) -> dict[str, Any] | None:
        """Ask for a confirmation, or for the number of a step-up; return what a click says of it,
        None where it was not given."""
        how = YES
        if number:
            how = f"the number that is shown where the agent waits{_OR_YES if optional else ''}"
        question = f"{sentence} Type {how}"
        asking = WordsScreen(question, shown=shown, enter=_AFTER_YES, alarmed=alarmed)
        typed = await self.push_screen_wait(asking)
        if typed == YES and (optional or not number):
            return {"confirmed": True}
        return {"number": typed.strip()} if number and typed and typed.strip().isdigit() else None

    def _control_of(self, record: Record, action: Action) -> Control | None:
        card = self._build_card(record, whole=True)
        return next((one for one in card.controls if one.action is action), None)

    async def _deny(self, record: Record) -> None:
        about = render_about(self._build_card(record))
        words = await self.push_screen_wait(WordsScreen(DENY, shown=about, enter="denies"))
        if words is not None:
            await self._click(record, Action.DENY, message=words)

    async def _replan(self, record: Record) -> None:
        question = f"{ANOTHER_PLAN}. {SAY_THE_PLAN}"
        about = render_about(self._build_card(record))
        asking = WordsScreen(question, shown=about, enter="denies with these words")
        words = await self.push_screen_wait(asking)
        if words == "":
            self._say("not denied: another plan needs words for the agent", bad=True)
        elif words is not None:
            await self._click(record, Action.DENY, message=words, feedback=True)

    async def _answer(self, record: Record, card: Card) -> None:
        answers = await self.push_screen_wait(FormScreen(card))
        if answers is not None:
            await self._click(record, Action.ANSWER, answers=answers, confirmed=True)

    async def _click(self, record: Record, action: Action, **more: Any) -> GatewayError | None:
        click = Click(
            request_id=record.id,
            revision=record.revision,
            identity=self._who,
            action=action,
            nonce=secrets.token_hex(8),
            **more,
        )
        return await self._try(record.id, self._desk.requests.decide(click))

    async def _try(self, request_id: str, call: Awaitable[Record]) -> GatewayError | None:
        try:
            await call
        except StepUpNeeded as needed:
            place = self._desk.address_of(request_id) or "the inbox"
            self._say(f"it takes a step-up: {needed}. Answer at {place}", bad=True)
            await self._reload()
            return needed
        except GatewayError as error:
            self._say(str(error), bad=True)
            await self._reload()
            return error
        return None

    def _allows(self, record: Record, action: Action, *, anew: bool = False) -> bool:
        """Whether the person is offered this; says why not. With `anew` it need not be new to
        them: they may approve again, and have it remembered."""
        standing = standing_of(record, "" if anew else self._reader)
        if hides(record):
            self._say(HIDDEN, bad=True)
        elif action not in record.request.allowed:
            self._say(f"this request does not allow {action}", bad=True)
        elif not standing.offers(action):
            self._say(standing.notice or standing.words, bad=bool(standing.notice))
        else:
            return True
        return False

    def _is_plain(self, record: Record) -> bool:
        approve = {one.action: one for one in self._build_card(record).controls}.get(Action.APPROVE)
        mine = self._refusals.get(record.id) is None
        return mine and approve is not None and approve.confirm is None

    # ---------------------------------------------------------------- drawing

    def _draw(self) -> None:
        record = self.record
        # Query the base screen: a prompt may be on top.
        base = self.screen_stack[0]
        if not base.query("#top"):
            return  # the terminal is being closed
        top = base.query_one("#top", Static)
        top.set_class(self.gone, "gone")
        top.update(self._top())
        shown: Any = Text("\n  Nothing waits for an answer.", style="dim")
        if record is not None:
            shown = render_card(self._build_card(record), now_ms=self._clock.now_ms())
            if refusal := self._refusals.get(record.id):
                look = f"  You may only look: {refusal}.\n  You answer as {self._who.written}."
                shown = Group(shown, Text(look, style="dim"))
        base.query_one("#card", Static).update(shown)

    def _top(self) -> Text:
        if self.gone:
            return Text(_GONE)
        if not self._queue:
            return Text(f"approval gateway · {self._who.id}")
        more = "+" if self._more else ""
        return Text(f"{self._at + 1} of {len(self._queue)}{more} waiting · {self._who.id}")

    def _build_card(self, record: Record, *, whole: bool = False) -> Card:
        """Return the card as this person sees it."""
        lines, chars = (_ALL, _ALL) if whole else (CARD_LINES, CARD_CHARS)
        return card_of(record, lines=lines, chars=chars, reader=self._reader)

    def _say(self, text: str, *, bad: bool = False) -> None:
        self.notify(text, severity="error" if bad else "information", markup=False)
