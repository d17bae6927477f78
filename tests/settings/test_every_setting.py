"""Every setting stands in its page and can be set; every option of a command stands in its page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pydantic_settings import BaseSettings

from adapters.discord.settings import DiscordSettings
from adapters.slack.settings import SlackSettings
from gateway.cli.completion import commands_and_words
from gateway.domain.policy_document import Mode
from gateway.server.settings import Settings
from tests.frame.tree import ROOT

SEED = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
WEBHOOK = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
PAGES: dict[type[BaseSettings], str] = {
    Settings: "reference/configuration.md",
    SlackSettings: "guides/slack.md",
    DiscordSettings: "guides/discord.md",
}
# A good value of each setting, as it is written, and as it is read.
GOOD: dict[type[BaseSettings], dict[str, tuple[str, Any]]] = {
    Settings: {
        "env": ("production", "production"),
        "redis_url": ("rediss://db:1", SecretStr("rediss://db:1")),
        "namespace": ("team-1", "team-1"),
        "data_dir": ("/srv/state", Path("/srv/state")),
        "host": ("0.0.0.0", "0.0.0.0"),
        "port": ("0", 0),
        "public_url": ("https://approvals.example", "https://approvals.example"),
        "trusted_proxy": ("true", True),
        "tls_cert": ("/srv/cert.pem", Path("/srv/cert.pem")),
        "tls_key": ("/srv/key.pem", Path("/srv/key.pem")),
        "signing_key": (SEED, SecretStr(SEED)),
        "adapters": ('["web","slack"]', ("web", "slack")),
        "policy_file": ("/srv/policy.toml", Path("/srv/policy.toml")),
        "deciders": ('["mine"]', ("mine",)),
        "grants": ("memory", "memory"),
        "denial_minutes": ("0", 0),
        "hooks_file": ("/srv/hooks.json", Path("/srv/hooks.json")),
        "mode": ("auto-deny", Mode.AUTO_DENY),
        "retention_days": ("0.5", 0.5),
        "archive": ("/srv/archive", Path("/srv/archive")),
        "session_idle_hours": ("1.5", 1.5),
        "webhook_url": ("https://hooks.example/x", "https://hooks.example/x"),
        "webhook_secret": (WEBHOOK, SecretStr(WEBHOOK)),
        "webhook_hosts": ('["hooks.example"]', ("hooks.example",)),
        "push_key": (SEED, SecretStr(SEED)),
        "push_hosts": ('["push.example"]', ("push.example",)),
        "oidc_issuer": ("https://login.example/x", "https://login.example/x"),
        "oidc_client_id": ("approvals", "approvals"),
        "oidc_client_secret": ("s", SecretStr("s")),
        "oidc_claim": ("sub", "sub"),
        "log_level": ("DEBUG", "DEBUG"),
        "log_json": ("true", True),
    },
    SlackSettings: {
        "mode": ("http", "http"),
        "bot_token": ("xoxb-1", SecretStr("xoxb-1")),
        "app_token": ("xapp-1", SecretStr("xapp-1")),
        "signing_secret": ("s", SecretStr("s")),
        "client_id": ("1.2", "1.2"),
        "client_secret": ("c", SecretStr("c")),
        "public_url": ("https://approvals.example", "https://approvals.example"),
        "api_url": ("https://slack-gov.com/api/", "https://slack-gov.com/api/"),
    },
    DiscordSettings: {
        "token": ("t", SecretStr("t")),
        "public_key": ("0" * 64, "0" * 64),
        "api_base": ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        "gateway_url": ("ws://127.0.0.1:1", "ws://127.0.0.1:1"),
        "env": ("development", "development"),
    },
}
# For tests of ours alone, so no page offers them; and the gateway's own, which has its page.
UNTOLD = {"GATEWAY_DISCORD_API_BASE", "GATEWAY_DISCORD_GATEWAY_URL"}
OWN = {"GATEWAY_ENV", "GATEWAY_PUBLIC_URL"}


def variable(settings: type[BaseSettings], member: str) -> str:
    """Return the name of a setting's variable."""
    known = settings.model_fields[member]
    return str(known.validation_alias or f"{settings.model_config['env_prefix']}{member.upper()}")


@pytest.mark.parametrize("settings", GOOD)
def test_every_setting_has_a_good_value(settings: type[BaseSettings]) -> None:
    """A new setting needs a line here, and a line in its page."""
    assert set(GOOD[settings]) == set(settings.model_fields)
    page = (ROOT / "docs" / PAGES[settings]).read_text(encoding="utf-8")
    names = {variable(settings, member) for member in settings.model_fields} - UNTOLD
    names -= OWN if settings is not Settings else set()
    assert {name for name in names if f"`{name}`" not in page} == set()


@pytest.mark.parametrize(
    ("settings", "member"),
    [(settings, member) for settings, members in GOOD.items() for member in members],
)
def test_a_good_value_arrives(
    monkeypatch: pytest.MonkeyPatch, settings: type[BaseSettings], member: str
) -> None:
    """As the environment has it, whatever the other settings are."""
    monkeypatch.setenv("GATEWAY_DISCORD_TOKEN", "t")
    text, value = GOOD[settings][member]
    monkeypatch.setenv(variable(settings, member), text)
    assert getattr(settings(), member) == value
    if member != "token":
        monkeypatch.delenv(variable(settings, member))
        default = settings.model_fields[member].get_default(call_default_factory=True)
        assert getattr(settings(), member) == default
        assert default != value or member == "env"


def test_the_tables_say_what_the_settings_say() -> None:
    """Name, default and meaning of each, once, in the words that `.env.example` has too."""
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    head, rule, *told = rows()
    tables = re.findall(
        rf"^{re.escape(head)}\n{re.escape(rule)}\n((?:\|.*\n)+)", page, re.MULTILINE
    )
    assert sorted("".join(tables).splitlines()) == sorted(told)


def rows() -> list[str]:
    """Return the head of a table of settings, and a row for each setting."""
    made = ["| variable | unless set | meaning |", "|---|---|---|"]
    for member, known in Settings.model_fields.items():
        default = known.default
        told = "" if default is None or known.default_factory else f"`{_written(default)}`"
        made.append(f"| `{variable(Settings, member)}` | {told} | {known.description} |")
    return made


def _written(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return "[" + ",".join(f'"{one}"' for one in default) + "]"
    return str(default)


def test_every_option_stands_in_the_page_of_commands() -> None:
    """Whatever `--help` lists is explained."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    told = set(re.findall(r"--[a-z][a-z-]*", page)) | {"--help"}
    missing = {
        f"{path} {word}"
        for path, words in commands_and_words()
        for word in words
        if word.startswith("--") and word not in told
    }
    assert missing == set()
