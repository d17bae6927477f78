"""The policy file: read strictly, refused as a whole, and its example works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Identity
from gateway.models import RiskLevel
from gateway.policy.policy_file_reader import BadPolicy, differences, read_policy
from tests.unit.test_transitions import record
from tests.world import request

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "write-policy.md"
HIGH = RiskLevel.HIGH
PEOPLE = '[[people]]\nname = "ana"\n[[people]]\nname = "ben"\n'


def example() -> PolicyDocument:
    """Return the policy of the page's example."""
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return read_policy(found.group(1))


def test_the_example_of_the_page_is_a_policy() -> None:
    """What the page shows can be applied as it stands."""
    policy = example()
    assert policy.route_for("deploy-eu", "kubectl apply").name == "deployments"
    assert policy.route_for("bot", "kubectl apply").name == "default"
    ana = policy.person_of(Identity(platform="slack", id="T024BE7LD/U2147483697"))
    assert ana is policy.person_of(Identity(platform="token", id="ana"))
    assert ana is not None


def test_each_recipe_of_the_page_is_a_policy() -> None:
    """Read with the people that it names; the second approver is asked for at high risk alone."""
    found = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    people = PEOPLE + '[[people]]\nname = "cleo"\n'
    recipes = [read_policy(text if "[[people]]" in text else people + text) for text in found]
    (route,) = (one for recipe in recipes for one in recipe.routes if one.at(HIGH).quorum == 2)
    assert (route.at(HIGH).approvers, route.at(RiskLevel.MEDIUM).quorum) == (("ana", "ben"), 1)
    assert [one.step_up(HIGH) for one in recipes[2].routes] == [("number", "person")]
    assert [rule.effect.value for rule in recipes[3].rules] == ["allow", "deny", "ask"]


def test_risk_is_the_highest_rule_that_fits() -> None:
    """Reasons stand beside it; an agent's claim only raises it."""
    policy = example()
    low = request(tool="read_file")
    assert policy.risk_of(low, low.arguments).level is RiskLevel.LOW
    high = request(tool="read_file", arguments={"path": "/etc/PRODUCTION.cfg"})
    risk = policy.risk_of(high, high.arguments)
    assert (risk.level, risk.reasons) == (RiskLevel.HIGH, ("touches production",))
    assert policy.risk_of(request(), {}).level is RiskLevel.MEDIUM


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("x = ", "TOML"),
        ("day = 2026-01-01", "TOML"),
        ("[[people]]\nname = 'a'\nnickname = 'b'", "nickname"),
        ("[[routes]]\nquorum = 'two'", "quorum"),
        (PEOPLE + '[[people]]\nname = "ana"\n', "twice"),
        (PEOPLE + '[[routes]]\napprovers = ["anna"]', "neither a person"),
        (PEOPLE + '[[routes]]\napprovers = ["ana"]\nquorum = 2', "only 1 may"),
        (PEOPLE + '[[routes]]\napprovers = ["ana"]\nquorum = 0', "at least 1"),
        (PEOPLE + "[[routes]]\ntargets = []", "nobody would see"),
        (PEOPLE + '[[routes]]\ntargets = ["slack:"]', "adapter:channel"),
        (PEOPLE + '[[routes]]\nnotify = ["origin"]', "may only be in `targets`"),
        (
            PEOPLE + '[[routes]]\n[[routes.escalations]]\nafter = 9\ntargets = ["origin"]',
            "may only be in `targets`",
        ),
        (PEOPLE + '[[routes]]\norigins = ["slack:T1/C1"]', "name the agents"),
        *(
            (PEOPLE + f'[[routes]]\nagents = ["a"]\norigins = ["{place}"]', "is not written as")
            for place in (
                *("", "slack:", "slack:/", "slack:T1", "T1/C1", "*", "slack:*/", "slack:T1/C1/"),
                *("slack:T1/C1/1.2", "slack:shared/T1/C1", "discord:@1", "slack:T1/C1 "),
            )
        ),
        (PEOPLE + "[[routes]]\nremind_after = [60, 30]", "order"),
        (PEOPLE + '[[people]]\nname = "c"\nidentities = ["x"]', "platform:id"),
        (
            '[[people]]\nname="a"\nidentities=["s:1"]\n[[people]]\nname="b"\nidentities=["s:1"]',
            "twice",
        ),
    ],
)
def test_a_mistake_refuses_the_file_with_a_sentence(text: str, word: str) -> None:
    """Nothing of a file with a mistake is taken."""
    with pytest.raises(BadPolicy, match=re.escape(word)):
        read_policy(text)


def test_conversations_are_named_one_by_one_or_by_workspace() -> None:
    """No entry reaches further than it says."""
    text = '[[routes]]\nagents = ["a"]\ntargets = ["origin", "web"]\n'
    route = read_policy(f'{text}origins = ["slack:T1/C1", "discord:7/"]').routes[0]
    places = (
        "slack:T1/C1",
        "discord:7/8",
        "slack:T1/C12",
        "slack:T1/C",
        "discord:77/8",
        "slack:T1/",
    )
    assert [route.allows_origin(one) for one in places] == [True, True, False, False, False, False]
    assert route.places(0) == ("web",)


def test_a_group_may_fill_a_quorum() -> None:
    """How many belong to a platform's group is not known here."""
    text = PEOPLE + '[[routes]]\napprovers = ["slack:T1/S1"]\nquorum = 3'
    assert read_policy(text).routes[0].quorum == 3


def test_differences_say_what_changes() -> None:
    """Additions, changes, removals and the order of routes are told apart."""
    before = read_policy(PEOPLE + '[[routes]]\nname = "a"\n[[routes]]\nname = "b"')
    after = read_policy('[[people]]\nname = "ana"\nadmin = true\n[[routes]]\nname = "b"')
    assert differences(before, after)[1:] == ["- person ben", "- route a"]
    swapped = read_policy(PEOPLE + '[[routes]]\nname = "b"\n[[routes]]\nname = "a"')
    assert differences(before, swapped) == ["~ order of the routes: b, a"]
    assert differences(before, before) == []


def test_differences_are_said_member_by_member() -> None:
    """A line for what changed, in words; nothing of what stays as it is."""
    before = read_policy(PEOPLE + '[[routes]]\napprovers = ["ana", "ben"]\ntimeout = 60')
    routes = '[[routes]]\napprovers = ["ana"]\ntimeout = 60\nquorum = 1\n'
    new = '[[routes]]\nname = "new"\ntools = ["shell", "git *"]\nmode = "auto-deny"\n'
    assert differences(before, read_policy(PEOPLE + routes + new)) == [
        "~ route default: approvers: ana, ben -> ana",
        "+ route new: tools shell, git *; mode auto-deny",
    ]


def _harmless(policy: PolicyDocument, agent: str, tool: str) -> bool:
    """Whether a call of this agent's is harmless by the policy."""
    return policy.declare(record(request=request(agent=agent, tool=tool))).harmless


def test_a_tool_is_declared_by_its_whole_name() -> None:
    """For one agent or all; a name with a star, or one that stands twice, refuses the file."""
    row = '[[tools]]\nname = "todo_write"\nharmless = true\n'
    document = read_policy(f'{row}agents = ["bot*"]\n')
    assert _harmless(document, "bot1", "todo_write")
    assert not _harmless(document, "ann", "todo_write")
    assert not _harmless(document, "bot1", "todo_write2")
    assert not _harmless(read_policy(""), "bot1", "todo_write")
    assert not _harmless(read_policy(row.replace("true", "false")), "b", "todo_write")
    assert differences(read_policy(""), document) == [
        "+ tool todo_write: harmless true; agents bot*"
    ]
    for broken, why in ((row.replace("todo_write", "todo_*"), "whole name"), (row + row, "twice")):
        with pytest.raises(BadPolicy, match=why):
            read_policy(broken)
