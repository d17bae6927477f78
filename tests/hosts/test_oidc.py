"""The npm package oidc-provider, as it is published, signs in whom the policy knows."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import aiohttp
import pytest
import pytest_asyncio

from gateway.domain.records import Identity
from gateway.errors import Unauthorized, Unreachable
from gateway.sign_in.logins import Ways
from gateway.sign_in.provider import ProviderSettings
from gateway.stores.sign_in import MEMBER_SECONDS, RedisAttempts
from tests.clocks import ShiftedClock
from tests.ports import free_port
from tests.sign_in.provider import CLIENT, SECRET
from tests.sign_in.test_groups import POLICY, apply, check
from tests.world import World

ROOT = Path(__file__).parents[2]
MODULES = ROOT / "build/hosts/oidc/node_modules"
PUBLIC, BROWSER = "http://localhost:9", "the secret of one browser"
BACK = f"{PUBLIC}/inbox/login/back"
ANN = Identity(platform="oidc", id="ann@example.org")

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(not MODULES.exists(), reason="`make test-hosts` installs the provider"),
]


@dataclass
class Site:
    """The ways in of a gateway, and the provider that it asks."""

    ways: Ways
    world: World
    process: asyncio.subprocess.Process
    settings: ProviderSettings

    async def set_groups(self, name: str, groups: object) -> None:
        """Set the groups of an account at the provider; None deactivates the account."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{name} {json.dumps(groups)}\n".encode())
        while (line := await self.process.stdout.readline()) != b"set\n":
            assert line, "the provider ended"  # it also says what it warns about

    async def come_back(self, name: str, browser: str = BROWSER) -> dict[str, str]:
        """Begin, sign in at the provider under a name, and return what it sends back."""
        page = await self.ways.provider.begin(browser, address="a")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            return await follow(http, page, name)

    async def finish(self, answer: dict[str, str]) -> str:
        """End the sign-in."""
        return await self.ways.provider.finish(BROWSER, answer, address="a", device="")


async def follow(http: aiohttp.ClientSession, page: str, name: str) -> dict[str, str]:
    """Fill in the provider's forms as a person does, until it leads back to us."""
    form: dict[str, str] | None = None
    for _ in range(12):
        call = http.get(page, allow_redirects=False) if form is None else http.post(
            page, data=form, allow_redirects=False
        )  # fmt: skip
        async with call as answer:
            if 300 <= answer.status < 400:
                page, form = urljoin(page, answer.headers["Location"]), None
                if page.startswith(BACK):
                    return {one: value[0] for one, value in parse_qs(urlsplit(page).query).items()}
                continue
            text = await answer.text()
        action = re.search(r'action="([^"]+)"', text)
        prompt = re.search(r'name="prompt" value="(\w+)"', text)
        assert action and prompt, text
        page, form = urljoin(page, action[1]), {"prompt": prompt[1], "login": name, "password": "x"}
    raise AssertionError("it never led back")


@pytest_asyncio.fixture
async def site(world: World) -> AsyncIterator[Site]:
    """Run the provider; the policy knows ann by her address there."""
    policy = await world.store.policy()
    people = tuple(
        replace(one, identities=(*one.identities, ANN.written)) if one.name == "ann" else one
        for one in policy.people
    )
    await world.store.apply(replace(policy, people=people), by="test")
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        str(MODULES / ".bin/node"),
        str(ROOT / "tests/hosts/oidc_provider.mjs"),
        (MODULES / "oidc-provider/lib/index.js").as_uri(),
        str(port),
        BACK,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while (await process.stdout.readline()).strip() != b"up":
                assert process.returncode is None
        settings = ProviderSettings(
            issuer=f"http://localhost:{port}",
            client=CLIENT,
            secret=SECRET,
            claim="email",
            public_url=PUBLIC,
        )
        ways = Ways(world.store, ShiftedClock(), provider=settings)
        yield Site(ways, world, process, settings)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_who_is_known_there_and_here_is_signed_in(site: Site) -> None:
    """Through its pages and back; who is not known here is told so."""
    answer = await site.come_back("ann")
    assert answer["iss"].startswith("http://localhost:")
    session = await site.finish(answer)
    assert await site.ways.who(session) == ANN
    stranger = await site.come_back("mallory")
    with pytest.raises(Unauthorized, match="nobody here has the identity oidc:mallory@example"):
        await site.finish(stranger)


async def test_it_refuses_a_wrong_verifier(site: Site) -> None:
    """So our PKCE is really checked: with the right code and another verifier nobody enters."""
    answer = await site.come_back("ann")
    attempts = RedisAttempts(site.world.store)
    raw = await attempts.take("oidc", BROWSER)
    assert raw is not None
    bent = json.loads(raw) | {"verifier": "x" * 43}
    await attempts.remember("oidc", BROWSER, json.dumps(bent).encode())
    with pytest.raises(Unreachable, match="400"):
        await site.finish(answer)


async def test_it_refuses_a_code_a_second_time(site: Site) -> None:
    """Were our own record of the attempt lost, the provider still takes a code once."""
    answer = await site.come_back("ann")
    attempts = RedisAttempts(site.world.store)
    raw = await attempts.take("oidc", BROWSER)
    assert raw is not None
    await attempts.remember("oidc", BROWSER, raw)
    await site.finish(answer)
    await attempts.remember("oidc", BROWSER, raw)
    with pytest.raises(Unreachable, match="400"):
        await site.finish(answer)


async def test_a_group_there_gives_rights_here_until_it_is_left(site: Site) -> None:
    """The provider's own refresh tokens confirm it, again and again, and each only once."""
    settings = replace(site.settings, claim="sub")
    site.ways = Ways(site.world.store, ShiftedClock(), provider=settings)
    await apply(site.world, POLICY)
    await site.set_groups("eve", ["payments", "admins"])
    session = await site.finish(await site.come_back("eve"))
    who = await site.ways.who(session)
    assert who == Identity(platform="oidc", id=f"{settings.issuer}#eve")
    first = await site.ways.members.load(who)
    for _ in range(3):
        await check(site.world, site.ways)
        assert await site.ways.who(session) == who
    assert await site.ways.members.load(who) != first
    assert (await site.world.store.policy()).is_admin(who)
    await site.set_groups("eve", ["payments"])
    await check(site.world, site.ways)
    assert await site.ways.who(session) == who
    assert not (await site.world.store.policy()).is_admin(who)
    await site.set_groups("eve", None)
    await check(site.world, site.ways)
    assert await site.ways.who(session) is None
    assert (await site.world.store.policy()).person_of(who) is None
    with pytest.raises(Unauthorized, match="no longer confirms"):
        await site.ways.provider.renew(first)


async def test_it_is_silent_when_it_is_gone(site: Site) -> None:
    """Then a member keeps the rights for a bounded time, and no longer."""
    site.ways = Ways(site.world.store, ShiftedClock(), provider=replace(site.settings, claim="sub"))
    await apply(site.world, POLICY)
    await site.set_groups("eve", ["payments"])
    session = await site.finish(await site.come_back("eve"))
    who = await site.ways.who(session)
    assert who is not None
    site.process.kill()
    await site.process.wait()
    await check(site.world, site.ways)
    assert await site.ways.who(session) == who
    left = await site.world.store.redis.ttl(site.ways.members._name("member", who))
    assert 0 < left <= MEMBER_SECONDS
    await site.world.store.redis.delete(site.ways.members._name("member", who))
    await check(site.world, site.ways)
    assert await site.ways.who(session) is None
    assert (await site.world.store.policy()).person_of(who) is None
