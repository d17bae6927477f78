"""Somebody at Discord itself, who does what the terminal says."""

from __future__ import annotations

from tests.discord.messages import buttons
from tests.discord.person import NotShown, Person
from tests.discord.rest import settled
from tests.discord.stage import private_text
from tests.discord.town import Application, Channel, Json
from tests.setup.way import Way

CHAT = "Discord"


class DiscordClient:
    """Knows the bot by the commands that it has registered."""

    def __init__(self, way: Way, person: Person) -> None:
        self._way, self._person = way, person
        self._channel: Channel | None = None

    def open_channel(self, channel: Channel) -> None:
        """Click the channel in the sidebar: one act."""
        self._way.act(CHAT, f"open #{channel.name}")
        self._channel = channel

    async def type(self, app: Application, line: str) -> str:
        """Type a command and the value of its one option, `name:value`; return the private reply.

        An option that is required takes what is typed. Any other is a field of its own, so that to
        fill it is an act more, and without its name the client throws away what is typed or pasted
        behind the command (discord/discord-api-docs, issues 2585 and 2626).
        """
        await settled(lambda: bool(app.commands.get("")))
        command, _, typed = line.rpartition(" ")
        option = self._find_option(app, command.removeprefix("/"))
        value = typed.removeprefix(f"{option['name']}:")
        self._way.type(CHAT, command)
        if not option["required"]:
            self._way.type(CHAT, typed)
            if value == typed:
                raise NotShown(f"Discord sends {command} alone: {typed} names no option")
        given: dict[str, str | bool] = {option["name"]: value}
        name = command.removeprefix("/")
        done = await self._person.command(app, self._open, name, wait=True, **given)
        assert not done.failed
        return private_text(done).replace("\\", "")  # Discord shows none before a full stop

    async def press(self, app: Application, label: str) -> None:
        """Press a button of the first card, once it is there: one act."""
        await settled(lambda: bool(self._person.sees(self._open)))
        self._way.act(CHAT, label)
        (card,) = self._person.sees(self._open)
        assert label in buttons(card)
        done = await self._person.click(app, self._open, card, label)
        assert not done.failed

    def _find_option(self, app: Application, name: str) -> Json:
        """Return the one option of a subcommand, as the client shows it."""
        above, _, below = name.partition(" ")
        for command in app.commands[""]:
            for one in command.get("options", ()) if command["name"] == above else ():
                if one["name"] == below:
                    (option,) = one["options"]
                    return dict(option)
        raise NotShown(f"there is no command /{name}")

    @property
    def _open(self) -> Channel:
        assert self._channel is not None, "no channel is open"
        return self._channel
