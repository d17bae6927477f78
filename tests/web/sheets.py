"""Puts pictures side by side on one sheet each, small enough for the documents."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

GAP, CAPTION = 28, 34
MOST_BYTES = 150_000
_COLOURS = (240, 96, 64, 40, 28)
_PAPER = {False: ((226, 228, 222), (26, 28, 25)), True: ((4, 5, 4), (236, 237, 232))}


def sheet(pictures: Mapping[str, bytes], path: Path, *, columns: int, dark: bool) -> None:
    """Write named pictures, in columns, as one PNG."""
    tiles = [(name, Image.open(io.BytesIO(data))) for name, data in pictures.items()]
    width = tiles[0][1].width
    rows = [tiles[at : at + columns] for at in range(0, len(tiles), columns)]
    heights = [max(tile.height for _, tile in row) for row in rows]
    size = (
        columns * (width + GAP) + GAP,
        sum(heights) + len(rows) * (CAPTION + GAP) + GAP // 2,
    )
    paper, ink = _PAPER[dark]
    made = Image.new("RGB", size, paper)
    draw, font = ImageDraw.Draw(made), ImageFont.load_default(18)
    y = GAP // 2
    for row, height in zip(rows, heights, strict=True):
        for column, (name, tile) in enumerate(row):
            x = GAP + column * (width + GAP)
            draw.text((x, y + 4), name, fill=ink, font=font)
            made.paste(tile, (x, y + CAPTION))
        y += height + CAPTION + GAP
    _save(made, path)


def _save(picture: Image.Image, path: Path) -> None:
    """Save with as many colours as the size allows."""
    for colours in _COLOURS:
        flat = picture.quantize(colours, dither=Image.Dither.NONE)
        flat.save(path, optimize=True)
        if path.stat().st_size <= MOST_BYTES:
            return
    raise ValueError(f"{path.name} is larger than {MOST_BYTES} bytes; put less on the sheet")


def cropped(data: bytes, height: int) -> bytes:
    """Return the top of a picture."""
    picture = Image.open(io.BytesIO(data))
    out = io.BytesIO()
    picture.crop((0, 0, picture.width, min(height, picture.height))).save(out, "PNG")
    return out.getvalue()


def only(pictures: Mapping[str, bytes], names: Sequence[str]) -> dict[str, bytes]:
    """Return the pictures with these names, in this order."""
    return {name: pictures[name] for name in names}
