"""Pages that promise tests: hostile inputs, through every door, and what other systems can do."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tests.frame.tree import ROOT

# What each row is, and the folders below tests/ of which it must have a test.
ROWS = {
    1: ("a sequence", "api client"),
    2: ("a conjunction", "api client"),
    3: ("in the background", "api client"),
    4: ("a second line", "api client"),
    5: ("a substitution", "api client"),
    6: ("backquotes", "api client"),
    7: ("a substitution in quotes", "api client"),
    8: ("a here-document", "api client"),
    9: ("a redirection", "api client"),
    10: ("both streams redirected", "api client"),
    11: ("a field separator, against a denial", "api client"),
    12: ("braces", "api client"),
    13: ("a quoted flag, against a denial", "api client"),
    14: ("eval", "api client"),
    15: ("find that runs", "api client"),
    16: ("sed that runs and writes", "api client"),
    17: ("rg that runs", "api client"),
    18: ("a git alias", "api client"),
    19: ("a program for the other side", "api client"),
    20: ("go test that runs", "api client"),
    21: ("wrappers", "api client"),
    22: ("a proxy command", "api client"),
    23: ("the environment", "api client"),
    24: ("another program of that name", "api client"),
    25: ("a permitted flag", "api client"),
    26: ("a path that climbs", "api client"),
    27: ("a folder with a longer name", "api client"),
    28: ("a name with a space", "api client"),
    29: ("a script edited meanwhile", "client"),
    30: ("a link turned meanwhile", "client"),
    31: ("a key twice", "api client"),
    32: ("an unknown member", "api client"),
    33: ("keys in another order", "api client"),
    34: ("a lone surrogate, NUL", "api client"),
    35: ("two megabytes", "api web"),
    36: ("a risk that the agent states", "api client"),
    37: ("approvers named by the agent, another's session", "api client"),
    38: ("invisible characters", "api client slack discord web"),
    39: ("letters that pass for others", "api client slack discord web"),
    40: ("Slack's markup", "slack"),
    41: ("Discord's markup", "discord"),
    42: ("a bearer token", "discord web"),
    43: ("Slack's certificate check", "slack"),
    44: ("no signing secret", "slack"),
    45: ("an old or future signature", "slack"),
    46: ("Discord's signature and PING", "discord"),
    47: ("eight clicks at once", "slack discord web"),
    48: ("nobody on the list", "slack"),
    49: ("somebody else, an approver's name", "slack discord web"),
    50: ("who asked", "slack discord"),
    51: ("a reaction", "slack discord"),
    52: ("another workspace, a guest", "slack discord"),
    53: ("a guessed id", "api slack discord web"),
    54: ("a grant revoked meanwhile", "approvals"),
    55: ("a flood", "approvals slack web"),
    56: ("a forged decision", "client"),
    57: ("an edit", "client api slack discord web"),
    58: ("an agent that writes decisions", "frame"),
    59: ("another site's write", "web"),
    60: ("another site's socket", "api"),
    61: ("a token in the address", "api"),
    62: ("the kill switch", "approvals cli"),
    63: ("an exact repeat", "client approvals"),
    64: ("honest text in any script", "web"),
    65: ("an approver in time", "client slack discord web"),
    66: ("a list that one shell joins", "api client grants calls"),
    67: ("a folder in an argument", "api client grants calls"),
    68: ("a patch that readers take differently", "api client grants calls"),
    69: ("a pass that is not theirs to give", "approvals slack discord web terminal"),
    70: ("a pass used for what is dangerous", "approvals grants"),
}
SURFACES = {"inbox", "terminal", "command line", "Slack", "Discord", "HTTP", "Redis"}
# Where the tests of a folder, a file or one test come in. Any other says nothing of a surface.
_PAGES = "contract/test_pages_complete.py::test_"
PLACES = {
    "web/": "inbox",
    "terminal/": "terminal",
    "cli/": "command line",
    "slack/": "Slack",
    "discord/": "Discord",
    "api/": "HTTP",
    "client/test_http_transport.py": "HTTP",
    "client/test_redis_transport.py": "Redis",
    "client/test_hostile_inputs.py": "Redis",
    "faults/test_entries.py": "Redis",
    "faults/test_monsters.py": "Redis",
    "frame/test_compose.py": "Redis",
    "approvals/test_grouping.py::test_over_redis_the_refusal_is_an_answer": "Redis",
    f"{_PAGES}every_page_of_discord_together_is_what_runs": "Discord",
    f"{_PAGES}every_page_of_slack_together_is_what_runs": "Slack",
    f"{_PAGES}the_terminal_draws_all_that_runs": "terminal",
    f"{_PAGES}the_command_line_prints_all_that_runs": "command line",
}
FEATURES = 78  # that the systems we learned from have between them, or that all of them lack
_ROW = re.compile(r"^\| ([0-9, ]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_REASON = re.compile(r"^- \*\*([^*]+)\*\*: .", re.MULTILINE)


class Row(NamedTuple):
    """One row of the page: what it is, the tests it names, and why surfaces have none."""

    name: str
    tests: list[str]
    reasons: dict[str, str]


def read_page() -> str:
    """Return the page of hostile inputs."""
    return (ROOT / "tests" / "hostile-inputs.md").read_text(encoding="utf-8")


def table() -> dict[int, Row]:
    """Return the rows of the page by number."""
    found: dict[int, Row] = {}
    for numbers, names, tests, without in _ROW.findall(read_page()):
        reasons: dict[str, str] = {}
        for part in without.split("; ") if without != "none" else []:
            surfaces, _, why = part.partition(": ")
            reasons |= dict.fromkeys(surfaces.split(", "), why)
        for number, name in zip(numbers.split(", "), names.split("; "), strict=True):
            found[int(number)] = Row(name, re.findall(r"`([^`]+)`", tests), reasons)
    return found


@lru_cache
def named_in(path: Path) -> dict[str, list[str]]:
    """Return the tests of a file, each with its decorators."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {one.name: [ast.unparse(mark) for mark in one.decorator_list] for one in found}


def test_every_row_stands_on_the_page() -> None:
    """None is left out, and each is what it was."""
    assert {number: row.name for number, row in table().items()} == {
        number: name for number, (name, _) in ROWS.items()
    }


def check(name: str) -> None:
    """See that a test is there, runs with `make test`, and is skipped by nothing."""
    file, _, test = name.partition("::")
    marks = named_in(ROOT / "tests" / file).get(test)
    assert marks is not None, name
    assert not [mark for mark in marks if "slow" in mark or "skip" in mark], name


def test_every_row_has_tests_that_run_through_its_doors() -> None:
    """None is missing at a door where the input could come in."""
    for number, row in table().items():
        for name in row.tests:
            check(name)
        doors = {name.partition("/")[0] for name in row.tests}
        assert set(ROWS[number][1].split()) <= doors, number


def test_every_surface_of_every_row_has_a_test_or_a_reason() -> None:
    """Never both, and each reason is one that the page explains."""
    known = set(_REASON.findall(read_page()))
    used = set()
    for number, row in table().items():
        tested = {
            place for name in row.tests for start, place in PLACES.items() if name.startswith(start)
        }
        assert tested | set(row.reasons) == SURFACES, number
        assert not tested & set(row.reasons), number
        used |= set(row.reasons.values())
    assert used == known


def test_every_way_in_of_its_own_has_tests() -> None:
    """Each row names tests that are there and run."""
    _, _, own = read_page().partition("## Ways in of their own\n")
    rows = re.findall(r"^\| [^|`]+ \| (`.+`) \|$", own, re.MULTILINE)
    assert len(rows) == own.count("\n| ") - 1 > 0
    for tests in rows:
        for name in re.findall(r"`([^`]+)`", tests):
            check(name)


def test_every_feature_of_the_compatibility_page_has_a_test() -> None:
    """Each row of its tables, or says why not: a file alone would say nothing."""
    page = (ROOT / "tests" / "compatibility.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([0-9-]*) ?\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE)
    numbers = set[int]()
    for number, feature, shown in rows:
        if feature == "feature":
            continue
        first, _, last = number.partition("-")
        numbers |= set(range(int(first or 0), int(last or first or 0) + 1))
        names = re.findall(r"`([a-z_/]+\.py[^`]*)`", shown)
        assert names or re.match(r"\*\*not (so|yet):\*\* .", shown), feature
        for name in names:
            check(name)
    assert numbers - {0} == set(range(1, FEATURES + 1))
