"""Print how many everyday pairs of each family are covered, and which are not.

Run it as `python -m tests.grants.everyday_report`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.grants.everyday import count, covered, figures, pairs


def report() -> str:
    """Return the figures, the pairs that ask, and those that should ask and do not."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    wanted = pairs("next")
    asked = [pair for pair in wanted if not covered(pair)]
    totals, missing = count(wanted), count(asked)
    yield f"{'family':<24}{'before':>7}{'floor':>7}{'now':>7}{'all':>7}"
    for family, figure in figures().items():
        now, all_of_it = totals[family] - missing[family], totals[family]
        yield f"{family:<24}{figure['before']:>7}{figure['floor']:>7}{now:>7}{all_of_it:>7}"
    yield f"\n{len(asked)} of {len(wanted)} ask:"
    yield from (f"  {pair.family}: {pair}" for pair in asked)
    refused = pairs("ask")
    free = [pair for pair in refused if covered(pair)]
    yield f"\n{len(free)} of {len(refused)} should ask and do not:"
    yield from (f"  {pair.family}: {pair}" for pair in free)


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
