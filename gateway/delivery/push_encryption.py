"""Encryption and signature of web push: RFC 8291 for the device, RFC 8292 for its push service.

The two packages that do it come with the extra `push`, and are imported when something is sent.
"""

from __future__ import annotations

import base64
from functools import cached_property
from importlib.util import find_spec

MOST_BYTES = 3993
"""Of text: with it the body has the 4,096 bytes that every push service takes."""

_SCALAR_BYTES, _POINT_BYTES, _AUTH_BYTES = 32, 65, 16
_UNPACKED = b"\x04"  # how an uncompressed point begins
_GROUP = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # P-256's order
_LIFE_SECONDS = 12 * 3600  # of a signature; push services refuse more than a day

MISSING = "it takes the extra `push`: pip install 'approval-gateway[push]'"


def is_installed() -> bool:
    """Whether the packages are here."""
    return all(find_spec(name) is not None for name in ("http_ece", "py_vapid"))


class PushKey:
    """Our key at push services, from the base64 of its 32 bytes. Raises ValueError."""

    def __init__(self, text: str) -> None:
        raw = base64.b64decode(text, validate=True)
        if len(raw) != _SCALAR_BYTES or not 0 < int.from_bytes(raw) < _GROUP:
            raise ValueError("a push key is base64 of 32 bytes")
        self._raw = raw

    @cached_property
    def public(self) -> str:
        """The public key, as browsers are given it."""
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 (an extra's)
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 (as above)
            Encoding,
            PublicFormat,
        )

        key = ec.derive_private_key(int.from_bytes(self._raw), ec.SECP256R1()).public_key()
        return _write(key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    def sign(self, audience: str, contact: str, now_ms: int) -> str:
        """Return the Authorization that says who sends to this origin of a push service."""
        from py_vapid import Vapid02  # noqa: PLC0415 (an extra's)

        claims = {"aud": audience, "exp": now_ms // 1000 + _LIFE_SECONDS, "sub": contact}
        signed = Vapid02.from_raw(_write(self._raw).encode()).sign(claims)
        return str(signed["Authorization"])


def encrypt(text: bytes, key: str, auth: str) -> bytes:
    """Return the body that only the device with this key and secret can read. Raises ValueError
    for a text that is too long, and for keys that are none."""
    import http_ece  # noqa: PLC0415 (an extra's)
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 (as above)

    if len(text) > MOST_BYTES:
        raise ValueError(f"a push holds {MOST_BYTES} bytes, not {len(text)}")
    point, secret = read_keys(key, auth)
    fresh = ec.generate_private_key(ec.SECP256R1())
    body: bytes = http_ece.encrypt(
        text, private_key=fresh, dh=point, auth_secret=secret, version="aes128gcm"
    )
    return body


def read_keys(key: str, auth: str) -> tuple[bytes, bytes]:
    """Return a device's point and secret from base64url. Raises ValueError for what is neither."""
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 (an extra's)

    point, secret = _read(key), _read(auth)
    if len(point) != _POINT_BYTES or point[:1] != _UNPACKED or len(secret) != _AUTH_BYTES:
        raise ValueError("these are not the keys of a subscription")
    ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    return point, secret


def _read(text: str) -> bytes:
    return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _write(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
