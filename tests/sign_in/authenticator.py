"""A device with one passkey, made of software: what it answers can be bent at every place."""

from __future__ import annotations

import hashlib
import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

_PRESENT, _VERIFIED, _ATTESTED = 1, 4, 64


def written(value: bytes) -> str:
    """Return bytes as browsers write them."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def read(text: str) -> bytes:
    """Return what browsers wrote."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Authenticator:
    """One device. It signs for a host at an origin, and counts how often."""

    host: str
    origin: str
    count: int = 0
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    id: bytes = field(default_factory=lambda: os.urandom(32))
    handle: str = ""
    around: dict[str, Any] = field(default_factory=dict)
    """What its browser says of the page around ours."""

    def make(self, options: Any, *, verified: bool = True) -> dict[str, Any]:
        """Return what a browser answers when it was asked to make a passkey."""
        self.handle = options["user"]["id"]
        public = self.key.public_key().public_numbers()
        x, y = (one.to_bytes(32, "big") for one in (public.x, public.y))
        key = {1: 2, 3: -7, -1: 1, -2: x, -3: y}
        made = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + cbor2.dumps(key)
        data = self._data(verified, _ATTESTED) + made
        attested = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options["challenge"])
        return self._answer({"attestationObject": written(attested)}, client)

    def sign(self, options: Any, *, verified: bool = True, **bent: str) -> dict[str, Any]:
        """Return what a browser answers when it was asked to sign. `bent` replaces parts of it."""
        self.count += 1
        client = self._client("webauthn.get", bent.get("challenge", options["challenge"]))
        data = self._data(verified, 0)
        signed = data + hashlib.sha256(client).digest()
        answer = {
            "authenticatorData": written(data),
            "signature": written(self.key.sign(signed, ec.ECDSA(hashes.SHA256()))),
            "userHandle": bent.get("handle", self.handle),
        }
        return self._answer(answer, client)

    def _data(self, verified: bool, more: int) -> bytes:
        flags = _PRESENT | (_VERIFIED if verified else 0) | more
        host = hashlib.sha256(self.host.encode()).digest()
        return host + bytes([flags]) + self.count.to_bytes(4, "big")

    def _client(self, kind: str, challenge: str) -> bytes:
        told = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps({**told, **self.around}).encode()

    def _answer(self, response: dict[str, Any], client: bytes) -> dict[str, Any]:
        name = written(self.id)
        return {
            "id": name,
            "rawId": name,
            "type": "public-key",
            "authenticatorAttachment": "platform",
            "clientExtensionResults": {},
            "response": {**response, "clientDataJSON": written(client)},
        }
