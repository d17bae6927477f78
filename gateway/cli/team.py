"""`gateway team …`: write the files of a team's gateway, and print its people's sign-in links."""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gateway.cli.chats import Terminal, ask_line, confirm
from gateway.cli.redis_access import connect_backend
from gateway.cli.requests import say
from gateway.doctor import gateway_url
from gateway.domain.redaction import mask
from gateway.errors import InvalidRequest
from gateway.policy.policy_file_reader import read_policy
from gateway.server.lan import draw_qr
from gateway.server.settings import Settings
from gateway.wire.local_discovery import secret, write_private

_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_PERSON = re.compile(r"[a-z0-9._-]{1,64}")
_TOKENS = {"slack": ("slack_bot_token", "slack_app_token"), "discord": ("discord_token",)}
"""The files of each chat's tokens in deploy/secrets, as docker-compose.yml mounts them."""
_SECRETS = Path("deploy", "secrets")
_POLICY = Path("deploy", "policy", "policy.toml")

_ENV = """\
# Settings of the team's gateway, for Docker Compose. `gateway team init` wrote this file.
# .env.example lists every setting; add those that you need. Passwords and tokens are in
# deploy/secrets.

# What runs beside the gateway: https is Caddy, slack and discord are the chats.
# Leave out https if your own TLS proxy serves the domain; it finds the gateway at 127.0.0.1:8080.
COMPOSE_PROFILES={profiles}

# The address that people and agents use. Links, passkeys and the check of the Host header need it.
GATEWAY_PUBLIC_URL=https://{domain}

# People, routes and rules, as the container sees the file: here it is {policy}.
GATEWAY_POLICY_FILE=/policy/{name}
"""

_CADDYFILE = """\
# HTTPS for the gateway, in the service `caddy`. `gateway team init` wrote this file.
{{
	# Docker Compose publishes these ports as 80 and 443.
	http_port 8080
	https_port 8443
	# Nobody changes this configuration while Caddy runs.
	admin off
}}

{domain} {{
	# Caddy gets a certificate automatically if the internet can reach this name at port 80 or 443.
	# Otherwise put your certificate and key beside this file, and remove the # of the next line.
	# tls /etc/caddy/approvals.pem /etc/caddy/approvals.key
	reverse_proxy gateway:8080
}}
"""

_POLICY_HEAD = """\
# Who may approve which requests. `gateway team init` wrote this file.
# docs/guides/write-policy.md explains every member. The gateway reads the file when it starts, and
# again after: docker compose exec gateway sh -c 'kill -HUP 1'

# Calls that look destructive, or that reach for secrets, always go to people.
guardrails = "ask"
"""

_ROUTE = """
# Requests that no earlier route takes: cards appear at the targets, and the approvers decide.
[[routes]]
name = "default"
targets = {targets}
approvers = {approvers}
# Nobody decides the requests of their own agents.
self_approval = false
# A request expires after 15 minutes, with one reminder after 5.
timeout = 900
remind_after = [300]
"""

_QUORUM = """
# High risk takes two people.
[routes.risk.high]
quorum = 2
"""

_RISK = """
# The risk is medium unless a rule sets another one.
[[risks]]
name = "production"
level = "high"
reason = "touches production"
contains = ["production", "prod-"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamFile:
    """A file that `init` writes. The text of a secret is never printed."""

    path: Path
    text: str
    mode: int = 0o644
    secret: bool = False

    def compare(self) -> str | None:
        """Return what replacing the file would change: "" for a new file, None if its content is
        already right."""
        old = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        if old == self.text and self.path.exists():
            return None
        if self.secret:
            return f"{self.path}: another token" if old else ""
        names = str(self.path), f"{self.path}, new"
        lines = difflib.unified_diff(old.splitlines(), self.text.splitlines(), *names, lineterm="")
        return "\n".join(lines) if old else ""

    def write(self) -> None:
        """Replace the file, and make its folder. A folder of secrets is for its owner alone."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.parent.parent.name == "deploy":  # a container reads it as another user
            self.path.parent.chmod(0o700 if self.secret else 0o755)
        write_private(self.path, self.text)
        self.path.chmod(self.mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """The operator's answers about a team. Each person has a name and, if known, a chat account."""

    domain: str
    people: dict[str, str]
    chat: str
    channel: str
    tokens: dict[str, str]


async def init(options: argparse.Namespace) -> int:
    """Write the files of a team's gateway; ask for what the options leave out."""
    asks = not (options.yes or options.json) and sys.stdin.isatty()
    team = await _ask_team(options, asks=asks)
    files = list(_list_files(options.folder, team))
    changed = [(file, change) for file in files if (change := file.compare()) is not None]
    replaced = [change for _, change in changed if change]
    if replaced and not options.yes:
        print(mask("\n".join(replaced)), file=sys.stderr)
        if not asks:
            raise InvalidRequest("nothing was written: these files differ; --yes replaces them")
        if not confirm("Replace these files?"):
            print("nothing was written")
            return 1
    for file, _ in changed:
        file.write()
    wrote = [str(file.path) for file, _ in changed]
    lines = [f"wrote {one}" for one in wrote] or ["every file is as it should be"]
    say({"wrote": wrote}, "\n".join([*lines, *_list_next_steps(options.folder, team)]), options)
    return 0


async def _ask_team(options: argparse.Namespace, *, asks: bool) -> Team:
    """Ask for the team's data, and return checked answers. Raises InvalidRequest for a wrong or
    missing one."""

    def ask(said: str | None, question: str, option: str) -> str:
        if said is None and not asks:
            raise InvalidRequest(f"nobody can type here: add {option}")
        return ask_line(question) if said is None else said

    domain = ask(options.domain, "Domain that people open, such as approvals.example:", "--domain")
    domain = domain.lower()
    if not _DOMAIN.fullmatch(domain):
        raise InvalidRequest(f'"{domain}" is not a host name such as approvals.example')
    said = " ".join(options.people) or None
    words = ask(said, "Names of the approvers, the admin first, such as ana ben:", "--person")
    people = dict(word.partition("=")[::2] for word in words.split())
    wrong = [name for name in people if not _PERSON.fullmatch(name)]
    if wrong or not people:
        raise InvalidRequest(f"a name has 1 to 64 characters of a-z, 0-9, ., _ and -: {wrong}")
    chat = ask(options.chat, "Chat where cards appear: slack, discord or none:", "--chat")
    if chat not in (*_TOKENS, "none"):
        raise InvalidRequest(f'unknown chat "{chat}": answer slack, discord or none')
    channel = options.channel or ""
    if chat in _TOKENS and asks:
        channel = channel or _ask_place(chat, "Channel for cards")
        people = {
            name: said or _ask_place(chat, f"Account of {name}") for name, said in people.items()
        }
    given = [one for one in (channel, *people.values()) if one]
    if other := [one for one in given if not one.startswith(f"{chat}:")]:
        raise InvalidRequest(f'"{other[0]}" is not of the chat {chat}: write CHAT:ID, and --chat')
    tokens = {name: await _ask_token(name, asks=asks) for name in _TOKENS.get(chat, ())}
    return Team(domain=domain, people=people, chat=chat, channel=channel, tokens=tokens)


def _ask_place(chat: str, what: str) -> str:
    return ask_line(f"{what} ({chat}:…, as `/approvals who` shows it there; empty for later):")


async def _ask_token(name: str, *, asks: bool) -> str:
    """Return a token from the environment, or one that the person types without echo, or ""."""
    variable = f"GATEWAY_{name.upper()}"
    if not asks:
        return secret(variable) or ""
    words = name.replace("_", " ").capitalize()
    return await Terminal(name).ask_secret(f"{words}, empty for later", variable)


def _list_files(folder: Path, team: Team) -> Iterator[TeamFile]:
    """Yield the files to write. Raises BadPolicy before the first one if the policy would be
    rejected."""
    policy = _write_policy(team)
    read_policy(policy)
    kept = {name: folder / _SECRETS / name for name in team.tokens}
    has_tokens = [bool(team.tokens[name]) or _has_text(path) for name, path in kept.items()]
    profiles = "https," + team.chat if has_tokens and all(has_tokens) else "https"
    env = _ENV.format(profiles=profiles, domain=team.domain, policy=_POLICY, name=_POLICY.name)
    yield TeamFile(path=folder / ".env", text=env, mode=0o600)
    yield TeamFile(path=folder / _POLICY, text=policy)
    caddyfile = _CADDYFILE.format(domain=team.domain)
    yield TeamFile(path=folder / "deploy" / "proxy" / "Caddyfile", text=caddyfile)
    for name, path in kept.items():
        if team.tokens[name]:
            yield TeamFile(path=path, text=team.tokens[name], secret=True)


def _has_text(path: Path) -> bool:
    return path.exists() and bool(path.read_text(encoding="utf-8").strip())


def _write_policy(team: Team) -> str:
    lines = [_POLICY_HEAD]
    for number, (name, account) in enumerate(team.people.items()):
        lines.append(f"\n[[people]]\nname = {json.dumps(name)}\n")
        if account:
            lines.append(f"identities = {json.dumps([account])}\n")
        elif team.chat in _TOKENS:
            lines.append(f'# identities = ["{team.chat}:…"]  # /approvals who shows it there\n')
        if not number:
            lines.append(
                "# An admin may use the kill switch and change the policy.\nadmin = true\n"
            )
    targets = ["web", *([team.channel] if team.channel else [])]
    people = json.dumps(list(team.people))
    lines.append(_ROUTE.format(targets=json.dumps(targets), approvers=people))
    if len(team.people) > 1:
        lines.append(_QUORUM)
    return "".join([*lines, _RISK])


def _list_next_steps(folder: Path, team: Team) -> Iterator[str]:
    yield "Next, in the folder of docker-compose.yml:"
    if not (folder / _SECRETS / "redis_url").exists():
        yield "  sh deploy/make-secrets.sh"
    yield "  docker compose up --detach --build"
    yield "  docker compose exec gateway gateway team links"
    if team.chat in _TOKENS and not all(team.tokens.values()):
        page = f"docs/guides/{team.chat}.md"
        yield f"Without its tokens, {team.chat} stays off. {page} says where they come from;"
        yield "then run this command again."


async def print_links(options: argparse.Namespace) -> int:
    """Print a sign-in link for each person, valid once and for ten minutes."""
    if options.qr and find_spec("segno") is None:
        raise InvalidRequest("--qr needs an extra: install approval-gateway[lan]")
    url = gateway_url(Settings())
    async with connect_backend(acting=True) as found:
        names = options.names or [one.name for one in (await found.store.policy()).listed]
        codes = {name: await found.logins.invite(name) for name in names}
    links = {name: f"{url}/inbox/login#code={code}" for name, code in codes.items()}
    lines = []
    for name, link in links.items():
        lines += [f"{name}  {link}", *(draw_qr(link) if options.qr else ())]
    say(links, "\n".join(lines) or "the policy names nobody", options)
    return 0
