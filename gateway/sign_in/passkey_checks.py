"""Makes what browsers need for passkeys, and verifies what they answer, with the library webauthn.

The library is an extra, and takes 80 ms to load: it is imported when it is first used.
"""

from __future__ import annotations

import ipaddress
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import urlsplit

from gateway.domain.redaction import bug
from gateway.errors import Unauthorized
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.sign_in")

_SITE = "Approvals"
_TIMEOUT_MS = 300_000
_MOST_BYTES = 4096  # of an id and a key; authenticators need a fraction of it


@dataclass(frozen=True, slots=True)
class PasskeySite:
    """For whom passkeys are: the name of the host, and the origin exactly as browsers show it."""

    host: str
    origin: str


class Made(NamedTuple):
    """A new passkey: its id and public key, and how often its device says it has signed."""

    id: bytes
    key: bytes
    signed: int


def find_site(public_url: str | None) -> PasskeySite | str:
    """Return for whom passkeys are, or a sentence that says why there are none. It comes from the
    settings alone: a request could name any host."""
    if find_spec("webauthn") is None:
        return "Passkeys need the extra: pip install 'approval-gateway[passkeys]'."
    if public_url is None:
        return "Passkeys need GATEWAY_PUBLIC_URL, the address at which browsers open the inbox."
    parts = urlsplit(public_url)
    host = (parts.hostname or "").lower()
    if _is_address(host):
        return "Passkeys need a name in GATEWAY_PUBLIC_URL: browsers make none for an address."
    if parts.scheme != "https" and host != "localhost" and not host.endswith(".localhost"):
        return "Passkeys need HTTPS: GATEWAY_PUBLIC_URL does not begin with https."
    usual = {"https": 443, "http": 80}[parts.scheme]
    port = "" if parts.port in (None, usual) else f":{parts.port}"
    return PasskeySite(host, f"{parts.scheme}://{host}{port}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def offer_creation(
    site: PasskeySite, *, challenge: bytes, handle: bytes, name: str, known: Sequence[bytes]
) -> JsonObject:
    """Return the options for making a passkey that signs in by itself, on a device that verifies
    its user and holds none of those known."""
    from webauthn import generate_registration_options  # noqa: PLC0415 (see above)
    from webauthn.helpers import options_to_json_dict  # noqa: PLC0415
    from webauthn.helpers.structs import (  # noqa: PLC0415
        AuthenticatorSelectionCriteria,
        PublicKeyCredentialDescriptor,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    options = generate_registration_options(
        rp_id=site.host,
        rp_name=_SITE,
        user_id=handle,
        user_name=name,
        challenge=challenge,
        timeout=_TIMEOUT_MS,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED,
            user_verification=UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=one) for one in known],
    )
    found: JsonObject = options_to_json_dict(options)
    return found


def offer_assertion(
    site: PasskeySite, *, challenge: bytes, known: Sequence[bytes] = ()
) -> JsonObject:
    """Return the options for signing a challenge: with one of these, or with any of the site's."""
    from webauthn import generate_authentication_options  # noqa: PLC0415 (see above)
    from webauthn.helpers import options_to_json_dict  # noqa: PLC0415
    from webauthn.helpers.structs import (  # noqa: PLC0415
        PublicKeyCredentialDescriptor,
        UserVerificationRequirement,
    )

    options = generate_authentication_options(
        rp_id=site.host,
        challenge=challenge,
        timeout=_TIMEOUT_MS,
        allow_credentials=[PublicKeyCredentialDescriptor(id=one) for one in known],
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    found: JsonObject = options_to_json_dict(options)
    return found


def _refuse_embedded(credential: JsonObject) -> None:
    """Refuse what was made within another site's page: ours is framed nowhere, and the library
    does not look at it. Raises Unauthorized."""
    from webauthn.helpers import base64url_to_bytes, parse_client_data_json  # noqa: PLC0415

    client = base64url_to_bytes(credential["response"]["clientDataJSON"])
    if parse_client_data_json(client).cross_origin or "topOrigin" in json.loads(client):
        raise Unauthorized("it was made within another site's page")


def check_creation(site: PasskeySite, credential: JsonObject, challenge: bytes) -> Made:
    """Return a new passkey. Raises Unauthorized for whatever does not verify."""
    from webauthn import verify_registration_response  # noqa: PLC0415 (see above)

    try:
        _refuse_embedded(credential)
        found = verify_registration_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    except Exception as error:
        # It takes apart what a stranger sent: whatever it stumbles over proves nothing.
        log.info("a new passkey: %s", bug(error), extra={"event": "passkey_refused"})
        raise Unauthorized("this passkey could not be verified") from error
    made = Made(found.credential_id, found.credential_public_key, found.sign_count)
    if len(made.id) + len(made.key) > _MOST_BYTES:
        raise Unauthorized("this passkey is too large")
    return made


def check_assertion(
    site: PasskeySite, credential: JsonObject, *, challenge: bytes, key: bytes, count: int
) -> int:
    """Return how often the passkey's device says it has signed. Raises Unauthorized for whatever
    does not verify: another challenge, origin or key, a user who was not verified, a count that
    does not grow."""
    from webauthn import verify_authentication_response  # noqa: PLC0415 (see above)

    try:
        _refuse_embedded(credential)
        return verify_authentication_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            credential_public_key=key,
            credential_current_sign_count=count,
            require_user_verification=True,
        ).new_sign_count
    except Exception as error:
        # As above.
        log.info("a passkey: %s", bug(error), extra={"event": "passkey_refused"})
        raise Unauthorized("this passkey was not accepted") from error
