"""docs/guides/incidents.md: its procedures, typed in their order, stop what they say they stop."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import shell, up
from tests.cli.shell import Shell
from tests.cli.test_cli import until_refused
from tests.frame.tree import ROOT

__all__ = ["shell", "up"]

PAGE = (ROOT / "docs" / "guides" / "incidents.md").read_text(encoding="utf-8")
TYPED = re.compile(r"`gateway ([^`]+)`|^ *gateway (.+)$", re.MULTILINE)


def commands(heading: str) -> list[str]:
    """Return the commands of an entry, in order, without the word `gateway`."""
    _, _, rest = PAGE.partition(f"\n### {heading}\n")
    return [found[1] or found[2] for found in TYPED.finditer(rest.partition("\n### ")[0])]


@pytest.fixture
def agent(up: Shell) -> dict[str, str]:
    """Return the environment of an agent on another machine."""
    token = json.loads(up.run("agent", "add", "ci", "--json"))["token"]
    announced = Path(up.env["GATEWAY_DATA_DIR"]) / "gateway.json"
    url = json.loads(announced.read_text(encoding="utf-8"))["url"]
    return {"GATEWAY_URL": url, "GATEWAY_TOKEN": token, "GATEWAY_AGENT": "ci"}


def ask(up: Shell, agent: dict[str, str]) -> str:
    """Ask as the agent without waiting; return the id of the request."""
    said = up.run("ask", "shell", "--no-wait", "--", "ls", code=6, env=agent)
    return str(json.loads(said)["id"])


def test_a_wrong_approval_is_voided(up: Shell, agent: dict[str, str]) -> None:
    """No agent can claim it while the kill switch is on, nor after the page's last step."""
    stop, show, revoke, listing, grant, resume = commands("A person approved the wrong call")
    assert [stop, show, revoke, resume] == ["stop-all", "show ID", "agent revoke NAME", "resume"]
    assert [listing, grant] == ["grant list", "grant revoke ID"]
    wrong = ask(up, agent)
    up.run("approve", wrong, "--remember")
    up.run(*stop.split())
    assert up.call("wait", wrong, env=agent)[0] != 0
    assert "approved" in up.run("show", wrong)
    made = up.run(*listing.split()).split()[0]
    up.run(*grant.replace("ID", made).split())
    up.run("agent", "revoke", "ci")
    while (code := up.call("wait", wrong, env=agent)[0]) != 9:  # within a second
        assert code != 0
    up.run(*resume.split())
    again = json.loads(up.run("agent", "add", "ci", "--json"))["token"]
    assert up.call("wait", wrong, env={**agent, "GATEWAY_TOKEN": again})[0] != 0


def test_an_approval_is_claimed_without_these_steps(up: Shell, agent: dict[str, str]) -> None:
    """So the test above proves something."""
    wrong = ask(up, agent)
    up.run("approve", wrong)
    up.run("wait", wrong, env=agent)


def test_a_leaked_token_ends(up: Shell, agent: dict[str, str]) -> None:
    """The old token is refused, the new one asks, and the lists have what the old one did."""
    rotate, history, pending, revoke = commands("An agent's token leaked")
    assert (rotate, revoke) == ("agent rotate NAME --now", "agent revoke NAME")
    assert (history, pending) == ("history", "pending")
    asked = ask(up, agent)
    rotated = json.loads(up.run("agent", "rotate", "ci", "--now", "--json"))["token"]
    until_refused(up, agent)
    assert asked in up.run("pending")
    up.run("deny", asked)
    assert asked in up.run("history")
    assert ask(up, {**agent, "GATEWAY_TOKEN": rotated})


def test_everything_stops_and_goes_on(up: Shell, agent: dict[str, str]) -> None:
    """Pending and new requests are denied; after `resume` people are asked again."""
    stop, resume = commands("Stop everything")
    pending = ask(up, agent)
    up.run(*stop.split())
    assert up.call("ask", "shell", "--", "ls", env=agent)[0] == 1
    while "pending" in (shown := up.run("show", pending)):  # within a second
        pass
    assert "denied" in shown
    up.run(*resume.split())
    assert ask(up, agent)


def test_a_lost_phone_is_signed_out(up: Shell) -> None:
    """The commands of the entry are those that the tests of each command run."""
    devices, login, rotate, history = commands("A person lost a phone")
    assert (devices, history) == ("devices NAME --end-all", "history")
    up.run(*devices.replace("NAME", "owner").split())
    assert "/inbox/login#code=" in up.run(*login.replace("NAME", "owner").split())
    up.run("approver", "add", "ana")
    assert "agw_" in up.run(*rotate.replace("NAME", "ana").split())
