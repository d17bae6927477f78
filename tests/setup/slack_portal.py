"""Slack's portal for apps, api.slack.com/apps, in a browser that is signed in to one workspace.

Each method is one act. Where each is known from: the guide to manifests, docs.slack.dev
/app-manifests/configuring-apps-with-app-manifests; Bolt's first page, docs/english
/getting-started.md in slackapi/bolt-python, its part "Browser"; and for what both leave out, set-up
pages of products, named below.
"""

from __future__ import annotations

import json
import secrets
from urllib.parse import parse_qs, urlsplit

from tests.setup.slack_manifest import Json, find_refusals
from tests.setup.way import TERMINAL, PortalRefuses, Way
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Workspace

PORTAL = "Slack's portal"
_APPS = "https://api.slack.com/apps"
_LONGEST = 8_000  # characters of a link: what web servers commonly take
_NEW, _SUMMARY = "the form for a new app", "the summary of a new app"
_BASIC, _OAUTH = "Basic Information", "OAuth & Permissions"
_CONSENT, _GENERATE, _GENERATED = "the consent page", "the form for a token", "the new token"


class SlackPortal:
    """Makes one app in the counterpart, as its manifest says."""

    def __init__(self, way: Way, slack: Slack, team: str) -> None:
        self._way, self._slack = way, slack
        self._workspace = slack.workspace(team)
        self._page = ""
        self._manifest: Json = {}
        self._scopes: list[str] = []
        self.installed: Json | None = None  # the manifest of the app that is in the workspace
        self._workspace.bot_token = secrets.token_hex()  # nobody knows it: there is no app yet
        slack.state.app_id, slack.state.app_token = "", secrets.token_hex()

    @property
    def workspace(self) -> Workspace:
        """Where the app goes."""
        return self._workspace

    def open(self, link: str) -> None:
        """Click a link in the terminal. `new_app=1&manifest_json=…` opens the form for a new app
        with the manifest in it: many products use it, such as Blink's `createSlackAppUrl`."""
        self._way.act(TERMINAL, f"open {link[:60]}", link=True)
        app, query = self._slack.state.app_id, parse_qs(urlsplit(link).query)
        if app and link == f"{_APPS}/{app}/general":
            self._page = _BASIC
        elif (
            link.startswith(f"{_APPS}?new_app=1&manifest_json=%7B")
            and set(query) == {"new_app", "manifest_json"}
            and len(link) <= _LONGEST
        ):
            self._manifest, self._page = json.loads(query["manifest_json"][0]), _NEW
        else:
            raise PortalRefuses(f"the portal has no such page: {link}")

    # A new app

    def choose_workspace(self) -> None:
        """Choose the workspace in a menu. The guide: "pick a development workspace"."""
        self._press(f"choose the workspace {self._workspace.id}", on=_NEW)

    def press_next(self) -> None:
        """The guide: "and click Next". Here Slack checks the manifest."""
        self._press("Next", on=_NEW, to=_SUMMARY)
        if refusals := find_refusals(self._manifest):
            raise PortalRefuses(f"Slack refuses the manifest: {refusals}")

    def press_create(self) -> None:
        """The guide: "Review … the summary and click Create". Bolt's page: "You'll then land on
        your app's Basic Information page"."""
        self._press("Create", on=_SUMMARY, to=_BASIC)
        self._slack.state.app_id = f"A0{secrets.token_hex(4).upper()}"
        self._slack.sockets.off = not self._manifest["settings"]["socket_mode_enabled"]

    # The bot's token

    def go_to_oauth(self) -> None:
        """Bolt's page: "Navigate to the OAuth & Permissions on the left sidebar"."""
        self._press("OAuth & Permissions", on=_BASIC, to=_OAUTH)

    def press_install(self) -> None:
        """Bolt's page: "and install your app to your workspace to generate a token"."""
        self._press("Install to Workspace", on=_OAUTH, to=_CONSENT)

    def press_allow(self) -> None:
        """Bolt's page: "After authorizing the installation, you'll return to the OAuth &
        Permissions page". The button is Allow: docs.synqly.com, "Slack Notification Setup"."""
        self._press("Allow", on=_CONSENT, to=_OAUTH)
        self._workspace.bot_token = f"xoxb-{secrets.randbelow(10**12)}-{secrets.token_hex(12)}"
        self._workspace.scopes = ",".join(self._manifest["oauth_config"]["scopes"]["bot"])
        self.installed = self._manifest

    def copy_bot_token(self) -> str:
        """Bolt's page: "Copy the bot token beginning with xoxb"."""
        self._press("copy the Bot User OAuth Token", on=_OAUTH)
        if self.installed is None:
            raise PortalRefuses("there is no token before the app is installed")
        return self._workspace.bot_token

    # The app-level token

    def press_generate_token(self) -> None:
        """Bolt's page: "scroll to the App-Level Tokens section and click Generate Token and
        Scopes"."""
        self._press("Generate Token and Scopes", on=_BASIC, to=_GENERATE)

    def name_token(self, name: str) -> None:
        """Bolt's page: "Name the token"; the form takes none without a name."""
        self._press(f"type the name {name}", on=_GENERATE)

    def press_add_scope(self) -> None:
        """Cortex XSOAR's page for SlackV3: "click Add Scope"."""
        self._press("Add Scope", on=_GENERATE)

    def choose_scope(self, scope: str) -> None:
        """The same page: "Select the connections:write scope from the list"."""
        self._press(f"choose {scope}", on=_GENERATE)
        self._scopes.append(scope)

    def press_generate(self) -> None:
        """Bolt's page: "then click Generate"."""
        self._press("Generate", on=_GENERATE, to=_GENERATED)
        if not self._scopes:
            raise PortalRefuses("a token needs a scope")
        state = self._slack.state
        state.app_token = f"xapp-1-{state.app_id}-{secrets.randbelow(10**12)}-{secrets.token_hex()}"
        if "connections:write" not in self._scopes:
            self._slack.sockets.refuses = "missing_scope"

    def copy_app_token(self) -> str:
        """Cortex XSOAR's page for SlackV3: "Copy this token"."""
        self._press("copy the app-level token", on=_GENERATED)
        return self._slack.state.app_token

    def _press(self, words: str, *, on: str, to: str = "") -> None:
        """Do an act on a page, which may lead to another page."""
        if self._page != on:
            raise PortalRefuses(f"{words!r} is on {on}, and this is {self._page or 'no page'}")
        self._way.act(PORTAL, words)
        self._page = to or on
