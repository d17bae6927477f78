"""The keys of a screen, and the line at its foot, which lists those that do something now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.events import Resize
from textual.widgets import Static

from gateway.cards.card import Card
from gateway.cards.masks import HIDDEN
from gateway.cards.shared_texts import standing_of
from gateway.models import Action
from gateway.ports import StoredRequest

_BLANKS = 3  # around a key and its word
_SIGN = "bold yellow"


@dataclass(frozen=True, slots=True)
class Key:
    """A key, or several that do the same: `names` as the library has them, what they do, and how
    the line at the foot lists them, as `sign` and `word`; without a word it does not.

    One without an action is listed, and is that of what has the focus. One that `lasts` is listed
    in the narrowest line, too; with `tells` as this word where others have no room.
    """

    names: str
    action: str
    word: str = ""
    sign: str = ""
    lasts: bool = False
    tells: str = ""

    @property
    def shown(self) -> str:
        """The key itself, as the line has it."""
        return self.sign or self.names

    @property
    def width(self) -> int:
        """The columns that it takes in the line."""
        return cell_len(self.shown) + cell_len(self.word) + _BLANKS


HELP_KEY = Key("question_mark", "help", "help", sign="?", lasts=True, tells="more")
"""Lists all keys."""


def bind(keys: Iterable[Key]) -> list[Binding]:
    """Return what the library calls these keys."""
    return [Binding(one.names, one.action, one.word, show=False) for one in keys if one.action]


def fit_keys(keys: Sequence[Key], width: int) -> list[Key]:
    """Return the keys that a line of so many columns has room for: those that last, and of the
    others the first."""
    listed = [one for one in keys if one.word]
    if sum(one.width for one in listed) <= width:
        return listed
    listed = [replace(one, word=one.tells or one.word) for one in listed]
    left = width - sum(one.width for one in listed if one.lasts)
    kept = []
    for one in listed:
        if one.lasts:
            kept.append(one)
        elif one.width <= left:
            kept.append(one)
            left -= one.width
    return kept


class _KeyLabel(Static):
    """One key in the line, which can be clicked."""

    def __init__(self, key: Key) -> None:
        text = Text.assemble(" ", (key.shown, _SIGN), f" {key.word} ")
        super().__init__(Group(text), markup=False)  # a bare text has not the colours of our look
        self._pressed = key.names.partition(",")[0]

    def on_click(self) -> None:
        """Press it."""
        self.app.simulate_key(self._pressed)


class KeyLine(Horizontal):
    """The line at the foot of a screen: of its keys those that `list_keys` says do something."""

    DEFAULT_CSS = """
    KeyLine { dock: bottom; height: 1; color: $foreground; background: $panel; }
    KeyLine Static { width: auto; height: 1; }
    """

    def __init__(self, list_keys: Callable[[], Iterable[Key]]) -> None:
        super().__init__()
        self._list_keys = list_keys
        self._shown: list[Key] = []

    def compose(self) -> ComposeResult:
        """Lay out the keys."""
        self._shown = self._find()
        yield from map(_KeyLabel, self._shown)

    def look(self) -> None:
        """List what does something by now."""
        if self.is_attached and self._find() != self._shown:
            self.call_after_refresh(self.recompose)

    def on_resize(self, _: Resize) -> None:
        """List what has room."""
        self.look()

    def _find(self) -> list[Key]:
        return fit_keys(list(self._list_keys()), self.app.size.width)


# Why a key decides nothing about a request, in words: keys and the line at the foot ask here.

_DOES_NOT_FIT = "it does not fit here: press f, read it, and approve it there"


def find_hindrance(
    record: StoredRequest, card: Card, action: str, reader: str, place_of: Callable[[str], str]
) -> str | None:
    """Return why an action of the screen does nothing with a request that waits, None where it
    does something, for the person of the name `reader`. `place_of` says where the inbox shows
    it."""
    if action == "approve" and card.fields:
        return _find_missing(record, card, Action.ANSWER, reader, place_of)
    if action == "approve":
        why = _find_missing(record, card, Action.APPROVE, reader, place_of)
        return why or (None if card.complete else _DOES_NOT_FIT)
    if action == "edit":
        why = _find_missing(record, card, Action.EDIT, reader, place_of)
        if why is None and card.editable is None:
            return f"it holds secrets: edit it at {place_of(record.id)}"
        return why
    if action == "remember":  # who approved may do so again, and have it remembered
        why = _find_missing(record, card, Action.APPROVE, "", place_of)
        kept = Action.APPROVE in card.remembers
        return why or (None if kept else "this one is asked about each time")
    return None  # a denial, and a claim


def _find_missing(
    record: StoredRequest, card: Card, action: Action, reader: str, place_of: Callable[[str], str]
) -> str | None:
    if card.hides:
        return f"{HIDDEN} Go on at {place_of(record.id)}"
    if action not in record.request.allowed:
        return f"this request does not allow {action}"
    standing = standing_of(record, reader)
    if not standing.offers(action):
        return standing.say_nobody() or standing.words
    if any(one.action is action and one.by_passkey_alone for one in card.controls):
        return f"it takes a step-up by passkey. Answer at {place_of(record.id)}"
    return None
