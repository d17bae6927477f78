"""Modal screens: a line of text, a form, what to remember, the full text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Footer, Input, Label, Select, SelectionList, Static

from adapters.terminal.card_text import render_text
from gateway.models import FieldKind
from gateway.ports import (
    LIFETIME_WORDS,
    Card,
    Field,
    JsonObject,
    Record,
    Remember,
    RememberOption,
    remember_as,
    start_of,
)

YES = "yes"
_SHORT = 24  # characters, which is one line of a narrow terminal


class WordsScreen(ModalScreen[str | None]):
    """Asks for one line of text; the result is None when cancelled."""

    AUTO_FOCUS = "Input"  # not the scrollable text above it
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "back")]

    def __init__(self, question: str, value: str = "", shown: RenderableType | None = None) -> None:
        super().__init__()
        self._question = question
        self._value = value
        self._shown = shown

    def compose(self) -> ComposeResult:
        """Lay out the question above the input."""
        with Vertical(classes="asking"):
            if self._shown is not None:
                with VerticalScroll():
                    yield Static(self._shown, markup=False)
            yield Label(Text(self._question))
            yield Input(self._value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the text."""
        self.dismiss(event.value)

    def action_leave(self) -> None:
        """Cancel."""
        self.dismiss(None)


class FormScreen(ModalScreen[JsonObject | None]):
    """Asks for the fields of a question; the result is None when cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "back"),
        ("ctrl+s", "send", "send the answer"),
    ]

    def __init__(self, card: Card) -> None:
        super().__init__()
        self._fields = card.fields
        self._widgets: dict[str, Any] = {}

    def compose(self) -> ComposeResult:
        """Lay out one widget for each field."""
        with VerticalScroll(classes="asking", can_focus=False):
            for field in self._fields:
                needed = " *" if field.required else ""
                yield Label(render_text(field.text).append(needed))
                self._widgets[field.id] = widget = _build_widget(field)
                yield widget
            yield Label(Text("* needs an answer. Tab moves on, Ctrl+S sends.", style="dim"))
        yield Footer()

    def on_mount(self) -> None:
        """Focus the first field."""
        self._widgets[self._fields[0].id].focus()

    def action_send(self) -> None:
        """Return the answers, unless a required one is missing."""
        found = {field.id: _read_value(field, self._widgets[field.id]) for field in self._fields}
        for field in self._fields:
            if field.required and found[field.id] in (None, []):
                self._widgets[field.id].focus()
                self.notify("this field needs an answer", severity="error")
                return
        self.dismiss({name: value for name, value in found.items() if value is not None})

    def action_leave(self) -> None:
        """Cancel."""
        self.dismiss(None)


class RememberScreen(ModalScreen[Remember | None]):
    """Asks what to remember, where and how long; the result is None when cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "back"),
        ("ctrl+s", "send", "approve and remember"),
    ]

    def __init__(self, record: Record, scopes: Sequence[tuple[RememberOption, str]]) -> None:
        super().__init__()
        self._session = record.request.session
        self._scopes = scopes
        self._chosen: dict[str, Any] = {}

    def compose(self) -> ComposeResult:
        """Lay out the scopes with their recent reach, then the three choices."""
        with VerticalScroll(classes="asking", can_focus=False):
            for number, (scope, reach) in enumerate(self._scopes, 1):
                yield Label(Text(f"{number}. ").append_text(render_text(scope.words, "bold")))
                yield Label(Text(f"   {reach}", style="dim"))
            scopes = [
                (f"{n}. {start_of(scope.words.text, _SHORT)}…", scope.id)
                for n, (scope, _) in enumerate(self._scopes, 1)
            ]
            places = [(f"only in the session {self._session}", ""), ("in all sessions", "all")]
            lives = [(words, name) for name, words in LIFETIME_WORDS.items()]
            for name, choices in (("what", scopes), ("where", places), ("how long", lives)):
                # `Text`, so that markup in names is not interpreted.
                shown = [(Text(words), value) for words, value in choices]
                yield Label(Text(name))
                self._chosen[name] = select = Select(
                    shown, allow_blank=False, value=choices[0][1], type_to_search=False
                )
                yield select
        yield Footer()

    def action_send(self) -> None:
        """Return the choices."""
        chosen = {name: select.value for name, select in self._chosen.items()}
        everywhere = chosen["where"] == "all"
        self.dismiss(remember_as(chosen["what"], chosen["how long"], everywhere=everywhere))

    def action_leave(self) -> None:
        """Cancel."""
        self.dismiss(None)


class FullTextScreen(ModalScreen[str | None]):
    """Shows a full text; the result is the pressed decision key, None when closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,f,q", "leave", "back"),
        ("y", "decide('y')", "approve"),
        ("n", "decide('n')", "deny"),
        ("p", "decide('p')", "another plan"),
    ]

    def __init__(self, title: str, text: RenderableType, *, decides: bool) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._decides = decides

    def compose(self) -> ComposeResult:
        """Lay out the text below its title."""
        with Vertical(classes="reading"):
            yield Label(Text(self._title, style="bold"))
            with VerticalScroll():
                yield Static(self._text, markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Focus the text, so that arrow keys scroll it."""
        self.query_one(VerticalScroll).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the decision keys only where a decision is possible."""
        return action != "decide" or self._decides

    def action_decide(self, key: str) -> None:
        """Return the key."""
        self.dismiss(key)

    def action_leave(self) -> None:
        """Cancel."""
        self.dismiss(None)


def _build_widget(field: Field) -> Any:
    choices = [(render_text(choice.label), choice.value) for choice in field.choices]
    if field.kind is FieldKind.BOOLEAN:
        return Checkbox("yes")
    if field.kind is FieldKind.CHOICE:
        return Select(choices, prompt="Choose one")
    if field.kind is FieldKind.CHOICES:
        return SelectionList(*choices)
    return Input(password=field.secret, type="number" if field.kind is FieldKind.NUMBER else "text")


def _read_value(field: Field, widget: Any) -> Any:
    if field.kind is FieldKind.BOOLEAN:
        return bool(widget.value)
    if field.kind is FieldKind.CHOICES:
        return list(widget.selected)
    if field.kind is FieldKind.CHOICE:
        return widget.value if isinstance(widget.value, str) else None
    if not widget.value:
        return None
    return _parse_number(widget.value) if field.kind is FieldKind.NUMBER else widget.value


def _parse_number(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdigit() else float(text)
