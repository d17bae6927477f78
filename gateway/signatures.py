"""Ed25519 signatures over decisions: the gateway signs, agents that pin its key verify.

`cryptography` is imported when a key is used, so that agents without a pinned key never load it.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from gateway.errors import Unverified

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

SEED_BYTES = 32


class Signer:
    """Signs with the gateway's private key, given as the base64 of its 32-byte seed."""

    def __init__(self, seed_base64: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 (see above)

        self._key: Ed25519PrivateKey = Ed25519PrivateKey.from_private_bytes(_seed(seed_base64))

    @property
    def public_key(self) -> str:
        """The base64 of the 32-byte public key that agents pin."""
        return base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, message: bytes) -> str:
        """Return the base64 of the signature over `message`."""
        return base64.b64encode(self._key.sign(message)).decode()


class Verifier:
    """Checks signatures against a pinned public key, given as the base64 of its 32 bytes.

    Raises Unverified for what is no key, and where `cryptography` is missing: nothing can be
    checked then.
    """

    def __init__(self, public_key_base64: str) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 (see above)
        except ImportError as error:
            raise Unverified(
                "the gateway's key is pinned, and checking signatures needs `cryptography`: "
                "install approval-gateway-agent[verify]"
            ) from error
        try:
            raw = _seed(public_key_base64)
        except ValueError as error:
            raise Unverified(f"the pinned key is no public key: {error}") from error
        self._key: Ed25519PublicKey = Ed25519PublicKey.from_public_bytes(raw)

    def verify(self, message: bytes, signature_base64: str | None) -> None:
        """Return when the signature is good; raise Unverified when it is missing or wrong."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 (see above)

        if signature_base64 is None:
            raise Unverified("the decision is not signed, and a key is pinned")
        try:
            self._key.verify(base64.b64decode(signature_base64, validate=True), message)
        except (InvalidSignature, ValueError) as error:
            raise Unverified("the decision's signature is not the pinned key's") from error


def _seed(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    if len(raw) != SEED_BYTES:
        raise ValueError(f"an Ed25519 key has {SEED_BYTES} bytes, not {len(raw)}")
    return raw
