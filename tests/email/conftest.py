"""The mail server of the tests, and an adapter that mails through it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from adapters.email import EmailAdapter, mail_server
from gateway.ports import AdapterApi
from gateway.server.background import adapter_api
from tests.email.postbox import PASSWORD, SENDER, USER, Postbox, certify, running
from tests.world import World

INBOX = "https://approvals.example/inbox"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """Return a certificate for localhost, and its file."""
    return certify(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait long for a server that refuses or does not answer."""
    monkeypatch.setattr(mail_server, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(mail_server, "_RECOVER_SECONDS", 0.05)


@pytest.fixture
async def box(
    certificate: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch, quick: None
) -> AsyncIterator[Postbox]:
    """Yield a mail server that requires STARTTLS and a login, which the settings name."""
    context, trusted = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with running(Postbox(), context) as made:
        settle(monkeypatch, f"smtp://{USER}:{quote(PASSWORD, safe='')}@localhost:{made.port}")
        yield made


def settle(monkeypatch: pytest.MonkeyPatch, url: str, sender: str = SENDER) -> None:
    """Set the settings."""
    monkeypatch.setenv("GATEWAY_EMAIL_URL", url)
    monkeypatch.setenv("GATEWAY_EMAIL_FROM", sender)


@pytest.fixture
def api(world: World) -> AdapterApi:
    """Return the adapter's API, with an inbox."""
    return adapter_api("email", world.core, world.store, inbox=INBOX)


@pytest.fixture
async def mails(box: Postbox, api: AdapterApi) -> AsyncIterator[EmailAdapter]:
    """Yield a running adapter, without the core behind it."""
    adapter = EmailAdapter()
    async with adapter.run(api):
        yield adapter
