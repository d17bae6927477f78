"""The app's manifest for Slack, and checks against the limits of Slack's published schema."""

from __future__ import annotations

from typing import Any

from adapters.slack.card_blocks import count_units
from adapters.slack.commands import COMMAND
from adapters.slack.news import GROUP_EVENTS, LOSSES
from adapters.slack.payloads import ANSWER_SHORTCUT, Json
from adapters.slack.shared_channels import EVENTS as SHARING

BOT_SCOPES = (
    "channels:read",
    "chat:write",
    "commands",
    "files:write",
    "groups:read",
    "usergroups:read",
    "users:read",
)
EVENTS = (
    "app_home_opened",
    "app_uninstalled",
    "tokens_revoked",
    *GROUP_EVENTS,
    *LOSSES,
    *SHARING,
)
_ORG_EVENTS = ("team_access_granted", "team_access_revoked")
SHORTCUT = {
    "name": "Answer this request",
    "type": "message",
    "callback_id": ANSWER_SHORTCUT,
    "description": "Opens everything about the request on this card, with your answers",
}
_SHORTCUT, _CALLBACK, _SHORT = 24, 255, 150
_NAME, _COMMAND, _DESCRIPTION, _LONG, _EVENTS = 35, 32, 140, 4000, 100
_COMMAND_WORDS, _LEAST_LONG, _HINT = 2000, 175, 1000
_LONG_DESCRIPTION = (
    "Your agents ask before they act. Each request appears in the channel that its route names, "
    "with exactly what would run; approve it, deny it with a reason, or change it first. The agent "
    "goes on at once, and the card shows for ever who decided what."
)


def build_manifest(public_url: str | None = None, *, org: bool = False) -> Json:
    """Return the manifest for Socket Mode; with a public URL, the one for HTTP.

    With `org`, an Enterprise organisation may install the app for all its workspaces.
    """
    http = public_url is not None
    url = f"{public_url.rstrip('/')}/slack/events" if public_url else ""
    address = {"url": url} if http else {}
    command = {
        "command": COMMAND,
        "description": "What waits for you, and your answers",
        "usage_hint": "list | show ID | approve ID | deny ID reason",
        "should_escape": False,
        **address,
    }
    request = {"request_url": url} if http else {}
    oauth: Json = {"scopes": {"bot": list(BOT_SCOPES)}}
    if public_url:
        oauth["redirect_urls"] = [f"{public_url.rstrip('/')}/slack/oauth_redirect"]
    return {
        "_metadata": {"major_version": 1, "minor_version": 1},
        "display_information": {
            "name": "Approvals",
            "description": "Approve what your agents are about to do",
            "long_description": _LONG_DESCRIPTION,
            "background_color": "#1d4b3a",
        },
        "features": {
            "app_home": {
                "home_tab_enabled": True,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": True,
            },
            "bot_user": {"display_name": "approvals", "always_online": True},
            "slash_commands": [command],
            "shortcuts": [SHORTCUT],
        },
        "oauth_config": oauth,
        "settings": {
            "event_subscriptions": {
                "bot_events": [*EVENTS, *(_ORG_EVENTS if org else ())],
                **request,
            },
            "interactivity": {"is_enabled": True, **request},
            "org_deploy_enabled": org,
            "socket_mode_enabled": not http,
            "token_rotation_enabled": False,
        },
    }


def find_problems(found: Json) -> list[str]:
    """Return what Slack would refuse in a manifest; empty when nothing."""
    wrong: list[str] = []

    def limit(path: str, most: int, least: int = 1) -> None:
        text = _get_path(found, path)
        if not isinstance(text, str) or not least <= count_units(text) <= most:
            wrong.append(f"{path} must have {least} to {most} characters")

    limit("display_information.name", _NAME)
    limit("display_information.description", _DESCRIPTION)
    limit("display_information.long_description", _LONG, _LEAST_LONG)
    limit("features.bot_user.display_name", 80)
    for number in range(len(_get_path(found, "features.slash_commands") or [])):
        path = f"features.slash_commands.{number}"
        limit(f"{path}.command", _COMMAND, 2)
        limit(f"{path}.description", _COMMAND_WORDS)
        limit(f"{path}.usage_hint", _HINT)
    for number in range(len(_get_path(found, "features.shortcuts") or [])):
        path = f"features.shortcuts.{number}"
        limit(f"{path}.name", _SHORTCUT)
        limit(f"{path}.callback_id", _CALLBACK)
        limit(f"{path}.description", _SHORT)
    events = _get_path(found, "settings.event_subscriptions.bot_events") or []
    if len(events) > _EVENTS:
        wrong.append(f"at most {_EVENTS} bot events")
    return wrong + _check_addresses(found)


def _check_addresses(found: Json) -> list[str]:
    """Return what is wrong with the URLs: missing, not https, or set in Socket Mode."""
    socket = _get_path(found, "settings.socket_mode_enabled") is True
    paths = ["settings.event_subscriptions.request_url", "settings.interactivity.request_url"]
    commands = _get_path(found, "features.slash_commands") or []
    paths += [f"features.slash_commands.{number}.url" for number in range(len(commands))]
    wrong = []
    for path in paths:
        url = _get_path(found, path)
        if socket and url is not None:
            wrong.append(f"{path} is not used in Socket Mode")
        if not socket and not (isinstance(url, str) and url.startswith("https://")):
            wrong.append(f"{path} must be an https address")
    return wrong


def _get_path(value: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value
