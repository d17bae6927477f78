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
    see,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def axe_script() -> str:
    """Return axe-core as its package carries it; nothing else of the package is used."""
    spec = find_spec("axe_core_python")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")


async def flaws(page: Page, within: str = "html") -> list[Any]:
    """Return all that axe-core finds in the page as it stands, or in a part of it, however small
    its impact."""
    # Through the debugger, not as a script of the page: the content policy would refuse that.
    await page.send("Runtime.evaluate", expression=axe_script())
    found = await page.evaluate(
        f"axe.run('{within}', {{resultTypes: ['violations']}}).then((found) => JSON.stringify("
        "found.violations.map(({id, impact, nodes}) =>"
        " ({id, impact, nodes: nodes.map((node) => node.html.slice(0, 200))}))))"
    )
    violations: list[Any] = json.loads(found)
    return violations


async def test_axe_would_find_something(box: Inbox, page: Page) -> None:
    """A nameless button, faint text and a heading out of order are found: the checks below look at
    what they should, at the small as well."""
    await page.evaluate(
        "(() => { const faint = document.createElement('p'); faint.textContent = 'faint';"
        " faint.style.color = '#eee'; const deep = document.createElement('h5');"
        " deep.textContent = 'deep'; document.getElementById('list').replaceChildren(faint,"
        " document.createElement('button'), deep); return true })()"
    )
    wanted = {"button-name", "color-contrast", "heading-order"}
    assert {one["id"] for one in await flaws(page)} == wanted


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_what_cannot_be_pressed_can_be_read(box: Inbox, page: Page, dark: bool) -> None:
    """Its text stands out from its ground as any other: axe does not look at what is disabled."""
    await page.size(PHONE, dark=dark)
    for details in (COMMAND, HIGH_RISK, QUESTION):
        record = await box.ask(**details)
        await see(page, record)
        await page.press("More…", card(record))
        await page.evaluate(f"{card(record)}.querySelectorAll('button').forEach({_DISABLE})")
        found = await page.evaluate(_CONTRASTS)
        assert len(found) > 4
        assert {name: contrast for name, contrast in found if contrast < 4.5} == {}
        await page.goto(f"{box.gateway.url}/inbox")


_DISABLE = "(one) => { one.disabled = true }"
# Of each disabled button: its text, and how much that stands out from the first ground below it.
_CONTRASTS = """(() => {
  const channels = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (one) => {
    const [r, g, b, alpha = 1] = channels(getComputedStyle(one).backgroundColor);
    return alpha ? [r, g, b] : ground(one.parentElement);
  };
  const faint = (one) => one ? Number(getComputedStyle(one).opacity) * faint(one.parentElement) : 1;
  return [...document.querySelectorAll('button:disabled')].map((one) => {
    const below = ground(one), share = faint(one);
    const text = channels(getComputedStyle(one).color).slice(0, 3)
      .map((part, at) => share * part + (1 - share) * below[at]);
    const [more, less] = [light(text), light(below)].sort((a, b) => b - a);
    return [one.textContent, (more + 0.05) / (less + 0.05)];
  });
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_what_is_not_ticked_does_not_look_as_if_it_could_not_be(
    page: Page, dark: bool
) -> None:
    """Its edge stands out from the ground, which shows through it, as that of a field does."""
    await page.size(PHONE, dark=dark)
    await page.evaluate("document.querySelector('.menu').open = true")
    box = "document.querySelector('#sound')"
    assert not await page.evaluate(f"{box}.checked || {box}.disabled")
    look = f"getComputedStyle({box})"
    edge, ground = await page.evaluate(f"[{look}.borderColor, {look}.backgroundColor]")
    field = await page.evaluate(
        "(() => { const made = document.createElement('input'); made.type = 'text';"
        " document.body.append(made); const { borderColor } = getComputedStyle(made);"
        " made.remove(); return borderColor })()"
    )
    assert (edge, ground) == (field, "rgba(0, 0, 0, 0)")


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "dark"), [(PHONE, True), (DESK, False)], ids=["phone", "desk"])
async def test_axe_finds_nothing(box: Inbox, page: Page, size: tuple[int, int], dark: bool) -> None:
    """Nothing of any impact: in the queue, in every kind of card, with each panel open, in the
    history, the searches, sessions, what is remembered, the audit and the settings."""
    await page.size(size, dark=dark)
    assert await flaws(page) == []
    kinds = (COMMAND, FILE_CHANGE, HIGH_RISK, HOSTILE, LONG, MASKED, QUESTION)
    made = [await box.ask(**details) for details in kinds]
    await box.ask(tool="soon", arguments={}, timeout=59)
    await page.until("document.querySelectorAll('.row-link').length === 8")
    await page.until("document.querySelector('.soon') && !document.querySelector('.settling')")
    assert await flaws(page) == []
    for record in made:
        await see(page, record)
        await page.until("!document.querySelector('.settling')")
        assert await flaws(page, ".card") == []
    await panels(box, page)
    for view in ("History", "Sessions", "Remembered", "Audit"):
        await page.evaluate("document.getElementById('back').click()")
        await page.press(view)
        await page.until("document.querySelector('#list .card, #list .empty, #list table')")
        assert await flaws(page) == []
        await page.evaluate("document.querySelector('.find')?.setAttribute('open', '')")
        assert await flaws(page) == []
    await page.evaluate("document.getElementById('signout').click()")
    await page.until("document.body.textContent.includes('You are signed out')")
    assert await flaws(page) == []


async def panels(box: Inbox, page: Page) -> None:
    """Open each panel of a card, and decide."""
    risky = await box.ask(**HIGH_RISK)
    await see(page, risky)
    for opener in ("Review…", "Deny with a reason", "Respond instead", "Edit"):
        await page.press(opener, card(risky))
        assert await flaws(page) == []
        await page.press("Back", card(risky))
    await page.press("Edit", card(risky))
    await page.press("As JSON", card(risky))
    await page.until(f"{card(risky)}.querySelector('[data-key=edit]')")
    await page.fill("[data-key=edit]", '{"amount": 5}')
    await page.press("Show the changes")
    await page.until(f"{card(risky)}.querySelector('.panel .added')")
    await box.claim(risky)
    await page.until(f"{card(risky)}.textContent.includes('bob is looking')")
    assert await flaws(page) == []
    plain = await box.ask(**{**COMMAND, "session": "other"})
    await see(page, plain)
    await page.press("Remember…", card(plain))
    await page.until(f"{card(plain)}.textContent.includes('exactly this')")
    await page.evaluate("document.querySelector('.menu').open = true")
    assert await flaws(page) == []
    await page.evaluate("document.querySelector('.menu').open = false")
    await box.decide(risky, Action.DENY, message="no")
    await page.press("Approve and remember", card(plain))
    await page.until(f"{card(plain)}.classList.contains('approved')")
    assert await flaws(page) == []


async def test_every_control_has_a_role_and_a_name(box: Inbox, page: Page) -> None:
    """The accessibility tree names all that can be operated, and each card by its heading."""
    for details in (COMMAND, FILE_CHANGE):
        await box.ask(**details)
    record = await box.ask(**QUESTION)
    await see(page, record)
    await page.until("document.querySelectorAll('.row-link').length === 3")
    controls = await page.controls()
    await page.press("Deny with a reason")
    controls += await page.controls()
    assert len(controls) > 20
    assert [role for role, name in controls if not name.strip()] == []
    for role, name in (
        ("button", "Mine 3"),
        ("button", "Send answer"),
        ("textbox", "What should the release be called?"),
        ("combobox", "When?"),
        ("spinbutton", "How many servers?"),
        ("combobox", "Tell the customers (optional)"),
        ("textbox", "Message to the agent"),
    ):
        assert (role, name) in controls
    lines = {name.split(" ")[0] for role, name in controls if role == "link" and "left" in name}
    assert sorted(lines) == ["Asks", "Changes", "Runs"]
    (article,) = [one for one in await page.tree() if one[0] == "article"]
    assert article[1].startswith("Asks")


async def test_what_happens_is_announced_politely(box: Inbox, page: Page) -> None:
    """Arrivals and decisions are said once, in a region that does not interrupt."""
    record = await box.ask(**COMMAND)
    await page.until("document.getElementById('announce').textContent === 'A new request arrived.'")
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
    await see(page, first)
    await page.key("j")
    await page.key("a")
    await page.until(f"{card(first)}.classList.contains('approved')")
    assert await page.evaluate(f"document.activeElement === {card(first)}")
    second = await box.ask(**HIGH_RISK)
    await see(page, second)
    await page.key("k")
    await page.key("a")
    await page.until("document.activeElement.textContent === 'Yes, approve'")
    await page.key("Escape")
    await page.until("document.activeElement.textContent === 'Review…'")
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
    await see(page, record)
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
    await page.until("document.querySelectorAll('.row-link').length === 7")
    await fits(page, size)
    await see(page, record)
    await fits(page, size)
    await page.evaluate("document.getElementById('back').click()")
    for view, found in (("Sessions", ".sessions"), ("Audit", ".audit")):
        await page.press(view)
        await page.until(f"document.querySelector('{found}')")
        await fits(page, size)


async def fits(page: Page, size: tuple[int, int]) -> None:
    """Hold the page against the size of the screen, and what is tapped against a finger's."""
    assert await page.evaluate("document.documentElement.scrollWidth") <= size[0]
    small = await page.evaluate(
        "[...document.querySelectorAll('button, .row-link')].filter((one) => one.offsetHeight &&"
        " one.offsetHeight < 44).map((one) => one.textContent)"
    )
    assert small == []


async def test_motion_is_optional(box: Inbox, page: Page) -> None:
    """Who asked their device for less motion gets none."""
    for still, wanted in ((False, "come"), (True, "none")):
        await page.size(PHONE, still=still)
        record = await box.ask(**{**COMMAND, "session": wanted})
        await see(page, record)
        assert await page.evaluate(f"getComputedStyle({card(record)}).animationName") == wanted
