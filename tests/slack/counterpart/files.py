"""Uploads in three steps: ask for an address, send the bytes, share the file."""

from __future__ import annotations

import json

from tests.slack.counterpart.state import File, Json, Message, Refused, State, Workspace


def upload_url(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Where to send the bytes."""
    name, length = arguments.get("filename"), arguments.get("length")
    if not name or length is None:
        raise Refused("invalid_arguments", "[ERROR] missing required field")
    file = File(id=f"F{state.number()}", name=str(name), length=int(length))
    workspace.files[file.id] = file
    return {"file_id": file.id, "upload_url": f"upload/v1/{workspace.id}/{file.id}"}


def received(workspace: Workspace, file_id: str, content: bytes) -> None:
    """Take the bytes, if they are as many as announced."""
    file = workspace.files.get(file_id)
    if file is None or len(content) != file.length:
        raise Refused("invalid_upload")
    file.content = content


def complete(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Share uploaded files, in a thread when asked to."""
    listed = arguments.get("files")
    wanted = json.loads(listed) if isinstance(listed, str) else listed
    if not wanted:
        raise Refused("invalid_arguments", "[ERROR] missing required field: files")
    found = [workspace.files.get(one.get("id", "")) for one in wanted]
    if any(file is None or file.content is None for file in found):
        raise Refused("file_not_found")
    ready = [file for file in found if file is not None]
    target = arguments.get("channel_id") or arguments.get("channels")
    if target:
        _share(state, workspace, str(target), arguments, ready)
    for one, file in zip(wanted, ready, strict=True):
        file.title = one.get("title") or file.name
    return {"files": [{"id": file.id, "title": file.title} for file in ready]}


def _share(
    state: State, workspace: Workspace, target: str, arguments: Json, ready: list[File]
) -> None:
    channel = workspace.channel(target)
    if channel.archived:
        raise Refused("is_archived")
    if workspace.bot_user not in channel.members:
        raise Refused("not_in_channel")
    message = Message(
        ts=state.stamp(),
        user=workspace.bot_user,
        text=str(arguments.get("initial_comment") or ""),
        thread_ts=arguments.get("thread_ts") or None,
        files=[file.id for file in ready],
        arguments=arguments,
    )
    channel.messages[message.ts] = message
    for file in ready:
        file.shared.append(channel.id)
    state.ring()


def delete(state: State, workspace: Workspace, arguments: Json) -> Json:
    """Delete a file, and the messages that only shared it."""
    file = workspace.files.pop(str(arguments.get("file")), None)
    if file is None:
        raise Refused("file_not_found")
    for channel in workspace.channels.values():
        for ts in [ts for ts, one in channel.messages.items() if one.files == [file.id]]:
            del channel.messages[ts]
    state.ring()
    return {}
