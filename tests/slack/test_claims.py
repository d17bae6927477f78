"""`/approvals here`, `me` and `who` in Slack: what they do, and every wrong way to use them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.approvals.claims import ClaimService
from gateway.domain.policy_document import Route
from gateway.domain.records import Identity, Person
from gateway.errors import Unreachable
from gateway.models import Status
from gateway.ports.claims import ChatClaim, Invitation
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.person import Human
from tests.slack.counterpart.slack import Slack
from tests.slack.office import PEOPLE, ROUTE, Office, at_work, form, told
from tests.world import World

CHIEF = Person(name="chief", identities=("slack:T1/UCHIEF",), admin=True)
DEPLOYS = Route(name="deploys", approvers=("ann",), targets=("web",))
NEW = Identity(platform="slack", id="T1/UNEW")
WRONG = "This code is wrong, used or expired"


@pytest.fixture
async def office(slack: Slack, world: World) -> AsyncIterator[Office]:
    """Yield a gateway at work on T1, with an admin who is there, and a channel C2 for ann."""
    slack.channel("C2", "UANN", "UNEW", "UCHIEF")
    async with at_work(slack, world) as made:
        await world.put(people=(*PEOPLE, CHIEF), routes=(ROUTE, DEPLOYS))
        yield made


def claims(office: Office) -> ClaimService:
    """Return what the operator uses."""
    assert isinstance(office.api.claims, ClaimService)
    return office.api.claims


async def waiting(office: Office) -> list[tuple[Invitation, ChatClaim]]:
    """Return what waits for the operator."""
    return await claims(office).list_waiting()


async def says(human: Human, text: str, channel: str = "C2") -> str:
    """Type a command of ours in a channel; return the private reply."""
    before = len(human.private())
    await human.slash("/approvals", text, channel)
    await human.state.until(lambda: human.told_more_than(before))
    return human.private()[-1]


async def test_a_code_claims_a_channel(office: Office) -> None:
    """The claimant gets the operator's number, in private; nothing changes before the yes. Then a
    request comes to the channel, and the claimant decides it."""
    new = office.slack.person("UNEW", name="new")
    before = await office.world.store.policy()
    _, code = await claims(office).invite(route="deploys")
    reply = await says(new, f"here {code.lower().replace('-', ' ')}")
    ((invitation, claim),) = await waiting(office)
    assert f"Your number is {claim.number}." in reply
    assert (claim.identity, claim.target) == ("slack:T1/UNEW", "slack:T1/C2")
    assert claim.words == "New (@new, full member, UNEW)"
    assert claim.place == "#name-c2 of Team T1 (4 members, not shared)"
    assert await office.world.store.policy() == before
    assert office.ann.private() == [] and office.slack.messages("C2") == []
    shown = await claims(office).preview(invitation, claim)
    await claims(office).approve(invitation, claim, shown, by="operator")
    *_, route = (await office.world.store.policy()).routes
    assert route == replace(DEPLOYS, targets=("web", "slack:T1/C2"), approvers=("ann", "new-slack"))
    await office.world.put(routes=(route,))
    record = await office.ask()
    await office.slack.until(lambda: office.slack.messages("C2"))
    await new.click(office.slack.messages("C2")[0], "Approve")
    assert (await office.ended(record)).status is Status.APPROVED


async def test_a_code_works_once(office: Office) -> None:
    """Ann's claim stands; Bob, who read the code over a shoulder, is refused. So is whoever types
    it at the same time: one of them claims."""
    office.slack.workspace().channels["C2"].members.add("UBOB")
    _, code = await claims(office).invite()
    await says(office.ann, f"here {code}")
    assert WRONG in await says(office.bob, f"here {code}")
    ((_, claim),) = await waiting(office)
    assert claim.identity == "slack:T1/UANN"
    _, code = await claims(office).invite()
    both = await asyncio.gather(says(office.ann, f"here {code}"), says(office.bob, f"here {code}"))
    assert sorted("Your number is" in one for one in both) == [False, True]


@pytest.mark.parametrize("typed", ["K7QF", "K7QF-2M9X-77", "the code that I saw", "-"])
async def test_what_is_no_code_counts_as_no_try(office: Office, typed: str) -> None:
    """Five slips end nobody's code; five codes that are wrong do."""
    _, code = await claims(office).invite()
    for _ in range(6):
        assert "This is not a code" in await says(office.ann, f"here {typed}")
    for _ in range(4):
        assert WRONG in await says(office.ann, "here AAAA-AAAA")
    assert "Your number is" in await says(office.ann, f"here {code}")
    _, code = await claims(office).invite()
    assert WRONG in await says(office.ann, "here AAAA-AAAA")
    assert WRONG in await says(office.ann, f"here {code}")


@pytest.mark.parametrize(
    "trait", ["deleted", "is_bot", "is_restricted", "is_ultra_restricted", "foreign"]
)
@pytest.mark.parametrize("verb", ["here {}", "here", "me {}", "who"])
async def test_only_full_members_claim(office: Office, trait: str, verb: str) -> None:
    """No guest, no bot, nobody deactivated or from elsewhere, even an admin of the policy. The code
    waits for whoever may use it."""
    chief = office.slack.person("UCHIEF")
    if trait == "foreign":
        chief.user.team = "T9"
    else:
        setattr(chief.user, trait, True)
    _, code = await claims(office).invite(**({"person": "ann"} if "me" in verb else {}))
    reply = await says(chief, verb.format(code))
    assert "may not decide" in reply
    assert "chief" not in reply and not chief.has_modal
    assert await waiting(office) == []
    (refused,) = await office.events("refused")
    assert refused.agent == "slack:T1/UCHIEF" and "may not decide" in refused.data["why"]
    if "here" in verb:
        assert "Your number is" in await says(office.ann, f"here {code}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"archived": True}, "This channel is archived"),
        ({"external": True}, "people of other organisations can read this channel"),
        ({"across": True}, "people outside this workspace can read this channel"),
        ({"inviting": True}, "people of other organisations are invited"),
        ({"group": True}, "not in a direct message"),
        ({"members": {"UANN", "UCHIEF"}}, "type /invite @approvals first"),
    ],
)
async def test_a_channel_that_takes_no_requests_is_refused(
    office: Office, change: dict[str, Any], said: str
) -> None:
    """With a code and, for an admin, without one. The code is not used up."""
    channel = office.slack.workspace().channels["C2"]
    _, code = await claims(office).invite()
    for name, value in change.items():
        setattr(channel, name, value)
    chief = office.slack.person("UCHIEF")
    for reply in (await says(office.ann, f"here {code}"), await says(chief, "here")):
        assert said.lower() in reply.lower()
    assert not chief.has_modal
    assert await waiting(office) == []
    assert "Your number is" in await says(office.ann, f"here {code}", "C1")


async def test_where_no_channel_is_known_nothing_is_claimed(office: Office) -> None:
    """In a direct message, in a private channel without the app, and where Slack does not say."""
    _, code = await claims(office).invite()
    assert "not in a direct message" in await says(office.ann, f"here {code}", "DUANN")
    assert "type /invite @approvals first" in await says(office.ann, f"here {code}", "C404")
    office.slack.faults.plan("conversations.info", Fault.UNAVAILABLE)
    assert "nothing was changed" in await says(office.ann, f"here {code}")
    assert await waiting(office) == []


async def test_a_name_does_not_imitate_another(office: Office) -> None:
    """What stands in the last brackets is Slack's: the handle and the id; and there is a number."""
    eve = office.slack.person("UEVE", name="eve")
    eve.user.real_name = "Chief (@chief,\n full member, UCHIEF)\u202e" + "x" * 100
    _, code = await claims(office).invite()
    reply = await says(eve, f"here {code}")
    ((_, claim),) = await waiting(office)
    assert claim.number in reply
    assert claim.words.endswith("(@eve, full member, UEVE)")
    assert claim.words.count("(") == 1 and "\n" not in claim.words and "\u202e" not in claim.words
    assert claim.handle == "eve"


async def test_an_admin_adds_a_channel_without_a_code(office: Office) -> None:
    """They choose among the routes that do not come here yet. Nothing else in the policy changes,
    and it is audited."""
    chief = office.slack.person("UCHIEF")
    before = await office.world.store.policy()
    await chief.slash("/approvals", "here", "C1")
    await form(chief, "add_place")
    assert "#name-c1 of Team T1 (3 members, not shared)" in office.modal_says(chief)
    assert "default" not in office.modal_says(chief)
    chief.fill("Route", "deploys")
    await chief.submit()
    await office.told_in_modal(chief, "deploys come here")
    after = await office.world.store.policy()
    assert after.routes == (ROUTE, replace(DEPLOYS, targets=("web", "slack:T1/C1")))
    assert after.people == before.people
    (event,) = await office.events("place_claimed")
    assert (event.data["by"], event.data["target"]) == ("chief", "slack:T1/C1")
    assert "every route come here already" in await says(chief, "here", "C1")


async def test_the_form_of_a_channel_asks_again_who_and_where(office: Office) -> None:
    """While it was open, the channel was shared, then its admin became none: nothing changes."""
    chief = office.slack.person("UCHIEF")
    await chief.slash("/approvals", "here", "C2")
    await form(chief, "add_place")
    chief.fill("Route", "deploys")
    office.slack.workspace().channels["C2"].external = True
    await chief.submit()
    await office.told_in_modal(chief, "read this channel")
    office.slack.workspace().channels["C2"].external = False
    await chief.slash("/approvals", "here", "C2")
    await form(chief, "add_place")
    chief.fill("Route", "deploys")
    await office.world.put(people=(*PEOPLE, replace(CHIEF, admin=False)))
    before = await office.world.store.policy()
    await chief.submit()
    await office.told_in_modal(chief, "Only an admin")
    assert await office.world.store.policy() == before


async def test_others_add_no_channel_without_a_code(office: Office) -> None:
    """Ann is told who could, and her try is written down."""
    assert "Only an admin" in await says(office.ann, "here")
    assert not office.ann.has_modal
    (refused,) = await office.events("refused")
    assert refused.agent == "slack:T1/UANN"


async def test_where_a_policy_file_is_in_force_its_lines_are_told(office: Office) -> None:
    """Nothing changes."""
    await office.world.store.note_policy_file("a digest")
    reply = await says(office.slack.person("UCHIEF"), "here")
    assert "The policy comes from a file" in reply and "Nothing was changed." in reply


async def test_a_code_links_an_account(office: Office) -> None:
    """Once the operator agrees; a code for a channel is none for an account, nor the reverse."""
    _, channel = await claims(office).invite()
    _, account = await claims(office).invite(person="root")
    new = office.slack.person("UNEW", name="new")
    assert WRONG in await says(new, f"me {channel}")
    assert WRONG in await says(new, f"here {account}")
    assert "This is not a code" in await says(new, "me")
    reply = await says(new, f"me {account}", "DUNEW")
    ((invitation, claim),) = await waiting(office)
    assert f"Your number is {claim.number}." in reply
    assert (claim.identity, claim.target) == ("slack:T1/UNEW", "")
    shown = await claims(office).preview(invitation, claim)
    await claims(office).approve(invitation, claim, shown, by="operator")
    person = (await office.world.store.policy()).person_of(NEW)
    assert person is not None and person.name == "root"


async def test_an_account_never_moves(office: Office) -> None:
    """Bob's account is no admin's, whatever the code says."""
    _, code = await claims(office).invite(person="root")
    assert "already belongs to bob" in await says(office.bob, f"me {code}", "C1")
    assert await waiting(office) == []


async def test_who_says_ids_and_admins(office: Office) -> None:
    """To everybody their own; of a direct message no channel, as no route names it so."""
    reply = await says(office.ann, "who")
    assert "You are slack:T1/UANN: the policy names you ann." in reply
    assert "This channel is slack:T1/C2. Admins: root and chief." in reply
    new = office.slack.person("UNEW")
    reply = await says(new, "who", "DUNEW")
    assert reply == ("You are slack:T1/UNEW: the policy does not name you. Admins: root and chief.")


async def test_a_stranger_is_told_who_they_are(office: Office) -> None:
    """With whatever else they are told; who is named in the policy is not."""
    new = office.slack.person("UNEW")
    record, _ = await office.asked()
    about = "You are slack:T1/UNEW: the policy does not name you. Admins: root and chief."
    assert await says(new, "list") == f"You have no pending requests. {about}"
    assert about in await says(new, "deny ffffffff")
    refused = await says(new, f"approve {record.id}")
    assert refused.count("slack:T1/UNEW") == 1 and "Admins: root and chief." in refused
    eve = office.slack.person("UEVE")
    assert await says(eve, "list") == "You have no pending requests."
    assert "Admins" not in await says(eve, f"approve {record.id}")
    await eve.slash("/approvals", "deny ffffffff", "C2")
    await told(eve, "no longer available")


async def test_without_its_store_nothing_is_claimed(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that fails is told as failed, and never as a number."""

    async def fails(*_: Any) -> None:
        raise Unreachable("Redis does not respond")

    monkeypatch.setattr(claims(office), "claim", fails)
    assert "Not recorded" in await says(office.ann, "here AAAA-AAAA")
