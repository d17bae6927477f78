"""How mails reach the server: encrypted, to the right server, once; and what happens if not."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from adapters.email import EmailAdapter, mail_server
from adapters.email.mail_server import read_settings
from gateway.cards.card import card_of
from gateway.errors import Misconfigured
from gateway.ports import AdapterApi, DeliveryFailed, DeliveryUncertain, RetryLater
from gateway.server.background import adapter_api
from tests.email.conftest import settle
from tests.email.postbox import OPS, PASSWORD, SENDER, USER, Postbox, certify, running
from tests.frame.tree import ROOT
from tests.ports import free_port
from tests.waiting import moment
from tests.world import World

NONCE = "a" * 22
TARGET = f"email:{OPS}"
Certificate = tuple[ssl.SSLContext, Path]


@pytest.fixture
async def card(world: World) -> Any:
    """Return the card of a request."""
    return card_of(await world.submit(), lines=60, chars=4000)


async def until_troubled(adapter: EmailAdapter, *, troubled: bool = True) -> str:
    """Return the adapter's problem once it has one, or has none any more."""
    async with asyncio.timeout(40):
        while bool(adapter.problems) is not troubled:
            await moment()
    return "".join(adapter.problems)


async def test_tls_from_the_start(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch, api: AdapterApi, card: Any
) -> None:
    """As `smtps` says."""
    context, trusted = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with running(Postbox(), context, implicit=True, login=False) as box:
        settle(monkeypatch, f"smtps://localhost:{box.port}")
        adapter = EmailAdapter()
        async with adapter.run(api):
            await adapter.deliver(TARGET, card, NONCE)
        assert box.recipients == [OPS]


@pytest.mark.parametrize("implicit", [True, False])
async def test_a_foreign_certificate_gets_no_password(
    certificate: Certificate,
    monkeypatch: pytest.MonkeyPatch,
    api: AdapterApi,
    card: Any,
    tmp_path: Path,
    implicit: bool,
) -> None:
    """Neither one that nobody trusts, nor one for another name."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    unknown, _ = certify(tmp_path)
    scheme = "smtps" if implicit else "smtp"
    for context, host in ((unknown, "localhost"), (certificate[0], "127.0.0.1")):
        async with running(Postbox(), context, implicit=implicit) as box:
            settle(monkeypatch, f"{scheme}://{USER}:secret@{host}:{box.port}")
            adapter = EmailAdapter()
            async with adapter.run(api):
                with pytest.raises(RetryLater, match="certificate"):
                    await adapter.deliver(TARGET, card, NONCE)
                assert "certificate" in await until_troubled(adapter)
            assert not box.mails and not box.asked


@pytest.mark.parametrize("login", [f"{USER}:{quote(PASSWORD, safe='')}@", ""])
async def test_without_tls_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, api: AdapterApi, card: Any, login: str
) -> None:
    """A server that does not offer STARTTLS gets neither password nor mail."""
    async with running(Postbox(), None, login=False) as box:
        settle(monkeypatch, f"smtp://{login}localhost:{box.port}")
        adapter = EmailAdapter()
        async with adapter.run(api):
            with pytest.raises(RetryLater, match="STARTTLS extension not supported"):
                await adapter.deliver(TARGET, card, NONCE)
        assert not box.mails and not box.logins


async def test_a_wrong_password_is_told(
    box: Postbox, monkeypatch: pytest.MonkeyPatch, api: AdapterApi, card: Any
) -> None:
    """As a problem of the adapter, without the password."""
    settle(monkeypatch, f"smtp://{USER}:wrong-secret@localhost:{box.port}")
    adapter = EmailAdapter()
    async with adapter.run(api):
        with pytest.raises(DeliveryFailed, match="535"):
            await adapter.deliver(TARGET, card, NONCE)
        problem = await until_troubled(adapter)
    assert "535" in problem and "secret" not in problem
    assert not box.mails


async def test_a_problem_ends_with_its_cause(
    box: Postbox, certificate: Certificate, api: AdapterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while nobody asks for anything."""
    port = free_port()
    settle(monkeypatch, f"smtp://localhost:{port}")
    adapter = EmailAdapter()
    async with adapter.run(api):
        assert "localhost" in await until_troubled(adapter)
        async with running(Postbox(port=port), certificate[0], login=False):
            await until_troubled(adapter, troubled=False)


async def test_a_refusal_for_now_is_tried_again_later_and_later(
    mails: EmailAdapter, box: Postbox, card: Any
) -> None:
    """Each time after twice as long. What others get does not wait for it."""
    box.replies[OPS] = ["451 try later"] * 3
    pauses = []
    for _ in range(3):
        with pytest.raises(RetryLater, match="451 try later") as refused:
            await mails.deliver(TARGET, card, NONCE)
        pauses.append(refused.value.seconds)
    assert pauses == [0.02, 0.04, 0.08]
    await mails.deliver("email:ann@example.com", card, "b" * 22)
    await mails.deliver(TARGET, card, NONCE)
    assert box.recipients == ["ann@example.com", OPS]
    box.replies[OPS] = ["451 try later"]
    with pytest.raises(RetryLater) as again:
        await mails.deliver(TARGET, card, "c" * 22)
    assert again.value.seconds == 0.02
    assert mails.problems == []


@pytest.mark.parametrize("end", ["452 full", "550 spam"])
async def test_a_refused_message_was_not_sent(
    mails: EmailAdapter, box: Postbox, card: Any, end: str
) -> None:
    """So it may be sent again, however often the server refused it."""
    box.ends = [end] * 3
    for _ in range(3):
        with pytest.raises(DeliveryFailed, match=end) as refused:
            await mails.deliver(TARGET, card, NONCE)
        assert isinstance(refused.value, RetryLater) is end.startswith("4")
    await mails.deliver(TARGET, card, NONCE)
    assert len(box.mails) == 1


async def test_the_same_post_is_one_mail(box: Postbox, api: AdapterApi, card: Any) -> None:
    """Also if another gateway, or this one after a restart, posts it again."""
    for _ in range(2):
        adapter = EmailAdapter()
        async with adapter.run(api):
            refs = [await adapter.deliver(TARGET, card, NONCE) for _ in range(2)]
        assert refs[0] == refs[1]
    assert len(box.mails) == 1


async def test_what_is_not_confirmed_is_sent_twice_at_most(
    mails: EmailAdapter, box: Postbox, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same Message-ID, by which servers and programs recognize the second."""
    monkeypatch.setattr(mail_server, "_CALL_SECONDS", 1.0)
    box.ends = [None] * 3
    for _ in range(2):
        with pytest.raises(DeliveryUncertain):
            await mails.deliver(TARGET, card, NONCE)
    with pytest.raises(DeliveryFailed, match="did not confirm two") as given_up:
        await mails.deliver(TARGET, card, NONCE)
    assert not isinstance(given_up.value, DeliveryUncertain)
    one, two = box.mails
    assert one["Message-ID"] == two["Message-ID"]


async def test_a_gateway_that_dies_while_it_sends_counts_too(
    mails: EmailAdapter, box: Postbox, card: Any
) -> None:
    """Nothing is sent for ever by gateways that are started again and again."""
    box.ends = [None] * 3
    for count in (1, 2):
        sending = asyncio.create_task(mails.deliver(TARGET, card, NONCE))
        await box.until(count)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    with pytest.raises(DeliveryFailed, match="did not confirm two"):
        await mails.deliver(TARGET, card, NONCE)


async def test_a_silent_server_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch, api: AdapterApi, card: Any, quick: None
) -> None:
    """Long before the core would think that a mail was sent."""
    assert mail_server._CONNECT_SECONDS < mail_server._CALL_SECONDS < 25

    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(nothing, "127.0.0.1", 0)
    settle(monkeypatch, f"smtps://localhost:{server.sockets[0].getsockname()[1]}")
    monkeypatch.setattr(mail_server, "_CONNECT_SECONDS", 0.2)
    adapter = EmailAdapter()
    async with server, adapter.run(api):
        with pytest.raises(RetryLater):
            await adapter.deliver(TARGET, card, NONCE)
        assert await until_troubled(adapter)


async def test_a_confirmed_mail_is_sent_even_if_the_server_then_leaves(
    mails: EmailAdapter, box: Postbox, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happens at the goodbye changes nothing."""

    async def leave(server: Any, *_: Any) -> str:
        server.transport.abort()
        return ""

    monkeypatch.setattr(Postbox, "handle_QUIT", leave, raising=False)
    await mails.deliver(TARGET, card, NONCE)
    assert len(box.mails) == 1


async def test_a_slow_goodbye_makes_no_second_mail(
    mails: EmailAdapter, box: Postbox, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither does a slow store: the server has confirmed."""
    monkeypatch.setattr(mail_server, "_CALL_SECONDS", 1.0)
    monkeypatch.setattr(mail_server, "_QUIT_SECONDS", 1.5)

    async def wait(server: Any, *_: Any) -> str:
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(Postbox, "handle_QUIT", wait, raising=False)
    for _ in range(2):
        await mails.deliver(TARGET, card, NONCE)
    assert len(box.mails) == 1


# Settings.


@pytest.mark.parametrize(
    ("url", "sender", "said"),
    [
        ("", SENDER, "GATEWAY_EMAIL_URL"),
        ("http://u:hunter2@mail.example", SENDER, "GATEWAY_EMAIL_URL"),
        ("smtp://u:hunter2@", SENDER, "GATEWAY_EMAIL_URL"),
        ("smtp://u:hunter2@mail.example:x", SENDER, "GATEWAY_EMAIL_URL"),
        ("smtps://u:hunter2@mail.example", "", "GATEWAY_EMAIL_FROM"),
        ("smtps://u:hunter2@mail.example", "a@a.example\nBcc: b@a.example", "GATEWAY_EMAIL_FROM"),
        ("smtps://u:hunter2@mail.example", "A <a@example.com>", "GATEWAY_EMAIL_FROM"),
    ],
)  # fmt: skip
def test_bad_settings_are_named_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, url: str, sender: str, said: str
) -> None:
    """The text has the variable and never the password."""
    settle(monkeypatch, url, sender)
    with pytest.raises(Misconfigured, match=said) as refused:
        read_settings()
    assert "hunter2" not in str(refused.value)


def test_good_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the usual ports; a URL may come from a file, with escapes in it."""
    settle(monkeypatch, "smtps://mail.example")
    tls = {"hostname": "mail.example", "port": 465, "use_tls": True, "start_tls": False}
    assert read_settings() == (tls, SENDER)
    file = tmp_path / "url"
    file.write_text("smtp://us%40er:p%40ss%2F@mail.example\n")
    monkeypatch.setenv("GATEWAY_EMAIL_URL_FILE", str(file))
    assert read_settings()[0] == tls
    monkeypatch.delenv("GATEWAY_EMAIL_URL")
    start = {"hostname": "mail.example", "port": 587, "use_tls": False, "start_tls": True}
    assert read_settings()[0] == {**start, "username": "us@er", "password": "p@ss/"}
    monkeypatch.setenv("GATEWAY_EMAIL_URL_FILE", str(tmp_path / "none"))
    with pytest.raises(Misconfigured, match="GATEWAY_EMAIL_URL_FILE: No such file"):
        read_settings()


def test_each_setting_stands_in_its_page_and_in_the_example() -> None:
    """Every variable that the adapter reads."""
    source = Path(mail_server.__file__).read_text(encoding="utf-8")
    names = set(re.findall(r"GATEWAY_EMAIL_[A-Z_]+", source))
    assert len(names) == 3
    for page in ("docs/guides/email.md", ".env.example"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert {name for name in names if name not in text} == set(), page


async def test_without_an_inbox_it_does_not_start(box: Postbox, world: World) -> None:
    """A mail without a link would lead nowhere."""
    with pytest.raises(Misconfigured, match="GATEWAY_PUBLIC_URL"):
        async with EmailAdapter().run(adapter_api("email", world.core, world.store)):
            pass


# `gateway doctor`.


@pytest.fixture
async def checks(box: Postbox, api: AdapterApi) -> AsyncIterator[Any]:
    """Yield a function that checks targets, and returns the results and what was said."""

    async def check(*targets: str, live: bool = False) -> list[tuple[str, str, str]]:
        found = await EmailAdapter().checks(dict.fromkeys(targets, ()), api.notes, live=live)
        return [(name, finding.result, finding.says) for name, finding in found]

    yield check


async def test_doctor_asks_the_server_and_mails_nobody(checks: Any, box: Postbox) -> None:
    """Whether the login works, and whether it accepts each address."""
    box.replies["eve@example.com"] = ["550 no such user"]
    found = await checks(TARGET, "email:eve@example.com", "email:nobody")
    assert [(name, result) for name, result, _ in found] == [
        ("email server", "ok"),
        ("email target", "ok"),
        ("email target", "fail"),
        ("email target", "fail"),
    ]
    assert found[2][2].startswith("email:eve@example.com: the mail server localhost: 550 no such")
    assert not box.mails


async def test_doctor_live_sends_a_mail(checks: Any, box: Postbox) -> None:
    """To each target."""
    assert [one[1] for one in await checks(TARGET, live=True)] == ["ok", "ok"]
    (mail,) = box.mails
    assert "test mail" in mail["Subject"]


async def test_doctor_says_what_keeps_mail_from_leaving(
    checks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings, or a server that is away."""
    settle(monkeypatch, "smtps://localhost:1")
    ((_, result, says), *_) = await checks()
    assert result == "fail" and "localhost" in says
    monkeypatch.delenv("GATEWAY_EMAIL_URL")
    ((_, result, says), *_) = await checks()
    assert result == "fail" and "GATEWAY_EMAIL_URL" in says
