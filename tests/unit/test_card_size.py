"""Whether everything fits on a card, without drawing it for each click."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.approvals.transitions import erase_content
from gateway.cards import blocks
from gateway.cards.blocks import CardSizes
from gateway.cards.card import card_of
from gateway.domain.records import StoredRequest
from gateway.models import digest_of
from tests.unit.test_transitions import decide, record

LINES, CHARS = 5, 200


def asking(command: Any, **changes: Any) -> StoredRequest:
    """Return a waiting request to run a command."""
    found = record()
    request = replace(found.request, arguments={"command": command}, **changes)
    digest = digest_of(request)
    return replace(found, request=replace(request, digest=digest), digest=digest)


def shown(sizes: CardSizes, one: StoredRequest, *, lines: int = LINES, chars: int = CHARS) -> None:
    """Draw a card, and tell what fitted on it, as the courier does."""
    sizes.remember_fit(one, lines, chars, card_of(one, lines=lines, chars=chars).complete)


def test_what_a_card_showed_whole_is_not_drawn_for_the_click(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also what was too long for it."""
    sizes = CardSizes()
    short, long = asking("ls", id="c" * 32), asking("x" * CHARS * 2)
    for one in (short, long):
        shown(sizes, one)
    monkeypatch.delattr(blocks, "blocks_of")
    assert sizes.fits(short, lines=LINES, chars=CHARS)
    assert not sizes.fits(long, lines=LINES, chars=CHARS)
    with pytest.raises(NameError):
        sizes.fits(short, lines=LINES, chars=CHARS + 1)  # another card
    with pytest.raises(NameError):
        CardSizes().fits(short, lines=LINES, chars=CHARS)  # nobody told this one


def test_an_erased_request_does_not_vouch_for_what_it_was() -> None:
    """It has the id and the digest of what it asked, and nothing of it any more."""
    sizes, long = CardSizes(), asking("y" * CHARS * 2)
    empty = erase_content(decide(long).after)
    assert (empty.id, empty.digest) == (long.id, long.digest)
    shown(sizes, empty)
    assert sizes.fits(empty, lines=LINES, chars=CHARS)
    assert not sizes.fits(long, lines=LINES, chars=CHARS)


def test_equal_digests_vouch_for_nothing() -> None:
    """1 and 1.0 are the same number to a digest, and not to the eye."""
    short, long = (asking([number] * 60, id=id) for number, id in ((1, "a" * 32), (1.0, "b" * 32)))
    assert short.digest == long.digest
    sizes = CardSizes()
    shown(sizes, short, lines=99, chars=440)
    assert sizes.fits(short, lines=99, chars=440)
    assert not sizes.fits(long, lines=99, chars=440)
