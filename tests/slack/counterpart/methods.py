"""The methods of the Web API, each with its scope, its answer and its error codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.slack.counterpart import files, views
from tests.slack.counterpart.blocks import Checker, check_message
from tests.slack.counterpart.state import Json, Message, Refused, State, Workspace

Method = Callable[[State, Workspace, Json], Json]
SCOPES = {
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "chat.postEphemeral": "chat:write",
    "chat.delete": "chat:write",
    "conversations.open": "im:write",
    "conversations.info": "channels:read",
    "conversations.members": "channels:read",
    "users.info": "users:read",
    "bots.info": "users:read",
    "usergroups.list": "usergroups:read",
    "usergroups.users.list": "usergroups:read",
    "files.getUploadURLExternal": "files:write",
    "files.completeUploadExternal": "files:write",
    "files.delete": "files:write",
}


def auth_test(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Who the token is."""
    return {
        "url": f"https://{workspace.id.lower()}.slack.test/",
        "team": f"Team {workspace.id}",
        "user": "gateway",
        "team_id": workspace.org or workspace.id,
        "user_id": workspace.bot_user,
        "bot_id": workspace.bot_id,
        "is_enterprise_install": workspace.org_token,
    }


def teams_list(state: State, workspace: Workspace, arguments: Json) -> Json:
    """The workspaces that an organisation added the app to, one on a page."""
    teams = [{"id": one.id} for one in state.workspaces.values() if one.org == workspace.org]
    at = int(arguments.get("cursor") or 0)
    after = str(at + 1) if at + 1 < len(teams) else ""
    return {"teams": teams[at : at + 1], "response_metadata": {"next_cursor": after}}


def bots_info(state: State, workspace: Workspace, arguments: Json) -> Json:
    """The app behind a bot id."""
    if arguments.get("bot") != workspace.bot_id:
        raise Refused("bot_not_found")
    bot = {"id": workspace.bot_id, "app_id": state.app_id, "user_id": workspace.bot_user}
    return {"bot": {**bot, "name": "gateway", "deleted": False}}


def blocks_argument(value: Any) -> Any:
    """Return blocks that came as JSON text or as values."""
    if not isinstance(value, str) or not value:
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise Refused("invalid_blocks_format") from None


def post_message(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Post to a channel the app is in, or to a user's direct messages."""
    target = arguments.get("channel") or ""
    channel = workspace.direct(target) if target in workspace.users else workspace.channel(target)
    if channel.archived:
        raise Refused("is_archived")
    if workspace.bot_user not in channel.members:
        raise Refused("not_in_channel")
    blocks = check_message(blocks_argument(arguments.get("blocks")), state.most_text)
    text = str(arguments.get("text") or "")[:40_000]
    if not text and not blocks:
        raise Refused("no_text")
    thread = arguments.get("thread_ts") or None
    if thread is not None and thread not in channel.messages:
        raise Refused("thread_not_found")
    message = Message(
        ts=state.stamp(),
        user=workspace.bot_user,
        text=text,
        blocks=blocks,
        thread_ts=thread,
        metadata=_metadata(arguments),
        arguments=arguments,
    )
    channel.messages[message.ts] = message
    state.ring()
    return {"channel": channel.id, "ts": message.ts, "message": shown(message, workspace)}


def _metadata(arguments: Json) -> Json | None:
    metadata = blocks_argument(arguments.get("metadata"))
    if not metadata:
        return None
    if set(metadata) != {"event_type", "event_payload"}:
        raise Refused("invalid_metadata_format")
    if len(json.dumps(metadata)) > 8_000:
        raise Refused("metadata_too_large")
    return dict(metadata)


def shown(message: Message, workspace: Workspace) -> Json:
    """Return the message object of the Web API."""
    value: Json = {
        "type": "message",
        "user": message.user,
        "bot_id": workspace.bot_id,
        "ts": message.ts,
        "text": message.text,
        "team": workspace.id,
        "blocks": message.blocks,
    }
    if message.thread_ts:
        value["thread_ts"] = message.thread_ts
    if message.metadata:
        value["metadata"] = message.metadata
    return value


def update(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Edit one of the app's own messages."""
    channel = workspace.channel(arguments.get("channel"))
    if channel.archived:
        raise Refused("is_inactive")
    message = workspace.message(channel.id, str(arguments.get("ts")))
    if message.user != workspace.bot_user:
        raise Refused("cant_update_message")
    if message.locked:
        raise Refused("edit_window_closed")
    text = str(arguments.get("text") or "")
    if len(text) > 4_000:
        raise Refused("msg_too_long")
    blocks = check_message(blocks_argument(arguments.get("blocks")), state.most_text)
    if not text and not blocks:
        raise Refused("no_text")
    if _rich(message.blocks) and not _rich(blocks):
        raise Refused("block_mismatch")
    message.text, message.blocks = text, blocks
    message.metadata = _metadata(arguments) or message.metadata
    message.edits += 1
    state.ring()
    answer = {"channel": channel.id, "ts": message.ts, "text": text}
    return {**answer, "message": shown(message, workspace)}


def _rich(blocks: list[Json]) -> bool:
    return any(block["type"] == "rich_text" for block in blocks)


def post_ephemeral(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Show a message to one member of a channel."""
    channel = workspace.channel(arguments.get("channel"))
    if workspace.bot_user not in channel.members:
        raise Refused("not_in_channel")
    user = workspace.user(arguments.get("user")).id
    if user not in channel.members:
        raise Refused("user_not_in_channel")
    check_message(blocks_argument(arguments.get("blocks")), state.most_text)
    if not arguments.get("text") and not arguments.get("blocks"):
        raise Refused("no_text")
    workspace.ephemerals.append((channel.id, user, arguments))
    state.ring()
    return {"message_ts": state.stamp()}


def delete(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Delete one of the app's own messages."""
    channel = workspace.channel(arguments.get("channel"))
    message = workspace.message(channel.id, str(arguments.get("ts")))
    if message.user != workspace.bot_user:
        raise Refused("cant_delete_message")
    del channel.messages[message.ts]
    state.ring()
    return {"channel": channel.id, "ts": message.ts}


def permalink(state: State, workspace: Workspace, arguments: Json) -> Json:
    """The web address of a message."""
    channel = workspace.channel(arguments.get("channel"))
    ts = workspace.message(channel.id, str(arguments.get("message_ts"))).ts
    place = f"https://{workspace.id.lower()}.slack.test/archives/{channel.id}"
    return {"channel": channel.id, "permalink": f"{place}/p{ts.replace('.', '')}"}


def conversations_open(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Open the direct message channel with a user."""
    users = str(arguments.get("users") or "").split(",")
    if len(users) != 1:
        raise Refused("missing_scope", needed="mpim:write", provided=workspace.scopes)
    return {"channel": {"id": workspace.direct(users[0]).id}}


def conversations_info(state: State, workspace: Workspace, arguments: Json) -> Json:
    """What a channel is, and whether the app is in it."""
    channel = workspace.channel(arguments.get("channel"))
    about = {
        "id": channel.id,
        "name": channel.name,
        "is_im": channel.direct,
        "is_mpim": channel.group,
        "is_archived": channel.archived,
        "is_shared": channel.external or channel.across,
        "is_ext_shared": channel.external,
        "is_pending_ext_shared": channel.inviting,
        "is_member": workspace.bot_user in channel.members,
        "context_team_id": workspace.id,
    }
    if arguments.get("include_num_members") in (True, "1", "true"):
        about["num_members"] = len(channel.members)
    return {"channel": about}


def conversations_members(state: State, workspace: Workspace, arguments: Json) -> Json:
    """The members of a channel, in pages."""
    members = sorted(workspace.channel(arguments.get("channel")).members)
    start, limit = int(arguments.get("cursor") or 0), int(arguments.get("limit") or 100)
    end = start + limit
    cursor = str(end) if end < len(members) else ""
    return {"members": members[start:end], "response_metadata": {"next_cursor": cursor}}


def users_info(state: State, workspace: Workspace, arguments: Json) -> Json:
    """A member, or a stranger from a shared channel."""
    user = workspace.user(arguments.get("user")).shown()
    if workspace.org:
        all_ = [one for one in state.workspaces.values() if one.org == workspace.org]
        teams = [one.id for one in all_ if user["id"] in one.users]
        user["enterprise_user"] = {"enterprise_id": workspace.org, "teams": teams}
    return {"user": user}


def _paid(workspace: Workspace, arguments: Json) -> None:
    if not workspace.paid:
        raise Refused("plan_upgrade_required")
    if workspace.org_token and arguments.get("team_id") != workspace.id:
        raise Refused("missing_argument", "[ERROR] missing required field: team_id")


def usergroups_list(state: State, workspace: Workspace, arguments: Json) -> Json:
    """The user groups."""
    _paid(workspace, arguments)
    listed: list[Json] = [{"id": name, "handle": name.lower()} for name in workspace.groups]
    if arguments.get("include_users") in (True, "1", "true"):
        for group in listed:
            group["users"] = list(workspace.groups[group["id"]])
    return {"usergroups": listed}


def usergroup_members(state: State, workspace: Workspace, arguments: Json) -> Json:
    """The members of a user group."""
    _paid(workspace, arguments)
    group = workspace.groups.get(arguments.get("usergroup") or "")
    if group is None:
        raise Refused("no_such_subteam")
    return {"users": list(group)}


def views_open(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Open a modal."""
    view = views.opened(
        state, workspace, arguments.get("trigger_id"), arguments.get("view"), push=False
    )
    return {"view": views.shown(view, workspace, state)}


def views_push(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Put a modal on the open one."""
    view = views.opened(
        state, workspace, arguments.get("trigger_id"), arguments.get("view"), push=True
    )
    return {"view": views.shown(view, workspace, state)}


def views_update(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Replace a modal's content."""
    return {"view": views.shown(views.updated(state, workspace, arguments), workspace, state)}


def views_publish(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Replace a Home tab."""
    return {"view": views.shown(views.published(state, workspace, arguments), workspace, state)}


def blocks_validate(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Check blocks, a message or a view without showing it."""
    if "view" in arguments:
        view = blocks_argument(arguments["view"])
        views.checked_view(view, str(view.get("type")))
        return {}
    message = blocks_argument(arguments.get("message")) or {}
    blocks = blocks_argument(arguments.get("blocks")) or message.get("blocks")
    problems = Checker("message").check(blocks)
    if problems:
        raise Refused("invalid_blocks", *problems)
    return {}


METHODS: dict[str, Method] = {
    "auth.test": auth_test,
    "auth.teams.list": teams_list,
    "bots.info": bots_info,
    "chat.postMessage": post_message,
    "chat.update": update,
    "chat.postEphemeral": post_ephemeral,
    "chat.delete": delete,
    "chat.getPermalink": permalink,
    "conversations.open": conversations_open,
    "conversations.info": conversations_info,
    "conversations.members": conversations_members,
    "users.info": users_info,
    "usergroups.list": usergroups_list,
    "usergroups.users.list": usergroup_members,
    "views.open": views_open,
    "views.push": views_push,
    "views.update": views_update,
    "views.publish": views_publish,
    "blocks.validate": blocks_validate,
    "files.getUploadURLExternal": files.upload_url,
    "files.completeUploadExternal": files.complete,
    "files.delete": files.delete,
}
