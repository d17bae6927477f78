"""One browser for all the tests, a gateway and a visitor for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.web.chromium import Browser, Page, running, visiting
from tests.web.inbox import Inbox, inbox


@pytest.fixture(scope="session")
def browser_address() -> Iterator[str]:
    """Run one Chromium for the whole test run."""
    with running() as address:
        yield address


@pytest.fixture
async def browser(browser_address: str) -> AsyncIterator[Browser]:
    """Yield a visitor's browser."""
    async with visiting(browser_address) as made:
        yield made


@pytest.fixture
async def box(tmp_path: Path, server_url: str, namespace: str) -> AsyncIterator[Inbox]:
    """Yield a running gateway with the inbox, on the server that the tests share."""
    async with inbox(tmp_path, redis_url=server_url, namespace=namespace) as made:
        yield made


@pytest.fixture
async def page(box: Inbox, browser: Browser) -> AsyncIterator[Page]:
    """Yield a page on a desk, signed in as ann; whatever the page threw fails the test."""
    tab = await browser.tab()
    await box.sign_in(tab)
    yield tab
    assert tab.errors == []
