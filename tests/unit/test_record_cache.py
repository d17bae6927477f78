"""What a process last saw of the requests that wait."""

from dataclasses import replace

from gateway.models import Status
from gateway.stores.record_codec import Recent
from tests.unit.test_transitions import record


def test_only_what_waits_is_kept() -> None:
    """A request that ended is dropped, and so is one that is forgotten."""
    recent, one, other = Recent(), record(), record()
    recent.keep(one, 10)
    recent.keep(other, 10)
    assert recent.get(one.id) is one
    recent.keep(replace(one, status=Status.DENIED), 10)
    recent.forget(other.id)
    recent.forget(other.id)
    assert (recent.get(one.id), recent.get(other.id)) == (None, None)


def test_the_oldest_go_when_it_gets_full() -> None:
    """However many requests wait, and however large they are, the memory is bounded."""
    recent = Recent(most_bytes=100_000)
    many = [record() for _ in range(100)]
    for one in many:
        recent.keep(one, 0)
    kept = [one for one in many if recent.get(one.id)]
    assert kept == many[-len(kept) :]
    assert 0 < len(kept) < 30
    recent.keep(large := record(), 200_000)
    assert recent.get(large.id) is None
    assert not any(recent.get(one.id) for one in many)


def test_seeing_a_record_again_does_not_make_it_heavier() -> None:
    """The same record counts once."""
    recent, one, other = Recent(most_bytes=10_000), record(), record()
    recent.keep(other, 0)
    for _ in range(10):
        recent.keep(one, 0)
    assert recent.get(other.id) is other
