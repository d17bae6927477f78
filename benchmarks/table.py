"""The table of figures: one row per name, printed for people and written for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. `target` is "<= 2", "< 20", ">= 0.5", or "" when it is only reported."""

    name: str
    value: float
    unit: str
    target: str = ""
    samples: Mapping[str, float] = field(default_factory=dict)
    p99: float | None = None

    @property
    def verdict(self) -> str:
        """Say whether the target was met."""
        if not self.target:
            return ""
        return "ok" if holds(self.value, self.target) else "MISSED"


def holds(value: float, target: str) -> bool:
    """Tell whether a value meets a target."""
    relation, _, limit = target.partition(" ")
    if relation == "<=":
        return value <= float(limit)
    if relation == "<":
        return value < float(limit)
    return value >= float(limit)


def percentile(values: Iterable[float], percent: int) -> float:
    """Return a percentile of at least two values."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def p50(values: Iterable[float]) -> float:
    """Return the median."""
    return percentile(values, 50)


def write(rows: Iterable[Row], path: Path) -> None:
    """Write one object per name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {row.name: _plain(row) for row in rows}
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def _plain(row: Row) -> dict[str, object]:
    values = {name: value for name, value in asdict(row).items() if name != "name"}
    if row.p99 is None:
        del values["p99"]
    values["target"] = row.target or None
    values["samples"] = {name: round(value, 3) for name, value in row.samples.items()}
    values["value"] = round(row.value, 4)
    return values


def header() -> str:
    """Return the first line of the table."""
    return f"{'name':32} {'value':>9} {'unit':14} {'target':8} {'':7} samples"


def line(row: Row) -> str:
    """Return a row as a line of the table."""
    figures = dict(row.samples)
    if row.p99 is not None:
        figures["p99"] = row.p99
    samples = "  ".join(f"{name} {value:,.6g}" for name, value in figures.items())
    value = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:.2f}"
    return f"{row.name:32} {value:>9} {row.unit:14} {row.target:8} {row.verdict:7} {samples}"
