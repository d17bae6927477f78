"""docs/tutorials/slack-for-a-team.md, typed word by word on empty machines: `make test-guide`.

The server is an empty Debian root with Docker. Each command of the page runs there, or on a second
machine in another network namespace. `WALK` says what is done with each command.

Stand-ins: Debian's packages for the images of others (`STAND_INS`), the counterpart for Slack and
its portal, a name server on the server for the domain, and an authority of our own.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import textwrap
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cli.tty import Tty
from tests.frame.test_image import STAND_INS
from tests.frame.tree import ROOT
from tests.guide.machines import (
    STATE,
    Machine,
    address_of,
    booted,
    here,
    make_root,
    outside_resolver,
    read_all,
    routed,
)
from tests.guide.page import Command, as_pattern, read_commands, read_rows
from tests.setup.slack_portal import SlackPortal
from tests.setup.way import Way
from tests.slack.counterpart.person import Human
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Message
from tests.slack.office import form, labels, shown
from tests.waiting import moment
from tests.web.chromium import running, visiting
from tests.web.inbox import CONNECTED
from tests.web.test_https import NAME, write_certificate
from tests.web.test_passkeys import add_authenticator

PAGE = (ROOT / "docs" / "tutorials" / "slack-for-a-team.md").read_text(encoding="utf-8")
BACKUP = (ROOT / "docs" / "guides" / "backup.md").read_text(encoding="utf-8")
SERVER = (
    "docker.io,docker-cli,docker-compose,docker-buildx,dnsmasq-base,iptables,ca-certificates,git"
)
PYTHON = "python3,python3-venv,make,ca-certificates"
LOOKING = 240
"""Seconds for which a reader looks again at what changes."""
ORIGIN = "/srv/approval-gateway.git"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Those that this machine trusts."""

pytestmark = [
    pytest.mark.skipif("GUIDE" not in os.environ, reason="runs in `make test-guide`"),
    pytest.mark.timeout(3000),
    pytest.mark.browser,
]


class Walk:
    """A reader of the page: the two machines, Slack, and what was written down so far."""

    def __init__(self, server: Machine, agent: Machine, slack: Slack) -> None:
        self.server, self.agent, self.slack = server, agent, slack
        self.answers = read_rows(PAGE, "Question")
        self.team, self.channel = self.answers["Channel for cards"].split(":")[1].split("/")
        self.people = {name: self._person(name) for name in ("ana", "ben")}
        self.tokens: list[str] = []
        self.agent_tokens: list[str] = []
        self.running: dict[str, tuple[Process, Message]] = {}

    def _person(self, name: str) -> Human:
        team, user = self.answers[f"Account of {name}"].split(":")[1].split("/")
        return self.slack.person(user, team=team, name=name)

    # What the reader does with a command

    async def type(self, command: Command) -> str:
        """Type a command on the server, and see what the page prints."""
        said = await self.server.run(command.text)
        assert re.search(as_pattern(command.says), said), (command, said)
        return said

    async def make_app(self, command: Command) -> None:
        """Print the manifest, then make the app in Slack's portal and invite it."""
        manifest = json.loads(await self.type(command))
        portal = SlackPortal(Way("slack"), self.slack, self.team)
        link = quote(json.dumps(manifest, separators=(",", ":")), safe="")
        portal.open(f"https://api.slack.com/apps?new_app=1&manifest_json={link}")
        portal.choose_workspace()
        portal.press_next()
        portal.press_create()
        portal.go_to_oauth()
        portal.press_install()
        portal.press_allow()
        self.tokens.append(portal.copy_bot_token())
        portal.open(f"https://api.slack.com/apps/{self.slack.state.app_id}/general")
        portal.press_generate_token()
        portal.name_token("socket")
        portal.press_add_scope()
        portal.choose_scope("connections:write")
        portal.press_generate()
        self.tokens.append(portal.copy_app_token())
        members = (human.user.id for human in self.people.values())
        self.slack.channel(self.channel, *members, team=self.team)

    async def answer_questions(self, command: Command) -> None:
        """Give the answers of the page's table, and the tokens."""
        await asyncio.to_thread(self._answer_questions, command)
        stand_in = f"GATEWAY_SLACK_API_URL={self.slack.api_url}"
        await self.server.run(f"echo {stand_in} >> .env")

    def _answer_questions(self, command: Command) -> None:
        questions = {name: one for name, one in self.answers.items() if name != "Tokens"}
        with Tty((), os.environ, program=self.server.words(command.text)) as terminal:
            for question, answer in questions.items():
                terminal.until(re.escape(question))
                terminal.type(answer)
            for kind, token in zip(("bot", "app"), self.tokens, strict=True):
                terminal.until(f"Slack {kind} token")
                terminal.type(token)
            assert terminal.ended() == 0, terminal.said
        assert not any(token in terminal.said for token in self.tokens)

    async def give_certificate(self, command: Command) -> None:
        """Put our certificate where the page says, and let the containers trust it."""
        folder = self.server.home / "approval-gateway" / "deploy" / "proxy"
        for name in ("approvals.pem", "approvals.key"):
            shutil.copy(STATE / name, folder)
        (folder / "approvals.key").chmod(0o600)
        await self.type(command)
        text = (folder / "Caddyfile").read_text(encoding="utf-8")
        assert text.count("# tls ") == 1
        (folder / "Caddyfile").write_text(text.replace("# tls ", "tls "), encoding="utf-8")
        shutil.copy(STATE / "ca-certificates.crt", folder / "authorities.pem")
        (override,) = re.findall(r"^   ```yaml\n(.*?)^   ```$", PAGE, re.DOTALL | re.MULTILINE)
        file = self.server.home / "approval-gateway" / "docker-compose.override.yml"
        file.write_text(textwrap.dedent(override), encoding="utf-8")

    async def see_healthy(self, command: Command) -> None:
        """Look until each service is healthy; Caddy is running."""
        states: list[str] = []
        async with asyncio.timeout(LOOKING):
            while sorted(states) != ["", "healthy", "healthy", "healthy"]:
                await moment()
                states = re.findall(r"Up .*?(?:\((.+?)\))?  ", await self.type(command))

    async def check(self, command: Command) -> None:
        """Run the checks; none fails."""
        said = await self.type(command)
        assert not re.search("^FAIL", said, re.MULTILINE), said

    async def sign_in(self, command: Command) -> None:
        """Ana and Ben open their links in a browser over HTTPS, and make a passkey each."""
        links = dict(re.findall(r"^(\w+) +(\S+#code=\S+)$", await self.type(command), re.MULTILINE))
        assert list(links) == ["ana", "ben"]
        known = (STATE / "known").read_text(encoding="ascii")
        arguments = (
            f"--host-resolver-rules=MAP {NAME} {self.server.address}",
            f"--ignore-certificate-errors-spki-list={known}",
        )
        with running(*arguments) as browser:
            for name, link in links.items():
                async with visiting(browser) as visit:
                    await self._sign_in(await visit.tab(), name, link)

    async def _sign_in(self, page: Any, name: str, link: str) -> None:
        await page.goto(link)
        await page.press(f"Sign in as {name}")
        await page.until(CONNECTED)
        await add_authenticator(page)
        await page.goto(f"https://{NAME}/inbox/devices")
        await page.press("Add a passkey")
        await page.until("document.body.textContent.includes('The passkey was added.')")
        await page.press("Sign out here")
        await page.press("Sign in with a passkey")
        await page.until(CONNECTED)

    async def get_token(self, command: Command) -> None:
        """Write down the agent's token."""
        found = re.search(r"^token +(agw_\S+)$", await self.type(command), re.MULTILINE)
        assert found is not None
        self.agent_tokens.append(found[1])

    async def connect_agent(self, command: Command) -> None:
        """Set the token on the agent's machine, in an empty project."""
        await self.agent.run("mkdir project")
        exports = command.text.replace("agw_…", self.agent_tokens[-1])
        self.agent.login = f". ~/tree/.venv/bin/activate; cd project; {exports}"

    # What an agent asks, and what people answer

    async def ask(self, line: str) -> tuple[Process, Message]:
        """Ask on the agent's machine; return the process, and its card in Slack."""
        before = len(self._cards())
        process = await self.agent.start(line)
        async with asyncio.timeout(60):
            await self.slack.until(lambda: len(self._cards()) > before)
        return process, self._cards()[-1]

    def _cards(self) -> list[Message]:
        return self.slack.messages(self.channel, self.team)

    async def review(self, name: str, card: Message) -> None:
        """Press Review…, and then Approve."""
        human = self.people[name]
        await human.click(card, "Review…")

        def offered() -> bool:
            blocks = human.modal.view["blocks"] if human.has_modal else []
            return any(one["text"]["text"] == "Approve" for _, one in human.buttons(blocks))

        async with asyncio.timeout(60):
            await self.slack.until(offered)
        await human.click_modal("Approve")

    async def approve_once(self, command: Command) -> None:
        """Ana approves an ordinary request, and its command ends with 0."""
        process, card = await self.ask(command.text)
        await self.people["ana"].click(card, "Approve")
        assert "approved by ana" in await read_all(process)
        assert process.returncode == 0

    async def approve_twice(self, command: Command) -> None:
        """High risk takes Ana and Ben. Then Ben denies another one, which never runs."""
        process, card = await self.ask(command.text)
        await self.review("ana", card)
        async with asyncio.timeout(60):
            await self.slack.until(lambda: "1 of 2" in shown(card))
        await self.review("ben", card)
        assert "deployed" in await read_all(process)
        assert process.returncode == 0
        await self.deny_second(command)

    async def deny_second(self, command: Command) -> None:
        """After one approval, the other person denies: nothing runs."""
        process, card = await self.ask(command.text)
        await self.review("ana", card)
        await self.deny("ben", card)
        assert "deployed" not in await read_all(process)
        assert process.returncode != 0

    async def deny(self, name: str, card: Message) -> None:
        """Press Deny…, and send the form."""
        human = self.people[name]
        await human.click(card, "Deny…")
        async with asyncio.timeout(60):
            await form(human, "deny")
        await human.submit()

    # Later days

    async def change_policy(self, command: Command) -> None:
        """Add a person to the file, as an editor would, and have it read again."""
        await self.server.run(
            "printf '\\n[[people]]\\nname = \"eve\"\\n' >> deploy/policy/policy.toml"
        )
        await self.type(command)

    async def see_policy(self, command: Command) -> None:
        """The new person is in the active policy."""
        async with asyncio.timeout(LOOKING):
            while '"eve"' not in await self.type(command):
                await moment()

    async def restore(self, command: Command) -> None:
        """See that there is nothing left, then load the file."""
        assert await self.server.run("docker volume ls --quiet") == ""
        assert "Problem" not in await self.type(command)

    async def is_stopped(self, command: Command) -> None:
        """Before the agent is confirmed, its token is revoked."""
        await self.agent.run("gateway ask shell -- echo hello", code=9)
        await self.type(command)

    async def confirm_rest(self, command: Command) -> None:
        """Confirm the other kinds that the guide lists; the kill switch is still on."""
        await self.type(command)
        for kind in re.findall(r"`(gateway restore --confirm [\w-]+)`", BACKUP):
            await self.server.run(f"docker compose exec gateway {kind}")
        await self.agent.run("gateway ask shell -- echo hello", code=1)

    async def resume(self, command: Command) -> None:
        """Allow requests again: the agent asks with its old token, and Ana approves."""
        await self.type(command)
        await self.approve_once(Command("gateway ask shell -- echo again"))

    async def publish_version(self, command: Command) -> None:
        """Ask while a new version comes out, which the server then gets."""
        self.running["upgrade"] = await self.ask("gateway ask shell -- echo upgraded")
        await here(
            """set -e; cd "$1"
            sed -i 's/^version = .*/version = "9.9.9"/' pyproject.toml
            sed -i 's/^__version__ = .*/__version__ = "9.9.9"/' gateway/__init__.py
            git -c user.name=test -c user.email=test@example.com commit --quiet --all -m 9.9.9
            git push --quiet "$2" HEAD:main""",
            str(STATE / "tree"),
            f"{self.server.root}{ORIGIN}",
        )
        await self.type(command)

    async def see_version(self, command: Command) -> None:
        """The new version runs, and the card from before it still decides."""
        assert "9.9.9" in await self.type(command)
        await self.see_healthy(Command("docker compose ps"))
        process, card = self.running.pop("upgrade")
        async with asyncio.timeout(60):
            await self.slack.until(lambda: bool(self.slack.sockets.open))
        await self.people["ben"].click(card, "Approve")
        assert "approved by ben" in await read_all(process)
        assert process.returncode == 0

    async def rotate_token(self, command: Command) -> None:
        """The old token is still valid, and so is the new one."""
        await self.get_token(command)
        old, new = self.agent_tokens
        await self.approve_once(Command("gateway ask shell -- echo old"))
        self.agent.login = self.agent.login.replace(old, new)
        await self.approve_once(Command("gateway ask shell -- echo new"))

    async def deny_last(self, command: Command) -> None:
        """After Deny, the agent's command ends with 1."""
        await self.check(command)
        process, card = await self.ask("gateway ask shell -- echo no")
        assert "Deny…" in labels(self.people["ana"], card)
        await self.deny("ana", card)
        await read_all(process)
        assert process.returncode == 1

    async def stop_all(self, command: Command) -> None:
        """The agent's next request fails at once."""
        await self.type(command)
        await self.agent.run("gateway ask shell -- echo stopped", code=1)

    async def leave_out(self, _: Command) -> None:
        """Do nothing: `make test-image` builds images within a test, and has a run of its own."""


Deed = Callable[[Walk, Command], Awaitable[object]]
EXEC = "docker compose exec gateway gateway"
UP = "docker compose up --detach --build"
WALK: list[tuple[str, Deed]] = [
    ("docker build --tag approval-gateway .", Walk.type),
    ("docker run --rm approval-gateway slack manifest", Walk.make_app),
    ("sh deploy/make-secrets.sh", Walk.type),
    (
        'docker run --rm -it --user "$(id -u):$(id -g)" --volume "$PWD:/team" approval-gateway '
        "team init /team",
        Walk.answer_questions,
    ),
    ("chown 10001 deploy/proxy/approvals.key", Walk.give_certificate),
    (UP, Walk.type),
    ("docker compose ps", Walk.see_healthy),
    ("docker compose exec slack gateway doctor --live", Walk.check),
    ("docker compose logs gateway slack", Walk.type),
    (f"{EXEC} team links", Walk.sign_in),
    (f"{EXEC} agent add coder", Walk.get_token),
    (
        f"export GATEWAY_URL=https://{NAME} GATEWAY_AGENT=coder GATEWAY_TOKEN=agw_…",
        Walk.connect_agent,
    ),
    ("gateway ask shell -- echo hello", Walk.approve_once),
    ("gateway run -- echo deployed to production", Walk.approve_twice),
    ("docker compose exec gateway sh -c 'kill -HUP 1'", Walk.change_policy),
    (f"{EXEC} policy show", Walk.see_policy),
    ("docker compose logs gateway", Walk.type),
    (f"{EXEC} backup /tmp/gw.backup", Walk.type),
    (
        "(umask 077; docker compose exec -T gateway cat /tmp/gw.backup > gw.backup)",
        Walk.type,
    ),
    ("docker compose exec gateway rm /tmp/gw.backup", Walk.type),
    ("docker compose down --volumes", Walk.type),
    (
        "docker compose run --rm -T --entrypoint sh gateway -c 'cat > /tmp/b && gateway restore "
        "/tmp/b' < gw.backup",
        Walk.restore,
    ),
    (f"{UP} --wait", Walk.type),
    (f"{EXEC} restore --confirm agents", Walk.is_stopped),
    (f"{EXEC} restore --confirm sign-ins", Walk.confirm_rest),
    (f"{EXEC} resume", Walk.resume),
    ("git pull", Walk.publish_version),
    (f"{UP} --wait", Walk.type),
    (f"{EXEC} --version", Walk.see_version),
    (f"{EXEC} agent rotate coder", Walk.rotate_token),
    (f"{EXEC} doctor", Walk.deny_last),
    (f"{EXEC} stop-all", Walk.stop_all),
    (f"{EXEC} resume", Walk.resume),
    ("make test-image IMAGE_ENGINE=docker", Walk.leave_out),
]
"""What is done with each command of the page, in its order."""


@pytest.fixture
async def walk() -> AsyncIterator[Walk]:
    """Yield a reader in front of two empty machines, at a page that is not yet read."""
    slack, address = Slack(), address_of(0)
    first = (
        f"dnsmasq --user=root --no-resolv --no-hosts --bind-interfaces --listen-address={address} "
        f"--server={outside_resolver()} --address=/{NAME}/{address}; "
        "dockerd > /var/log/docker.log 2>&1 &"
    )
    STATE.mkdir(parents=True, exist_ok=True)
    write_certificate(STATE)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(routed())
        server = await stack.enter_async_context(
            booted("server", 0, packages=SERVER, resolver=address, first=first)
        )
        agent = await stack.enter_async_context(
            booted("agent", 1, packages=PYTHON, resolver=address)
        )
        await stack.enter_async_context(slack.running(server.router))
        own = AUTHORITIES, STATE / "approvals.pem"
        (STATE / "ca-certificates.crt").write_text("".join(one.read_text("ascii") for one in own))
        await copy_tree(server)
        await asyncio.gather(make_images(server), install(agent))
        server.login = "cd approval-gateway"
        yield Walk(server, agent, slack)
        await server.run("docker compose down --volumes")


async def copy_tree(server: Machine) -> None:
    """Put this tree into a repository on the server, and clone it: a prerequisite of the page."""
    await here(
        """set -e; rm -rf "$2"; mkdir "$2"; cd "$1"
        git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$2"
        cd "$2"; git init --quiet --initial-branch main; git add --all
        git -c user.name=test -c user.email=test@example.com commit --quiet -m 'this tree'
        git clone --quiet --bare . "$3" """,
        str(ROOT),
        str(STATE / "tree"),
        f"{server.root}{ORIGIN}",
    )
    await server.run(f"git clone --quiet {ORIGIN} approval-gateway")


async def make_images(server: Machine) -> None:
    """Wait for Docker, and make the images of others from Debian's packages."""
    async with asyncio.timeout(LOOKING):
        while "Server Version" not in await read_all(await server.start("docker info")):
            await moment()
    tar = await make_root("debian", "ca-certificates")
    shutil.copy(tar, server.home / "debian.tar")
    await server.run("docker import debian.tar debian && rm debian.tar && mkdir stand-in")
    shutil.copy(AUTHORITIES, server.home / "stand-in")
    for name, (packages, change) in STAND_INS.items():
        lines = (
            "FROM debian",
            "COPY ca-certificates.crt /tmp/",
            "RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qqy "
            f"--no-install-recommends {packages.replace(',', ' ')} "
            "&& cp /tmp/ca-certificates.crt /etc/ssl/certs/",
            f"RUN {change}",
        )
        (server.home / "stand-in" / "Dockerfile").write_text("\n".join(lines))
        await server.run(f"docker build --quiet --tag {name} stand-in")


async def install(agent: Machine) -> None:
    """Install the gateway's commands on the agent's machine, as docs/README.md says."""
    shutil.copy(STATE / "ca-certificates.crt", agent.root / "etc" / "ssl" / "certs")
    await here('cp -r "$1" "$2"', str(STATE / "tree"), str(agent.home / "tree"))
    await agent.run("make --directory tree setup")


async def test_the_guide_leads_to_a_team(walk: Walk) -> None:
    """Each command of the page, in order, from an empty root to a restored and upgraded team."""
    commands = read_commands(PAGE)
    assert [one.text for one in commands] == [text for text, _ in WALK]
    began = time.monotonic()
    for command, (_, deed) in zip(commands, WALK, strict=True):
        await deed(walk, command)
        sys.stdout.write(f"{time.monotonic() - began:5.0f} s  {command.text}\n")
