"""Which gateway a command acts on: settings win over a gateway that was found, in every command."""

from __future__ import annotations

import argparse
import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.cli.commands import make_parser
from gateway.doctor import gateway_url
from gateway.errors import NotFound
from gateway.server.settings import Settings
from gateway.wire.local_discovery import FILE_NAME, announce, name_data, write_private
from tests.cli.shell import Shell
from tests.frame.tree import ROOT
from tests.ports import free_port
from tests.sweeps import sweep

NO_GATEWAY = {"up", "down", "adapter", "demo", "completion", "audit verify", "team init"}
"""Commands that run or end a gateway of the data folder, or read a file alone."""
AGENTS = {"ask", "wait", "run", "hook", "bridge", "install", "mcp"}
"""Agents' commands, which `test_agents_commands_follow_their_own_settings` is about."""
READING = {
    *("pending", "history", "show", "sessions", "grant offers", "grant list", "grant show"),
    *("tool list", "agent list", "agent paused", "approver list", "devices", "explain"),
    *("policy show", "policy export", "policy test", "status", "claims list"),
    *("report", "audit tail", "audit export", "archive give-up", "doctor", "backup"),
}
"""Commands that change nothing, typed as below."""
GIVEN = {
    "id": "0" * 32,
    "ids": "0" * 32,
    "name": "ann",
    "roles": "text=data",
    "agent": "bot",
    "session": "default",
    "tool": "shell",
    "chat": "slack",
}
MORE = {
    "policy test": [str(ROOT / "deploy" / "policies" / "development.toml")],
    "apply": ["--yes", str(ROOT / "deploy" / "policies" / "development.toml")],
    "grant add": ["bot", "--tool", "shell", "--offer", "0" * 16],
    "grant revoke": ["--all"],
    "restore": ["--confirm", "agents"],
    "backup": [str(Path(tempfile.gettempdir()) / f"which-gateway-{os.getpid()}.backup")],
}


def leaves(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each command with the words that it needs."""
    verbs = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    for verb in verbs:
        for name, child in verb.choices.items():
            yield from leaves(child, f"{path} {name}".strip())
    if not verbs:
        needed = [one for one in parser._actions if not one.option_strings and one.nargs != "?"]
        words = [GIVEN.get(one.dest, "-") for one in needed if one.dest != "words"]
        yield path, [*path.split(), *MORE.get(path, words)]


TYPED = {
    path: words
    for path, words in leaves(make_parser())
    if path not in NO_GATEWAY and path not in AGENTS
}


class Listener:
    """A gateway that knows no token: it counts who came."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.calls: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            with connection, connection.makefile("rb") as heard:
                self.calls.append(heard.readline().decode())
                connection.sendall(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")

    def close(self) -> None:
        """Stop."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@contextmanager
def listening() -> Iterator[Listener]:
    """Listen until left."""
    made = Listener()
    try:
        yield made
    finally:
        made.close()


@contextmanager
def beside_development(shell: Shell, data: str) -> Iterator[Listener]:
    """Announce a gateway of this user, as `gateway up` does."""
    folder = Path(shell.env["GATEWAY_DATA_DIR"])
    folder.mkdir(mode=0o700, exist_ok=True)
    write_private(folder / "approver.json", json.dumps({"name": "owner", "token": "secret"}))
    with (
        listening() as found,
        announce(folder, url=found.url, enroll="x", public_key="k", data=data),
    ):
        yield found


def test_every_command_is_typed() -> None:
    """None is left out, and none of the lists names one that is gone."""
    paths = {path for path, _ in leaves(make_parser())}
    assert paths == {*TYPED, *NO_GATEWAY, *AGENTS}
    assert set(TYPED) > READING


def test_without_settings_the_gateway_found_is_meant(shell: Shell) -> None:
    """So a command that does not come there below was kept away by its settings."""
    came = set()
    with beside_development(shell, name_data(None, "gw")) as development:
        for path, words in TYPED.items():
            before = len(development.calls)
            shell.call(*words)
            if len(development.calls) > before:
                came.add(path)
    assert {"pending", "grant revoke", "tool list", "explain", "approve", "doctor"} < came


@sweep("path", TYPED, few=5)
@pytest.mark.parametrize("named", ["nothing", "GATEWAY_PUBLIC_URL", "GATEWAY_URL"])
def test_redis_url_wins_over_the_gateway_found(
    shell: Shell, server_url: str, namespace: str, path: str, named: str
) -> None:
    """No command reaches the development gateway of the same user, and it does not get its
    owner's token either; what changes something says where."""
    with beside_development(shell, name_data(None, "gw")) as development, listening() as production:
        env = {
            "REDIS_URL": server_url,
            "GATEWAY_NAMESPACE": namespace,
            "GATEWAY_PORT": development.url.rpartition(":")[2],
            "GATEWAY_APPROVER_TOKEN": "t",
            "GATEWAY_SIGNING_KEY": f"{'A' * 43}=",
            **({} if named == "nothing" else {named: production.url}),
        }
        code, said = shell.call(*TYPED[path], env=env)
        assert development.calls == [], said
    if code == 2 and named == "nothing":
        assert "GATEWAY_URL" in said
    elif path not in READING:
        places = [production.url, name_data(server_url, namespace)]
        assert any(f"gateway: acting on {one}\n" in said for one in places), said
    else:
        assert "acting on" not in said


def test_another_namespace_is_other_data(shell: Shell) -> None:
    """Commands over HTTP do not act on the tenant that happens to run."""
    with beside_development(shell, name_data(None, "gw")) as development:
        code, said = shell.call("grant", "revoke", "--all", env={"GATEWAY_NAMESPACE": "tenant"})
        assert (code, development.calls) == (2, [])
        assert "GATEWAY_NAMESPACE names tenant" in said
        assert "set GATEWAY_URL" in said


def test_the_gateway_on_the_same_redis_is_found(
    shell: Shell, server_url: str, namespace: str
) -> None:
    """It announced that it works on what REDIS_URL names, with any login."""
    data = name_data(server_url, namespace)
    assert data == name_data(server_url.replace("unix://", "unix://me:secret@"), namespace)
    env = {"REDIS_URL": server_url, "GATEWAY_NAMESPACE": namespace}
    with beside_development(shell, data) as development:
        shell.call("pending", env=env)
        assert len(development.calls) == 1


def test_the_owners_token_is_sent_to_their_gateway_alone(shell: Shell) -> None:
    """Another address is told what it needs a token for, and gets none of this machine's."""
    with beside_development(shell, name_data(None, "gw")), listening() as other:
        said = shell.run("pending", code=9, env={"GATEWAY_URL": other.url})
        assert "GATEWAY_APPROVER_TOKEN" in said
        assert other.calls == []


def test_gateway_url_wins_over_the_embedded_server(up: Shell) -> None:
    """Commands straight on Redis do not act on the embedded server of another gateway."""
    announced = json.loads(Path(up.env["GATEWAY_DATA_DIR"], FILE_NAME).read_text())["url"]
    other = {"GATEWAY_URL": "https://approvals.example"}
    for path, words in TYPED.items():
        if path in {"agent add", "agent list", "apply", "approver add", "stop-all", "login"}:
            said = up.run(*words, code=2, env=other)
            assert "set REDIS_URL" in said
    for same in (announced, announced.replace("127.0.0.1", "localhost") + "/"):
        assert "local" not in up.run("agent", "list", env={"GATEWAY_URL": same})


def test_agents_commands_follow_their_own_settings(shell: Shell) -> None:
    """GATEWAY_URL wins; REDIS_URL is the gateway's setting, and no agent's."""
    with beside_development(shell, name_data(None, "gw")) as development, listening() as production:
        env = {"GATEWAY_URL": production.url, "GATEWAY_TOKEN": "t", "GATEWAY_CONNECT_TIMEOUT": "1"}
        for words in (["ask", "shell", "--", "ls"], ["wait", "0" * 32], ["run", "--", "true"]):
            shell.call(*words, env=env)
            assert development.calls == []
        assert len(production.calls) >= 3


def test_production_takes_no_port_of_a_development_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login link would bring the code there."""
    monkeypatch.delenv("GATEWAY_URL", raising=False)
    port = free_port()
    with announce(tmp_path, url=f"http://127.0.0.1:{port}", enroll="x", public_key="k"):
        settings = Settings(data_dir=tmp_path, port=port, env="production")
        with pytest.raises(NotFound, match="GATEWAY_PUBLIC_URL"):
            gateway_url(settings)


def test_a_new_agent_is_told_where_redis_is(shell: Shell, server_url: str, namespace: str) -> None:
    """Without the login of the gateway itself."""
    env = {"REDIS_URL": server_url, "GATEWAY_NAMESPACE": namespace}
    said = shell.run("agent", "add", "bot", env=env)
    assert f"at {server_url}." in said
    assert name_data("redis://me:secret@db:6379/1", "gw") == "redis://db:6379/1, namespace gw"
