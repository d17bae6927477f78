"""Signatures over decisions."""

import base64
import pickle
from dataclasses import replace

import pytest

from gateway.errors import Unverified
from gateway.models import Status
from gateway.wire.codec import plain
from gateway.wire.signatures import Signer, Verifier
from tests.unit.test_transitions import decide, record
from tests.world import SEED


def test_a_signature_covers_every_member_of_the_decision() -> None:
    """Changing anything at all in a signed decision is noticed."""
    signer = Signer(SEED)
    decision = decide(record()).after.decision
    assert decision is not None
    signature = signer.sign(decision.signed_bytes())
    verifier = Verifier(signer.public_key)
    verifier.verify(decision.signed_bytes(), signature)
    for forged in (
        replace(decision, status=Status.DENIED),
        replace(decision, digest="1" * 64),
        replace(decision, revision=9),
        replace(decision, expires_at=99),
        replace(decision, request_id="1" * 32),
        replace(decision, arguments={"command": "x"}),
        replace(decision, message="!"),
        replace(decision, result=1),
    ):
        with pytest.raises(Unverified):
            verifier.verify(forged.signed_bytes(), signature)


def test_the_json_of_a_signed_decision_is_its_own_and_no_copy_has_it() -> None:
    """What was signed is written down as it is; what is made of it later is read anew."""
    signer = Signer(SEED)
    decision = decide(record()).after.decision
    assert decision is not None
    signed = decision.with_signature(signer.sign)
    Verifier(signer.public_key).verify(signed.signed_bytes(), signed.signature)
    assert signed == replace(decision, signature=signed.signature)
    assert list(signed.values().items()) == list(plain(signed).items())
    assert replace(signed, message="other").values()["message"] == "other"
    assert pickle.loads(pickle.dumps(signed)) == signed


def test_missing_broken_and_foreign_signatures_are_refused() -> None:
    """No signature, no base64, or another key: nothing runs."""
    other = Signer(base64.b64encode(b"o" * 32).decode())
    verifier = Verifier(Signer(SEED).public_key)
    for signature in (None, "", "???", other.sign(b"m")):
        with pytest.raises(Unverified):
            verifier.verify(b"m", signature)


def test_of_several_pinned_keys_one_must_have_signed() -> None:
    """So that a rotation has no gap; a key that cannot be read is refused, with others too."""
    old, new, other = (Signer(base64.b64encode(one * 32).decode()) for one in (b"o", b"n", b"x"))
    both = Verifier(f"{old.public_key}, {new.public_key}")
    for signer in (old, new):
        both.verify(b"decision", signer.sign(b"decision"))
        with pytest.raises(Unverified, match="a pinned key"):
            both.verify(b"another", signer.sign(b"decision"))
    for wrong in (other.sign(b"decision"), "AAAA", None):
        with pytest.raises(Unverified):
            both.verify(b"decision", wrong)
    for text in ("", ",", f"{old.public_key},", f"{old.public_key} {new.public_key}"):
        with pytest.raises(Unverified, match="not a public key"):
            Verifier(text)
