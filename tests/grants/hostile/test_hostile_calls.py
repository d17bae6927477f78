"""What a remembered answer covers is carried out, and does no more than its words say."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

import gateway.policy.calls
from tests.grants.hostile.base_calls import BASE_CALLS, from_table
from tests.grants.hostile.cell import Cell
from tests.grants.hostile.hostile_calls import hostile_calls
from tests.grants.hostile.search import Search, shapes_of
from tests.grants.hostile.toy_hosts import HOSTS

TABLE = Path(gateway.policy.calls.__file__).with_name("tools.toml")
CALLS = (*BASE_CALLS, *from_table(TABLE))
SEED = int(os.environ.get("HOSTILE_SEED", "7"))
SAMPLE, MANY = 1_500, 100_000

# The lists of names that coverage goes by; the model of what a call touches takes their place.
_AWAITS_THE_MODEL = pytest.mark.xfail(
    reason="passes and whole tools let through what their words exclude", strict=True
)

pytestmark = pytest.mark.xdist_group("cell")


@_AWAITS_THE_MODEL
def test_a_covered_call_does_what_the_words_say(cell: Cell) -> None:
    """A sample of hostile next calls: what is covered runs, reads and writes as the words say."""
    report = Search(cell).look_at(islice(hostile_calls(CALLS, SEED), SAMPLE))
    assert report.carried_out.total() > 200, report
    assert not report.found, report


@_AWAITS_THE_MODEL
@pytest.mark.slow
@pytest.mark.timeout(6000)
def test_a_hundred_thousand_covered_calls_do_what_the_words_say(
    cell: Cell, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    """The same at length; the counts by kind of change are printed and recorded."""
    report = Search(cell).look_at(islice(hostile_calls(CALLS, SEED), MANY))
    record_property("hostile calls", f"seed {SEED}\n{report}")
    with capsys.disabled():
        sys.stdout.write(f"\nseed {SEED}\n{report}\n")
    assert report.carried_out.total() > 10_000, report
    assert not report.found, report


def test_the_calls_reach_every_toy_host_and_every_shape_of_answer() -> None:
    """The base calls fit all hosts, and offers of each shape are made for some of them."""
    assert {host for call in CALLS for host in call.hosts} == set(HOSTS)
    assert set(shapes_of(CALLS)) >= {"command", "folder", "text", "tool"}
    assert len({call.name for call in BASE_CALLS}) >= 72


def test_a_seed_settles_the_calls() -> None:
    """The same seed makes the same calls, another makes others."""
    one, two, other = (list(islice(hostile_calls(CALLS, seed), 50)) for seed in (1, 1, 2))
    assert one == two != other
