"""What mails say, and that nothing in them can mislead, decide or load anything."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from random import Random
from typing import Any

import pytest

from adapters.email import EmailAdapter
from adapters.email.messages import build_message, write_mail
from gateway.approvals.duplicates_and_overflow import Overflow
from gateway.cards.card import Card, card_of, discreet_notification
from gateway.cards.grant_cards import grant_card_of
from gateway.delivery.overflow_cards import build_overflow_card
from gateway.domain.records import StoredRequest
from gateway.models import Context, Kind, Risk, RiskLevel
from gateway.ports import CopyGone, DeliveryFailed, Notice, NoticeKind, RetryLater
from tests.contract.hostile_requests import draw_text
from tests.contract.test_grants import GRANTED, OVER
from tests.email.conftest import INBOX
from tests.email.postbox import OPS, SENDER, Postbox, parse, part
from tests.web.inbox import MASKED, SECRET
from tests.world import World, click

NONCE = "a" * 22
TARGET = f"email:{OPS}"
HOSTILE = (
    "x\r\nBcc: eve@example.com\r\n\r\n<img src=http://evil.example/x.png>\u202e\u200b\x1b[31m"
    ' <script>alert(1)</script> </pre><a href="https://evil.example/r/1">Approve</a>'
    " https://evil.example www.evil.example WWW.evil.example eve@evil.example"
)
HEADERS = {
    *("Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted", "MIME-Version"),
    "Content-Type",
}
MOST_BYTES = 100_000  # some programs for mail cut off longer ones


class Markup(HTMLParser):
    """Reads the elements and the attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def card(record: StoredRequest) -> Card:
    """Return the card as the core makes it for this adapter."""
    return card_of(record, lines=EmailAdapter.card_lines, chars=EmailAdapter.card_chars)


def check(raw: bytes, url: str) -> Markup:
    """Check what holds for every mail, whatever it is about. Return its page."""
    mail = parse(raw)
    assert set(mail.keys()) - {"In-Reply-To", "References"} == HEADERS
    assert len(mail.keys()) == len(set(mail.keys()))
    assert mail["Auto-Submitted"] == "auto-generated"
    assert (mail["To"], SENDER in mail["From"]) == (OPS, True)
    assert len(raw) < MOST_BYTES
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert raw.isascii() and b"\n" not in raw.replace(b"\r\n", b"")
    plain, page = part(mail, "plain"), part(mail, "html")
    for text in (plain, page, mail["Subject"]):
        assert not {"\u202e", "\u200b", "\x1b", "\r"} & set(text.replace("\r\n", "\n"))
    assert re.findall(r"https?://\S+", plain) == [url]
    assert not re.findall(r"www\.", plain.replace(url, ""), re.IGNORECASE)
    found = Markup(page)
    assert found.tags <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "pre", "a", "wbr"),
    }
    assert {name for name, _ in found.attributes} <= {
        "lang",
        "charset",
        "name",
        "content",
        "style",
        "href",
    }
    assert [value for name, value in found.attributes if name == "href"] == [url]
    assert "url(" not in page and "@import" not in page
    body = Markup(page.partition("<body>")[2])
    assert not [word for word in body.words if re.search(r"\w(://|[.@]\w)", word)]
    return found


async def sent(mails: EmailAdapter, box: Postbox, record: StoredRequest) -> Any:
    """Mail a request's card, and return what arrived."""
    await mails.deliver(TARGET, card(record), NONCE)
    assert box.recipients == [OPS]
    check(box.raw[0], f"{INBOX}/r/{record.id}")
    return box.mails[0]


async def test_a_mail_says_what_would_run(mails: EmailAdapter, box: Postbox, world: World) -> None:
    """Call, agent, risk, deadline and the one link, in both forms; the subject sums it up."""
    record = await world.submit(
        arguments={"command": "make deploy"},
        context=Context(cwd="/srv/shop"),
        risk=Risk(level=RiskLevel.HIGH, reasons=("touches production",)),
        hint="the tests are green",
    )
    mail = await sent(mails, box, record)
    assert "make deploy" in mail["Subject"] and "High risk" in mail["Subject"]
    for kind in ("plain", "html"):
        said = re.sub(r"<[^>]*>", "", part(mail, kind))
        for words in (
            *("Approval needed", "make deploy", "/srv/shop", "touches production", "Expires 2"),
            *("the tests are green", "unverified", "cannot decide anything"),
        ):
            assert words in said, words


@pytest.mark.parametrize("seed", range(12))
async def test_hostile_texts_stay_texts(
    mails: EmailAdapter, box: Postbox, world: World, seed: int
) -> None:
    """No header, element, link or hidden character comes from a request."""
    random = Random(seed)
    texts = [HOSTILE, HOSTILE * 40] if seed == 0 else [draw_text(random), draw_text(random)]
    record = await world.submit(
        tool=re.sub(r"[\x00-\x1f\x7f]", "", texts[0])[:100].strip() or "t",
        kind=Kind.TOOL,
        arguments={"command": texts[1], "note": texts[0]},
        hint=texts[0][:2000],
        context=Context(cwd=texts[0][:500], host=texts[0][:100]),
    )
    await sent(mails, box, record)


def test_no_header_comes_from_a_subject() -> None:
    """Even if the card would let through what it never does."""
    record = write_mail(grant_card_of(GRANTED), INBOX)
    for subject in (HOSTILE, HOSTILE * 100, "\r\n.\r\nMAIL FROM:<eve@evil.example>", "é" * 5000):
        hostile = replace(record, subject=subject)
        for thread in (None, (f"{NONCE}@approvals.example", subject)):
            raw = build_message(hostile, SENDER, OPS, f"{NONCE}@approvals.example", thread)
            check(raw, INBOX)
            assert len(str(parse(raw)["Subject"])) <= 160


async def test_a_huge_request_makes_a_small_mail(
    mails: EmailAdapter, box: Postbox, world: World
) -> None:
    """It says how much of the call is missing."""
    long = '日本<&" ' * 40_000
    many = {f"argument{number}": "<" * 60 for number in range(400)}
    mail = await sent(mails, box, await world.submit(arguments={"command": long, **many}))
    assert "characters shown" in part(mail, "plain")


async def test_many_parts_are_counted(world: World) -> None:
    """Those that the mail leaves out are told."""
    made = card(await world.submit())
    many = write_mail(replace(made, blocks=made.blocks * 33), INBOX)
    assert ("Not shown here", "3 more") in many.parts
    assert len(many.parts) == 30 + 2


async def test_secrets_stay_masked(mails: EmailAdapter, box: Postbox, world: World) -> None:
    """In the subject, the text and the page."""
    await sent(mails, box, await world.submit(**MASKED))
    said = "".join(
        [str(box.mails[0]["Subject"]), *(part(box.mails[0], k) for k in ("plain", "html"))]
    )
    assert SECRET not in said and "⟨secret of" in said


async def test_a_discreet_mail_begins_without_the_call(
    mails: EmailAdapter, box: Postbox, world: World
) -> None:
    """A lock screen shows the subject and the first words; an outcome shows no more."""
    record = await world.submit(arguments={"command": "make deploy"})
    discreet = replace(card(record), notification=discreet_notification(record))
    await mails.deliver(TARGET, discreet, NONCE)
    begins = part(box.mails[0], "plain").partition(INBOX)[0]
    assert "make" not in f"{box.mails[0]['Subject']} {begins}"
    after = await world.core.requests.decide(click(record))
    ended = replace(card(after), notification=discreet_notification(after))
    await mails.tell(
        Notice(kind=NoticeKind.OUTCOME, target=TARGET, nonce="b" * 22, discreet=True), ended
    )
    assert "make" not in box.raw[1].decode()
    assert "Approved" in part(box.mails[1], "plain")


async def test_an_end_is_a_reply_and_other_changes_are_none(
    mails: EmailAdapter, box: Postbox, world: World
) -> None:
    """The reply names the mail and repeats its subject, so that they are one conversation."""
    record = await world.submit()
    ref = await mails.deliver(TARGET, card(record), NONCE)
    subjects = world.store.keys.note("email", "subject *")
    assert await world.store.redis.keys(subjects)
    await mails.update(ref, card(record), NONCE)
    after = await world.core.requests.decide(click(record))
    await mails.update(ref, card(after), NONCE)
    assert len(box.mails) == 1
    for _ in range(2):
        await mails.update(ref, replace(card(after), disarms=True), NONCE)
    first, reply = box.mails
    assert reply["In-Reply-To"] == reply["References"] == first["Message-ID"] == f"<{ref.message}>"
    assert reply["Subject"] == f"Re: {first['Subject']}"
    assert reply["Message-ID"] != first["Message-ID"]
    check(box.raw[1], f"{INBOX}/r/{record.id}")
    assert "Approved by ann" in part(reply, "plain")
    assert not await world.store.redis.keys(subjects)


async def test_a_reminder_is_a_reply(mails: EmailAdapter, box: Postbox, world: World) -> None:
    """It says who may decide. Each is sent once."""
    record = await world.submit()
    ref = await mails.deliver(TARGET, card(record), NONCE)
    notice = Notice(
        kind=NoticeKind.REMINDER, target=TARGET, nonce=NONCE, ref=ref, deciders="ann may decide."
    )
    for revision in (2, 2, 3):
        await mails.tell(notice, replace(card(record), revision=revision))
    _, one, two = box.mails
    assert one["Message-ID"] != two["Message-ID"] and one["In-Reply-To"] == two["In-Reply-To"]
    assert "Still pending" in part(one, "plain") and "ann may decide." in part(one, "plain")
    check(box.raw[1], f"{INBOX}/r/{record.id}")


async def test_a_grant_is_mailed_and_so_is_its_end(mails: EmailAdapter, box: Postbox) -> None:
    """With a link to the inbox."""
    ref = await mails.deliver(TARGET, grant_card_of(GRANTED), NONCE)
    await mails.update(ref, grant_card_of(replace(GRANTED, generation=2)), NONCE)
    for _ in range(2):
        await mails.update(ref, grant_card_of(OVER), NONCE)
    first, over = box.mails
    for words in ("Approval remembered", GRANTED.words, "ann", "Until 2026-11-19"):
        assert words in part(first, "plain"), words
    assert "revoked by bob" in part(over, "plain")
    assert [bool(check(raw, INBOX)) for raw in box.raw] == [True, True]


@pytest.mark.parametrize(
    "place",
    ["ops", "ops@", "@example.com", "a b@example.com", "ops@example.com\r\nDATA", "<a@example.com>",
     "ops@example.com,eve@example.com", "öps@example.com", f"{'o' * 250}@example.com", "a@b@c",
     "a..b@example.com", ".a@example.com", "a@b..c", "a@.", "a@example.com."],
)  # fmt: skip
async def test_only_one_plain_address_is_a_target(
    mails: EmailAdapter, box: Postbox, world: World, place: str
) -> None:
    """Nothing else reaches the server."""
    record = await world.submit()
    with pytest.raises(DeliveryFailed, match="is not a target"):
        await mails.deliver(f"email:{place}", card(record), NONCE)
    assert box.asked == 0


async def test_an_agent_floods_no_address_with_outcomes(
    mails: EmailAdapter, box: Postbox, world: World
) -> None:
    """Each request of a loop has an outcome, which no budget limits; cards are still mailed, and so
    are the outcomes to others."""
    ended = card(await world.core.requests.decide(click(await world.submit())))

    async def tell(number: int, to: str = TARGET) -> None:
        nonce = f"{number:022}"
        await mails.tell(Notice(kind=NoticeKind.OUTCOME, target=to, nonce=nonce), ended)

    for number in range(30):
        await tell(number)
    for number in range(30, 33):
        with pytest.raises(RetryLater):
            await tell(number)
    assert len(box.mails) == 30
    await mails.deliver(TARGET, card(await world.submit()), NONCE)
    await tell(40, "email:ben@example.com")
    assert box.recipients == [OPS] * 31 + ["ben@example.com"]


async def test_a_rejected_end_is_given_up(mails: EmailAdapter, box: Postbox, world: World) -> None:
    """The core is told that the mail shows an outdated state."""
    record = await world.submit()
    ref = await mails.deliver(TARGET, card(record), NONCE)
    after = await world.core.requests.decide(click(record))
    box.replies[OPS] = ["550 no such user"]
    with pytest.raises(CopyGone, match="550 no such user"):
        await mails.update(ref, replace(card(after), disarms=True), NONCE)
    assert not await world.store.redis.keys(world.store.keys.note("email", "subject *"))


async def test_an_overflow_leads_to_the_inbox(
    mails: EmailAdapter, box: Postbox, world: World
) -> None:
    """Its numbers change often, so only its first state is mailed."""
    records = tuple([await world.submit() for _ in range(2)])
    overflow = Overflow(agent="bot", records=records, revision=1)
    made = build_overflow_card(overflow, INBOX, "")
    ref = await mails.deliver(TARGET, made, NONCE)
    await mails.update(ref, build_overflow_card(replace(overflow, records=()), INBOX, ""), NONCE)
    (mail,) = box.mails
    assert "2 more requests of bot wait" in mail["Subject"]
    check(box.raw[0], INBOX)
