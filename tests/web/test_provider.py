"""Signing in with an identity provider in a real browser, and over HTTP without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from tests.sign_in.provider import CLIENT, SECRET, Provider, providing
from tests.web.chromium import Browser
from tests.web.inbox import CONNECTED, Inbox, inbox
from tests.web.test_access import flaws

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """Run an identity provider."""
    async with providing("") as made:
        yield made


@pytest.fixture
async def box(tmp_path: Path, provider: Provider) -> AsyncIterator[Inbox]:
    """Yield a gateway that asks it, and knows ann by her address there."""
    client: dict[str, Any] = {"oidc_client_id": CLIENT, "oidc_client_secret": SecretStr(SECRET)}
    async with inbox(tmp_path, named=True, oidc_issuer=provider.issuer, **client) as made:
        provider.back = f"{made.gateway.url}/inbox/login/back"
        policy = await made.gateway.backend.store.policy()
        people = tuple(
            replace(one, identities=(*one.identities, f"oidc:{one.name}@example.org"))
            for one in policy.people
        )
        await made.gateway.backend.store.apply(replace(policy, people=people), by="test")
        yield made


@pytest.mark.browser
async def test_one_tap_and_the_provider_sign_in(
    box: Inbox, provider: Provider, browser: Browser
) -> None:
    """To its page and back, into the inbox; what came back leaves the address; a stranger reads a
    sentence and a way to try again."""
    page = await browser.tab()
    await page.goto(f"{box.gateway.url}/inbox/login")
    label = f"Sign in with {provider.issuer.removeprefix('http://')}"
    provider.claims["email"] = "eve.nobody@example.org"
    await page.press(label)
    await page.until(
        "document.body.textContent.includes('You were not signed in: nobody here has')"
    )
    assert await page.evaluate("location.href") == provider.back
    assert await flaws(page) == []
    provider.claims["email"] = "ann@example.org"
    await page.press("Try again")
    await page.press(label)
    await page.until(f"{CONNECTED} && document.getElementById('who').textContent.includes('ann')")
    assert [one.data["way"] for one in await box.events("signed_in")] == ["oidc"]
    assert page.errors == []


async def test_a_sign_in_belongs_to_the_browser_that_began_it(
    box: Inbox, provider: Provider
) -> None:
    """What one browser came back with is worth nothing in another: nobody is signed in as somebody
    else by a link to our own page; and another site's page can neither begin nor end."""
    url, ours = f"{box.gateway.url}/inbox/api/login/provider", {"Origin": box.gateway.url}

    async def begin(http: aiohttp.ClientSession) -> dict[str, str]:
        async with http.post(url, headers=ours) as answer:
            assert answer.status == 200
            return provider.agree((await answer.json())["page"])

    async def end(http: aiohttp.ClientSession, came: object, **headers: str) -> int:
        async with http.post(f"{url}/finish", json=came, headers=ours | headers) as answer:
            assert ("Set-Cookie" in answer.headers) == (answer.status == 200)
            return answer.status

    foreign = {"Origin": "https://evil.example"}
    async with aiohttp.ClientSession() as one, aiohttp.ClientSession() as other:
        async with one.post(url, headers=foreign) as answer:
            assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)
        theirs = await begin(one)
        assert await end(other, theirs) == 403, "it began nothing"
        await begin(other)
        assert await end(other, theirs) == 403, "it began something else"
        assert await end(one, theirs, **foreign) == 403
        assert await end(one, {**theirs, "session": "x"}) == 422
        assert await end(one, theirs) == 200
        assert await end(one, theirs) == 403, "a second time"
    assert {one.data["way"] for one in await box.events("sign_in_refused")} == {"oidc"}
