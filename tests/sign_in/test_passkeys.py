"""Passkeys: made by a person, good for them alone, for what was asked, once; or else refused."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import Busy, Conflict, InvalidRequest, Unauthorized
from gateway.ports import MOST_PASSKEYS
from gateway.sign_in.logins import Ways
from gateway.sign_in.passkeys import PasskeySite, challenge_of, find_site
from gateway.stores.sign_in import ATTEMPT_SECONDS, RedisPasskeys
from tests.clocks import ShiftedClock
from tests.sign_in.authenticator import Authenticator, written
from tests.stores.test_browser_sessions import sign_in, told
from tests.world import World, identity

HOST, ORIGIN = "approvals.example", "https://approvals.example"
BROWSER = "the secret of one browser"
ABOUT = "0" * 64 + " approve"


@pytest.fixture
def ways(world: World) -> Ways:
    """Return the ways in of a gateway that knows ann, bob and eve."""
    return Ways(world.store, ShiftedClock(), public_url=ORIGIN)


async def with_passkey(ways: Ways, person: str = "ann") -> tuple[str, Authenticator]:
    """Sign somebody in by a link, and make a passkey of theirs; return session and device."""
    session, device = await sign_in(ways, person), Authenticator(HOST, ORIGIN)
    made = device.make(await ways.passkeys.begin_adding(session))
    await ways.passkeys.add(session, made, device="Safari on iPhone")
    return session, device


async def enter(ways: Ways, credential: Any, browser: str = BROWSER) -> str:
    """Sign in with what a device answered."""
    return await ways.passkeys.sign_in(browser, credential, address="a", device="Safari on iPhone")


async def begin(ways: Ways, browser: str = BROWSER) -> Any:
    """Ask for a challenge."""
    return await ways.passkeys.begin_sign_in(browser, address="a")


async def refused(ways: Ways, world: World, credential: Any, browser: str = BROWSER) -> str:
    """Try to sign in, in vain; return what the audit says of it."""
    with pytest.raises(Unauthorized):
        await enter(ways, credential, browser)
    return str((await told(world, "sign_in_refused"))[-1].data["why"])


async def test_a_passkey_signs_its_person_in(ways: Ways, world: World) -> None:
    """Without a name typed; the audit says who and how."""
    session, device = await with_passkey(ways)
    entered = await enter(ways, device.sign(await begin(ways)))
    assert await ways.who(entered) == identity("ann")
    assert (await told(world, "signed_in"))[-1].data["way"] == "passkey"
    (listed,) = await ways.passkeys.list_passkeys(session)
    assert listed.words == "Safari on iPhone"
    assert listed.used >= listed.made
    (event,) = await told(world, "passkey_added")
    assert event.data["person"] == "ann"


async def test_what_the_browser_is_asked_for(ways: Ways) -> None:
    """A key that signs in by itself, for our name alone, and a user who is verified; no name goes
    to a device, and one that has a passkey makes no second."""
    session, device = await with_passkey(ways)
    making, signing = await ways.passkeys.begin_adding(session), await begin(ways)
    assert making["rp"]["id"] == signing["rpId"] == HOST
    assert making["authenticatorSelection"]["residentKey"] == "required"
    assert making["authenticatorSelection"]["userVerification"] == "required"
    assert signing["userVerification"] == "required"
    assert signing.get("allowCredentials", []) == []
    assert b"ann" not in base64.urlsafe_b64decode(making["user"]["id"] + "==")
    assert [one["id"] for one in making["excludeCredentials"]] == [written(device.id)]


async def test_a_challenge_is_taken_once_and_soon(ways: Ways, world: World) -> None:
    """A replayed answer finds none, and the server forgets it after five minutes."""
    _, device = await with_passkey(ways)
    credential = device.sign(await begin(ways))
    key = ways._keys.of("challenge", "*")
    (kept,) = await world.store.redis.keys(key)
    assert ATTEMPT_SECONDS - 60 < await world.store.redis.ttl(kept) <= ATTEMPT_SECONDS
    await enter(ways, credential)
    assert await refused(ways, world, credential) == "this browser has no open challenge"


async def test_another_browsers_challenge_is_refused(ways: Ways, world: World) -> None:
    """What was begun in one browser is ended in no other, also while the other began too."""
    _, device = await with_passkey(ways)
    credential = device.sign(await begin(ways))
    assert "no open challenge" in await refused(ways, world, credential, "another browser")
    await begin(ways, "another browser")
    assert "does not verify" in await refused(ways, world, credential, "another browser")


BENT: dict[str, Callable[[Authenticator], Any]] = {
    "another key": lambda device: replace(device, key=Authenticator("", "").key),
    "another site's page": lambda device: replace(device, origin="https://evil.example"),
    "a page without TLS": lambda device: replace(device, origin="http://approvals.example"),
    "another port": lambda device: replace(device, origin=f"{ORIGIN}:8443"),
    "a host above ours": lambda device: replace(device, host="example"),
    "a page within another site's": lambda device: replace(device, around={"crossOrigin": True}),
    "a page that names one around it": lambda device: replace(
        device, around={"topOrigin": "https://evil.example"}
    ),
}


@pytest.mark.parametrize("bent", BENT)
async def test_a_forged_assertion_is_refused(
    ways: Ways, world: World, caplog: pytest.LogCaptureFixture, bent: str
) -> None:
    """Whatever of it is not right, and the log says what the check stumbled over; the device itself
    still signs in."""
    caplog.set_level("INFO", "gateway.sign_in")
    _, device = await with_passkey(ways)
    forged = BENT[bent](device)
    why = await refused(ways, world, forged.sign(await begin(ways)))
    assert why == "it does not verify as one of ann"
    error = "Unauthorized" if forged.around else "InvalidAuthenticationResponse"
    assert f"a passkey: {error} in" in caplog.text
    device.count = forged.count
    await enter(ways, device.sign(await begin(ways)))


async def test_a_user_who_was_not_verified_is_refused(ways: Ways, world: World) -> None:
    """To hold the device is not enough: neither for making a passkey nor for using one."""
    session, device = await with_passkey(ways)
    credential = device.sign(await begin(ways), verified=False)
    assert "does not verify" in await refused(ways, world, credential)
    other = Authenticator(HOST, ORIGIN)
    made = other.make(await ways.passkeys.begin_adding(session), verified=False)
    with pytest.raises(Unauthorized):
        await ways.passkeys.add(session, made, device="")
    assert len(await ways.passkeys.list_passkeys(session)) == 1


@pytest.mark.parametrize("around", [{"crossOrigin": True}, {"topOrigin": "https://e.example"}])
async def test_no_passkey_is_made_within_another_sites_page(ways: Ways, around: Any) -> None:
    """Nobody is led to make one by a page that shows ours in a frame."""
    session = await sign_in(ways, "ann")
    device = Authenticator(HOST, ORIGIN, around=around)
    with pytest.raises(Unauthorized):
        made = device.make(await ways.passkeys.begin_adding(session))
        await ways.passkeys.add(session, made, device="")
    assert await ways.passkeys.list_passkeys(session) == []


async def test_a_passkey_has_one_person(ways: Ways, world: World) -> None:
    """What is ann's is not made bob's, too, on a device that both hold; of two who try at the same
    moment not both have it. Once she removed it, it may be his."""
    anns, device = await with_passkey(ways)
    bobs = await sign_in(ways, "bob")
    made = device.make(await ways.passkeys.begin_adding(bobs))
    with pytest.raises(Conflict, match="another person"):
        await ways.passkeys.add(bobs, made, device="")
    assert await ways.passkeys.list_passkeys(bobs) == []
    why = (await told(world, "sign_in_refused"))[-1].data["why"]
    assert why == "the passkey belongs to another person"
    (listed,) = await ways.passkeys.list_passkeys(anns)
    assert await ways.passkeys.remove(anns, listed.id)
    await ways.passkeys.add(bobs, device.make(await ways.passkeys.begin_adding(bobs)), device="")
    (listed,) = await ways.passkeys.list_passkeys(bobs)
    assert await ways.passkeys.remove(bobs, listed.id)
    async with asyncio.TaskGroup() as group:
        for session in (anns, bobs):
            made = device.make(await ways.passkeys.begin_adding(session))
            group.create_task(add(ways, session, made))
    kept = [await ways.passkeys.list_passkeys(one) for one in (anns, bobs)]
    assert sum(map(len, kept)) < 2


async def add(ways: Ways, session: str, made: Any) -> None:
    """Add a passkey, in vain perhaps."""
    with suppress(Conflict):
        await ways.passkeys.add(session, made, device="")


async def test_a_passkey_is_nobody_elses(ways: Ways, world: World) -> None:
    """With bob's handle ann's passkey signs in neither of them."""
    _, anns = await with_passkey(ways)
    _, bobs = await with_passkey(ways, "bob")
    credential = anns.sign(await begin(ways), handle=bobs.handle)
    assert await refused(ways, world, credential) == "unknown passkey"


async def test_a_copied_device_is_refused(ways: Ways, world: World) -> None:
    """One that has counted less than was told before; also where both answer at once."""
    _, device = await with_passkey(ways)
    copy = replace(device)
    await enter(ways, device.sign(await begin(ways)))
    assert "does not verify" in await refused(ways, world, copy.sign(await begin(ways)))
    device.count = copy.count = 7
    answers = [
        one.sign(await begin(ways, f"browser {at}")) for at, one in enumerate((device, copy))
    ]
    entering = (enter(ways, one, f"browser {at}") for at, one in enumerate(answers))
    ended = await asyncio.gather(*entering, return_exceptions=True)
    assert sorted(type(one).__name__ for one in ended) == ["Unauthorized", "str"]


async def test_of_two_uses_that_say_the_same_count_one_is_good(ways: Ways) -> None:
    """Both were read before either was written."""
    await with_passkey(ways)
    kept = RedisPasskeys(ways._store, ShiftedClock())
    (passkey,) = await kept.load(await kept.stand(), "ann")
    assert [await kept.count_use(passkey, count) for count in (5, 5, 4, 6)] == [
        True,
        False,
        False,
        True,
    ]


async def test_a_device_that_counts_nothing_signs_in(ways: Ways) -> None:
    """As those do whose passkeys are on several devices."""
    _, device = await with_passkey(ways)
    for _ in range(2):
        device.count = -1
        await enter(ways, device.sign(await begin(ways)))


async def test_a_removed_passkey_is_refused(ways: Ways, world: World) -> None:
    """Its own person removed it; nobody else can."""
    session, device = await with_passkey(ways)
    bobs, _ = await with_passkey(ways, "bob")
    assert not await ways.passkeys.remove(bobs, written(device.id))
    credential = device.sign(await begin(ways))
    assert await ways.passkeys.remove(session, written(device.id))
    assert not await ways.passkeys.remove(session, written(device.id))
    assert "unknown passkey" in await refused(ways, world, credential)
    assert [one.data["person"] for one in await told(world, "passkey_removed")] == ["ann"]


async def test_a_removed_persons_passkeys_are_refused_at_once(ways: Ways, world: World) -> None:
    """And stay so when the name comes back: it makes new ones."""
    _, device = await with_passkey(ways)
    credential = device.sign(await begin(ways))
    policy = await world.store.policy()
    others = tuple(one for one in policy.people if one.name != "ann")
    await world.store.apply(replace(policy, people=others), by="test")
    assert "unknown passkey" in await refused(ways, world, credential)
    back = replace(await world.store.policy(), people=policy.people)
    await world.store.apply(back, by="test")
    assert "unknown passkey" in await refused(ways, world, device.sign(await begin(ways)))
    session, device = await with_passkey(ways)
    assert len(await ways.passkeys.list_passkeys(session)) == 1
    await enter(ways, device.sign(await begin(ways)))


async def test_an_identity_that_becomes_another_persons_has_no_passkeys(
    ways: Ways, world: World
) -> None:
    """Bob is not signed in with what ann made."""
    _, device = await with_passkey(ways)
    policy = await world.store.policy()
    moved = tuple(
        replace(one, identities=("token:ann", "token:bob") if one.name == "bob" else ())
        for one in policy.people
    )
    await world.store.apply(replace(policy, people=moved), by="test")
    assert "unknown passkey" in await refused(ways, world, device.sign(await begin(ways)))


async def test_nobody_has_more_than_so_many(ways: Ways, world: World) -> None:
    """Also when several are added at the same moment; then one is removed, and one fits again."""
    session, first = await with_passkey(ways)
    sessions = [await sign_in(ways) for _ in range(MOST_PASSKEYS + 3)]
    made = [
        Authenticator(HOST, ORIGIN).make(await ways.passkeys.begin_adding(one)) for one in sessions
    ]
    adding = (
        ways.passkeys.add(one, credential, device="")
        for one, credential in zip(sessions, made, strict=True)
    )
    ended = await asyncio.gather(*adding, return_exceptions=True)
    assert [type(one) for one in ended if one is not None] == [Conflict] * 4
    assert len(await ways.passkeys.list_passkeys(session)) == MOST_PASSKEYS
    await ways.passkeys.remove(session, written(first.id))
    await with_passkey(ways)


async def test_a_passkey_is_added_in_the_session_that_began_it(ways: Ways) -> None:
    """Not in another of the same person, not twice, and not by an answer to something else."""
    one, other = await sign_in(ways), await sign_in(ways)
    device = Authenticator(HOST, ORIGIN)
    made = device.make(await ways.passkeys.begin_adding(one))
    for session, credential in ((other, made), (one, device.make({**FAKE})), (one, made)):
        with pytest.raises(Unauthorized):
            await ways.passkeys.add(session, credential, device="")
    with pytest.raises(Unauthorized):
        await ways.passkeys.begin_adding("nobody's session")
    assert await ways.passkeys.list_passkeys(one) == []


FAKE: dict[str, Any] = {"user": {"id": "AAAA"}, "challenge": "AAAA"}
RUBBISH: list[Any] = [
    {},
    {"id": "x"},
    {"id": 7, "response": []},
    {"id": "x", "response": {"userHandle": {"a": 1}}},
    {"id": "A" * 100_000, "rawId": "A", "type": "public-key", "response": {"userHandle": "é"}},
]


@pytest.mark.parametrize("credential", RUBBISH)
async def test_what_is_no_answer_is_refused(ways: Ways, world: World, credential: Any) -> None:
    """Whatever its shape is, at both ends."""
    session, device = await with_passkey(ways)
    await begin(ways)
    assert await refused(ways, world, credential) == "unknown passkey"
    await ways.passkeys.begin_adding(session)
    with pytest.raises(Unauthorized):
        await ways.passkeys.add(session, credential, device="")
    await begin(ways)
    broken = {**device.sign(await begin(ways)), "response": {"userHandle": device.handle}}
    assert "does not verify" in await refused(ways, world, broken)


async def test_beginnings_and_wrong_answers_are_limited(ways: Ways) -> None:
    """Of an address; another one signs in meanwhile."""
    _, device = await with_passkey(ways)
    for _ in range(60):
        await begin(ways)
    with pytest.raises(Busy):
        await begin(ways)
    for _ in range(20):
        with pytest.raises(Unauthorized):
            await enter(ways, {})
    with pytest.raises(Busy):
        await enter(ways, {})
    options = await ways.passkeys.begin_sign_in(BROWSER, address="b")
    await ways.passkeys.sign_in(BROWSER, device.sign(options), address="b", device="")


async def test_a_proof_is_about_one_thing(ways: Ways, world: World) -> None:
    """What ann signed for one request and answer is good for it alone, in one session, once."""
    session, device = await with_passkey(ways)
    other = await sign_in(ways)
    options = await ways.passkeys.begin_proof(session, ABOUT)
    assert [one["id"] for one in options["allowCredentials"]] == [written(device.id)]
    credential = device.sign(options)
    await ways.passkeys.begin_proof(session, "another")
    await ways.passkeys.begin_proof(other, ABOUT)
    for where, about in ((session, "another"), (other, ABOUT)):
        with pytest.raises(Unauthorized):
            await ways.passkeys.check_proof(where, about, credential)
    proof = await ways.passkeys.check_proof(session, ABOUT, credential)
    assert (proof.identity, proof.passkey) == (identity("ann"), written(device.id))
    with pytest.raises(Unauthorized):
        await ways.passkeys.check_proof(session, ABOUT, credential)
    assert len(await told(world, "sign_in_refused")) == 3


async def test_a_proof_is_the_sessions_own_persons(ways: Ways) -> None:
    """Bob's passkey agrees to nothing for ann; who has none is told to make one."""
    session, _ = await with_passkey(ways)
    _, bobs = await with_passkey(ways, "bob")
    credential = bobs.sign(await ways.passkeys.begin_proof(session, ABOUT))
    with pytest.raises(Unauthorized):
        await ways.passkeys.check_proof(session, ABOUT, credential)
    with pytest.raises(InvalidRequest, match="under Devices"):
        await ways.passkeys.begin_proof(await sign_in(ways, "eve"), ABOUT)


async def test_a_sign_in_proves_nothing_else(ways: Ways) -> None:
    """The challenge of a sign-in, or of a new passkey, is none of a proof, and the other way."""
    session, device = await with_passkey(ways)
    signed = device.sign(await ways.passkeys.begin_sign_in(session, address="a"))
    await ways.passkeys.begin_proof(session, ABOUT)
    with pytest.raises(Unauthorized):
        await ways.passkeys.check_proof(session, ABOUT, signed)
    added = device.sign(await ways.passkeys.begin_adding(session))
    with pytest.raises(Unauthorized):
        await enter(ways, added, session)
    proven = device.sign(await ways.passkeys.begin_proof(session, ABOUT))
    with pytest.raises(Unauthorized):
        await enter(ways, proven, session)


def test_what_is_signed_names_what_it_is_about() -> None:
    """With the same random part, another request or another answer is another challenge."""
    made = {
        challenge_of(b"n" * 32, about) for about in (ABOUT, ABOUT.replace("approve", "deny"), "")
    }
    assert len(made) == 3


@pytest.mark.parametrize(
    ("public", "found"),
    [
        ("https://approvals.example", PasskeySite(HOST, ORIGIN)),
        ("https://Approvals.Example:443/", PasskeySite(HOST, ORIGIN)),
        ("https://approvals.example:8443/x", PasskeySite(HOST, f"{ORIGIN}:8443")),
        ("http://localhost:8787", PasskeySite("localhost", "http://localhost:8787")),
        ("http://approvals.example", "HTTPS"),
        ("https://192.0.2.7", "a host name"),
        ("https://[2001:db8::1]", "a host name"),
        (None, "GATEWAY_PUBLIC_URL"),
    ],
)
def test_for_whom_they_are_is_a_setting(public: str | None, found: PasskeySite | str) -> None:
    """Name and origin come from the address that is set; where it gives none, it is said why."""
    site = find_site(public)
    assert (found in site) if isinstance(site, str) and isinstance(found, str) else site == found


async def test_without_the_extra_the_rest_works(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passkeys say what to install, refuse, and links still sign in."""
    monkeypatch.setattr("gateway.sign_in.passkeys.find_spec", lambda name: None)
    ways = Ways(world.store, ShiftedClock(), public_url=ORIGIN)
    session = await sign_in(ways)
    assert "approval-gateway[passkeys]" in ways.passkeys.problem
    assert await ways.passkeys.list_passkeys(session) == []
    for call in (
        begin(ways),
        enter(ways, {}),
        ways.passkeys.begin_adding(session),
        ways.passkeys.add(session, {}, device=""),
        ways.passkeys.begin_proof(session, ABOUT),
        ways.passkeys.check_proof(session, ABOUT, {}),
    ):
        with pytest.raises(InvalidRequest):
            await call
