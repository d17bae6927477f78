"""Discord's developer portal and its page for adding a bot, in a browser that is signed in.

Each method is one act. Where each is known from: disnake's guide, guide.disnake.dev/prerequisites
/creating-your-application; DisCatSharp's page "Creating a Bot Account"; the set-up page of Hermes
Agent for Discord, its part "Invite to Your Server"; and what is named below. Now and then Discord
shows a captcha as well: no product can know when.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from tests.discord.server import FakeDiscord
from tests.discord.town import PERMISSIONS, Application, Guild, User
from tests.setup.way import TERMINAL, PortalRefuses, Way

PORTAL = "Discord's portal"
_APPLICATIONS = "https://discord.com/developers/applications"
_NEW, _GENERAL, _BOT = "the form for a new application", "General Information", "the page Bot"
_SURE, _PASSWORD, _TOKEN = "the question before a reset", "the question who it is", "the new token"
_ADD, _CONSENT, _ADDED = "the page that adds a bot", "the list of permissions", "the last page"
_KNOWN = sum(PERMISSIONS.values())


class DiscordPortal:
    """Makes one bot in the counterpart, and adds it to a server with what its link asks for."""

    def __init__(self, way: Way, discord: FakeDiscord, user: User) -> None:
        self._way, self._discord, self._user = way, discord, user
        self._page = self._name = ""
        self._agreed = False
        self._permissions = 0
        self._guild: Guild | None = None
        self._app: Application | None = None

    @property
    def app(self) -> Application:
        """The bot that was made."""
        assert self._app is not None, "there is no application"
        return self._app

    def open(self, link: str) -> None:
        """Click a link in the terminal. `new_application=true` opens the form: the first page of
        Discord's own documentation begins with it."""
        self._way.act(TERMINAL, f"open {link[:60]}", link=True)
        parts = urlsplit(link)
        if link == f"{_APPLICATIONS}?new_application=true":
            self._page = _NEW
        elif (
            f"{parts.scheme}://{parts.netloc}{parts.path}" == "https://discord.com/oauth2/authorize"
        ):
            self._permissions, self._page = self._read_permissions(parse_qs(parts.query)), _ADD
        else:
            raise PortalRefuses(f"the portal has no such page: {link}")

    def _read_permissions(self, query: dict[str, list[str]]) -> int:
        """Return what a link asks for. A bot needs the scope bot, its commands theirs; with another
        type of answer there would have to be an address to return to."""
        if query.get("client_id") != [self.app.id] or self.app.code_grant:
            raise PortalRefuses(f"this link adds no bot: {query}")
        if set(query.get("scope", [""])[0].split()) != {"bot", "applications.commands"}:
            raise PortalRefuses(f"with these scopes it has no commands: {query}")
        if set(query) != {"client_id", "scope", "permissions"}:
            raise PortalRefuses(f"nobody knows what this link does: {query}")
        permissions = int(query["permissions"][0])
        if permissions & ~_KNOWN or permissions & PERMISSIONS["administrator"]:
            raise PortalRefuses(f"it asks for too much: {permissions}")
        return permissions

    # A new application, and its token

    def name_application(self, name: str) -> None:
        """DisCatSharp's page: "Enter your desired application name into the text box"."""
        self._press(f"type the name {name}", on=_NEW)
        self._name = name

    def accept_terms(self) -> None:
        """The same page: "accept the Developer Terms of Service and Developer Policy", a box to
        tick."""
        self._press("accept the terms", on=_NEW)
        self._agreed = True

    def press_create(self) -> None:
        """The same page: "and hit the Create button. … you'll be taken to the application page"."""
        self._press("Create", on=_NEW, to=_GENERAL)
        if not (self._name and self._agreed):
            raise PortalRefuses("it has no name, or the terms are not accepted")
        self._app = self._discord.application(self._name, self._user)
        self._discord.revoke(self._app)  # nobody was shown a token yet

    def go_to_bot(self) -> None:
        """disnake's guide: "Navigate to the Bot tab. A bot account is added automatically"."""
        self._press("Bot", on=_GENERAL, to=_BOT)

    def press_reset_token(self) -> None:
        """disnake's guide: "Copy the token by clicking Reset Token"."""
        self._press("Reset Token", on=_BOT, to=_SURE)

    def press_yes(self) -> None:
        """disnake's guide: "Click Yes, do it! when asked"."""
        self._press("Yes, do it!", on=_SURE, to=_PASSWORD)

    def type_password(self) -> None:
        """nextcord's page discord.html: "You will have to confirm and enter a 2FA Code"; without
        that, it is the password. Some are not asked, who were so a moment before."""
        self._press("type the password or a code", on=_PASSWORD, to=_TOKEN)
        self._discord.town.applications[self.app.token] = self.app

    def copy_token(self) -> str:
        """disnake's guide: "and then using the Copy button"."""
        self._press("copy the token", on=_TOKEN)
        return self.app.token

    # The bot in a server

    def choose_server(self, guild: Guild) -> None:
        """Hermes' page: "In the Add to Server dropdown, select your server"; it has those that one
        may manage."""
        self._press(f"choose the server {guild.name}", on=_ADD)
        if guild.owner is not self._user:
            raise PortalRefuses(f"{self._user.name} may not manage {guild.name}")
        self._guild = guild

    def press_continue(self) -> None:
        """Hermes' page: "Click Continue". Then the permissions are listed."""
        self._press("Continue", on=_ADD, to=_CONSENT)

    def press_authorize(self) -> None:
        """Hermes' page: "then Authorize". The bot gets a role with what the link asks for."""
        self._press("Authorize", on=_CONSENT, to=_ADDED)
        assert self._guild is not None, "no server is chosen"
        town = self._discord.town
        role = town.role(self._guild, self._name, permissions=self._permissions)
        town.join(self._guild, self.app.user, role)

    def _press(self, words: str, *, on: str, to: str = "") -> None:
        """Do an act on a page, which may lead to another page."""
        if self._page != on:
            raise PortalRefuses(f"{words!r} is on {on}, and this is {self._page or 'no page'}")
        self._way.act(PORTAL, words)
        self._page = to or on
