"""What the pages weigh: a phone's line is slow."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator

import pytest

from adapters.web.adapter import read_assets
from tests.frame.tree import ROOT
from tests.web.inbox import COMMAND, Inbox
from tests.web.visitor import visitor

MOST_SCRIPT = 43_000  # bytes of all scripts, compressed; the operators' page takes 2,400
FIRST_SCRIPT = 10_000  # of what the first sight of the queue needs


def test_all_scripts_together_are_small() -> None:
    """As they are sent: each file compressed on its own, without a framework."""
    scripts = {name: one for name, one in read_assets("static").items() if name.endswith(".js")}
    assert len(scripts) > 15
    assert sum(len(one.packed) for one in scripts.values()) <= MOST_SCRIPT
    for one in scripts.values():
        assert gzip.decompress(one.packed) == one.body


def test_no_script_has_a_template_within_a_template() -> None:
    """The minifier takes the inner one for code, and blanks of its text away."""
    for path in sorted((ROOT / "adapters" / "web" / "static").glob("*.js")):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"`[^`]*\$\{[^}`]*`", text), path.name


def imported(name: str, found: set[str]) -> Iterator[str]:
    """Yield a script and all that it cannot begin without."""
    if name in found:
        return
    found.add(name)
    yield name
    body = (ROOT / "adapters" / "web" / "static" / name).read_text(encoding="utf-8")
    for other in re.findall(r'^import (?:.* from )?"\./([a-z-]+\.js)";$', body, re.MULTILINE):
        yield from imported(other, found)


def test_the_first_sight_needs_little_and_all_of_it_is_named() -> None:
    """The page names every script that the queue needs, so that none is found out about late."""
    page = read_assets("templates")["inbox.html"].body.decode()
    named = set(re.findall(r'(?:modulepreload" href|src)="/inbox/static/([a-z-]+\.js)"', page))
    needed = set(imported("inbox.js", set()))
    assert named == needed
    assert sum(len(read_assets("static")[name].packed) for name in needed) <= FIRST_SCRIPT


@pytest.mark.parametrize(
    ("path", "packed"),
    [
        ("/inbox", True),
        ("/inbox/static/inbox.css", True),
        ("/inbox/static/inbox.js", True),
        ("/inbox/api/queue", True),
        ("/inbox/api/audit", True),
        ("/inbox/api/me", False),
    ],
)
async def test_answers_are_compressed_but_for_the_token(
    box: Inbox, path: str, packed: bool
) -> None:
    """For a browser that takes it, and for no other; the token is next to no text of an agent's
    in a compressed answer."""
    for number in range(8):
        await box.ask(**{**COMMAND, "session": f"s{number}", "hint": "words " * number})
    async with visitor(box) as ann:
        for offered, wanted in (("gzip, br", packed), ("identity", False)):
            headers = {"Accept-Encoding": offered}
            async with ann.http.get(f"{box.gateway.url}{path}", headers=headers) as answer:
                assert answer.status == 200
                assert (answer.headers.get("Content-Encoding") == "gzip") == wanted
                assert (await answer.read())[:1] in (b"<", b"i", b":", b"{")
