"""What a tool's author declares: how it travels, what is refused, and when it counts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.api.messages import Submit
from gateway.approvals.transitions import erase_content
from gateway.domain.parsing import parse_message, parse_request
from gateway.domain.policy_document import PolicyDocument, ToolRow
from gateway.domain.records import duplicate_key
from gateway.errors import InvalidRequest
from gateway.models import ApprovalRequest, digest_of
from gateway.policy.policy_file_reader import BadPolicy, differences, read_policy
from gateway.stores.record_codec import fields_of, record_from
from gateway.wire.codec import build, plain
from gateway.wire.roles import LONGEST_ADDRESS, MOST_ROLES, Role, check_roles
from tests.unit.test_transitions import record
from tests.world import AGENT, request

ROLES = {"text": "data", "edits[].path": "write"}
PAGE = Path(__file__).parents[2] / "docs/reference/policy-file.md"


def declaring(**changes: Any) -> ApprovalRequest:
    """Return a request whose author declares both."""
    return request(tool="note", roles=ROLES, harmless=True, **changes)


def test_the_roles_are_those_of_the_page() -> None:
    """No word more, none less; each may be declared."""
    table = PAGE.read_text(encoding="utf-8").partition("| role |")[2].partition("\n\n")[0]
    words = [word for row in table.splitlines()[2:]
             for word in re.findall(r"`(\w+)`", row.split("|")[1])]  # fmt: skip
    assert sorted(role.value for role in Role) == sorted(words)
    check_roles({str(number): word for number, word in enumerate(words)})


def test_declarations_travel_beside_the_request() -> None:
    """They arrive as they were sent, and change nothing of what would run."""
    asked, plainly = declaring(), request(tool="note")
    raw = json.dumps(plain(asked)).encode()
    assert parse_request(raw) == asked
    assert build(ApprovalRequest, plain(asked)) == asked
    assert digest_of(asked) == digest_of(replace(asked, roles={}, harmless=False))
    assert {"roles", "harmless"}.isdisjoint(plain(plainly))


@pytest.mark.parametrize(
    ("roles", "word"),
    [
        ({"text": "dta"}, "did you mean data"),
        ({"text": "Data"}, "did you mean data"),
        ({"text": "qqqqqq"}, "the roles are command,"),
        ({"text": "x" * 100_000}, "is not a role"),
        ({"text": ""}, "is not a role"),
        ({"": "data"}, "1 to 200"),
        ({"x" * (LONGEST_ADDRESS + 1): "data"}, "1 to 200"),
        ({f"a{n}": "data" for n in range(MOST_ROLES + 1)}, "the limit is 64"),
        ({"text": 7}, "string"),
        ({"text": None}, "string"),
        ({"text": ["data"]}, "string"),
        (["text"], "roles"),
        (None, "roles"),
        ("data", "roles"),
    ],
)
def test_what_is_no_declaration_is_refused_on_both_ways_in(roles: Any, word: str) -> None:
    """With a short sentence that says what would be one."""
    values = {**plain(request()), "roles": roles}
    submit = {"request": values, "process": "0" * 32}
    for parse in (
        lambda: parse_request(json.dumps(values).encode()),
        lambda: parse_message(Submit, json.dumps(submit).encode()),
    ):
        with pytest.raises(InvalidRequest, match=re.escape(word)) as refused:
            parse()
        assert len(str(refused.value)) < 600
    with pytest.raises(InvalidRequest, match="harmless"):
        parse_request(json.dumps({**plain(request()), "harmless": "yes"}).encode())


def test_the_most_and_the_longest_are_taken() -> None:
    """64 roles, and names of 200 characters."""
    names = [f"{n:0{LONGEST_ADDRESS}}" for n in range(MOST_ROLES)]
    most = request(roles=dict.fromkeys(names, "data"))
    assert parse_request(json.dumps(plain(most)).encode()) == most


def test_a_record_keeps_what_was_declared() -> None:
    """By author and operator, in the store too; a role of a newer version is kept as it is."""
    newer = replace(declaring(), roles={**ROLES, "x": "of a newer version"})
    kept = record(
        request=newer, harmless=True, declared={"text": "action"}, trusted=True, behind="", alike=0
    )
    assert record_from(kept.id, {"agent": AGENT, **fields_of(kept)}) == kept


def test_a_record_of_the_version_before_declares_nothing() -> None:
    """And what is not declared is stored as that version stored it."""
    bare = record(request=request(tool="note"))
    stored = {"agent": AGENT, **fields_of(bare)}
    assert {"roles", "harmless"}.isdisjoint(json.loads(stored["body"]))
    assert {"declared", "trusted", "harmless"}.isdisjoint(stored)
    found = record_from(bare.id, stored)
    assert (found.request.roles, found.declared, found.trusted) == ({}, {}, False)


def test_requests_that_declare_otherwise_do_not_wait_on_one_card() -> None:
    """What a card offers to remember goes by them."""
    kinds: list[dict[str, Any]] = [
        {},
        {"roles": ROLES},
        {"harmless": True},
        {"roles": {"text": "action"}},
    ]
    likes = {duplicate_key(record(request=request(**kind))) for kind in kinds}
    assert len(likes) == len(kinds)


def test_an_erased_request_keeps_no_names_of_arguments() -> None:
    """They are content as the arguments are."""
    assert erase_content(record(request=declaring())).request.roles == {}


@pytest.mark.parametrize(
    ("trust", "trusted"),
    [((), False), ((AGENT,), True), (("*",), True), (("other", "oth*"), False)],
)
def test_an_author_counts_where_the_policy_trusts_the_agent(
    trust: tuple[str, ...], trusted: bool
) -> None:
    """Nobody unless named, and what counted before does not go on counting."""
    policy = PolicyDocument(trust_declarations=trust)
    before = record(request=declaring(), harmless=not trusted, trusted=not trusted)
    now = policy.declare(before)
    assert (now.harmless, now.trusted, now.declared) == (trusted, trusted, {})
    silent = policy.declare(record(request=request(tool="note")))
    assert not silent.harmless


def test_the_operator_speaks_before_the_author() -> None:
    """A row decides whether its tool is harmless, and its roles stand beside the author's."""
    row = ToolRow(name="note", harmless=False, arguments={"text": "action"}, agents=(AGENT,))
    asked = record(request=declaring())
    for harmless in (False, True):
        rows = (replace(row, harmless=harmless),)
        found = PolicyDocument(tools=rows, trust_declarations=("*",)).declare(asked)
        assert (found.harmless, found.declared) == (harmless, {"text": "action"})
    elsewhere = PolicyDocument(tools=(replace(row, agents=("other",)),)).declare(asked)
    assert (elsewhere.harmless, elsewhere.declared) == (False, {})


TOOLS = """trust_declarations = ["ci-*"]   # "dta" in a comment

[[tools]]
name = "dta"
harmless = true

[[tools]]
name = "note"
[tools.arguments]
title = "data"
"edits[].text" = "dta"
"""


def test_the_policy_file_declares_arguments() -> None:
    """Beside `harmless`, which may be left out; what changes is said."""
    read = read_policy(TOOLS.replace('= "dta"\n', '= "data"\n'))
    assert read.tools[1].arguments == {"title": "data", "edits[].text": "data"}
    assert [row.harmless for row in read.tools] == [True, False]
    assert read.trust_declarations == ("ci-*",)
    lines = differences(PolicyDocument(), read)
    assert "~ trust_declarations: none -> ci-*" in lines
    assert any("arguments {" in line and "note" in line for line in lines)
    assert differences(read, read) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TOOLS, 11),
        ('[[tools]]\nname = "a"\narguments = { x = "dta" }', 3),
        (
            'tools = [\n{name = "a", arguments.x = "id"},\n{name = "b", arguments.x = "dta"}]',
            3,
        ),
        ('[[tools]]\nname = "a"\narguments.y = "data" # dta\narguments.x = "dta"', 4),
    ],
)
def test_an_unknown_role_is_refused_with_its_line(text: str, line: int) -> None:
    """And with the word that was meant; nothing of the file is taken."""
    with pytest.raises(BadPolicy, match=rf"^Line {line}: Tool .*'dta'.*did you mean data\?"):
        read_policy(text)


@pytest.mark.parametrize(
    "text",
    [
        "trust_declarations = true",
        "tools = 7",
        "tools = [7]",
        '[[tools]]\nname = "a"\narguments = ["x"]',
        '[[tools]]\nname = "a"\narguments = { x = 7 }',
        '[[tools]]\nname = "a"\nharmless = "yes"',
        '[[tools]]\nname = "a"\narguments = { "" = "data" }',
        '[[tools]]\nname = "a"\narguments = { x = "\\u0064ta" }',
    ],
)
def test_what_is_no_declaration_refuses_the_file(text: str) -> None:
    """Whatever its type, and wherever it stands."""
    with pytest.raises(BadPolicy):
        read_policy(text)
