"""What cards and modals look like: golden files, Slack's limits, and text that stays text.

`python -m tests.slack.test_rendering` writes the golden files anew; look at the pictures then.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.slack import cards as blocks
from adapters.slack import modals
from adapters.slack.cards import CARD_CHARS, CARD_LINES, MOST_UNITS
from adapters.slack.payloads import ModalMetadata
from gateway.cards.card import card_of, full_view
from gateway.domain.redaction import key_masks
from gateway.errors import InvalidRequest
from gateway.models import Context, Risk, RiskLevel
from tests.conftest import MASK_KEY
from tests.slack import render, states
from tests.slack.counterpart.blocks import Checker, check_message, units
from tests.slack.counterpart.views import checked_view
from tests.slack.office import words

GOLDEN = Path(__file__).parent / "golden"
_WIDEST = 140  # letters on a line of a golden file
Json = dict[str, Any]


@cache
def rendered() -> dict[str, Json]:
    """Return every card and modal as it is rendered now."""
    made: dict[str, Json] = {
        f"card-{name}": {"text": text, "blocks": made}
        for name, (text, made) in states.messages().items()
    }
    return made | {f"modal-{name}": view for name, view in states.views().items()}


# Each process collects the tests: what it renders for that, it would render for nothing.
NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))


def names_of(kind: str) -> list[str]:
    """Return the names of the golden files of cards, or of modals."""
    return [name.removeprefix(kind) for name in NAMES if name.startswith(kind)]


@pytest.mark.parametrize("name", NAMES)
def test_rendering_equals_its_golden_file(name: str) -> None:
    """Nobody changes by accident what approvers see."""
    golden = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    assert rendered()[name] == golden


def test_no_golden_file_is_missing_or_left_over() -> None:
    """Each state has its golden file, and each golden file belongs to a state."""
    assert set(NAMES) == set(rendered())


@pytest.mark.parametrize("name", names_of("card-"))
def test_slack_takes_every_card(name: str) -> None:
    """Each card keeps Slack's limits and our own budget, with at most 15 blocks."""
    text, made = states.messages()[name]
    check_message(made, MOST_UNITS)
    assert len(made) <= 15
    assert 0 < units(text) <= 300


@pytest.mark.parametrize("name", names_of("modal-"))
def test_slack_takes_every_modal(name: str) -> None:
    """Each modal keeps Slack's limits."""
    view = states.views()[name]
    checked_view(view, view["type"])


def test_a_card_that_ended_is_two_lines() -> None:
    """How it ended, and the summary, which is the same as before; the rest is behind Details."""
    before, after = (states.messages()[name][1] for name in ("pending", "denied"))
    assert [one["block_id"] for one in after] == ["ended", "summary", "actions"]
    assert after[1] == before[0]
    assert [one["text"]["text"] for one in after[2]["elements"]] == ["Details"]


def test_high_risk_is_reviewed_first() -> None:
    """No Approve on the card of what is high risk: Review… opens all of it."""
    for name, act, said in (
        ("pending-high-risk", "details", "Review…"),
        ("pending", "approve", "Approve"),
    ):
        first, *_ = states.messages()[name][1][-1]["elements"]
        assert "confirm" not in first
        assert (first["action_id"], first["text"]["text"]) == (act, said)


def test_lock_screens_show_no_arguments() -> None:
    """The notification names agent, tool and risk; no argument, and nothing that pings."""
    for name, (text, _) in states.messages().items():
        assert "rm -rf" not in text
        assert "<" not in text, name


def untrusted(value: Any) -> list[Json]:
    """Return the text objects that Slack would parse for markup."""
    if isinstance(value, list):
        return [found for one in value for found in untrusted(one)]
    if not isinstance(value, dict):
        return []
    found = [value] if value.get("type") == "mrkdwn" else []
    return found + [one for inner in value.values() for one in untrusted(inner)]


def test_09_markup_of_agents_is_never_parsed() -> None:
    """Mentions, links, fences and bold in every field of a card, its modals and lists stay text."""
    for name, made in rendered().items():
        for parsed in untrusted(made):
            waits = "⏳ Approval needed · expires <!date^"
            ours = (
                waits,
                waits.replace("⏳ Approval needed", "❓ Question"),
                "⏳ Approval needed · expires <!date^",
                "❓ Question · expires <!date^",
                "💤 Expires <!date^",
                "⛔ Expires <!date^",
                "Until <!date^",
                "Until revoked",
                "⏳ The first of them waits until <!date^",
                "<!date^",
            )
            assert parsed["text"].startswith(ours), name
    page = render.message(*states.messages()["pending-hostile"])
    assert "mention" not in page
    assert "<a " not in page
    assert "&lt;!here&gt;" in page


def test_10_hidden_characters_are_shown_and_no_line_imitates_us() -> None:
    """Bidi, zero-width and look-alike characters are escapes; an agent's words start no line."""
    text = "\n".join(words(states.messages()["pending-hostile"][1]))
    for hidden in ("\u202e", "\u2066", "\u200b"):
        assert hidden not in text
    assert "U+202E" in text
    body = next(b for b in states.messages()["pending-hostile"][1] if b["type"] == "rich_text")
    for part in body["elements"]:
        if part["type"] == "rich_text_quote":
            assert "\n" not in part["elements"][0]["text"]


ANY = st.text(min_size=0, max_size=200) | st.text("😀\u202e`*_<!@&\n ", max_size=400)


@settings(max_examples=60, deadline=None)
@given(command=st.text(max_size=9000) | ANY, hint=ANY, cwd=ANY, tool=ANY, reason=ANY)
def test_07_any_text_makes_a_card_that_slack_takes(
    command: str, hint: str, cwd: str, tool: str, reason: str
) -> None:
    """Whatever an agent sends: valid blocks within the budget, and no half characters."""
    named = "".join(char for char in tool if char >= " " and char != "\x7f")[:256] or "x"
    try:
        record = states.asked(
            tool=named,
            arguments={"command": command},
            hint=hint,
            context=Context(cwd=cwd),
            risk=Risk(level=RiskLevel.HIGH, reasons=(reason, reason)),
        )
        card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
    except InvalidRequest:  # the gateway itself refuses such a request
        return
    text, made = blocks.build_message(card, states.COPY)
    check_message(made, MOST_UNITS)
    json.dumps([text, made]).encode("utf-8")
    full = full_view(record, fits=modals.page_fits)
    form = ModalMetadata(record.id, 1, states.COPY, "C1", "1.1")
    whole = card_of(record, lines=10**9, chars=10**9)
    for page in range(len(full.pages)):
        view = modals.build_details(
            whole, full, ModalMetadata(**{**_plain(form), "page": page}), refusal=""
        )
        checked_view(view, "modal")
    if card.complete:
        exact = [
            part["elements"][0]["text"]
            for block in made
            if block["type"] == "rich_text"
            for part in block["elements"]
            if part["type"] == "rich_text_preformatted"
        ]
        assert [block.text.text or "-" for block in card.blocks if block.text.text] == exact[
            : len([block for block in card.blocks if block.text.text])
        ]


def _plain(form: ModalMetadata) -> Json:
    return {name: getattr(form, name) for name in ModalMetadata.__slots__}


@pytest.mark.thorough
def test_07_a_megabyte_and_one_long_line_fit() -> None:
    """A megabyte, one line of 20,000 characters, emoji, right-to-left text: cuts are said."""
    for command in ("x" * 1_000_000, "y " * 10_000, "😀" * 5000, "\u05d0\u05d1 " * 3000):
        record = states.asked(arguments={"command": command})
        card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
        assert not card.complete
        _, made = blocks.build_message(card, states.COPY)
        check_message(made, MOST_UNITS)
        assert "characters shown. Read the whole text" in " ".join(words(made))
        assert "Approve" not in [one["text"]["text"] for one in made[-1]["elements"][:-1]]


def test_the_counterpart_would_catch_what_is_too_long() -> None:
    """The check above is a check: the same card with a longer header is refused."""
    made = json.loads(json.dumps(states.messages()["pending"][1]))
    made.append(blocks.header("x" * 150))
    assert not Checker("message").check(made)
    made[-1]["text"]["text"] = "x" * 151
    assert Checker("message").check(made)


def write_compact(value: Any, indent: int = 0) -> str:
    """Return a value as JSON, as much of it on a line as fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= _WIDEST or not isinstance(value, dict | list) or not value:
        return line
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(name)}: {write_compact(one, indent + 1)}" for name, one in value.items()
        ]
    else:
        parts = [write_compact(one, indent + 1) for one in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return begin + f",\n{' ' * (indent + 1)}".join(parts) + end


def test_golden_files_lose_nothing_by_being_compact() -> None:
    """What is written is read back as it was, on fewer lines."""
    for content in rendered().values():
        assert json.loads(write_compact(content)) == json.loads(json.dumps(content))


if __name__ == "__main__":
    key_masks(MASK_KEY)
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.glob("*.json"):
        path.unlink()
    for state, content in rendered().items():
        (GOLDEN / f"{state}.json").write_text(f"{write_compact(content)}\n", encoding="utf-8")
