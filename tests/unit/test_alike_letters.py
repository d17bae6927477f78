"""A word that is sought is found however it is written, if it reads the same."""

from __future__ import annotations

import json
import time

import pytest

from gateway.domain.risk import RiskRule, assess_by_rules
from gateway.domain.safe_text import fold
from gateway.models import RiskLevel
from tests.world import request

RULE = RiskRule(name="p", level=RiskLevel.HIGH, reason="touches prod", contains=("production",))
WRITTEN = [
    "PRODUCTION",
    "pr\u043eduction",
    "\u0440r\u043educt\u0456\u043en",
    "\u03a1RODUCTI\u039fN",
    "prod\u200buction",
    "prod\u00aduc\u2060tion",
    "p\u0336roduction",
    "prod\x00uction",
    "\uff50\uff52\uff4f\uff44uction",
    "\U0001d429\U0001d42b\U0001d428\U0001d41duction",
    "prod\u3164uction",
    "\u202eproduction",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_risk_rule_finds_its_word_however_it_is_written(text: str) -> None:
    """In an argument, in the payload, and as the escapes of JSON within JSON."""
    for arguments in ({"to": text}, {"to": json.dumps({"x": text})}):
        asks = request(tool="deploy", arguments=arguments)
        assert assess_by_rules((RULE,), asks, arguments).level is RiskLevel.HIGH
    asks = request(tool="deploy", arguments={}, payload={"to": text})
    assert assess_by_rules((RULE,), asks, {}).level is RiskLevel.HIGH


@pytest.mark.parametrize("word", ["pr\u043eduction", "Pro\u200bduction"])
def test_the_rule_may_be_written_so_itself(word: str) -> None:
    """What an operator pasted is folded the same way."""
    rule = RiskRule(name="p", level=RiskLevel.HIGH, reason="prod", contains=(word,))
    asks = request(tool="deploy", arguments={"to": "production"})
    assert assess_by_rules((rule,), asks, asks.arguments).level is RiskLevel.HIGH


def test_other_words_stay_others() -> None:
    """Letters of other writing that pass for none, line ends and blanks stay as they are."""
    assert fold("Stra\u00dfe \u65e5\u672c\n\t\u00e9") == "strasse \u65e5\u672c\n\t\u00e9"
    asks = request(tool="deploy", arguments={"to": "pro duction"})
    assert assess_by_rules((RULE,), asks, asks.arguments).level is RiskLevel.MEDIUM


@pytest.mark.thorough
def test_a_long_text_is_folded_in_bounded_time() -> None:
    """A million characters of any writing keep the gateway busy for less than a second."""
    text = "".join(map(chr, range(0x400, 0x3000))) * 100
    began = time.process_time()
    fold(text)
    assert time.process_time() - began < 2
