"""The page's static files, read once at start. Nothing outside this folder is served."""

from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file with its content type."""

    body: bytes
    content_type: str


def read_assets(folder: str) -> dict[str, Asset]:
    """Return the files of `static` or `templates` by name."""
    return {
        path.name: Asset(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted((_FOLDER / folder).iterdir())
        if path.suffix in _TYPES
    }
