"""The server that most tests use."""

from __future__ import annotations

from dataclasses import dataclass

from tests.discord.person import Person
from tests.discord.server import FakeDiscord
from tests.discord.town import Application, Channel, Guild


@dataclass
class Server:
    """A Discord with the server Acme: its channel `approvals`, a bot in it, ann, bob and eve."""

    discord: FakeDiscord
    guild: Guild
    channel: Channel
    app: Application
    ann: Person
    bob: Person
    eve: Person


def furnished(fake: FakeDiscord) -> Server:
    """Make the server that most tests use; its owner is nobody's approver."""
    owner = fake.town.user("owner")
    guild = fake.town.guild("Acme", owner)
    app = fake.application("gateway", owner)
    fake.town.join(guild, app.user)
    people = [fake.person(name) for name in ("ann", "bob", "eve")]
    for person in people:
        fake.town.join(guild, person.user)
    channel = fake.town.channel(guild, "approvals")
    return Server(fake, guild, channel, app, *people)
