"""An auditor in Slack: every command of the help is typed, and a button is pressed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from adapters.slack.commands import HELP
from gateway.domain.records import AUDITOR
from gateway.models import Status
from tests.slack.office import PEOPLE, ROUTE, Office
from tests.slack.test_away import says

VERBS = sorted({*re.findall(r"^/approvals ([a-z]+)", HELP, re.MULTILINE), "back"})
QUIET = {"list", "show", "grants", "login", "who", "here", "me"}
"""Commands that read, and those that need a code that an operator made for somebody else."""


@pytest.mark.parametrize("verb", VERBS)
async def test_no_command_changes_anything(office: Office, verb: str) -> None:
    """What an auditor types is answered, and refused in plain words if it would change anything."""
    people = tuple(replace(one, auditor=one.name == "eve") for one in PEOPLE)
    await office.world.put(people=people, routes=(replace(ROUTE, approvers=("ann", "bob", "eve")),))
    office.slack.workspace().channels["C1"].members.add("UEVE")
    eve = office.slack.person("UEVE")
    record, message = await office.asked(tool="deploy")
    before = len(await office.world.events())
    rest = {
        "away": "until Mon 09:00 to @bob",
        "deny": f"{record.id} no",
        "revoke": "all",
        "here": "CODE",
        "me": "CODE",
    }.get(verb, record.id)
    text = f"{verb} {rest}"
    if verb in QUIET:
        await eve.slash("/approvals", text, "C1")
    else:
        said = await says(eve, text)
        assert AUDITOR in said[0].lower() + said[1:], said
    await eve.click(message, "Approve")
    await office.settled()
    after = {one.type for one in (await office.world.events())[before:]}
    assert after <= {"refused", "login_link_made", "delivered"}
    assert (await office.world.core.requests.get(record.id)).status is Status.PENDING


def test_the_commands_are_those_of_the_help() -> None:
    """So a new command comes into the test above."""
    assert {"approve", "deny", "revoke", "away", "back"} | QUIET == set(VERBS)
