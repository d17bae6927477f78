"""What Slack refuses in an app's manifest, as far as ours could have it.

The members and lengths are those of docs.slack.dev/reference/app-manifest and of
slackapi/manifest-schema; that commands and events need scopes and a way to arrive is in the errors
of docs.slack.dev/reference/methods/apps.manifest.create.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_MEMBERS = {
    "": "_metadata display_information features oauth_config settings",
    "_metadata": "major_version minor_version",
    "display_information": "name description long_description background_color",
    "features": "app_home bot_user shortcuts slash_commands unfurl_domains",
    "features.app_home": ("home_tab_enabled messages_tab_enabled messages_tab_read_only_enabled"),
    "features.bot_user": "display_name always_online",
    "oauth_config": "scopes redirect_urls",
    "oauth_config.scopes": "bot user",
    "settings": (
        "allowed_ip_address_ranges event_subscriptions interactivity org_deploy_enabled "
        "socket_mode_enabled token_rotation_enabled"
    ),
    "settings.event_subscriptions": "request_url bot_events user_events",
    "settings.interactivity": "is_enabled request_url message_menu_options_url",
}
_COMMAND = {"command", "description", "usage_hint", "should_escape", "url"}
_SHORTCUT = {"name", "type", "callback_id", "description"}
_LENGTHS = {
    "display_information.name": (1, 35),
    "display_information.description": (0, 140),
    "display_information.long_description": (175, 4000),
    "features.bot_user.display_name": (1, 80),
}
_SCOPES = re.compile(
    r"app_mentions:read|commands|(channels|groups|im|mpim):(read|history|write)|channels:join|"
    r"chat:write(\.public)?|files:(read|write)|reactions:write|team:read|usergroups:read|"
    r"users:read(\.email)?"
)
_EVENT_SCOPES = {
    "channel_": "channels:read",
    "group_": "groups:read",
    "subteam_": "usergroups:read",
    "member_": "channels:read",
}


def find_refusals(manifest: Json) -> list[str]:
    """Return why Slack makes no app of a manifest, empty where it makes one."""
    return [*_find_unknown(manifest), *_find_lengths(manifest), *_find_lacking(manifest)]


def read_member(manifest: Json, path: str) -> Any:
    """Return what stands at a path, None where nothing does."""
    found: Any = manifest
    for name in path.split(".") if path else ():
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _find_unknown(manifest: Json) -> Iterator[str]:
    for path, known in _MEMBERS.items():
        for name in set(read_member(manifest, path) or {}) - set(known.split()):
            yield f"{path or 'the manifest'} has an unknown member {name}"
    lists = (("slash_commands", _COMMAND), ("shortcuts", _SHORTCUT))
    for name, members in lists:
        for one in read_member(manifest, f"features.{name}") or ():
            if not set(one) <= members:
                yield f"one of {name} has an unknown member"


def _find_lengths(manifest: Json) -> Iterator[str]:
    for path, (least, most) in _LENGTHS.items():
        text = read_member(manifest, path)
        if not isinstance(text, str) or not least <= len(text) <= most:
            yield f"{path} must have {least} to {most} characters"
    for one in read_member(manifest, "features.slash_commands") or ():
        if not one["command"].startswith("/") or len(one["command"]) > 32:
            yield f"{one['command']} is no command"
    for one in read_member(manifest, "features.shortcuts") or ():
        if len(one["name"]) > 24 or len(one["description"]) > 150:
            yield f"the words of the shortcut {one['callback_id']} are too long"


def _find_lacking(manifest: Json) -> Iterator[str]:
    """Yield what a member needs beside it and has not."""
    scopes = read_member(manifest, "oauth_config.scopes.bot") or []
    for scope in scopes:
        if not _SCOPES.fullmatch(scope):
            yield f"there is no scope {scope}"
    features = read_member(manifest, "features") or {}
    if (features.get("slash_commands") or features.get("shortcuts")) and "commands" not in scopes:
        yield "commands and shortcuts need the scope commands"
    events = read_member(manifest, "settings.event_subscriptions.bot_events") or []
    for event in events:
        for start, scope in _EVENT_SCOPES.items():
            if event.startswith(start) and scope not in scopes:
                yield f"the event {event} needs the scope {scope}"
    if not read_member(manifest, "settings.socket_mode_enabled"):
        if events and not read_member(manifest, "settings.event_subscriptions.request_url"):
            yield "Event Subscription requires either Request URL or Socket Mode Enabled"
        if not read_member(manifest, "settings.interactivity.request_url"):
            yield "Interactivity requires Socket Mode enabled"
