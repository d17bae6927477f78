"""The compose file: valid, hardened, and its own server line and users file on a real server.

These tests start no container: `make test-image` does. They start the server with the very
arguments and users that its container gets.
"""

import io
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from dotenv import dotenv_values
from redis.backoff import ConstantBackoff, NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

from gateway.server.settings import Settings
from gateway.stores.embedded_server import find_server_binary
from tests.cli.shell import Shell
from tests.frame.compose_file import CHATS, compose, make_secrets, setting_variables
from tests.frame.tree import ROOT

pytestmark = pytest.mark.xdist_group("compose")  # one server or build for all of them

OURS = ("discord", "gateway", "slack")
"""The services that run our image."""
AGENT_PASSWORD = "an agent's password"
READY_TRIES = 200


def agent_rule(name: str) -> list[str]:
    """Return the example agent's rule for another name, switched on, with a password."""
    lines = (ROOT / "deploy" / "users.acl.example").read_text().splitlines()
    example = next(line.split() for line in lines if line.startswith("user gw.agent-example "))
    _user, _name, _off, _password, *rules = example
    digest = sha256(AGENT_PASSWORD.encode()).hexdigest()
    return ["on", f"#{digest}", *(rule.replace(":example", f":{name}") for rule in rules)]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Yield a shell without a gateway."""
    made = Shell(tmp_path)
    yield made
    made.close()


class Server:
    """The `valkey` service on this machine: its own command line, in a folder of the test's."""

    def __init__(self, folder: Path, binary: Path | None = None) -> None:
        self.binary = binary or find_server_binary()
        self.secrets = folder / "secrets"
        self.data = folder / "data"
        self.data.mkdir()
        make_secrets(self.secrets)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    def command(self) -> list[str]:
        """Return the compose file's command with this machine's places in it."""
        *shell, line = compose()["services"]["valkey"]["command"]
        for there, here in {
            "exec valkey-server": f"exec {self.binary} --bind 127.0.0.1 --port {self.port}",
            "/run/secrets": str(self.secrets),
            "/data": str(self.data),
        }.items():
            assert there in line
            line = line.replace(there, here)
        return [*shell, line]

    def start(self) -> None:
        """Start the server and return when it answers."""
        self.process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL)
        try:
            patient = Retry(ConstantBackoff(0.05), READY_TRIES)
            busy: list[type[Exception]] = [redis.BusyLoadingError, redis.ConnectionError]
            redis.Redis(
                port=self.port,
                username="health",
                password="any",
                retry=patient,
                retry_on_error=busy,
            ).ping()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the server as a power cut would."""
        self.process.kill()
        self.process.wait()

    def client(self, username: str | None = None, password: str | None = None) -> Any:
        """Return a client of the given user, of nobody without one."""
        return redis.Redis(
            port=self.port,
            username=username,
            password=password,
            decode_responses=True,
            retry=Retry(NoBackoff(), 0),  # redis-py takes a refused login for a lost connection
        )

    def gateway(self) -> Any:
        """Return a client with the URL that the gateway's container reads."""
        url = (self.secrets / "redis_url").read_text()
        local = url.replace("@valkey:6379", f"@127.0.0.1:{self.port}")
        assert local != url
        return redis.Redis.from_url(local, decode_responses=True)

    def agent(self, name: str) -> Any:
        """Give an agent a credential as the gateway does; return a client that uses it."""
        self.gateway().execute_command("ACL", "SETUSER", f"gw.agent-{name}", *agent_rule(name))
        return self.client(f"gw.agent-{name}", AGENT_PASSWORD)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The compose file's server, running."""
    running = Server(tmp_path_factory.mktemp("compose"))
    running.start()
    yield running
    running.kill()


def test_nobody_comes_in_without_a_user(server: Server) -> None:
    """The default user is off: without a name and password not even PING is answered."""
    with pytest.raises(redis.AuthenticationError):
        server.client().ping()
    with pytest.raises(redis.AuthenticationError):
        server.client("default", "").ping()


def test_the_health_check_can_do_nothing_but_ping(server: Server) -> None:
    """The user without a password learns that the server answers, and nothing else."""
    health = server.client("health", "none")
    assert health.ping()
    for refused in (["GET", "{gw}:x"], ["INFO"], ["KEYS", "*"], ["XADD", "{gw}:x", "*", "a", "b"]):
        with pytest.raises(NoPermissionError):
            health.execute_command(*refused)


def test_decisions_are_written_to_disk_and_never_evicted(server: Server) -> None:
    """What the gateway relies on is on: append-only with fsync always, no eviction, no giants."""
    wanted = {
        "appendonly": "yes",
        "appendfsync": "always",
        "maxmemory-policy": "noeviction",
        "proto-max-bulk-len": str(4 * 1024 * 1024),
        "maxmemory-clients": str(256 * 1024 * 1024),
    }
    assert server.gateway().config_get(*wanted) == wanted


def test_the_gateway_has_its_keys_and_no_more(server: Server) -> None:
    """The gateway's user runs scripts on its own keys; it cannot wipe or reconfigure."""
    gateway = server.gateway()
    assert gateway.eval("return redis.call('SET', KEYS[1], '1')", 1, "{gw}:probe") == "OK"
    for refused in (
        ["GET", "{other}:x"],
        ["FLUSHALL"],
        ["KEYS", "*"],
        ["CONFIG", "SET", "appendonly", "no"],
        ["SHUTDOWN"],
        ["MIGRATE", "127.0.0.1", "1", "{gw}:x", "0", "1"],
        ["REPLICAOF", "NO", "ONE"],
    ):
        with pytest.raises(NoPermissionError):
            gateway.execute_command(*refused)


def test_an_agent_asks_and_reads_its_answers(server: Server) -> None:
    """An agent's credential writes its own ingress stream and reads its own reply streams."""
    agent = server.agent("asks")
    assert agent.xadd("{gw}:in:asks", {"verb": "submit"})
    server.gateway().xadd("{gw}:out:asks:p1", {"re": "submit"})
    assert agent.xread({"{gw}:out:asks:p1": "0"})
    assert agent.ping()
    assert server.gateway().execute_command("ACL", "GETUSER", "gw.agent-asks")


@pytest.mark.parametrize(
    "refused",
    [
        ["XADD", "{gw}:in:other", "*", "verb", "submit"],
        ["XADD", "{gw}:out:caged:p1", "*", "re", "submit"],
        ["XADD", "{gw}:events", "*", "a", "b"],
        ["XREAD", "STREAMS", "{gw}:in:caged", "0"],
        ["XREAD", "STREAMS", "{gw}:out:other:p1", "0"],
        ["XREAD", "STREAMS", "{gw}:events", "0"],
        ["XRANGE", "{gw}:out:caged:p1", "-", "+"],
        ["XDEL", "{gw}:in:caged", "0-1"],
        ["XTRIM", "{gw}:in:caged", "MAXLEN", "0"],
        ["DEL", "{gw}:in:caged"],
        ["HSET", "{gw}:req:1", "status", "approved"],
        ["EVAL", "return 1", "0"],
        ["PUBLISH", "{gw}:x", "y"],
        ["ACL", "WHOAMI"],
        ["CONFIG", "GET", "*"],
        ["CLIENT", "LIST"],
        ["INFO"],
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_an_agent_can_do_nothing_else(server: Server, refused: list[str]) -> None:
    """An agent that knows its password cannot approve, read or disturb anything with it."""
    agent = server.agent("caged")
    with pytest.raises(NoPermissionError):
        agent.execute_command(*refused)


def test_an_agents_user_and_words_survive_a_power_cut(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Saved users and acknowledged entries are there after `kill -9` and a restart."""
    server = Server(tmp_path_factory.mktemp("power"))
    server.start()
    try:
        entry = server.agent("kept").xadd("{gw}:in:kept", {"verb": "submit"})
        assert server.gateway().execute_command("ACL", "SAVE")
        server.kill()
        server.start()
        assert server.client("gw.agent-kept", AGENT_PASSWORD).ping()
        assert [key for key, _ in server.gateway().xrange("{gw}:in:kept")] == [entry]
    finally:
        server.kill()


@pytest.mark.skipif(
    shutil.which("redis-server") is None and os.environ.get("CI") != "true",
    reason="redis-server is not installed",
)
def test_a_restart_reads_back_what_a_script_wrote(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Servers without a fix check the rights of `default` when they replay a transaction."""
    server = Server(tmp_path_factory.mktemp("replay"), Path(shutil.which("redis-server") or ""))
    server.start()
    try:
        both = "redis.call('SET', KEYS[1], '1') redis.call('SET', KEYS[2], '2')"
        server.gateway().eval(both, 2, "{gw}:one", "{gw}:two")
        server.kill()
        server.start()
        assert server.gateway().mget("{gw}:one", "{gw}:two") == ["1", "2"]
        with pytest.raises(redis.RedisError, match=r"authenticated|NOAUTH"):
            redis.Redis(port=server.port).ping()
    finally:
        server.kill()


def test_the_example_lets_nobody_in() -> None:
    """The committed users file holds no real password: its hashes are zeros, its agent is off."""
    users = (ROOT / "deploy" / "users.acl.example").read_text().split()
    assert {word for word in users if word.startswith("#")} == {"#" + "0" * 64}
    assert "gw.agent-example off" in " ".join(users)


def test_secrets_are_private_and_made_once(tmp_path: Path) -> None:
    """Each installation gets passwords of its own, in a private folder, never overwritten."""
    folder = tmp_path / "secrets"
    make_secrets(folder)
    first = {path.name: path.read_text() for path in folder.iterdir()}
    make_secrets(folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == first
    assert folder.stat().st_mode & 0o077 == 0
    assert "0" * 64 not in first["valkey_users"]
    assert "agent-example" not in first["valkey_users"]
    assert {Path(secret["file"]).name for secret in compose()["secrets"].values()} == set(first)


@pytest.mark.parametrize("service", sorted(compose()["services"]))
def test_containers_are_hardened(service: str) -> None:
    """No container runs as root, writes its own files, or can gain rights."""
    settings = compose()["services"][service]
    assert settings["user"] not in {"root", "0", "0:0"}
    assert settings["read_only"] is True
    assert settings["cap_drop"] == ["ALL"]
    assert settings["security_opt"] == ["no-new-privileges:true"]


def test_only_the_proxy_is_reached_from_outside() -> None:
    """Every port is published on the loopback address alone, except Caddy's two."""
    services = compose()["services"]
    assert services["caddy"]["ports"] == ["80:8080", "443:8443"]
    others = [port for name in {*services} - {"caddy"} for port in services[name].get("ports", [])]
    assert others
    assert all(port.startswith("127.0.0.1:") for port in others)


def test_the_proxys_program_needs_no_right() -> None:
    """A container without any capability cannot start a program that has one in its file."""
    lines = (ROOT / "deploy" / "proxy.Dockerfile").read_text().splitlines()
    assert "RUN cp /usr/bin/caddy /usr/bin/caddy-plain \\" in lines
    assert 'ENTRYPOINT ["/usr/bin/caddy-plain"]' in lines
    assert "USER 10001:10001" in lines


@pytest.mark.parametrize("service", OURS)
def test_health_is_asked_where_it_is_told(service: str) -> None:
    """Each of our services is asked at the port that it listens on; chats, whether people can
    answer."""
    settings = compose()["services"][service]
    port = settings["environment"].get("GATEWAY_PORT", Settings.model_fields["port"].default)
    path = "healthz" if service == "gateway" else "readyz"
    assert f"'http://127.0.0.1:{port}/{path}'" in settings["healthcheck"]["test"][-1]


@pytest.mark.parametrize("service", ["slack", "discord"])
def test_the_doctor_looks_at_the_chat_that_runs_there(service: str) -> None:
    """In a chat's container, which alone has its tokens. Its cards link to the inbox."""
    settings = compose()["services"][service]
    assert settings["command"] == ["adapter", service]
    adapters = json.loads(settings["environment"]["GATEWAY_ADAPTERS"])
    assert adapters == ["web", service]
    told = Settings(adapters=adapters, public_url="https://approvals.example")
    assert told.inbox_url == "https://approvals.example/inbox"


@pytest.mark.parametrize("service", OURS)
def test_a_container_is_told_nothing_that_nobody_reads(service: str) -> None:
    """Every variable is a setting of the gateway or of the chat that runs there."""
    known = setting_variables() | (setting_variables(service) if service in CHATS else set())
    told = compose()["services"][service]["environment"]
    assert {name.removesuffix("_FILE") for name in told} <= known


@pytest.mark.parametrize("service", sorted(compose()["services"]))
def test_secrets_come_from_files(service: str) -> None:
    """Every `*_FILE` that a container reads is mounted, and no secret is in its environment."""
    settings = compose()["services"][service]
    environment = settings.get("environment", {})
    named = {value for key, value in environment.items() if key.endswith("_FILE")}
    mounted = {f"/run/secrets/{name}" for name in settings.get("secrets", [])}
    assert named <= mounted
    plain = set(environment) - {"GATEWAY_PUBLIC_URL"}
    assert not [key for key in plain if key.endswith(("_TOKEN", "_KEY", "_URL", "PASSWORD"))]


def _compose_command(file: Path) -> list[str]:
    found = shutil.which("docker-compose")
    if found is None and os.environ.get("CI") != "true":
        pytest.skip("docker-compose is not installed; under CI=true this is a failure")
    assert found is not None, "CI installs docker-compose (.ci/run)"
    return [found, "--file", str(file)]


def _ask_compose(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the distribution's own compose on a copy of the file, with the `.env` beside it."""
    shutil.copy(ROOT / "docker-compose.yml", folder)
    command = [*_compose_command(folder / "docker-compose.yml"), *words]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    return subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, text=True)


def _resolve(folder: Path, env: str) -> dict[str, Any]:
    """Return the services that compose would start with this `.env`, with what each is told."""
    (folder / ".env").write_text(env, encoding="utf-8")
    done = _ask_compose(folder, "config")
    assert done.returncode == 0, done.stderr
    services: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    return services


def test_compose_works_from_the_env_file_alone(tmp_path: Path) -> None:
    """A setting in `.env` reaches each of our services; what keeps them safe wins over it."""
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    env = example.replace("GATEWAY_PUBLIC_URL=", "GATEWAY_PUBLIC_URL=https://approvals.example")
    env = env.replace("GATEWAY_LOG_JSON=false", "GATEWAY_LOG_JSON=true")
    services = _resolve(tmp_path, env + "\nCOMPOSE_PROFILES=slack,discord,https\n")
    assert set(services) == set(compose()["services"])
    for name in OURS:
        told = services[name]["environment"]
        assert told["GATEWAY_LOG_JSON"] == "true"
        assert told["GATEWAY_PUBLIC_URL"] == "https://approvals.example"
        assert told["GATEWAY_ENV"] == "production"
        assert told["GATEWAY_PORT"] == ("8080" if name == "gateway" else "8787")
    assert json.loads(services["slack"]["environment"]["GATEWAY_ADAPTERS"]) == ["web", "slack"]


@pytest.mark.parametrize("env", ["", "GATEWAY_PUBLIC_URL=\n", None])
def test_without_a_public_address_nothing_starts(tmp_path: Path, env: str | None) -> None:
    """Compose names the setting that is missing, or the file."""
    if env is not None:
        (tmp_path / ".env").write_text(env, encoding="utf-8")
    done = _ask_compose(tmp_path, "config")
    assert done.returncode != 0
    assert "GATEWAY_PUBLIC_URL" in done.stderr or ".env" in done.stderr


@pytest.mark.parametrize(
    ("words", "profiles"),
    [((), {"caddy"}), (("slack",), {"caddy", "slack"}), (("discord",), {"caddy", "discord"})],
)
def test_tokens_switch_a_chat_on(
    tmp_path: Path, shell: Shell, words: tuple[str, ...], profiles: set[str]
) -> None:
    """What `gateway team init` writes starts the chat whose tokens it was given, and no other."""
    make_secrets(tmp_path / "deploy" / "secrets")
    tokens = {
        f"GATEWAY_{Path(secret['file']).name.upper()}": "a token"
        for name, secret in compose()["secrets"].items()
        if name.partition("_")[0] in words
    }
    chat = words[0] if words else "slack"
    told = ("--domain", "approvals.example", "--person", "ana", "--chat", chat)
    shell.run("team", "init", str(tmp_path), *told, env=tokens)
    env = (tmp_path / ".env").read_text(encoding="utf-8")
    services = _resolve(tmp_path, env)
    on = set((dotenv_values(stream=io.StringIO(env))["COMPOSE_PROFILES"] or "").split(","))
    started = {name for name, one in services.items() if on & {*one.get("profiles", on)}}
    assert started == {"valkey", "gateway", *profiles}
    assert services["gateway"]["environment"]["GATEWAY_POLICY_FILE"] == "/policy/policy.toml"
    (policy,) = [one for one in services["gateway"]["volumes"] if "/policy" in str(one)]
    folder = policy["source"] if isinstance(policy, dict) else policy.split(":")[0]
    assert (tmp_path / folder / "policy.toml").is_file()


def test_a_token_that_is_there_outlives_new_secrets(tmp_path: Path) -> None:
    """Whichever of the two commands comes first, `deploy/make-secrets.sh` empties no file."""
    (tmp_path / "slack_bot_token").write_text("a token", encoding="utf-8")
    make_secrets(tmp_path)
    assert (tmp_path / "slack_bot_token").read_text(encoding="utf-8") == "a token"


def test_a_service_starts_only_when_asked_for() -> None:
    """Each chat's service has a profile of its own name, and Caddy `https`; the gateway needs none
    of them."""
    profiles = {name: s.get("profiles") for name, s in compose()["services"].items()}
    assert profiles == {
        "valkey": None,
        "gateway": None,
        "slack": ["slack"],
        "discord": ["discord"],
        "caddy": ["https"],
    }
