"""Modal screens: a line of text, a form, what to remember, the full text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import DescendantFocus
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Footer, Input, Label, Select, Static

from adapters.terminal.card_text import say_secret
from adapters.terminal.choices import Choices
from adapters.terminal.code_text import render_text
from gateway.models import FieldKind
from gateway.ports import (
    LIFETIME_WORDS,
    Card,
    Field,
    JsonObject,
    Record,
    RememberOption,
    remember_as,
)

YES = "yes"
_PLACE_ROWS = 2
_NO = "no"
_ALARMED = "alarmed"  # the class of a dialog about high risk
_LEAST_SHOWN = 3  # rows
_MARGIN = 1


class WordsScreen(ModalScreen[str | None]):
    """Asks for one line of text, which `enter` says what it does; the result is None when
    cancelled."""

    AUTO_FOCUS = "Input"  # not the scrollable text above it
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "back"),
        Binding("up", "scroll_shown(-1)", "up", show=False),
        Binding("down", "scroll_shown(1)", "down", show=False),
    ]

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
        """Lay out the question above the input, and the ways out below."""
        with Vertical(classes=f"asking {_ALARMED if self._alarmed else ''}"):
            if self._shown is not None:
                with VerticalScroll(can_focus=False):
                    yield Static(self._shown, markup=False)
            yield Label(Text(self._question, style="bold"))
            yield Input(self._value)
            scrolls = " · ↑ ↓ scroll" if self._shown is not None else ""
            yield Label(Text(f"enter {self._enter} · esc back{scrolls}"), classes="ways")

    def on_resize(self) -> None:
        """Give what is shown the rows that are free."""
        self.call_after_refresh(self._fit)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the text."""
        self.dismiss(event.value)

    def action_scroll_shown(self, by: int) -> None:
        """Scroll what the question is about."""
        for shown in self.query(VerticalScroll):
            shown.scroll_relative(y=by, animate=False)

    def action_leave(self) -> None:
        """Cancel."""
        self.dismiss(None)

    def _fit(self) -> None:
        for shown in self.query(VerticalScroll):
            asking = self.query_one(".asking", Vertical)
            others = sum(one.outer_size.height for one in asking.children if one is not shown)
            free = self.size.height - others - asking.gutter.height - 2 * _MARGIN
            shown.styles.max_height = max(_LEAST_SHOWN, free)


class _Sheet(ModalScreen[Any]):
    """A form that begins at its top, and keeps each question in sight beside its choices."""

    AUTO_FOCUS = ""

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Show the question of what has the keys, and then that itself."""
        self._show_widget(event.widget)

    def _show_widget(self, widget: Widget) -> None:
        asked = next((one for one in widget.ancestors if one.has_class("field")), None)
        if asked is not None:
            self.call_after_refresh(_bring_into_sight, asked, widget)

    def action_leave(self) -> None:
        """Cancel."""
        self.dismiss(None)


def _bring_into_sight(*widgets: Any) -> None:
    for one in widgets:
        one.scroll_visible(animate=False)


class FormScreen(_Sheet):
    """Asks for the fields of a question; the result, the answers, is None when cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "back"),
        ("ctrl+s", "send", "send the answer"),
    ]

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
            yield Label(Text("* needs an answer. Tab moves on, Space chooses, ^s sends."))
        yield Footer()

    def on_mount(self) -> None:
        """Focus the first field."""
        _focus(self._widgets[self._fields[0].id])

    def action_send(self) -> None:
        """Return the answers, unless a required one is missing."""
        found: JsonObject = {}
        for field in self._fields:
            widget = self._widgets[field.id]
            try:
                found[field.id] = _read_value(field, widget)
            except ValueError:
                return self._point_to(widget, "this is no number")
        for field in self._fields:
            if field.required and found[field.id] in (None, []):
                return self._point_to(self._widgets[field.id], "this field needs an answer")
        self.dismiss({name: value for name, value in found.items() if value is not None})
        return None

    def _point_to(self, widget: Any, why: str) -> None:
        _focus(widget)
        self.notify(why, severity="error", markup=False)


class RememberScreen(_Sheet):
    """Asks what to remember, where and how long; the result, a Remember, is None when cancelled.

    `about` is what is approved."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "back"),
        ("ctrl+s", "send", "approve and remember"),
    ]

    def __init__(
        self,
        record: Record,
        scopes: Sequence[tuple[RememberOption, str]],
        about: RenderableType,
    ) -> None:
        super().__init__()
        self._about = about
        offered = [
            (
                render_text(scope.words, "bold").append_text(Text(f"\n{reach}", "not bold")),
                scope.id,
            )
            for scope, reach in scopes
        ]
        places = [
            (Text(f"only in the session {record.request.session}"), ""),
            (Text("in all sessions"), "all"),
        ]
        self.what = Choices(offered, chosen=offered[0][1])
        self.where = Choices(places, chosen="")
        # `Text`, so that markup in names is not interpreted.
        lives = [(Text(words), name) for name, words in LIFETIME_WORDS.items()]
        self.how_long: Select[str] = Select(
            lives, allow_blank=False, value=lives[0][1], type_to_search=False
        )

    def compose(self) -> ComposeResult:
        """Lay out what is approved, the scopes with their recent reach, and the two choices."""
        asked = (("what", self.what), ("where", self.where), ("how long", self.how_long))
        with VerticalScroll(classes="asking", can_focus=False):
            yield Static(self._about, markup=False, classes="field")
            for name, widget in asked:
                with Vertical(classes="field"):
                    yield Label(Text(name, style="bold"))
                    yield widget
            yield Label(Text("↑ ↓ walk, Space chooses, Tab moves on, ^s approves and remembers."))
        yield Footer()

    def on_mount(self) -> None:
        """Start with what to remember, and with the first row in sight."""
        self.what.start()

    def _show_widget(self, widget: Widget) -> None:
        if widget is self.what.entries[0]:  # what is approved stands above it
            self.query_one(".asking", VerticalScroll).scroll_home(animate=False)
        else:
            super()._show_widget(widget)

    def action_send(self) -> None:
        """Return the choices."""
        everywhere = self.where.chosen == ["all"]
        lasts = str(self.how_long.value)
        self.dismiss(remember_as(self.what.chosen[0], lasts, everywhere=everywhere))


class FullTextScreen(ModalScreen[str | None]):
    """Shows a full text; the result is the pressed decision key, None when closed.

    It is approved only once its end was on the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,f,q", "leave", "back"),
        ("y", "decide('y')", "approve"),
        ("n", "decide('n')", "deny"),
        ("p", "decide('p')", "another plan"),
    ]

    def __init__(
        self,
        title: Text,
        text: RenderableType,
        *,
        decides: bool,
        size: str = "",
        risk: Text | None = None,
    ) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._decides = decides
        self._extent = size
        self._risk = risk or Text()
        self._seen = False

    def compose(self) -> ComposeResult:
        """Lay out the text below its title, and where in it one is."""
        with Vertical(classes="reading"):
            yield Label(self._title)
            if self._risk:
                yield Label(self._risk)
            with VerticalScroll():
                yield Static(self._text, markup=False)
            place = Label("", id="place", markup=False)
            # As high as its words ever are: were it to grow, it would cover what counts as seen.
            place.styles.height = _PLACE_ROWS
            yield place
        yield Footer()

    def on_mount(self) -> None:
        """Focus the text, so that arrow keys scroll it, and follow where it stands."""
        shown = self.query_one(VerticalScroll)
        shown.focus()
        self.watch(shown, "scroll_y", self._follow, init=False)

    def on_resize(self) -> None:
        """Say where it stands now."""
        self._follow()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the decision keys only where a decision is possible."""
        return action != "decide" or self._decides

    def action_decide(self, key: str) -> None:
        """Return the key; what was not read to its end is not approved."""
        if key == "y" and not self._seen:
            self.notify(
                f"read it to its end first: {self._place()}", severity="error", markup=False
            )
        else:
            self.dismiss(key)

    def action_leave(self) -> None:
        """Cancel."""
        self.dismiss(None)

    def _follow(self) -> None:
        self.call_after_refresh(self._note)

    def _note(self) -> None:
        """Note what is on the screen, now that it is drawn."""
        shown = self.query_one(VerticalScroll)
        drawn = shown.virtual_size.height > 0 and shown.size.height > 0
        self._seen |= drawn and round(shown.scroll_y) >= shown.max_scroll_y
        rest = "" if self._seen or not self._decides else " · read on: End goes to the end"
        size = f" · {self._extent}" if self._extent else ""
        self.query_one("#place", Label).update(Text(f"{self._place()}{rest}{size}"))

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
        # Neither is chosen at first: who touches nothing has not said no.
        return Choices([(Text(YES), YES), (Text(_NO), _NO)], needed=field.required)
    if field.kind in (FieldKind.CHOICE, FieldKind.CHOICES):
        many = field.kind is FieldKind.CHOICES
        return Choices(choices, many=many, needed=field.required)
    return Input(password=field.secret, type="number" if field.kind is FieldKind.NUMBER else "text")


def _read_value(field: Field, widget: Any) -> Any:
    """Return what was answered, None where nothing was. Raises ValueError for no number."""
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
