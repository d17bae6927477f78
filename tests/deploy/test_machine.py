"""The units of deploy/systemd, started by a real systemd: `make test-systemd`, as root."""

from __future__ import annotations

import json
import os
import re
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.stores.embedded_server import find_server_binary
from tests.deploy.machine import CONFIG, START_SECONDS, Machine, missing_programs
from tests.frame.tree import ROOT

pytestmark = [
    pytest.mark.skipif("SYSTEMD" not in os.environ, reason="runs in `make test-systemd`"),
    pytest.mark.timeout(120),
]

POLICY = """
[[people]]
name = "ana"
admin = true

[[people]]
name = "ben"

[[routes]]
name = "default"
approvers = ["ana", "ben"]
"""
SECRETS = ("redis_url", "signing_key", "valkey_users")
AT = "http://127.0.0.1:8787"


def steps() -> list[str]:
    """Return the commands of each step of the guide that has some."""
    page = (ROOT / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")
    section = page.split("\n## systemd\n")[1].split("\n## ")[0]
    return [textwrap.dedent(one) for one in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)]


INSTALL, FILES, START, CHECK, CHAT = steps()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Start a machine whose operator has followed the guide as far as the files."""
    assert missing_programs() == []
    with Machine(tmp_path, str(find_server_binary())) as made:
        environment, program, user = INSTALL.splitlines(keepends=True)
        assert ("-m venv /opt/approval-gateway" in environment, "pip" in program) == (True, True)
        made.type(user)
        made.type(FILES)
        made.type(f"cat >{CONFIG}/policy.toml <<'END'\n{POLICY}END")
        made.type(f"sed -i s,https://approvals.example,{AT}, {CONFIG}/settings.env")
        yield made


def start(machine: Machine) -> None:
    """Start Valkey and the gateway; return when people can decide."""
    machine.type(START)
    wait_for(machine, "curl", "--silent", "--fail", f"{AT}/readyz")


def wait_for(machine: Machine, *words: str) -> None:
    """Return once a command ends well."""
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends:
        if machine.call(*words).returncode == 0:
            return
    raise AssertionError((words, machine.log()))


def client(machine: Machine, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the gateway with a token, as an agent or an approver does."""
    given = [f"{name}={value}" for name, value in {"GATEWAY_URL": AT, **env}.items()]
    return machine.call("env", *given, "/opt/approval-gateway/bin/gateway", *words)


def status(machine: Machine, unit: str) -> dict[str, str]:
    """Return what the kernel says of a service's first process."""
    process = machine.run("systemctl", "show", "--property=MainPID", "--value", unit).strip()
    lines = machine.run("cat", f"/proc/{process}/status").splitlines()
    return {name: value.strip() for name, _, value in (one.partition(":") for one in lines)}


def test_a_request_is_answered(machine: Machine) -> None:
    """With its whole hardening: from the files to an approval, and a decision on the disk."""
    start(machine)
    said = machine.type(CHECK)
    assert "FAIL" not in said
    assert len(re.findall(rf"^(?:ana|ben) +{AT}/inbox/login#code=", said, re.MULTILINE)) == 2
    tokens = [
        json.loads(machine.gateway(kind, "add", name, "--json"))["token"]
        for kind, name in (("agent", "coder"), ("approver", "ana"))
    ]
    agent = {"GATEWAY_AGENT": "coder", "GATEWAY_TOKEN": tokens[0]}
    asked = client(machine, "ask", "--no-wait", "shell", "--", "ls", **agent)
    (request,) = re.findall(r'"id": ?"([0-9a-f]+)"', asked.stdout)
    approved = client(machine, "approve", request, GATEWAY_APPROVER_TOKEN=tokens[1])
    assert (approved.returncode, "ana approved" in approved.stdout) == (0, True), approved
    assert client(machine, "wait", request, **agent).returncode == 0
    machine.run("systemctl", "restart", "approval-gateway-valkey", "approval-gateway")
    wait_for(machine, "curl", "--silent", "--fail", f"{AT}/readyz")
    assert "ana approved" in machine.gateway("audit", "tail")


def test_the_kernel_holds_the_services(machine: Machine) -> None:
    """Neither service has a right or can get one; each runs as its own user, behind a filter."""
    start(machine)
    found = [status(machine, one) for one in ("approval-gateway", "approval-gateway-valkey")]
    for one in found:
        assert {one[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert (one["NoNewPrivs"], one["Seccomp"]) == ("1", "2")
    users = {one["Uid"].split()[0] for one in found}
    assert len(users) == 2
    assert "0" not in users


def test_only_its_service_reads_a_secret(machine: Machine) -> None:
    """The files of /etc are root's, and the service has copies in a folder of its own."""
    start(machine)
    there = machine.run("stat", "--format=%U %a", *(f"{CONFIG}/secrets/{one}" for one in SECRETS))
    assert set(there.splitlines()) == {"root 600"}
    folder = "/run/credentials/approval-gateway.service"
    listed = machine.run("stat", "--format=%U %a", folder, f"{folder}/signing_key")
    assert listed.splitlines() == ["approval-gateway 500", "approval-gateway 400"]


def test_a_reload_applies_the_policy(machine: Machine) -> None:
    """The same process reads the file again; one with a mistake changes nothing."""
    start(machine)
    before = machine.run("systemctl", "show", "--property=MainPID", "approval-gateway")
    policy = CONFIG / "policy.toml"
    machine.type(f"cat >>{policy} <<'END'\n[[people]]\nname = \"cleo\"\nEND")
    machine.run("systemctl", "reload", "approval-gateway")
    wait_for(machine, "sh", "-c", f"{gateway('policy', 'show')} | grep cleo")
    machine.type(f"echo nonsense >>{policy}")
    machine.run("systemctl", "reload", "approval-gateway")
    wait_for(machine, "sh", "-c", "journalctl --unit approval-gateway | grep 'was not applied'")
    assert "cleo" in machine.gateway("policy", "show")
    assert before == machine.run("systemctl", "show", "--property=MainPID", "approval-gateway")


def gateway(*words: str) -> str:
    """Return the command of an operator as a shell reads it."""
    return f"/opt/approval-gateway/bin/gateway --env-file {CONFIG}/settings.env {' '.join(words)}"


def test_it_waits_for_redis_and_not_for_a_wrong_setting(machine: Machine) -> None:
    """Without Redis it tries again; with a wrong setting it stops, and says which one."""
    machine.run("systemctl", "start", "approval-gateway")
    restarted = "systemctl show --property=NRestarts approval-gateway | grep -v =0"
    wait_for(machine, "sh", "-c", restarted)
    start(machine)
    machine.type(f"echo GATEWAY_MODE=maybe >>{CONFIG}/settings.env")
    machine.call("systemctl", "restart", "approval-gateway")
    wait_for(machine, "systemctl", "is-failed", "approval-gateway")
    assert "GATEWAY_MODE" in machine.log()


def test_a_chat_starts_beside_the_gateway(machine: Machine) -> None:
    """It has its own tokens, tells its own health, and is stopped alone. No chat answers here."""
    start(machine)
    slack = CONFIG / "secrets" / "slack"
    machine.type(f"mkdir {slack}\necho xoxb-1 >{slack}/bot_token\necho xapp-1 >{slack}/app_token")
    machine.type(f"echo GATEWAY_SLACK_API_URL=http://127.0.0.1:9/ >>{CONFIG}/settings.env")
    machine.type(CHAT)
    running = "journalctl --unit approval-gateway-chat@slack | grep 'adapter slack runs'"
    wait_for(machine, "sh", "-c", running)
    (port,) = re.findall(r"(http://127\.0\.0\.1:\d+)/readyz", machine.log())
    assert machine.run("curl", "--silent", "--fail", f"{port}/healthz")
    told = machine.call("curl", "--silent", f"{port}/readyz").stdout
    assert json.loads(told)["problems"]
    machine.run("systemctl", "stop", "approval-gateway-chat@slack")
    assert machine.run("curl", "--silent", "--fail", f"{AT}/readyz")
