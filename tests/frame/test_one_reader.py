"""One model reads what a call is given: no other module of the policy looks into arguments."""

from __future__ import annotations

import ast

import pytest

from tests.frame.tree import ROOT

READ = frozenset({"arguments", "parts", "payload"})
# They look at arguments as text or as a whole, and never at what one of them means.
ALLOWED = {
    "gateway/policy/rules.py": "`contains` searches the text; `rule.arguments` are an "
    "operator's words; nothing hides in the whole",
    "gateway/policy/chain.py": "a hook's changed arguments are checked and stored whole",
    "gateway/policy/guardrails.py": "the risk of edited arguments, by a search in their text",
    "gateway/policy/declared_tools.py": "`arguments` are those of a declaration, not a call's",
    "gateway/policy/grants/coverage.py": "nothing hides in the whole; whether there is a payload",
    "gateway/policy/grants/offers.py": "nothing hides in the whole",
    "gateway/policy/grants/line_parts.py": "the same arguments with another command; nothing hides",
    "gateway/policy/grants/session_passes.py": "names of members, as texts; whether a row fits",
    "gateway/policy/grants/variations.py": "whether there is a payload",
    "gateway/policy/grants/denials.py": "`parts` are the components of a path of the model",
    "gateway/policy/hooks.py": "hooks get the call as it is, and give it back as it should be",
    "gateway/policy/plans.py": "a planned line becomes its call as a whole",
    "gateway/policy/policy_file_reader.py": "`[tools.arguments]` are words of an operator",
}


def readers() -> set[str]:
    """Return the modules of the policy, but the model, that look into arguments."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "gateway" / "policy").rglob("*.py")
        if "calls" not in path.relative_to(ROOT).parts and reads(path.read_text("utf-8"))
    }


def reads(text: str) -> bool:
    """Whether a module takes arguments, parts or the payload from something."""
    nodes = list(ast.walk(ast.parse(text)))
    named = any(isinstance(one, ast.Attribute) and one.attr in READ for one in nodes)
    return named or any(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Name)
        and one.func.id in ("getattr", "attrgetter")
        and any(isinstance(arg, ast.Constant) and arg.value in READ for arg in one.args)
        for one in nodes
    )


def test_only_the_model_reads_arguments() -> None:
    """Whoever wants to know what a call touches asks `effects_of`."""
    assert readers() == set(ALLOWED)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("record.arguments['x']", True),
        ("getattr(record, 'payload')", True),
        ("touches.leaves", False),
        ("def f(arguments): return 1", False),
    ],
)
def test_a_reader_is_seen(text: str, found: bool) -> None:
    """Directly, and by its name."""
    assert reads(text) is found
