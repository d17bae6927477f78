"""Everything an operator can set, read from the environment. `.env.example` lists the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from gateway.discovery import state_folder
from gateway.records import Mode

_SECRETS = {
    "REDIS_URL": "REDIS_URL",
    "signing_key": "GATEWAY_SIGNING_KEY",
    "webhook_secret": "GATEWAY_WEBHOOK_SECRET",
}


class Settings(BaseSettings):
    """The gateway's settings: environment variables named `GATEWAY_` and the member in capitals.

    Only `REDIS_URL` has no prefix, because platforms set it by this name.

    Secrets may also come from a file named by the variable with `_FILE` behind it.
    """

    model_config = SettingsConfigDict(
        env_prefix="GATEWAY_", extra="ignore", frozen=True, env_ignore_empty=True
    )

    env: Literal["development", "production"] = Field(
        "development", description="production refuses to start on anything unsafe"
    )
    redis_url: SecretStr | None = Field(
        None,
        alias="REDIS_URL",
        description="Redis or Valkey; empty starts the embedded server",
    )
    namespace: str = Field(
        "gw", pattern=r"^[a-z0-9_-]{1,32}$", description="prefix of all keys; one per tenant"
    )
    data_dir: Path = Field(
        default_factory=lambda: Path(state_folder()),
        description="the embedded server's data, and local secrets",
    )
    host: str = Field("127.0.0.1", description="address that HTTP listens on")
    port: int = Field(
        8787, ge=0, le=65535, description="port that HTTP listens on; 0 takes a free one"
    )
    public_url: str | None = Field(
        None, description="how browsers and agents reach us, for links and the Host check"
    )
    trusted_proxy: bool = Field(
        False, description="a proxy in front of us speaks TLS to everyone outside"
    )
    tls_cert: Path | None = Field(None, description="certificate file, to speak TLS ourselves")
    tls_key: Path | None = Field(None, description="key file of the certificate")
    signing_key: SecretStr | None = Field(
        None, description="base64 of the 32-byte Ed25519 seed that signs decisions"
    )
    adapters: tuple[str, ...] = Field(
        ("web",), description='where people answer, as a JSON list, for example ["web","slack"]'
    )
    policy_file: Path | None = Field(
        None, description="people, routes and risk rules, applied at the start; see docs/routes.md"
    )
    mode: Mode = Field(
        Mode.ASK, description="what routes start with: ask, auto-approve or auto-deny"
    )
    retention_days: float = Field(
        90, gt=0, description="how long ended requests and events are kept"
    )
    session_idle_hours: float = Field(
        24, gt=0, description="a session without requests ends after this"
    )
    webhook_url: str | None = Field(
        None, description="where outcomes are posted; empty posts nothing"
    )
    webhook_secret: SecretStr | None = Field(None, description="signs what is posted there")
    webhook_hosts: tuple[str, ...] = Field(
        (), description="JSON list of the host names that may be posted to"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="log detail"
    )
    log_json: bool = Field(False, description="one JSON object per log line")

    @model_validator(mode="before")
    @classmethod
    def _secrets_from_files(cls, values: dict[str, Any]) -> dict[str, Any]:
        for member, variable in _SECRETS.items():
            path = os.environ.get(f"{variable}_FILE")
            if path and member not in values:
                values[member] = Path(path).read_text(encoding="utf-8").strip()
        return values

    @property
    def production(self) -> bool:
        """Whether unsafe settings must be refused."""
        return self.env == "production"

    @property
    def secure(self) -> bool:
        """Whether browsers reach us over TLS."""
        return self.trusted_proxy or self.tls_cert is not None
