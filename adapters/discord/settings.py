"""Settings for Discord, from the environment."""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from gateway.errors import Misconfigured

PREFIX = "GATEWAY_DISCORD_"


class DiscordSettings(BaseSettings):
    """Variables named `GATEWAY_DISCORD_` and the member in capitals.

    The token may also come from the file that `GATEWAY_DISCORD_TOKEN_FILE` names.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, env_ignore_empty=True
    )

    token: SecretStr = Field(
        description="token of the Discord bot; copy it from the developer portal"
    )
    public_key: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{64}$",
        description="public key of the Discord application; if set, Discord sends clicks over HTTP",
    )
    api_base: str | None = Field(
        None,
        description="REST address of a substitute for Discord, for tests; must be a "
        "loopback address",
    )
    gateway_url: str | None = Field(
        None,
        description="gateway address of a substitute for Discord, for tests; must be a "
        "loopback address",
    )
    env: Literal["development", "production"] = Field("development", alias="GATEWAY_ENV")

    @model_validator(mode="before")
    @classmethod
    def _token_from_file(cls, values: dict[str, Any]) -> dict[str, Any]:
        path = os.environ.get(f"{PREFIX}TOKEN_FILE")
        if path and "token" not in values:
            values["token"] = Path(path).read_text(encoding="utf-8").strip()
        return values

    @field_validator("api_base", "gateway_url")
    @classmethod
    def _is_loopback(cls, url: str | None) -> str | None:
        if url is not None and not _is_loopback(urlsplit(url).hostname or ""):
            raise ValueError(
                "the address must be a loopback address, because the bot's token is sent there"
            )
        return url

    @model_validator(mode="after")
    def _no_tests_in_production(self) -> DiscordSettings:
        if self.env == "production" and (self.api_base or self.gateway_url):
            raise ValueError("api_base and gateway_url are for tests, not for production")
        return self


def read_settings(token: str = "") -> DiscordSettings:
    """Read the settings; a `token` replaces the configured one. Raises Misconfigured, whose text
    never contains a secret."""
    try:
        return DiscordSettings(token=SecretStr(token)) if token else DiscordSettings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "missing":
            raise Misconfigured(
                f"Discord is not set up: run `gateway discord setup`, or set {PREFIX}TOKEN"
            ) from None
        name = f"{PREFIX}{str(first['loc'][0]).upper()}" if first["loc"] else "Discord"
        raise Misconfigured(f"{name}: {first['msg']}; see docs/guides/discord.md") from None
    except OSError as error:
        raise Misconfigured(f"{PREFIX}TOKEN_FILE: {error.strerror}") from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
