"""What a surface shows, put together, is what runs, whatever an agent writes: drawn from a seed.

Escapes of ours are undone and masked values put back by their digest. Where it can be approved, all
of it was shown, and nothing that was masked could act.
"""

from __future__ import annotations

import os
import sys
from random import Random

import pytest

from gateway.domain.records import StoredRequest
from gateway.domain.redaction import holds_secrets
from tests.contract.hostile_requests import BRACKETED, draw_record
from tests.contract.read_back import Reader, told, what_runs
from tests.contract.surfaces import SURFACES, Read
from tests.discord.pictures import stored
from tests.sweeps import sweep
from tests.world import request

FULL = 4_500  # of each surface


def check(surface: str, seed: int, count: int) -> tuple[int, int]:
    """Check so many requests; return how many views were read, and how many had an approval."""
    views = approvable = 0
    for number in range(count):
        for view in read(surface, draw_record(Random(f"{seed} {number}")), f"{seed} {number}"):
            views, approvable = views + 1, approvable + view.offers
    return views, approvable


def read(surface: str, record: StoredRequest, which: str) -> list[Read]:
    """Return the views of a request, each of which shows what runs."""
    reader = Reader(record)
    views = SURFACES[surface](record, reader)
    for view in views:
        if view.offers or view.promised:
            assert view.what is not None, f"{surface}, {which}: cut"
            assert told(view.what) == what_runs(record), f"{surface}, {which}"
        assert not view.offers or reader.all_data(), f"{surface}, {which}: hidden"
    return views


@sweep("count", (20, 60), few=1)
@pytest.mark.parametrize("surface", SURFACES)
def test_what_is_shown_is_what_runs(surface: str, count: int) -> None:
    """On every surface, and some of it can be approved."""
    views, approvable = check(surface, 1, count)
    assert views >= count and approvable > count / 4


@pytest.mark.parametrize("text", BRACKETED)
@pytest.mark.parametrize("surface", SURFACES)
def test_the_bracket_of_masks_may_stand_in_a_secret(surface: str, text: str) -> None:
    """Its mask has the digest of what runs, not of how the gateway spells a bracket."""
    assert holds_secrets(text)
    record = stored(request(arguments={"note": f"{text} ⟨secret of", "password": text}))
    assert read(surface, record, text)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("surface", SURFACES)
def test_what_is_shown_is_what_runs_in_thousands(
    surface: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As above, with another seed each time; `SHOWN_SEED` repeats one."""
    seed = int(os.environ.get("SHOWN_SEED") or Random().randrange(10**9))
    with capsys.disabled():
        sys.stdout.write(f"\n{surface}: seed {seed}, {FULL} requests\n")
        sys.stdout.flush()
    views, approvable = check(surface, seed, FULL)
    with capsys.disabled():
        sys.stdout.write(f"{surface}: {views} views read, {approvable} with an approval\n")
    assert approvable > FULL / 4
