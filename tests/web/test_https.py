"""Each configuration of docs/guides/deploy.md is run, and a phone signs in through it."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import os
import re
import shutil
import ssl
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.frame.tree import ROOT
from tests.ports import free_port
from tests.waiting import moment
from tests.web.chromium import running, visiting
from tests.web.inbox import COMMAND, CONNECTED, Inbox, card, inbox
from tests.web.test_passkeys import add_authenticator

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240), pytest.mark.thorough]

NAME = "approvals.example"
PAGE = (ROOT / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """Return the block of the page in this language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def settings_of(start: str, port: int, folder: Path) -> dict[str, Any]:
    """Return what the page has an operator set before `gateway up`, here for another port."""
    blocks = re.findall(r"^```sh\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
    (line,) = [one for one in blocks if start in one]
    assert line.endswith(" gateway up")
    words = dict(one.split("=", 1) for one in line.removesuffix(" gateway up").split())
    found = {name.removeprefix("GATEWAY_").lower(): value for name, value in words.items()}
    address = f"https://{NAME}:{port}"
    assert found["public_url"] in (f"https://{NAME}", f"https://{NAME}:8787")
    files = {
        name: str(folder / Path(found[name]).name)
        for name in ("tls_cert", "tls_key")
        if name in found
    }
    return {**found, **files, "public_url": address}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a certificate for the name, its key, and what browsers know it by."""
    return write_certificate(tmp_path_factory.mktemp("tls"))


def write_certificate(folder: Path) -> Path:
    """Write a certificate for the name, its key, and what browsers know it by."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain, form = serialization.NoEncryption(), serialization.PrivateFormat.PKCS8
    (folder / "approvals.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "approvals.key").write_bytes(key.private_bytes(pem, form, plain))
    der, public = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    known = hashlib.sha256(key.public_key().public_bytes(der, public)).digest()
    (folder / "known").write_text(b64encode(known).decode())
    return folder


def program(name: str) -> str:
    """Return a proxy; without it the test fails under CI, and is skipped elsewhere."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"there is no {name} on this machine")
        pytest.skip(f"there is no {name} on this machine")
    return found


def moved(text: str, files: Path, gateway: int) -> str:
    """Return a configuration of the page with these files, and the gateway at this port."""
    assert text.count("127.0.0.1:8787") == 1
    return text.replace("/etc/ssl/", f"{files}/").replace("127.0.0.1:8787", f"127.0.0.1:{gateway}")


def caddy(files: Path, folder: Path, port: int, gateway: int) -> list[str]:
    """Return the command that runs Caddy with the page's configuration, at this port alone."""
    text = moved(block("caddyfile"), files, gateway)
    place = f"https://{NAME}:{port} {{\n\tbind 127.0.0.1\n"
    assert text.startswith(f"{NAME} {{\n")
    whole = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + text.replace(
        f"{NAME} {{\n", place, 1
    )
    (folder / "Caddyfile").write_text(whole)
    path = str(folder / "Caddyfile")
    return [program("caddy"), "run", "--adapter", "caddyfile", "--config", path]


def nginx(files: Path, folder: Path, port: int, gateway: int) -> list[str]:
    """Return the command that runs nginx with the page's configuration, at this port alone."""
    text = moved(block("nginx"), files, gateway)
    assert "listen 443 ssl;" in text
    server = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{places}{server}}}\n"
    )
    return [program("nginx"), "-e", "stderr", "-c", str(folder / "nginx.conf")]


@contextmanager
def process_of(command: list[str], folder: Path) -> Iterator[None]:
    """Run a proxy in a folder of its own."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    with subprocess.Popen(
        command, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()


Way = Callable[[Path, Path], AbstractAsyncContextManager[tuple[Inbox, int]]]


def behind(proxy: Callable[[Path, Path, int, int], list[str]]) -> Way:
    """Return what runs a gateway behind a proxy, and tells the port that the proxy listens at."""

    @asynccontextmanager
    async def run(files: Path, folder: Path) -> AsyncIterator[tuple[Inbox, int]]:
        port, gateway = free_port(), free_port()
        settings = settings_of("TRUSTED_PROXY", port, files)
        with process_of(proxy(files, folder, port, gateway), folder):
            async with inbox(folder, port=gateway, **settings) as box:
                yield box, port

    return run


@asynccontextmanager
async def itself(files: Path, folder: Path) -> AsyncIterator[tuple[Inbox, int]]:
    """Run a gateway with its own certificate; here it listens on loopback alone."""
    port = free_port()
    settings = settings_of("TLS_CERT", port, files)
    assert settings.pop("host") == "0.0.0.0"
    async with inbox(folder, port=port, **settings) as box:
        yield box, port


WAYS: dict[str, Way] = {"caddy": behind(caddy), "nginx": behind(nginx), "itself": itself}


@pytest.fixture(scope="module")
def phone(files: Path) -> Iterator[str]:
    """Run a browser that finds the name on loopback and knows our certificate, and no other."""
    known = (files / "known").read_text()
    with running(
        f"--host-resolver-rules=MAP {NAME} 127.0.0.1",
        f"--ignore-certificate-errors-spki-list={known}",
    ) as address:
        yield address


async def fetch(port: int, files: Path, path: str) -> aiohttp.ClientResponse:
    """Get a page over TLS, from who has our certificate."""
    context = ssl.create_default_context(cafile=str(files / "approvals.pem"))
    async with aiohttp.ClientSession() as http:
        return await http.get(
            f"https://127.0.0.1:{port}{path}",
            ssl=context,
            server_hostname=NAME,
            headers={"Host": f"{NAME}:{port}"},
        )


async def answers(port: int, files: Path) -> None:
    """Wait until somebody speaks TLS with our certificate there, and the gateway behind answers."""
    async with asyncio.timeout(60):
        while True:
            try:
                answer = await fetch(port, files, "/inbox/login")
                if answer.status == 200:
                    assert "max-age" in answer.headers["Strict-Transport-Security"]
                    return
            except aiohttp.ClientError:
                pass
            await moment()


@pytest.mark.parametrize("way", WAYS)
async def test_a_phone_signs_in_and_hears_at_once(
    way: str, files: Path, tmp_path: Path, phone: str
) -> None:
    """With the cookie that only TLS carries; a request arrives and is approved; a passkey made
    there signs in."""
    async with WAYS[way](files, tmp_path) as (box, port), visiting(phone) as browser:
        await answers(port, files)
        metrics = await fetch(port, files, "/metrics")
        assert metrics.status == (200 if way == "itself" else 404)
        assert box.gateway.url == f"https://{NAME}:{port}"
        page = await browser.tab()
        code = await box.gateway.backend.logins.invite("ann")
        await page.goto(f"{box.gateway.url}/inbox/login#code={code}")
        await page.press("Sign in as ann")
        await page.until(CONNECTED)
        cookies = (await page.send("Network.getCookies"))["cookies"]
        (cookie,) = [one for one in cookies if one["name"] == "__Host-agw"]
        assert cookie["secure"] and cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        record = await box.ask(**COMMAND)
        await page.until(card(record))
        await add_authenticator(page)
        await page.goto(f"{box.gateway.url}/inbox/devices")
        await page.press("Add a passkey")
        await page.until("document.body.textContent.includes('The passkey was added.')")
        await page.press("Sign out here")
        await page.press("Sign in with a passkey")
        await page.until(CONNECTED)
        await page.until(card(record))
        assert page.errors == []


@pytest.mark.parametrize("trusted", [True, False])
async def test_the_proxys_word_on_the_caller_counts(tmp_path: Path, trusted: bool) -> None:
    """Where a proxy is trusted, its own entry, the last one, is whose sign-ins are counted; what a
    caller wrote before it, and all of it elsewhere, is nothing."""
    port = free_port()
    url = f"https://{NAME}"
    async with (
        inbox(tmp_path, port=port, public_url=url, trusted_proxy=trusted),
        aiohttp.ClientSession() as http,
    ):

        async def begin(told: str) -> int:
            scheme = "https" if trusted else "http"
            sent = {"Origin": f"{scheme}://{NAME}", "Host": NAME, "X-Forwarded-For": told}
            call = f"http://127.0.0.1:{port}/inbox/api/login/passkey/options"
            async with http.post(call, headers=sent) as answer:
                assert answer.headers["X-Request-ID"]
                return answer.status

        for number in range(60):
            assert await begin(f"203.0.113.{number}, 198.51.100.7") == 200
        assert await begin("203.0.113.99, 198.51.100.7") == 429
        assert await begin("198.51.100.8") == (200 if trusted else 429)
