"""Define a screen's keys, and the footer that lists the keys with an effect now; start with Key and
KeyLine."""

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
    """One key, or several keys with the same effect.

    `names` are the library's names, `action` is the effect. The footer lists `sign` and `word`; a
    key without a word is not listed. A key without an action belongs to the focused widget. A key
    that `lasts` is listed even in the narrowest footer, and there with the word `tells`.
    """

    names: str
    action: str
    word: str = ""
    sign: str = ""
    lasts: bool = False
    tells: str = ""

    @property
    def shown(self) -> str:
        """The key as the footer shows it."""
        return self.sign or self.names

    @property
    def width(self) -> int:
        """The number of columns that the key needs in the footer."""
        return cell_len(self.shown) + cell_len(self.word) + _BLANKS


HELP_KEY = Key("question_mark", "help", "help", sign="?", lasts=True, tells="more")
"""The key that lists all keys."""


def bind(keys: Iterable[Key]) -> list[Binding]:
    """Convert keys to the library's bindings, without those that have no action."""
    return [Binding(one.names, one.action, one.word, show=False) for one in keys if one.action]


def fit_keys(keys: Sequence[Key], width: int) -> list[Key]:
    """Return the keys that fit in `width` columns: first those that last, then as many others as
    fit."""
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
    """One key in the footer. A click on it presses the key."""

    def __init__(self, key: Key) -> None:
        text = Text.assemble(" ", (key.shown, _SIGN), f" {key.word} ")
        super().__init__(Group(text), markup=False)  # a bare Text would ignore the app's colours
        self._pressed = key.names.partition(",")[0]

    def on_click(self) -> None:
        """Press the key."""
        self.app.simulate_key(self._pressed)


class KeyLine(Horizontal):
    """The footer of a screen; `list_keys` returns the keys that have an effect now."""

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
        """Redraw the footer if its keys changed."""
        if self.is_attached and self._find() != self._shown:
            self.call_after_refresh(self.recompose)

    def on_resize(self, _: Resize) -> None:
        """Fit the keys to the new width."""
        self.look()

    def _find(self) -> list[Key]:
        return fit_keys(list(self._list_keys()), self.app.size.width)


# The reasons why a key has no effect on a request, for messages and for the line at the foot.

_DOES_NOT_FIT = "it does not fit here: press f, read it, and approve it there"


def find_hindrance(
    record: StoredRequest, card: Card, action: str, reader: str, place_of: Callable[[str], str]
) -> str | None:
    """Return the reason why a key's action has no effect on a pending request, or None if it has an
    effect.

    `reader` is the person's name. `place_of` returns the address of a request in the inbox.
    """
    if action == "approve" and card.fields:
        return _find_missing(record, card, Action.ANSWER, reader, place_of)
    if action == "approve":
        why = _find_missing(record, card, Action.APPROVE, reader, place_of)
        return why or (None if card.complete else _DOES_NOT_FIT)
    if action == "edit":
        why = _find_missing(record, card, Action.EDIT, reader, place_of)
        if why is None and card.editable is None:
            return f"the call contains secrets: edit it at {place_of(record.id)}"
        return why
    if action == "remember":  # a person who already approved may approve again and remember
        why = _find_missing(record, card, Action.APPROVE, "", place_of)
        kept = Action.APPROVE in card.remembers
        return why or (None if kept else "this request requires approval each time")
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
        return f"approval needs a passkey. Go on at {place_of(record.id)}"
    return None
