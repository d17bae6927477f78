"""Ed25519 signatures over decisions: the gateway signs, agents that pin its key verify.

PyNaCl is imported when a key is used, so that agents without a pinned key never load it. Its plain
bindings are used, because its classes double the time of a signature.
"""

from __future__ import annotations

import base64
from contextlib import suppress

from gateway.wire.schema import Unverified

SEED_BYTES = 32
_SIGNATURE_BYTES = 64


def load_library() -> None:
    """Import what checks signatures, if it is there, while there is time for it."""
    with suppress(ImportError):
        import nacl.bindings  # noqa: F401, PLC0415 (see above)


class Signer:
    """Signs with the gateway's private key, given as the base64 of its 32-byte seed."""

    def __init__(self, seed_base64: str) -> None:
        from nacl import bindings  # noqa: PLC0415 (see above)

        self._sodium = bindings
        self._public, self._secret = bindings.crypto_sign_seed_keypair(_decode_key(seed_base64))

    @property
    def public_key(self) -> str:
        """The base64 of the 32-byte public key that agents pin."""
        return base64.b64encode(self._public).decode()

    def sign(self, message: bytes) -> str:
        """Return the base64 of the signature over `message`."""
        signed = self._sodium.crypto_sign(message, self._secret)
        return base64.b64encode(signed[:_SIGNATURE_BYTES]).decode()


class Verifier:
    """Checks signatures against a pinned public key, given as the base64 of its 32 bytes.

    Raises Unverified for an unusable key, and when PyNaCl is missing.
    """

    def __init__(self, public_key_base64: str) -> None:
        try:
            from nacl import bindings  # noqa: PLC0415 (see above)
        except ImportError as error:
            raise Unverified(
                "the gateway's key is pinned, and checking signatures needs PyNaCl: "
                "install approval-gateway-agent[verify]"
            ) from error
        self._sodium = bindings
        try:
            self._key = _decode_key(public_key_base64)
        except ValueError as error:
            raise Unverified(f"the pinned key is no public key: {error}") from error

    def verify(self, message: bytes, signature_base64: str | None) -> None:
        """Raise Unverified when the signature is missing or wrong."""
        from nacl.exceptions import BadSignatureError  # noqa: PLC0415 (see above)

        if signature_base64 is None:
            raise Unverified("the decision is not signed, and a key is pinned")
        try:
            signature = base64.b64decode(signature_base64, validate=True)
            if len(signature) != _SIGNATURE_BYTES:
                raise ValueError("it has another length")
            self._sodium.crypto_sign_open(signature + message, self._key)
        except (BadSignatureError, TypeError, ValueError) as error:
            raise Unverified("the decision's signature is not the pinned key's") from error


def _decode_key(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    if len(raw) != SEED_BYTES:
        raise ValueError(f"an Ed25519 key has {SEED_BYTES} bytes, not {len(raw)}")
    return raw
