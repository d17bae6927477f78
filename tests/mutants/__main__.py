"""`python -m tests.mutants`: take guards out, one at a time; fail where no test misses one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.mutants.guards import find_mistakes, read_guards
from tests.mutants.running import End, Result, run_all, run_whole

_LAST_LINES = 25


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments name; return 0 when every guard was found missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="guards by name; all without")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default 2)")
    parser.add_argument("--chosen", action="store_true", help="the ten that run with each change")
    given = parser.parse_args(arguments)
    guards = read_guards()
    if mistakes := find_mistakes(guards):
        print(*mistakes, sep="\n", file=sys.stderr)
        return 1
    if unknown := set(given.names) - {one.name for one in guards}:
        parser.error(f"there is no guard {', '.join(sorted(unknown))}")
    if given.names:
        guards = [one for one in guards if one.name in given.names]
    elif given.chosen:
        guards = [one for one in guards if one.chosen]
    if said := run_whole(guards):
        print(said, "the tests fail with every guard in its place", sep="\n")
        return 1
    results = run_all(guards, jobs=given.jobs, tell=_print_row)
    counts = {end: sum(one.end is end for one in results) for end in End}
    for one in results:
        if one.end is not End.FOUND:
            lines = "\n".join(one.said.splitlines()[-_LAST_LINES:])
            print(f"\n{one.guard.name}: {one.guard.guards}\n{lines}")
    print(f"\n{len(results)} guards:", ", ".join(f"{count} {end}" for end, count in counts.items()))
    return 0 if counts[End.FOUND] == len(results) else 1


def _print_row(result: Result) -> None:
    print(f"{result.end:9} {result.seconds:5.1f} s  {result.guard.name:44} {result.guard.file}")


if __name__ == "__main__":
    sys.exit(main())
