"""A mail in a real browser, on a phone: it fits, runs nothing and loads nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.email.messages import build_message, write_mail
from gateway.cards.card import card_of
from gateway.cards.grant_cards import grant_card_of
from gateway.models import Context, Risk, RiskLevel
from tests.contract.test_grants import GRANTED
from tests.discord.pictures import stored
from tests.email.postbox import OPS, SENDER, parse, part
from tests.email.test_mails import HOSTILE
from tests.web.chromium import PHONE, running, visiting
from tests.world import request

pytestmark = pytest.mark.browser

URL = f"https://approvals.example/inbox/r/{'a' * 32}"
ORDINARY = replace(
    stored(request(arguments={"command": "terraform apply"}, context=Context(cwd="/srv/shop"))),
    risk=Risk(level=RiskLevel.HIGH, reasons=("changes production",)),
)
EVIL = stored(
    request(
        tool=f"t{'o' * 90}",
        arguments={"command": HOSTILE, "note": "x" * 900 + "\n" * 20},
        hint=HOSTILE,
        context=Context(cwd=f"/{'very-long-name/' * 20}"),
    )
)
CARDS = (
    card_of(ORDINARY, lines=60, chars=4000),
    card_of(EVIL, lines=60, chars=4000),
    grant_card_of(GRANTED),
)


async def test_a_mail_fits_a_phone_and_loads_nothing(tmp_path: Path) -> None:
    """Neither from hostile requests. The one link is a button that a thumb can press."""
    with running() as address:
        async with visiting(address) as browser:
            page = await browser.tab(PHONE)
            for card in CARDS:
                raw = build_message(write_mail(card, URL), SENDER, OPS, "1@approvals.example", None)
                file = tmp_path / "mail.html"
                file.write_text(part(parse(raw), "html"), encoding="utf-8")
                await page.goto(file.as_uri())
                await page.until("document.readyState === 'complete' && document.links.length")
                assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
                assert await page.evaluate("performance.getEntriesByType('resource').length") == 0
                links = "[...document.links].map(one => one.href).join()"
                assert await page.evaluate(links) == URL
                assert await page.evaluate("document.links[0].getBoundingClientRect().height") >= 44
            assert page.errors == []
