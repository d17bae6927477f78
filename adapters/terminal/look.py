"""The colours of both looks, dark and light: each can be read on every ground that we draw on.

The library draws its own ground, so a light terminal shows the dark look whole; `TEXTUAL_THEME` is
its setting for another.
"""

from __future__ import annotations

from rich.terminal_theme import TerminalTheme
from textual.app import App
from textual.reactive import Reactive

# Black, red, green, yellow, blue, magenta, cyan, white; then the bright ones.
DARK = TerminalTheme(
    (18, 18, 18),
    (217, 217, 217),
    [
        (26, 26, 26), (255, 107, 107), (152, 224, 36), (253, 151, 31),
        (122, 162, 255), (214, 145, 255), (88, 209, 235), (196, 197, 181),
    ],
    [
        (138, 138, 138), (255, 107, 107), (152, 224, 36), (253, 190, 31),
        (122, 162, 255), (214, 145, 255), (88, 209, 235), (246, 246, 239),
    ],
)  # fmt: skip
LIGHT = TerminalTheme(
    (224, 224, 224),
    (20, 20, 20),
    [
        (0, 0, 0), (160, 16, 16), (0, 92, 0), (107, 74, 0),
        (11, 63, 168), (122, 31, 148), (0, 88, 100), (64, 64, 64),
    ],
    [
        (88, 88, 88), (160, 16, 16), (0, 92, 0), (255, 208, 64),
        (11, 63, 168), (122, 31, 148), (0, 88, 100), (247, 247, 247),
    ],
)  # fmt: skip


class ReadableApp(App[None]):
    """An application in these colours, whichever of the two looks it has."""

    ansi_theme_dark = Reactive(DARK, init=False)
    ansi_theme_light = Reactive(LIGHT, init=False)
