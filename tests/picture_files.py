"""Where pictures of the product are written: into docs what a page shows, the rest into build."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "images"
BUILT = ROOT / "build" / "pictures"


def picture_file(name: str) -> Path:
    """Return where the picture of this name belongs; its folder exists."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = any(f"images/{name}" in page.read_text(encoding="utf-8") for page in pages)
    folder = DOCS if shown else BUILT
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name
