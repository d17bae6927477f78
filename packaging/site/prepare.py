"""Write the pages of the website and its navigation into a folder: `make docs-site`.

The pages lie as in the repository, so that each link leads to the same place in both. Files that
the documentation links to become pages too. The navigation has the order of the lists in docs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
START = "README.md"
INDEX = "docs/README.md"
SECTIONS = {
    "Tutorials": ("docs/tutorials/", INDEX),
    "Guides": ("docs/guides/", INDEX),
    "Integrations": ("docs/integrations/", "docs/guides/connect-an-agent.md"),
    "Reference": ("docs/reference/", INDEX),
    "Explanation": ("docs/explanation/", INDEX),
    "Decision records": ("docs/adr/", "docs/adr/README.md"),
}
"""The folder of each section, and the page that lists its pages. An unlisted page is an error."""
ICON = "adapters/web/static/icon.svg"
COPIED = (".gif", ".json", ".png", ".svg")
SHOWN_AS = {"example": "ini", "mjs": "js", "yml": "yaml"}
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
FENCE = re.compile(r"^(`{3,}).*?^\1", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"(?:[-*+]|\d+\.) +(?=\S)")
MARK = re.compile(r"`{3,}")
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)[^)#\s]+")

Entry = str | dict[str, str] | dict[str, list[str]] | dict[str, list[dict[str, str]]]


def main(folder: Path) -> None:
    """Write every page and the configuration into the folder."""
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    for file in [ROOT / ICON, *(ROOT / "docs").rglob("*")]:
        if file.suffix in COPIED:
            place = pages / file.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    sources = find_sources()
    for source in sources:
        place = pages / page_of(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(render(source), encoding="utf-8")
    settings = Path(__file__).with_name("zensical.toml").read_text(encoding="utf-8")
    head, mark, rest = settings.partition("[project]\n")
    nav = to_toml(arrange(sources))
    (folder / "zensical.toml").write_text(f"{head}{mark}nav = {nav}\n{rest}", encoding="utf-8")


def find_sources() -> list[str]:
    """Return all files and folders of the repository that become a page."""
    found: dict[str, None] = {}
    todo = [START, *(name_of(page) for page in sorted((ROOT / "docs").rglob("*.md")))]
    while todo:
        source = todo.pop(0)
        if source not in found:
            found[source] = None
            todo += links_of(source)
    return list(found)


def links_of(source: str) -> Iterator[str]:
    """Yield the pages, files of code and folders that a page links to, in its order."""
    if source.endswith(".md"):
        text = (ROOT / source).read_text(encoding="utf-8")
        for link in LINK.findall(FENCE.sub("", text)):
            if not link.endswith(COPIED):
                yield resolve(source, link)


def resolve(source: str, link: str) -> str:
    """Return the name in the repository of what a page links to."""
    path = (ROOT / source).parent / link
    if not path.exists() or not path.resolve().is_relative_to(ROOT):
        sys.exit(f'{source}: no file for the link "{link}"')
    return name_of(path)


def name_of(path: Path) -> str:
    """Return the name of a file or folder in the repository."""
    return path.resolve().relative_to(ROOT).as_posix()


def page_of(source: str) -> str:
    """Return the name of the page that shows a file or folder."""
    if source.endswith(".md"):
        return source
    return "/".join(part.lstrip(".") for part in source.split("/")) + ".md"


def render(source: str) -> str:
    """Return the Markdown of a page."""
    path = ROOT / source
    if source.endswith(".md"):
        return widen_lists(link_to_pages(source, path.read_text(encoding="utf-8")))
    if path.is_file():
        return f"{NOT_SEARCHED}# {source}\n\n{quote(path)}"
    files = sorted(one for one in path.rglob("*") if one.is_file() and "__" not in str(one))
    quoted = "\n".join(f"## {one.relative_to(path)}\n\n{quote(one)}" for one in files)
    return f"{NOT_SEARCHED}# {source}\n\n{quoted}"


def quote(path: Path) -> str:
    """Return a file as a block of code."""
    suffix = path.suffix.removeprefix(".") or "text"
    fence = "`" * 5
    text = path.read_text(encoding="utf-8").rstrip("\n")
    return f"{fence}{SHOWN_AS.get(suffix, suffix)}\n{text}\n{fence}\n"


def link_to_pages(source: str, text: str) -> str:
    """Point the links to code at the pages that show it."""

    def point(match: re.Match[str]) -> str:
        link = match[0]
        if link.endswith((".md", *COPIED)):
            return link
        return os.path.relpath(page_of(resolve(source, link)), PurePosixPath(source).parent)

    fences = [match.span() for match in FENCE.finditer(text)]
    parts, last = [], 0
    for begin, end in [*fences, (len(text), len(text))]:
        parts += [LINK.sub(point, text[last:begin]), text[begin:end]]
        last = end
    return "".join(parts)


def widen_lists(text: str) -> str:
    """Indent what belongs to a list item by four spaces, and part lists from what precedes them.

    The generator's reader of Markdown needs both; others need neither.
    """
    lines: list[str] = []
    columns: list[int] = []
    fence, parted = "", True
    for line in text.split("\n"):
        rest = line.lstrip(" ")
        column = len(line) - len(rest)
        item = None if fence else ITEM.match(rest)
        if item and lines and lines[-1] and (parted or not columns):
            lines.append("")
        while rest and not fence and columns and column < columns[-1]:
            columns.pop()
        more = 4 * len(columns) - (columns[-1] if columns else 0)
        lines.append(" " * (column + more) + rest if rest else "")
        if item:
            columns.append(column + len(item[0]))
        parted = not item and (parted or not rest)
        if mark := MARK.match(rest):
            fence = "" if fence == mark[0] else fence or mark[0]
    return "\n".join(lines)


def arrange(sources: list[str]) -> list[Entry]:
    """Return the navigation: the sections of the documentation, then the rest."""
    pages = [source for source in sources if source.endswith(".md")]
    nav: list[Entry] = [START, {"Documentation": INDEX}]
    unlisted = {page for page in pages if page.startswith("docs/")} - {INDEX}
    for title, (folder, index) in SECTIONS.items():
        listed = dict.fromkeys((index, *links_of(index)))
        section = [page for page in listed if page.startswith(folder) and page.endswith(".md")]
        nav.append({title: section})
        unlisted -= set(section)
    if unlisted:
        sys.exit(f"the lists of docs do not link to {', '.join(sorted(unlisted))}")
    project = [page for page in pages if not page.startswith("docs/") and page != START]
    code = [{source: page_of(source)} for source in sources if source not in pages]
    return [*nav, {"Project": project}, {"Files": code}]


def to_toml(value: object) -> str:
    """Return a value of the navigation in TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {to_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
