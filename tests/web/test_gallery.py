"""The pictures of the inbox are complete, and what they show is sound."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.domain.risk import StepUp
from gateway.models import Status
from tests.slack import states
from tests.web.chromium import Browser
from tests.web.gallery import STATIC, TEMPLATES, draw_pages, lay_out, panels, scenes
from tests.web.test_access import flaws

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

SMALL = (
    "[...document.querySelectorAll('.card button, .card summary, .card input, .card select')]"
    ".filter((one) => one.checkVisibility())"
    ".map((one) => [one.closest('label, .tick') ?? one, one])"
    ".map(([box, one]) => [box.getBoundingClientRect(), one.dataset.key ?? one.textContent])"
    ".filter(([box]) => Math.min(box.height, box.width) < 44 && box.width)"
    ".map(([box, name]) => `${name}: ${box.width} x ${box.height}`)"
)
# Answers that a first screen has, and not whole: outside of panels they are in a bar that stays.
COVERED = (
    "[...document.querySelectorAll('.card.pending button:is(.approve, .deny, .review, .strong)')]"
    ".filter((one) => one.checkVisibility() && !one.closest('.panel, .rest'))"
    ".map((one) => [one.getBoundingClientRect(), one])"
    ".filter(([box, one]) => box.bottom > innerHeight || document.elementFromPoint("
    "box.x + box.width / 2, box.y + box.height / 2) !== one)"
    ".map(([_, one]) => `covered: ${one.textContent}`)"
)
# What an edit's picture says of the field and of its change.
DIFFERS = (
    "[...document.querySelectorAll('.panel:has(.checked) [data-key^=arg]')].filter((one) =>"
    " !one.closest('.panel').querySelector('.row.added').textContent.includes(one.value))"
    ".map((one) => `not what was typed: ${one.value}`)"
)
WIDE = "document.documentElement.scrollWidth > innerWidth"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_every_state_is_sound(browser: Browser, dark: bool) -> None:
    """Nothing that axe finds, nothing past an edge, nothing too small for a finger."""
    page = await browser.tab()
    wrong = {}
    async for name, _, _ in lay_out(page, dark=dark):
        found = await flaws(page)
        for check in (SMALL, COVERED, DIFFERS):
            found += await page.evaluate(check)
        if await page.evaluate(WIDE):
            found.append("past an edge")
        if found:
            wrong[name] = found
    assert wrong == {}
    assert page.errors == []


def test_every_panel_and_state_is_among_them() -> None:
    """Every panel that the script knows, by each step-up, and every status, ended ones opened."""
    text = (STATIC / "decision_panels.js").read_text(encoding="utf-8")
    made = scenes()
    assert len(panels()) >= 7
    for name in panels():
        assert re.search(rf"^function {name}\(", text, re.MULTILINE)
        assert f"panel-{name}" in made
    opened = set(re.findall(r"acts\.panel\(item, \"(\w+)\"|(?<![.\w])add\(\"(\w+)\"", text))
    assert {one or other for one, other in opened} <= set(panels())
    assert {f"panel-step-up-{way}" for way in StepUp} <= set(made)
    assert {one.status for one in states.RECORDS.values()} == set(Status)
    assert set(states.RECORDS) <= set(made)


async def test_every_page_and_view_is_among_them(tmp_path: Path) -> None:
    """Every template is drawn, and every view that the inbox has a button for."""
    camera = await draw_pages(tmp_path)
    assert camera.templates == {one.name for one in TEMPLATES.glob("*.html")}
    inbox = (TEMPLATES / "inbox.html").read_text(encoding="utf-8")
    for name in re.findall(r'data-view="(\w+)"', inbox):
        assert f"view {name}" in camera.names
    for name in re.findall(r'data-side="(\w+)"', inbox):
        assert f"queue {name}" in camera.names
    assert {"login", "sign in", "sign in refused", "devices with a passkey"} <= camera.names
