"""`gateway team`: the files of a team's gateway, and the sign-in links of its people."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from gateway.cli.commands import read_env_file
from gateway.policy.policy_file_reader import read_policy_file
from tests.cli.shell import Shell
from tests.cli.tty import Tty

TOLD = ("--domain", "approvals.example", "--person", "ana", "--person", "ben", "--chat", "none")
IN_SLACK = (
    *("--domain", "approvals.example", "--chat", "slack", "--channel", "slack:T024BE7LD/C1H9RESGL"),
    *("--person", "ana=slack:T024BE7LD/U2147483697", "--person", "ben"),
)
TOKENS = {"GATEWAY_SLACK_BOT_TOKEN": "xoxb-1-hidden", "GATEWAY_SLACK_APP_TOKEN": "xapp-1-hidden"}
POLICY = Path("deploy", "policy", "policy.toml")
CADDYFILE = Path("deploy", "proxy", "Caddyfile")
SECRETS = Path("deploy", "secrets")


def init(
    shell: Shell, folder: Path, *words: str, code: int = 0, env: dict[str, str] | None = None
) -> str:
    """Run `gateway team init` for a folder; return what it printed."""
    return shell.run("team", "init", str(folder), *words, code=code, env=env)


def mode(path: Path) -> int:
    """Return who may read and write a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_every_file_is_written_with_comments(shell: Shell, tmp_path: Path) -> None:
    """The settings, the policy and the proxy's configuration can be read, and say what they are."""
    said = init(shell, tmp_path, *IN_SLACK, env=TOKENS)
    assert read_env_file(str(tmp_path / ".env")) == {
        "COMPOSE_PROFILES": "https,slack",
        "GATEWAY_PUBLIC_URL": "https://approvals.example",
        "GATEWAY_POLICY_FILE": "/policy/policy.toml",
    }
    policy = read_policy_file(tmp_path / POLICY)
    assert [(one.name, one.admin) for one in policy.people] == [("ana", True), ("ben", False)]
    assert "slack:T024BE7LD/U2147483697" in policy.people[0].identities
    (route,) = policy.routes
    assert route.targets == ("web", "slack:T024BE7LD/C1H9RESGL")
    assert route.approvers == ("ana", "ben")
    assert route.self_approval is False
    assert route.risk.high is not None
    assert route.risk.high.quorum == 2
    for path in (tmp_path / ".env", tmp_path / POLICY, tmp_path / CADDYFILE):
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# ")
        assert max(map(len, text.splitlines())) <= 100
    assert "docker compose exec gateway gateway team links" in said
    assert "-hidden" not in said


def test_only_the_owner_reads_settings_and_tokens(shell: Shell, tmp_path: Path) -> None:
    """A container reads a mounted file as another user, so the folder of the tokens is closed."""
    init(shell, tmp_path, *IN_SLACK, env=TOKENS)
    assert mode(tmp_path / ".env") == 0o600
    assert mode(tmp_path / SECRETS) == 0o700
    assert (tmp_path / SECRETS / "slack_bot_token").read_text(encoding="utf-8") == "xoxb-1-hidden"
    assert "-hidden" not in (tmp_path / ".env").read_text()
    for path in (POLICY, CADDYFILE):
        assert mode(tmp_path / path) == 0o644
        assert mode((tmp_path / path).parent) == 0o755


def test_a_file_that_differs_is_not_replaced_unseen(shell: Shell, tmp_path: Path) -> None:
    """Without a terminal the difference is shown and nothing is written, also no new file; a token
    is never shown."""
    init(shell, tmp_path, *IN_SLACK, env=TOKENS)
    (tmp_path / CADDYFILE).unlink()
    with (tmp_path / ".env").open("a", encoding="utf-8") as file:
        file.write("GATEWAY_LOG_JSON=true\n")
    before = (tmp_path / ".env").read_bytes()
    other = {**TOKENS, "GATEWAY_SLACK_APP_TOKEN": "xapp-2-hidden"}
    said = init(shell, tmp_path, *IN_SLACK, code=2, env=other)
    assert "-GATEWAY_LOG_JSON=true" in said
    assert "slack_app_token: another token" in said
    assert "nothing was written" in said
    assert "-hidden" not in said
    assert (tmp_path / ".env").read_bytes() == before
    assert not (tmp_path / CADDYFILE).exists()
    assert (tmp_path / SECRETS / "slack_app_token").read_text() == "xapp-1-hidden"
    init(shell, tmp_path, *IN_SLACK, "--yes", env=other)
    assert "GATEWAY_LOG_JSON" not in (tmp_path / ".env").read_text()
    assert (tmp_path / SECRETS / "slack_app_token").read_text() == "xapp-2-hidden"


def test_the_same_answers_change_nothing(shell: Shell, tmp_path: Path) -> None:
    """A second run without tokens keeps those that are there, and the chat stays on."""
    init(shell, tmp_path, *IN_SLACK, env=TOKENS)
    assert "every file is as it should be" in init(shell, tmp_path, *IN_SLACK)


def test_one_token_of_two_leaves_the_chat_off(shell: Shell, tmp_path: Path) -> None:
    """The chat's service could not start with it; the command says what is missing."""
    said = init(shell, tmp_path, *IN_SLACK, env={"GATEWAY_SLACK_BOT_TOKEN": "xoxb-1-hidden"})
    assert read_env_file(str(tmp_path / ".env"))["COMPOSE_PROFILES"] == "https"
    assert "slack stays off" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--domain", "https://approvals.example"), "is not a host name"),
        (("--domain", "approvals.example {\n\tfile_server\n}\n"), "is not a host name"),
        (("--domain", "a.example\nGATEWAY_MODE=auto-approve"), "is not a host name"),
        (("--domain", "a" * 254), "is not a host name"),
        (("--person", 'x"\nadmin=true'), "a name has"),
        (("--person", "Ana"), "a name has"),
        (("--person", "ben=slack:T/U"), "is not of the chat none"),
        (("--chat", "slack", "--channel", "discord:1"), "is not of the chat slack"),
        (("--chat", "slack", "--channel", "C1H9RESGL"), "is not of the chat slack"),
    ],
)
def test_a_wrong_answer_writes_nothing(
    shell: Shell, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    """An answer cannot add a line to a file, and a name that nothing accepts is refused."""
    assert says in init(shell, tmp_path, *TOLD, *words, code=2)
    assert not (tmp_path / ".env").exists()
    assert not (tmp_path / "deploy").exists()


@pytest.mark.parametrize("missing", ["--domain", "--person", "--chat"])
def test_without_a_terminal_a_missing_answer_is_named(
    shell: Shell, tmp_path: Path, missing: str
) -> None:
    """Nobody is asked, and the option is printed."""
    pairs = zip(IN_SLACK[::2], IN_SLACK[1::2], strict=True)
    words = [word for option, said in pairs if option != missing for word in (option, said)]
    assert f"add {missing}" in init(shell, tmp_path, *words, code=2)


def test_a_person_alone_can_approve_high_risk(shell: Shell, tmp_path: Path) -> None:
    """A quorum that nobody could reach is not written."""
    alone = ("--domain", "approvals.example", "--person", "ana", "--chat", "none")
    init(shell, tmp_path, *alone)
    (route,) = read_policy_file(tmp_path / POLICY).routes
    assert route.risk.high is None


def test_it_asks_at_a_terminal(shell: Shell, tmp_path: Path) -> None:
    """One question for each answer, tokens unseen; `n` keeps the files."""
    with Tty(["team", "init"], shell.env, tmp_path) as tty:
        for question, answer in (
            ("Domain that people open", "approvals.example"),
            ("Names of the approvers", "ana ben"),
            ("Chat where cards appear", "slack"),
            ("Channel for cards", "slack:T024BE7LD/C1H9RESGL"),
            ("Account of ana", "slack:T024BE7LD/U2147483697"),
            ("Account of ben", ""),
            ("Slack bot token", "xoxb-1-hidden"),
            ("Slack app token", "xapp-1-hidden"),
        ):
            tty.until(question)
            tty.type(answer)
        tty.until("Next, in the folder")
        assert "-hidden" not in tty.said
    told = (*TOLD[:-2], "--chat", "none")
    with Tty(["team", "init", *told], shell.env, tmp_path) as tty:
        tty.until(r"-COMPOSE_PROFILES=https,slack")
        tty.until("Replace these files")
        tty.type("n")
        tty.until("nothing was written")
    assert "slack" in (tmp_path / ".env").read_text(encoding="utf-8")


def test_caddy_takes_the_configuration(shell: Shell, tmp_path: Path) -> None:
    """Also with the line for a certificate of one's own; it serves one name, at the gateway."""
    init(shell, tmp_path, *TOLD)
    caddy = shutil.which("caddy")
    if caddy is None and os.environ.get("CI") != "true":
        pytest.skip("caddy is not installed; under CI=true this is a failure")
    assert caddy is not None, "CI installs caddy (.ci/run)"
    command = [caddy, "adapt", "--adapter", "caddyfile", "--config"]
    done = subprocess.run(
        [*command, tmp_path / CADDYFILE], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r'"host":\["([^"]+)"', done.stdout) == ["approvals.example"]
    assert re.findall(r'"dial":"([^"]+)"', done.stdout) == ["gateway:8080"]
    assert '"http_port":8080,"https_port":8443' in done.stdout


def test_each_person_gets_a_link(up: Shell, tmp_path: Path) -> None:
    """One for each person of the active policy, or for those named, with a QR code on demand."""
    init(up, tmp_path, *TOLD)
    up.run("approver", "add", "ana", "--admin")
    up.run("apply", str(tmp_path / POLICY), "--yes")
    said = up.run("team", "links")
    links = dict(re.findall(r"^(\w+)  (http\S+)$", said, re.MULTILINE))
    assert sorted(links) == ["ana", "ben"]
    assert all("/inbox/login#code=" in link for link in links.values())
    assert len(set(links.values())) == 2
    drawn = up.run("team", "links", "ben", "--qr")
    assert drawn.startswith("ben  http")
    assert "▀" in drawn
    assert "there is no approver cleo" in up.run("team", "links", "cleo", code=8)
