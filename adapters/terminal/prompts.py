"""Define the modal screens (text, form, grant, full text), open an editor, and list grants."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import DescendantFocus
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Label, Select, Static

from adapters.terminal.cards import render_text, say_secret
from adapters.terminal.keys import HELP_KEY, Key, KeyLine, bind
from gateway.cards.card import Card, Field
from gateway.cards.grant_cards import grant_card_of
from gateway.cards.remember_options import LIFETIME_WORDS, RememberOption, remember_as
from gateway.chat.remembering import ALL, Remembering
from gateway.errors import InvalidRequest
from gateway.models import FieldKind
from gateway.ports import (
    AdapterApi,
    AuditEvent,
    Grant,
    Identity,
    JsonObject,
    Remember,
    StoredRequest,
    render_safe,
    say_event,
)

# Choices: each entry in full, with marks that differ in shape, not only in colour.


class ChoiceRow(Static):
    """One entry of a list: its mark and its text."""

    def __init__(self, text: Text, *, many: bool) -> None:
        self._text = text
        self._marks = ("[ ]", "[x]") if many else ("( )", "(•)")
        self.on = False
        super().__init__(self._draw())

    def switch(self, *, on: bool) -> None:
        """Choose the entry, or undo the choice."""
        self.on = on
        self.update(self._draw())

    def on_click(self) -> None:
        """Choose the entry, as the Space key does."""
        if isinstance(self.parent, Choices):
            self.parent.choose(self)

    def _draw(self) -> RenderableType:
        row = Table.grid(padding=(0, 1), expand=True)
        row.add_column(width=len(self._marks[0]))
        row.add_column(ratio=1)
        row.add_row(Text(self._marks[self.on]), self._text)
        return row


class Choices(Vertical):
    """A list of entries, from which the person can choose one or `many`. If `needed`, a single
    choice cannot be undone.

    One entry has the focus at a time. Tab leaves the list.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", "up", show=False),
        Binding("down", "walk(1)", "down", show=False),
        Binding("space,enter", "choose", "choose", show=False),
    ]

    class Chosen(Message):
        """A message that the choice has changed."""

    def __init__(
        self,
        choices: Sequence[tuple[Text, str]],
        *,
        many: bool = False,
        needed: bool = True,
        chosen: str | None = None,
    ) -> None:
        super().__init__()
        self._many, self._needed = many, needed
        self.values = [value for _, value in choices]
        self.entries = [ChoiceRow(text, many=many) for text, _ in choices]
        for entry, value in zip(self.entries, self.values, strict=True):
            entry.switch(on=value == chosen)
        for first in self.entries[:1]:
            first.can_focus = True

    def compose(self) -> ComposeResult:
        """Lay out the entries."""
        yield from self.entries

    @property
    def chosen(self) -> list[str]:
        """The chosen values, in the order of the list."""
        found = zip(self.entries, self.values, strict=True)
        return [value for entry, value in found if entry.on]

    def start(self) -> None:
        """Focus the list without scrolling the dialog."""
        for one in self.entries:
            if one.can_focus:
                one.focus(scroll_visible=False)

    def choose(self, entry: ChoiceRow) -> None:
        """Choose an entry, or undo its choice."""
        on = not entry.on or (self._needed and not self._many)
        if not self._many:
            for one in self.entries:
                one.switch(on=False)
        entry.switch(on=on)
        self.post_message(self.Chosen())

    def action_walk(self, by: int) -> None:
        """Move the focus by this many entries, without choosing."""
        here = self._at()
        there = min(max(here + by, 0), len(self.entries) - 1)
        if here != there:
            self.entries[there].can_focus = True
            self.entries[there].focus()
            self.entries[here].can_focus = False

    def action_choose(self) -> None:
        """Choose the focused entry."""
        self.choose(self.entries[self._at()])

    def _at(self) -> int:
        return next(at for at, one in enumerate(self.entries) if one.can_focus)


YES = "yes"
_PLACE_ROWS = 2
_NO = "no"
_ALARMED = "alarmed"  # the class of a dialog about high risk
_LEAST_SHOWN = 3  # rows
_MARGIN = 1
_BACK = Key("escape", "leave", "back", sign="esc", lasts=True)
_SEND = Key("ctrl+s", "send", "send the answer", sign="^s", lasts=True)

Result = TypeVar("Result")


class _Dialog(ModalScreen[Result]):
    """A dialog with a scrollable text above the question; the text gets all free rows."""

    def on_mount(self) -> None:
        """Update the keys whenever the text scrolls."""
        for shown in self.query(VerticalScroll):
            self.watch(shown, "scroll_y", self._look, init=False)

    def on_resize(self) -> None:
        """Give all free rows to the scrollable text."""
        self.call_after_refresh(self._fit)

    def action_leave(self) -> None:
        """Close the screen without a result."""
        self.dismiss(None)

    def _scrolls(self) -> bool:
        return any(shown.max_scroll_y > 0 for shown in self.query(VerticalScroll))

    def _look(self) -> None:
        """Update the listed keys after the next drawing."""
        self.call_after_refresh(self.query_one(KeyLine).look)

    def _fit(self) -> None:
        for shown in self.query(VerticalScroll):
            asking = self.query_one(".asking", Vertical)
            others = sum(one.outer_size.height for one in asking.children if one is not shown)
            foot = self.query_one(KeyLine).outer_size.height
            free = self.size.height - others - asking.gutter.height - foot - _MARGIN
            shown.styles.max_height = max(_LEAST_SHOWN, free)
        self._look()


class WordsScreen(_Dialog[str | None]):
    """Asks for one line of text. Returns None if the person cancels. `enter` is the footer's word
    for the Enter key."""

    AUTO_FOCUS = "Input"  # not the scrollable text above it
    KEYS = (
        _BACK,
        Key("up", "scroll_shown(-1)"),
        Key("down", "scroll_shown(1)", "scroll", sign="↑ ↓"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [*bind(KEYS)]

    def __init__(
        self,
        question: str,
        value: str = "",
        shown: RenderableType | None = None,
        *,
        enter: str = "sends",
        alarmed: bool = False,
    ) -> None:
        super().__init__()
        self._question = question
        self._value = value
        self._shown = shown
        self._enter = enter
        self._alarmed = alarmed

    def compose(self) -> ComposeResult:
        """Lay out the question, the input and the keys."""
        with Vertical(classes=f"asking {_ALARMED if self._alarmed else ''}"):
            if self._shown is not None:
                with VerticalScroll(can_focus=False):
                    yield Static(self._shown, markup=False)
            yield Label(Text(self._question, style="bold"))
            yield Input(self._value)
        yield KeyLine(self.list_keys)

    def list_keys(self) -> Iterator[Key]:
        """Yield Enter, Esc, and the scroll keys if the text does not fit."""
        yield Key("enter", "", self._enter, lasts=True)
        yield from (one for one in self.KEYS if one is _BACK or self._scrolls())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close the screen with the typed text as its result."""
        self.dismiss(event.value)

    def action_scroll_shown(self, by: int) -> None:
        """Scroll the text above the question."""
        for shown in self.query(VerticalScroll):
            shown.scroll_relative(y=by, animate=False)


def _bring_into_sight(*widgets: Widget) -> None:
    for one in widgets:
        one.scroll_visible(animate=False)


class FormScreen(ModalScreen[JsonObject | None]):
    """Asks for the fields of a form. Returns the answers, or None if the person cancels.

    The form starts at its top, and keeps the question of the focused field visible."""

    AUTO_FOCUS = ""
    KEYS = (_SEND, _BACK)
    BINDINGS: ClassVar[list[BindingType]] = [*bind(KEYS)]

    def __init__(self, card: Card) -> None:
        super().__init__()
        self._card = card
        self._fields = card.fields
        self._widgets: dict[str, Any] = {}

    def compose(self) -> ComposeResult:
        """Lay out one widget for each field."""
        with VerticalScroll(classes="asking", can_focus=False):
            for field in self._fields:
                needed = " *" if field.required else ""
                with Vertical(classes="field"):
                    yield Label(render_text(field.text, "bold").append(needed))
                    if field.secret:
                        yield Label(Text(f"🔒 {say_secret(self._card)}"))
                    self._widgets[field.id] = widget = _build_widget(field)
                    yield widget
            yield Label(
                Text("Fields with * need an answer. Press Tab to move on, Space to choose.")
            )
        yield KeyLine(lambda: self.KEYS)

    def on_mount(self) -> None:
        """Focus the first field."""
        _focus(self._widgets[self._fields[0].id])

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Scroll to the question of the focused widget, and then to the widget itself."""
        asked = next((one for one in event.widget.ancestors if one.has_class("field")), None)
        if isinstance(asked, Widget):
            self.call_after_refresh(_bring_into_sight, asked, event.widget)

    def action_leave(self) -> None:
        """Close the screen without a result."""
        self.dismiss(None)

    def action_send(self) -> None:
        """Close the screen with the answers, unless a required answer is missing."""
        found: JsonObject = {}
        for field in self._fields:
            widget = self._widgets[field.id]
            try:
                found[field.id] = _read_value(field, widget)
            except ValueError:
                return self._point_to(widget, "this is not a number")
        for field in self._fields:
            if field.required and found[field.id] in (None, []):
                return self._point_to(self._widgets[field.id], "this field needs an answer")
        self.dismiss({name: value for name, value in found.items() if value is not None})
        return None

    def _point_to(self, widget: Any, why: str) -> None:
        _focus(widget)
        self.notify(why, severity="error", markup=False)


class RememberScreen(_Dialog[Remember | None]):
    """Asks for scope, place and lifetime of a grant. Returns None if the person cancels.

    `about` is the text above the choices, `usual` the id of the preselected scope. Place and
    lifetime are always visible. The confirming key acts only if the chosen scope is visible;
    otherwise it scrolls to it."""

    AUTO_FOCUS = ""
    KEYS = (replace(_SEND, word="approve and remember"), _BACK)
    BINDINGS: ClassVar[list[BindingType]] = [*bind(KEYS)]

    def __init__(
        self,
        record: StoredRequest,
        scopes: Sequence[tuple[RememberOption, str]],
        about: RenderableType,
        usual: str = "",
    ) -> None:
        super().__init__()
        self._about = about
        offered = [
            (
                render_text(scope.words, "bold").append_text(
                    Text(f"\n{reach}" if reach else "", "not bold")
                ),
                scope.id,
            )
            for scope, reach in scopes
        ]
        places = [
            (Text(f"only in the session {record.request.session}"), ""),
            (Text("in all sessions"), "all"),
        ]
        self.what = Choices(offered, chosen=usual or offered[0][1])
        self.where = Choices(places, chosen="")
        # `Text`, so that markup in names is not interpreted.
        lives = [(Text(words), name) for name, words in LIFETIME_WORDS.items()]
        self.how_long: Select[str] = Select(
            lives, allow_blank=False, value=lives[0][1], type_to_search=False, compact=True
        )

    def compose(self) -> ComposeResult:
        """Lay out the scrollable part (the request, the scopes and their matches in history) above
        place and lifetime."""
        with Vertical(classes="asking"):
            with VerticalScroll(can_focus=False):
                yield Static(self._about, markup=False, classes="field")
                yield Label(Text("what", style="bold"))
                yield self.what
            with Vertical(classes="kept"):
                yield Label(Text("where", style="bold"))
                yield self.where
                with Horizontal():
                    yield Label(Text("how long", style="bold"))
                    yield self.how_long
            yield Label(Text("↑ ↓ walk · Space chooses · Tab moves on"))
        yield KeyLine(self.list_keys)

    def list_keys(self) -> Iterator[Key]:
        """Yield the key that confirms, with its current effect, and the key that goes back."""
        send = self.KEYS[0]
        yield send if self._sees_chosen() else replace(send, word="show your choice")
        yield _BACK

    def on_mount(self) -> None:
        """Focus the scopes, and start at the top."""
        super().on_mount()
        self.what.start()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Scroll to the focused widget; for the first scope, to the top with the request."""
        if event.widget is self.what.entries[0]:
            self.query_one(VerticalScroll).scroll_home(animate=False)
        else:
            self.call_after_refresh(_bring_into_sight, event.widget)

    def on_choices_chosen(self) -> None:
        """Check whether the chosen scope is visible."""
        self._look()

    def action_send(self) -> None:
        """Close the screen with the choices if the chosen scope is visible; otherwise scroll to
        it."""
        if not self._sees_chosen():
            self._show_chosen()
            return
        everywhere = self.where.chosen == ["all"]
        lasts = str(self.how_long.value)
        self.dismiss(remember_as(self.what.chosen[0], lasts, everywhere=everywhere))

    def _sees_chosen(self) -> bool:
        """Return whether the chosen scope is completely visible, or at least its end if it does not
        fit."""
        chosen, shown = self._find_rows()
        begun = chosen.start >= shown.start or len(chosen) > len(shown)
        return begun and shown.start < chosen.stop <= shown.stop

    def _show_chosen(self) -> None:
        chosen, shown = self._find_rows()
        begun = len(chosen) > len(shown) and shown.start in chosen
        by = len(shown) - 1 if begun else chosen.start - shown.start
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def _find_rows(self) -> tuple[range, range]:
        """Return the rows of the chosen scope within the scrollable part, and the visible rows."""
        chosen = next(one for one in self.what.entries if one.on).virtual_region
        above = self.what.virtual_region.y + chosen.y
        shown = self.query_one(VerticalScroll)
        begin = round(shown.scroll_y)
        return range(above, above + chosen.height), range(begin, begin + shown.size.height)


class FullTextScreen(ModalScreen[str | None]):
    """Shows a full text; the result is the pressed decision key, or None if closed.

    `why_not` returns why a decision key has no effect, or None; without `why_not`, no decision key
    works. A key that has no effect for the reason `refusal` is still returned, so that the gateway
    records the attempt. The person must scroll to the end of the text before approving; until then,
    the footer lists the key that scrolls there."""

    KEYS = (
        Key("y", "decide('y')", "approve"),
        Key("pagedown", "", "read on", sign="PgDn", lasts=True),
        Key("n", "decide('n')", "deny"),
        Key("escape,f,q", "leave", "back", sign="esc", lasts=True),
        Key("p", "decide('p')", "another plan"),
        HELP_KEY,
    )
    BINDINGS: ClassVar[list[BindingType]] = [*bind(KEYS)]

    def __init__(
        self,
        title: Text,
        text: RenderableType,
        *,
        why_not: Callable[[str], str | None] | None = None,
        refusal: str | None = None,
        size: str = "",
        risk: Text | None = None,
    ) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._why_not = why_not
        self._refusal = refusal
        self._extent = size
        self._risk = risk or Text()
        self._seen = False

    def compose(self) -> ComposeResult:
        """Lay out the title, the text, and the position within it."""
        with Vertical(classes="reading"):
            yield Label(self._title)
            if self._risk:
                yield Label(Group(self._risk))  # a bare Text would ignore the app's colours
            with VerticalScroll():
                yield Static(self._text, markup=False)
            place = Label("", id="place", markup=False)
            # A fixed height: if it grew later, it would cover rows that count as seen.
            place.styles.height = _PLACE_ROWS
            yield place
        yield KeyLine(self.list_keys)

    def list_keys(self) -> Iterator[Key]:
        """Yield the keys that have an effect now."""
        for one in self.KEYS:
            if one.word == "read on":
                does = not self._at_end()
            elif one.action == "leave":
                does = True
            elif one is HELP_KEY:
                does = self._why_not is not None
            else:
                does = self._why_not is not None and self._why_not(one.names) is None
                does = does and (one.names != "y" or self._seen)
            if does:
                yield one

    def on_mount(self) -> None:
        """Focus the text, so that arrow keys scroll it, and follow its position."""
        shown = self.query_one(VerticalScroll)
        shown.focus()
        self.watch(shown, "scroll_y", self._follow, init=False)

    def on_resize(self) -> None:
        """Update the position."""
        self._follow()

    def action_decide(self, key: str) -> None:
        """Close the screen with the key as its result. Refuse approval until the end of the text
        was visible."""
        if self._why_not is None:
            return
        why = self._why_not(key)
        if key == "y" and not self._seen:
            why = f"read the request to its end first: {self._place()}"
        if why is None or why == self._refusal:
            self.dismiss(key)
        else:
            self.notify(why, severity="error", markup=False)

    def action_leave(self) -> None:
        """Close the screen without a result."""
        self.dismiss(None)

    async def action_help(self) -> None:
        """Show the keys, unless this screen already shows the help."""
        if self._why_not is not None:
            await self.run_action("app.help")

    def _follow(self) -> None:
        self.call_after_refresh(self._note)

    def _note(self) -> None:
        """After drawing, record whether the end of the text is visible, and show the position."""
        self._seen |= self._at_end()
        size = f" · {self._extent}" if self._extent else ""
        self.query_one("#place", Label).update(Text(f"{self._place()}{size}"))
        self.query_one(KeyLine).look()

    def _at_end(self) -> bool:
        shown = self.query_one(VerticalScroll)
        drawn = shown.virtual_size.height > 0 and shown.size.height > 0
        return drawn and round(shown.scroll_y) >= shown.max_scroll_y

    def _place(self) -> str:
        shown = self.query_one(VerticalScroll)
        above, of = round(shown.scroll_y), shown.virtual_size.height
        return f"lines {above + 1}\N{EN DASH}{min(above + shown.size.height, of)} of {of}"


def _focus(widget: Any) -> None:
    if isinstance(widget, Choices):
        widget.start()
    else:
        widget.focus()


def _build_widget(field: Field) -> Any:
    choices = [(render_text(choice.label), choice.value) for choice in field.choices]
    if field.kind is FieldKind.BOOLEAN:
        # Neither is preselected: a person who chooses nothing has not answered no.
        return Choices([(Text(YES), YES), (Text(_NO), _NO)], needed=field.required)
    if field.kind in (FieldKind.CHOICE, FieldKind.CHOICES):
        many = field.kind is FieldKind.CHOICES
        return Choices(choices, many=many, needed=field.required)
    return Input(password=field.secret, type="number" if field.kind is FieldKind.NUMBER else "text")


def _read_value(field: Field, widget: Any) -> Any:
    """Return a field's answer, or None if the field is empty. Raises ValueError if a field for a
    number contains something else."""
    if field.kind is FieldKind.CHOICES:
        return widget.chosen
    if field.kind is FieldKind.CHOICE:
        return next(iter(widget.chosen), None)
    if field.kind is FieldKind.BOOLEAN:
        return widget.chosen[0] == YES if widget.chosen else None
    if not widget.value:
        return None
    return _parse_number(widget.value) if field.kind is FieldKind.NUMBER else widget.value


def _parse_number(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdigit() else float(text)


# Editing a request's arguments in the person's own editor.


def edit_text(text: str) -> str:
    """Open the text in the person's editor, and return the saved text.

    Deletes its temporary file. Raises OSError if the editor does not exist.
    """
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arguments.json"
        path.write_text(text, encoding="utf-8")
        subprocess.run([*editor, str(path)], check=False)
        return path.read_text(encoding="utf-8")


# Grants: list and revoke them in the terminal.

_GRANTS_MARGIN = 3


def render_grants(grants: Sequence[Grant]) -> Group:
    """Return a numbered list of grants, with a title and an explanation."""
    title = f"Grants, newest first: {len(grants)}"
    lines: list[RenderableType] = [
        Text(title, style="bold"),
        Text(
            "Active grants decide matching requests without asking people. Suspended grants do "
            "not.\n"
        ),
    ]
    for number, grant in enumerate(grants, 1):
        card = grant_card_of(grant)
        until = _render_end(card.until)
        facts = " · ".join(f"{one.label} {one.text.text}" for one in card.facts)
        lines += [
            Text(f"{number}. {card.word} · ", style="bold").append_text(render_text(card.tool)),
            _set_in(render_text(card.words)),
            _set_in(Text(f"{facts} · {until} · {card.uses}")),
            *(_set_in(Text(f"! {notice}", style="yellow")) for notice in card.notices),
        ]
    return Group(*lines)


def ask_which(grants: Sequence[Grant], mine: int) -> str:
    """Return the question below the list of grants. The person can revoke `mine` of them."""
    listed = f"You can revoke {mine} of the {len(grants)} listed."
    return f"Revoke which grant? Type its number, or {ALL}. {listed}"


async def revoke_chosen(
    api: AdapterApi, who: Identity, grants: Sequence[Grant], chosen: str
) -> str:
    """Revoke the grant with the chosen number, or all grants; return a message. Raises
    GatewayError."""
    if chosen != ALL:
        if not chosen.isdecimal() or not 1 <= int(chosen) <= len(grants):
            raise InvalidRequest(f"type a number from the list, or {ALL}")
        chosen = grants[int(chosen) - 1].id
    return await Remembering(api).revoke(who, chosen)


def describe_event(event: AuditEvent) -> str:
    """Return a message about a grant's event, empty for other events."""
    grants = event.type.startswith("grant_")
    return f"{render_safe(say_event(event)).text}; press g" if grants else ""


def _set_in(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, _GRANTS_MARGIN))


def _render_end(at_ms: int | None) -> str:
    if at_ms is None:
        return "until revoked"
    return f"until {datetime.fromtimestamp(at_ms / 1000):%d %b %H:%M}"
