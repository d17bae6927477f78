"""The compose file, the secrets of an installation, and the settings that a service may be told."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml
from pydantic_settings import BaseSettings

from adapters.discord.settings import DiscordSettings
from adapters.slack.settings import SlackSettings
from gateway.server.settings import setting_names
from tests.frame.tree import ROOT

CHATS: dict[str, type[BaseSettings]] = {"slack": SlackSettings, "discord": DiscordSettings}


def compose() -> dict[str, Any]:
    """Return the parsed compose file."""
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return parsed


def make_secrets(folder: Path) -> None:
    """Make an installation's secrets as its operator does."""
    subprocess.run(["sh", ROOT / "deploy" / "make-secrets.sh", folder], check=True)


def setting_variables(chat: str = "") -> set[str]:
    """Return the variables of the gateway's settings, or of a chat's."""
    if chat:
        return {f"GATEWAY_{chat.upper()}_{name.upper()}" for name in CHATS[chat].model_fields}
    return setting_names()
