"""What the inbox draws, put together, is what runs: hostile requests, drawn by the page itself."""

from __future__ import annotations

import json
import os
import sys
from random import Random
from typing import Any

import pytest

from adapters.web.cards import Viewer, add_viewer, build_row, build_whole
from gateway.domain.redaction import key_masks
from tests.conftest import MASK_KEY
from tests.contract.hostile_requests import draw_record
from tests.contract.read_back import Reader, told, what_runs
from tests.contract.surfaces import gather
from tests.web.chromium import Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

QUICK, FULL, BATCH = 40, 1_000, 40
_DRAW = """(async () => {
  const { card } = await import("/inbox/static/card.js");
  const text = (node) => node.textContent;
  return %s.map((item) => {
    const view = { draft: { text: {} }, online: true, busy: false, acts: {} };
    const made = card(item, view), all = (what) => [...made.querySelectorAll(what)];
    const names = all(".facts dt").map(text), told = all(".facts dd").map(text);
    return {
      title: text(made.querySelector("h2")),
      facts: names.map((name, at) => [name, told[at]]),
      figures: all("figure").map((one) => [
        text(one.querySelector("figcaption span")), text(one.querySelector("pre")),
        one.querySelector("pre").className,
      ]),
      keys: all("button").map((one) => one.dataset.key),
      alien: all("img, svg, b, a, script, h1").length,
      headings: all("h2, h3, dt").map(text),
    };
  });
})()"""


async def check(page: Page, seed: int, count: int) -> int:
    """Check so many requests, as rows and opened; return how many could be approved."""
    key_masks(MASK_KEY)  # a gateway that runs beside this has its own
    approvable = 0
    for start in range(0, count, BATCH):
        records = [draw_record(Random(f"{seed} {n}")) for n in range(start, start + BATCH)]
        items = [
            add_viewer(build(record), record, Viewer(name="ann"))
            for record in records
            for build in (build_row, build_whole)
        ]
        drawn = await page.evaluate(_DRAW % json.dumps(items))
        for number, (item, shown) in enumerate(zip(items, drawn, strict=True)):
            record = records[number // 2]
            assert shown["alien"] == 0
            approvable += _check_one(Reader(record), item, shown, what_runs(record))
    return approvable


def _check_one(reader: Reader, item: Any, shown: Any, runs: str) -> bool:
    offers = bool({"approve", "to-edit", "to-respond"} & set(shown["keys"]))
    assert set(shown["headings"]) - {shown["title"]} <= OURS
    facts = {name.lower(): text for name, text in shown["facts"] if name in NAMED}
    figures = [
        (label, text.removesuffix("\n") if "diff" in kind else text)
        for label, text, kind in shown["figures"]
    ]
    if offers or item["complete"]:
        read = gather(figures, facts, reader)
        assert read is not None
        assert told(read) == runs
    assert not offers or reader.all_data()
    return offers


OURS = {"Agent", "Tool", "Session", "Host", "Folder", "Asked by"}
NAMED = ("Tool", "Host", "Folder")


async def test_what_the_page_draws_is_what_runs(page: Page) -> None:
    """In the page's own JavaScript, on a phone; no name of an agent's is a heading of ours."""
    assert await check(page, 1, QUICK) > QUICK / 4


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_what_the_page_draws_is_what_runs_in_thousands(
    page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    """As above, with another seed each time; `SHOWN_SEED` repeats one."""
    seed = int(os.environ.get("SHOWN_SEED") or Random().randrange(10**9))
    with capsys.disabled():
        sys.stdout.write(f"\nbrowser: seed {seed}, {FULL} requests\n")
        sys.stdout.flush()
    assert await check(page, seed, FULL) > FULL / 4
