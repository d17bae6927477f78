"""What may be chosen, each entry whole, with marks that differ in shape and not in colour alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static


class ChoiceRow(Static):
    """One entry: its mark, and its text beside it."""

    def __init__(self, text: Text, *, many: bool) -> None:
        self._text = text
        self._marks = ("[ ]", "[x]") if many else ("( )", "(•)")
        self.on = False
        super().__init__(self._draw())

    def switch(self, *, on: bool) -> None:
        """Choose it, or do not."""
        self.on = on
        self.update(self._draw())

    def on_click(self) -> None:
        """Choose it, as a key does."""
        if isinstance(self.parent, Choices):
            self.parent.choose(self)

    def _draw(self) -> RenderableType:
        row = Table.grid(padding=(0, 1), expand=True)
        row.add_column(width=len(self._marks[0]))
        row.add_column(ratio=1)
        row.add_row(Text(self._marks[self.on]), self._text)
        return row


class Choices(Vertical):
    """A list of entries, of which one or `many` may be chosen, and none again unless `needed`.

    One of them takes the keys: Tab goes to what follows the list.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", "up", show=False),
        Binding("down", "walk(1)", "down", show=False),
        Binding("space,enter", "choose", "choose", show=False),
    ]

    class Chosen(Message):
        """Another entry is chosen."""

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
        """What is chosen, in order."""
        found = zip(self.entries, self.values, strict=True)
        return [value for entry, value in found if entry.on]

    def start(self) -> None:
        """Take the keys, and stay where the dialog stands."""
        for one in self.entries:
            if one.can_focus:
                one.focus(scroll_visible=False)

    def choose(self, entry: ChoiceRow) -> None:
        """Choose an entry, or take that back."""
        on = not entry.on or (self._needed and not self._many)
        if not self._many:
            for one in self.entries:
                one.switch(on=False)
        entry.switch(on=on)
        self.post_message(self.Chosen())

    def action_walk(self, by: int) -> None:
        """Go to another entry, which chooses nothing."""
        here = self._at()
        there = min(max(here + by, 0), len(self.entries) - 1)
        if here != there:
            self.entries[there].can_focus = True
            self.entries[there].focus()
            self.entries[here].can_focus = False

    def action_choose(self) -> None:
        """Choose the entry that has the keys."""
        self.choose(self.entries[self._at()])

    def _at(self) -> int:
        return next(at for at, one in enumerate(self.entries) if one.can_focus)
