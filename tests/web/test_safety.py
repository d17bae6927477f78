"""What the gateway refuses, whatever a browser, a script or another site sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.domain.records import ScopeQuorum
from gateway.errors import Unauthorized
from gateway.models import Action, Kind, Status, new_id
from gateway.policy.grants.offers import offers, passes_for
from tests.sweeps import sweep
from tests.waiting import announced
from tests.web.inbox import COMMAND, HIGH_RISK, MASKED, SECRET, Inbox, inbox
from tests.web.visitor import Visitor, visitor
from tests.world import identity

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def ann(box: Inbox) -> AsyncIterator[Visitor]:
    """Yield ann, signed in, without a page."""
    async with visitor(box) as made:
        yield made


async def test_writes_need_our_origin_our_cookie_and_our_token(box: Inbox, ann: Visitor) -> None:
    """Foreign sites, missing tokens and missing cookies are turned away, and decide nothing."""
    record = await box.ask(**COMMAND)
    path = f"requests/{record.id}/decide"
    seen = (await ann.shown(record))["seen"]
    body = {"revision": 1, "action": "approve", "nonce": "n", "seen": seen}
    no, offer = f"requests/{record.id}/decline", {"offer": offers(record)[0].id}
    for headers in (
        {"Origin": "https://example.invalid"},
        {"Origin": "null"},
        {"Origin": box.gateway.url.replace("http:", "https:")},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "0" * 64},
        {"X-CSRF-Token": "é"},
    ):
        for write, said in ((path, body), (no, offer)):
            status, answer = await ann.post(write, said, **headers)
            assert (status, answer["status"]) == (403, 403), headers
    ann.http.cookie_jar.clear()
    assert (await ann.post(path, body))[0] == (await ann.post(no, offer))[0] == 401
    assert (await box.get(record)).status is Status.PENDING
    store = box.gateway.backend.store
    assert not await store.redis.keys(store.keys.note("suggestions", "*"))


async def test_a_no_to_a_suggestion_is_for_an_offer_of_a_request(box: Inbox, ann: Visitor) -> None:
    """Whatever else is sent is refused in a sentence, and nothing is kept."""
    record = await box.ask(**COMMAND)
    for request_id, body in (
        *((record.id, {"offer": one}) for one in ("0" * 16, "x\n" * 9_000, ["a"], None, "")),
        (record.id, {}),
        (record.id, {"offer": "a", "name": "bob"}),
        ("0" * 32, {"offer": "0" * 16}),
        ("..%2f..", {"offer": "0" * 16}),
    ):
        status, _ = await ann.post(f"requests/{request_id}/decline", body)
        assert status in (400, 404, 422), body
    store = box.gateway.backend.store
    assert not await store.redis.keys(store.keys.note("suggestions", "*"))


async def test_a_write_is_json(box: Inbox, ann: Visitor) -> None:
    """A form can be sent from anywhere without asking, as text or as its own type."""
    record = await box.ask(**COMMAND)
    body = json.dumps({"revision": 1, "action": "deny", "nonce": "n"})
    url = f"{ann.url}/inbox/api/requests/{record.id}/decide"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {"X-CSRF-Token": ann.token, "Content-Type": kind}
        async with ann.http.post(url, data=body, headers=headers) as answer:
            assert answer.status == 415, kind
    assert (await box.get(record)).status is Status.PENDING


async def test_a_batch_is_approved_or_denied(box: Inbox, ann: Visitor) -> None:
    """Any other answer needs a form of its own, and would get around what was seen."""
    record = await box.ask(**COMMAND)
    item = {"id": record.id, "revision": record.revision}
    for action in ("edit", "respond", "abort", "answer", "approve!", ""):
        body = {"action": action, "items": [item], "nonce": "n"}
        assert (await ann.post("batch/decide", body))[0] == 422, action
    body = {"action": "approve", "items": [item], "nonce": "n"}
    assert (await ann.post("batch/decide", body))[0] == 409, "it was not seen"
    assert (await box.get(record)).status is Status.PENDING


async def test_what_was_shown_masked_was_not_revealed(box: Inbox, ann: Visitor) -> None:
    """The token of the masked page remembers nothing whose words a mask would hide."""
    argv = {"argv": ["git", "push", "token", "attackerhost12"]}
    record = await box.ask(tool="shell", kind=Kind.COMMAND, arguments=argv)
    wide = {"offer": offers(record)[-1].id, "everywhere": False, "lifetime": "1h"}
    status, _ = await ann.decide(record, remember=wide)
    assert status == 422
    assert (await box.get(record)).status is Status.PENDING
    _, revealed = await ann.post(f"requests/{record.id}/reveal", {})
    status, _ = await ann.decide(record, remember=wide, seen=revealed["seen"])
    assert status == 200


async def test_no_origin_at_all_is_refused(box: Inbox) -> None:
    """A write that does not say where it comes from does not come from our page."""
    code = await box.gateway.backend.logins.invite("ann")
    async with aiohttp.ClientSession() as http:
        answer = await http.post(f"{box.gateway.url}/inbox/api/login", json={"code": code})
        assert answer.status == 403


async def test_a_get_decides_nothing(box: Inbox, ann: Visitor) -> None:
    """Link previews and mail scanners fetch: neither a decision nor a login comes of it."""
    record = await box.ask(**COMMAND)
    url = f"{box.gateway.url}/inbox/api"
    for path in (f"requests/{record.id}/decide", f"requests/{record.id}/claim", "login", "logout"):
        answer = await ann.http.get(f"{url}/{path}")
        assert answer.status == 405, path
    assert (await box.get(record)).status is Status.PENDING


async def test_a_login_code_works_once(box: Inbox) -> None:
    """A replayed link signs nobody in; neither does a guessed one."""
    code = await box.gateway.backend.logins.invite("ann")
    login = f"{box.gateway.url}/inbox/api/login"
    ours = {"Origin": box.gateway.url}
    async with aiohttp.ClientSession() as http:
        first = await http.post(login, json={"code": code}, headers=ours)
        cookie = first.headers["Set-Cookie"]
        assert first.status == 200
        for part in ("HttpOnly", "SameSite=Strict", "Path=/inbox"):
            assert part in cookie
        for again in (code, "guess", "", None):
            answer = await http.post(login, json={"code": again}, headers=ours)
            assert answer.status in (403, 422)
            assert "Set-Cookie" not in answer.headers


async def test_signing_in_ends_the_session_before_it(box: Inbox) -> None:
    """Of the same person or another one: what a browser had is good for nothing any more, and its
    open pages are told so."""
    async with visitor(box) as ann, visitor(box, "bob") as bystander:
        before = next(iter(ann.http.cookie_jar)).value
        for person in ("ann", "bob"):
            code = await box.gateway.backend.logins.invite(person)
            assert (await ann.post("login", {"code": code}))[0] == 200
            now = next(iter(ann.http.cookie_jar)).value
            assert await box.gateway.backend.logins.who(before) is None
            assert await box.gateway.backend.logins.who(now) == identity(person)
            before = now
        assert len(await box.events("signed_out")) == 2
        await bystander.get("me")


async def test_the_bare_address_leads_to_the_inbox(box: Inbox) -> None:
    """It is what `gateway up` prints."""
    async with aiohttp.ClientSession() as http:
        async with http.get(box.gateway.url, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/inbox")
        async with http.get(box.gateway.url) as answer:
            assert (answer.status, answer.url.path) == (200, "/inbox")


async def test_every_answer_carries_the_headers(box: Inbox, ann: Visitor) -> None:
    """Pages, scripts, answers and refusals: no framing, no sniffing, no storing, only our code."""
    record = await box.ask(**COMMAND)
    for path in (
        "",
        "/login",
        "/static/inbox.js",
        "/static/none",
        "/api/me",
        f"/api/requests/{record.id}",
        f"/api/requests/{'0' * 32}",
        "/api/changes",
    ):
        async with ann.http.get(f"{box.gateway.url}/inbox{path}") as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy, path
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["Cache-Control"] == "no-store"


async def test_another_site_reads_nothing(box: Inbox, ann: Visitor) -> None:
    """Reads that another site's page asks for are refused, with our cookie too."""
    for path in ("me", "queue", "queue/counts", "final", "audit", "grants", "sessions", "changes"):
        answer = await ann.http.get(
            f"{box.gateway.url}/inbox/api/{path}", headers={"Sec-Fetch-Site": "cross-site"}
        )
        assert answer.status == 403, path


async def test_members_nobody_knows_are_refused(box: Inbox, ann: Visitor) -> None:
    """A decision cannot say who makes it, or carry anything of another type."""
    record = await box.ask(**COMMAND)
    for extra in (
        {"person": "bob"},
        {"revision": "1"},
        {"revision": True},
        {"action": "become_admin"},
        {"arguments": "rm"},
        {"confirmed": 1},
        {"seen": 7},
    ):
        status, _ = await ann.decide(record, **extra)
        assert status == 422, extra
    assert (await ann.post(f"requests/{record.id}/decide", [1]))[0] == 422
    assert (await box.get(record)).status is Status.PENDING


async def test_what_may_not_be_remembered_decides_nothing(box: Inbox, ann: Visitor) -> None:
    """Unknown offers, ends and members, and anything at high risk: refused as a whole."""
    plain, risky = await box.ask(**COMMAND), await box.ask(**HIGH_RISK)
    good = {"offer": "", "everywhere": False, "lifetime": "1h"}
    for record, wish in (
        (plain, {**good, "offer": "0" * 16}),
        (plain, {**good, "lifetime": "for ever"}),
        (plain, {**good, "everywhere": "yes"}),
        (plain, {**good, "max_uses": -1}),
        (plain, {"offer": ""}),
        (plain, "always"),
        (risky, good),
    ):
        status, _ = await ann.decide(record, confirmed=True, remember=wish)
        assert status == 422, wish
        assert (await box.get(record)).status is Status.PENDING
    assert (await ann.get("grants"))["items"] == []


async def test_a_pass_is_for_who_may_give_it(box: Inbox, ann: Visitor) -> None:
    """Where widening takes two, bob alone is shown no pass, and a forged one decides nothing."""
    await box.route(scope_quorum=ScopeQuorum(tool=2))
    record = await box.ask(tool="sh", arguments={"command": "ls"})
    shown = passes_for(record)[-1].id
    wish = {"offer": shown, "everywhere": False, "lifetime": "next5"}
    async with visitor(box, "bob") as bob:
        row = await bob.get(f"requests/{record.id}")
        assert row["remember"]["approve"]
        assert not any(one["pass"] for one in row["remember"]["approve"])
        status, answer = await bob.decide(record, remember=wish)
        assert (status, "give its session a pass" in answer["detail"]) == (403, True)
    assert (await box.get(record)).status is Status.PENDING


async def test_a_pass_is_short_and_for_one_session(box: Inbox, ann: Visitor) -> None:
    """Longer and wider ones are refused as a whole; the right one is given once."""
    record = await box.ask(tool="sh", arguments={"command": "ls"})
    wish = {"offer": passes_for(record)[-1].id, "everywhere": False, "lifetime": "8h"}
    for wrong in ({"lifetime": "1d"}, {"lifetime": "revoked"}, {"everywhere": True}):
        status, _ = await ann.decide(record, remember={**wish, **wrong})
        assert status == 422, wrong
    assert (await box.get(record)).status is Status.PENDING
    assert (await ann.decide(record, remember=wish))[0] == 200
    assert (await ann.decide(record, remember=wish))[0] == 409
    (grant,) = (await ann.get("grants"))["items"]
    assert "Session let through" in grant["word"]


async def test_only_who_may_takes_a_grant_back(box: Inbox, ann: Visitor) -> None:
    """Eve may not; a grant that is not there cannot be revoked."""
    record = await box.ask(**COMMAND)
    wish = {"offer": "", "everywhere": True, "lifetime": "1d"}
    assert (await ann.decide(record, remember=wish))[0] == 200
    (grant,) = (await ann.get("grants"))["items"]
    async with visitor(box, "eve") as eve:
        assert (await eve.post("grants/revoke", {"id": grant["id"]}))[0] == 403
    assert (await ann.post("grants/revoke", {"id": "0" * 32}))[0] == 404
    assert (await ann.post("grants/revoke", {"id": grant["id"]}))[0] == 200
    status, answer = await ann.post("grants/revoke", {"id": grant["id"]})
    assert (status, answer["detail"]) == (409, "this grant has ended already: revoked, by ann")
    assert [one["outcome"] for one in (await ann.get("grants"))["items"]] == ["revoked by ann"]


async def test_what_was_not_seen_whole_is_not_approved(box: Inbox, ann: Visitor) -> None:
    """The page's rule is the server's: a row that is cut brings no token, and no other one fits."""
    cut = "\n".join(f"UPDATE t SET a = {n};" for n in range(1500))
    record = await box.ask(tool="run_sql", arguments={"script": cut})
    other = await box.ask(**COMMAND)
    assert (await ann.shown(record, whole=False))["seen"] is None
    foreign = (await ann.shown(other))["seen"]
    async with visitor(box, "bob") as bob:
        others = (await bob.shown(record))["seen"]
    for forged in ("", foreign, others, "0" * 64):
        for action in ("approve", "edit", "respond"):
            status, answer = await ann.decide(record, action, seen=forged)
            assert (status, answer["code"]) == (409, "not_seen")
    assert (await ann.decide(record))[0] == 200


async def test_a_token_is_of_one_revision(box: Inbox, ann: Visitor) -> None:
    """Having seen what it was does not allow what it became."""
    await box.route(quorum=2)
    record = await box.ask(tool="pay", arguments={"amount": 900})
    old = await ann.shown(record)
    await box.decide(record, Action.EDIT, arguments={"amount": 9_000_000})
    body = {"action": "approve", "nonce": "n", "seen": old["seen"]}
    path = f"requests/{record.id}/decide"
    assert (await ann.post(path, {**body, "revision": old["revision"]}))[0] == 409
    status, answer = await ann.post(path, {**body, "revision": old["revision"] + 1})
    assert (status, answer["code"]) == (409, "not_seen")
    assert (await box.get(record)).status is Status.PENDING


async def test_high_risk_needs_the_confirmation(box: Inbox, ann: Visitor) -> None:
    """The server does not take the first tap for a yes either."""
    record = await box.ask(**HIGH_RISK)
    assert (await ann.decide(record))[0] == 422
    assert (await box.get(record)).status is Status.PENDING
    assert (await ann.decide(record, confirmed=True))[0] == 200


async def test_a_replayed_click_is_told_the_same_and_a_late_one_who_won(
    box: Inbox, ann: Visitor
) -> None:
    """The same click twice is one decision; another one afterwards learns how it ended."""
    record = await box.ask(**COMMAND)
    shown = await ann.shown(record)
    body = {"revision": 1, "action": "approve", "nonce": "n" * 32, "seen": shown["seen"]}
    path = f"requests/{record.id}/decide"
    first, second = await asyncio.gather(ann.post(path, body), ann.post(path, body))
    assert (first[0], second[0]) == (200, 200)
    status, answer = await ann.post(path, {**body, "action": "deny", "nonce": new_id()})
    assert (status, answer["request"]["status"]) == (409, "approved")
    assert len(await box.events("approved")) == 1


async def test_simultaneous_clicks_make_one_decision(box: Inbox, ann: Visitor) -> None:
    """Four yes and four no of two people at once: one wins, the others are told."""
    record = await box.ask(**COMMAND)
    async with visitor(box, "bob") as bob:
        seen = {one.token: (await one.shown(record))["seen"] for one in (ann, bob)}

        def click(who: Visitor, action: str) -> Any:
            body = {
                "revision": 1,
                "action": action,
                "nonce": new_id(),
                "seen": seen[who.token],
            }
            return who.post(f"requests/{record.id}/decide", body)

        pairs = [(who, action) for who in (ann, bob) for action in ("approve", "deny")] * 2
        answers = await asyncio.gather(*(click(who, action) for who, action in pairs))
    assert sorted(status for status, _ in answers) == [200] + [409] * 7
    ended = await box.events("approved") + await box.events("denied")
    assert len(ended) == 1


async def test_ids_that_are_not_there(box: Inbox, ann: Visitor) -> None:
    """Guessed, truncated and malformed ids are all the same nothing."""
    record = await box.ask(**COMMAND)
    for wrong in ("0" * 32, record.id[:-1], record.id + "0", "..%2f..%2fme", "%00"):
        answer = await ann.http.get(f"{box.gateway.url}/inbox/api/requests/{wrong}")
        assert answer.status == 404, wrong
        body = {"revision": 1, "action": "deny", "nonce": "n"}
        assert (await ann.post(f"requests/{wrong}/decide", body))[0] == 404


async def test_an_expired_request_takes_no_answer(box: Inbox, ann: Visitor) -> None:
    """A tap after the deadline is late, and is told so."""
    record = await box.ask(**COMMAND, timeout=0.001)
    status, answer = await ann.decide(record)
    assert status == 409
    assert answer["code"] in ("conflict", "not_seen")
    await box.expire(record)
    assert (await box.get(record)).status is Status.EXPIRED


async def test_who_may_not_decide_decides_nothing(box: Inbox, ann: Visitor) -> None:
    """Eve is a person and no approver: she sees the reason, and every write is refused."""
    record = await box.ask(**MASKED)
    async with visitor(box, "eve") as eve:
        shown = await eve.shown(record)
        assert shown["refusal"] == "you are not an approver for this request"
        for action in ("approve", "deny"):
            assert (await eve.decide(record, action))[0] == 403
        assert (await eve.post(f"requests/{record.id}/claim", {"on": True}))[0] == 403
        status, answer = await eve.post(f"requests/{record.id}/reveal", {})
        assert status == 403
        assert SECRET not in str(answer)
        end = {"agent": "deployer", "session": "default"}
        assert (await eve.post("sessions/end", end))[0] == 403
    assert await box.events("revealed") == []
    assert (await box.get(record)).status is Status.PENDING


async def test_a_removed_approver_is_out_at_once(box: Inbox) -> None:
    """Off the route: the next click is refused. Off the people: the session is gone too."""
    record = await box.ask(**COMMAND)
    async with visitor(box, "bob") as bob:
        await box.route(approvers=("ann",))
        assert (await bob.decide(record))[0] == 403
        await box.gateway.backend.credentials.revoke_approver("bob")
        assert (await bob.post(f"requests/{record.id}/decide", {}))[0] == 401
        answer = await bob.http.get(f"{box.gateway.url}/inbox/api/requests/{record.id}")
        assert answer.status == 401
    assert (await box.get(record)).status is Status.PENDING


async def test_secrets_are_in_no_answer_but_the_reveal(box: Inbox, ann: Visitor) -> None:
    """Rows, whole texts, lists and diffs carry masks; the reveal carries the secret."""
    record = await box.ask(**MASKED)
    listed = [await ann.get("queue"), await ann.get("audit"), await ann.get("final")]
    whole = await ann.shown(record)
    edited = {"arguments": {**record.arguments, "force": True}}
    _, diff = await ann.post(f"requests/{record.id}/diff", edited)
    for answer in (listed, whole, diff):
        assert SECRET not in str(answer)
    assert whole["editable"] is None
    _, revealed = await ann.post(f"requests/{record.id}/reveal", {})
    assert SECRET in revealed["editable"]


@pytest.mark.parametrize("path", ["queue", "final"])
@pytest.mark.parametrize("cursor", ["", "0", "x-y", "(1-2", "+inf-0", f"1-{'g' * 32}"])
async def test_a_forged_cursor_is_refused(ann: Visitor, path: str, cursor: str) -> None:
    """What is no cursor of ours reaches no store."""
    params = {"after": cursor}
    async with ann.http.get(f"{ann.url}/inbox/api/{path}", params=params) as answer:
        assert answer.status == 422


@sweep(
    "query",
    [
        "queue?side=theirs",
        "queue/counts?since=-1",
        "queue/counts?since=1e9",
        "final?since=yesterday",
        "audit?until=9e9",
        f"grants?since={'9' * 40}",
        f"final?text={'x' * 300}",
    ],
    few=3,
)
async def test_what_is_no_search_is_refused(ann: Visitor, query: str) -> None:
    """A side nobody knows, a time that is none, a text without end."""
    async with ann.http.get(f"{ann.url}/inbox/api/{query}") as answer:
        assert answer.status == 422


async def test_the_audit_is_for_admins_alone(box: Inbox) -> None:
    """Bob approves, and reads no audit."""
    async with (
        visitor(box, "bob") as bob,
        bob.http.get(f"{bob.url}/inbox/api/audit") as answer,
    ):
        assert answer.status == 403


async def test_a_body_too_large_is_refused(box: Inbox, ann: Visitor) -> None:
    """Before it is parsed."""
    record = await box.ask(**COMMAND)
    status, _ = await ann.decide(record, "deny", message="x" * 600_000)
    assert status == 413


async def test_a_login_that_trickles_is_cut_off(
    box: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is asked who they are before it is read, so it must not take for ever."""
    monkeypatch.setattr("gateway.domain.web_limits.SECONDS", 0.05)
    login, kind = f"{box.gateway.url}/inbox/api/login", "application/json"
    assert await announced(login, Origin=box.gateway.url, Content_Type=kind) == 408


def test_scripts_make_no_markup() -> None:
    """Text nodes only: none of the ways to parse a string as markup or code is used."""
    folder = Path(__file__).parents[2] / "adapters" / "web" / "static"
    scripts = list(folder.glob("*.js"))
    assert scripts
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        for banned in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert banned not in text, (script.name, banned)


async def test_a_revoked_approver_is_signed_out(box: Inbox) -> None:
    """Their session and their unused login codes open nothing any more."""
    backend = box.gateway.backend
    session = await backend.logins.redeem(await backend.logins.invite("ann"), address="")
    unused = await backend.logins.invite("ann")
    assert await backend.logins.who(session) is not None
    await backend.credentials.revoke_approver("ann")
    assert await backend.logins.who(session) is None
    with pytest.raises(Unauthorized):
        await backend.logins.redeem(unused, address="")


@pytest.mark.parametrize("way", ["revoked", "dropped by a policy file"])
async def test_who_comes_back_logs_in_anew(box: Inbox, way: str) -> None:
    """Sessions and codes from before stay dead when the name is added again within their time."""
    backend = box.gateway.backend
    session = await backend.logins.redeem(await backend.logins.invite("ann"), address="")
    unused = await backend.logins.invite("ann")
    before = await backend.store.policy()
    if way == "revoked":
        await backend.credentials.revoke_approver("ann")
        await backend.credentials.add_approver("ann")
    else:
        others = tuple(one for one in before.people if one.name != "ann")
        await backend.store.apply(replace(before, people=others), by="test")
        now = await backend.store.policy()
        await backend.store.apply(replace(now, people=before.people), by="test")
    assert await backend.logins.who(session) is None
    with pytest.raises(Unauthorized):
        await backend.logins.redeem(unused, address="")
    again = await backend.logins.redeem(await backend.logins.invite("ann"), address="")
    assert (await backend.logins.who(again)) is not None


async def test_a_gateway_with_open_pages_stops_at_once(tmp_path: Path) -> None:
    """The live streams end; the web server need not wait for them."""
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http,
        asyncio.timeout(30),
    ):
        async with inbox(tmp_path) as box:
            url = box.gateway.url
            code = await box.gateway.backend.logins.invite("ann")
            await http.post(f"{url}/inbox/api/login", json={"code": code}, headers={"Origin": url})
            stream = await http.get(f"{url}/inbox/api/changes")
            assert await stream.content.readline() == b"event: ready\n"
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 5
        assert b"ready" not in await stream.content.read()
