"""Each trick by which a gateway could be used to reach what its caller cannot."""

import ipaddress

import pytest

from gateway.delivery.egress_guard import (
    Forbidden,
    is_public,
    pin_addresses,
    resolve_by_system,
    target_of,
)

ALLOWED = ("hooks.example", "hooks.example:8443", "localhost:8080", "127.0.0.1", "2130706433")


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/",
        "ftp://hooks.example/",
        "//hooks.example/",
        "https://other.example/",
        "https://hooks.example.evil.example/",
        "https://evil-hooks.example/",
        "https://hooks.example./",
        "https://hooks.example:444/",
        "https://hooks.example:0/",
        "https://hooks.example:99999/",
        "https://hooks.example:x/",
        "https://user@hooks.example/",
        "https://hooks.example@evil.example/",
        "https://evil.example\\@hooks.example/",
        "https://evil.example#@hooks.example/",
        "https://hooks.example/#fragment",
        "https://hooks.exa\tmple/",
        "https://hooks.example/\r\nX-Header: 1",
        "https://hooks.ex\u0430mple/",
        "https://hooks%2eexample/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://0x7f.0.0.1/",
        "http://127.0.0.1/",
        "http://localhost:8081/",
        "https:///",
        "",
    ],
)
def test_a_url_that_is_not_plainly_allowed_is_refused(url: str) -> None:
    """Scheme, host, port and every disguise are held against the list, letter by letter."""
    with pytest.raises(Forbidden):
        target_of(url, allowed=ALLOWED, production=False)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://hooks.example/a?b=c", "hooks.example", 443),
        ("https://HOOKS.example:443/", "hooks.example", 443),
        ("https://hooks.example:8443/", "hooks.example", 8443),
        ("http://localhost:8080/", "localhost", 8080),
    ],
)
def test_an_allowed_url_is_taken(url: str, host: str, port: int) -> None:
    """The control: not everything is refused."""
    target = target_of(url, allowed=ALLOWED, production=False)
    assert (target.host, target.port) == (host, port)


@pytest.mark.parametrize("url", ["http://localhost:8080/", "https://localhost:8080/"])
async def test_production_never_calls_itself(url: str) -> None:
    """Loopback is for trying things out: in production neither scheme gets there."""
    with pytest.raises(Forbidden):
        target = target_of(url, allowed=ALLOWED, production=True)
        await pin_addresses(target, resolve_by_system)


PRIVATE = [
    "127.0.0.1",
    "127.8.9.1",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "198.18.0.1",
    "192.0.2.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%1",
    "fc00::1",
    "fec0::1",
    "ff02::1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:8.8.8.8",
    "::7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "2606:4700::1111%1",
    "192.88.99.0",
    "192.88.99.255",
    "3fff::",
    "3fff:fff:ffff::1",
]


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_that_resolves_to_no_public_address_is_refused(address: str) -> None:
    """Also when a public one stands beside it: one bad address spoils the name."""

    async def resolve(host: str, port: int) -> list[str]:
        return ["8.8.8.8", address]

    target = target_of("https://hooks.example/", allowed=ALLOWED, production=True)
    with pytest.raises(Forbidden):
        await pin_addresses(target, resolve)
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111"])
async def test_public_addresses_are_taken(address: str) -> None:
    """The control."""

    async def resolve(host: str, port: int) -> list[str]:
        return [address]

    target = target_of("https://hooks.example/", allowed=ALLOWED, production=True)
    assert [str(one) for one in await pin_addresses(target, resolve)] == [address]


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433"])
async def test_an_address_in_the_place_of_a_name_is_checked_too(host: str) -> None:
    """Even an allowed literal, in whatever notation, is resolved and checked."""
    target = target_of(f"https://{host}/", allowed=ALLOWED, production=False)
    with pytest.raises(Forbidden):
        await pin_addresses(target, resolve_by_system)


async def test_a_name_without_an_address_is_refused() -> None:
    """Nothing is called then."""

    async def resolve(host: str, port: int) -> list[str]:
        return []

    target = target_of("https://hooks.example/", allowed=ALLOWED, production=True)
    with pytest.raises(Forbidden):
        await pin_addresses(target, resolve)


async def test_localhost_must_be_loopback() -> None:
    """A hosts file that sends localhost elsewhere gains nothing."""

    async def resolve(host: str, port: int) -> list[str]:
        return ["10.0.0.1"]

    target = target_of("http://localhost:8080/", allowed=ALLOWED, production=False)
    with pytest.raises(Forbidden):
        await pin_addresses(target, resolve)
