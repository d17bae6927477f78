"""Web push over HTTP: who is told, what it says, and what is answered to it; each device of these
tests decrypts what reaches it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from py_vapid import Vapid02

from gateway.domain.records import StoredRequest
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.models import Action, Context, Kind, Risk, RiskLevel, Status, new_id
from gateway.server.app import push_key_of
from gateway.server.settings import Settings
from gateway.wire.codec import JsonObject
from tests.sweeps import sweep
from tests.web.inbox import COMMAND, HIDING, HIGH_RISK, MASKED, QUESTION, Inbox, inbox
from tests.web.phone import Phone, PushService, push_service, until
from tests.web.visitor import Visitor, visitor
from tests.world import identity

pytestmark = pytest.mark.timeout(120)

SHORT: dict[str, Any] = {
    "tool": "shell",
    "kind": Kind.COMMAND,
    "arguments": {"command": "make release"},
    "context": Context(cwd="/srv/shop", host="ci-7"),
    "risk": Risk(level=RiskLevel.LOW),
}


@dataclass
class Site:
    """A gateway whose pushes go to a service of this machine, and ann, who is signed in."""

    box: Inbox
    service: PushService
    ann: Visitor

    async def phone(self, who: Visitor | None = None, name: str = "one") -> Phone:
        """Have a person's device told from now on."""
        phone = self.service.phone(name)
        status, answer = await subscribe(who or self.ann, phone)
        assert status == 200, answer
        return phone

    async def settled(self, record: StoredRequest) -> None:
        """Wait until all is done about a request: it is off the queue, or stays for its end."""
        outbox = self.box.gateway.core.outbox
        now = self.box.gateway.core.writer.now

        async def quiet() -> bool:
            due = dict(await outbox.queued("push", limit=100)).get(record.id)
            return due is None or due > now() + 60_000

        await until(quiet)


async def subscribe(who: Visitor, phone: Phone, **changes: Any) -> tuple[int, JsonObject]:
    """Hand a device's subscription in, as the page does."""
    return await who.post("push/subscribe", {"subscription": {**phone.subscription, **changes}})


async def answer(who: Visitor, told: JsonObject, action: str) -> tuple[int, JsonObject]:
    """Tap an action of a notification, as the worker sends it."""
    shown = {name: told[name] for name in ("id", "revision", "digest")}
    return await who.post("push/decide", {**shown, "action": action, "nonce": new_id()})


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Yield a site."""
    async with (
        push_service() as service,
        inbox(tmp_path, push_hosts=(service.host,)) as box,
        visitor(box) as ann,
    ):
        yield Site(box, service, ann)


async def test_who_may_answer_is_told(site: Site) -> None:
    """Agent and head, at most 120 characters, for as long as the request waits, under the request's
    id; signed with the key that the page was given. Who may not answer hears nothing."""
    async with visitor(site.box, "bob") as bob, visitor(site.box, "eve") as eve:
        ann_s, bob_s = await site.phone(), await site.phone(bob, "two")
        eve_s = await site.phone(eve, "three")
        record = await site.box.ask(**COMMAND)
        for phone in (ann_s, bob_s):
            (told,) = await phone.pushed()
            assert (told["id"], told["digest"]) == (record.id, record.digest)
            assert told["body"].startswith("deployer wants to run")
            assert len(told["body"]) <= 120
            assert told["actions"] == ["deny", "open"]
            headers = phone.got[0].headers
            assert headers["topic"] == record.id
            assert headers["urgency"] == "high"
            assert 0 < int(headers["ttl"]) <= (record.deadline - record.created) / 1000
            assert Vapid02.verify(headers["authorization"])
            assert headers["authorization"].endswith(f"k={(await site.ann.get('push'))['key']}")
            assert len(phone.got[0].body) <= 4096
        await site.settled(record)
        assert eve_s.got == []
        assert sorted(site.service.calls) == ["one", "two"]


async def test_the_end_takes_its_place(site: Site) -> None:
    """Somebody else was faster: the same id, silently, and nothing left to press; once."""
    phone = await site.phone()
    record = await site.box.ask(**COMMAND)
    await phone.pushed()
    await site.box.decide(record, Action.DENY)
    _, told = await phone.pushed(2)
    assert (told["id"], told["ended"], told["actions"]) == (record.id, True, [])
    assert told["body"].startswith("Denied by bob · deployer")
    assert phone.got[1].headers["topic"] == record.id
    assert phone.got[1].headers["urgency"] == "normal"
    await site.settled(record)
    assert len(phone.got) == 2


async def test_who_has_voted_is_not_asked_again(site: Site) -> None:
    """With a quorum of two the other one is still asked, and the first sees that it is done."""
    await site.box.route(quorum=2)
    async with visitor(site.box, "bob") as bob:
        phone, other = await site.phone(), await site.phone(bob, "two")
        record = await site.box.ask(**SHORT)
        (told,) = await phone.pushed()
        assert told["actions"] == ["deny", "open"], "one of two approvals is not given in passing"
        await other.pushed()
        assert (await site.ann.decide(record))[0] == 200
        _, over = await phone.pushed(2)
        assert (over["ended"], over["body"][:22]) == (True, "You cannot decide this")
        await site.settled(record)
        assert [one.told["ended"] for one in other.got] == [False]


@sweep(
    ("details", "whole"),
    [
        (SHORT, True),
        ({**SHORT, "risk": Risk(level=RiskLevel.MEDIUM)}, True),
        ({**SHORT, "risk": Risk(level=RiskLevel.HIGH)}, False),
        ({**SHORT, "arguments": {"command": f"make {'x' * 90}"}}, False),
        ({**SHORT, "arguments": {"command": "make release\u200b"}}, False),
        ({**SHORT, "arguments": {"command": "mak\u0435 release"}}, False),
        ({**SHORT, "payload": {"run": "rm"}}, False),
        ({**SHORT, "context": Context(cwd="/srv", host="ci-7", env={"PATH": "/tmp"})}, False),
        ({**SHORT, "context": Context(cwd="/srv", host="ci-7", files={"a": "0" * 64})}, False),
        ({**SHORT, "context": Context(cwd="/srv")}, False),
        ({**SHORT, "context": Context(host="ci-7")}, False),
        ({**SHORT, "arguments": {"password": "hunter2hunter2"}}, False),
        ({**SHORT, "allowed": (Action.EDIT, Action.DENY)}, False),
        (HIDING, False),
        (MASKED, False),
        (QUESTION, False),
        (HIGH_RISK, False),
    ],
    few=6,
)
async def test_approve_stands_beside_the_whole_call_alone(
    site: Site, details: dict[str, Any], whole: bool
) -> None:
    """Tool, all arguments, folder and host in the text, letter by letter; otherwise no Approve, and
    none can be sent."""
    phone = await site.phone()
    record = await site.box.ask(**details)
    (told,) = await phone.pushed()
    assert ("approve" in told["actions"]) is whole
    assert len(told["body"]) <= 120
    if whole:
        context = record.request.context
        arguments = json.dumps(record.arguments)
        assert f'"shell" {arguments} in "{context.cwd}" on "{context.host}"' in told["body"]
    status, _ = await answer(site.ann, told, "approve")
    assert (status == 200) is whole
    assert (await site.box.get(record)).status is (Status.APPROVED if whole else Status.PENDING)


async def test_an_answer_names_what_was_seen(site: Site) -> None:
    """Another digest, a revision before an edit, a device that was never told, another session:
    refused, and nothing is decided. What was told can be approved."""
    phone = await site.phone()
    record = await site.box.ask(**SHORT)
    (told,) = await phone.pushed()
    assert (await answer(site.ann, {**told, "digest": "0" * 64}, "approve"))[0] == 409
    assert (await answer(site.ann, {**told, "revision": 0}, "approve"))[0] == 409
    assert (await answer(site.ann, told, "edit"))[0] == 422
    async with visitor(site.box) as elsewhere, visitor(site.box, "eve") as eve:
        assert (await answer(elsewhere, told, "approve"))[0] == 409
        assert (await answer(eve, told, "deny"))[0] == 403
    assert (await site.box.get(record)).status is Status.PENDING
    status, done = await answer(site.ann, told, "approve")
    assert (status, done) == (200, {"status": "approved"})
    decision = (await site.box.get(record)).decision
    assert decision is not None
    assert decision.decided_by.name == "ann"
    assert (await answer(site.ann, told, "deny"))[0] == 409


async def test_what_takes_more_than_a_tap_is_opened(site: Site) -> None:
    """High risk is confirmed, and another step-up is done, on the page: a notification that shows
    the whole call offers no Approve all the same."""
    phone = await site.phone()
    short = {**SHORT, "arguments": {"command": "ls"}}
    await site.box.ask(**{**short, "risk": Risk(level=RiskLevel.HIGH)})
    (high,) = await phone.pushed()
    assert high["actions"] == ["deny", "open"]
    stepped = LevelRules(step_up=(StepUp.NUMBER,))
    await site.box.route(risk=RulesByRisk(medium=stepped))
    await site.box.ask(**{**short, "arguments": {"command": "id"}})
    assert (await phone.pushed(2))[1]["actions"] == ["deny", "open"]


async def test_a_discreet_one_says_nothing(site: Site) -> None:
    """Neither a device nor a route that is discreet tells what would run, nor offers Approve."""
    phone = await site.phone()
    (row,) = (await site.ann.get("push"))["devices"]
    assert (await site.ann.post(f"push/devices/{row['id']}/discreet", {"on": True}))[0] == 200
    await site.box.ask(**SHORT)
    (told,) = await phone.pushed()
    assert told["body"] == "deployer asks for approval, medium risk"
    assert told["actions"] == ["deny", "open"]
    assert (await answer(site.ann, told, "approve"))[0] == 409
    assert (await site.ann.post(f"push/devices/{row['id']}/discreet", {"on": False}))[0] == 200
    await site.box.route(discreet=True)
    await site.box.ask(**{**SHORT, "arguments": {"command": "make all"}})
    assert "make" not in (await phone.pushed(2))[1]["body"]


async def test_signing_out_ends_it(site: Site) -> None:
    """Nothing is sent to a device whose session ended, however it ended; it is forgotten."""
    async with visitor(site.box, "bob") as bob, visitor(site.box, "bob") as again:
        gone, over = await site.phone(bob, "two"), await site.phone(again, "three")
        mine = await site.phone()
        assert (await bob.post("logout", {}))[0] == 200
        cookie = next(iter(again.http.cookie_jar)).value
        await site.box.gateway.backend.logins.end(cookie)
        record = await site.box.ask(**COMMAND)
        await mine.pushed()
        await site.settled(record)
        assert (gone.got, over.got) == ([], [])
        removed = await site.box.events("push_removed")
        assert [one.data["why"] for one in removed] == ["the session ended", "the session ended"]


async def test_quiet_hours_put_off(site: Site) -> None:
    """Nobody is rung in them; high risk rings if the person said so; afterwards what waits does."""
    phone = await site.phone()
    day = {"begin": "00:00", "end": "23:59", "zone": "UTC", "high": True}
    assert (await site.ann.post("push/quiet", {"hours": day}))[0] == 200
    assert (await site.ann.get("push"))["quiet"] == day
    quiet = await site.box.ask(**COMMAND)
    await site.box.ask(**HIGH_RISK)
    (told,) = await phone.pushed()
    assert "refund" in told["body"]
    await site.settled(quiet)
    assert len(phone.got) == 1
    assert (await site.ann.post("push/quiet", {"hours": None}))[0] == 200
    assert (await phone.pushed(2))[1]["id"] == quiet.id
    for bad in ({**day, "zone": "../etc"}, {**day, "end": "24:00"}, {**day, "end": "00:00"}):
        assert (await site.ann.post("push/quiet", {"hours": bad}))[0] == 422
    assert (await site.ann.get("push"))["quiet"] is None


@pytest.mark.parametrize("status", [404, 410])
async def test_a_device_that_is_gone_is_forgotten(site: Site, status: int) -> None:
    """Its push service says so once; nothing is decided, and the audit says why."""
    phone = await site.phone()
    phone.answers.append((status, {}))
    record = await site.box.ask(**COMMAND)
    await until(lambda: _empty(site))
    await until(lambda: site.box.events("push_removed"))
    (event,) = await site.box.events("push_removed")
    assert str(status) in event.data["why"]
    assert (await site.box.get(record)).status is Status.PENDING
    await site.settled(record)
    assert site.service.calls == ["one"]


async def _empty(site: Site) -> bool:
    return not (await site.ann.get("push"))["devices"]


@sweep("status", [400, 401, 403, 413, 302], few=2)
async def test_a_refusal_is_said_and_not_repeated(
    site: Site, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """On the page and in the log; the next request is tried again, and then all is well."""
    phone = await site.phone()
    phone.answers.append((status, {"Location": f"{site.service.url}/push/one"}))
    record = await site.box.ask(**COMMAND)
    await until(lambda: _said(site, str(status)))
    await site.settled(record)
    assert site.service.calls == ["one"]
    assert str(status) in caplog.text
    await site.box.ask(**SHORT)
    await phone.pushed()
    await until(lambda: _said(site, ""))


async def _said(site: Site, words: str) -> bool:
    (row,) = (await site.ann.get("push"))["devices"]
    return words in row["failure"] and bool(words) == bool(row["failure"])


@pytest.mark.parametrize("status", [429, 503])
async def test_what_is_put_off_is_sent_when_the_service_says(site: Site, status: int) -> None:
    """It is tried again after Retry-After, and not before."""
    phone = await site.phone()
    phone.answers.append((status, {"Retry-After": "1"}))
    loop = asyncio.get_running_loop()
    await site.box.ask(**COMMAND)
    await until(lambda: _said(site, "tries again"))
    began = loop.time()
    await phone.pushed()
    assert loop.time() - began > 0.7
    assert site.service.calls == ["one", "one"]


async def test_it_survives_a_restart(tmp_path: Path) -> None:
    """What was asked, and what ended, while no gateway ran, or was put off, is told afterwards."""
    async with push_service() as service:
        settings: dict[str, Any] = {"push_hosts": (service.host,)}
        async with inbox(tmp_path, **settings) as box, visitor(box) as ann:
            phone = service.phone()
            assert (await subscribe(ann, phone))[0] == 200
            first = await box.ask(**SHORT)
            await phone.pushed()
            phone.answers.append((503, {"Retry-After": "1"}))
            second = await box.ask(**COMMAND)
            await until(lambda: _called(service, 2))
        async with inbox(tmp_path, **settings) as box:
            assert (await phone.pushed(2))[1]["id"] == second.id
            await box.decide(first, Action.DENY)
            assert (await phone.pushed(3))[2]["ended"]


async def _called(service: PushService, count: int) -> bool:
    return len(service.calls) >= count


async def test_another_persons_device_is_nobody_elses(site: Site) -> None:
    """Its id opens nothing: not to test, not to remove, not to make discreet."""
    await site.phone()
    (row,) = (await site.ann.get("push"))["devices"]
    async with visitor(site.box, "bob") as bob:
        for call, body in (("test", {}), ("remove", {}), ("discreet", {"on": True})):
            assert (await bob.post(f"push/devices/{row['id']}/{call}", body))[0] == 404
    assert (await site.ann.get("push"))["devices"] == [row]


async def test_a_browser_belongs_to_who_signed_in_last(site: Site) -> None:
    """The same address is one device: whoever was told there before is not any more."""
    phone = await site.phone()
    await site.box.route(approvers=("ann",))
    async with visitor(site.box, "bob") as bob:
        assert (await subscribe(bob, phone))[0] == 200
        assert (await site.ann.get("push"))["devices"] == []
        record = await site.box.ask(**COMMAND)
        await site.settled(record)
        assert phone.got == []


@sweep(
    "endpoint",
    [
        "http://push.example/one",
        "https://127.0.0.1/one",
        "https://[::1]/one",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost:6379/one",
        "https://user@push.example/one",
        "https://push.example:8443/one",
        "ftp://push.example/one",
        "https://",
        "one",
        "",
        f"https://push.example/{'x' * 10_000}",
    ],
    few=4,
)
async def test_an_address_that_is_none_of_a_push_service_is_refused(
    tmp_path: Path, endpoint: str
) -> None:
    """Not https, not a plain public name, another port, this machine or its network, too long."""
    async with push_service() as service, inbox(tmp_path) as box, visitor(box) as ann:
        phone = service.phone()
        for address in (endpoint, phone.endpoint):
            status, problem = await subscribe(ann, phone, endpoint=address)
            assert (status, problem["code"]) == (422, "invalid_request")
        assert (await ann.get("push"))["devices"] == []
        assert service.calls == []


async def test_a_refusal_does_not_tell_which_names_there_are(tmp_path: Path) -> None:
    """A name that nobody knows and one of this machine are refused in the same words."""
    async with push_service() as service, inbox(tmp_path) as box, visitor(box) as ann:
        phone, said = service.phone(), set()
        for name in ("localhost", "no-such-name.invalid"):
            status, problem = await subscribe(ann, phone, endpoint=f"https://{name}/one")
            assert status == 422
            said.add(problem["detail"])
        assert said == {
            "this endpoint is not allowed: the name of its push service has no public address"
        }


async def test_wrong_keys_are_refused(site: Site) -> None:
    """A point that is not on the curve, short secrets, no base64, further members."""
    phone = site.service.phone()
    good = phone.subscription["keys"]
    for bad in (
        {**good, "p256dh": "BA" + "A" * 85},
        {**good, "p256dh": good["auth"]},
        {**good, "auth": good["p256dh"]},
        {**good, "auth": "*" * 22},
        {**good, "auth": "é" * 22},
        {**good, "more": "x"},
        {"auth": good["auth"]},
        {**good, "auth": 5},
    ):
        status, _ = await subscribe(site.ann, phone, keys=bad)
        assert status == 422, bad
    assert (await site.ann.get("push"))["devices"] == []


async def test_a_person_has_so_many_devices(site: Site) -> None:
    """Ten; the same one again is no further one."""
    for number in range(10):
        await site.phone(name=str(number))
    phone = site.service.phones["3"]
    assert (await subscribe(site.ann, phone))[0] == 200
    assert (await subscribe(site.ann, site.service.phone("more")))[0] == 409
    assert len((await site.ann.get("push"))["devices"]) == 10


async def test_a_test_reaches_the_device(site: Site) -> None:
    """It says that it is one; what its push service answers is said on the page."""
    phone = await site.phone()
    (row,) = (await site.ann.get("push"))["devices"]
    assert row["here"]
    assert (await site.ann.post(f"push/devices/{row['id']}/test", {}))[0] == 200
    (told,) = await phone.pushed()
    assert (told["id"], "test" in told["body"]) == ("", True)
    phone.answers.append((403, {}))
    status, problem = await site.ann.post(f"push/devices/{row['id']}/test", {})
    assert status >= 400
    assert "403" in problem["detail"]
    assert (await site.ann.post(f"push/devices/{row['id']}/remove", {}))[0] == 200
    assert (await site.ann.get("push"))["devices"] == []


async def test_no_agent_floods_a_phone(site: Site) -> None:
    """Twelve a minute reach a device; the next wait their turn, and none is lost."""
    phone = await site.phone()
    for number in range(15):
        await site.box.ask(**{**SHORT, "arguments": {"command": f"make {number}"}})
    outbox, now = site.box.gateway.core.outbox, site.box.gateway.core.writer.now

    async def wait() -> bool:
        due = [at for _, at in await outbox.queued("push", limit=100)]
        return len(due) == 15 and min(due) > now() + 7000  # longer than a lease

    await phone.pushed(12)
    await until(wait)
    assert len(phone.got) == 12


async def test_what_waited_before_does_not_ring(site: Site) -> None:
    """Turning notifications on is no flood: the page shows what waits already."""
    old = await site.box.ask(**COMMAND)
    phone = await site.phone()
    new = await site.box.ask(**SHORT)
    (told,) = await phone.pushed()
    assert told["id"] == new.id
    await site.settled(old)
    assert len(phone.got) == 1


async def test_a_route_without_the_inbox_rings_nobody(site: Site) -> None:
    """Devices belong to the inbox: where a route does not lead there, they are not told."""
    phone = await site.phone()
    await site.box.route(targets=("terminal",))
    record = await site.box.ask(**COMMAND)
    await site.settled(record)
    assert phone.got == []


async def test_the_key_is_kept(tmp_path: Path) -> None:
    """Made once, for its owner alone; another key in the setting is the one that counts."""
    settings = Settings(data_dir=tmp_path)
    key, _ = push_key_of(settings, make=True)
    again, _ = push_key_of(settings)
    assert key is not None
    assert again is not None
    assert key.public == again.public
    assert (tmp_path / "push.key").stat().st_mode & 0o077 == 0
    with_redis = Settings(REDIS_URL="redis://localhost", data_dir=tmp_path)  # type: ignore[arg-type]
    none, why = push_key_of(with_redis)
    assert (none, "GATEWAY_PUSH_KEY" in why) == (None, True)


async def test_identity_of_a_device_is_the_sessions(site: Site) -> None:
    """A person who was removed is told nothing, and their device is forgotten."""
    async with visitor(site.box, "bob") as bob:
        theirs = await site.phone(bob, "two")
        mine = await site.phone()
        await site.box.gateway.backend.credentials.revoke_approver("bob")
        record = await site.box.ask(**COMMAND)
        await mine.pushed()
        await site.settled(record)
        assert theirs.got == []
        assert identity("bob")


async def test_a_device_is_silent_while_its_person_is_away(site: Site) -> None:
    """Bob's rings, ann's does not; when she is back early, hers rings for what waits."""
    async with visitor(site.box, "bob") as bob:
        hers, his = await site.phone(), await site.phone(bob, "two")
        until = site.box.gateway.core.writer.now() + 3_600_000
        body = {"delegate": "bob", "until": until, "zone": ""}
        assert (await site.ann.post("away/leave", body))[0] == 200
        record = await site.box.ask(**COMMAND)
        assert (await his.pushed())[0]["id"] == record.id
        await site.settled(record)
        assert hers.got == []
        assert (await site.ann.post("away/back", {}))[0] == 200
        assert (await hers.pushed())[0]["id"] == record.id
