"""Serve the inbox to phones in this network, for `gateway up --lan`, over TLS with a local
certificate.

Phones get only the inbox. Agents and their secrets stay at this machine's own address.
"""

from __future__ import annotations

import fcntl
import io
import re
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from ipaddress import IPv4Address
from pathlib import Path

from gateway.domain.time_and_tasks import SystemClock
from gateway.server.connections import Backend
from gateway.server.settings import BadSettings, Settings
from gateway.server.start_up_checks import OWNER, is_loopback, is_owner_here
from gateway.stores.embedded_server import DataFolder
from gateway.wire.local_discovery import write_private

_CERTIFICATE, _KEY = "lan.crt", "lan.key"
_ADDRESS_OF = 0x8915  # Linux: the address of an interface
_LIFE = timedelta(days=397)  # phones refuse certificates with a longer life
_RENEWED = timedelta(days=7)  # before the end
_ELSEWHERE = "203.0.113.1"  # an address for documentation: nothing is sent there
_SHOWN_BYTES = 8  # of the fingerprint: too many for anybody to forge
_HOST_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
_BLACK_ON_WHITE = "\x1b[38;5;231;48;5;16m{}\x1b[0m"  # the blocks are the light parts


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNetwork:
    """The way for phones to reach this machine. `hosts` are its addresses, the best first, and
    names. `settings` are those for serving the inbox there."""

    hosts: tuple[str, ...]
    fingerprint: str
    settings: Settings


def prepare_lan(settings: Settings) -> LocalNetwork:
    """Return how phones reach this machine, with a matching certificate. Raises BadSettings if they
    cannot, or if the internet could."""
    if settings.production or not is_loopback(settings.host):
        raise BadSettings(
            "--lan is for a gateway on your own machine: use it without GATEWAY_ENV and "
            "GATEWAY_HOST, or follow docs/guides/deploy.md"
        )
    if "web" not in settings.adapters:
        raise BadSettings('--lan serves the inbox: add "web" to GATEWAY_ADAPTERS')
    if not all(find_spec(name) for name in ("cryptography", "segno")):
        raise BadSettings(
            "--lan needs an extra. Install the gateway as before, with this extra: "
            "approval-gateway[lan]"
        )
    addresses = find_addresses()
    if not addresses or any(one.is_global for one in addresses):
        found = ", ".join(map(str, addresses)) or "none"
        raise BadSettings(f"--lan is for a private network; this machine's addresses are: {found}")
    name = socket.gethostname().lower()
    named = {name, f"{name.partition('.')[0]}.local", "localhost"}
    names = sorted(one for one in named if _HOST_NAME.fullmatch(one))
    folder = settings.data_dir
    served = {
        "host": "0.0.0.0",
        "port": settings.port and (settings.port + 1) % 65_536,
        "tls_cert": folder / _CERTIFICATE,
        "tls_key": folder / _KEY,
    }
    return LocalNetwork(
        hosts=(*map(str, addresses), *names),
        fingerprint=keep_certificate(folder, names, addresses),
        settings=settings.model_copy(update=served),
    )


def find_addresses() -> list[IPv4Address]:
    """Return this machine's addresses without loopback, that of the default route first."""
    found = []
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((_ELSEWHERE, 9))
        found.append(probe.getsockname()[0])
    with suppress(OSError, UnicodeError):
        rows = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        found += [row[4][0] for row in rows]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # an interface without an address, or another system call
                told = fcntl.ioctl(probe, _ADDRESS_OF, struct.pack("256s", name.encode()))
                found.append(socket.inet_ntoa(told[20:24]))
    each = dict.fromkeys(IPv4Address(one) for one in found)
    return [one for one in each if not one.is_loopback]


def keep_certificate(folder: Path, names: list[str], addresses: list[IPv4Address]) -> str:
    """Ensure that the folder has a certificate and key for these names and addresses, valid for at
    least a week. Return its SHA-256 fingerprint."""
    from cryptography import x509  # noqa: PLC0415 (an extra's)
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 (as above)
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 (as above)

    every = [*addresses, IPv4Address("127.0.0.1")]
    wanted = [*(x509.DNSName(one) for one in names), *(x509.IPAddress(one) for one in every)]
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    with suppress(OSError, ValueError, TypeError, x509.ExtensionNotFound):
        kept = x509.load_pem_x509_certificate((folder / _CERTIFICATE).read_bytes())
        key = serialization.load_pem_private_key((folder / _KEY).read_bytes(), None)
        good_for = kept.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        fits = key.public_key() == kept.public_key() and set(wanted) <= set(good_for)
        if fits and kept.not_valid_after_utc > now + _RENEWED:
            return kept.fingerprint(hashes.SHA256()).hex(":").upper()
    made = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name.from_rfc4514_string("CN=approval gateway")
    begins = now - timedelta(hours=1)  # a phone's clock may be slow
    certificate = (
        x509.CertificateBuilder(subject, subject, made.public_key(), x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + _LIFE)
        .add_extension(x509.SubjectAlternativeName(wanted), critical=False)
        .add_extension(x509.ExtendedKeyUsage([x509.OID_SERVER_AUTH]), critical=False)
        .sign(made, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    DataFolder.prepare(folder)
    write_private(folder / _KEY, made.private_bytes(pem, form, plain))
    write_private(folder / _CERTIFICATE, certificate.public_bytes(pem))
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


async def phone_lines(
    backend: Backend, settings: Settings, lan: LocalNetwork, url: str, *, link: bool = True
) -> list[str]:
    """Return the lines that tell a local person how to open the inbox on a phone at `url`.

    With `link`, they have a QR code that signs the owner in once: for a person's eyes, not for a
    log.
    """
    page = f"{url}/inbox/login"
    name = OWNER if await is_owner_here(backend, settings) else "NAME"
    ways = [f"Sign in there with the code of: gateway login {name}"]
    if link and name == OWNER:
        code = await backend.logins.invite(OWNER)
        ways = [f"Scan this, or type the code {code} there (works once):"]
        ways += draw_qr(f"{page}#code={code}")
    begin = lan.fingerprint[: 3 * _SHOWN_BYTES - 1]
    return [
        f"On a phone in this network: {page}",
        *ways,
        "The phone warns about an unknown certificate. Continue if the SHA-256 fingerprint that it "
        f"shows begins with {begin}.",
        "Push notifications, passkeys and the installed app need a public name for the gateway. "
        "See docs/guides/answer.md.",
    ]


def draw_qr(text: str) -> list[str]:
    """Return a QR code as lines for a terminal, black on white in any colour scheme."""
    import segno  # noqa: PLC0415 (an extra's)

    drawn = io.StringIO()
    segno.make_qr(text).terminal(drawn, border=4, compact=True)
    return [_BLACK_ON_WHITE.format(row) for row in drawn.getvalue().splitlines()]
