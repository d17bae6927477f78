"""The policy file that is written from a policy: reading it gives that policy again."""

from __future__ import annotations

import tomllib
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.domain.policy_document import (
    Budget,
    Escalation,
    Guardrails,
    Mode,
    PolicyDocument,
    PolicyRule,
    Route,
    RuleEffect,
    RuleLimit,
    ToolRow,
    Window,
)
from gateway.domain.records import Person, ScopeQuorum
from gateway.domain.risk import LevelRules, RiskRule, RulesByRisk, StepUp
from gateway.models import Kind, RiskLevel
from gateway.policy.policy_file_reader import read_policy
from gateway.policy.policy_file_writer import write_policy
from tests.frame.tree import ROOT

TEXT = 'a "quote", a \\ and a\nnew line\t\x1b[2K\x7f\r \u202e é 日本 😀 = # ]'
"""What TOML escapes, what a terminal acts on, and what is no ASCII."""

ANN = Person(name="ann", identities=("token:ann", "slack:T1/U1"), admin=True)
BEN = Person(name=TEXT, identities=("discord:7", f"token:{TEXT}", "oidc:ben@example"))
PLAIN = Person(name="cara", identities=("token:cara",))
DAN = Person(name="dan", identities=("token:dan",), auditor=True)

EVERYTHING = PolicyDocument(
    people=(ANN, BEN, PLAIN, DAN),
    groups_claim="groups",
    admin_groups=("oidc-group:admins",),
    auditor_groups=(f"oidc-group:{TEXT}",),
    routes=(
        Route(
            name="pays",
            agents=("shop-*", TEXT),
            tools=("pay",),
            approvers=("ann", TEXT, "slack:group"),
            quorum=2,
            scope_quorum=ScopeQuorum(pattern=2, folder=2, tool=3, everywhere=3),
            timeout=62.5,
            max_timeout=3600,
            self_approval=False,
            mode=Mode.AUTO_DENY,
            targets=("web", "origin", "slack:T1/C1"),
            origins=("slack:T1/C7", "discord:1/"),
            mention=True,
            remind_after=(10, 20.5),
            escalations=(
                Escalation(after=30, targets=("slack:T1/C2",)),
                Escalation(after=60, targets=("discord:1/2", "web")),
            ),
            notify=("requester", "slack:T1/C3"),
            discreet=True,
            high_risk_delegates=True,
            risk=RulesByRisk(
                low=LevelRules(),
                medium=LevelRules(approvers=("ann", TEXT, "slack:group"), quorum=2),
                high=LevelRules(quorum=3, step_up=(StepUp.PASSKEY, StepUp.PERSON)),
            ),
        ),
        Route(approvers=("cara",), risk=RulesByRisk(high=LevelRules(approvers=()))),
        Route(name="empty"),
    ),
    risks=(
        RiskRule(
            name="deletes",
            level=RiskLevel.HIGH,
            reason=TEXT,
            agents=("a*",),
            tools=("shell",),
            kinds=(Kind.COMMAND, Kind.TOOL),
            contains=("rm ", TEXT),
        ),
    ),
    rules=(
        PolicyRule(
            name="reads",
            effect=RuleEffect.ALLOW,
            agents=("a",),
            tools=("read_*",),
            kinds=(Kind.TOOL,),
            commands=("git log",),
            folders=("/srv",),
            arguments={"branch": "main", "edits[].path": TEXT, TEXT: "x", "to": ["a", TEXT]},
            numbers={"amount": "> 0, <= 100.5", TEXT: "= 1"},
            limits=(
                RuleLimit(most=500.25, of=TEXT, per=Window.HOUR, for_each="to"),
                RuleLimit(most=20),
            ),
            shadow=True,
            message=TEXT,
            read_only=True,
        ),
        PolicyRule(name="drops", effect=RuleEffect.DENY, contains=("DROP TABLE",)),
    ),
    guardrails=Guardrails.DENY,
    budgets=(
        Budget(
            name="small", agents=("b",), waiting=1, bytes=2, daily=3, cards=4, denials=0, pause=0.5
        ),
        Budget(),
    ),
    tools=(
        ToolRow(
            name="post",
            harmless=True,
            agents=("b*",),
            arguments={"text": "data", "notes[].text": "data"},
            declared_by="ann",
            declared_at="2026-11-28T12:00:00Z",
        ),
        ToolRow(name="jot"),
    ),
    trust_declarations=("*", TEXT),
    own_domains=("example.com", "*.example.com"),
)
"""Each member of each part is somewhere not at its default."""


def read_again(policy: PolicyDocument) -> PolicyDocument:
    """Return what the written file says."""
    return replace(read_policy(write_policy(policy)), generation=policy.generation)


def parts_of(value: Any) -> list[Any]:
    """Return a part and all below it."""
    if isinstance(value, tuple):
        return [one for inner in value for one in parts_of(inner)]
    if not is_dataclass(value):
        return []
    below = [one for member in fields(value) for one in parts_of(getattr(value, member.name))]
    return [value, *below]


def test_everything_is_read_again_as_it_was() -> None:
    """Whatever its generation."""
    assert read_again(EVERYTHING) == EVERYTHING
    assert read_again(replace(EVERYTHING, generation=7)) == replace(EVERYTHING, generation=7)


def test_the_policy_above_leaves_no_member_at_its_default() -> None:
    """So a member that is new comes into the test above."""
    changed: dict[type, set[str]] = {}
    parts = parts_of(EVERYTHING)
    for part in parts:
        plain = {one.name for one in fields(part) if getattr(part, one.name) != one.default}
        for one in fields(part):
            made = one.default_factory() if callable(one.default_factory) else ...
            if getattr(part, one.name) == made:
                plain.discard(one.name)
        changed.setdefault(type(part), set()).update(plain)
    wanted = {type(part): {one.name for one in fields(part)} for part in parts}
    wanted[PolicyDocument] -= {"generation"}
    wanted[Person] -= {"groups"}  # of group members, who are in no file
    assert changed == wanted


@pytest.mark.parametrize("member", ["people", "routes", "risks", "rules", "budgets", "tools"])
def test_each_part_is_read_again_alone(member: str) -> None:
    """No part needs a table of another to stand before it."""
    policy = PolicyDocument(**{member: getattr(EVERYTHING, member)})
    if member == "routes":
        policy = replace(policy, people=EVERYTHING.people)
    assert read_again(policy) == policy


@pytest.mark.parametrize(
    "policy",
    [
        PolicyDocument(),
        PolicyDocument(guardrails=Guardrails.OFF),
        PolicyDocument(routes=(Route(),), trust_declarations=("*",)),
    ],
)
def test_a_small_policy_is_a_small_file(policy: PolicyDocument) -> None:
    """What is at its default is not written; the first lines say what the file is."""
    text = write_policy(policy)
    assert text.startswith("# ") and text.endswith("\n")
    assert "gateway apply FILE" in text
    assert len([line for line in text.splitlines() if line and not line.startswith("#")]) <= 2
    assert read_again(policy) == policy


def test_a_login_is_written_only_where_it_is_not_read_by_itself() -> None:
    """A person's own login stands first unless the file says otherwise."""
    text = write_policy(PolicyDocument(people=(ANN, BEN, PLAIN)))
    assert "token:ann" not in text
    assert "token:cara" not in text
    assert 'identities = ["slack:T1/U1"]' in text
    assert len(tomllib.loads(text)["people"][1]["identities"]) == 3


def test_nothing_that_a_terminal_acts_on_is_written() -> None:
    """An agent's name can be anything, and an operator reads the file."""
    text = write_policy(EVERYTHING)
    assert all(one.isprintable() or one == "\n" for one in text)
    assert "日本 😀" in text


@pytest.mark.parametrize("sample", sorted((ROOT / "deploy" / "policies").glob("*.toml")))
def test_the_samples_are_written_as_they_are_read(sample: Any) -> None:
    """What people begin with."""
    policy = read_policy(sample.read_text(encoding="utf-8"))
    assert read_again(policy) == policy


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.floats(min_value=0.001, max_value=1e300) | st.integers(2**52, 2**54).map(float),
    st.integers(1, 2**53 - 1),
)
def test_any_text_and_any_number_is_read_again(text: str, seconds: float, count: int) -> None:
    """In a value and in a key; NUL is refused everywhere."""
    rule = PolicyRule(name=text, effect=RuleEffect.ASK, arguments={text: text}, message=text)
    policy = PolicyDocument(rules=(rule,), budgets=(Budget(pause=seconds, waiting=count),))
    assert read_again(policy) == policy
