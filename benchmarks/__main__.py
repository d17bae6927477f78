"""Runs every measurement, prints the table, writes build/bench.json."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from time import monotonic

from _pytest.outcomes import Skipped

from benchmarks import table
from benchmarks.convergence import convergence
from benchmarks.denials import denials
from benchmarks.discord import discord_click_to_wake
from benchmarks.ended import ended
from benchmarks.frameworks import frameworks
from benchmarks.hooks import hooks
from benchmarks.inbox import inbox
from benchmarks.intake import intake
from benchmarks.many_waiters import many_waiters
from benchmarks.memory import memory
from benchmarks.paint import paint
from benchmarks.pair import pair
from benchmarks.processes import start_up
from benchmarks.pushed import pushed
from benchmarks.remembered import grants
from benchmarks.replicas import replicas
from benchmarks.slack import slack_click_to_wake
from benchmarks.slack_burst import slack_burst
from benchmarks.throughput import throughput
from benchmarks.touching import touching
from benchmarks.wake import click_to_wake, rule_round_trip

PHASES = (
    click_to_wake,
    discord_click_to_wake,
    inbox,
    paint,
    pushed,
    convergence,
    slack_click_to_wake,
    slack_burst,
    rule_round_trip,
    hooks,
    frameworks,
    throughput,
    pair,
    replicas,
    intake,
    denials,
    grants,
    touching,
    memory,
    ended,
    many_waiters,
    start_up,
)


async def main(chosen: list[str]) -> None:
    """Run the phases in `chosen`, or all; the file is written only for all. A phase that needs a
    program which is not here is skipped, and named at the end."""
    print(table.header())
    rows: list[table.Row] = []
    skipped: list[str] = []
    began = monotonic()
    for phase in PHASES:
        if not chosen or phase.__name__ in chosen:
            try:
                for row in await phase():
                    print(table.line(row), flush=True)
                    rows.append(row)
            except Skipped as missing:  # what it needs is not on this machine
                skipped.append(phase.__name__)
                print(f"{phase.__name__}: skipped, {missing}", flush=True)
    missed = sum(row.verdict == "MISSED" for row in rows)
    print(f"{len(rows)} figures in {monotonic() - began:.0f} s, {missed} missed")
    if skipped:
        print(f"skipped: {', '.join(skipped)}")
    if not chosen:
        table.write(rows, Path("build/bench.json"))


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith(("GATEWAY_", "REDIS_"))]:
        del os.environ[name]
    logging.basicConfig(level="WARNING")
    asyncio.run(main(sys.argv[1:]))
