"""What a record touches is computed once, and anew for each copy that would run something else."""

from dataclasses import replace

from gateway.domain.records import StoredRequest
from gateway.policy.calls.call_effects import effects_of
from gateway.wire.roles import Role
from tests.grants.making import asked as ask


def asked() -> StoredRequest:
    """Return a record of a tool that nobody knows."""
    return ask("frobnicate", arguments={"x": 1})


def test_it_is_computed_once() -> None:
    """Whoever asks again gets the same answer, also about a copy that only has another state."""
    record = asked()
    assert effects_of(record) is effects_of(record)
    assert effects_of(record.copy_with(behind="x")) is effects_of(record)


def test_a_copy_that_would_run_something_else_is_read_anew() -> None:
    """Also where the values count as equal in Python: 1 is not true."""
    record = asked()
    (before,) = effects_of(record)
    (edited,) = effects_of(record.copy_with(edited={"x": True}))
    assert (before.leaves[0].value, edited.leaves[0].value) == (1, True)
    assert edited.leaves[0].type is not before.leaves[0].type


def test_a_declaration_counts_at_once() -> None:
    """What is declared or trusted after the first look changes the answer."""
    record = asked()
    assert effects_of(record)[0].leaves[0].role is Role.UNKNOWN
    (found,) = effects_of(record.copy_with(declared={"x": "id"}))
    assert found.leaves[0].role is Role.ID
    assert not effects_of(record)[0].harmless
    assert effects_of(record.copy_with(harmless=True))[0].harmless


def test_nothing_of_it_is_stored_or_compared() -> None:
    """A record that was looked at equals one that was not, and a fresh copy starts anew."""
    record = asked()
    other = replace(record)
    effects_of(record)
    assert record == other
    assert effects_of(other) is not effects_of(record)
