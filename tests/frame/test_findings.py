"""The list of findings names tests that exist."""

from __future__ import annotations

import re

from tests.frame.tree import ROOT

TESTS = ROOT / "tests"
NAMED = re.compile(r"`(?P<path>[a-z_/]+\.py)?(?:::(?P<test>\w+))?`")


def test_each_named_test_exists() -> None:
    """A row is worth what its test is worth: a renamed or removed one is found here."""
    missing, path = [], ""
    for match in NAMED.finditer((TESTS / "findings.md").read_text(encoding="utf-8")):
        path = match["path"] or path
        if not (TESTS / path).is_file():
            missing.append(match[0])
        elif match["test"]:
            text = (TESTS / path).read_text(encoding="utf-8")
            if not re.search(rf"^(?:async )?def {match['test']}\(", text, re.M):
                missing.append(f"{path}::{match['test']}")
    assert path
    assert not missing
