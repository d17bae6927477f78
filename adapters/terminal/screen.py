"""Show one pending request at a time and handle the keys; start with TerminalApp."""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.driver import Driver
from textual.screen import ModalScreen
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from adapters.terminal.cards import (
    HELP,
    HangingIndent,
    ReadableApp,
    render_about,
    render_card,
    render_diff,
    render_edited,
    render_full,
    render_remembered,
    render_risk,
    render_summary,
)
from adapters.terminal.keys import HELP_KEY, Key, KeyLine, bind, find_hindrance
from adapters.terminal.prompts import (
    YES,
    FormScreen,
    FullTextScreen,
    RememberScreen,
    WordsScreen,
    ask_which,
    describe_event,
    edit_text,
    render_grants,
    revoke_chosen,
)
from gateway.cards.blocks import changes
from gateway.cards.card import Card, Control, card_of, full_view
from gateway.cards.shared_texts import ANOTHER_PLAN, NO_LINK, SAY_THE_PLAN
from gateway.chat.answering import read_edit
from gateway.chat.remembering import Remembering
from gateway.errors import GatewayError, StepUpNeeded, Unconfirmed
from gateway.models import Action, DecidedBy, DeciderKind, RiskLevel
from gateway.ports import AdapterApi, Click, Clock, Identity, JsonObject, Query, StoredRequest

log = logging.getLogger("adapters.terminal")

CARD_LINES, CARD_CHARS = 60, 6000
_ALL = 10**9  # a card without a limit
_MOST_LISTED = 200
_LOOK_SECONDS = 2.0
_GONE = "The gateway does not answer. This view may be out of date, and you cannot decide now."
_OR_YES = f", or {YES} if a second person will approve it too"
_AFTER_YES = "sends it"
_HIGH_NOW = "With these changes the risk is high. Approve anyway?"
DENY = "Deny this request? Message to the agent (optional)"
_NOT_DONE = "you typed nothing, so nothing was done"
_DECIDE = {"y": "approve", "n": "deny", "p": "replan"}  # in the full text
_ALWAYS = ("help", "quit")
_READS = ("full", "copy", "granted")
_NOTHING_WAITS = "no pending requests"
_CHANGED = "the request has just changed: read it again before you decide"
_NONE_PLAIN = "each of these requests needs a closer look before approval"


def ask_edited(record: StoredRequest, edited: Card, control: Control | None) -> str:
    """Return the question to confirm an edit. It includes the question of the Approve key and the
    quorum."""
    asked = control.question if control is not None else ""
    share = "" if "Yours is approval" in asked else say_share(record)
    return " ".join(filter(None, ("Approve with these changes?", asked))) + share


def say_share(record: StoredRequest) -> str:
    """Return a note that the edit counts as the first of several approvals, because it voids
    earlier ones."""
    return f" Yours is approval 1 of {record.quorum}." if record.quorum > 1 else ""


Press = Callable[["TerminalApp"], Coroutine[Any, Any, None]]


def _told_of_failures(press: Press) -> Callable[[TerminalApp], Worker[None]]:
    """Wrap a key's action. If the action has no effect now, show the reason. A failure is reported,
    and does not end the screen.

    If the person may not decide, the action runs anyway, so that the gateway refuses and records
    the attempt.
    """
    action = press.__name__.removeprefix("action_")

    @functools.wraps(press)
    async def pressed(screen: TerminalApp) -> None:
        why = screen.why_not(action)
        if why is None or why == screen.refusal:
            await press(screen)
        else:
            screen.notify(why, severity="warning", markup=False)

    return work(exit_on_error=False)(pressed)


class TerminalApp(ReadableApp):
    """Shows pending requests to one person and submits their decisions."""

    CSS = """
    #top { dock: top; height: auto; max-height: 3; background: $primary-background; color: $text;
           padding: 0 1; }
    #top.gone { background: #8b0000; color: #ffffff; text-style: bold; }
    #card { padding: 0 1; }
    .asking { width: 96%; max-width: 90; height: auto; max-height: 100%; padding: 0 1;
              border: round $primary; background: $surface; }
    .asking Label { width: 100%; }
    .asking VerticalScroll { height: auto; max-height: 45vh; }
    .asking > VerticalScroll { border-bottom: solid $foreground 40%; }
    .alarmed { border: heavy $error; }
    .alarmed > Label { color: $text-error; }
    .field { height: auto; margin-bottom: 1; }
    .asking Input { border: round $foreground 70%; }
    .asking Input:focus { border: round $text-primary; }
    .kept { height: auto; }
    .kept Horizontal { height: auto; }
    .kept Horizontal Label { width: 10; }
    .kept Select { width: 1fr; }
    .kept Select .arrow { color: $foreground; }
    .kept Select:focus > SelectCurrent { background: $primary 40%; }
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
    # The most useful keys come first: the line at the foot lists as many as fit.
    KEYS = (
        Key("y", "approve", "approve"),
        Key("n", "deny", "deny"),
        Key("f", "full", "read"),
        Key("down", "", "scroll", sign="↑ ↓"),
        Key("e", "edit", "edit"),
        Key("r", "remember", "remember"),
        Key("a", "several", "several"),
        Key("g", "granted", "grants"),
        Key("k", "claim", "looking"),
        Key("c", "copy", "copy"),
        Key("p", "replan", "another plan"),
        HELP_KEY,
        Key("q", "quit", "quit", lasts=True),
        # The status line lists these.
        Key("left", "move(-1)"),
        Key("right", "move(1)"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [*bind(KEYS)]

    def __init__(
        self, api: AdapterApi, who: Identity, clock: Clock, driver: type[Driver] | None = None
    ) -> None:
        super().__init__(driver_class=driver)
        self._clock = clock
        self._api = api
        self._who = who
        self._queue: list[StoredRequest] = []
        self._at = 0
        self._more = False
        self._refusals: dict[str, str | None] = {}
        self._card: Card | None = None
        self._plain: dict[tuple[str, int], bool] = {}
        self.gone = False
        self._reader = who.written
        self._typed: dict[str, str] = {}  # the text of the last edit, by the request's digest

    def compose(self) -> ComposeResult:
        """Lay out the queue's status line, the card and the keys."""
        yield Static(id="top", markup=False)
        with VerticalScroll():
            yield Static(id="card", markup=False)
        yield KeyLine(self.list_keys)

    async def on_mount(self) -> None:
        """Start following events."""
        self.query_one(VerticalScroll).focus()
        self.set_interval(1.0, self._draw)
        self._follow()
        self._watch()

    @property
    def record(self) -> StoredRequest | None:
        """The displayed request."""
        return self._queue[self._at] if self._queue else None

    @property
    def refusal(self) -> str | None:
        """The reason why this person may not decide the displayed request; None if they may."""
        return self._refusals.get(self.record.id) if self.record is not None else None

    # ---------------------------------------------------------------- which keys have an effect

    def why_not(self, action: str) -> str | None:
        """Return the reason why a key's action has no effect now, or None if it has an effect. Both
        the keys and the footer use this."""
        record, card = self.record, self._card
        if action in _ALWAYS:
            return None
        if self.gone:
            return _NOT_DONE
        if record is None or card is None:
            return None if action == "granted" else _NOTHING_WAITS
        if (card.request_id, card.revision) != (record.id, record.revision):
            return _CHANGED
        return self._find_hindrance(record, card, action)

    def list_keys(self) -> Iterator[Key]:
        """Yield the keys that have an effect now."""
        for one in self.KEYS:
            if one.word == "scroll":
                does = self.screen_stack[0].query_one(VerticalScroll).max_scroll_y > 0
            else:
                does = bool(one.word) and self.why_not(one.action) is None
            if does:
                asks = one.action == "approve" and self._card is not None and self._card.fields
                yield replace(one, word="answer") if asks else one

    def _find_hindrance(self, record: StoredRequest, card: Card, action: str) -> str | None:
        if action in _READS:
            return None
        if action == "several":
            return None if any(map(self._is_plain, self._queue[self._at :])) else _NONE_PLAIN
        why = find_hindrance(record, card, action, self._reader, self._place_of)
        return why or self._refusals.get(record.id)

    # ---------------------------------------------------------------- events

    @work(exclusive=True)
    async def _follow(self) -> None:
        while True:
            try:
                async with self._api.feed.changes() as events:
                    await self._reload()
                    async for event in events:
                        if event.request_id:
                            await self._reload()
                        elif news := describe_event(event):
                            self._say(news)
            except Exception as error:
                # Go on after any error, because the end of the screen would stop the gateway.
                log.warning(
                    "could not read the queue: %s", error, extra={"event": "terminal_behind"}
                )
                self._say(f"this view is not up to date: {error}", bad=True)
                await asyncio.sleep(1)

    @work(exit_on_error=False)
    async def _watch(self) -> None:
        """Show a warning while the gateway does not answer; reload all requests once it answers."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            gone = self.gone
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._api.requests.page(Query(limit=1))
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
        """Report that a key's action failed. The person can press the key again."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and isinstance(error, Exception):
            log.error("a key failed", exc_info=error, extra={"event": "terminal_failed"})
            self._say(f"it failed: {error}", bad=True)

    async def _reload(self) -> None:
        query = Query(soonest=True, followers=False, limit=_MOST_LISTED)
        page = await self._api.requests.page(query)
        waiting = list(page.items)
        known, shown = {one.id for one in self._queue}, self.record
        if any(one.id not in known for one in waiting):
            self.bell()
        refusals = {one.id: await self._api.requests.may_decide(self._who, one) for one in waiting}
        if person := await self._api.requests.person(self._who):
            self._reader = person.name
        self._queue, self._refusals, self._more = waiting, refusals, page.next is not None
        self._plain = {}
        places = {one.id: number for number, one in enumerate(waiting)}
        if shown is not None and shown.id in places:
            self._at = places[shown.id]
        else:
            self._at = min(self._at, max(0, len(waiting) - 1))
            if shown is not None:
                await self._report_outcome(shown)
        self._draw()

    async def _report_outcome(self, before: StoredRequest) -> None:
        """Report the outcome of the displayed request, and close open prompts."""
        if isinstance(self.screen, ModalScreen):
            self.screen.dismiss(None)
        ended = await self._api.requests.get(before.id)
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
        if (record := self.record) is not None:
            card = self._build_card(record)
            await (self._answer if card.fields else self._approve)(record, card)

    @_told_of_failures
    async def action_deny(self) -> None:
        """Deny the displayed request."""
        if (record := self.record) is not None:
            await self._deny(record)

    @_told_of_failures
    async def action_replan(self) -> None:
        """Deny the displayed request, and ask the agent for another plan."""
        if (record := self.record) is not None:
            await self._replan(record)

    @_told_of_failures
    async def action_full(self) -> None:
        """Show the full text, with keys to decide."""
        record = self.record
        if record is None:
            return
        view, card = full_view(record), self._build_card(record, whole=True)

        def why_not(key: str) -> str | None:
            return self._find_hindrance(record, card, _DECIDE[key])

        key = await self.push_screen_wait(
            FullTextScreen(
                render_summary(card),
                render_full(card, view.undeclared),
                why_not=None if card.fields else why_not,
                refusal=self._refusals.get(record.id),
                size=f"{view.chars} characters, digest {view.digest[:12]}",
                risk=render_risk(card),
            )
        )
        if key == "y":
            await self._approve(record, card)
        elif key == "n":
            await self._deny(record)
        elif key == "p":
            await self._replan(record)

    @_told_of_failures
    async def action_edit(self) -> None:
        """Edit the arguments in the person's editor, show the changes, and approve them."""
        record = self.record
        if record is None or (text := self._build_card(record).editable) is None:
            return
        # Start from the text that was refused before, if any.
        text = self._typed.get(record.digest, text)
        with self.suspend():
            left = await asyncio.to_thread(edit_text, text)
        self._typed = {record.digest: left}
        try:
            arguments = read_edit(record, left)
        except GatewayError as error:
            self._say(f"your edit was not sent: {error}. Press e to continue it.", bad=True)
            return
        if arguments == record.arguments:
            self._say("nothing was changed")
            return
        await self._approve_edit(record, arguments)

    @_told_of_failures
    async def action_several(self) -> None:
        """Approve several of the pending requests that need no confirmation."""
        count = await self.push_screen_wait(
            WordsScreen("Approve how many? A number, or all", "all", enter="lists them first")
        )
        if count is None:
            return
        if not (count == "all" or count.isdecimal()):
            self._say("type a number, or all", bad=True)
            return
        plain = [one for one in self._queue[self._at :] if self._is_plain(one)]
        chosen = plain if count == "all" else plain[: int(count)]
        if not chosen:
            self._say(_NONE_PLAIN, bad=True)
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
        """Approve the displayed request, and create a grant."""
        record = self.record
        if record is None:
            return
        card = self._build_card(record)
        remembering = Remembering(self._api)
        offered = await remembering.list_options(self._who, record, Action.APPROVE, _ALL)
        reach = await remembering.find_reach(record, offered)
        usual = await remembering.find_usual(record, reach)
        scopes = [(one, reach[one.id]) for one in offered]
        chosen = await self.push_screen_wait(
            RememberScreen(record, scopes, render_remembered(card), usual)
        )
        if chosen is not None:
            await self._click(record, Action.APPROVE, remember=chosen)

    @_told_of_failures
    async def action_granted(self) -> None:
        """List grants and revoke the chosen one."""
        grants = await self._api.grants.newest()
        if not grants:
            self._say("there are no grants")
            return
        mine = await self._api.grants.newest(revocable_by=self._who)
        question = ask_which(grants, len(mine))
        asking = WordsScreen(question, shown=render_grants(grants), enter="revokes")
        chosen = await self.push_screen_wait(asking)
        if not chosen:
            return
        try:
            self._say(await revoke_chosen(self._api, self._who, grants, chosen.strip()))
        except GatewayError as error:
            self._say(str(error), bad=True)

    def action_copy(self) -> None:
        """Copy the call to the clipboard."""
        if (record := self.record) is not None:
            self.copy_to_clipboard(full_view(record).text)
            self._say("copied")

    @_told_of_failures
    async def action_claim(self) -> None:
        """Claim the displayed request, or release the claim."""
        if (record := self.record) is not None:
            claim = self._api.requests.claim(record.id, self._who, on=record.claim is None)
            await self._try(record.id, claim)

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(FullTextScreen(Text("Keys", "bold"), Text(HELP)))

    # ---------------------------------------------------------------- clicks

    async def _approve(self, record: StoredRequest, card: Card) -> None:
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

    async def _approve_edit(self, record: StoredRequest, arguments: JsonObject) -> None:
        """Show the edited call, and approve it after a confirmation."""
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
        """Ask for a confirmation or a verification code. Return the members that it adds to the
        click, or None if cancelled."""
        how = YES
        if number:
            how = f"the number that is shown where the agent waits{_OR_YES if optional else ''}"
        question = f"{sentence} Type {how}"
        asking = WordsScreen(question, shown=shown, enter=_AFTER_YES, alarmed=alarmed)
        typed = await self.push_screen_wait(asking)
        if typed == YES and (optional or not number):
            return {"confirmed": True}
        return {"number": typed.strip()} if number and typed and typed.strip().isdigit() else None

    def _control_of(self, record: StoredRequest, action: Action) -> Control | None:
        card = self._build_card(record, whole=True)
        return next((one for one in card.controls if one.action is action), None)

    async def _deny(self, record: StoredRequest) -> None:
        about = render_about(self._build_card(record))
        words = await self.push_screen_wait(WordsScreen(DENY, shown=about, enter="denies"))
        if words is not None:
            await self._click(record, Action.DENY, message=words)

    async def _replan(self, record: StoredRequest) -> None:
        question = f"{ANOTHER_PLAN}. {SAY_THE_PLAN}"
        about = render_about(self._build_card(record))
        asking = WordsScreen(question, shown=about, enter="denies")
        words = await self.push_screen_wait(asking)
        if words == "":
            self._say("not denied: to ask for another plan, type a message to the agent", bad=True)
        elif words is not None:
            await self._click(record, Action.DENY, message=words, feedback=True)

    async def _answer(self, record: StoredRequest, card: Card) -> None:
        answers = await self.push_screen_wait(FormScreen(card))
        if answers is not None:
            await self._click(record, Action.ANSWER, answers=answers, confirmed=True)

    async def _click(
        self, record: StoredRequest, action: Action, **more: Any
    ) -> GatewayError | None:
        click = Click(
            request_id=record.id,
            revision=record.revision,
            identity=self._who,
            action=action,
            nonce=secrets.token_hex(8),
            **more,
        )
        return await self._try(record.id, self._api.requests.decide(click))

    async def _try(self, request_id: str, call: Awaitable[StoredRequest]) -> GatewayError | None:
        try:
            await call
        except StepUpNeeded as needed:
            place = self._place_of(request_id)
            self._say(f"extra verification needed: {needed}. Go on at {place}", bad=True)
            await self._reload()
            return needed
        except GatewayError as error:
            self._say(str(error), bad=True)
            await self._reload()
            return error
        return None

    def _place_of(self, request_id: str) -> str:
        return self._api.address_of(request_id) or f"the inbox. {NO_LINK}"

    def _is_plain(self, record: StoredRequest) -> bool:
        known = (record.id, record.revision)
        if known not in self._plain:
            controls = {one.action: one for one in self._build_card(record).controls}
            approve = controls.get(Action.APPROVE)
            self._plain[known] = approve is not None and approve.confirm is None
        return self._plain[known] and self._refusals.get(record.id) is None

    # ---------------------------------------------------------------- drawing

    def _draw(self) -> None:
        record = self.record
        # Query the base screen, because a prompt may be on top.
        base = next(iter(self.screen_stack), None)
        if base is None or not base.query("#top"):
            return  # the screen is closing
        top = base.query_one("#top", Static)
        top.set_class(self.gone, "gone")
        top.update(self._top())
        shown: Any = Text("\n  No pending requests.", style="dim")
        self._card = None if record is None else self._build_card(record)
        if self._card is not None:
            shown = render_card(self._card, now_ms=self._clock.now_ms())
            if self.refusal:
                why_not = f"You can read this request but not decide it: {self.refusal}."
                look = why_not, f"You are {self._who.written}."
                shown = Group(shown, *(HangingIndent(Text(one)) for one in look))
        base.query_one("#card", Static).update(shown)
        self.call_after_refresh(base.query_one(KeyLine).look)

    def _top(self) -> Text:
        if self.gone:
            return Text(_GONE)
        if not self._queue:
            return Text(f"approval gateway · {self._who.id}")
        more = "+" if self._more else ""
        others = " · ← → the others" if len(self._queue) > 1 else ""
        return Text(f"{self._at + 1} of {len(self._queue)}{more} pending{others} · {self._who.id}")

    def _build_card(self, record: StoredRequest, *, whole: bool = False) -> Card:
        """Build the card as this person sees it; `whole` lifts the size limits."""
        lines, chars = (_ALL, _ALL) if whole else (CARD_LINES, CARD_CHARS)
        card = card_of(record, lines=lines, chars=chars, reader=self._reader)
        return replace(card, inbox=self._api.address_of(record.id))

    def _say(self, text: str, *, bad: bool = False) -> None:
        self.notify(text, severity="error" if bad else "information", markup=False)
