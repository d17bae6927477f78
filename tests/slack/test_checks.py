"""What `gateway doctor` says about Slack, and the page that leads to a first approval."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from adapters.slack import SlackAdapter
from adapters.slack.settings import SlackSettings
from gateway.errors import InvalidRequest
from gateway.models import new_id
from gateway.ports.adapters import FAIL, OK, WARN
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.office import at_work, environment, shown, told
from tests.slack.test_surfaces import OAUTH, install
from tests.world import World

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "slack.md").read_text(encoding="utf-8")
CHANNEL = ("slack:T1/C1",)


async def results(
    slack: Slack, *targets: str, live: bool = False, env: dict[str, str] | None = None
) -> dict[str, tuple[str, str]]:
    """Return result and words of every check, where the one workspace's token is set."""
    notes: Any = None  # what workspaces install is kept there
    with environment(slack, **(env or {})):
        found = await SlackAdapter().checks(dict.fromkeys(targets or CHANNEL, ()), notes, live=live)
    return {name: (finding.result, finding.says) for name, finding in found}


async def lived(slack: Slack, notes: Any, *targets: str, **env: str) -> list[tuple[str, str]]:
    """Return result and words of what `--live` tried."""
    with environment(slack, **env):
        found = await SlackAdapter().checks(dict.fromkeys(targets, ()), notes, live=True)
    return [(one.result, one.says) for name, one in found if name == "slack live"]


async def test_all_is_well(slack: Slack) -> None:
    """Right tokens, scopes and channel: every check that the page names is ok."""
    found = await results(slack, live=True)
    assert {name: result for name, (result, _) in found.items()} == dict.fromkeys(found, OK)
    documented = set(re.findall(r"`(slack [a-z]+)`", PAGE.partition("## Checks\n")[2]))
    assert set(found) == documented


@pytest.mark.parametrize(
    ("env", "check", "said"),
    [
        ({"BOT_TOKEN": "xoxb-wrong"}, "slack tokens", "invalid_auth"),
        ({"APP_TOKEN": "xapp-wrong"}, "slack tokens", "invalid_auth"),
        ({"APP_TOKEN": ""}, "slack settings", "GATEWAY_SLACK_APP_TOKEN"),
    ],
)
async def test_wrong_settings_are_named(
    slack: Slack, env: dict[str, str], check: str, said: str
) -> None:
    """A wrong or missing token fails its check, with what Slack says."""
    found = await results(slack, env={f"GATEWAY_SLACK_{name}": text for name, text in env.items()})
    assert found[check][0] == FAIL
    assert said in found[check][1]


async def test_a_slack_that_is_away_asks_for_no_other_token(slack: Slack) -> None:
    """Another token does not mend a network."""
    slack.faults.plan("auth.test", Fault.UNAVAILABLE, times=100)
    notes: Any = None
    with environment(slack):
        found = dict(await SlackAdapter().checks(dict.fromkeys(CHANNEL, ()), notes, live=False))
    assert found["slack tokens"].result == FAIL
    assert "network" in found["slack tokens"].remedy


async def test_channels_are_looked_at(slack: Slack) -> None:
    """Not invited, unknown, archived, deactivated, of another workspace: each is said."""
    slack.channel("C2").members.clear()
    slack.channel("C3").archived = True
    slack.person("UGONE").user.deleted = True
    for target, said in (
        ("slack:T1/C2", "the app is not in"),
        ("slack:T1/C9", "channel_not_found"),
        ("slack:T1/C3", "is archived"),
        ("slack:T1/UGONE", "is deactivated"),
        ("slack:T2/C1", "the gateway has no token"),
        ("slack:general", "is not a Slack target"),
    ):
        result, words = (await results(slack, target))["slack channels"]
        assert (result, said in words) == (FAIL, True), target
    assert (await results(slack, "slack:T1/UANN"))["slack channels"][0] == OK


async def test_scopes_and_tokens_of_two_apps(slack: Slack) -> None:
    """A scope that only some features need is a warning; tokens of two apps fail."""
    slack.workspace().scopes = "chat:write,commands,users:read"
    assert (await results(slack))["slack scopes"][0] == WARN
    slack.workspace().scopes = "chat:write"
    assert (await results(slack))["slack scopes"][0] == FAIL


async def test_live_takes_away_what_it_posted(slack: Slack) -> None:
    """The rehearsal leaves nothing, also when Slack refuses a step, which is named."""
    assert (await results(slack, live=True))["slack live"][0] == OK
    slack.faults.plan("chat.update", Fault.ERROR, error="block_mismatch")
    result, words = (await results(slack, live=True))["slack live"]
    assert (result, words) == (FAIL, "T1/C1: edit: Slack returned the error block_mismatch")
    assert slack.workspace().channels["C1"].messages == {}


async def test_live_tries_each_channel_once(slack: Slack, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each: threads of one channel count once, people not at all, one that fails stops no
    other, and what is too much for one command is named."""
    monkeypatch.setattr("adapters.slack.checks.MOST_CHANNELS", 2)
    for name in ("C2", "C3"):
        slack.channel(name)
    slack.channel("C2").archived = True
    targets = [f"slack:T1/{name}" for name in ("C1", "C1/1.000001", "UANN", "C2", "C3", "general")]
    tried = await lived(slack, None, *targets)
    assert tried == [
        (OK, "T1/C1: a card was posted, edited, given a file and deleted"),
        (FAIL, "T1/C2: post: Slack returned the error is_archived"),
        (WARN, "only 2 channels are tested; not tested: T1/C3"),
    ]
    assert len(slack.state.called("blocks.validate")) > 0
    assert slack.workspace().channels["C1"].messages == {}


async def test_live_tries_each_workspace(slack: Slack, world: World) -> None:
    """By OAuth each with the token that it gave; one that gave none is named, with what to do."""
    slack.channel("C2", team="T2")
    targets = ("slack:T1/C1", "slack:T2/C2", "slack:T3/C3")
    async with at_work(slack, world, env=OAUTH) as office:
        assert (await install(slack, "T1"), await install(slack, "T2")) == (200, 200)
        tried = await lived(slack, office.api.notes, *targets, **OAUTH)
        assert [one[:8] for _, one in tried] == ["T1/C1: a", "T2/C2: a"]
        assert {result for result, _ in tried} == {OK}
        slack.workspace("T2").error = "token_revoked"
        found = await SlackAdapter().checks(
            dict.fromkeys(targets, ()), office.api.notes, live=False
        )
    said = [f"{name}: {one.says}" for name, one in found if one.result == FAIL]
    assert said == [
        "slack tokens: the bot token of T2: Slack returned the error token_revoked",
        "slack tokens: the app is not installed in the Slack workspace T3",
        "slack channels: slack:T2/C2 is in a workspace for which the gateway has no token; "
        "slack:T3/C3 is in a workspace for which the gateway has no token",
    ]


async def test_live_says_what_it_could_not_take_away(slack: Slack) -> None:
    """A sample card that stays is told: somebody has to delete it."""
    slack.faults.plan("chat.delete", Fault.ERROR, error="cant_delete_message")
    (tried,) = await lived(slack, None, *CHANNEL)
    assert tried[0] == FAIL
    assert (
        "the sample card could not be deleted: Slack returned the error cant_delete_message"
        in tried[1]
    )


async def test_oauth_needs_no_bot_token(slack: Slack) -> None:
    """Where workspaces install the app themselves, that is said."""
    found = await results(
        slack,
        "slack:general",
        env={
            "GATEWAY_SLACK_BOT_TOKEN": "",
            "GATEWAY_SLACK_CLIENT_ID": "1",
            "GATEWAY_SLACK_CLIENT_SECRET": "2",
            "GATEWAY_PUBLIC_URL": "https://gateway.example",
        },
    )
    assert "OAuth" in found["slack tokens"][1]


def test_every_setting_is_documented() -> None:
    """Page and .env.example name every setting of the adapter."""
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    for member, field in SlackSettings.model_fields.items():
        name = str(field.validation_alias or f"GATEWAY_SLACK_{member.upper()}")
        assert name in PAGE, name
        assert name in example, name


def test_secrets_come_from_files(
    slack: Slack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each secret may stand in a file, and none is shown by repr."""
    (tmp_path / "token").write_text("xoxb-from-file\n")
    monkeypatch.setenv("GATEWAY_SLACK_BOT_TOKEN_FILE", str(tmp_path / "token"))
    found = SlackSettings()
    assert found.bot_token is not None
    assert found.bot_token.get_secret_value() == "xoxb-from-file"
    assert "xoxb" not in repr(found)


def blocks(kind: str) -> list[str]:
    """Return the page's fenced blocks of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def run(folder: Path, line: str, env: dict[str, str]) -> tuple[int, str]:
    """Run one line of the page in a shell that finds `gateway`, where nobody can type; return exit
    code and output."""
    process = await asyncio.create_subprocess_shell(
        line,
        cwd=folder,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


def test_the_page_begins_with_the_command_and_is_short() -> None:
    """One command, then what it asks for; at most 900 words."""
    assert PAGE.startswith("# Slack\n\n```sh\ngateway slack setup\n```\n")
    assert len(PAGE.split()) <= 900


@pytest.mark.thorough
async def test_the_page_leads_to_a_first_approval(slack: Slack, tmp_path: Path) -> None:
    """Every command of its first section, without a terminal: set-up beside a gateway that runs, a
    code typed in the channel, the operator's yes, doctor, a request, a tap, exit 0."""
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "GATEWAY_PORT": "0",
        "GATEWAY_NAMESPACE": f"t{new_id()[:8]}",
        "GATEWAY_SLACK_API_URL": slack.api_url,
    }
    tokens = {
        "GATEWAY_SLACK_BOT_TOKEN": slack.workspace().bot_token,
        "GATEWAY_SLACK_APP_TOKEN": slack.state.app_token,
    }
    setup, claims, doctor, *_ = (block.strip() for block in blocks("sh"))
    listed, approved = claims.splitlines()
    ann = slack.person("UANN")
    up = await asyncio.create_subprocess_exec(
        "gateway", "up", cwd=tmp_path, env=env, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert up.stderr is not None
        async with asyncio.timeout(40):
            while "is ready" not in (await up.stderr.readline()).decode():
                assert up.returncode is None
        code, out = await run(tmp_path, setup, {**env, **tokens})
        assert code == 0, out
        found = re.search(r"/approvals here (\S{4}-\S{4})$", out, re.MULTILINE)
        assert found, out
        await ann.slash("/approvals", f"here {found[1]}", "C1")
        await told(ann, "Your number is")
        code, out = await run(tmp_path, listed, env)
        assert "Ann (@ann, full member, UANN) in #name-c1 of Team T1 (3 members, not shared)" in out
        number = ann.private()[-1].removeprefix("Your number is ")[:2]
        assert f"private reply: {number}" in out
        code, out = await run(tmp_path, approved.replace("ID", out.split()[0]), env)
        assert code == 0, out
        code, out = await run(tmp_path, doctor, env)
        assert "FAIL slack" not in out
        assert "OK   slack live" in out, out
        asking = asyncio.create_task(run(tmp_path, "gateway ask shell -- make release", env))
        await slack.until(lambda: slack.messages("C1"), seconds=30)
        (message,) = slack.messages("C1")
        await ann.click(message, "Approve")
        code, out = await asking
        assert code == 0, out
        await slack.until(lambda: "Approved by ann" in shown(message))
    finally:
        up.terminate()
        await up.wait()


async def test_the_command_checks_a_target(
    slack: Slack, capsys: pytest.CaptureFixture[str]
) -> None:
    """As doctor does, with one line for each check; a target that takes no cards ends it with 1."""
    parser = argparse.ArgumentParser()
    SlackAdapter().commands(parser.add_subparsers())
    with environment(slack):
        options = parser.parse_args(["check", "slack:T1/C1"])
        assert await options.run(options) == 0
        said = capsys.readouterr().out
        assert "ok   slack channels: 1 reachable" in said
        slack.workspace().channels["C1"].archived = True
        assert await options.run(options) == 1
        assert "fail slack channels: slack:T1/C1 is archived; invite" in capsys.readouterr().out
    with environment(slack, **OAUTH), pytest.raises(InvalidRequest, match="gateway doctor"):
        await options.run(options)
