"""What a client sends when someone clicks, submits, closes or types a command: full field sets."""

from __future__ import annotations

from dataclasses import dataclass

from tests.slack.counterpart import views
from tests.slack.counterpart.methods import shown
from tests.slack.counterpart.state import Json, Message, State, User, View, Workspace


@dataclass(frozen=True)
class Payloads:
    """Words what one person does in one workspace."""

    state: State
    workspace: Workspace
    user: User

    def _common(self, kind: str) -> Json:
        return {
            "type": kind,
            "team": {"id": self.workspace.id, "domain": self.workspace.id.lower()},
            "user": {
                "id": self.user.id,
                "username": self.user.name,
                "name": self.user.name,
                "team_id": self.user.team,
            },
            "api_app_id": self.state.app_id,
            "token": "unused",
            "enterprise": None,
            "is_enterprise_install": False,
        }

    def on_message(
        self,
        channel: str,
        message: Message,
        block: Json,
        element: Json,
        option: Json | None = None,
    ) -> Json:
        """A click on a button of a message, or the choice of an option in a menu."""
        trigger = views.new_trigger(self.state, self.workspace, self.user.id)
        answers = views.new_response_url(
            self.state, self.workspace, channel, self.user.id, message.ts
        )
        return {
            **self._common("block_actions"),
            "container": {
                "type": "message",
                "message_ts": message.ts,
                "channel_id": channel,
                "is_ephemeral": False,
            },
            "trigger_id": trigger,
            "channel": {"id": channel, "name": "directmessage" if channel[0] == "D" else "ops"},
            "message": shown(message, self.workspace),
            "state": {"values": {}},
            "response_url": answers,
            "actions": [self._action(block, element, option)],
        }

    def on_shortcut(self, channel: str, message: Message, callback: str) -> Json:
        """A shortcut of the app used on a message."""
        answers = views.new_response_url(
            self.state, self.workspace, channel, self.user.id, message.ts
        )
        return {
            **self._common("message_action"),
            "callback_id": callback,
            "action_ts": self.state.stamp(),
            "trigger_id": views.new_trigger(self.state, self.workspace, self.user.id),
            "response_url": answers,
            "channel": {"id": channel, "name": "ops"},
            "message_ts": message.ts,
            "message": shown(message, self.workspace),
        }

    def on_view(self, view: View, block: Json, element: Json) -> Json:
        """A click on a button of a modal or the Home tab."""
        return {
            **self._common("block_actions"),
            "container": {"type": "view", "view_id": view.id},
            "trigger_id": views.new_trigger(self.state, self.workspace, self.user.id, view.id),
            "view": views.shown(view, self.workspace, self.state),
            "actions": [self._action(block, element)],
        }

    def _action(self, block: Json, element: Json, option: Json | None = None) -> Json:
        action = {
            "action_id": element.get("action_id", "auto"),
            "block_id": block.get("block_id", "auto"),
            "type": element["type"],
            "action_ts": self.state.stamp(),
        }
        if option is not None:
            return action | {"selected_option": option}
        return action | {
            "text": {"emoji": True, **element["text"]},
            "value": element.get("value", ""),
        }

    def submission(self, view: View) -> Json:
        """A modal submitted."""
        return {
            **self._common("view_submission"),
            "trigger_id": views.new_trigger(self.state, self.workspace, self.user.id, view.id),
            "view": views.shown(view, self.workspace, self.state),
            "response_urls": [],
        }

    def closed(self, view: View) -> Json:
        """A modal closed."""
        shown_view = views.shown(view, self.workspace, self.state)
        return {**self._common("view_closed"), "view": shown_view, "is_cleared": False}

    def command(self, command: str, text: str, channel: str) -> Json:
        """A slash command typed."""
        direct = channel.startswith("D")
        return {
            "token": "unused",
            "team_id": self.workspace.id,
            "team_domain": self.workspace.id.lower(),
            "channel_id": channel,
            "channel_name": "directmessage" if direct else "ops",
            "user_id": self.user.id,
            "user_name": self.user.name,
            "command": command,
            "text": text,
            "api_app_id": self.state.app_id,
            "is_enterprise_install": "false",
            "response_url": views.new_response_url(
                self.state, self.workspace, channel, self.user.id, None
            ),
            "trigger_id": views.new_trigger(self.state, self.workspace, self.user.id),
        }
