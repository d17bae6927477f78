"""What a remembered answer covers is carried out, and does no more than its words say."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

import gateway.policy.calls
from gateway.policy.grants.grant import Answer, RuleKind
from gateway.policy.grants.offers import offers
from tests.grants.hostile.base_calls import BASE_CALLS, from_table
from tests.grants.hostile.cell import Cell
from tests.grants.hostile.hostile_calls import hostile_calls
from tests.grants.hostile.search import Search, first_record, shapes_of
from tests.grants.hostile.toy_hosts import HOSTS
from tests.grants.hostile.words import understand

TABLE = Path(gateway.policy.calls.__file__).with_name("known_tools.toml")
CALLS = (*BASE_CALLS, *from_table(TABLE))
SEED = int(os.environ.get("HOSTILE_SEED", "7"))
SAMPLE, MANY = 1_500, 100_000

pytestmark = pytest.mark.xdist_group("cell")


def test_a_covered_call_does_what_the_words_say(cell: Cell) -> None:
    """A sample of hostile next calls: what is covered runs, reads and writes as the words say."""
    report = Search(cell).look_at(islice(hostile_calls(CALLS, SEED), SAMPLE))
    assert report.carried_out.total() > 200, report
    assert not report.found, report


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


def test_the_words_name_whatever_may_differ() -> None:
    """Each argument that a folder or another text leaves open stands in the words, and no other."""
    named = 0
    for call in CALLS:
        for offer in offers(first_record(call)):
            if offer.match.answer in (Answer.FOLDER, Answer.TEXT):
                open_ = [one.address for one in offer.match.rules if one.kind is RuleKind.ANY]
                names = {re.split(r"[.\]]", address)[-1] for address in open_}
                assert understand(offer.words).free == names, (call.name, offer.words)
                named += len(names)
    assert named > 50


def test_a_seed_settles_the_calls() -> None:
    """The same seed makes the same calls, another makes others."""
    one, two, other = (list(islice(hostile_calls(CALLS, seed), 50)) for seed in (1, 1, 2))
    assert one == two != other
