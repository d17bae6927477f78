"""The client's own HTTP/1.1: what it reads, what it refuses, and that it never waits too long."""

from __future__ import annotations

import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.client.http_connection import HttpConnection, HttpPool
from gateway.errors import (
    Busy,
    Conflict,
    GatewayError,
    InvalidRequest,
    NotFound,
    Unauthorized,
    Unreachable,
)
from tests.client.scripted import Cut, Endless, answer, scripted

OK = answer({"ok": True})


def call(*answers: bytes) -> Any:
    """Make one call, which gets these answers."""
    with scripted(*answers) as server, HttpConnection(server.url, "token") as connection:
        return connection.call("POST", "/v1/x", {"a": 1}, timeout=5)


def test_a_call_is_one_plain_message() -> None:
    """Method, prefix, host, token and body stand where HTTP has them."""
    with scripted(OK) as server, HttpConnection(f"{server.url}/under/", "secret") as connection:
        assert connection.call("POST", "/v1/x?wait=1", {"a": "ü"}) == {"ok": True}
    head, _, body = server.calls[0].partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    assert first == "POST /under/v1/x?wait=1 HTTP/1.1"
    assert f"Host: {server.url.removeprefix('http://')}" in fields
    assert "Authorization: Bearer secret" in fields
    assert body == b'{"a": "\\u00fc"}'


def test_what_takes_time_is_done_while_the_gateway_works() -> None:
    """Once, after the first call was sent, and before its answer."""
    done = threading.Event()

    def wait(_: bytes) -> bytes:
        return OK if done.wait(20) else b""

    with (
        scripted(wait, OK) as server,
        HttpConnection(server.url, "token", meanwhile=done.set) as connection,
    ):
        assert connection.call("POST", "/v1/x", {}, timeout=30) == {"ok": True}
        done.clear()
        assert connection.call("GET", "/v1/x") == {"ok": True}
    assert not done.is_set()


@pytest.mark.parametrize(
    "received",
    [
        OK,
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.0 200 OK\r\ncontent-length:12 \r\n\r\n" + b'{"ok": true}',
        b"HTTP/1.1 200\r\nContent-Length: 12\r\n\r\n" + b'{"ok": true}',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'6;name=x\r\n{"ok":\r\n6\r\n true}\r\n0\r\nTrailer: x\r\n\r\n',
    ],
)
def test_answers_of_known_length_are_read(received: bytes) -> None:
    """With Content-Length or in chunks, after interim answers, from HTTP/1.0 too."""
    assert call(received) == {"ok": True}


@pytest.mark.parametrize(
    "received",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n folded: 1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\nY: b\r\n\r\n{}",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + b"X: y\r\n" * 20_000 + b"\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"[" * 200_000,
    ],
)
def test_what_cannot_be_read_without_guessing_is_refused(received: bytes) -> None:
    """Each of these is Unreachable as soon as it is seen, never an answer."""
    with pytest.raises(Unreachable) as caught:
        call(received)
    assert "timed out" not in str(caught.value)


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\nConte", OK[:-1]])
def test_an_answer_that_is_cut_off_is_none(part: bytes) -> None:
    """The connection ends in the middle: Unreachable, and what came is not used."""
    with pytest.raises(Unreachable, match="closed"):
        call(Cut(part))


def until_called(server: Any) -> None:
    """Wait until the server has read a call."""
    while not server.calls:
        time.sleep(0)  # noqa: TID251 (only lets the other thread run)


def test_the_time_is_for_the_whole_call() -> None:
    """A server that says nothing, stops in the middle, or never stops does not hold us longer."""
    began = time.monotonic()
    endless = Endless(b"HTTP/1.1 100 Continue\r\n\r\n")
    for received in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", endless):
        with (
            scripted(received) as server,
            HttpConnection(server.url, "t") as connection,
            pytest.raises(Unreachable, match="timed out"),
        ):
            connection.call("GET", "/x", timeout=0.1)
    with pytest.raises(Unreachable):
        HttpConnection("http://127.0.0.1:1", "t").call("GET", "/x", timeout=0)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("status", "body", "raised"),
    [
        (401, {"code": "unauthorized", "detail": "who?"}, Unauthorized),
        (409, {"code": "conflict", "detail": "taken"}, Conflict),
        (404, {}, NotFound),
        (418, {"title": "odd"}, InvalidRequest),
        (503, {"code": "unreachable", "detail": "no store"}, Unreachable),
        (500, [], Unreachable),
    ],
)
def test_problems_become_errors(status: int, body: Any, raised: type[GatewayError]) -> None:
    """By their code, else by their status."""
    with pytest.raises(raised) as caught:
        call(answer(body, status))
    assert type(caught.value) is raised


@pytest.mark.parametrize(
    ("told", "seconds"), [("7", 7.0), ("9999999", 60.0), ("soon", 1.0), ("-1", 1.0)]
)
def test_a_busy_gateway_says_when_to_come_back(told: str, seconds: float) -> None:
    """429 carries the seconds of Retry-After, within reason."""
    with pytest.raises(Busy) as caught:
        call(answer({"code": "too_many_requests", "detail": "later"}, 429, Retry_After=told))
    assert caught.value.retry_after == seconds


def test_a_connection_is_kept_and_replaced_once() -> None:
    """Calls share one connection; one that the server closed meanwhile costs one more try."""
    with scripted(OK, OK, Cut(), OK) as server, HttpConnection(server.url, "t") as connection:
        for _ in range(3):
            assert connection.call("GET", "/x") == {"ok": True}
        assert (server.connections, len(server.calls)) == (2, 4)
    with scripted(Cut(), OK) as server, HttpConnection(server.url, "t") as connection:
        with pytest.raises(Unreachable):
            connection.call("GET", "/x")
        assert len(server.calls) == 1


def test_answers_are_never_mixed_up() -> None:
    """What follows an answer, at once or later, or a call that ran out of time, is not used."""
    second = answer({"second": 2})
    with scripted(OK + OK, second, second) as server, HttpConnection(server.url, "t") as connection:
        assert connection.call("GET", "/x") == {"ok": True}
        assert connection.call("GET", "/x") == {"second": 2}
        assert server.connections == 2
        server.push(OK)
        assert connection.call("GET", "/x") == {"second": 2}
        assert server.connections == 3
    with scripted(b"", second) as server, HttpConnection(server.url, "t") as connection:
        with pytest.raises(Unreachable):
            connection.call("GET", "/x", timeout=0.05)
        assert connection.call("GET", "/x") == {"second": 2}
        assert server.connections == 2


@pytest.mark.parametrize(
    "last",
    [
        answer({"ok": True}, Connection="close"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\n" + b'{"ok": true}',
    ],
)
def test_a_connection_that_ends_is_not_kept(last: bytes) -> None:
    """The server said that it closes, or speaks a version that does."""
    with scripted(last, OK) as server, HttpConnection(server.url, "t") as connection:
        for _ in range(2):
            assert connection.call("GET", "/x") == {"ok": True}
        assert server.connections == 2


@pytest.mark.parametrize(
    "url",
    [
        "", "ftp://a", "http://", "http://user:pw@a/", "http://a?x", "http://a#x", "http://a b",
        "http://a\r\nX: y", "http://a/b c", "http://a/b\r\nX: y",
        "http://a/ä", "http://a:99999999", "http://ä", "localhost:8080",
    ],
)  # fmt: skip
def test_only_plain_addresses_are_taken(url: str) -> None:
    """Nothing in an address can name another host, or begin another header."""
    with pytest.raises(InvalidRequest):
        HttpConnection(url, "t")


@pytest.mark.parametrize("bad", ["", "a b", "a\r\nX: y", "ä", "a\0"])
def test_nothing_slips_into_the_header(bad: str) -> None:
    """Tokens and paths are visible ASCII."""
    with pytest.raises(InvalidRequest):
        HttpConnection("http://localhost", bad)
    with pytest.raises(InvalidRequest):
        HttpConnection("http://localhost", "t").call("GET", bad)


def test_a_cut_connection_sends_nothing_more() -> None:
    """Cut before or between calls: Unreachable, also where it would have to connect first."""
    with scripted(OK, OK) as server, HttpConnection(server.url, "t") as connection:
        assert connection.call("GET", "/x") == {"ok": True}
        connection.cut()
        for _ in range(2):
            with pytest.raises(Unreachable):
                connection.call("GET", "/x")
        assert len(server.calls) == 1


def test_closing_the_pool_cuts_calls_that_wait() -> None:
    """A thread in a long poll ends at once, and later calls are refused."""
    with scripted(b"") as server:
        pool = HttpPool(server.url, "t")
        failed: list[Exception] = []

        def waiting() -> None:
            try:
                pool.call("GET", "/x", timeout=60)
            except Unreachable as error:
                failed.append(error)

        thread = threading.Thread(target=waiting)
        thread.start()
        until_called(server)
        pool.close()
        thread.join(10)
        assert len(failed) == 1
        with pytest.raises(Unreachable):
            pool.call("GET", "/x")


def test_https_believes_only_a_trusted_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right name from a known authority, or nothing is sent."""
    certificate = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with scripted(OK, tls=context) as server, HttpConnection(server.url, "t") as connection:
        with pytest.raises(Unreachable, match="certificate"):
            connection.call("GET", "/x", timeout=5)
        assert server.calls == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert connection.call("GET", "/x", timeout=5) == {"ok": True}
        other = server.url.replace("127.0.0.1", "localhost")
        with pytest.raises(Unreachable), HttpConnection(other, "t") as wrong:
            wrong.call("GET", "/x", timeout=5)


def _certificate(folder: Path) -> Path:
    """Return a file with a new key and its own certificate for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime(2020, 1, 1, tzinfo=UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=36500))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "both.pem"
    path.write_bytes(pem + built.public_bytes(serialization.Encoding.PEM))
    return path
