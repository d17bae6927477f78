"""Sign decisions with Ed25519: the gateway signs (`Signer`), agents verify (`Verifier`).

PyNaCl is imported only when a key is used, so that agents without a pinned key never load it. The
code calls PyNaCl's low-level functions, because its classes double the time for a signature.
"""

from __future__ import annotations

import base64
from contextlib import suppress

from gateway.wire.schema import Unverified

SEED_BYTES = 32
_SIGNATURE_BYTES = 64


def load_library() -> None:
    """Import PyNaCl early, if it is installed, so that the first verification is not slow."""
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
        """Return the signature over `message` as base64."""
        signed = self._sodium.crypto_sign(message, self._secret)
        return base64.b64encode(signed[:_SIGNATURE_BYTES]).decode()


class Verifier:
    """Checks signatures against pinned public keys, each given as the base64 of its 32 bytes,
    separated by commas. During a key rotation there are two keys.

    Raises Unverified if the key is unusable or PyNaCl is missing.
    """

    def __init__(self, public_keys: str) -> None:
        try:
            from nacl import bindings  # noqa: PLC0415 (see above)
        except ImportError as error:
            raise Unverified(
                "the gateway's key is pinned, but PyNaCl, which verifies signatures, is missing: "
                "install approval-gateway-agent[verify]"
            ) from error
        self._sodium = bindings
        try:
            self._keys = [_decode_key(one.strip()) for one in public_keys.split(",")]
        except ValueError as error:
            raise Unverified(f"the pinned key is not a public key: {error}") from error

    def verify(self, message: bytes, signature_base64: str | None) -> None:
        """Raise Unverified if the signature is missing or wrong."""
        from nacl.exceptions import BadSignatureError  # noqa: PLC0415 (see above)

        error: Exception | None = None
        if signature_base64 is None:
            raise Unverified("the decision is not signed, although the gateway's key is pinned")
        for key in self._keys:
            try:
                signature = base64.b64decode(signature_base64, validate=True)
                if len(signature) != _SIGNATURE_BYTES:
                    raise ValueError("the signature has the wrong length")
                self._sodium.crypto_sign_open(signature + message, key)
            except (BadSignatureError, TypeError, ValueError) as found:
                error = found
            else:
                return
        raise Unverified("the decision's signature does not match a pinned key") from error


def _decode_key(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    if len(raw) != SEED_BYTES:
        raise ValueError(f"an Ed25519 key has {SEED_BYTES} bytes, not {len(raw)}")
    return raw
