"""`gateway up --lan`: what a phone in the same network gets, and what nobody there does."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pty
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from stat import S_IMODE
from typing import IO, Any

import aiohttp
import pytest
import segno
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.server import lan
from gateway.server.app import run_gateway
from gateway.server.settings import BadSettings, Settings
from gateway.server.start_up_checks import OWNER
from tests.cli.shell import Shell
from tests.clocks import ShiftedClock

HOME = "192.168.7.5"
UP = f"""
import sys
from ipaddress import IPv4Address
from gateway.cli import main
from gateway.server import lan
lan.find_addresses = lambda: [IPv4Address("{HOME}")]
sys.exit(main(["up", "--lan"]))
"""
SHADES = {"█": (0, 0), "▀": (0, 1), "▄": (1, 0), " ": (1, 1)}
"""Which of two squares, one above the other, are dark where light ones are drawn."""


@dataclass
class Served:
    """A `gateway up --lan` in a terminal of its own."""

    folder: Path
    terminal: IO[bytes]
    said: str = ""

    def listen(self) -> None:
        """Read what it says next, up to its last line for phones."""
        said = b""
        while b"docs/guides/answer.md" not in said:
            said += self.terminal.read(65536)
        self.said = said.decode().replace("\r\n", "\n")

    def find(self, pattern: str) -> str:
        """Return what it said there."""
        found = re.search(pattern, self.said)
        assert found, self.said
        return found[1]

    @property
    def address(self) -> str:
        """How a phone reaches it, as it says."""
        return self.find(r"On a phone in this network: (https://\S+)/inbox/login\s")

    @property
    def port(self) -> int:
        """Where it listens for phones."""
        return int(self.address.rpartition(":")[2])

    @property
    def trust(self) -> ssl.SSLContext:
        """What a client knows who believes its certificate, and no other."""
        return ssl.create_default_context(cafile=str(self.folder / "lan.crt"))

    async def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, str, str]:
        """Call it as a phone does; return status, text and the cookie that it sets."""
        sent = {"Host": f"{HOME}:{self.port}", "Origin": self.address, **headers}
        async with (
            aiohttp.ClientSession(headers=sent) as http,
            http.request(
                method,
                f"https://127.0.0.1:{self.port}{path}",
                json=body,
                ssl=self.trust,
                server_hostname=HOME,
            ) as answer,
        ):
            return answer.status, await answer.text(), answer.headers.get("Set-Cookie", "")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run it on a machine with one address in its network."""
    shell = Shell(tmp_path_factory.mktemp("lan"))
    ours, theirs = pty.openpty()
    env = {**shell.env, "PYTHONUTF8": "1", "GATEWAY_LOG_LEVEL": "ERROR"}
    with subprocess.Popen(
        [sys.executable, "-c", UP], env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        try:
            with os.fdopen(ours, "rb+", buffering=0) as terminal:
                made = Served(Path(shell.env["GATEWAY_DATA_DIR"]), terminal)
                made.listen()
                yield made
        finally:
            process.terminate()


async def test_a_phone_signs_in_once(served: Served) -> None:
    """Over TLS, with a cookie for TLS alone; whoever comes second with the code does not."""
    status, page, _ = await served.call("GET", "/inbox/login")
    assert status == 200
    assert "Paste the link, or type the code" in page
    code = {"code": served.find(r"type the code (\S+) there \(works once\)").lower()}
    status, whose, _ = await served.call("POST", "/inbox/api/login/whose", code)
    assert (status, json.loads(whose)["name"]) == (200, "owner")
    status, _, cookie = await served.call("POST", "/inbox/api/login", code)
    assert status == 200
    assert cookie.startswith("__Host-agw=")
    assert "; Secure" in cookie
    assert "; HttpOnly" in cookie
    session = cookie.partition(";")[0]
    status, me, _ = await served.call("GET", "/inbox/api/me", Cookie=session)
    assert (status, json.loads(me)["name"]) == (200, "owner")
    status, said, cookie = await served.call("POST", "/inbox/api/login", code)
    assert status == 403
    assert "already used" in said
    assert not cookie


def test_enter_prints_another_code(served: Served) -> None:
    """Drawn again, too: the first may be over before somebody has found their phone."""
    drawn = []
    for _ in range(2):
        served.terminal.write(b"\n")
        served.listen()
        drawn.append((served.find(r"type the code (\S+) there"), served.said.count("\x1b[0m")))
    (first, rows), (second, again) = drawn
    assert first != second
    assert rows == again > 0


def test_a_camera_reads_a_link_that_signs_in(served: Served) -> None:
    """Black on white whatever the terminal's colours are, with the quiet zone that cameras need."""
    rows = re.findall(r"\x1b\[38;5;231;48;5;16m(.*?)\x1b\[0m\n", served.said)
    halves = [[SHADES[block] for block in row] for row in rows]
    drawn = [[pair[half] for pair in row] for row in halves for half in (0, 1)]
    code = served.find(r"type the code (\S+) there")
    link = segno.make_qr(f"{served.address}/inbox/login#code={code}")
    wanted = [list(row) for row in link.matrix_iter(border=4)]
    assert drawn[: len(wanted)] == wanted
    assert not any(map(any, wanted[:4] + wanted[-4:]))
    assert len(drawn[0]) <= 60


async def test_the_certificate_is_this_machines_own(served: Served) -> None:
    """Its fingerprint is what is printed, for its addresses and names, and nobody reads the key."""
    _, writer = await asyncio.open_connection(
        "127.0.0.1", served.port, ssl=served.trust, server_hostname=HOME
    )
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    begin = served.find(r"SHA-256 fingerprint\s+that it shows begins with ((?:..:){7}..)\.")
    assert hashlib.sha256(shown).hexdigest().startswith(begin.replace(":", "").lower())
    certificate = x509.load_der_x509_certificate(shown)
    public = certificate.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert public.curve.name == "secp256r1"
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert life <= timedelta(days=397)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    own = socket.gethostname().lower()
    assert {own, f"{own.partition('.')[0]}.local", "localhost"} == set(
        names.get_values_for_type(x509.DNSName)
    )
    assert set(map(str, names.get_values_for_type(x509.IPAddress))) == {HOME, "127.0.0.1"}
    for name in ("lan.crt", "lan.key"):
        assert S_IMODE((served.folder / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("host", ["evil.example", "192.168.7.6", "8.8.8.8"])
async def test_a_foreign_name_is_refused(served: Served, host: str) -> None:
    """No web page can rebind a name of its own to this machine; its own names are taken."""
    assert (await served.call("GET", "/inbox/login", Host=host))[0] == 421
    own = f"{socket.gethostname().partition('.')[0]}.local:{served.port}"
    assert (await served.call("GET", "/inbox/login", Host=own))[0] == 200


async def test_the_network_reaches_nothing_of_agents(served: Served) -> None:
    """Neither over TLS, with the secret that agents enrol with, nor without: agents find the plain
    address, where this machine alone is answered."""
    announced = json.loads((served.folder / "gateway.json").read_text(encoding="utf-8"))
    secret = {"Authorization": f"Bearer {announced['enroll']}"}
    for path in ("/v1/enroll", "/v1/requests", "/metrics", "/aap", "/v1/hooks/claude-code"):
        assert (await served.call("POST", path, {"agent": "a"}, **secret))[0] == 404
    assert announced["url"].startswith("http://127.0.0.1:")
    async with aiohttp.ClientSession() as http:
        for host, status in ((None, 200), (HOME, 421)):
            headers = secret | ({"Host": host} if host else {})
            enroll = http.post(
                f"{announced['url']}/v1/enroll", json={"agent": "helper"}, headers=headers
            )
            async with enroll as answer:
                assert answer.status == status
    port = int(announced["url"].rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):  # at another address of this machine
        await asyncio.open_connection("127.0.0.2", port)
    with pytest.raises(ssl.SSLError):
        await asyncio.open_connection("127.0.0.1", port, ssl=served.trust)


def test_the_certificate_is_kept_until_it_is_too_old_or_misses_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A phone that was told to go on warns no second time; what is damaged is made anew."""
    clock = ShiftedClock()
    monkeypatch.setattr(lan, "SystemClock", lambda: clock)
    folder, home = tmp_path / "state", [IPv4Address(HOME)]
    folder.mkdir(mode=0o755)
    first = lan.keep_certificate(folder, ["localhost"], home)
    assert lan.keep_certificate(folder, ["localhost"], home) == first
    clock.ahead = timedelta(days=389).total_seconds()
    assert lan.keep_certificate(folder, ["localhost"], home) == first
    clock.ahead = timedelta(days=390).total_seconds()
    later = lan.keep_certificate(folder, ["localhost"], home)
    moved = lan.keep_certificate(folder, ["localhost"], [IPv4Address("10.0.0.9")])
    named = lan.keep_certificate(folder, ["localhost", "new"], [IPv4Address("10.0.0.9")])
    assert len({first, later, moved, named}) == 4
    assert S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "lan.crt").write_text("no certificate", encoding="utf-8")
    repaired = lan.keep_certificate(folder, ["localhost"], home)
    key = (folder / "lan.key").read_bytes()
    lan.keep_certificate(tmp_path / "other", ["localhost"], home)
    (folder / "lan.key").write_bytes((tmp_path / "other" / "lan.key").read_bytes())
    matched = lan.keep_certificate(folder, ["localhost"], home)
    assert matched not in (named, repaired)
    assert (folder / "lan.key").read_bytes() != key
    ssl.create_default_context().load_cert_chain(folder / "lan.crt", folder / "lan.key")


@pytest.mark.parametrize(("port", "phones"), [(8787, 8788), (0, 0), (65535, 0)])
def test_phones_have_the_next_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int, phones: int
) -> None:
    """So the address stays the same from start to start, as that of agents does."""
    monkeypatch.setattr(lan, "find_addresses", lambda: [IPv4Address(HOME)])
    found = lan.prepare_lan(Settings(data_dir=tmp_path, port=port)).settings
    assert (found.host, found.port) == ("0.0.0.0", phones)


@pytest.mark.parametrize(
    ("settings", "found", "said"),
    [
        ({"env": "production"}, [HOME], "docs/guides/deploy.md"),
        ({"host": "0.0.0.0"}, [HOME], "docs/guides/deploy.md"),
        ({"host": HOME}, [HOME], "docs/guides/deploy.md"),
        ({"adapters": ("saiki",)}, [HOME], 'add "web"'),
        ({}, [], "addresses are: none"),
        ({}, [HOME, "9.9.9.9"], f"addresses are: {HOME}, 9.9.9.9"),
    ],
)
def test_where_it_would_be_unsafe_or_of_no_use_it_does_not_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    found: list[str],
    said: str,
) -> None:
    """The internet is not served, nothing listens in the network without TLS, no key is made."""
    monkeypatch.setattr(lan, "find_addresses", lambda: [IPv4Address(one) for one in found])
    with pytest.raises(BadSettings, match=re.escape(said)):
        lan.prepare_lan(Settings(data_dir=tmp_path, **settings))
    assert not (tmp_path / "lan.key").exists()


@pytest.mark.parametrize("missing", ["cryptography", "segno"])
def test_without_the_extra_it_names_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """In a sentence, and before anything starts."""
    monkeypatch.setattr(lan, "find_spec", lambda name: None if name == missing else ...)
    assert "approval-gateway[lan]" in shell.run("up", "--lan", code=2)


def test_this_machine_is_known_by_addresses_that_others_reach() -> None:
    """Whatever network this is: never by loopback, and by none twice."""
    found = lan.find_addresses()
    assert len(set(found)) == len(found)
    assert not any(one.is_loopback for one in found)


async def test_a_log_gets_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads the service's log reads which command prints one; so does who is not the owner."""
    monkeypatch.setattr(lan, "find_addresses", lambda: [IPv4Address(HOME)])
    settings = Settings(data_dir=tmp_path / "state", port=0)
    found = lan.prepare_lan(settings)
    async with run_gateway(settings, lan=found) as gateway:
        shown = partial(lan.phone_lines, gateway.backend, settings, found, gateway.lan_url)
        said = "\n".join(await shown(link=False))
        assert f"{gateway.lan_url}/inbox/login" in said
        assert "with the code of: gateway login owner" in said
        assert await gateway.backend.store.redis.keys("*login*") == []
        await gateway.backend.credentials.add_approver("ann")
        await gateway.backend.credentials.revoke_approver(OWNER)
        assert "with the code of: gateway login NAME" in "\n".join(await shown())
        assert await gateway.backend.store.redis.keys("*login*") == []
