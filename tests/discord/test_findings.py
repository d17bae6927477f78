"""What the guardrails find, wherever somebody may decide in Discord: shown, and inert."""

from __future__ import annotations

import re
from dataclasses import replace

from gateway.domain.policy_document import Guardrails
from gateway.models import Risk, RiskLevel
from tests.danger import ALARM, FOUND, HOSTILE, QUOTED, RAISED, REMOVES, UNSEEN, WIDEST, watch
from tests.discord.messages import shown_text
from tests.discord.pictures import HOSTILE as HOSTILE_TEXT
from tests.discord.pictures import pending_with
from tests.discord.stage import Stage, private_text
from tests.discord.test_rendering import card, full, text_of

ESCAPED, ESCAPED_ALARM = (re.sub(r"([:()])", r"\\\1", one) for one in (FOUND, ALARM))
"""With backslashes, which Discord does not show."""
HIGH = Risk(level=RiskLevel.HIGH)


async def test_a_finding_is_on_the_card_and_in_the_full_view(stage: Stage) -> None:
    """Before and after the decision; a harmless request has none, and no warning sign."""
    _, shown = await stage.asked(**REMOVES)
    await stage.shows(shown, "⚠️ removes folders whole")
    view = await stage.click(stage.server.ann, shown, "Details")
    assert ESCAPED in private_text(view)
    await stage.click(stage.server.ann, shown, "Approve")
    await stage.shows(shown, "Approved")
    view = await stage.click(stage.server.ann, shown, "Details")
    assert ESCAPED in private_text(view)
    _, harmless = await stage.asked()
    assert "Guardrail" not in shown_text(harmless)
    assert "⚠️" not in shown_text(harmless)


async def test_a_finding_is_red_where_guardrails_are_in_force(stage: Stage) -> None:
    """On the card, in the full view, and where it is confirmed; the risk is high."""
    await watch(stage.core, stage.gateway.backend.store, Guardrails.ASK)
    _, shown = await stage.asked(**REMOVES)
    await stage.shows(shown, "🔴 removes folders whole", RAISED)
    assert "⚠️" not in shown_text(shown)
    assert ESCAPED_ALARM in private_text(await stage.click(stage.server.ann, shown, "Details"))
    assert ALARM in private_text(await stage.click(stage.server.ann, shown, "Review…")).replace(
        "\\", ""
    )
    _, harmless = await stage.asked()
    assert not [word for word in ("Guardrail", "🔴", RAISED) if word in shown_text(harmless)]


async def test_rules_in_shadow_are_seen_nowhere(stage: Stage) -> None:
    """Neither on the card nor in the full view; findings of the guardrails are."""
    await watch(stage.core, stage.gateway.backend.store, Guardrails.SHADOW)
    _, shown = await stage.asked(**REMOVES)
    await stage.shows(shown, "⚠️ removes folders whole")
    view = await stage.click(stage.server.ann, shown, "Details")
    assert ESCAPED in private_text(view)
    for text in (shown_text(shown), private_text(view)):
        assert UNSEEN not in text.replace("\\", "")


def test_the_longest_findings_keep_to_the_limits() -> None:
    """Eight of them, the longest that there are, on the fullest card and page."""
    many = (f"names {WIDEST}: it may hold secrets",) * 8
    record = replace(pending_with(command=HOSTILE_TEXT * 40), findings=many)
    for shown in (card(record), full(record), full(record, page=1)):
        assert "Guardrail" in text_of(shown)


async def test_a_hostile_path_is_inert(stage: Stage) -> None:
    """On the card and where high risk is confirmed: one line, each sign of markup escaped."""
    _, shown = await stage.asked(**HOSTILE, risk=HIGH)
    view = await stage.click(stage.server.ann, shown, "Review…")
    for text in (shown_text(shown), private_text(view)):
        (line,) = [one for one in text.splitlines() if one.startswith("⚠️") and ".ssh" in one]
        short = QUOTED.removeprefix("Guardrail: ")
        assert re.sub(r"\\(.)", r"\1", line) in (f"⚠️ {QUOTED}", f"⚠️ {short}")
        bare = re.sub(r"\\.", "", line)
        assert not set(bare) & set("<>@[]()*`_~|#")
