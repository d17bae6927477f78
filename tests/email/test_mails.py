"""What mails say, and what they can never do."""

from __future__ import annotations

import re

import pytest

from adapters.email import EmailAdapter
from gateway.cards.card import Card, card_of
from gateway.models import Risk, RiskLevel
from gateway.ports import DeliveryFailed, Notice, NoticeKind
from tests.email.conftest import INBOX
from tests.email.postbox import OPS, SENDER, Postbox, part
from tests.world import World, click

NONCE = "a" * 22


async def test_first(mails: EmailAdapter, box: Postbox, world: World) -> None:
    record = await world.submit()
    card = card_of(record, lines=60, chars=4000)
    ref = await mails.deliver(f"email:{OPS}", card, NONCE)
    (mail,) = box.mails
    print(box.raw[0].decode())
    print(part(mail, "plain"))
    print(ref)
