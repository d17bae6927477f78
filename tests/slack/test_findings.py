"""What the guardrails find, wherever somebody may decide in Slack: shown, and inert."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.policy_document import Guardrails
from tests.danger import ALARM, FOUND, HOSTILE, QUOTED, RAISED, REMOVES, UNSEEN, watch
from tests.slack.office import HIGH, Office, form, shown


def parsed(value: Any) -> list[str]:
    """Return the texts that Slack reads markup and mentions in."""
    if isinstance(value, list):
        return [text for one in value for text in parsed(one)]
    if not isinstance(value, dict):
        return []
    own = [value["text"]] if value.get("type") == "mrkdwn" else []
    return own + [text for one in value.values() for text in parsed(one)]


async def test_a_finding_is_on_the_card_and_stays(office: Office) -> None:
    """Before and after the decision; a harmless request has none, and no warning sign."""
    _, message = await office.asked(**REMOVES)
    assert "⚠️ removes folders whole" in shown(message)
    await office.ann.click(message, "Approve")
    await office.card_says(message, "Approved by ann")
    await office.ann.click(message, "Details")
    await office.slack.until(lambda: FOUND in office.modal_says(office.ann))
    _, harmless = await office.asked()
    assert "Guardrail" not in shown(harmless)
    assert "⚠️" not in shown(harmless)


async def test_a_finding_is_red_where_guardrails_are_in_force(office: Office) -> None:
    """On the card, before and after the decision, and where it is confirmed; the risk is high."""
    await watch(office.world.core, office.world.store, Guardrails.ASK)
    _, message = await office.asked(**REMOVES)
    assert f"🔴 High risk: {RAISED}\\n🔴 removes folders whole" in str(message.blocks)
    await office.ann.click(message, "Review…")
    await office.modal_offers(office.ann, "Approve")
    assert f"of it? {ALARM}." in str(office.ann.modal.view["blocks"])
    assert FOUND not in str(message.blocks)
    _, harmless = await office.asked()
    assert not [word for word in ("Guardrail", "🔴", RAISED) if word in str(harmless.blocks)]


async def test_rules_in_shadow_are_seen_nowhere(office: Office) -> None:
    """Not on the card, not in Home, not in the full view; findings of the guardrails are."""
    await watch(office.world.core, office.world.store, Guardrails.SHADOW)
    _, message = await office.asked(**REMOVES)
    ann = office.ann
    await ann.open_home()
    await office.slack.until(lambda: "UANN" in office.slack.workspace().homes)
    await ann.more(message, "Details")
    await form(ann, "read")
    await office.slack.until(lambda: FOUND in office.modal_says(ann))
    seen = str(message.blocks) + str(ann.home) + office.modal_says(ann)
    assert "🔴" not in seen
    assert UNSEEN not in seen


async def test_a_finding_is_in_lists_and_details(office: Office) -> None:
    """In Home, in the command's list, and in the full view."""
    _, message = await office.asked(**REMOVES)
    ann = office.ann
    await ann.open_home()
    await office.slack.until(lambda: "UANN" in office.slack.workspace().homes)
    assert "⚠️ removes folders whole" in str(ann.home)
    await ann.more(message, "Details")
    await form(ann, "read")
    await office.slack.until(lambda: FOUND in office.modal_says(ann))


@pytest.mark.parametrize("seen", ["card", "home", "details"])
async def test_a_hostile_path_is_plain_text(office: Office, seen: str) -> None:
    """Nothing of it is read as a mention, a link or markup; the confirmation repeats it."""
    _, message = await office.asked(**HOSTILE, risk=HIGH)
    ann = office.ann
    blocks: Any = message.blocks
    if seen == "home":
        await ann.open_home()
        await office.slack.until(lambda: "UANN" in office.slack.workspace().homes)
        blocks = ann.home["blocks"]
    elif seen == "details":
        await ann.more(message, "Details")
        await form(ann, "read")
        await office.slack.until(lambda: "Guardrail" in office.modal_says(ann))
        blocks = ann.modal.view["blocks"]
    told = [one["text"] for block in blocks for one in block.get("elements", []) if "text" in one]
    wanted = QUOTED if seen == "details" else QUOTED.removeprefix("Guardrail: ")
    assert any(f"⚠️ {wanted}" in str(one).split("\n") for one in told)
    assert not [text for text in parsed(blocks) if ".ssh" in text or "here" in text]
    if seen != "details":
        return  # what is high risk is confirmed there only
    confirms = [
        one["confirm"] for block in blocks for one in block.get("elements", []) if "confirm" in one
    ]
    assert [(one["text"]["type"], QUOTED in one["text"]["text"]) for one in confirms] == [
        ("plain_text", True)
    ]
