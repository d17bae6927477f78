"""The documents: links that lead somewhere, commands that exist, lists that are complete."""

import pkgutil
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.frame.tree import ROOT, project_files

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
# `gateway.json`, `gateway.lock` and `gateway.log` are files of the data folder.
DOTTED = re.compile(r"(?<![\w./-])gateway(?:\.(?!json\b|lock\b|log\b)\w+)+")
MODULE_PATH = re.compile(r"`(\w+/[\w/]+(?:\.\w+)?)`")
PACKAGES = {path.name for path in (ROOT / "gateway").iterdir() if path.is_dir()}
MAKE_TARGET = re.compile(r"(?:`|^)make ([a-z][a-z-]*)", re.MULTILINE)
PICTURE = re.compile(r'!\[[^\]]*\]\(([^)#\s]+)\)|<img [^>]*src="([^"]+)"')
MOST_WORDS = 600
MOST_MOVING_BYTES = 1_000_000
MOST_PICTURES = 30
MOST_PICTURE_BYTES = 3_000_000


def _documents() -> list[Path]:
    return project_files(".md")


def _anchor(heading: str) -> str:
    """Return the fragment by which a repository's page names a heading."""
    words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return words.replace(" ", "-")


def _broken_links(document: Path) -> Iterator[str]:
    for link in LINK.finditer(FENCE.sub("", document.read_text())):
        target = document.parent / link[1] if link[1] else document
        anchors = map(_anchor, HEADING.findall(target.read_text())) if target.is_file() else ()
        if not target.exists() or (link[2] and link[2] not in anchors):
            yield f"{document.relative_to(ROOT)}: {link[0]}"


def test_links_lead_somewhere() -> None:
    """Every relative link in a document names a file, and a heading, that exists."""
    assert [broken for document in _documents() for broken in _broken_links(document)] == []


def test_named_make_targets_exist() -> None:
    """A reader can type every `make` command that a document names."""
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name for document in _documents() for name in MAKE_TARGET.findall(document.read_text())
    }
    assert named - targets == set()


def _unknown_names(document: Path) -> Iterator[str]:
    for name in DOTTED.findall(document.read_text()):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            if not _is_module(name):
                yield f"{document.relative_to(ROOT)}: {name}"


def _is_module(name: str) -> bool:
    """Whether there is such a module, although it may need an agents' host to be imported."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _unknown_paths(document: Path) -> Iterator[str]:
    for path in MODULE_PATH.findall(document.read_text()):
        if path.partition("/")[0] not in {"gateway", "adapters", *PACKAGES}:
            continue
        places = [ROOT / path, ROOT / f"{path}.py", ROOT / "gateway" / f"{path}.py"]
        if not any(place.exists() for place in places):
            yield f"{document.relative_to(ROOT)}: {path}"


def test_modules_and_names_in_documents_exist() -> None:
    """Whoever looks up a module, a name or a file that a document names finds it."""
    documents = [one for one in _documents() if one != ROOT / "tests" / "findings.md"]
    assert [one for document in documents for one in _unknown_names(document)] == []
    assert [one for document in documents for one in _unknown_paths(document)] == []


def test_every_decision_record_is_listed() -> None:
    """The index of the decision records names each of them, with its title."""
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    records = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert records
    assert [record.name for record in records if f"({record.name})" not in index] == []


def test_each_decision_record_has_a_number_of_its_own() -> None:
    """No number is given twice, and each record's title has the number of its name."""
    records = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    numbers = [record.name[:4] for record in records]
    assert [one for one in numbers if numbers.count(one) > 1] == []
    titled = {record: f"# {int(record.name[:4])}. " for record in records}
    assert [one.name for one in records if not one.read_text().startswith(titled[one])] == []


def test_the_changelog_has_a_place_for_the_next_change() -> None:
    """The changelog keeps its form: unreleased first, then versions with their days."""
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", name) for name in headings[1:])


def test_readme_is_read_in_two_minutes() -> None:
    """At most 600 words, and a moving picture of at most 1 MB."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= MOST_WORDS
    assert (ROOT / "docs" / "images" / "first-minute.gif").stat().st_size <= MOST_MOVING_BYTES


def test_every_picture_that_a_page_shows_is_there() -> None:
    """No page shows an empty frame."""
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in _documents()
        for names in PICTURE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
        for name in filter(None, names)
        if not (page.parent / name).is_file()
    ]
    assert missing == []


def test_pictures_are_few_and_all_of_them_are_shown() -> None:
    """Thirty at most, 3 MB together; what no page shows is a build artefact."""
    pictures = sorted((ROOT / "docs" / "images").iterdir())
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert len(pictures) <= MOST_PICTURES
    assert sum(one.stat().st_size for one in pictures) <= MOST_PICTURE_BYTES
    assert [one.name for one in pictures if f"images/{one.name}" not in text] == []
