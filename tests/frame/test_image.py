"""The image, and the compose file, built and run: `make test-image`.

With `IMAGE_ENGINE=docker` everything is as in production. Otherwise Buildah builds and Podman runs,
which needs no daemon and pulls nothing: the images of others are made from Debian's packages.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from cryptography import x509

from tests.frame.tree import ROOT
from tests.ports import free_port
from tests.web.test_https import NAME, write_certificate

KIND = os.environ.get("IMAGE_ENGINE")
STORE = ROOT / "build" / "image"
IMAGE, PROXY = "approval-gateway", "approval-gateway-proxy"
MOST_BYTES = 130 * 1000**2
"""What the product may add to the image of Python."""
HARDENED = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--tmpfs=/tmp")
LOOKS = 60
STAND_INS = {
    "docker.io/library/python:3.13-slim": (
        "python3,python3-venv,python3-pip,ca-certificates",
        "ln -s python3 /usr/bin/python",
    ),
    "docker.io/valkey/valkey:9": (
        "valkey-server,valkey-tools",
        "mkdir /data && chown valkey:valkey /data",
    ),
    "docker.io/library/caddy:2": ("caddy,ca-certificates", "true"),
}
"""Debian's packages for each image of others, and what is done to them."""
CONTAINERS = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""

pytestmark = [
    pytest.mark.skipif(KIND is None, reason="runs in `make test-image`"),
    pytest.mark.timeout(1200),
]


class Engine:
    """Docker."""

    command: Sequence[str] = ("docker",)
    compose: Sequence[str] = ("docker", "compose")
    up: Sequence[str] = ("up", "--detach", "--no-build", "--wait")
    base = "python:3.13-slim"

    def __init__(self) -> None:
        self.env: dict[str, str] = {}

    def build(self) -> None:
        """Build both images."""
        self.type("pull", self.base)  # a build keeps no image of its base
        self.type("build", "--tag", IMAGE, str(ROOT))
        proxy = str(ROOT / "deploy" / "proxy.Dockerfile")
        self.type("build", "--tag", PROXY, "--file", proxy, str(ROOT))

    def type(self, *words: str, code: int = 0, folder: Path | None = None) -> str:
        """Run a command of the engine; return what it printed."""
        return self.start([*self.command, *words], code=code, folder=folder)

    def start(self, command: Sequence[str], *, code: int = 0, folder: Path | None = None) -> str:
        """Run a command; return what it printed, errors too if another code was expected."""
        env = {name: one for name, one in os.environ.items() if not name.startswith("GATEWAY_")}
        done = subprocess.run(
            command,
            cwd=folder,
            env={**env, **self.env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (command, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout + (done.stderr if code else "")

    def size(self, image: str) -> int:
        """Return how many bytes an image has."""
        return int(self.type("image", "inspect", image, "--format", "{{.Size}}"))

    def wait_healthy(self, container: str) -> None:
        """Return once the container's own check says that it is healthy."""
        for _ in range(LOOKS):
            if self.is_healthy(container):
                return
        raise AssertionError(self.type("logs", container))

    def is_healthy(self, container: str) -> bool:
        """Return whether the last check was good."""
        told = self.type("inspect", container, "--format", "{{json .State.Health.Status}}")
        return bool(json.loads(told) == "healthy")


class PodmanEngine(Engine):
    """Podman with a store of its own, and Debian's compose on its socket."""

    compose = ("docker-compose",)
    up = ("up", "--detach", "--no-build")
    base = "docker.io/library/python:3.13-slim"

    def __init__(self) -> None:
        super().__init__()
        STORE.mkdir(parents=True, exist_ok=True)
        (STORE / "containers.conf").write_text(CONTAINERS)
        places = ("--root", str(STORE / "store"), "--runroot", str(STORE / "run"))
        self.command = ("podman", *places)
        self.buildah = ("buildah", *places)
        self.env = {
            "CONTAINERS_CONF": str(STORE / "containers.conf"),
            "DOCKER_HOST": f"unix://{STORE / 'podman.sock'}",
        }

    def build(self) -> None:
        """Build the images of others from Debian's packages if they are missing, then both."""
        for name, (packages, change) in STAND_INS.items():
            self._stand_in(name, packages, change)
        told = (
            "--isolation=chroot",
            "--network=host",
            "--pull-never",
            "--layers",
            "--format=docker",
        )
        mounted = ("--volume", "/etc/ssl/certs:/etc/ssl/certs:ro")  # the index of pip may be local
        for tag, file in ((IMAGE, ROOT / "Dockerfile"), (PROXY, ROOT / "deploy/proxy.Dockerfile")):
            words = (*told, *mounted, "--file", str(file), "--tag", f"localhost/{tag}", str(ROOT))
            self.start([*self.buildah, "bud", *words])

    def _stand_in(self, name: str, packages: str, change: str) -> None:
        if self.start([*self.buildah, "images", "--quiet", "--filter", f"reference={name}"]):
            return
        (mirror, *_) = self.start(["apt-get", "indextargets", "--format", "$(SITE)"]).split()
        tar = STORE / "base.tar"
        made = ("mmdebstrap", "--variant=minbase", f"--include={packages}", "trixie", str(tar))
        self.start([*made, mirror])
        container = self.start([*self.buildah, "from", "scratch"]).strip()
        self.start([*self.buildah, "add", container, str(tar), "/"])
        self.start([*self.buildah, "run", "--isolation=chroot", container, "sh", "-c", change])
        self.start([*self.buildah, "commit", container, name])
        self.start([*self.buildah, "rm", container])
        tar.unlink()

    def is_healthy(self, container: str) -> bool:
        """Run the container's check: Podman has systemd do it, and here may be none."""
        command = [*self.command, "healthcheck", "run", container]
        done = subprocess.run(command, env={**os.environ, **self.env}, check=False)
        return done.returncode == 0


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Build the images; serve the socket that compose uses."""
    if KIND == "docker":
        made = Engine()
        made.build()
        yield made
        return
    podman = PodmanEngine()
    podman.build()
    socket = podman.env["DOCKER_HOST"]
    serving = [*podman.command, "system", "service", "--time=0", socket]
    with subprocess.Popen(serving, env={**os.environ, **podman.env}) as service:
        yield podman
        service.terminate()


def test_it_is_small(engine: Engine) -> None:
    """The product adds this much to the image of Python that it is built on."""
    whole, base = engine.size(IMAGE), engine.size(engine.base)
    sys.stdout.write(f"image: {whole / 1e6:.0f} MB, {(whole - base) / 1e6:.0f} MB of it added\n")
    assert 0 < whole - base < MOST_BYTES


def test_it_runs_without_rights_as_any_user(engine: Engine) -> None:
    """Not as root unless told so; without network, capabilities and files to write."""
    run = ("run", "--rm", "--network=none", *HARDENED)
    assert "10001" in engine.type(*run, "--entrypoint=id", IMAGE, "-u")
    for user in ("10001:10001", "54321:54321"):
        said = engine.type(*run, "--user", user, IMAGE, "--version")
        assert re.fullmatch(r"gateway \d+\.\d+\.\d+\n", said)
    said = engine.type(*run, "--env=GATEWAY_ENV=production", IMAGE, "up", code=5)
    assert "production needs REDIS_URL" in said


def test_it_writes_the_files_of_a_team_as_any_user(engine: Engine, tmp_path: Path) -> None:
    """Whoever has no Python runs `gateway team init` from the image, as the owner of the folder."""
    tmp_path.chmod(0o777)
    init(engine, tmp_path, "54321:54321")
    made = (tmp_path / ".env").stat()
    assert (made.st_uid, stat.S_IMODE(made.st_mode)) == (54321, 0o600)


def init(engine: Engine, folder: Path, user: str) -> None:
    """Write the files of a team from the image."""
    run = ("run", "--rm", "--network=none", *HARDENED, "--user", user)
    told = ("--domain", NAME, "--person", "ana", "--person", "ben", "--chat", "none")
    engine.type(*run, "--volume", f"{folder}:/team", IMAGE, "team", "init", "/team", *told)


class Team:
    """The compose file in a folder of the test's, at ports of its own and with a certificate."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder, self.port = engine, folder, free_port()
        (folder / "deploy").mkdir()
        for name in ("docker-compose.yml", "deploy/make-secrets.sh", "deploy/users.acl.example"):
            shutil.copy(ROOT / name, folder / name)
        subprocess.run(["sh", "deploy/make-secrets.sh"], cwd=folder, check=True)
        init(engine, folder, f"{os.getuid()}:{os.getgid()}")
        self.url = f"https://{NAME}:{self.port}"
        self._change(".env", f"https://{NAME}", self.url)
        self._change("docker-compose.yml", '"80:8080"', f'"127.0.0.1:{free_port()}:8080"')
        self._change("docker-compose.yml", '"443:8443"', f'"127.0.0.1:{self.port}:8443"')
        self._change("docker-compose.yml", "127.0.0.1:8080:8080", f"127.0.0.1:{free_port()}:8080")
        self._change("deploy/proxy/Caddyfile", "# tls", "tls")
        self.certificate = write_certificate(folder / "deploy" / "proxy") / "approvals.pem"
        (folder / "deploy" / "proxy" / "approvals.key").chmod(0o644)  # Caddy is another user

    def _change(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, (name, old)
        (self.folder / name).write_text(text.replace(old, new), encoding="utf-8")

    def compose(self, *words: str) -> str:
        """Run a command of compose."""
        return self.engine.start([*self.engine.compose, *words], folder=self.folder)

    def container(self, service: str) -> str:
        """Return the id of a service's container."""
        return self.compose("ps", "--quiet", service).strip()

    def gateway(self, *words: str) -> str:
        """Run a command in the gateway's container, as an operator does."""
        return self.compose("exec", "-T", "gateway", "gateway", *words)

    def outside(self, *words: str, code: int = 0, **env: str) -> str:
        """Run a command of the image as another machine would, through Caddy."""
        told = {"GATEWAY_URL": self.url, "SSL_CERT_FILE": "/certificate.pem", **env}
        given = [f"--env={name}={value}" for name, value in told.items()]
        mounted = f"--volume={self.certificate}:/certificate.pem:ro"
        # Work in the root folder is high risk.
        place = ("--workdir=/tmp", "--network=host", f"--add-host={NAME}:127.0.0.1")
        run = ("run", "--rm", *place, mounted)
        return self.engine.type(*run, *HARDENED, *given, IMAGE, *words, code=code)


@pytest.fixture
def team(engine: Engine, tmp_path: Path) -> Iterator[Team]:
    """Start the compose file; remove everything afterwards."""
    made = Team(engine, tmp_path)
    try:
        made.compose(*engine.up, "valkey")
        engine.wait_healthy(made.container("valkey"))
        made.compose(*engine.up)
        engine.wait_healthy(made.container("gateway"))
        yield made
    finally:
        made.compose("down", "--volumes")


def ask(team: Team, agent: dict[str, str], *command: str) -> str:
    """Ask for a command as an agent on another machine; return the request's id."""
    asked = team.outside("ask", "--no-wait", "shell", "--", *command, code=6, **agent)
    (request,) = re.findall(r'"id": ?"([0-9a-f]+)"', asked)
    return str(request)


def test_a_team_starts_from_its_files_and_answers(team: Team) -> None:
    """From `make-secrets.sh` and `gateway team init` to a request that an approver answers: every
    service is healthy, the policy is active, and agent and approver come through HTTPS."""
    certificate = x509.load_pem_x509_certificate(team.certificate.read_bytes())
    assert certificate.subject.rfc4514_string() == f"CN={NAME}"
    links = team.gateway("team", "links").split()
    assert links[::2] == ["ana", "ben"]
    assert all(link.startswith(f"{team.url}/inbox/login#code=") for link in links[1::2])
    token = json.loads(team.gateway("agent", "add", "coder", "--json"))["token"]
    agent = {"GATEWAY_AGENT": "coder", "GATEWAY_TOKEN": token}
    ana, ben = (
        {
            "GATEWAY_APPROVER_TOKEN": json.loads(team.gateway("approver", "add", name, "--json"))[
                "token"
            ]
        }
        for name in ("ana", "ben")
    )
    request = ask(team, agent, "echo", "hello")
    assert "ben approved" in team.outside("approve", request, **ben)
    team.outside("wait", request, **agent)  # exit code 0: approved
    request = ask(team, agent, "./deploy.sh", "production")
    team.outside("approve", request, "--yes", **ana)
    assert "pending" in team.outside("show", request, **ana)
    team.outside("approve", request, "--yes", **ben)
    team.outside("wait", request, **agent)
    assert "ben approved" in team.gateway("audit", "tail")


def test_a_changed_policy_is_read_again(team: Team) -> None:
    """The folder is mounted, not the file, so an editor that replaces the file changes it too. The
    signal comes from inside: Docker never restarts a container again that it has sent one."""
    policy = team.folder / "deploy" / "policy" / "policy.toml"
    text = policy.read_text(encoding="utf-8")
    new = policy.with_suffix(".new")
    new.write_text(f'{text}\n[[people]]\nname = "cleo"\n', encoding="utf-8")
    new.replace(policy)
    team.compose("exec", "-T", "gateway", "sh", "-c", "kill -HUP 1")
    assert any('"cleo"' in team.gateway("policy", "show") for _ in range(LOOKS))
    told = "the policy file /policy/policy.toml is active"
    assert team.compose("logs", "--no-color", "gateway").count(told) == 2


def test_an_operator_stops_every_agent(team: Team) -> None:
    """From the server, without a token; approvals are refused until it is taken back."""
    token = json.loads(team.gateway("agent", "add", "coder", "--json"))["token"]
    agent = {"GATEWAY_AGENT": "coder", "GATEWAY_TOKEN": token}
    assert "denied" in team.gateway("stop-all")
    assert "denied" in team.outside("ask", "shell", "--", "ls", code=1, **agent)
    team.gateway("resume")
    team.outside("ask", "--no-wait", "shell", "--", "ls", code=6, **agent)
