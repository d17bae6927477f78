"""The sentences that `gateway` prints instead of a traceback."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_settings import SettingsError

from gateway.errors import Unreachable
from gateway.server.settings import BadSettings, sentences
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.embedded_server import EngineError

EXPECTED: tuple[type[Exception], ...] = (
    ValidationError,
    SettingsError,
    EngineError,
    *REDIS_ERRORS,
)
"""What may go wrong and is no fault in the code, beside every GatewayError."""


def explain_error(error: Exception) -> tuple[list[str], int]:
    """Return the sentences to print for one of `EXPECTED`, and the exit code."""
    if isinstance(error, ValidationError):
        return sentences(error), BadSettings.exit_code
    if isinstance(error, SettingsError):
        return [str(error)], BadSettings.exit_code
    if isinstance(error, OSError) and error.filename:
        return [str(error)], BadSettings.exit_code
    if isinstance(error, OSError | EngineError):
        return [str(error) or type(error).__name__], Unreachable.exit_code
    return [f"Redis does not answer: {error}"], Unreachable.exit_code
