"""What a process remembers of the requests that wait."""

from dataclasses import replace

from gateway.models import Status
from gateway.stores.remembered import Remembered
from tests.unit.test_transitions import record


def test_only_what_waits_is_remembered() -> None:
    """A request that ended is dropped, and so is one that is forgotten."""
    remembered, one, other = Remembered(), record(), record()
    remembered.keep(one, 10)
    remembered.keep(other, 10)
    assert remembered.get(one.id) is one
    remembered.keep(replace(one, status=Status.DENIED), 10)
    remembered.forget(other.id)
    remembered.forget(other.id)
    assert (remembered.get(one.id), remembered.get(other.id)) == (None, None)


def test_the_oldest_go_when_it_gets_full() -> None:
    """However many requests wait, and however large they are, the memory is bounded."""
    remembered = Remembered(most_bytes=100_000)
    many = [record() for _ in range(100)]
    for one in many:
        remembered.keep(one, 0)
    kept = [one for one in many if remembered.get(one.id)]
    assert kept == many[-len(kept) :]
    assert 0 < len(kept) < 30
    remembered.keep(large := record(), 200_000)
    assert remembered.get(large.id) is None
    assert not any(remembered.get(one.id) for one in many)


def test_seeing_a_record_again_does_not_make_it_heavier() -> None:
    """The same record counts once."""
    remembered, one, other = Remembered(most_bytes=10_000), record(), record()
    remembered.keep(other, 0)
    for _ in range(10):
        remembered.keep(one, 0)
    assert remembered.get(other.id) is other
