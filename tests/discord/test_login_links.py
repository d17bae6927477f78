"""`/inbox` in Discord: a link for whom the policy knows by their account, for them alone."""

from __future__ import annotations

import json
import re

import pytest

from tests.discord.ground import Ground
from tests.discord.stage import private_text, staged

pytestmark = pytest.mark.thorough


async def test_the_command_signs_its_caller_in(ground: Ground) -> None:
    """Bob gets a button with a link of his own; who is timed out, or whom the policy does not
    know any more, gets none."""
    server = ground.server
    async with staged(
        server,
        ground.url,
        ground.namespace,
        ground.folder,
        adapters=("web", "discord"),
        public_url="https://approvals.example",
    ) as stage:
        await server.discord.gateway.until(lambda: server.discord.gateway.connected > 0)
        done = await server.bob.command(server.app, server.channel, "inbox")
        assert "as bob. It works once, within 5 minutes" in private_text(done).replace("\\", "")
        link = r"https://approvals\.example/inbox/login#code=([\w-]+)"
        found = re.search(link, json.dumps(done.private))
        assert found
        logins = stage.gateway.backend.logins
        assert await logins.find_holder(found[1], address="") == "bob"
        member = server.guild.members[server.bob.id]
        member.timed_out_until = "2100-01-01T00:00:00+00:00"
        refused = await server.bob.command(server.app, server.channel, "inbox")
        assert "timed out" in private_text(refused)
        await stage.gateway.backend.credentials.revoke_approver("eve")
        refused = await server.eve.command(server.app, server.channel, "inbox")
        assert "Only people in the policy" in private_text(refused)
        assert len(await stage.events("login_link_made")) == 1
