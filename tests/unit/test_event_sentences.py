"""What happened as one sentence: every kind of event has one, and no text in it passes for ours."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.domain.event_sentences import _SENTENCES
from gateway.domain.records import AuditEvent
from gateway.models import ENDINGS, Reason, Status
from gateway.ports import say_event
from tests.frame.tree import ROOT

PERSON = {"kind": "person", "name": "ben"}
NOTED = re.compile(r"""(?:note|_note)\(\s*(?:event=)?"([a-z_]+)"|\bevent\([^']*'([a-z_]+)'""")


def said(kind: str, about: str = "", asked: int | None = None, **data: Any) -> str:
    """Return the sentence of an event about a request of coder's."""
    event = AuditEvent(
        id="1-0", type=kind, at=200_000, agent="coder", request_id="a" * 32, data=data
    )
    return say_event(event, about, asked)


@pytest.mark.parametrize(
    ("kind", "data", "sentence"),
    [
        (
            "approved",
            {"reason": "person", "action": "approve", "decided_by": PERSON},
            'ben approved the request of agent "coder", 3 min after it asked: Runs "git push"',
        ),
        (
            "approved",
            {"reason": "person", "action": "edit", "decided_by": PERSON},
            'ben changed and approved the request of agent "coder", 3 min after it asked: '
            'Runs "git push"',
        ),
        (
            "denied",
            {"reason": "person", "decided_by": PERSON, "message": "not now"},
            'ben denied the request of agent "coder", 3 min after it asked ("not now"): '
            'Runs "git push"',
        ),
        (
            "denied",
            {"reason": "feedback", "decided_by": PERSON},
            'ben asked for another plan instead of the request of agent "coder", 3 min after it '
            'asked: Runs "git push"',
        ),
        (
            "denied",
            {"reason": "rule", "decided_by": {"kind": "rule", "name": "no-push"}},
            'the request of agent "coder" was denied by the rule "no-push"; no person was asked: '
            'Runs "git push"',
        ),
        (
            "expired",
            {"reason": "timeout"},
            'the request of agent "coder" expired because nobody answered in time: '
            'Runs "git push"',
        ),
        (
            "voted",
            {"votes": [{"person": "ana"}, {"person": "ben"}]},
            'ben approved the request of agent "coder"; it needs more people: Runs "git push"',
        ),
        ("claimed", {"person": "ben"}, 'ben is looking at the request of agent "coder": '
         'Runs "git push"'),
        ("of_tomorrow", {"x": 1}, 'of tomorrow by agent "coder": Runs "git push"'),
    ],
)  # fmt: skip
def test_what_happened_is_one_sentence(kind: str, data: dict[str, Any], sentence: str) -> None:
    """Who did what, whose request it was, and where a person decided, how long after it asked."""
    asked = 200_000 - 181_000
    assert said(kind, 'Runs "git push"', asked, **data) == sentence


def test_every_ending_reads_as_a_sentence() -> None:
    """Whatever the reason, and also one that this version does not know."""
    for reason in [*Reason, "of tomorrow"]:
        for kind in ENDINGS:
            text = said(kind, reason=reason, decided_by=PERSON)
            assert text.count(": ") == 0 and "{" not in text, text
            assert 'agent "coder"' in text


def test_every_event_that_is_written_has_a_sentence() -> None:
    """As far as the code names it where it writes it."""
    written = set()
    for path in [*(ROOT / "gateway").rglob("*.py"), *(ROOT / "gateway").rglob("*.lua")]:
        for found in NOTED.findall(path.read_text(encoding="utf-8")):
            written |= {one for one in found if one}
    assert len(written) > 25
    assert written - set(_SENTENCES) - set(Status) - {"redis"} == set()


def test_no_text_of_others_passes_for_ours() -> None:
    """It is quoted where it is more than a word, a template in it stays text, and a secret is
    masked by its name or its shape."""
    forged = "x\nben approved {agent} the request"
    for kind in ("refused", "grant_ended", "copy_gone"):
        text = said(kind, why=forged, target="slack:C1")
        assert '"x\\nben approved {agent} the request"' in text
        assert "\n" not in text
    token = "ghp_" + "a1B2" * 9
    assert token not in said("denied", reason="person", decided_by=PERSON, message=f"use {token}")
