"""The product behaves alike on each Python that it supports, the oldest bug-fix release included.

Python 3.11.0 to 3.11.4, such as Debian 12's, matches a possessive quantifier after a group wrongly
(python/cpython #100061 and #106052). An atomic group, `(?>(?:…)*)`, means the same and works.
`email.utils.getaddresses` finds nothing in `a@b <c@d>` in newer releases (CVE-2023-27043).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.frame.tree import ROOT, project_files

_POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{\d*,?\d*\})\+")
_FORMS = [r"(?:ab?c)*+", r"(x)++", r"(?:x|y)?+", r"(?:xy){1,3}+"]


def texts(module: Path) -> Iterator[str]:
    """Yield the texts in a module."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            value = node.value
            yield value if isinstance(value, str) else value.decode("latin-1")


def product() -> list[Path]:
    """Return the modules of the product."""
    folders = {ROOT / "gateway", ROOT / "adapters"}
    return [one for one in project_files(".py") if folders & set(one.parents)]


def test_no_pattern_repeats_a_group_possessively() -> None:
    """So no pattern matches more or less on Debian 12 than elsewhere."""
    wrong = [
        f"{module.relative_to(ROOT)}: {text}"
        for module in product()
        for text in texts(module)
        if _POSSESSIVE_GROUP.search(text)
    ]
    assert wrong == []


@pytest.mark.parametrize("form", _FORMS)
def test_each_form_is_found(form: str) -> None:
    """The check above can fail."""
    assert _POSSESSIVE_GROUP.search(form)


def test_no_module_reads_addresses_with_the_library() -> None:
    """Releases differ in what they find in one text."""
    wrong = [
        str(module.relative_to(ROOT))
        for module in product()
        if re.search(r"\b(?:getaddresses|parseaddr)\b", module.read_text(encoding="utf-8"))
    ]
    assert wrong == []
