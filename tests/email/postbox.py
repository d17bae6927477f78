"""A real mail server on loopback, which keeps what it takes and can be made to refuse."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP as MAIL
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.waiting import moment

USER, PASSWORD, SENDER = "gateway", "p@ss/w:rd 1", "gateway@approvals.example"
OPS = "ops@example.com"
_PATIENCE = 40.0


@dataclass
class Postbox:
    """A mail server. `replies` are its next answers to RCPT for an address, and `ends` to messages;
    None never answers."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    replies: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    ends: list[str | None] = field(default_factory=list)
    logins: int = 0
    asked: int = 0

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, to: str, _: Any) -> str:
        self.asked += 1
        if self.replies[to]:
            return self.replies[to].pop(0)
        envelope.rcpt_tos.append(to)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        end = self.ends.pop(0) if self.ends else "250 OK"
        if end is None or end.startswith("2"):
            self.raw.append(envelope.original_content)
            self.mails.append(parse(envelope.original_content))
            self.recipients += envelope.rcpt_tos
        if end is None:
            await asyncio.Event().wait()
        return str(end)

    def authenticate(self, server: Any, session: Any, envelope: Any, how: str, data: Any) -> Any:
        assert isinstance(data, LoginPassword)
        right = (data.login.decode(), data.password.decode()) == (USER, PASSWORD)
        self.logins += right
        return AuthResult(success=right, handled=False)

    async def until(self, count: int) -> list[EmailMessage]:
        """Return the mails once there are so many."""
        async with asyncio.timeout(_PATIENCE):
            while len(self.mails) < count:
                await moment()
        assert len(self.mails) == count
        return self.mails


def parse(content: bytes) -> EmailMessage:
    """Return a message with its headers and parts decoded."""
    made = message_from_bytes(content, policy=MAIL)
    assert isinstance(made, EmailMessage)
    return made


def part(mail: EmailMessage, kind: str) -> str:
    """Return the text of a mail, as `plain` or `html`."""
    body = mail.get_body((kind,))
    assert body is not None
    return str(body.get_content())


@asynccontextmanager
async def running(
    box: Postbox, tls: ssl.SSLContext | None, *, implicit: bool = False, login: bool = True
) -> AsyncIterator[Postbox]:
    """Run a mail server with TLS from the start, or by STARTTLS; or without TLS."""

    def serve() -> SMTP:
        return SMTP(
            box,
            hostname="mail.example",
            tls_context=None if implicit else tls,
            require_starttls=tls is not None and not implicit,
            auth_require_tls=tls is not None and not implicit,
            auth_required=login and not implicit,
            authenticator=box.authenticate,
        )

    loop = asyncio.get_running_loop()
    server = await loop.create_server(serve, "127.0.0.1", box.port, ssl=tls if implicit else None)
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        server.close()


def certify(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Make a certificate for localhost. Return what a server needs, and its file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.2"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "cert.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    clear = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, clear))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(public, private)
    return context, public
