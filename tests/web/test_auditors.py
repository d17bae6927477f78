"""An auditor in the inbox, and a member of a group in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.web.security import _ROUTES
from gateway.domain.records import AUDITOR
from gateway.models import Status
from gateway.policy.policy_file_reader import read_policy
from tests.sign_in.provider import CLIENT, SECRET, Provider, providing
from tests.sign_in.test_groups import POLICY
from tests.web.chromium import Browser, Page
from tests.web.inbox import CONNECTED, Inbox, card, inbox, see
from tests.web.visitor import visitor

pytestmark = pytest.mark.timeout(240)

OWN = {"passkeys/options", "passkeys", "passkeys/remove", "devices/end", "logout"}
"""Writes that change only the caller's own sign-in."""
READING = {"requests/{id}/diff"}
WITHOUT_SESSION = {
    "login",
    "login/whose",
    "login/passkey",
    "login/passkey/options",
    "login/provider",
    "login/provider/finish",
}
WRITES = sorted(
    path.removeprefix("/inbox/api/") for method, path in set(_ROUTES.values()) if method == "POST"
)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Inbox]:
    """Run a gateway where eve is an auditor."""
    async with inbox(tmp_path) as made:
        store = made.gateway.backend.store
        policy = await store.policy()
        people = tuple(replace(one, auditor=one.name == "eve") for one in policy.people)
        await store.apply(replace(policy, people=people), by="test")
        made.gateway.core.writer.forget_policy()
        yield made


async def test_every_write_of_the_inbox_refuses_an_auditor(box: Inbox) -> None:
    """Before it reads the body, so a new route refuses too; their own sign-in stays theirs."""
    record = await box.ask(tool="deploy")
    assert set(WRITES) > OWN | READING | WITHOUT_SESSION
    async with visitor(box, "eve") as eve:
        assert (await eve.get("me"))["auditor"] is True
        for path in WRITES:
            if path in WITHOUT_SESSION | {"logout"}:
                continue
            filled = path.replace("{id}", record.id).replace("{device}", "x")
            status, answer = await eve.post(filled, {})
            refused = (status, answer.get("detail")) == (403, AUDITOR)
            assert refused is (path not in OWN | READING), (path, status, answer)
        for path in ("audit", "report", "queue", "grants", "sessions", "devices", "operations"):
            async with eve.http.get(f"{eve.url}/inbox/api/{path}") as answer_:
                assert answer_.status in (200, 404), (path, await answer_.text())
        assert (await eve.shown(record))["mine"] is False
        status, _ = await eve.post("logout", {})
        assert status == 200
    assert (await box.get(record)).status is Status.PENDING


@pytest.mark.browser
async def test_an_auditor_sees_the_audit_and_no_button(box: Inbox, browser: Browser) -> None:
    """The tab of admins, and a request without a decision to press."""
    record = await box.ask(tool="deploy")
    page = await browser.tab()
    await box.sign_in(page, "eve")
    assert not await page.evaluate("document.querySelector('[data-view=audit]').hidden")
    assert not await page.evaluate("document.body.textContent.includes('Stop everything')")
    await see(page, record)
    assert not await page.evaluate(f"Boolean({card(record)}.querySelector('.approve'))")
    assert page.errors == []


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """Run an identity provider."""
    async with providing("") as made:
        yield made


@pytest.mark.browser
async def test_a_member_of_a_group_signs_in_and_approves(
    tmp_path: Path, provider: Provider, browser: Browser
) -> None:
    """With one press and no entry in a file. The running gateway notices within a minute that they
    were deactivated, and the page is signed out."""
    client: dict[str, Any] = {"oidc_client_id": CLIENT, "oidc_client_secret": SecretStr(SECRET)}
    more = {**client, "oidc_claim": "sub", "oidc_issuer": provider.issuer}
    async with inbox(tmp_path, named=True, **more) as box:
        store = box.gateway.backend.store
        await store.apply(read_policy(POLICY).succeed(await store.policy()), by="test")
        box.gateway.core.writer.forget_policy()
        provider.back = f"{box.gateway.url}/inbox/login/back"
        provider.claims = {"sub": "7", "groups": ["payments"]}
        page: Page = await browser.tab()
        await page.goto(f"{box.gateway.url}/inbox/login")
        await page.press(f"Sign in with {provider.issuer.removeprefix('http://')}")
        await page.until(f"{CONNECTED} && document.body.textContent.includes('member@oidc-')")
        record = await box.ask(tool="deploy")
        await see(page, record)
        await page.until(f"{card(record)}.querySelector('.approve')")
        await page.evaluate(f"{card(record)}.querySelector('.approve').click()")
        await page.until(f"{card(record)}?.textContent.includes('Approved') || !{card(record)}")
        decided = await box.get(record)
        assert decided.status is Status.APPROVED
        assert decided.decision is not None
        assert str(decided.decision.decided_by.name).startswith("member@oidc-")
        provider.accounts.clear()
        await page.until("location.pathname === '/inbox/login'")
        assert [one.data["why"] for one in await box.events("member_left")] == [
            "the identity provider no longer confirms the sign-in"
        ]
