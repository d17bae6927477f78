"""Read the Slack settings from the environment. docs/guides/slack.md and .env.example list them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from gateway.errors import Misconfigured

_SECRETS = ("bot_token", "app_token", "signing_secret", "client_secret")


class SlackSettings(BaseSettings):
    """Settings of the Slack adapter: variables named `GATEWAY_SLACK_` and the member in capitals.

    A secret may also come from a file; the variable's name plus `_FILE` then names the file.
    """

    model_config = SettingsConfigDict(
        env_prefix="GATEWAY_SLACK_", extra="ignore", frozen=True, env_ignore_empty=True
    )

    mode: Literal["socket", "http"] = Field(
        "socket",
        description="how Slack sends events: socket needs no public address, http "
        "needs GATEWAY_PUBLIC_URL",
    )
    bot_token: SecretStr | None = Field(
        None, description="Slack's bot token, xoxb-…; leave empty if workspaces install by OAuth"
    )
    app_token: SecretStr | None = Field(
        None, description="Slack's app-level token, xapp-…, for socket mode"
    )
    signing_secret: SecretStr | None = Field(
        None, description="Slack's signing secret, for HTTP mode"
    )
    client_id: str | None = Field(
        None, description="client ID of the Slack app, for installation by OAuth"
    )
    client_secret: SecretStr | None = Field(
        None, description="client secret of the Slack app, for installation by OAuth"
    )
    public_url: str | None = Field(
        None,
        validation_alias="GATEWAY_PUBLIC_URL",
        description="public URL at which Slack and browsers reach the gateway",
    )
    api_url: str = Field(
        "https://slack.com/api/", description="URL of Slack's Web API; change it for GovSlack"
    )

    @model_validator(mode="before")
    @classmethod
    def _secrets_from_files(cls, values: dict[str, Any]) -> dict[str, Any]:
        for member in _SECRETS:
            path = os.environ.get(f"GATEWAY_SLACK_{member.upper()}_FILE")
            if path and member not in values:
                values[member] = Path(path).read_text(encoding="utf-8").strip()
        return values

    @property
    def oauth(self) -> bool:
        """Whether workspaces install the app themselves."""
        return self.client_id is not None and self.client_secret is not None

    def refuse_incomplete(self) -> None:
        """Raise Misconfigured if a setting that this mode needs is missing."""
        if self.mode == "socket" and self.app_token is None:
            raise Misconfigured(
                "Slack is not set up: run `gateway slack setup`, or set GATEWAY_SLACK_APP_TOKEN "
                "(xapp-…), which socket mode needs"
            )
        if self.mode == "http" and not (
            self.signing_secret and self.signing_secret.get_secret_value()
        ):
            raise Misconfigured("Slack in http mode needs GATEWAY_SLACK_SIGNING_SECRET")
        if self.bot_token is None and not self.oauth:
            raise Misconfigured(
                "Slack needs GATEWAY_SLACK_BOT_TOKEN (xoxb-…), or GATEWAY_SLACK_CLIENT_ID and "
                "GATEWAY_SLACK_CLIENT_SECRET for installation by OAuth"
            )
        if self.bot_token is not None and self.oauth:
            raise Misconfigured(
                "Slack needs a bot token or installation by OAuth, not both: unset one of them"
            )
        if self.public_url is None and (self.mode == "http" or self.oauth):
            raise Misconfigured("HTTP mode and installation by OAuth need GATEWAY_PUBLIC_URL")
