"""Discord asks for the number that is shown where the agent waits."""

from __future__ import annotations

import json

from gateway.domain.records import StoredRequest
from gateway.domain.risk import LevelRules, RiskRule, RulesByRisk, StepUp
from gateway.models import RiskLevel, Status
from tests.approvals.test_step_up import other_than
from tests.discord.stage import Stage, private_text
from tests.discord.town import Json

RISKY = RiskRule(name="all", level=RiskLevel.HIGH, reason="everything is dangerous here")
BY_NUMBER = RulesByRisk(high=LevelRules(step_up=(StepUp.NUMBER,)))


async def asked(stage: Stage) -> tuple[StoredRequest, Json, str]:
    """Return a dangerous request, its card, and its number."""
    await stage.policy(stage.route(risk=BY_NUMBER), risks=(RISKY,))
    record, card = await stage.asked()
    return record, card, await stage.gateway.backend.store.number_of(record.id) or ""


async def test_the_number_is_typed_in_the_modal_behind_the_full_view(stage: Stage) -> None:
    """A wrong one is told in private; the right one approves, and the card says so."""
    ann = stage.server.ann
    record, card, number = await asked(stage)
    await stage.shows(card, "Approving requires the number")
    view = await stage.click(ann, card, "Review…")
    opened = await stage.click(ann, view.private[0], "Approve…")
    assert "3 tries are left: the third wrong number denies the request." in json.dumps(
        opened.answer_data
    )
    done = await ann.submit(opened, number=other_than(number))
    assert "2 tries are left" in private_text(done)
    assert not (await stage.core.requests.get(record.id)).final
    opened = await stage.click(ann, view.private[0], "Approve…")
    assert "2 tries are left" in json.dumps(opened.answer_data)
    await ann.submit(opened, number=number)
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "confirmed by number")


async def test_another_answer_that_takes_it_leads_to_the_inbox(stage: Stage) -> None:
    """Words instead of running it decide nothing there."""
    ann = stage.server.ann
    record, card, _ = await asked(stage)
    view = await stage.click(ann, card, "Respond instead…")
    opened = await stage.click(ann, view.private[0], "Respond instead: I have read it")
    done = await ann.submit(opened, result="done")
    assert "Extra verification needed" in private_text(done)
    assert (await stage.core.requests.get(record.id)).status is Status.PENDING
