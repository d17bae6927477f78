"""Run `/approvals here`, `me` and `who`, which add channels and accounts to the policy; start with
`SlackClaims.run`."""

from __future__ import annotations

from adapters.slack import modals
from adapters.slack.payloads import Actor, Interaction, Json, SlackPlace
from adapters.slack.posting import PrivateReply
from adapters.slack.users_and_rights import IneligibleUser, Unknown, UserDirectory, name_place
from adapters.slack.web_api import SlackRefused, Workspace, call_repeatable
from gateway.chat.claiming import (
    ME,
    WHO,
    NotClaimed,
    add_place,
    claim_account,
    claim_place,
    describe_place,
    describe_who,
    introduce_stranger,
    list_other_routes,
)
from gateway.ports import AdapterApi, ClaimedPlace, DeliveryFailed

INVITE = "/invite @approvals"
_NO_REQUEST = "0" * 32
_ABSENT = f"the app is not in this channel; type {INVITE} first, then this command again"
_DIRECT = (
    "requests can go only to a channel; type this command in a channel, not in a direct message"
)
# Members of Slack's answer that must all be false for a channel; a missing one also refuses it.
_UNFIT = {
    "is_archived": "this channel is archived",
    "is_im": _DIRECT,
    "is_mpim": _DIRECT,
    "is_ext_shared": "people of other organisations can read this channel",
    "is_shared": "people outside this workspace can read this channel",
    "is_pending_ext_shared": "people of other organisations are invited to this channel",
}


class SlackClaims:
    """Runs these subcommands, and replies privately."""

    def __init__(self, api: AdapterApi, directory: UserDirectory) -> None:
        self._api = api
        self._directory = directory

    async def run(
        self, workspace: Workspace, did: Interaction, reply: PrivateReply, verb: str, code: str
    ) -> None:
        """Run one subcommand. Raises IneligibleUser, Unknown, NotClaimed, Unauthorized."""
        try:
            by = await self._directory.find_claimant(workspace, did.actor)
        except IneligibleUser as stranger:
            await self._api.requests.refuse(_NO_REQUEST, did.actor.identity, str(stranger))
            raise
        if verb == WHO:
            direct = did.channel.startswith("D")  # routes do not name direct channels
            target = "" if direct else name_place(SlackPlace(workspace.team, did.channel))
            await reply.tell(await describe_who(self._api, by.identity, target))
            return
        if verb == ME:
            await reply.tell(await claim_account(self._api, code, by))
            return
        place = await read_channel(workspace, did.channel)
        if code:
            await reply.tell(await claim_place(self._api, code, by, place))
            return
        routes = await list_other_routes(self._api, by.identity, place)
        if not await reply.open(modals.build_route_choice(place.words, did.channel, routes)):
            await reply.tell("Slack took too long to open the form. Type the command again.")

    async def introduce(self, workspace: Workspace, actor: Actor, told: str) -> str:
        """Add to a text who the person and the admins are, as `introduce_stranger` does."""
        identity = await self._directory.find_member(workspace, actor)
        return await introduce_stranger(self._api, identity, told)

    async def submit(self, workspace: Workspace, did: Interaction) -> Json:
        """Add the channel to the chosen route; return the response for Slack. Check the person and
        the channel again."""
        identity = await self._directory.find_member(workspace, did.actor)
        place = await read_channel(workspace, str(did.view.get("private_metadata")))
        route = modals.SubmittedValues(did.view).read_choice(modals.ROUTE) or ""
        said = await add_place(self._api, identity, route, place)
        return {"response_action": "update", "view": modals.build_notice("Approvals", said)}


async def read_channel(workspace: Workspace, channel: str) -> ClaimedPlace:
    """Look up a channel for requests. Raises NotClaimed if it is unsuitable, and Unknown if Slack
    does not answer."""
    if channel.startswith("D"):  # the app cannot look up direct channels of others
        raise NotClaimed(_DIRECT)
    client = workspace.client
    try:
        who = await call_repeatable(client.auth_test)
        answer = await call_repeatable(
            lambda: client.conversations_info(channel=channel, include_num_members=True)
        )
    except DeliveryFailed as failure:
        if isinstance(failure, SlackRefused) and failure.error == "channel_not_found":
            raise NotClaimed(_ABSENT) from failure
        raise Unknown("Slack did not return this channel's type; nothing was changed") from failure
    about = answer.get("channel") or {}
    for sign, why in _UNFIT.items():
        if about.get(sign) is not False:
            raise NotClaimed(why)
    if about.get("is_member") is not True:
        raise NotClaimed(_ABSENT)
    facts = f"{about.get('num_members', 'unknown')} members, not shared"
    words = describe_place(str(about.get("name")), str(who.get("team")), facts)
    return ClaimedPlace(target=name_place(SlackPlace(workspace.team, channel)), words=words)
