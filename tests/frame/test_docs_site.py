"""The website of the documentation, visited link by link: `make test-docs-site`."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest
from markdown_it import MarkdownIt

from tests.frame.tree import ROOT
from tests.web.chromium import DESK, PHONE, Page, running, visiting

FOLDER = os.environ.get("SITE")
HTML, SOURCES = ROOT / (FOLDER or "build/site/html"), ROOT / "build" / "site" / "pages"
START = "index.html"
OUTSIDE = re.compile(r"(?:\w+:)?//|mailto:|data:")
LOADED = ("script", "img", "link", "iframe", "source")
SAME_EVERYWHERE = (
    "blockquote", "code", "em", "h1", "h2", "h3", "h4", "img", "li", "ol", "pre", "strong",
    "table", "tr", "ul",
)  # fmt: skip
ONLY_HERE = "default-src 'self' 'unsafe-inline'; img-src 'self' data:"
READY = "document.readyState === 'complete' && !!document.querySelector('article h1')"
SCHEME = "document.body.dataset.mdColorScheme"
TOO_WIDE = """[document.documentElement, ...document.querySelectorAll(
  'article :is(h1, h2, h3, h4, p, li, dd, img, pre, video, svg)')]
  .filter((one) => !one.closest('table') && one.checkVisibility())
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1
    || (one === document.documentElement && one.scrollWidth > innerWidth))
  .map((one) => one.outerHTML.slice(0, 80))"""
DIALOG = "[...document.querySelectorAll('*')].find((one) => one.shadowRoot)?.shadowRoot"
FOUND = f"[...{DIALOG}.querySelectorAll('a')].map((one) => one.href)"

pytestmark = [
    pytest.mark.skipif(FOLDER is None, reason="runs in `make test-docs-site`"),
    pytest.mark.timeout(600),
]


@dataclass
class Read(HTMLParser):
    """What a page of the site holds."""

    links: list[str] = field(default_factory=list)
    navigation: set[str] = field(default_factory=set)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    parts: Counter[str] = field(default_factory=Counter)
    within: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.anchors |= {told[name] for name in ("id", "name") if told.get(name)}
        if tag in ("nav", "article"):
            self.within.append(f"{tag} {told.get('class', '')}")
        if tag == "a" and "href" in told:
            self.links.append(told["href"])
            if any("md-nav--primary" in one for one in self.within):
                self.navigation.add(told["href"])
        if tag in LOADED and told.get("rel") not in ("canonical", "prev", "next"):
            self.loaded += [told[name] for name in ("src", "href") if told.get(name)]
        if any(one.startswith("article") for one in self.within):
            self.parts[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in ("nav", "article"):
            self.within.pop()


@cache
def read(page: str) -> Read:
    """Return what a page of the site holds."""
    found = Read()
    found.feed((HTML / page).read_text(encoding="utf-8"))
    return found


def leads_to(page: str, link: str) -> tuple[str, str]:
    """Return the file of the site and the anchor that a link leads to."""
    name, _, anchor = urljoin(f"/{page}", link).partition("#")
    return unquote(name).lstrip("/") or START, unquote(anchor)


def pages() -> list[str]:
    """Return every page of the site."""
    found = sorted(one.relative_to(HTML).as_posix() for one in HTML.rglob("*.html"))
    return [one for one in found if one != "404.html"]


def page_of(source: Path) -> str:
    """Return the page that shows a Markdown file."""
    name = re.sub(r"(^|/)README$", r"\1index", source.with_suffix("").as_posix())
    return f"{name}.html"


def test_every_page_of_the_documentation_is_on_the_site() -> None:
    """Each Markdown file of docs is a page."""
    wanted = {page_of(one.relative_to(ROOT)) for one in (ROOT / "docs").rglob("*.md")}
    assert wanted
    assert wanted - set(pages()) == set()


def test_links_lead_from_the_start_page_to_every_page() -> None:
    """No page is an orphan, and no link, anchor or picture is dead."""
    todo, reached, dead = [START], {START}, []
    while todo:
        page = todo.pop()
        for link in (*read(page).links, *read(page).loaded):
            if OUTSIDE.match(link):
                continue
            name, anchor = leads_to(page, link)
            if not (HTML / name).is_file():
                dead.append(f"{page}: {link}")
            elif name.endswith(".html"):
                if anchor and anchor not in read(name).anchors:
                    dead.append(f"{page}: {link}")
                todo += [] if name in reached else [name]
                reached.add(name)
    assert dead == []
    assert set(pages()) - reached == set()


@pytest.mark.parametrize("page", [START, "docs/adr/index.html"])
def test_the_navigation_lists_every_page(page: str) -> None:
    """A reader finds each page without a link in a text."""
    listed = {leads_to(page, link)[0] for link in read(page).navigation}
    assert set(pages()) - listed == set()


def test_pages_have_the_parts_that_their_markdown_has() -> None:
    """Lists, tables, blocks of code and headings are those of CommonMark, as a repository shows."""
    reader, wrong = MarkdownIt("commonmark").enable("table"), {}
    for source in sorted(SOURCES.rglob("*.md")):
        page = page_of(source.relative_to(SOURCES))
        text = re.sub(r"\A---\n.*?\n---\n", "", source.read_text(encoding="utf-8"), flags=re.DOTALL)
        wanted = Read()
        wanted.feed(f"<article>{reader.render(text)}</article>")
        counts = {tag: (wanted.parts[tag], read(page).parts[tag]) for tag in SAME_EVERYWHERE}
        if unlike := {tag: both for tag, both in counts.items() if both[0] != both[1]}:
            wrong[page] = unlike
    assert wrong == {}


def test_pages_load_nothing_from_elsewhere() -> None:
    """No script, style, font or picture has an address outside the site."""
    outside = [(page, one) for page in pages() for one in read(page).loaded if OUTSIDE.match(one)]
    assert [one for one in outside if not one[1].startswith("data:")] == []


def test_the_search_knows_every_page() -> None:
    """The index has the title and text of each page of the documentation."""
    items = json.loads((HTML / "search.json").read_text(encoding="utf-8"))["items"]
    for page in (one for one in pages() if one.startswith("docs/")):
        text = " ".join(
            f"{one['title']} {one['text']}"
            for one in items
            if one["location"].partition("#")[0] == page
        )
        assert len(text.split()) > 20, page


class OnlyHere(SimpleHTTPRequestHandler):
    """Serves the site, and has the browser report and stop each request that goes elsewhere."""

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", ONLY_HERE)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve the site; return its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(OnlyHere, directory=HTML)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
async def tab() -> AsyncIterator[Page]:
    """Yield a tab; whatever its pages threw or wanted from elsewhere fails the test."""
    with running() as browser:
        async with visiting(browser) as visitor:
            made = await visitor.tab()
            yield made
            assert made.errors == []


@pytest.mark.browser
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_no_page_scrolls_sideways(address: str, tab: Page, size: tuple[int, int]) -> None:
    """Every page is as wide as the screen, in light and in dark, and loads nothing from outside."""
    wrong: list[object] = []
    await tab.size(size)
    for page in pages():
        await tab.goto(f"{address}{page}")
        await tab.until(f"location.pathname === '/{page}' && {READY}")
        for dark in (False, True):
            await tab.size(size, dark=dark)
            await tab.until(f"{SCHEME} === '{'slate' if dark else 'default'}'")
            if wide := await tab.evaluate(TOO_WIDE):
                wrong.append((page, dark, wide))
        names = "performance.getEntriesByType('resource').map((one) => one.name)"
        wrong += [(page, one) for one in await tab.evaluate(names) if not one.startswith(address)]
    assert wrong == []


@pytest.mark.browser
async def test_the_search_finds_a_page(address: str, tab: Page) -> None:
    """A reader types a word and is shown the page about it."""
    await tab.goto(f"{address}{START}")
    await tab.until(READY)
    await tab.press_on("document.querySelector('button.md-search__button')")
    await tab.until(f"{DIALOG}?.activeElement?.tagName === 'INPUT'")
    await tab.send("Input.insertText", text="glossary")
    await tab.until(f"{FOUND}.some((one) => one.includes('/docs/reference/glossary.html'))")
