"""Whether everything fits on a card, without drawing it for each click."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.approvals.transitions import erase_content
from gateway.domain.records import Record
from gateway.models import digest_of
from gateway.ports import card_size as fitting
from gateway.ports.card_size import fits
from gateway.ports.cards import card_of
from tests.unit.test_transitions import decide, record

LINES, CHARS = 5, 200


def asking(command: Any, **changes: Any) -> Record:
    """Return a waiting request to run a command."""
    found = record()
    request = replace(found.request, arguments={"command": command}, **changes)
    digest = digest_of(request)
    return replace(found, request=replace(request, digest=digest), digest=digest)


def test_what_a_card_showed_whole_is_not_drawn_for_the_click(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also what was too long for it."""
    short, long = asking("ls", id="c" * 32), asking("x" * CHARS * 2)
    for one in (short, long):
        card_of(one, lines=LINES, chars=CHARS)
    monkeypatch.delattr(fitting, "blocks_of")
    assert fits(short, lines=LINES, chars=CHARS)
    assert not fits(long, lines=LINES, chars=CHARS)
    with pytest.raises(NameError):
        fits(short, lines=LINES, chars=CHARS + 1)  # another card


def test_an_erased_request_does_not_vouch_for_what_it_was() -> None:
    """It has the id and the digest of what it asked, and nothing of it any more."""
    long = asking("y" * CHARS * 2)
    empty = erase_content(decide(long).after)
    assert (empty.id, empty.digest) == (long.id, long.digest)
    assert card_of(empty, lines=LINES, chars=CHARS).complete
    assert fits(empty, lines=LINES, chars=CHARS)
    assert not fits(long, lines=LINES, chars=CHARS)


def test_equal_digests_vouch_for_nothing() -> None:
    """1 and 1.0 are the same number to a digest, and not to the eye."""
    short, long = (asking([number] * 60, id=id) for number, id in ((1, "a" * 32), (1.0, "b" * 32)))
    assert short.digest == long.digest
    assert not card_of(long, lines=99, chars=440).complete
    assert card_of(short, lines=99, chars=440).complete
    assert not fits(long, lines=99, chars=440)


def test_a_revealed_card_vouches_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask is shorter or longer than what it hides."""
    one = asking("z" * 10)
    card_of(one, lines=LINES, chars=CHARS, reveal=True)
    monkeypatch.delattr(fitting, "blocks_of")
    with pytest.raises(NameError):
        fits(one, lines=LINES, chars=CHARS)
