"""Requests whose cards are mails, with the core behind them: people decide in the inbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adapters.email import EmailAdapter
from gateway.domain.policy_document import Escalation, Route
from gateway.domain.records import AuditEvent, Identity, Remember
from gateway.errors import Unauthorized
from gateway.models import Action, Execution, Reason, Report, Status
from gateway.ports import AdapterApi
from gateway.server.background import adapter_api, run_reminders, serve_adapters
from tests.email.conftest import INBOX
from tests.email.postbox import OPS, Postbox, part
from tests.web.inbox import COMMAND, inbox
from tests.web.visitor import visitor
from tests.world import World, click, identity, over_http

TARGET, ANN = f"email:{OPS}", "email:ann@example.com"


@asynccontextmanager
async def mailing(world: World, api: AdapterApi, **route: Any) -> AsyncIterator[World]:
    """Run a gateway that mails every request, and posts nowhere else unless the route says so."""
    await world.route(Route(**{"approvers": ("ann", "bob"), "targets": (TARGET,), **route}))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serve_adapters(EmailAdapter(), api, world.core))
        await stack.enter_async_context(run_reminders(world.core))
        yield world


async def seen(world: World, kind: str, count: int = 1) -> list[AuditEvent]:
    """Return the events of a kind, once there are so many."""
    events = await world.until(lambda all: sum(one.type == kind for one in all) >= count)
    return [one for one in events if one.type == kind]


async def test_people_decide_in_the_inbox(world: World, box: Postbox, api: AdapterApi) -> None:
    """A route may have mail alone. The decision follows as a reply; the run's result does not."""
    async with mailing(world, api):
        record = await world.submit()
        await box.until(1)
        (told,) = await seen(world, "delivered")
        assert told.data["target"] == TARGET
        after = await world.core.requests.decide(click(record))
        assert after.status is Status.APPROVED
        first, reply = await box.until(2)
        assert reply["In-Reply-To"] == first["Message-ID"]
        assert "Approved by ann" in part(reply, "plain")
        assert f"{INBOX}/r/{record.id}" in part(first, "plain")
        await world.approvals.report(record.id, Report(execution=Execution.SUCCEEDED), over_http())
        other = await world.submit()
        await box.until(3)
        await world.core.requests.decide(click(other, Action.DENY))
        await box.until(4)


async def test_a_quorum_counts_people_and_one_mail_tells_the_end(
    world: World, box: Postbox, api: AdapterApi
) -> None:
    """The first of two approvals is no end, so it is not mailed."""
    async with mailing(world, api, quorum=2):
        record = await world.submit()
        await box.until(1)
        voted = await world.core.requests.decide(click(record))
        assert voted.status is Status.PENDING
        after = await world.core.requests.decide(click(voted, identity=identity("bob")))
        assert after.status is Status.APPROVED
        _, reply = await box.until(2)
        assert "Approved by ann and bob" in part(reply, "plain")


async def test_who_gets_mail_may_not_decide_by_that(
    world: World, box: Postbox, api: AdapterApi
) -> None:
    """An address is no identity, and the ID of a mail is no card that was clicked."""
    async with mailing(world, api):
        record = await world.submit()
        await seen(world, "delivered")
        copy = (await world.core.outbox.copies(record.id))[TARGET]
        reader = Identity(platform="email", id=OPS)
        for ref in (None, copy.ref):
            pressed = click(record, identity=reader, copy=ref and copy.nonce, ref=ref)
            with pytest.raises(Unauthorized):
                await world.core.requests.decide(pressed)
        assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_the_adapter_asks_the_core_for_nothing(
    world: World, box: Postbox, api: AdapterApi
) -> None:
    """It cannot decide: no call of the groups that could is ever made."""

    class Nothing:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"the adapter called {name}")

    nothing: Any = Nothing()
    groups = {one.name for one in fields(AdapterApi)} - {"notes", "inbox", "devices", "secure"}
    bare = AdapterApi(**dict.fromkeys(groups, nothing), notes=api.notes, inbox=INBOX)
    adapter = EmailAdapter()
    async with adapter.run(bare):
        record = await world.submit()
        card = await api.requests.draw(record, "email", lines=60, chars=4000)
        ref = await adapter.deliver(TARGET, card, "a" * 22)
        after = await world.core.requests.decide(click(record))
        card = await api.requests.draw(after, "email", lines=60, chars=4000)
        await adapter.update(ref, replace(card, disarms=True), "a" * 22)
    assert len(box.mails) == 2


async def test_a_rejected_address_holds_nobody_up(
    world: World, box: Postbox, api: AdapterApi
) -> None:
    """The other one gets its mail, the audit says why, and the request stays pending."""
    box.replies["ann@example.com"] = ["550 no such user"]
    async with mailing(world, api, targets=(ANN, TARGET)):
        record = await world.submit()
        (failed,) = await seen(world, "undelivered")
        assert failed.data["target"] == ANN and "550 no such user" in str(failed.data)
        await box.until(1)
        assert box.recipients == [OPS]
        assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_where_no_mail_arrives_the_agent_is_told_at_once(
    world: World, box: Postbox, api: AdapterApi
) -> None:
    """With mail alone, a rejected address ends the request as undeliverable."""
    box.replies[OPS] = ["550 no such user"]
    async with mailing(world, api):
        record = await world.submit()
        await world.until(lambda events: any(one.type == "denied" for one in events))
        ended = await world.core.requests.get(record.id)
        assert ended.decision is not None and ended.decision.reason is Reason.UNDELIVERABLE


async def test_an_escalation_takes_over_from_a_rejected_address(
    world: World, box: Postbox, api: AdapterApi
) -> None:
    """Before its time."""
    box.replies["ann@example.com"] = ["550 no such user"]
    steps = (Escalation(after=3600, targets=(TARGET,)),)
    async with mailing(world, api, targets=(ANN,), escalations=steps):
        await world.submit()
        await box.until(1)
        assert box.recipients == [OPS]


async def test_a_server_that_is_busy_gets_the_mail_later(
    world: World, box: Postbox, api: AdapterApi
) -> None:
    """Nothing is lost and nothing is doubled."""
    box.replies[OPS] = ["451 try later"] * 2
    box.ends = ["452 full"]
    async with mailing(world, api):
        await world.submit()
        await seen(world, "delivered")
        await box.until(1)


async def test_reminders_are_mailed(world: World, box: Postbox, api: AdapterApi) -> None:
    """As replies that say who may decide."""
    async with mailing(world, api, remind_after=(0.1, 0.2)):
        await world.submit()
        first, one, two = await box.until(3)
        assert {one["In-Reply-To"], two["In-Reply-To"]} == {first["Message-ID"]}
        assert "Still pending" in part(two, "plain")


async def test_an_outcome_is_mailed_to_who_wants_to_know(
    world: World, box: Postbox, api: AdapterApi
) -> None:
    """Without a card before it."""
    async with mailing(world, api, targets=("web",), notify=(TARGET,)):
        record = await world.submit()
        await world.core.requests.decide(click(record, Action.DENY, message="not today"))
        (mail,) = await box.until(1)
        assert "Denied by ann" in part(mail, "plain") and mail["In-Reply-To"] is None


async def test_a_grant_is_mailed(world: World, box: Postbox, api: AdapterApi) -> None:
    """So that everybody knows what will not be asked again; and so is its end."""
    async with mailing(world, api):
        record = await world.submit()
        await box.until(1)
        await world.core.requests.decide(click(record, remember=Remember(lifetime="1d")))
        mails = await box.until(3)
        said = [part(mail, "plain") for mail in mails]
        assert sum("Approval remembered" in one for one in said) == 1
        (grant,) = await api.grants.newest()
        await api.grants.revoke(grant.id, identity("ann"))
        assert "revoked by ann" in part((await box.until(4))[3], "plain")


# The link, at a real inbox.


async def test_opening_the_link_decides_nothing(
    box: Postbox, server_url: str, namespace: str, tmp_path: Path
) -> None:
    """Not for a scanner of mail, which has no session, and not for somebody who has one: not with
    any method. It only leads to the sign-in."""
    async with inbox(tmp_path, redis_url=server_url, namespace=namespace) as place:
        gateway = place.gateway
        api = adapter_api(
            "email", gateway.core, gateway.backend.store, inbox=f"{gateway.url}/inbox"
        )
        await place.route(targets=(TARGET,))
        async with serve_adapters(EmailAdapter(), api, gateway.core):
            record = await place.ask(**COMMAND)
            (mail,) = await box.until(1)
            link = f"{gateway.url}/inbox/r/{record.id}"
            assert link in part(mail, "plain").split()
            async with aiohttp.ClientSession() as scanner, visitor(place) as ann:
                for http in (scanner, ann.http):
                    for method in ("GET", "HEAD", "POST", "OPTIONS"):
                        async with http.request(method, link, allow_redirects=True) as answer:
                            await answer.read()
                            assert (answer.status == 200) is (method in ("GET", "HEAD")), method
                assert (await place.get(record)).status is Status.PENDING
                assert not await place.events("claimed")
            after = await place.decide(record)
            assert after.status is Status.APPROVED
            await box.until(2)
