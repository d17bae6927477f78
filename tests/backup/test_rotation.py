"""Secrets and versions are replaced while requests are pending, as docs/guides/upgrade.md says."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from gateway.cli.kept_settings import FILE_NAME
from gateway.stores.embedded_server import find_server_binary
from gateway.wire.signatures import Signer
from tests.cli.shell import Shell
from tests.cli.test_adapters import install
from tests.cli.test_chats import HUT, policy_of, type_in_chat
from tests.ports import free_port
from tests.settings.test_settings import server
from tests.waiting import moment

SEEDS = [base64.b64encode(one * 32).decode() for one in (b"o", b"n")]
OLD, NEW = (Signer(seed).public_key for seed in SEEDS)
_USERS = "user default off\nuser gateway on >old ~* &* +@all\n"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Yield a shell without a gateway."""
    made = Shell(tmp_path)
    yield made
    made.close()


def ask(shell: Shell, text: str) -> str:
    """Ask for a command, and return the request's ID."""
    said = shell.run("ask", "--no-wait", "--json", "shell", "--", text, code=6)
    found: str = json.loads(said.splitlines()[0])["id"]
    return found


def test_a_card_survives_an_upgrade(shell: Shell) -> None:
    """What was pending before is decided after, and its agent gets the decision."""
    with shell.running_up() as gateway:
        gateway.says("Answer in the browser")
        pending = ask(shell, "ls")
    with shell.running_up() as gateway:
        gateway.says("Answer in the browser")
        shell.run("approve", pending)
        assert "approved by owner" in shell.run("wait", pending)


def test_a_new_signing_key_leaves_old_decisions_valid(shell: Shell) -> None:
    """For agents of this machine, and those that pin both; one pinned key admits only its own."""
    shell.env["GATEWAY_PORT"] = str(free_port())
    with shell.running_up(GATEWAY_SIGNING_KEY=SEEDS[0]) as gateway:
        gateway.says("Answer in the browser")
        before = [ask(shell, f"ls {number}") for number in range(3)]
        for one in before:
            shell.run("approve", one)
    with shell.running_up(GATEWAY_SIGNING_KEY=SEEDS[1]) as gateway:
        gateway.says("Answer in the browser")
        code, said = shell.call("wait", before[0], env={"GATEWAY_PUBLIC_KEY": NEW})
        assert (code != 0, "does not match a pinned key" in said) == (True, True)
        both = {"GATEWAY_PUBLIC_KEY": f"{OLD},{NEW}"}
        after = [ask(shell, f"ls after {number}") for number in range(2)]
        for one in after:
            shell.run("approve", one)
        for number, pins in enumerate((both, {})):
            assert "approved by owner" in shell.run("wait", before[number + 1], env=pins)
            assert "approved by owner" in shell.run("wait", after[number], env=pins)


def test_a_new_redis_password_stops_nothing(shell: Shell, tmp_path: Path) -> None:
    """Both are valid while one gateway has the old and the next one the new."""
    port, acl = free_port(), tmp_path / "users.acl"
    acl.write_text(_USERS, encoding="ascii")
    words = ["--port", str(port), "--aclfile", str(acl), "--appendonly", "yes"]
    login = {"username": "gateway", "password": "old"}
    urls = [f"redis://gateway:{one}@127.0.0.1:{port}" for one in ("old", "new")]
    folder, binary = tmp_path / "data", str(find_server_binary())
    with (
        server(binary, folder, *words, port=port, **login),
        shell.running_up(REDIS_URL=urls[0]) as first,
    ):
        first.says("Answer in the browser")
        pending = ask(shell, "ls")
        admin: Any = redis.Redis(port=port, username="gateway", password="old")
        admin.execute_command("ACL", "SETUSER", "gateway", ">new")
        admin.execute_command("ACL", "SAVE")
        with shell.running_up(REDIS_URL=urls[1]) as second:
            second.says("Answer in the browser")
            first.process.terminate()
            first.stderr.read()
            admin.execute_command("ACL", "SETUSER", "gateway", "<old")
            admin.execute_command("ACL", "SAVE")
            shell.run("approve", pending)
            assert "approved by owner" in shell.run("wait", pending)
            code, said = shell.call("backup", str(tmp_path / "b"), env={"REDIS_URL": urls[0]})
            assert (code, "Redis does not respond" in said) == (5, True)
            shell.run("backup", str(tmp_path / "b"), env={"REDIS_URL": urls[1]})
        admin.close()


@pytest.fixture
def hut(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Yield a shell beside which a chat with two tokens is installed."""
    site = tmp_path / "site"
    text = HUT.replace('!= "right"', 'not in ("right", "newer")').replace(
        "        listening =",
        '        (self.folder / "token").write_text(os.environ["GATEWAY_HUT_TOKEN"])\n'
        "        listening =",
    )
    install(site, "hut", text.replace('== "right"', "!= ''"), {"hut": "hut:HutAdapter"})
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    shell.env |= {"PYTHONPATH": path, "HUT_FOLDER": str(tmp_path)}
    monkeypatch.syspath_prepend(site)
    os.mkfifo(tmp_path / "replied")
    yield shell
    sys.modules.pop("hut", None)
    shell.call("down")


def test_a_new_chat_token_replaces_the_old_one(hut: Shell, tmp_path: Path) -> None:
    """The running gateway takes it, the policy stays, and the chat decides again."""
    for token in ("right", "newer"):
        said = hut.apart("hut", "setup", "--non-interactive", env={"GATEWAY_HUT_TOKEN": token})
        assert "The gateway runs, and hut is connected" in said
        if token == "right":
            code = said.partition("/hut here ")[2].split()[0]
            type_in_chat(tmp_path, f"U1 here {code}")
            hut.run("claims", "approve", json.loads(hut.run("claims", "list", "--json"))[0]["id"])
            before = policy_of(hut)
    kept = json.loads((Path(hut.env["GATEWAY_DATA_DIR"]) / FILE_NAME).read_text())
    assert kept["hut"] == {"GATEWAY_HUT_TOKEN": "newer"}
    asyncio.run(until_it_runs_with(hut, tmp_path / "token", "newer"))
    assert policy_of(hut) == before
    assert "approved by ana-hut" in hut.run("ask", "shell", "--", "ls")


async def until_it_runs_with(hut: Shell, file: Path, token: str) -> None:
    """Wait until the chat runs with this token, and the gateway answers again."""
    async with asyncio.timeout(60):
        while (
            file.read_text(encoding="utf-8") != token
            or (await asyncio.to_thread(hut.call, "pending"))[0]
        ):
            await moment()
