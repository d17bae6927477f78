"""Text as somebody reads it: without letter case, and with what does not show, or passes for
another letter, out of the way. For looking for a word in what an agent wrote, on both sides.
"""

from __future__ import annotations

import re
import unicodedata

# Cyrillic, Greek, Armenian and odd Latin letters, each before the letter that it passes for.
_ALIKE = (
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
_PAIRS = dict(zip(_ALIKE[::2], _ALIKE[1::2], strict=True))
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me"})
# Blanks that are letters or marks to Unicode, and strokes through the letter before them.
_BLANK = re.compile(
    "[\u034f\u0334-\u0338\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]"
)
_PLAIN = re.compile(r"[\t\n\r\x20-\x7e]*")
_KEPT = 5000


class _Folds(dict[int, str]):
    """What each character is read as, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        folded = "".join(map(_fold_letter, unicodedata.normalize("NFKC", chr(code))))
        if len(self) < _KEPT:
            self[code] = folded
        return folded


_FOLDS = _Folds()


def fold(text: str) -> str:
    """Return a text in small letters, each as it looks, and without what does not show."""
    if _PLAIN.fullmatch(text):
        return text.lower()
    return text.translate(_FOLDS)


def _fold_letter(char: str) -> str:
    if char in "\t\n\r":
        return char
    if unicodedata.category(char) in _HIDDEN or _BLANK.match(char):
        return ""
    if unicodedata.category(char) == "Zs":
        return " "
    return _PAIRS.get(char) or char.casefold()
