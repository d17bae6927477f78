"""Read all settings from the environment, and name mistakes; `.env.example` lists them."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from gateway.domain.policy_document import Mode
from gateway.errors import Misconfigured
from gateway.wire.local_discovery import secret, state_folder
from gateway.wire.signatures import Signer

_IPV4 = 4
SECRETS = {
    "REDIS_URL": "REDIS_URL",
    "signing_key": "GATEWAY_SIGNING_KEY",
    "webhook_secret": "GATEWAY_WEBHOOK_SECRET",
    "push_key": "GATEWAY_PUSH_KEY",
    "oidc_client_secret": "GATEWAY_OIDC_CLIENT_SECRET",
}


class BadSettings(Misconfigured):
    """Settings that cannot be used; the text names them."""


class Settings(BaseSettings):
    """The gateway's settings: environment variables named `GATEWAY_` and the member in capitals.

    Only `REDIS_URL` has no prefix, because platforms set it by this name. Secrets may also come
    from a file; its path is in the variable's name with `_FILE` appended.
    """

    model_config = SettingsConfigDict(
        env_prefix="GATEWAY_",
        extra="ignore",
        frozen=True,
        env_ignore_empty=True,
        hide_input_in_errors=True,
    )

    env: Literal["development", "production"] = Field(
        "development",
        description="development, or production, which refuses to start with an unsafe setting",
    )
    redis_url: SecretStr | None = Field(
        None,
        alias="REDIS_URL",
        description="URL of Redis or Valkey; if empty, the gateway starts its embedded server",
    )
    namespace: str = Field(
        "gw",
        pattern=r"^[a-z0-9_-]{1,32}$",
        description="prefix of all Redis keys; use a different one for each tenant",
    )
    data_dir: Path = Field(
        default_factory=lambda: Path(state_folder()),
        description="folder for the embedded server's data and local secrets",
    )
    host: str = Field(
        "127.0.0.1", description="IP address or host name on which the gateway listens for HTTP"
    )
    port: int = Field(
        8787,
        ge=0,
        le=65535,
        description="port on which the gateway listens for HTTP; 0 uses a free port",
    )
    public_url: str | None = Field(
        None,
        description="URL at which browsers and agents reach the gateway; used in links and "
        "for the Host check",
    )
    trusted_proxy: bool = Field(
        False, description="set this if a proxy in front of the gateway provides TLS"
    )
    tls_cert: Path | None = Field(
        None, description="path of the certificate, if the gateway itself provides TLS"
    )
    tls_key: Path | None = Field(None, description="path of the certificate's private key")
    signing_key: SecretStr | None = Field(
        None, description="base64 of the 32-byte Ed25519 seed that signs decisions"
    )
    adapters: Annotated[tuple[str, ...], NoDecode] = Field(
        ("web",),
        description='JSON list of the places where people decide, for example ["web","slack"]',
    )
    policy_file: Path | None = Field(
        None,
        description="policy file with people, routes and risk rules, applied at the start; see "
        "docs/guides/write-policy.md",
    )
    deciders: tuple[str, ...] = Field(
        (),
        description="JSON list of the installed deciders to use, see "
        "docs/guides/custom-deciders.md",
    )
    grants: Literal["storage", "memory"] = Field(
        "storage",
        description="where grants are stored; `memory` deletes all grants when a gateway starts",
    )
    denial_minutes: int = Field(
        5,
        ge=0,
        le=1440,
        description="for how many minutes a denial also applies to identical calls in the same "
        "session; 0: ask people each time",
    )
    hooks_file: Path | None = Field(
        None,
        description="file that lists the policy hooks to run as processes, see "
        "docs/guides/custom-deciders.md",
    )
    mode: Mode = Field(
        Mode.ASK, description="mode of the first route: ask, auto-approve or auto-deny"
    )
    retention_days: float = Field(
        90, gt=0, description="how many days to keep decided requests and events"
    )
    archive: Path | None = Field(
        None,
        description="folder for the archive of the audit log, the same for all gateways. If it is "
        "unset, the embedded server uses `archive` in the data folder, and REDIS_URL none",
    )
    session_idle_hours: float = Field(
        24,
        gt=0,
        description="after how many hours without a request a session ends, if it has no pending "
        "request",
    )
    webhook_url: str | None = Field(
        None, description="URL to post outcomes to; if empty, nothing is posted"
    )
    webhook_secret: SecretStr | None = Field(
        None, description="secret with which the gateway signs what it posts to GATEWAY_WEBHOOK_URL"
    )
    webhook_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="JSON list of hosts that the gateway may post to, including the webhook "
        "receivers of agents. Write a host name, with `:PORT` if the port is not 443",
    )
    push_key: SecretStr | None = Field(
        None,
        description="base64 of the 32-byte key that signs web pushes, the same for all gateways. "
        "If empty, a key in the data folder is used, or no key if REDIS_URL is set",
    )
    push_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="JSON list of the allowed push services; an empty list allows every public "
        "service",
    )
    oidc_issuer: str | None = Field(
        None,
        description="URL of the identity provider (issuer) that people sign in with, see "
        "docs/guides/answer.md",
    )
    oidc_client_id: str | None = Field(
        None, description="client ID that the identity provider gave this gateway"
    )
    oidc_client_secret: SecretStr | None = Field(
        None, description="client secret that the identity provider gave this gateway, if any"
    )
    oidc_claim: str = Field(
        "email", description="ID-token claim that must match VALUE in a person's `oidc:VALUE`"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="how much to log; `DEBUG` also logs each successful call"
    )
    log_json: bool = Field(False, description="write each log line as one JSON object")

    @model_validator(mode="before")
    @classmethod
    def _secrets_from_files(cls, values: dict[str, Any]) -> dict[str, Any]:
        for member, variable in SECRETS.items():
            if member not in values and (found := secret(variable)):
                values[member] = found
        return values

    @field_validator("adapters", "push_hosts", "webhook_hosts", mode="before")
    @classmethod
    def _parse_list(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError('write a JSON list, for example ["web"]') from None

    @field_validator("signing_key")
    @classmethod
    def _usable_key(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            if value is not None:
                Signer(value.get_secret_value())
        except ValueError:
            raise ValueError(
                "write base64 of a 32-byte seed, see docs/reference/configuration.md"
            ) from None
        return value

    @field_validator("public_url", "oidc_issuer")
    @classmethod
    def _usable_url(cls, value: str | None) -> str | None:
        if value is not None and not _is_http(value):
            raise ValueError("write an http or https URL, for example https://approvals.example")
        return value

    @field_validator("public_url")
    @classmethod
    def _no_path(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(
                "leave out the path: the inbox is served at /inbox of a separate host, for "
                "example https://approvals.example"
            )
        return value

    @property
    def production(self) -> bool:
        """Whether unsafe settings must be refused."""
        return self.env == "production"

    @property
    def own_redis(self) -> str | None:
        """The URL of the configured Redis, with its login; None for the embedded server."""
        return None if self.redis_url is None else self.redis_url.get_secret_value()

    @property
    def secure(self) -> bool:
        """Whether browsers reach the gateway over TLS."""
        return self.trusted_proxy or self.tls_cert is not None

    @property
    def archive_folder(self) -> Path | None:
        """The folder of this namespace's archive, or None if the audit stays in Redis."""
        folder = self.archive
        if folder is None and self.redis_url is None:
            folder = self.data_dir / "archive"
        return None if folder is None else folder / self.namespace

    @property
    def inbox_url(self) -> str:
        """The URL of the inbox; empty without the web adapter or a public URL."""
        if self.public_url is None or "web" not in self.adapters:
            return ""
        return f"{self.public_url.rstrip('/')}/inbox"

    def local_url(self, port: int) -> str:
        """Return the URL for callers on this machine of a gateway that listens on `port`."""
        host = self.host
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            pass
        else:
            if address.is_unspecified:
                host = "127.0.0.1" if address.version == _IPV4 else "::1"
            if address.version != _IPV4:
                host = f"[{host}]"
        return f"{'http' if self.tls_cert is None else 'https'}://{host}:{port}"


def sentences(error: ValidationError) -> list[str]:
    """Return a sentence for each wrong setting, with the name of its variable.

    Values are left out, because they may be secret.
    """
    found = []
    for problem in error.errors(include_input=False, include_url=False):
        member = str(problem["loc"][0]) if problem["loc"] else ""
        known = error.title == Settings.__name__ and member in Settings.model_fields
        name = f"GATEWAY_{member.upper()}" if known else member
        found.append(f"{name}: {problem['msg'].removeprefix('Value error, ')}")
    return found


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


# Unknown variables that look like settings: a typing mistake would otherwise go unnoticed.

_PREFIX = "GATEWAY_"
# Variables for agents and approvers, who may share the gateway's environment.
_CLIENTS = frozenset({
    "GATEWAY_AGENT", "GATEWAY_URL", "GATEWAY_TOKEN", "GATEWAY_TOKEN_FILE", "GATEWAY_REDIS_URL",
    "GATEWAY_REDIS_URL_FILE", "GATEWAY_PUBLIC_KEY", "GATEWAY_CONNECT_TIMEOUT",
    "GATEWAY_APPROVER_TOKEN", "GATEWAY_APPROVER_TOKEN_FILE", "GATEWAY_MCP_TOKEN",
    "GATEWAY_MCP_TOKEN_FILE",
})  # fmt: skip


def setting_names() -> set[str]:
    """Return the variables of all settings of the gateway itself."""
    return {
        field.alias or f"{_PREFIX}{name.upper()}" for name, field in Settings.model_fields.items()
    }


def name_unknown(variables: Iterable[str], adapters: Collection[str]) -> list[str]:
    """Return a sentence for each variable that nothing reads, with the nearest known name.

    Variables that begin with the name of an adapter belong to that adapter.
    """
    known = {*setting_names(), *_CLIENTS, *(f"{name}_FILE" for name in SECRETS.values())}
    own = tuple(f"{_PREFIX}{name.upper().replace('-', '_')}_" for name in adapters)
    found = []
    for name in sorted(variables):
        if not name.startswith(_PREFIX) or name in known or (own and name.startswith(own)):
            continue
        near = get_close_matches(
            name.removeprefix(_PREFIX), [one.removeprefix(_PREFIX) for one in known], n=1
        )
        hint = f"did you mean {_PREFIX}{near[0]}?" if near else ".env.example lists the settings"
        found.append(f"{name} is not a setting and has no effect: {hint}")
    return found
