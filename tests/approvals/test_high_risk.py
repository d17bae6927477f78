"""High risk is for people in every mode, and what the guardrails find stands on the record."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.api.messages import masked_view, view
from gateway.approvals.duplicates_and_overflow import Overflow
from gateway.cards.card import card_of
from gateway.delivery.overflow_cards import build_overflow_card
from gateway.domain.policy_document import Guardrails, Mode, Route
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.risk import RiskRule
from gateway.models import Action, DecidedBy, DeciderKind, Kind, Risk, RiskLevel, Status
from gateway.policy.chain import ALLOW, MODIFY, find_decisive
from gateway.ports import Decider, Verdict
from gateway.wire.codec import plain
from tests.danger import HOSTILE, PATH, QUOTED, REMOVES
from tests.world import World, assembled, click, request

HIGH = Risk(level=RiskLevel.HIGH, reasons=("moves money",))
PROD = RiskRule(name="prod", level=RiskLevel.HIGH, reason="touches prod", contains=("prod",))
REMOVES_FOLDERS = ("removes folders whole",)


async def in_force(
    world: World, mode: Mode = Mode.AUTO_APPROVE, *, quorum: int = 1, **members: Any
) -> None:
    """Put a mode, and more, in force for all requests."""
    routes = (Route(approvers=("ann", "bob"), mode=mode, quorum=quorum),)
    await world.put(routes=routes, **members)


class Saying:
    """An operator's decider that allows, or changes the call first."""

    def __init__(self, effect: str, arguments: dict[str, Any] | None = None) -> None:
        self.name, self.priority = effect, 600
        self._verdict = Verdict(
            effect=effect,
            by=DecidedBy(kind=DeciderKind.RULE, name=effect),
            arguments=arguments,
        )

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Say it; what was changed once is not changed again."""
        changed = self._verdict.effect == MODIFY and record.edited is not None
        return None if changed else self._verdict


async def stored(world: World, record: StoredRequest) -> dict[str, str]:
    """Return a record as it lies in the store."""
    found: dict[str, str] = await world.store.redis.hgetall(world.store.keys.record(record.id))
    return found


# ---------------------------------------------------------------- high risk


@pytest.mark.parametrize("more", [{"risk": HIGH}, {"arguments": {"to": "prod"}}])
async def test_auto_approve_asks_people_about_high_risk(world: World, more: Any) -> None:
    """By the agent's own claim, and by an operator's risk rule; nothing else is held up."""
    await in_force(world, risks=(PROD,))
    assert (await world.submit()).status is Status.APPROVED
    record = await world.submit(**more)
    assert (record.status, record.risk.level) == (Status.PENDING, RiskLevel.HIGH)
    opinions = await world.approvals.explain(request(**more))
    assert find_decisive(opinions) is None
    (mode,) = [one for one in opinions if one.decider == "mode"]
    assert (mode.effect, "high-risk" in mode.message) == ("ask", True)
    done = await world.core.requests.decide(click(record, confirmed=True))
    assert done.status is Status.APPROVED


async def test_auto_deny_denies_high_risk_all_the_same(world: World) -> None:
    """Asking instead would let through what the route refuses."""
    await in_force(world, Mode.AUTO_DENY)
    assert (await world.submit(risk=HIGH)).status is Status.DENIED


@pytest.mark.parametrize("decider", [Saying(ALLOW), Saying(MODIFY, {"to": "prod"})])
async def test_no_decider_of_an_operator_approves_high_risk(
    server_url: str, namespace: str, decider: Decider
) -> None:
    """Neither one that allows it, nor one that makes it high risk by what it changes."""
    asked = {"to": "prod"} if decider.name == ALLOW else {"to": "test"}
    async with assembled(server_url, namespace, (decider,)) as world:
        await in_force(world, risks=(PROD,))
        record = await world.submit(arguments=asked)
    assert (record.status, record.risk.level) == (Status.PENDING, RiskLevel.HIGH)
    assert record.arguments == {"to": "prod"}


async def test_what_is_remembered_approves_no_high_risk(world: World) -> None:
    """The very same call, high risk by a rule that was put in force since."""
    await in_force(world, Mode.ASK)
    first = await world.submit(arguments={"to": "prod"})
    await world.core.requests.decide(click(first, remember=Remember(everywhere=True)))
    assert (await world.submit(arguments={"to": "prod"})).status is Status.APPROVED
    await in_force(world, Mode.AUTO_APPROVE, risks=(PROD,))
    assert (await world.submit(arguments={"to": "prod"})).status is Status.PENDING


# ---------------------------------------------------------------- findings


@pytest.mark.parametrize(
    ("mode", "found", "level"),
    [
        (Guardrails.SHADOW, REMOVES_FOLDERS, RiskLevel.MEDIUM),
        (Guardrails.ASK, REMOVES_FOLDERS, RiskLevel.HIGH),
        (Guardrails.OFF, (), RiskLevel.MEDIUM),
    ],
)
async def test_findings_are_stored_and_told_to_approvers_alone(
    world: World, mode: Guardrails, found: tuple[str, ...], level: RiskLevel
) -> None:
    """None where guardrails are off, and no agent reads them. They raise the risk only where they
    are in force; what shows no sign is as it was."""
    await in_force(world, Mode.ASK, guardrails=mode)
    record = await world.core.requests.get((await world.submit(**REMOVES)).id)
    assert (record.findings, record.risk.level) == (found, level)
    assert record.alarms is (level is RiskLevel.HIGH)
    assert [one.text for one in card_of(record, lines=9, chars=99).findings] == [
        f'Guardrail: {one} (in "command")' for one in found
    ]
    assert masked_view(record).get("findings", []) == [f'{one} (in "command")' for one in found]
    assert not {"findings", "raised"} & plain(view(record, whole=False)).keys()
    assert ("raised" in masked_view(record)) is record.alarms
    assert "findings" not in plain(record.state_for(record.process))
    harmless = await world.core.requests.get((await world.submit()).id)
    assert (harmless.findings, harmless.raised) == ((), ())
    assert harmless.risk == Risk(level=RiskLevel.MEDIUM)


async def test_what_is_only_worth_a_look_is_high_risk_where_guardrails_deny(world: World) -> None:
    """It is for people there, and no less than where they only ask."""
    await in_force(world, guardrails=Guardrails.DENY)
    looks = {"command": "ls", "sudo": True}
    record = await world.submit(tool="shell", kind=Kind.COMMAND, arguments=looks)
    assert (record.status, record.risk.level, record.alarms) == (
        Status.PENDING,
        RiskLevel.HIGH,
        True,
    )


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [("rm -rf build", "ls", ()), ("ls", "rm -rf build", REMOVES_FOLDERS)],
)
async def test_findings_are_made_anew_by_an_edit(
    world: World, before: str, after: str, found: tuple[str, ...]
) -> None:
    """They are of what would run now, not of what was asked first."""
    await in_force(world, Mode.ASK, quorum=2)
    record = await world.submit(kind=Kind.COMMAND, arguments={"command": before})
    assert bool(record.findings) is not bool(found)
    await world.core.requests.decide(click(record, Action.EDIT, arguments={"command": after}))
    now = await world.core.requests.get(record.id)
    assert (now.status, now.findings) == (Status.PENDING, found)


async def test_findings_are_made_anew_by_a_change(server_url: str, namespace: str) -> None:
    """What a hook or a decider changes is looked through before people see it."""
    removes = Saying(MODIFY, REMOVES["arguments"])
    async with assembled(server_url, namespace, (removes,)) as world:
        record = await world.submit(kind=Kind.COMMAND)
        assert (await world.core.requests.get(record.id)).findings == REMOVES_FOLDERS


async def test_erasing_takes_the_findings_too(world: World) -> None:
    """Paths of the agent's stand in them."""
    await in_force(world, Mode.ASK)
    record = await world.submit(**HOSTILE)
    assert ".ssh" in (await stored(world, record))["findings"]
    await world.core.requests.decide(click(record, Action.DENY))
    await world.approvals.erase(record.id, by="ann")
    assert (await world.core.requests.get(record.id)).findings == ()
    assert ".ssh" not in str(await stored(world, record))


async def test_a_hostile_path_stays_within_its_quotation(world: World) -> None:
    """On the card, in the confirmation, on an overflow card: one line, quoted, secrets masked."""
    await in_force(world, Mode.ASK)
    record = await world.submit(**HOSTILE, risk=HIGH)
    card = card_of(record, lines=99, chars=999)
    assert [one.text for one in card.findings] == [QUOTED]
    # An edit is asked about below what was changed, not below the head of before.
    others = (one for one in card.controls if one.action is not Action.EDIT)
    confirms = {one.confirm for one in others if one.confirm}
    (said,) = confirms
    assert said is not None and said.startswith('Reads "/a/.ssh/x')
    assert said.endswith(f". This is high risk. Have you read all of it? ⚠️ {QUOTED}.")
    overflow = Overflow(agent="bot", revision=1, records=(record,))
    (listed,) = build_overflow_card(overflow, "", "").blocks
    assert listed.text.text.startswith(f'⚠️ {QUOTED} · "read_file"')
    secret = "ghp_" + "a1B2c3D4e5" * 3
    masked = await world.submit(tool="read_file", arguments={"path": f"/a/.ssh/{secret}"})
    (finding,) = card_of(masked, lines=9, chars=99).findings
    assert secret not in finding.text
    assert secret not in str(masked_view(masked))
    assert len(PATH) < 80
