"""An identity provider signs in whom the policy knows by its word, and nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from gateway.domain.records import Identity, Person
from gateway.errors import Busy, InvalidRequest, Unauthorized, Unreachable
from gateway.server.connections import provider_of
from gateway.server.settings import BadSettings, Settings
from gateway.sign_in.logins import Ways
from gateway.sign_in.provider import ProviderSettings
from tests.clocks import ShiftedClock
from tests.sign_in.provider import CLIENT, SECRET, Provider, providing
from tests.stores.test_browser_sessions import told
from tests.world import World

PUBLIC = "https://approvals.example"
BACK = f"{PUBLIC}/inbox/login/back"
ANN = Identity(platform="oidc", id="ann@example.org")
BROWSER = "the secret of one browser"


@pytest.fixture
async def provider(world: World) -> AsyncIterator[Provider]:
    """Run a provider; the policy knows ann by her address there."""
    policy = await world.store.policy()
    others = tuple(one for one in policy.people if one.name != "ann")
    people = (*others, Person(name="ann", identities=("token:ann", ANN.written)))
    await world.store.apply(replace(policy, people=people), by="test")
    async with providing(BACK) as made:
        yield made


@pytest.fixture
def ways(world: World, provider: Provider) -> Ways:
    """Return the ways in of a gateway that asks the provider."""
    return make_ways(world, provider)


def make_ways(world: World, provider: Provider, **changes: Any) -> Ways:
    """Return the ways in, with settings changed."""
    values = {"issuer": provider.issuer, "client": CLIENT, "secret": SECRET, "claim": "email"}
    production = changes.pop("production", False)
    settings = ProviderSettings(**{**values, "public_url": PUBLIC, **changes})
    return Ways(
        world.store,
        ShiftedClock(),
        public_url=PUBLIC,
        provider=settings,
        production=production,
    )


async def begin(ways: Ways, browser: str = BROWSER) -> str:
    """Begin a sign-in; return the provider's page."""
    return await ways.provider.begin(browser, address="a")


async def finish(ways: Ways, answer: dict[str, str], browser: str = BROWSER) -> str:
    """End a sign-in with what came back."""
    return await ways.provider.finish(browser, answer, address="a", device="Firefox on Linux")


async def refused(ways: Ways, world: World, answer: dict[str, str], browser: str = BROWSER) -> str:
    """End a sign-in in vain; return what the audit says of it."""
    with pytest.raises((Unauthorized, Unreachable)):
        await finish(ways, answer, browser)
    return str((await told(world, "sign_in_refused"))[-1].data["why"])


async def test_who_is_known_is_signed_in(ways: Ways, world: World, provider: Provider) -> None:
    """By the verified address, however it is written; devices and audit say how."""
    session = await finish(ways, provider.agree(await begin(ways)))
    assert await ways.who(session) == ANN
    (device,) = await ways.list_devices_of("ann")
    assert (device.way, device.words) == ("oidc", "Firefox on Linux")
    assert (await told(world, "signed_in"))[-1].data["as"] == ANN.written


async def test_who_is_not_known_is_told_so(ways: Ways, world: World, provider: Provider) -> None:
    """With the words that the operator needs; an address that nobody verified names nobody."""
    provider.claims["email"] = "eve@example.org"
    why = await refused(ways, world, provider.agree(await begin(ways)))
    assert "nobody here has the identity oidc:eve@example.org" in why
    provider.claims["email"] = "ann@example.org"
    for verified in (False, None, "true"):
        provider.claims["email_verified"] = verified
        why = await refused(ways, world, provider.agree(await begin(ways)))
        assert "has not verified" in why
    for missing in (None, "", ["ann@example.org"]):
        provider.claims["email"] = missing
        why = await refused(ways, world, provider.agree(await begin(ways)))
        assert "sent no claim 'email'" in why


async def test_a_letter_that_looks_alike_is_another_person(
    ways: Ways, world: World, provider: Provider
) -> None:
    """The Kelvin sign is a small k where Unicode makes letters small, and no k at all."""
    policy = await world.store.policy()
    people = tuple(
        replace(one, identities=(*one.identities, "oidc:kim@example.org"))
        if one.name == "bob"
        else one
        for one in policy.people
    )
    await world.store.apply(replace(policy, people=people), by="test")
    provider.claims["email"] = "\u212aim@example.org"
    assert "nobody here has the identity" in await refused(
        ways, world, provider.agree(await begin(ways))
    )
    provider.claims["email"] = "Kim@Example.org"
    assert await finish(ways, provider.agree(await begin(ways)))


async def test_another_claim_names_people(world: World, provider: Provider) -> None:
    """As the settings say; then it need not be an address."""
    policy = await world.store.policy()
    people = tuple(
        replace(one, identities=(*one.identities, "oidc:7")) if one.name == "bob" else one
        for one in policy.people
    )
    await world.store.apply(replace(policy, people=people), by="test")
    ways = make_ways(world, provider, claim="sub")
    session = await finish(ways, provider.agree(await begin(ways)))
    assert await ways.who(session) == Identity(platform="oidc", id="7")
    assert [one.person for one in await ways.list_devices_of("bob")] == ["bob"]


async def test_what_came_back_is_good_once(ways: Ways, world: World, provider: Provider) -> None:
    """Neither state nor code signs in again, and a used code is not even sent."""
    answer = provider.agree(await begin(ways))
    await finish(ways, answer)
    assert "long ago" in await refused(ways, world, answer)
    assert provider.tried == 1
    await begin(ways)
    assert "a different sign-in" in await refused(ways, world, answer)


async def test_another_browsers_state_is_refused(
    ways: Ways, world: World, provider: Provider
) -> None:
    """What was begun elsewhere ends nowhere here, also where something was begun."""
    theirs = provider.agree(await begin(ways, "another browser"))
    assert "another browser" in await refused(ways, world, theirs)
    await begin(ways)
    assert "a different sign-in" in await refused(ways, world, theirs)
    assert provider.tried == 0
    await finish(ways, theirs, "another browser")


async def test_the_verifier_is_ours_alone(ways: Ways, world: World, provider: Provider) -> None:
    """A code that was meant for another sign-in is refused by the provider: PKCE is really used."""
    stolen = provider.agree(await begin(ways, "another browser"))
    mine = provider.agree(await begin(ways))
    why = await refused(ways, world, {**mine, "code": stolen["code"]})
    assert "400" in why
    assert provider.tried == 1


async def test_an_expired_or_refused_code_signs_nobody_in(
    ways: Ways, world: World, provider: Provider
) -> None:
    """Nor does an answer without one; only a plain word of the provider's is repeated."""
    answer = provider.agree(await begin(ways))
    provider.asked.clear()
    assert "400" in await refused(ways, world, answer)
    for error, says in (
        ("access_denied", "access_denied"),
        ("<b>pay</b>", "an error"),
        ("", "no code"),
    ):
        state = provider.agree(await begin(ways))["state"]
        came = {"state": state, "error": error, "iss": provider.issuer}
        assert (await refused(ways, world, came)).endswith(says)
    # A code beside it changes nothing.
    answer = {**provider.agree(await begin(ways)), "error": "access_denied"}
    assert (await refused(ways, world, answer)).endswith("refused the sign-in: access_denied")


async def test_it_comes_from_the_provider_that_was_asked(
    ways: Ways, world: World, provider: Provider
) -> None:
    """One that names another, or that should name itself and does not, is refused."""
    for named in ("https://evil.example", ""):
        answer = provider.agree(await begin(ways)) | {"iss": named}
        assert "a different identity provider" in await refused(ways, world, answer)
    answer = provider.agree(await begin(ways))
    del answer["iss"]
    assert "a different identity provider" in await refused(ways, world, answer)


OTHER = RSAKey.generate_key(2048, {"kid": "one"})
BENT: dict[str, Callable[[Provider], dict[str, Any]]] = {
    "another key": lambda provider: {"key": OTHER},
    "another issuer": lambda provider: {"claims": {"iss": "https://evil.example"}},
    "another client": lambda provider: {"claims": {"aud": "another"}},
    "others too": lambda provider: {"claims": {"aud": [CLIENT, "another"], "azp": "another"}},
    "another sign-in": lambda provider: {"claims": {"nonce": "another"}},
    "no nonce": lambda provider: {"claims": {"nonce": None}},
    "long ago": lambda provider: {"claims": {"exp": 1_000_000_000}},
    "no end": lambda provider: {"claims": {"exp": None}},
    "no signature": lambda provider: {"token": "eyJhbGciOiJub25lIn0.eyJzdWIiOiI3In0."},
    "our own secret": lambda provider: {
        "token": jwt.encode(
            {"alg": "HS256"},
            {"iss": provider.issuer, "aud": CLIENT},
            OctKey.import_key(SECRET * 4),
            algorithms=["HS256"],
        )
    },
    "rubbish": lambda provider: {"token": "rubbish"},
    "a number": lambda provider: {"token": 7},
}


@pytest.mark.parametrize("bent", BENT)
async def test_a_word_that_does_not_verify_is_refused(
    ways: Ways, world: World, provider: Provider, caplog: pytest.LogCaptureFixture, bent: str
) -> None:
    """Whatever of it is not right, and the log says what the check stumbled over; an honest one
    works."""
    caplog.set_level("INFO", "gateway.sign_in")
    provider.bent = BENT[bent](provider)
    why = await refused(ways, world, provider.agree(await begin(ways)))
    assert "identity provider" in why
    own_checks = ("others too", "a number")
    assert ("an ID token was rejected:" in caplog.text) is (bent not in own_checks)
    provider.bent = {}
    await finish(ways, provider.agree(await begin(ways)))


async def test_a_provider_that_calls_itself_otherwise_is_none(
    ways: Ways, world: World, provider: Provider
) -> None:
    """And one that publishes nonsense, or too much, is not asked any further."""
    for published in ({"issuer": "https://evil.example"}, {"authorization_endpoint": None}):
        provider.bent = {"configuration": published}
        with pytest.raises(Unreachable):
            await begin(make_ways(world, provider))
    provider.bent = {"configuration": {"more": "x" * 300_000}}
    with pytest.raises(Unreachable):
        await begin(make_ways(world, provider))


async def test_calls_go_through_the_guard_of_addresses(world: World, provider: Provider) -> None:
    """In production nothing but public addresses by https is called, and never one inside."""
    for issuer in (provider.issuer, "https://localhost", "https://127.0.0.1", "http://10.0.0.1"):
        with pytest.raises(Unreachable):
            await begin(make_ways(world, provider, issuer=issuer, production=True))
    with pytest.raises(Unreachable):
        await begin(make_ways(world, provider, issuer="http://127.0.0.1:9"))
    inside = {"token_endpoint": "https://localhost.localdomain/token"}
    provider.bent = {"configuration": inside}
    ways = make_ways(world, provider)
    with pytest.raises(Unreachable):
        await finish(ways, provider.agree(await begin(ways)))
    assert provider.tried == 0


async def test_beginnings_are_limited(ways: Ways) -> None:
    """Of an address; another one begins all the same."""
    for _ in range(60):
        await begin(ways)
    with pytest.raises(Busy):
        await begin(ways)
    await ways.provider.begin(BROWSER, address="b")


async def test_without_a_provider_there_is_none(
    world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor without the extra: no button, and a sentence."""
    unset = Ways(world.store, ShiftedClock())
    monkeypatch.setattr("gateway.sign_in.provider.find_spec", lambda name: None)
    for ways in (unset, make_ways(world, provider)):
        assert ways.provider.name == ""
        with pytest.raises(InvalidRequest):
            await begin(ways)
        with pytest.raises(InvalidRequest):
            await finish(ways, {})


def test_the_settings_of_a_provider_are_whole() -> None:
    """Without its name for us, or an address to come back to, the gateway does not start."""
    issuer, client = "https://login.example", "approvals"
    wanting: list[dict[str, Any]] = [{}, {"oidc_client_id": client}, {"public_url": PUBLIC}]
    for changes in wanting:
        with pytest.raises(BadSettings):
            provider_of(Settings(oidc_issuer=issuer, **changes))
    assert provider_of(Settings()) is None
    found = provider_of(Settings(oidc_issuer=issuer, oidc_client_id=client, public_url=PUBLIC))
    assert found is not None
    assert found.back == BACK


async def test_only_the_challenge_is_shown(ways: Ways) -> None:
    """Neither the verifier nor our secret stands in the page's address."""
    asked = parse_qs(urlsplit(await begin(ways)).query)
    assert set(asked) == {
        "response_type",
        "client_id",
        "redirect_uri",
        "scope",
        "state",
        "nonce",
        "code_challenge",
        "code_challenge_method",
    }
