"""Modals and Home tabs: triggers that live 3 seconds, hashes, a stack of three views."""

from __future__ import annotations

import json
from typing import Any

from tests.slack.counterpart.blocks import Checker, units
from tests.slack.counterpart.state import (
    Json,
    Refused,
    ResponseUrl,
    State,
    Trigger,
    View,
    Workspace,
)

TRIGGER_SECONDS = 3.0
MOST_VIEW_BYTES = 250_000


def new_trigger(state: State, workspace: Workspace, user: str, view: str | None = None) -> str:
    """Return a fresh trigger_id of something a person just did."""
    name = f"{state.number()}.{workspace.id}.{user}"
    state.triggers[name] = Trigger(team=workspace.id, user=user, at=state.hands.now(), view=view)
    return name


def new_response_url(state: State, workspace: Workspace, channel: str, user: str, ts: Any) -> str:
    """Return a fresh response_url of something a person just did."""
    name = f"r{state.number()}"
    state.response_urls[name] = ResponseUrl(
        team=workspace.id, channel=channel, user=user, ts=ts, at=state.hands.now()
    )
    return f"{state.url}response/{name}"


def use_trigger(state: State, workspace: Workspace, name: Any) -> Trigger:
    """Use up a trigger_id, or refuse."""
    trigger = state.triggers.get(name) if isinstance(name, str) else None
    if trigger is None or trigger.team != workspace.id:
        raise Refused("invalid_trigger_id")
    if trigger.used:
        raise Refused("exchanged_trigger_id")
    if state.hands.now() - trigger.at > TRIGGER_SECONDS + state.hands.grace:
        raise Refused("expired_trigger_id")
    trigger.used = True
    return trigger


def checked_view(view: Any, kind: str) -> Json:
    """Return a view that Slack would show, or refuse."""
    if isinstance(view, str):
        view = _parsed(view)
    if not isinstance(view, dict):
        raise Refused("invalid_arguments", "[ERROR] view must be an object")
    if len(json.dumps(view).encode()) > MOST_VIEW_BYTES:
        raise Refused("view_too_large")
    problems = Checker(kind).check(view.get("blocks"))
    if view.get("type") != kind:
        problems.append(f"[ERROR] unsupported view type: {view.get('type')}")
    if kind == "modal":
        problems += _modal_texts(view)
    for name, most in (("private_metadata", 3000), ("callback_id", 255), ("external_id", 255)):
        if units(view.get(name, "")) > most:
            problems.append(f"[ERROR] must be less than {most + 1} characters [/view/{name}]")
    if problems:
        raise Refused("invalid_arguments", *problems)
    return view


def _parsed(view: str) -> Any:
    try:
        return json.loads(view)
    except ValueError:
        raise Refused("invalid_arguments", "[ERROR] view is not JSON") from None


def _modal_texts(view: Json) -> list[str]:
    problems = []
    if "title" not in view:
        problems.append("[ERROR] missing required field: title [json-pointer:/view]")
    for name in ("title", "submit", "close"):
        if name in view and not 1 <= units(view[name].get("text", "")) <= 24:
            problems.append(f"[ERROR] must be less than 25 characters [/view/{name}/text]")
    inputs = any(block.get("type") == "input" for block in view.get("blocks", []))
    if inputs and "submit" not in view:
        problems.append("[ERROR] `submit` is required when an `input` is used [/view/submit]")
    return problems


def shown(view: View, workspace: Workspace, state: State) -> Json:
    """Return the view object of the Web API."""
    values = {"private_metadata": "", "callback_id": "", **view.view}
    return {
        **values,
        "id": view.id,
        "team_id": workspace.id,
        "app_id": state.app_id,
        "bot_id": workspace.bot_id,
        "hash": view.hash,
        "root_view_id": view.root,
        "previous_view_id": view.previous,
        "state": {"values": view.state},
    }


def opened(
    state: State, workspace: Workspace, trigger_id: Any, content: Any, *, push: bool
) -> View:
    """Open a modal, or push one on the open stack."""
    checked = checked_view(content, "modal")
    trigger = use_trigger(state, workspace, trigger_id)
    stack = [view for view in workspace.views.values() if view.user == trigger.user]
    if push and not stack:
        raise Refused("not_found")
    if push and len(stack) >= 3:
        raise Refused("push_limit_reached")
    if not push:
        for view in stack:
            del workspace.views[view.id]
    return placed(state, workspace, trigger.user, checked, stack[-1] if push else None)


def placed(
    state: State, workspace: Workspace, user: str, content: Json, previous: View | None
) -> View:
    """Put a view on a person's screen."""
    name = f"V{state.number()}"
    view = View(
        id=name,
        user=user,
        view=content,
        hash=f"{state.number()}.hash",
        root=previous.root if previous else name,
        previous=previous.id if previous else None,
    )
    workspace.views[name] = view
    state.ring()
    return view


def updated(state: State, workspace: Workspace, arguments: Json) -> View:
    """Replace a modal's content, if the hash given is the one it has."""
    view = workspace.views.get(arguments.get("view_id") or "")
    content = checked_view(arguments.get("view"), "modal")
    if view is None:
        raise Refused("not_found")
    replaced(state, view, content, arguments.get("hash"))
    return view


def replaced(state: State, view: View, content: Json, seen: Any) -> None:
    """Replace a view's content; what was typed under unchanged ids stays."""
    if seen and seen != view.hash:
        raise Refused("hash_conflict")
    kept = {block.get("block_id") for block in content["blocks"]}
    view.state = {name: values for name, values in view.state.items() if name in kept}
    view.view, view.hash = content, f"{state.number()}.hash"
    state.ring()


def published(state: State, workspace: Workspace, arguments: Json) -> View:
    """Publish a Home tab."""
    user = workspace.user(arguments.get("user_id")).id
    content = checked_view(arguments.get("view"), "home")
    view = workspace.homes.get(user)
    if view is None:
        name = f"V{state.number()}"
        view = View(id=name, user=user, view=content, hash=f"{state.number()}.hash", root=name)
        workspace.homes[user] = view
        state.ring()
        return view
    replaced(state, view, content, arguments.get("hash"))
    return view
