"""The inbox in a real Chromium, against a whole gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.models import FieldKind, Option, Question, Status
from tests.web.chromium import DESK, PHONE, Page, chromium
from tests.web.inbox import COMMAND, FILE_CHANGE, HIGH_RISK, HOSTILE, LONG, QUESTION, Inbox, inbox
from tests.world import click

pytestmark = pytest.mark.browser


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Inbox]:
    """Yield a running gateway with the inbox."""
    async with inbox(tmp_path) as made:
        yield made


@pytest.fixture
async def page(box: Inbox) -> AsyncIterator[Page]:
    """Yield a phone-sized page, signed in; whatever the page threw fails the test."""
    async with chromium() as tab:
        await tab.size(PHONE)
        await box.sign_in(tab)
        yield tab
        assert tab.errors == []


def card(record: Any) -> str:
    """Return the JavaScript expression for a request's card."""
    return f"document.querySelector('[data-id=\"{record.id}\"]')"


async def test_a_request_arrives_and_one_tap_approves_it(box: Inbox, page: Page) -> None:
    """Live, with the exact command; after the tap the buttons are gone and it says who decided."""
    await page.until("document.querySelector('.empty')")
    record = await box.ask(**COMMAND)
    await page.until(f"{card(record)}.querySelector('pre').textContent.includes('--delete build/')")
    assert await page.evaluate(f"{card(record)}.textContent.includes('unverified')")
    await page.press("Approve")
    await page.until(f"{card(record)}.textContent.includes('approved by ann')")
    assert await page.evaluate(f"{card(record)}.querySelectorAll('.controls').length") == 0
    assert (await box.get(record)).status is Status.APPROVED


async def test_deny_with_a_reason(box: Inbox, page: Page) -> None:
    """The words reach the decision."""
    record = await box.ask(**COMMAND)
    await page.press("Deny with a reason")
    await page.fill("textarea", "not on a Friday")
    await page.press("Deny", ".".join([card(record), "querySelector('.extra')"]))
    await page.until(f"{card(record)}.textContent.includes('not on a Friday')")
    decision = (await box.get(record)).decision
    assert decision is not None
    assert (decision.status, decision.message) == (Status.DENIED, "not on a Friday")


async def test_an_edit_shows_its_diff_before_it_is_sent(box: Inbox, page: Page) -> None:
    """What changes is seen, and exactly that is approved."""
    record = await box.ask(tool="pay", arguments={"amount": 900})
    await page.press("Edit")
    await page.fill("textarea", '{"amount": 90}')
    await page.press("Show the changes")
    await page.until(f"{card(record)}.querySelector('.extra .added')")
    await page.press("Approve with these changes")
    await page.until(f"{card(record)}.classList.contains('approved')")
    decision = (await box.get(record)).decision
    assert decision is not None
    assert decision.arguments == {"amount": 90}


async def test_a_high_risk_needs_a_second_tap(box: Inbox, page: Page) -> None:
    """The first tap asks; only the second decides."""
    record = await box.ask(**HIGH_RISK)
    await page.press("Approve")
    await page.until(f"{card(record)}.textContent.includes('exactly as shown?')")
    assert (await box.get(record)).status is Status.PENDING
    await page.press("Yes, approve")
    await page.until(f"{card(record)}.classList.contains('approved')")


async def test_a_form_is_answered(box: Inbox, page: Page) -> None:
    """Every kind of field, and the secret one is not in the record."""
    record = await box.ask(**QUESTION)
    await page.fill("input[type=text]", "Aurora")
    await page.fill("input[type=number]", "3")
    await page.fill("input[type=password]", "hunter2")
    await page.evaluate(f"{card(record)}.querySelector('select').value = 'night'")
    await page.press("Send answer")
    await page.until(f"{card(record)}.classList.contains('approved')")
    decision = (await box.get(record)).decision
    assert decision is not None
    assert decision.answers == {
        "name": "Aurora",
        "when": "night",
        "count": 3,
        "mail": False,
        "key": None,
    }


async def test_long_text_must_be_opened_before_approving(box: Inbox, page: Page) -> None:
    """The cut is said, Approve is dead until the whole was shown, and the server insists on it."""
    record = await box.ask(**LONG)
    await page.until(f"{card(record)}.textContent.includes('of 9 000 lines shown')")
    disabled = f"{card(record)}.querySelector('.approve').disabled"
    assert await page.evaluate(disabled)
    await page.press("Open full text")
    await page.until(f"!{disabled} && {card(record)}.textContent.includes('a = 8999;')")
    await page.press("Approve")
    await page.until(f"{card(record)}.classList.contains('approved')")


async def test_hostile_text_is_shown_and_inert(box: Inbox, page: Page) -> None:
    """Markup stays text, invisible and reordering characters are visible, nothing fakes a state."""
    record = await box.ask(**HOSTILE)
    text = await page.until(f"{card(record)}.textContent")
    for escape in ("⟨U+200B⟩", "⟨U+202E⟩", "⟨U+001B⟩", "<img src=x", "<script>", "\u00d7 U+000A"):
        assert escape in text
    assert (
        await page.evaluate("document.querySelectorAll('main img, main script, main a').length")
        == 0
    )
    assert await page.evaluate(f"{card(record)}.classList.contains('pending')")


async def test_hostile_words_of_a_question_are_shown(box: Inbox, page: Page) -> None:
    """Labels and options are an agent's words too."""
    fields = (
        Question(
            id="a",
            text="Pick\u202e one",
            kind=FieldKind.CHOICE,
            options=(Option(value="x", label="Yes\u200b"),),
        ),
    )
    record = await box.ask(**{**QUESTION, "questions": fields})
    text = await page.until(f"{card(record)}.textContent")
    assert "⟨U+202E⟩" in text
    assert "⟨U+200B⟩" in text


async def test_a_decision_made_elsewhere_is_shown_and_a_stale_tap_explained(
    box: Inbox, page: Page
) -> None:
    """The card follows; the loser of a race is told who won."""

    record = await box.ask(**FILE_CHANGE)
    await page.until(card(record))
    await box.gateway.approvals.decide(click(record))
    await page.until(f"{card(record)}.textContent.includes('approved by ann')")


async def test_the_keyboard_is_enough(box: Inbox, page: Page) -> None:
    """Move, approve, deny without a pointer."""
    first = await box.ask(**COMMAND)
    await page.size(DESK)
    await page.until(card(first))
    await page.key("j")
    await page.key("a")
    await page.until(f"{card(first)}.classList.contains('approved')")
    second = await box.ask(**COMMAND)
    await page.until(card(second))
    await page.key("k")
    await page.key("d")
    await page.until(f"{card(second)}.classList.contains('denied')")


async def test_every_control_has_a_role_and_a_name(box: Inbox, page: Page) -> None:
    """The accessibility tree names all that can be operated."""
    await box.ask(**COMMAND)
    record = await box.ask(**QUESTION)
    await page.until(card(record))
    controls = await page.controls()
    assert len(controls) > 12
    assert [role for role, name in controls if not name.strip()] == []


async def test_nothing_can_be_decided_while_disconnected(tmp_path: Path) -> None:
    """When the gateway is gone old cards lose their buttons, and the page says so aloud."""
    async with chromium() as page:
        async with inbox(tmp_path) as box:
            await page.size(PHONE)
            await box.sign_in(page)
            record = await box.ask(**COMMAND)
            await page.until(f"{card(record)}.querySelector('.controls').offsetHeight > 0")
        await page.until("!document.getElementById('offline').hidden")
        assert await page.evaluate(f"{card(record)}.querySelector('.controls').offsetHeight") == 0


async def test_the_page_fits_a_phone(box: Inbox, page: Page) -> None:
    """Nothing is wider than the screen, and what is tapped is large enough."""
    for details in (COMMAND, HIGH_RISK, HOSTILE, FILE_CHANGE):
        record = await box.ask(**details)
    await page.until(card(record))
    assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    small = await page.evaluate(
        "[...document.querySelectorAll('button')].filter((one) => one.offsetHeight &&"
        " one.offsetHeight < 44).map((one) => one.textContent)"
    )
    assert small == []


async def test_writes_need_our_origin_our_cookie_and_our_token(box: Inbox) -> None:
    """Foreign pages, missing tokens and reused codes are turned away; GET decides nothing."""
    url = box.gateway.url
    record = await box.ask(**COMMAND)
    code = await box.gateway.backend.logins.invite("ann")
    path = f"{url}/inbox/api/requests/{record.id}/decide"
    body = {"revision": 1, "action": "approve", "nonce": "n"}
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as http:
        login = f"{url}/inbox/api/login"
        assert (await http.post(login, json={"code": code})).status == 403
        foreign = {"Origin": "https://example.invalid"}
        assert (await http.post(login, json={"code": code}, headers=foreign)).status == 403
        ours = {"Origin": url}
        assert (await http.post(path, json=body, headers=ours)).status == 401
        assert (await http.post(login, json={"code": code}, headers=ours)).status == 200
        assert (await http.post(login, json={"code": code}, headers=ours)).status == 403
        token = (await (await http.get(f"{url}/inbox/api/me")).json())["csrf"]
        signed = {**ours, "X-CSRF-Token": token}
        assert (await http.post(path, json=body, headers=ours)).status == 403
        assert (await http.post(path, json=body, headers={**signed, **foreign})).status == 403
        cross = {**signed, "Sec-Fetch-Site": "cross-site"}
        assert (await http.post(path, json=body, headers=cross)).status == 403
        assert (await http.get(path, headers=signed)).status == 405
        extra = {**body, "person": "bob"}
        assert (await http.post(path, json=extra, headers=signed)).status == 422
        assert (await box.get(record)).status is Status.PENDING
        assert (await http.post(path, json=body, headers=signed)).status == 200
        assert (await http.post(path, json={**body, "nonce": "m"}, headers=signed)).status == 409
        page = await http.get(f"{url}/inbox")
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]
        assert "unsafe" not in page.headers["Content-Security-Policy"]


async def test_a_revoked_approver_is_signed_out(box: Inbox) -> None:
    """Their session and their unused login codes open nothing any more."""
    backend = box.gateway.backend
    session = await backend.logins.redeem(await backend.logins.invite("ann"))
    unused = await backend.logins.invite("ann")
    assert await backend.logins.who(session) is not None
    await backend.credentials.revoke_approver("ann")
    assert await backend.logins.who(session) is None
    assert await backend.logins.who(await backend.logins.redeem(unused)) is None


async def test_an_unseen_long_text_cannot_be_approved_by_a_script(box: Inbox) -> None:
    """The page's rule is the server's rule."""
    url = box.gateway.url
    record = await box.ask(**LONG)
    code = await box.gateway.backend.logins.invite("ann")
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.CookieJar(unsafe=True), headers={"Origin": url}
    ) as http:
        await http.post(f"{url}/inbox/api/login", json={"code": code})
        token = (await (await http.get(f"{url}/inbox/api/me")).json())["csrf"]
        answer = await http.post(
            f"{url}/inbox/api/requests/{record.id}/decide",
            json={"revision": 1, "action": "approve", "nonce": "n"},
            headers={"X-CSRF-Token": token},
        )
        assert (answer.status, (await answer.json())["code"]) == (409, "not_seen")


def test_scripts_make_no_markup() -> None:
    """Text nodes only: none of the ways to parse a string as markup or code is used."""
    folder = Path(__file__).parents[2] / "adapters" / "web" / "static"
    scripts = list(folder.glob("*.js"))
    assert scripts
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        for banned in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert banned not in text, (script.name, banned)
