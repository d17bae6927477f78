"""Escape deceptive characters before people see a text. Start reading at `make_visible`.

An approver reads a call before it runs. Some characters are invisible, reorder or cover their
neighbours, or look like other letters, so that the card would differ from what runs. `make_visible`
replaces each with an escape such as ⟨U+202E⟩. Plain CJK, emoji (also joined ones), accented Latin,
and Hebrew or Arabic without overrides stay as they are.

Letters are judged word by word. A word is deceptive if it mixes Latin with look-alikes from another
script. A word that has only look-alikes is also deceptive, unless the text around it shows that it
is real Cyrillic or Greek. Names and categories of characters come from `unicodedata`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

Segment = tuple[str, bool]
Span = tuple[int, int]

LONG_SPACES = 32  # this many blanks in a row can push the text after them out of sight
LONG_WIDE = 16  # the same for tabs and wide spaces
LONG_NEWLINES = 5  # the same for empty lines

MASK = re.compile(r"⟨secret (?:number )?of \d+ characters, digest [0-9a-f]{8}…⟩")
"""Matches the mask that replaces a secret."""

_MOST_ESCAPES = 2_000  # in one text; with more, every suspect character is escaped
_SUSPECT = re.compile(r"[^\x20-\x7e\n\t]")
_WORD = re.compile(r"[^\W\d_]+")
_RUN = re.compile(
    rf"[ \t\u3000]{{{LONG_SPACES},}}|[\t\u3000]{{{LONG_WIDE},}}"
    rf"|\n(?:[ \t\u3000]*\n){{{LONG_NEWLINES - 1},}}"
)
_SAME = re.compile(r"(.)\1*", re.DOTALL)
_CROWD = re.compile(rf"({_SUSPECT.pattern})\1*|{_RUN.pattern}")
_LATIN = re.compile(r"[A-Za-z]")

# Invisible characters that Unicode calls letters, marks or symbols, so no category finds them.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
# Strokes through the letter before them, signs that look like / . : ; or !, and the gateway's own
# brackets, so that no text can imitate an escape or a mask.
_COVERING = frozenset(
    "\u27e8\u27e9\u0334\u0335\u0336\u0337\u0338\u2044\u2215\u29f8\u2024\ua789\u2236\u037e\u01c3"
)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me"})
_ORDINARY_SPACE = "\u3000"  # the space of Chinese and Japanese text; as wide as a letter
_FLAG = "\U0001f3f4"
# England, Scotland and Wales: the only flags in use that are spelled with tag characters.
_TAGGED_FLAG = re.compile(
    _FLAG
    + "\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    + "|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_LONGEST_FLAG = 7  # characters; looking further back for each would take too long
_TAGS = range(0xE0020, 0xE0080)
_MOST_MARKS = 3  # combining marks in a row that real writing needs

_CONFUSABLE_SCRIPTS = frozenset({"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "LISU", "COPTIC"})
_ALL_ALIKE = frozenset({"CHEROKEE", "LISU", "COPTIC"})
# Letters that look the same as ASCII ones in common fonts, and ones that nearly do.
_ALIKE = frozenset(
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u04cf\u0475"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0408\u0405\u051a\u051c"
    "\u04c0\u0417\u03bf\u03bd\u03c1\u03c5\u03b9\u03f2\u03f3\u0391\u0392\u0395\u0396\u0397\u0399\u039a"
    "\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0585\u057d\u0578\u0581\u0570\u0575\u0555\u054d"
)
_NEARLY_ALIKE = frozenset(
    "\u0442\u043a\u043c\u043d\u0432\u0433\u0423\u03b1\u03ba\u03b3\u03c7\u03c4\u03b7\u03c9"
)
# Latin letters that look like ASCII ones: long s, script a and g, Kelvin; and the mathematical
# alphabets, which are ASCII letters in other styles.
_LATIN_ALIKE = frozenset("\u017f\u0251\u0261\u212a")
_MATHEMATICAL = range(0x1D400, 0x1D800)
_WIDE_OR_ROMAN = (range(0xFF21, 0xFF5B), range(0x2160, 0x2180))  # suspicious only beside ASCII

_PICTURES = (
    range(0x1F000, 0x1FB00),
    range(0x2190, 0x2200),
    range(0x2300, 0x2400),
    range(0x25A0, 0x2800),
    range(0x2900, 0x2C00),
)
_LONE_PICTURES = frozenset("\u00a9\u00ae\u203c\u2049\u2122\u2139\u24c2\u3030\u303d\u3297\u3299")
_SKIN = range(0x1F3FB, 0x1F400)
# Scripts whose spelling needs joiners: Arabic and its relatives, and those of India.
_JOINING = (range(0x0600, 0x0900), range(0x0900, 0x0E00), range(0xFB50, 0xFE00))
_NEWER = (range(0x1F000, 0x1FB00), range(0x20000, 0x323B0))  # assigned after this Python's tables


@dataclass(frozen=True, slots=True)
class Visible:
    """Text that people may see, as `segments` in order. Each segment is a pair: a string, and
    whether it is highlighted.

    Escapes, masks and revealed secrets are highlighted. `hidden` says that an invisible character,
    or one that moves or covers others, was replaced. `mixed_script` says that look-alike letters
    were replaced. `masked` counts the masked secrets.
    """

    segments: tuple[Segment, ...]
    hidden: bool = False
    mixed_script: bool = False
    masked: int = 0

    @property
    def suspicious(self) -> bool:
        """Whether any deceptive character was replaced."""
        return self.hidden or self.mixed_script

    @property
    def text(self) -> str:
        """All segments as one string, for places that cannot highlight."""
        return "".join(text for text, _ in self.segments)

    def shortened(self, begin: int, end: int) -> Visible:
        """Return the first `begin` and the last `end` characters, with "…" between them. Escapes
        stay whole."""
        length = len(self.text)
        first, last = self._between(0, begin), self._between(length - end, length)
        return replace(self, segments=(*first, ("…", False), *last))

    def _between(self, begin: int, end: int) -> Iterator[Segment]:
        at = 0
        for part, escape in self.segments:
            first, last = max(begin - at, 0), min(end - at, len(part))
            if first < last:
                yield (part if escape else part[first:last]), escape
            at += len(part)

    def lines(self) -> list[tuple[Segment, ...]]:
        """Return the segments of each line, without the line ends."""
        lines: list[list[Segment]] = [[]]
        for text, escape in self.segments:
            first, *others = text.split("\n")
            lines[-1].append((first, escape))
            lines.extend([(other, escape)] for other in others)
        return [tuple(segment for segment in line if segment[0]) for line in lines]

    def count_lines(self) -> int:
        """Return how many lines people see. A line end at the end of the text does not start a new
        line."""
        return len(self.lines()) - self.text.endswith("\n")


def make_visible(text: str, marked: Sequence[Span] = ()) -> Visible:
    """Return `text` with every deceptive character replaced by a visible escape.

    The spans in `marked`, which must be in order, are highlighted and stay readable.
    """
    if not _SUSPECT.search(text) and not _RUN.search(text):
        plain: tuple[Segment, ...] = ((text, False),) if text else ()
        return Visible(tuple(_segments(text, {}, marked)) if marked else plain)
    try:
        hidden, alike = _find_hidden(text), _alike(text)
    except _Crowd:
        return _escape_all(text, marked)
    runs = [run for found in _RUN.finditer(text) for run in _part_run(found)]
    escapes = {at: (_escape(text[at]), 1) for at in hidden}
    escapes |= {at: (_escape(text[at], ink=True), 1) for at in alike}
    escapes |= {at: (_escape_run(run), len(run)) for at, run in runs}
    return Visible(tuple(_segments(text, escapes, marked)), bool(hidden or runs), bool(alike))


def show_masked(text: str) -> Visible:
    """Convert text that is already masked to the form that people may see; its masks stay."""
    parts = [make_visible(part) for part in MASK.split(text)]
    segments = list(parts[0].segments)
    for found, part in zip(MASK.findall(text), parts[1:], strict=True):
        segments += [(found, True), *part.segments]
    hidden, mixed = any(one.hidden for one in parts), any(one.mixed_script for one in parts)
    return Visible(tuple(segments), hidden, mixed)


def ascii_escaped(json_text: str) -> str:
    r"""Return JSON text with deceptive characters written as \uXXXX. The JSON value is
    unchanged."""
    try:
        marks = _find_hidden(json_text) | _alike(json_text)
    except _Crowd:
        marks = {found.start() for found in _SUSPECT.finditer(json_text)}
    for run in _RUN.finditer(json_text):
        if json_text[run.start()] != "\n" and json_text[run.start() - 1] != "\n":
            marks |= {*range(*run.span())}  # inside a text, so not the indentation of the JSON
    return "".join(_json_escape(char) if at in marks else char for at, char in enumerate(json_text))


class _Crowd(Exception):
    """The text has more deceptive characters than anybody would read one by one."""


def _few(places: Iterable[int]) -> set[int]:
    """Return the positions. Raises _Crowd if there are too many, because each position costs
    time."""
    found = set(islice(places, _MOST_ESCAPES + 1))
    if len(found) > _MOST_ESCAPES:
        raise _Crowd
    return found


def _escape_all(text: str, marked: Sequence[Span]) -> Visible:
    """Return text in which every character that is not plain is escaped. This is stricter and
    faster than `make_visible`."""
    parts = ((_CROWD.sub(_crowd, part), mark) for part, mark in _segments(text, {}, marked))
    return Visible(tuple(parts), hidden=True, mixed_script=True)


def _crowd(found: re.Match[str]) -> str:
    if len(found.group()) == 1:
        return _escape(found.group())
    return "".join(_escape_run(run) for _, run in _part_run(found))


def _segments(
    text: str, escapes: dict[int, tuple[str, int]], marked: Sequence[Span]
) -> Iterator[Segment]:
    done, left = 0, deque(marked)
    for at in (*sorted(escapes), len(text)):
        escape, length = escapes.get(at, ("", 0))
        yield from _part(text, done, at, left)
        if escape:
            yield escape, True
        done = at + length


def _part(text: str, begin: int, end: int, marked: deque[Span]) -> Iterator[Segment]:
    """Yield a part of a text that needs no escapes, as highlighted and plain segments. Drop the
    spans that end in it."""
    while begin < end:
        first, last = marked[0] if marked else (end, end)
        if last <= begin:
            marked.popleft()
            continue
        inside = first <= begin
        upto = min(end, last if inside else first)
        yield text[begin:upto], inside
        begin = upto


def _escape(char: str, *, ink: bool = False) -> str:
    return f"⟨U+{ord(char):04X}{' ' + char if ink else ''}⟩"


def _part_run(found: re.Match[str]) -> Iterator[tuple[int, str]]:
    """Yield each run of the same blank character, with its position."""
    for one in _SAME.finditer(found.group()):
        yield found.start() + one.start(), one.group()


def _escape_run(run: str) -> str:
    escape = f"⟨{len(run)} × U+{ord(run[0]):04X}⟩"  # noqa: RUF001 (the sign is for people)
    return f"\n{escape}\n" if run[0] == "\n" and len(run) >= LONG_NEWLINES else escape


def _json_escape(char: str) -> str:
    pairs = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[at]:02x}{pairs[at + 1]:02x}" for at in range(0, len(pairs), 2))


def _find_hidden(text: str) -> set[int]:
    found = (match.start() for match in _SUSPECT.finditer(text))
    return _few(at for at in found if _deceives(text[at]) and not _is_excused(text, at))


@lru_cache(maxsize=4096)
def _deceives(char: str) -> bool:
    """Whether a character is deceptive, unless the characters next to it show that it is not."""
    if char in _BLANK or char in _COVERING:
        return True
    category = unicodedata.category(char)
    if category == "Cn":
        return not _within(char, _NEWER)
    if category == "Zs":
        return char not in (" ", _ORDINARY_SPACE)
    return category in _HIDDEN_CATEGORIES or category == "Mn"


def _is_excused(text: str, at: int) -> bool:
    char = text[at]
    before = text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    if char in "\u200c\u200d":
        return _joins(text, at, before, after)
    if char in "\ufe0e\ufe0f":
        return _is_picture(before) or (before in "0123456789#*" and after == "\u20e3")
    if char == "\u20e3":
        return before == "\ufe0f" and at > 1 and text[at - 2] in "0123456789#*"
    if ord(char) in _TAGS:
        return _in_flag(text, at)
    if char in _BLANK or char in _COVERING:
        return False
    return unicodedata.category(char) == "Mn" and _marks_a_letter(text, at)


def _joins(text: str, at: int, before: str, after: str) -> bool:
    if before and after and _within(before, _JOINING) and _within(after, _JOINING):
        return True
    base = at - 1
    while base > 0 and (text[base] == "\ufe0f" or ord(text[base]) in _SKIN):
        base -= 1
    return text[at] == "\u200d" and base >= 0 and _is_picture(text[base]) and _is_picture(after)


def _in_flag(text: str, at: int) -> bool:
    begins = text.rfind(_FLAG, max(0, at - _LONGEST_FLAG), at)
    flag = _TAGGED_FLAG.match(text, begins) if begins >= 0 else None
    return flag is not None and at < flag.end()


def _marks_a_letter(text: str, at: int) -> bool:
    """Whether a combining mark belongs to a letter, with few other marks between."""
    base = at - 1
    while base >= 0 and at - base <= _MOST_MARKS and unicodedata.category(text[base]) == "Mn":
        base -= 1
    return at - base <= _MOST_MARKS and base >= 0 and unicodedata.category(text[base])[0] in "LMN"


def _is_picture(char: str) -> bool:
    return bool(char) and (char in _LONE_PICTURES or _within(char, _PICTURES))


def _within(char: str, ranges: tuple[range, ...]) -> bool:
    return any(ord(char) in span for span in ranges)


def _alike(text: str) -> set[int]:
    """Return the positions of letters that look like ASCII letters."""
    words = [word for word in _WORD.finditer(text) if not word.group().isascii()]
    if not words:
        return set()
    latin = bool(_LATIN.search(text))
    letters = set().union(*(word.group() for word in words))
    honest = {_script(char) for char in letters if _is_clear(char)}
    return _few(at for word in words for at in _alike_in(word, latin, honest))


def _alike_in(word: re.Match[str], latin: bool, honest: set[str]) -> Iterator[int]:
    letters = word.group()
    mixed = (
        bool(_LATIN.search(letters))
        or len({_script(char) for char in set(letters)} & _CONFUSABLE_SCRIPTS) > 1
    )
    posing = mixed or _poses(letters, latin, honest)
    for at, char in enumerate(letters, word.start()):
        always = char in _LATIN_ALIKE or ord(char) in _MATHEMATICAL
        beside = mixed and _within(char, _WIDE_OR_ROMAN)
        if always or beside or (posing and _is_alike(char)):
            yield at


def _poses(letters: str, latin: bool, honest: set[str]) -> bool:
    """Whether a word of one script looks like a Latin word, and no text around it shows that it is
    not."""
    scripts = {_script(char) for char in set(letters)}
    if not scripts <= _CONFUSABLE_SCRIPTS or not all(map(_is_alike, set(letters))):
        return False
    if len(letters) == 1 and scripts == {"GREEK"}:
        return False  # a symbol of mathematics
    # A capital at the beginning of the word counts as its small letter.
    weighed = letters.lower() if letters.istitle() else letters
    near = sum(char in _NEARLY_ALIKE for char in weighed)
    return len(letters) - near >= 2 * near and (latin or not scripts <= honest)


def _is_alike(char: str) -> bool:
    return char in _ALIKE or char in _NEARLY_ALIKE or _script(char) in _ALL_ALIKE


def _is_clear(char: str) -> bool:
    return _script(char) in _CONFUSABLE_SCRIPTS and not _is_alike(char)


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    return unicodedata.name(char, "?").split(" ", 1)[0]


# Folds text for searches in agents' texts: lower case, without invisible characters, with ASCII
# letters in place of look-alikes. Both the text and the words to find are folded.

# Cyrillic, Greek, Armenian and odd Latin letters, each before the letter that it looks like.
_SAME_LETTERS = (
    "\u0430a\u0441c\u0435e\u043eo\u0440p\u0445x\u0443y\u0456i\u0458j"
    "\u0455s\u04bbh\u0501d\u051bq\u051dw\u04cfl\u0475v\u0442t\u043ak"
    "\u043cm\u043dh\u0432b\u0433r\u0410a\u0412b\u0415e\u041ak\u041cm"
    "\u041dh\u041eo\u0420p\u0421c\u0422t\u0425x\u0423y\u0406i\u0408j"
    "\u0405s\u051aq\u051cw\u04c0i\u03bfo\u03bdv\u03c1p\u03c5u\u03b9i"
    "\u03f2c\u03f3j\u03b1a\u03bak\u03b3y\u03c7x\u03c4t\u03b7n\u03c9w"
    "\u0391a\u0392b\u0395e\u0396z\u0397h\u0399i\u039ak\u039cm\u039dn"
    "\u039fo\u03a1p\u03a4t\u03a5y\u03a7x\u0585o\u057du\u0578n\u0581g"
    "\u0570h\u0575j\u0555o\u054du\u0251a\u0261g\u017fs\u0131i"
)
_PAIRS = dict(zip(_SAME_LETTERS[::2], _SAME_LETTERS[1::2], strict=True))
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me"})
# Blanks that Unicode calls letters or marks, and strokes through the letter before them.
_INVISIBLE = re.compile(
    "[\u034f\u0334-\u0338\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]"
)
_PLAIN = re.compile(r"[\t\n\r\x20-\x7e]*")
_KEPT = 5000


class _Folds(dict[int, str]):
    """A cache that maps each character to its folded form, which is computed on first use."""

    def __missing__(self, code: int) -> str:
        folded = "".join(map(_fold_letter, unicodedata.normalize("NFKC", chr(code))))
        if len(self) < _KEPT:
            self[code] = folded
        return folded


_FOLDS = _Folds()


def fold(text: str) -> str:
    """Return text in lower case, with look-alikes replaced by ASCII letters and invisible
    characters removed."""
    if _PLAIN.fullmatch(text):
        return text.lower()
    return text.translate(_FOLDS)


def _fold_letter(char: str) -> str:
    if char in "\t\n\r":
        return char
    if unicodedata.category(char) in _HIDDEN or _INVISIBLE.match(char):
        return ""
    if unicodedata.category(char) == "Zs":
        return " "
    return _PAIRS.get(char) or char.casefold()
