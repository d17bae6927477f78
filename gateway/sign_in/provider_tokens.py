"""Verifies what an identity provider says of somebody, with the library joserfc.

The library is an extra, and takes 55 ms to load: it is imported when it is first used.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec

from gateway.domain.redaction import bug
from gateway.errors import Unauthorized
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.sign_in")

_ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA", "Ed25519")
"""Signatures by a key of the provider's alone: none that our secret could make, and never none."""
_LEEWAY = 60


def is_there() -> bool:
    """Whether the library is installed."""
    return find_spec("joserfc") is not None


def check_id_token(
    token: str, keys: JsonObject, *, issuer: str, client: str, nonce: str, now: int
) -> JsonObject:
    """Return what a token says, `now` in seconds. Raises Unauthorized unless the provider signed
    it, for us, for this sign-in, and lately."""
    from joserfc import jwt  # noqa: PLC0415 (see above)
    from joserfc.jwk import KeySet  # noqa: PLC0415

    try:
        known = KeySet.import_key_set(keys)  # type: ignore[arg-type] # it reads any mapping
        claims: JsonObject = jwt.decode(token, known, algorithms=[*_ALGORITHMS]).claims
        jwt.JWTClaimsRegistry(
            now=now,
            leeway=_LEEWAY,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "value": client},
            exp={"essential": True},
            nonce={"essential": True, "value": nonce},
        ).validate(claims)
    except Exception as error:
        # It takes apart what came over the network: whatever it stumbles over proves nothing.
        log.info("a word of the provider: %s", bug(error), extra={"event": "provider_refused"})
        raise Unauthorized("the identity provider's word does not verify") from error
    if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != client:
        raise Unauthorized("the identity provider's word is for somebody else too")
    return claims
