"""Connect operators' commands to the gateway's state in Redis, and explain their errors.

Anyone who can access the gateway's Redis may run these commands.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import ValidationError
from pydantic_settings import SettingsError

from gateway.approvals.services import Core
from gateway.cli.http_access import say_where
from gateway.errors import InvalidRequest, Unreachable
from gateway.policy.hooks import HookHost, host_hooks
from gateway.server.connections import Backend, build_core, open_backend, url_of
from gateway.server.settings import BadSettings, Settings, sentences
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.embedded_server import EngineError
from gateway.stores.event_feed import RedisFeed
from gateway.wire.local_discovery import (
    FILE_NAME,
    is_same_address,
    name_data,
    read_private,
)


@asynccontextmanager
async def connect_backend(*, acting: bool = False) -> AsyncIterator[Backend]:
    """Connect to the configured Redis, or to the running embedded server of the data folder.

    With `acting`, print on standard error which Redis is used. Raises InvalidRequest if the
    settings contain no Redis, but the address of a gateway other than the local one.
    """
    settings = Settings()
    if settings.redis_url is None:
        _refuse_another(settings)
    url = url_of(settings)
    if acting:
        place = f", in {settings.data_dir}" if settings.own_redis is None else ""
        say_where(name_data(settings.own_redis, settings.namespace) + place)
    async with open_backend(settings, url) as found:
        yield found


def _refuse_another(settings: Settings) -> None:
    """Raise InvalidRequest if the settings contain the address of a gateway other than the local
    one."""
    url = os.environ.get("GATEWAY_URL")
    announced = (read_private(settings.data_dir / FILE_NAME) or {}).get("url")
    own = [announced] if announced else [settings.local_url(settings.port), settings.public_url]
    if url and not any(one and is_same_address(url, one) for one in own):
        raise InvalidRequest(
            f"GATEWAY_URL names {url}, but this command would act on another gateway, the one in "
            f"{settings.data_dir}: set REDIS_URL to the Redis of the gateway that you mean"
        )


def operator_core(found: Backend, hooks: HookHost | None = None) -> Core:
    """Return the core for one command. If the command evaluates a request, `hooks` must be
    running."""
    feed = RedisFeed(found.store.redis, found.store.keys)
    return build_core(Settings(), found.store, feed, hooks or host_hooks(None), None)


# The sentences that `gateway` prints instead of a traceback.

EXPECTED: tuple[type[Exception], ...] = (
    ValidationError,
    SettingsError,
    EngineError,
    *REDIS_ERRORS,
)
"""What may go wrong and is no fault in the code, beside every GatewayError."""


def explain_error(error: Exception) -> tuple[list[str], int]:
    """Return the sentences to print for an exception in `EXPECTED`, and the exit code."""
    if isinstance(error, ValidationError):
        return sentences(error), BadSettings.exit_code
    if isinstance(error, SettingsError):
        return [str(error)], BadSettings.exit_code
    if isinstance(error, OSError) and error.filename:
        return [str(error)], BadSettings.exit_code
    if isinstance(error, OSError | EngineError):
        return [str(error) or type(error).__name__], Unreachable.exit_code
    return [f"Redis does not respond: {error}"], Unreachable.exit_code
