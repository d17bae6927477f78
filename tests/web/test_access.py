"""Works by keyboard, with a screen reader and on a phone, in light and dark."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gateway.models import Action
from tests.web.chromium import DESK, PHONE, Page
from tests.web.inbox import (
    COMMAND,
    FILE_CHANGE,
    HIGH_RISK,
    HOSTILE,
    LONG,
    MASKED,
    QUESTION,
    Inbox,
    card,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

SERIOUS = ("serious", "critical")


def axe_script() -> str:
    """Return axe-core as its package carries it; nothing else of the package is used."""
    spec = find_spec("axe_core_python")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")


async def serious(page: Page) -> list[Any]:
    """Return what axe-core finds serious or critical in the page as it stands."""
    # Through the debugger, not as a script of the page: the content policy would refuse that.
    await page.send("Runtime.evaluate", expression=axe_script())
    found = await page.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then((found) => JSON.stringify("
        "found.violations.map(({id, impact, nodes}) =>"
        " ({id, impact, nodes: nodes.map((node) => node.html.slice(0, 200))}))))"
    )
    return [one for one in json.loads(found) if one["impact"] in SERIOUS]


async def test_axe_would_find_something(box: Inbox, page: Page) -> None:
    """A nameless button and faint text are found: the checks below look at what they should."""
    await page.evaluate(
        "(() => { const faint = document.createElement('p'); faint.textContent = 'faint';"
        " faint.style.color = '#eee'; document.getElementById('list').append(faint,"
        " document.createElement('button')); return true })()"
    )
    assert {one["id"] for one in await serious(page)} == {"button-name", "color-contrast"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_axe_finds_nothing_serious(box: Inbox, page: Page, dark: bool) -> None:
    """In every kind of card, with each panel open, in the history, sessions and settings."""
    await page.size(PHONE, dark=dark, still=True)
    kinds = (COMMAND, FILE_CHANGE, HIGH_RISK, HOSTILE, LONG, MASKED, QUESTION)
    for record in [await box.ask(**details) for details in kinds]:
        await page.until(card(record))
    await page.until("!document.querySelector('.settling')")
    assert await serious(page) == []
    risky = await box.ask(**HIGH_RISK)
    for opener in ("Approve", "Back", "Deny with a reason", "Respond instead", "Edit", "As JSON"):
        await page.press(opener, card(risky))
    await page.until(f"{card(risky)}.querySelector('[data-key=edit]')")
    await page.fill("[data-key=edit]", '{"amount": 5}')
    await page.press("Show the changes")
    await page.until(f"{card(risky)}.querySelector('.panel .added')")
    await box.claim(risky)
    await page.until(f"{card(risky)}.textContent.includes('bob is looking')")
    plain = await box.ask(**{**COMMAND, "session": "other"})
    await page.press("Remember…", card(plain))
    await page.until(f"{card(plain)}.textContent.includes('It would have covered')")
    assert await serious(page) == []
    await page.evaluate("document.querySelector('.menu').open = true")
    assert await serious(page) == []
    await page.evaluate("document.querySelector('.menu').open = false")
    await box.decide(risky, Action.DENY, message="no")
    await page.press("Approve and remember", card(plain))
    await page.until(f"{card(plain)}.classList.contains('approved')")
    await page.press("History")
    await page.until(card(risky))
    assert await serious(page) == []
    await page.press("Sessions")
    await page.until("document.querySelector('.sessions')")
    assert await serious(page) == []
    await page.press("Remembered")
    await page.until("document.querySelector('.grants')")
    assert await serious(page) == []
    await page.evaluate("document.getElementById('signout').click()")
    await page.until("document.body.textContent.includes('You are signed out')")
    assert await serious(page) == []


async def test_every_control_has_a_role_and_a_name(box: Inbox, page: Page) -> None:
    """The accessibility tree names all that can be operated, and each card by its heading."""
    await box.ask(**COMMAND)
    await box.ask(**FILE_CHANGE)
    record = await box.ask(**QUESTION)
    await page.until(f"{card(record)} && document.querySelectorAll('.card').length === 3")
    await page.press("Deny with a reason")
    controls = await page.controls()
    assert len(controls) > 20
    assert [role for role, name in controls if not name.strip()] == []
    for role, name in (
        ("button", "Approve"),
        ("button", "Copy command"),
        ("textbox", "What should the release be called?"),
        ("combobox", "When?"),
        ("spinbutton", "How many servers?"),
        ("checkbox", "Tell the customers (optional)"),
        ("textbox", "Words for the agent"),
    ):
        assert (role, name) in controls
    articles = [one for one in await page.tree() if one[0] == "article"]
    assert sorted(name.split(" ")[0] for _, name in articles) == ["Asks", "Changes", "Runs"]


async def test_what_happens_is_announced_politely(box: Inbox, page: Page) -> None:
    """Arrivals and decisions are said once, in a region that does not interrupt."""
    record = await box.ask(**COMMAND)
    await page.until("document.getElementById('announce').textContent === 'A new request waits.'")
    await page.press("Approve")
    said = "document.getElementById('announce').textContent"
    await page.until(f"{said} === 'Approved: \"deployer\"'")
    live = await page.evaluate("document.getElementById('announce').getAttribute('aria-live')")
    assert live == "polite"
    assert await page.evaluate(f"Boolean({card(record)}.querySelector('[aria-live]'))") is False


async def test_the_keyboard_is_enough(box: Inbox, page: Page) -> None:
    """Move, open panels, type, send, confirm, without a pointer; the focus is never lost."""
    await page.size(DESK)
    first = await box.ask(**COMMAND)
    await page.until(card(first))
    await page.key("j")
    await page.key("a")
    await page.until(f"{card(first)}.classList.contains('approved')")
    assert await page.evaluate(f"document.activeElement === {card(first)}")
    second = await box.ask(**HIGH_RISK)
    await page.until(card(second))
    await page.key("k")
    await page.key("a")
    await page.until("document.activeElement.textContent === 'Yes, approve'")
    await page.key("Escape")
    await page.until("document.activeElement.textContent === 'Approve'")
    await page.key("r")
    await page.until("document.activeElement.dataset.key === 'reason'")
    await page.send("Input.insertText", text="a d e: letters in a field decide nothing")
    await page.key("Escape")
    await page.until("document.activeElement.dataset.key === 'more'")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert await page.evaluate(outline) == "solid"
    await page.key("d")
    await page.until(f"{card(second)}.classList.contains('denied')")


async def test_letters_can_be_turned_off(box: Inbox, page: Page) -> None:
    """For those whose keyboard speaks by itself."""
    record = await box.ask(**COMMAND)
    await page.until(card(record))
    await page.evaluate("document.getElementById('keys').click()")
    await page.evaluate(f"{card(record)}.focus()")
    await page.key("d")
    await page.evaluate("document.getElementById('keys').click()")
    await page.evaluate(f"{card(record)}.focus()")
    assert not await page.evaluate(f"{card(record)}.classList.contains('denied')")
    await page.key("d")
    await page.until(f"{card(record)}.classList.contains('denied')")


@pytest.mark.parametrize("size", [PHONE, DESK, (320, 640)], ids=["phone", "desk", "small"])
async def test_the_page_fits(box: Inbox, page: Page, size: tuple[int, int]) -> None:
    """Nothing is wider than the screen, and what is tapped is large enough."""
    await page.size(size)
    long_word = {"command": "x" * 900}
    for details in (COMMAND, HIGH_RISK, HOSTILE, FILE_CHANGE, QUESTION, MASKED):
        await box.ask(**details)
    record = await box.ask(tool="t" * 80, session="s" * 120, arguments=long_word)
    await page.until(card(record))
    await page.until("document.querySelectorAll('.card').length === 7")
    for _ in range(2):
        assert await page.evaluate("document.documentElement.scrollWidth") <= size[0]
        small = await page.evaluate(
            "[...document.querySelectorAll('button')].filter((one) => one.offsetHeight &&"
            " one.offsetHeight < 44).map((one) => one.textContent)"
        )
        assert small == []
        await page.press("Sessions")
        await page.until("document.querySelector('.sessions')")


async def test_motion_is_optional(box: Inbox, page: Page) -> None:
    """Who asked their device for less motion gets none."""
    for still, wanted in ((False, "come"), (True, "none")):
        await page.size(PHONE, still=still)
        record = await box.ask(**{**COMMAND, "session": wanted})
        await page.until(card(record))
        assert await page.evaluate(f"getComputedStyle({card(record)}).animationName") == wanted
