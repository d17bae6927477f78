"""Declaring from the card: an admin says what a value is, and the card offers more at once."""

from __future__ import annotations

from typing import Any

from gateway.policy.calls.call_effects import effects_of
from tests.web.chromium import Page
from tests.web.inbox import Inbox, card
from tests.web.visitor import visitor

NOTE: dict[str, Any] = {"tool": "jot", "arguments": {"zork": "a note", "query": "x"}}


async def choose(page: Page, role: str) -> None:
    """Choose a role in the form."""
    await page.evaluate(
        "(() => { const it = document.querySelector('[data-key=declare-role]');"
        f" it.value = {role!r}; it.dispatchEvent(new Event('change')); }})()"
    )


async def test_an_admin_declares_and_the_card_is_read_anew(box: Inbox, page: Page) -> None:
    """The list, the choice, one press; the row is in the policy and the value leaves the list."""
    record = await box.ask(**NOTE)
    await page.until(f"{card(record)} !== null")
    await page.press("Declare arguments")
    await page.until(f"{card(record)}.querySelectorAll('.undeclared li').length === 2")
    assert not await page.evaluate(f"{card(record)}.querySelector('[data-key=send-declare]')")
    await choose(page, "data")
    await page.press("Declare it")
    await page.until(f"{card(record)}.querySelectorAll('.undeclared li').length === 1")
    await page.until(f"{card(record)}.textContent.includes('Declared: from now on, this is data')")
    (row,) = (await box.gateway.backend.store.policy()).tools
    assert (row.name, row.agents, row.arguments) == ("jot", ("deployer",), {"zork": "data"})
    assert row.declared_by == "ann"
    assert [one.name for one in effects_of(await box.get(record))[0].leaves if one.free] == ["zork"]


async def test_what_frees_an_action_is_asked_once_more(box: Inbox, page: Page) -> None:
    """Back writes nothing; only the second press does."""
    record = await box.ask(tool="jot", arguments={"query": "x"})
    await page.until(f"{card(record)} !== null")
    await page.press("Declare arguments")
    await choose(page, "data")
    await page.press("Declare it")
    await page.until(f"{card(record)}.textContent.includes('By its name or its look')")
    await page.press("Back")
    await page.until(f"{card(record)}.querySelector('[data-key=send-declare]') !== null")
    assert (await box.gateway.backend.store.policy()).tools == ()
    await page.press("Declare it")
    await page.press("Declare anyway")
    await page.until(f"{card(record)}.textContent.includes('Declared: from now on, this is data')")
    (row,) = (await box.gateway.backend.store.policy()).tools
    assert row.arguments == {"query": "data"}


async def test_who_is_no_admin_reads_the_list_and_has_no_form(box: Inbox) -> None:
    """And the call behind the form refuses them, whatever their page sends."""
    record = await box.ask(**NOTE)
    async with visitor(box, "bob") as bob:
        shown = await bob.shown(record)
        assert [one["address"] for one in shown["undeclared"]] == ["zork", "query"]
        path = f"requests/{record.id}/declare"
        status, _ = await bob.post(path, {"address": "zork", "role": "data"})
        assert status == 403
        status, _ = await bob.post(path, {"harmless": True, "confirmed": True})
        assert status == 403
    assert (await box.gateway.backend.store.policy()).tools == ()


async def test_a_card_declares_only_what_it_shows(box: Inbox) -> None:
    """Not another address, not a name that it cannot show whole, not once it has ended."""
    record = await box.ask(tool="jot", arguments={"x" * 120: "a", "zork": "b"})
    path = f"requests/{record.id}/declare"
    async with visitor(box) as ann:
        named = {one["address"] for one in (await ann.shown(record))["undeclared"]}
        assert named == {"", "zork"}
        for address in ("elsewhere", "x" * 120):
            status, _ = await ann.post(path, {"address": address, "role": "data"})
            assert status == 409, address
        for body in ({"address": "zork", "role": "dta"}, {"address": "zork"}, {}, {"role": "data"}):
            assert (await ann.post(path, body))[0] == 422, body
        await box.decide(record)
        assert (await ann.post(path, {"address": "zork", "role": "data"}))[0] == 409
    assert (await box.gateway.backend.store.policy()).tools == ()


async def test_it_is_read_on_a_phone(box: Inbox, page: Page) -> None:
    """Nothing is wider than the screen, in the form and in its question."""
    record = await box.ask(tool="jot", arguments={"x" * 60: {"y" * 60: "v"}, "query": "x"})
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    await page.until(f"{card(record)} !== null")
    await page.press("Declare arguments")
    await page.until(f"{card(record)}.querySelector('.undeclared') !== null")
    assert await page.evaluate(wide) == 0
    await page.press("Declare the whole tool harmless")
    await page.until(f"{card(record)}.textContent.includes('whatever its arguments')")
    assert await page.evaluate(wide) == 0


async def test_what_looks_like_a_path_is_asked_once_more_too(box: Inbox) -> None:
    """Though its name says nothing."""
    record = await box.ask(tool="jot", arguments={"zork": ["plain", "/etc/passwd", "plain"]})
    word = {"address": "zork[]", "role": "data"}
    async with visitor(box) as ann:
        status, told = await ann.post(f"requests/{record.id}/declare", word)
        assert (status, told["code"]) == (422, "unconfirmed")
        status, _ = await ann.post(f"requests/{record.id}/declare", {**word, "confirmed": True})
        assert status == 200
