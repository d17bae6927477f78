"""The pages of the integrations: one template, little to read, and words that the product says."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from gateway.client import AsyncClient
from gateway.client.http_transport import HttpTransport
from tests.frame.language import literal
from tests.frame.tree import ROOT

FOLDER = ROOT / "docs" / "integrations"
PAGES = sorted(FOLDER.glob("*.md"))
HEADINGS = ["What you get", "Set up", "Try it", "Answers", "Limits", "Failures"]
MOST_WORDS, MOST_WORDS_TOGETHER = 700, 8_500
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_CELL = re.compile(r"^\| ([^|]+) \|", re.MULTILINE)
_SPAN = re.compile(r"`{2} (.+?) `{2}|`([^`]+)`")
_WAITS = re.compile(r"^ *(waiting for approval of .*)…$", re.MULTILINE)
ELSEWHERE = {"saiki:error", "gateway_webhooks_lost_total"}
"""Symptoms that an example says, and a metric whose name is put together."""
_VALUES = ("ana", "files", "false")
"""What stands for a value in a quoted symptom."""


def text_of(page: Path) -> str:
    """Return a page without its blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def said() -> str:
    """Return the code of the product and of the examples, and the texts of its Python whole."""
    kinds = ("gateway/**/*.py", "adapters/**/*.py", "examples/go/**/*.go", "packaging/**/*.ts")
    codes = [path.read_text(encoding="utf-8") for kind in kinds for path in ROOT.glob(kind)]
    found = list(codes)
    for path in (*ROOT.glob(kinds[0]), *ROOT.glob(kinds[1])):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found += (literal(node) for node in nodes if isinstance(node, ast.expr))
    return "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_headings_of_the_template(page: Path) -> None:
    """Exactly these, in this order; what else it tells stands below one of them."""
    (title, *rest) = _HEADING.findall(text_of(page))
    assert title[0] == "#"
    assert [name for level, name in rest if level == "##"] == HEADINGS
    assert {level for level, _ in rest} <= {"##", "###"}


def test_the_pages_are_read_quickly() -> None:
    """Each one, and all of them together."""
    counts = {page.name: len(page.read_text(encoding="utf-8").split()) for page in PAGES}
    assert {name: count for name, count in counts.items() if count > MOST_WORDS} == {}
    assert sum(counts.values()) <= MOST_WORDS_TOGETHER


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_section_says_something(page: Path) -> None:
    """The set-up and the trial have steps; answers and failures are tables."""
    _, *parts = re.split(r"^## .+\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = dict(zip(HEADINGS, parts, strict=True))
    assert all(part.strip() for part in parts)
    assert "\n1. " in found["Set up"]
    assert "| Answer |" in found["Answers"]
    assert "| Symptom | Fix |" in found["Failures"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_symptom_is_what_the_product_says(page: Path) -> None:
    """A reader who searches for the words of an error finds them."""
    failures = text_of(page).partition("\n## Failures\n")[2]
    spans = [one for cell in _CELL.findall(failures) for one in _SPAN.findall(cell)]
    assert len(_CELL.findall(failures)) > 2
    for quoted in {first or second for first, second in spans} - ELSEWHERE:
        pieces = re.split(rf"…|\b(?:{'|'.join(_VALUES)})\b", quoted)
        for piece in (one.strip(" :") for one in pieces):
            assert piece in said(), (page.name, quoted)


async def test_a_program_says_what_its_page_prints() -> None:
    """Of the call that waits, and where to answer it."""
    lines: list[str] = []
    transport = HttpTransport("http://127.0.0.1:8787", "t", "agent1")
    client = AsyncClient(transport, say=lines.append)
    request = client.request("delete_file", {"path": "old.txt"})
    client.say_where(request)
    [line] = lines
    shown = {one for page in PAGES for one in _WAITS.findall(page.read_text(encoding="utf-8"))}
    assert len(shown) == 1
    assert line.replace(request.id, "ID").startswith(shown.pop().rstrip())
