"""Signing in by a code that somebody types, on a phone in the same network too."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.models import Status
from gateway.server import lan
from gateway.server.app import run_gateway
from gateway.server.settings import Settings
from tests.web.chromium import PHONE, Browser, Page, running, visiting
from tests.web.inbox import COMMAND, CONNECTED, Inbox, card, see

pytestmark = pytest.mark.browser

TYPED: dict[str, Callable[[str], str]] = {
    "as it is printed": str,
    "in small letters": str.lower,
    "without dashes": lambda code: code.replace("-", ""),
    "with blanks": lambda code: f" {code.replace('-', ' ')} ",
}
READY = "!document.getElementById('paste').hidden"


async def enter(page: Page, text: str) -> None:
    """Fill the one field of the page, and go on."""
    await page.until(READY)
    await page.fill("#link", text)
    await page.press("Continue")


@pytest.mark.parametrize("typed", TYPED.values(), ids=TYPED)
async def test_a_code_is_typed_on_a_phone(
    box: Inbox, browser: Browser, typed: Callable[[str], str]
) -> None:
    """However: an installed app has cookies of its own, and opens no links."""
    page = await browser.tab(PHONE)
    await page.goto(f"{box.gateway.url}/inbox/login")
    await page.until(READY)
    assert ("textbox", "Paste the link, or type the code") in await page.controls()
    await enter(page, typed(await box.gateway.backend.logins.invite("ann")))
    await page.press("Sign in as ann")
    await page.until(CONNECTED)
    assert page.errors == []


async def test_wrong_codes_are_counted(box: Inbox, browser: Browser) -> None:
    """As links are; a good one signs in all the same."""
    page = await browser.tab(PHONE)
    await page.goto(f"{box.gateway.url}/inbox/login")
    good = await box.gateway.backend.logins.invite("ann")
    wrong = "0000-1111-2222-3333"
    for _ in range(20):
        await enter(page, wrong)
        await page.until("document.body.textContent.includes('is wrong, expired')")
    await enter(page, wrong)
    await page.until("document.body.textContent.includes('oo many wrong login links')")
    await page.goto(f"{box.gateway.url}/inbox/login")
    await enter(page, good)
    await page.press("Sign in as ann")
    await page.until(CONNECTED)


@asynccontextmanager
async def in_a_browser(*flags: str) -> AsyncIterator[Browser]:
    """Yield a visitor's browser that was started so."""
    with running(*flags) as address:
        async with visiting(address) as browser:
            yield browser


async def test_a_phone_in_the_network_answers_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a cookie that only TLS carries, while another one is signed in at the plain address of
    the same name: each is who they are."""
    monkeypatch.setattr(lan, "find_addresses", lambda: [IPv4Address("192.168.7.5")])
    settings = Settings(data_dir=tmp_path / "data", port=0)
    phones = lan.prepare_lan(settings)
    certificate = x509.load_pem_x509_certificate((tmp_path / "data" / "lan.crt").read_bytes())
    public = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    known = b64encode(hashlib.sha256(public).digest()).decode()
    trusting = f"--ignore-certificate-errors-spki-list={known}"
    async with run_gateway(settings, lan=phones) as gateway, in_a_browser(trusting) as browser:
        box = Inbox(gateway)
        await box.route()
        addresses = {
            "bob": gateway.url.replace("127.0.0.1", "localhost"),
            "ann": gateway.lan_url.replace("192.168.7.5", "localhost"),
        }
        pages = {}
        for person, url in addresses.items():
            pages[person] = page = await browser.tab(PHONE)
            await page.goto(f"{url}/inbox/login")
            await enter(page, await gateway.backend.logins.invite(person))
            await page.press(f"Sign in as {person}")
            await page.until(CONNECTED)
        cookies = (await pages["ann"].send("Network.getCookies"))["cookies"]
        (cookie,) = [one for one in cookies if one["name"] == "__Host-agw"]
        assert cookie["secure"]
        assert cookie["httpOnly"]
        record = await box.ask(**COMMAND)
        await see(pages["ann"], record)
        await pages["ann"].press("Approve", card(record))
        await pages["ann"].until("document.body.textContent.includes('pproved')")
        decided = (await box.get(record)).decision
        assert decided is not None
        assert (decided.status, decided.decided_by.name) == (Status.APPROVED, "ann")
        assert await pages["bob"].evaluate("document.getElementById('who').textContent") == "bob"
        assert [one.errors for one in pages.values()] == [[], []]
