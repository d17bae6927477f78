"""Rules that operators write, guardrails and shadows, through the gateway."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.policy_document import Guardrails, Mode, PolicyRule, Route, RuleEffect
from gateway.domain.records import Remember, StoredRequest
from gateway.models import Context, Kind, Risk, RiskLevel, Status
from gateway.policy.grants.grant import MatchResult
from gateway.policy.policy_file_reader import BadPolicy, read_policy
from gateway.policy.rules import fits, mistakes
from gateway.policy.verdict import Verdict
from tests.grants.making import asked, command
from tests.world import World, assembled, click

ALLOW_GIT = PolicyRule(name="git", effect=RuleEffect.ALLOW, commands=("git log", "make test"))
DENY_RM = PolicyRule(name="no rm", effect=RuleEffect.DENY, commands=("rm -rf",))
CWD = Context(cwd="/ws")


async def in_force(world: World, *rules: PolicyRule, **more: Any) -> None:
    """Put rules in force beside the world's route."""
    await world.put(rules=rules, **more)


async def shell(world: World, text: str, **more: Any) -> StoredRequest:
    """Submit a command."""
    arguments = {"command": text}
    return await world.submit(kind=Kind.COMMAND, arguments=arguments, context=CWD, **more)


async def test_an_allow_rule_approves_what_it_reads_and_nothing_else(world: World) -> None:
    """The decision cites the rule; what is not read completely asks."""
    await in_force(world, ALLOW_GIT)
    done = await shell(world, "git log --stat")
    assert done.status is Status.APPROVED
    assert done.decision is not None
    assert done.decision.sentence() == 'approved by the rule "git"; no person was asked'
    for text in ("git log; rm x", "git log --output=x", "git status", "make deploy", "cat /etc/x"):
        assert (await shell(world, text)).status is Status.PENDING, text


async def test_read_only_opens_nothing_by_itself(world: World) -> None:
    """A rule may narrow the tools that it names to those whose author says that they only read."""
    reads = PolicyRule(name="reads", effect=RuleEffect.ALLOW, tools=("get_*",), read_only=True)
    for rules, tool, read_only, status in (
        ((), "get_weather", True, Status.PENDING),
        ((reads,), "get_weather", True, Status.APPROVED),
        ((reads,), "get_weather", False, Status.PENDING),
        ((reads,), "set_weather", True, Status.PENDING),
    ):
        await in_force(world, *rules)
        done = await world.submit(tool=tool, arguments={"city": "Oslo"}, read_only=read_only)
        assert done.status is status, (rules, tool, read_only)


@pytest.mark.parametrize("effect", [RuleEffect.DENY, RuleEffect.ASK])
def test_no_denial_goes_by_the_word_of_the_agent(effect: RuleEffect) -> None:
    """An agent would leave the word out; and no allow goes by it alone."""
    (told,) = mistakes(PolicyRule(name="r", effect=effect, tools=("*",), read_only=True))
    assert "read_only" in told
    assert [*mistakes(PolicyRule(name="r", effect=RuleEffect.ALLOW, read_only=True))]


@pytest.mark.parametrize(
    "where", [{"workdir": "/srv/other"}, {"cwd": "/"}, {"workdir": ".."}], ids=str
)
async def test_an_allow_rule_approves_what_runs_where_the_context_says(
    world: World, where: dict[str, str]
) -> None:
    """Elsewhere the same words do something else; a rule may name the folders, though."""
    arguments = {"command": "git log", **where}
    await in_force(world, ALLOW_GIT)
    done = await world.submit(kind=Kind.COMMAND, arguments=arguments, context=CWD)
    assert done.status is Status.PENDING
    await in_force(world, replace(ALLOW_GIT, folders=("/srv/other",)))
    done = await world.submit(kind=Kind.COMMAND, arguments=arguments, context=CWD)
    assert (done.status is Status.APPROVED) is ("/srv/other" in where.values())


async def test_tools_that_only_read_need_nobody(world: World) -> None:
    """Named in one rule they go on and cite it; what writes asks, and so does what is high risk."""
    reads = PolicyRule(name="reads", effect=RuleEffect.ALLOW, tools=("get_*", "list_*"))
    await in_force(world, reads)
    for tool in ("get_weather", "list_cities"):
        done = await world.submit(tool=tool, arguments={"city": "Oslo"})
        assert done.status is Status.APPROVED, tool
        assert done.decision is not None
        assert done.decision.decided_by.name == "reads"
    for tool, level in (("set_weather", RiskLevel.LOW), ("get_weather", RiskLevel.HIGH)):
        asked = await world.submit(tool=tool, arguments={"city": "Oslo"}, risk=Risk(level=level))
        assert asked.status is Status.PENDING, tool


async def test_a_deny_rule_outranks_grants_and_modes(world: World) -> None:
    """What a person remembered does not pass a rule, nor does auto-approve."""
    first = await shell(world, "rm -rf build")
    await world.core.requests.decide(click(first, remember=Remember(everywhere=True)))
    route = Route(approvers=("ann",), mode=Mode.AUTO_APPROVE)
    await in_force(world, DENY_RM, routes=(route,))
    assert (await shell(world, "rm -rf build")).status is Status.DENIED
    assert (await shell(world, "rm -r build")).status is Status.APPROVED
    assert (await shell(world, "ls && rm -rf build")).status is Status.DENIED


async def test_a_mandatory_human_beats_every_allow(world: World) -> None:
    """Grant, allow rule and mode are there, and people are asked; denials still count."""
    first = await shell(world, "git log")
    await world.core.requests.decide(click(first, remember=Remember(everywhere=True)))
    ask = PolicyRule(name="always ask", effect=RuleEffect.ASK, tools=("sh*",))
    await in_force(world, ask, ALLOW_GIT)
    assert (await shell(world, "git log")).status is Status.PENDING
    deny = Route(approvers=("ann",), mode=Mode.AUTO_DENY)
    await in_force(world, ask, routes=(deny,))
    assert (await shell(world, "git log")).status is Status.DENIED


async def test_a_rule_in_shadow_decides_nothing_and_is_recorded(world: World) -> None:
    """The audit says what it would have done, so that an operator dares to put it in force."""
    await in_force(world, replace(DENY_RM, shadow=True), replace(ALLOW_GIT, shadow=True))
    for text, effect in (("rm -rf x", "deny"), ("git log", "allow")):
        record = await shell(world, text)
        assert record.status is Status.PENDING
        (event,) = await world.events(record.id)
        named = [(one["rule"], one["effect"]) for one in event.data["shadow"]]
        assert ({"deny": "no rm", "allow": "git"}[effect], effect) in named


@pytest.mark.parametrize(
    ("mode", "status", "shadows"),
    [
        (Guardrails.SHADOW, Status.PENDING, True),
        (Guardrails.OFF, Status.PENDING, False),
        (Guardrails.ASK, Status.PENDING, False),
        (Guardrails.DENY, Status.DENIED, False),
    ],
)
async def test_guardrails_do_what_the_policy_says(
    world: World, mode: Guardrails, status: Status, shadows: bool
) -> None:
    """In shadow they record, else they ask, deny, or are off; a harmless command is untouched."""
    await in_force(world, guardrails=mode)
    record = await shell(world, "git push --force origin main")
    assert record.status is status
    event = (await world.events(record.id))[0]
    assert ("shadow" in event.data) is shadows
    route = Route(approvers=("ann",), mode=Mode.AUTO_APPROVE)
    await in_force(world, guardrails=mode, routes=(route,))
    assert (await shell(world, "git status")).status is Status.APPROVED
    forced = {Guardrails.ASK: Status.PENDING, Guardrails.DENY: Status.DENIED}
    again = await shell(world, "git push --force origin main")
    assert again.status is forced.get(mode, Status.APPROVED)


async def test_explain_says_what_guardrails_found_in_shadow(world: World) -> None:
    """They decide nothing, and the operator sees what they would have done."""
    await in_force(world, guardrails=Guardrails.SHADOW)
    for text, said in (
        ("rm -rf x", 'report-only: would deny: removes folders whole (in "command")'),
        ("ls", ""),
    ):
        opinions = await world.approvals.explain(command(text).request)
        (found,) = [one for one in opinions if one.decider == "guardrails"]
        assert (found.effect, found.message) == ("no opinion", said)


async def test_what_is_only_worth_a_look_is_asked_where_guardrails_deny(world: World) -> None:
    """Writing elsewhere destroys nothing: people decide, and no mode approves it."""
    route = Route(approvers=("ann",), mode=Mode.AUTO_APPROVE)
    await in_force(world, guardrails=Guardrails.DENY, routes=(route,))
    elsewhere = {"path": "/srv/other/a", "content": "x"}
    record = await world.submit(tool="write_file", arguments=elsewhere, context=CWD)
    assert record.status is Status.PENDING


class Hanging:
    """A decider that never answers."""

    name, priority, seconds = "hanging", 960, 0.01

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Wait for ever."""
        await asyncio.Event().wait()
        return None


async def test_a_decider_that_hangs_has_failed(server_url: str, namespace: str) -> None:
    """The request is stored and people are asked, though the route would approve."""
    async with assembled(server_url, namespace, (Hanging(),)) as world:
        await in_force(world, routes=(Route(approvers=("ann",), mode=Mode.AUTO_APPROVE),))
        assert (await world.submit()).status is Status.PENDING
        opinions = {one.decider: one for one in await world.approvals.explain(asked().request)}
        assert opinions["hanging"].effect == "failed"


def test_an_allow_rule_must_be_certain() -> None:
    """High risk, another environment, hidden text, secrets and shells are never allowed by one."""
    read = PolicyRule(name="read", effect=RuleEffect.ALLOW, tools=("read*",), folders=("/ws",))
    weather = PolicyRule(name="w", effect=RuleEffect.ALLOW, tools=("weather", "shell"))

    def covered(rule: PolicyRule, record: StoredRequest) -> bool:
        return fits(rule, record) is MatchResult.YES

    assert covered(read, asked("read_file", arguments={"path": "/ws/a"}))
    for path in ("/ws/.env", "/etc/passwd", "/ws/../x", "/ws/a\u202e"):
        assert not covered(read, asked("read_file", arguments={"path": path})), path
    assert covered(weather, asked("weather", arguments={"city": "Oslo"}))
    assert not covered(weather, asked("shell", arguments={"city": "Oslo"}))
    high = Risk(level=RiskLevel.HIGH)
    assert not covered(weather, asked("weather", arguments={}, risk=high))
    assert not covered(ALLOW_GIT, command("git log", context=Context(cwd="/ws", env={"A": "1"})))
    assert not covered(ALLOW_GIT, command("", arguments={"command": "git log", "shell": "sh"}))
    assert not covered(replace(weather, contains=("x",)), asked("weather", arguments={"x": 1}))


def test_a_deny_or_ask_rule_misses_nothing() -> None:
    """Unclear spelling is unsure; what is named by text or folder is found."""
    for text in ("rm -rf x", "rm -fr x", "/bin/rm -r -f x", "RM -rf x"):
        assert fits(DENY_RM, command(text)) is MatchResult.YES, text
    for text in ("rm$IFS-rf x", "sh -c 'rm -rf x'", "rm --recursive --force x", "rm '-rf' x"):
        assert fits(DENY_RM, command(text)) is MatchResult.UNSURE, text
    for text in ("ls", "git log", "rm x"):
        assert fits(DENY_RM, command(text)) is MatchResult.NO, text
    etc = PolicyRule(name="etc", effect=RuleEffect.DENY, folders=("/etc",))
    assert fits(etc, asked("write", arguments={"path": "/ETC/hosts"})) is MatchResult.YES
    assert fits(etc, asked("write", arguments={"path": "/ws/../etc/x"})) is MatchResult.UNSURE
    assert fits(etc, asked("write", arguments={"path": "/ws/x"})) is MatchResult.NO
    prod = PolicyRule(name="prod", effect=RuleEffect.DENY, contains=("PROD",), tools=("deploy*",))
    assert fits(prod, asked("deploy_app", arguments={"to": "prod-eu"})) is MatchResult.YES
    assert fits(prod, asked("deploy_app", arguments={"to": "test"})) is MatchResult.NO
    assert fits(prod, asked("look", arguments={"to": "prod-eu"})) is MatchResult.NO


@pytest.mark.parametrize(
    "text",
    [
        'effect = "allow"',
        'effect = "allow"\ntools = ["x"]\ncontains = ["y"]',
        'effect = "allow"\ncommands = ["rm -rf"]',
        'effect = "allow"\ncommands = ["git log --output=x"]',
        'effect = "allow"\ncommands = ["bash"]',
        'effect = "deny"\ncommands = ["rm; ls"]',
        'effect = "deny"\nfolders = ["etc"]',
        'effect = "maybe"',
        'effect = "deny"\nunknown = 1',
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_with_the_file(text: str) -> None:
    """A bad file changes nothing, and names the rule."""
    with pytest.raises(BadPolicy):
        read_policy(f'[[rules]]\nname = "r"\n{text}\n')


def test_a_good_file_has_rules_and_guardrails() -> None:
    """Both stand in the document."""
    policy = read_policy(
        'guardrails = "ask"\n[[rules]]\nname = "r"\neffect = "allow"\ncommands = ["git log"]\n'
    )
    assert policy.guardrails is Guardrails.ASK
    assert not list(mistakes(policy.rules[0]))
