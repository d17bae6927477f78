"""The units of deploy/systemd, read and judged by systemd's own tools. `make test-systemd` runs
them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.machine import UNITS
from tests.frame.compose_file import CHATS, compose, make_secrets, setting_variables

GATEWAY, CHAT, VALKEY = (
    "approval-gateway.service",
    "approval-gateway-chat@.service",
    "approval-gateway-valkey.service",
)
ALL = (GATEWAY, CHAT, VALKEY)
MOST_EXPOSED = 20
"""Tenths of the score of `systemd-analyze security`: 0 is safest, 100 is worst."""


def service(unit: str) -> dict[str, list[str]]:
    """Return each member of the unit's section [Service] with its values, in order."""
    text = (UNITS / unit).read_text(encoding="utf-8").replace("\\\n", " ")
    section = text.split("[Service]\n")[1].split("\n[")[0]
    found: dict[str, list[str]] = {}
    for line in section.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def told(unit: str) -> dict[str, str]:
    """Return the environment that the unit gives."""
    pairs = [shlex.split(one)[0].split("=", 1) for one in service(unit)["Environment"]]
    return dict(pairs)


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    """Run systemd's own tool."""
    found = shutil.which("systemd-analyze")
    if found is None and os.environ.get("CI") != "true":
        pytest.skip("systemd-analyze is not installed; under CI=true this is a failure")
    assert found is not None, "CI installs systemd (.ci/run)"
    return subprocess.run([found, *words], check=False, capture_output=True, text=True)


@pytest.mark.parametrize("unit", ALL)
def test_a_service_is_hardly_exposed(unit: str) -> None:
    """The score of systemd is at most 2.0 of 10."""
    limit = f"--threshold={MOST_EXPOSED}"
    done = analyze("security", "--no-pager", "--offline=true", limit, str(UNITS / unit))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Overall exposure level" in done.stdout


def test_the_judge_finds_an_exposed_service(tmp_path: Path) -> None:
    """Without its hardening the same unit has a score above the limit."""
    text = (UNITS / GATEWAY).read_text(encoding="utf-8")
    bare = tmp_path / GATEWAY
    bare.write_text(text.split("# No rights")[0], encoding="utf-8")
    done = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(bare))
    assert done.returncode == 1


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    """No unknown member, no wrong value, no program that is missing."""
    for unit in ALL:
        text = (UNITS / unit).read_text(encoding="utf-8")
        for program in ("/opt/approval-gateway/bin/gateway", "/usr/bin/valkey-server"):
            text = text.replace(f"ExecStart={program}", f"ExecStart={sys.executable}")
        (tmp_path / unit.replace("@.", "@slack.")).write_text(text, encoding="utf-8")
    done = analyze("verify", "--man=no", *map(str, sorted(tmp_path.iterdir())))
    ours = [line for line in done.stderr.splitlines() if "approval-gateway" in line]
    assert (done.returncode, ours) == (0, [])


def test_a_chat_is_as_safe_as_the_gateway() -> None:
    """Both have the same hardening, line by line."""
    gateway, chat = (
        (UNITS / unit).read_text().split("# A stop lets")[1] for unit in (GATEWAY, CHAT)
    )
    assert gateway == chat


def test_valkey_is_started_as_in_the_compose_file() -> None:
    """What decisions rely on is the same: append-only with fsync always, no eviction."""
    line = compose()["services"]["valkey"]["command"][-1]
    wanted = shlex.split(line.split("exec valkey-server")[1])
    (command,) = service(VALKEY)["ExecStart"]
    here = shlex.split(command)[1:]
    for place in ("--bind 127.0.0.1", "--port 6379"):
        assert place in command
    places = {"--bind", "--port", "--dir", "--aclfile"}
    assert _pairs(here, places) == _pairs(wanted, places)


def _pairs(words: list[str], without: set[str]) -> dict[str, str]:
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    return {name: value for name, value in pairs.items() if name not in without}


@pytest.mark.parametrize("unit", [GATEWAY, CHAT])
def test_a_service_is_told_nothing_that_nobody_reads(unit: str) -> None:
    """Every variable is a setting, here and in the file that the services share."""
    known = setting_variables()
    if unit == CHAT:
        known |= {name for chat in CHATS for name in setting_variables(chat)}
    shared = re.findall(r"^([A-Z_]+)=", (UNITS / "settings.env").read_text(), re.MULTILINE)
    names = {*told(unit), *shared}
    assert {name for name in names if not {name, name.removesuffix("_FILE")} & known} == set()


def test_secrets_come_from_systemd_alone(tmp_path: Path) -> None:
    """A service reads each secret from its own folder, and `make-secrets.sh` makes each one."""
    make_secrets(tmp_path)
    made = {path.name for path in tmp_path.iterdir()}
    for unit in (GATEWAY, CHAT):
        files = {
            value
            for name, value in told(unit).items()
            if name.endswith(("KEY_FILE", "URL_FILE", "TOKEN_FILE"))
        }
        assert all(one.startswith("%d/") for one in files)
        assert {one.removeprefix("%d/") for one in files} <= made
    given = {one.partition(":")[0] for one in service(GATEWAY)["LoadCredential"]}
    assert given == {one.removeprefix("%d/") for one in told(GATEWAY).values() if "%d/" in one}


@pytest.mark.parametrize("unit", [GATEWAY, CHAT])
def test_a_service_runs_in_production(unit: str) -> None:
    """So it refuses to start with unsafe settings, whatever settings.env says."""
    assert told(unit)["GATEWAY_ENV"] == "production"


def test_a_reload_reads_a_policy() -> None:
    """The unit names the file, because without one a reload would end the gateway."""
    assert service(GATEWAY)["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert told(GATEWAY)["GATEWAY_POLICY_FILE"] == "/etc/approval-gateway/policy.toml"
    assert "ExecReload" not in service(CHAT)
