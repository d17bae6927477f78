"""`/approvals` in Discord: a channel and an account join the policy, and nobody sneaks in."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from adapters.discord.claims import build_route_menu
from gateway.approvals.claims import ClaimService
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Person
from gateway.domain.time_and_tasks import SystemClock
from gateway.models import Status
from gateway.ports.claims import ChatClaim, Invitation
from gateway.stores.claims import RedisClaims
from tests.discord.interactions import COMMAND, Interaction
from tests.discord.limits import SELECT, walk
from tests.discord.messages import shown_text
from tests.discord.person import Person as Finger
from tests.discord.stage import Stage, private_text
from tests.discord.town import PERMISSIONS, Channel, Json, Member

REFUSED = "⛔"
ONE_SERVER = "full member of this channel's server"


def operator(stage: Stage) -> ClaimService:
    """Return what the operator's terminal uses."""
    store, clock = stage.gateway.backend.store, SystemClock()
    return ClaimService(store, RedisClaims(store, clock), clock, "discord")


async def code_for(stage: Stage, **what: str) -> str:
    """Return a new code, as the terminal shows it."""
    return (await operator(stage).invite(**what))[1]


async def claimed(stage: Stage) -> list[tuple[Invitation, ChatClaim]]:
    """Return what waits for the operator."""
    return await operator(stage).list_waiting()


async def policy(stage: Stage) -> PolicyDocument:
    """Return the policy in force."""
    return await stage.gateway.backend.store.policy()


async def put(stage: Stage, *people: Person, **changes: Any) -> None:
    """Have these people, or other members, in the policy."""
    store = stage.gateway.backend.store
    now = await store.policy()
    changes |= {"people": people} if people else {}
    await store.apply(replace(now, **changes), by="test")
    stage.core.writer.forget_policy()


async def use(
    stage: Stage, who: Finger, below: str, channel: Channel | None = None, **options: Any
) -> Interaction:
    """Type `/approvals …` as soon as the client knows it."""
    app = stage.server.app
    await stage.seen(lambda: [one for one in app.commands[""] if one["name"] == "approvals"])
    place = channel or stage.server.channel
    return await who.command(app, place, f"approvals {below}", **options)


def text(done: Interaction) -> str:
    """Return what the person alone reads, without the backslashes that Discord does not show."""
    assert not done.failed and len(done.private) == 1, "a private answer, and nothing else"
    return private_text(done).replace("\\", "")


def newcomer(stage: Stage) -> Finger:
    """Return a member of the server whom the policy does not know."""
    ben = stage.server.discord.person("ben")
    stage.server.discord.town.join(stage.server.guild, ben.user)
    return ben


async def forged(stage: Stage, who: Finger, code: str, **payload: Any) -> Interaction:
    """Send `/approvals here CODE` with another payload than a client's."""
    server = stage.server
    option = {"name": "code", "type": 3, "value": code}
    below = {"name": "here", "type": 1, "options": [option]}
    data = {"id": "1", "name": "approvals", "type": 1, "options": [below]}
    made: Interaction = await server.discord.raw(
        server.app, who.user, server.channel, data, kind=COMMAND, payload=payload
    )
    return await who.outcome(made)


def menu_of(done: Interaction) -> list[str]:
    """Return the routes that a private message offers."""
    (message,) = done.private
    return [
        one["label"]
        for part in walk(message["components"])
        if part["type"] == SELECT
        for one in part["options"]
    ]


# What works.


async def test_a_code_claims_the_channel_and_its_first_approver(stage: Stage) -> None:
    """Both sides see one number; nothing changes before the operator's yes, then a card comes."""
    ben, server = newcomer(stage), stage.server
    elsewhere = server.discord.town.channel(server.guild, "ops")
    before = await policy(stage)
    done = await use(stage, ben, "here", elsewhere, code=await code_for(stage))
    ((invitation, claim),) = await claimed(stage)
    number = re.search(r"Your number is (\d\d)\.", text(done))
    assert number and number[1] == claim.number
    target = f"discord:{server.guild.id}/{elsewhere.id}"
    assert (claim.target, claim.place) == (target, "#ops of Acme (6 members)")
    assert (claim.identity, claim.handle) == (f"discord:{ben.id}", "ben")
    assert claim.words == f"Ben (@ben, full member, {ben.id})"
    assert await policy(stage) == before
    shown = await operator(stage).preview(invitation, claim)
    await operator(stage).approve(invitation, claim, shown, by="test")
    stage.core.writer.forget_policy()
    record = await stage.ask()
    await stage.click(ben, await stage.card(record, elsewhere), "Approve", channel=elsewhere)
    assert (await stage.ended(record)).status is Status.APPROVED


async def test_a_thread_is_a_place_too(stage: Stage) -> None:
    """With the permission to send in threads, not in the channel."""
    server = stage.server
    thread = server.discord.town.thread(server.channel, "night")
    server.channel.overwrites[server.guild.id] = (0, PERMISSIONS["send_messages"])
    await use(stage, server.ann, "here", thread, code=await code_for(stage))
    ((_, claim),) = await claimed(stage)
    assert claim.target == f"discord:{server.guild.id}/{thread.id}"


async def test_a_code_links_an_account(stage: Stage) -> None:
    """To the person whom the operator named."""
    ben = newcomer(stage)
    await put(stage, *(await policy(stage)).people, Person(name="owner", admin=True))
    done = await use(stage, ben, "me", code=await code_for(stage, person="owner"))
    ((invitation, claim),) = await claimed(stage)
    assert f"Your number is {claim.number}." in text(done)
    assert (claim.identity, claim.target) == (f"discord:{ben.id}", "")
    shown = await operator(stage).preview(invitation, claim)
    await operator(stage).approve(invitation, claim, shown, by="test")
    owner = next(one for one in (await policy(stage)).people if one.name == "owner")
    assert owner.identities == (f"discord:{ben.id}",)


async def test_who_says_what_a_policy_calls_it(stage: Stage) -> None:
    """The person, the channel, and whom to ask; an empty list says it to a stranger too."""
    ben = newcomer(stage)
    await put(stage, *(await policy(stage)).people, Person(name="owner", admin=True))
    told = text(await use(stage, ben, "who"))
    assert f"discord:{ben.id}: the policy does not name you" in told
    assert f"This channel is {stage.target}." in told
    assert "Admin: owner." in told
    app = stage.server.app
    told = text(await ben.command(app, stage.server.channel, "pending"))
    assert f"discord:{ben.id}" in told and "Admin: owner." in told
    assert "the policy names you ann" in text(await use(stage, stage.server.ann, "who"))


async def test_an_admin_chooses_a_route_and_needs_no_code(stage: Stage) -> None:
    """Of those whose requests do not come here yet; the menu gives way to what was done."""
    server = stage.server
    ann = await admin(stage)
    await put(stage, routes=(stage.route(name="here"), stage.route(name="other", targets=("web",))))
    opened = await use(stage, ann, "here")
    assert menu_of(opened) == ["other"]
    (message,) = opened.private
    done = await ann.choose(server.app, server.channel, message, "other")
    assert done.response is not None and "other" in shown_text(done.response)
    routes = {one.name: one.targets for one in (await policy(stage)).routes}
    assert routes == {"here": (stage.target,), "other": ("web", stage.target)}
    assert "come here already" in text(await use(stage, ann, "here"))


async def admin(stage: Stage) -> Finger:
    """Make ann an admin."""
    people = (await policy(stage)).people
    await put(stage, *(replace(one, admin=one.name == "ann") for one in people))
    return stage.server.ann


def test_a_menu_keeps_to_what_discord_shows() -> None:
    """25 routes, names of 100 characters, and how many are missing."""
    view = build_route_menu([*(f"route-{n}" for n in range(26)), "x" * 101]).view
    made: list[Any] = view.to_components()  # type: ignore[no-untyped-call]
    (said, row) = made
    assert "2 more" in said["content"]
    assert len(row["components"][0]["options"]) == 25


# What is refused. Whatever it is, nothing is claimed.


async def test_a_wrong_a_used_and_a_cut_code_claim_nothing(stage: Stage) -> None:
    """Also by somebody who read the code over a shoulder; what is no code is no try."""
    code = await code_for(stage)
    assert "wrong, used or expired" in text(
        await use(stage, stage.server.eve, "here", code="ABCDEFGH")
    )
    assert (
        "this is not a code"
        in text(await use(stage, stage.server.eve, "here", code=code[:5])).lower()
    )
    await use(stage, stage.server.ann, "here", code=code)
    assert "wrong, used or expired" in text(await use(stage, stage.server.eve, "here", code=code))
    ((_, claim),) = await claimed(stage)
    assert claim.identity == f"discord:{stage.server.ann.id}"


async def test_a_code_for_an_account_claims_no_channel(stage: Stage) -> None:
    """Nor the other way round."""
    code = await code_for(stage, person="bob")
    assert REFUSED in text(await use(stage, stage.server.eve, "here", code=code))
    code = await code_for(stage)
    assert REFUSED in text(await use(stage, stage.server.eve, "me", code=code))
    assert await claimed(stage) == []


async def test_an_account_never_moves_to_somebody_else(stage: Stage) -> None:
    """Eve's is eve's, with whatever code."""
    told = text(await use(stage, stage.server.eve, "me", code=await code_for(stage, person="bob")))
    assert "already" in told
    assert await claimed(stage) == []


async def test_nothing_is_claimed_in_direct_messages(stage: Stage) -> None:
    """There is no server that tells who somebody is; the code is good for a channel still."""
    ann, code = stage.server.ann, await code_for(stage)
    inbox = ann.inbox(stage.server.app)
    for below, options in (("here", {"code": code}), ("here", {}), ("me", {"code": code})):
        told = text(await use(stage, ann, below, inbox, **options))
        assert REFUSED in told and "only in a channel of a server" in told
    assert "of a server" in text(await use(stage, ann, "who", inbox))
    assert await claimed(stage) == []
    assert len(await stage.events("refused")) == 4
    await use(stage, ann, "here", code=code)
    assert len(await claimed(stage)) == 1


async def test_bots_and_webhooks_claim_nothing(stage: Stage) -> None:
    """A bot by its mark; a webhook is no member of any server."""
    server, code = stage.server, await code_for(stage)
    server.eve.user.bot = True
    assert "cannot decide requests" in text(await use(stage, server.eve, "here", code=code))
    hook = server.discord.town.user("approvals")
    member = {**Member(hook).json(), "permissions": "0"}
    assert ONE_SERVER in text(await forged(stage, server.ann, code, member=member))
    assert await claimed(stage) == []


async def test_only_full_members_claim(stage: Stage) -> None:
    """Neither a guest of a voice channel, nor who has not accepted the rules, nor the timed out."""
    code, eve = await code_for(stage), stage.server.eve
    member = stage.server.guild.members[eve.id]
    member.guest = True
    assert ONE_SERVER in text(await use(stage, eve, "here", code=code))
    member.guest, member.pending = False, True
    assert ONE_SERVER in text(await use(stage, eve, "here", code=code))
    member.pending, member.timed_out_until = False, "2100-01-01T00:00:00+00:00"
    assert "timed out" in text(await use(stage, eve, "here", code=code))
    assert await claimed(stage) == []


async def test_who_belongs_to_another_server_claims_nothing(stage: Stage) -> None:
    """Neither in a channel of this one, nor this channel from there."""
    server, code = stage.server, await code_for(stage)
    town = server.discord.town
    stranger = server.discord.person("ben")
    away = town.guild("Elsewhere", stranger.user)
    member: Json = {**away.members[stranger.id].json(), "permissions": "0"}
    assert ONE_SERVER in text(await forged(stage, server.ann, code, member=member))
    there = {"guild_id": away.id, "guild": {"id": away.id, "features": [], "locale": "en-US"}}
    assert ONE_SERVER in text(await forged(stage, server.ann, code, member=member, **there))
    town.join(away, server.app.user)  # the bot is in both
    assert ONE_SERVER in text(await forged(stage, server.ann, code, member=member, **there))
    assert await claimed(stage) == []
    assert len(await stage.events("refused")) == 3


async def test_missing_permissions_are_named_before_anything_is_claimed(stage: Stage) -> None:
    """The code is not used up by it; an admin's menu does not open either."""
    server, code = stage.server, await code_for(stage)
    ann = await admin(stage)
    lost = PERMISSIONS["attach_files"] | PERMISSIONS["embed_links"]
    server.channel.overwrites[server.guild.id] = (0, lost)
    for typed in (code, None):
        options = {} if typed is None else {"code": typed}
        told = text(await use(stage, ann, "here", None, **options))
        assert "the bot lacks: embed links, attach files" in told.lower()
    server.channel.overwrites[server.guild.id] = (0, PERMISSIONS["view_channel"])
    assert "view channel" in text(await use(stage, server.bob, "here", code=code))
    assert await claimed(stage) == []
    server.channel.overwrites.clear()
    await use(stage, server.bob, "here", code=code)
    assert len(await claimed(stage)) == 1


async def test_a_name_that_imitates_an_admin_is_seen_through(stage: Stage) -> None:
    """The operator sees whose account it is, in brackets of ours alone; and the number, which only
    the claimant is told."""
    server = stage.server
    eve = server.guild.members[server.eve.id]
    eve.nick = f"Ann (@ann, full member, {server.ann.id})\n\u202e"
    server.channel.name = "ops of Acme (2 members)"
    done = await use(stage, server.eve, "here", code=await code_for(stage))
    ((_, claim),) = await claimed(stage)
    assert claim.identity == f"discord:{server.eve.id}"
    assert claim.words.endswith(f" (@eve, full member, {server.eve.id})")
    assert claim.words.count("(") == 1 and claim.words.isprintable()
    assert claim.place == "#ops of Acme [2 members] of Acme (5 members)"
    assert f"Your number is {claim.number}." in text(done)


async def test_who_is_no_admin_gets_no_menu(stage: Stage) -> None:
    """And cannot choose from one that was an admin's; both are written down."""
    server = stage.server
    ann = await admin(stage)
    await put(stage, routes=(stage.route(targets=("web",)),))
    told = text(await use(stage, server.eve, "here"))
    assert REFUSED in told and "only an admin" in told.lower()
    (menu,) = (await use(stage, ann, "here")).private
    await put(stage, *(replace(one, admin=False) for one in (await policy(stage)).people))
    done = await ann.choose(server.app, server.channel, menu, "default")
    assert done.response is not None and "only an admin" in shown_text(done.response).lower()
    assert (await policy(stage)).routes[0].targets == ("web",)
    assert len(await stage.events("refused")) == 2


async def test_a_choice_is_checked_like_the_command(stage: Stage) -> None:
    """Permissions that went meanwhile, a route that is gone, and somebody who is timed out."""
    server = stage.server
    ann = await admin(stage)
    await put(stage, routes=(stage.route(targets=("web",)),))
    (menu,) = (await use(stage, ann, "here")).private
    server.channel.overwrites[server.guild.id] = (0, PERMISSIONS["attach_files"])
    done = await ann.choose(server.app, server.channel, menu, "default")
    assert done.response is not None and "attach files" in shown_text(done.response)
    server.channel.overwrites.clear()
    (menu,) = (await use(stage, ann, "here")).private
    server.guild.members[ann.id].timed_out_until = "2100-01-01T00:00:00+00:00"
    assert "timed out" in text(await ann.choose(server.app, server.channel, menu, "default"))
    server.guild.members[ann.id].timed_out_until = None
    await put(stage, routes=(stage.route(name="new", targets=("web",)),))
    assert "🗑️" in text(await ann.choose(server.app, server.channel, menu, "default"))
    assert (await policy(stage)).routes[0].targets == ("web",)


async def test_with_a_policy_file_the_lines_are_said(stage: Stage) -> None:
    """Nothing is changed, and each line stays one."""
    ann = await admin(stage)
    await stage.gateway.backend.store.note_policy_file("f" * 64)
    told = text(await use(stage, ann, "here"))
    assert "the policy comes from a file" in told.lower() and "targets =" in told
    assert told.splitlines()[-1] == "Nothing was changed."


async def test_nothing_is_claimed_while_discord_does_not_say_who_it_is(stage: Stage) -> None:
    """The person is told that it failed, and the code works afterwards."""
    server, code = stage.server, await code_for(stage)
    server.discord.rest.stage("GET", r"/members/\d+$", times=9, status=503)
    assert "did not confirm who you are" in text(await use(stage, server.ann, "here", code=code))
    assert await claimed(stage) == []
    server.discord.rest.faults.clear()
    await use(stage, server.ann, "here", code=code)
    assert len(await claimed(stage)) == 1


async def test_two_people_at_once_make_one_claim(stage: Stage) -> None:
    """The other is told that the code is used."""
    server, code = stage.server, await code_for(stage)
    await use(stage, server.ann, "who")
    both = [
        await who.command(server.app, server.channel, "approvals here", code=code, wait=False)
        for who in (server.ann, server.bob)
    ]
    done = [await who.outcome(one) for who, one in zip((server.ann, server.bob), both, strict=True)]
    told = sorted("Your number is" in text(one) for one in done)
    assert told == [False, True]
    assert len(await claimed(stage)) == 1
