"""`toolConfirmation` of an `agent.yml` as a route: every member, every default, nothing guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.saiki.adapter import Confirmation, read_section, write_policy
from gateway.cli import main
from gateway.domain.policy_document import Mode, PolicyDocument
from gateway.errors import InvalidRequest
from gateway.policy.policy_file_reader import read_policy

FULL = """
# an agent
llm:
  provider: openai
  timeout: 5
toolConfirmation:
  mode: "event-based"           # interactive

  timeout: 120000
  allowedToolsStorage: 'memory'
mcpServers:
  mode: other
"""
DEFAULTS = Confirmation("event-based", 30_000, "storage")


def route_of(section: Confirmation) -> PolicyDocument:
    """Return the policy that the gateway reads."""
    people = '\n[[people]]\nname = "ann"\nidentities = []\n'
    return read_policy(write_policy(section, "shop", ["ann"]) + people)


def test_every_member_is_read() -> None:
    """Of the section, and of no other."""
    assert read_section(FULL) == Confirmation("event-based", 120_000, "memory")


@pytest.mark.parametrize("text", ["", "llm:\n  mode: x\n", "toolConfirmation:\n", "# a comment"])
def test_what_is_left_out_has_the_documents_defaults(text: str) -> None:
    """Event-based, 30 seconds, storage."""
    assert read_section(text) == DEFAULTS


@pytest.mark.parametrize(
    "section",
    [
        "  mode: auto",
        "  mode: auto-approve\n  mode: auto-deny",
        "  mode: [auto-approve]",
        "  mode:\n    deep: auto-approve",
        "  mode: event-based\n    timeout: 5",
        "  mode: &x auto-approve",
        "  timeout: 0",
        "  timeout: -1",
        "  timeout: 30s",
        "  timeout: 1e9",
        "  timeout: 99999999999",
        "  allowedToolsStorage: redis",
        "  allowed: storage",
        "  <<: *other",
    ],
)
def test_what_is_not_understood_is_refused(section: str) -> None:
    """A member that was read wrongly could approve."""
    with pytest.raises(InvalidRequest):
        read_section(f"toolConfirmation:\n{section}\n")


@pytest.mark.parametrize(
    "text", ["toolConfirmation: {mode: auto-approve}", "toolConfirmation:\ntoolConfirmation:\n"]
)
def test_other_ways_to_write_it_are_refused(text: str) -> None:
    """In one line, or twice."""
    with pytest.raises(InvalidRequest):
        read_section(text)


@pytest.mark.parametrize(
    ("mode", "ours"),
    [
        ("event-based", Mode.ASK),
        ("auto-approve", Mode.AUTO_APPROVE),
        ("auto-deny", Mode.AUTO_DENY),
    ],
)
def test_the_route_means_the_same(mode: str, ours: Mode) -> None:
    """Mode, time in seconds that no agent lengthens, and the people named; nobody by default."""
    (route,) = route_of(Confirmation(mode, 30_500, "storage")).routes
    assert (route.mode, route.timeout, route.max_timeout) == (ours, 30.5, 30.5)
    assert (route.agents, route.approvers, route.targets) == (("shop",), ("ann",), ("saiki",))
    (alone,) = read_policy(write_policy(DEFAULTS, "shop", [])).routes
    assert alone.approvers == ()


def test_the_command_prints_the_route(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ready to be put into the policy file; a mistake prints a sentence and nothing else."""
    path = tmp_path / "agent.yml"
    path.write_text(FULL)
    words = ["saiki", "convert", str(path), "--agent", "shop", "--approver", "ann"]
    assert main(words) == 0
    printed, said = capsys.readouterr()
    assert "GATEWAY_GRANTS=memory" in printed
    assert "timeout = 120.0" in printed
    assert "aution" not in printed + said
    path.write_text("toolConfirmation:\n  mode: auto-approve\n")
    assert main(words) == 0
    printed, said = capsys.readouterr()
    for text in (printed, said):  # in the file that it becomes, and where it is made
        assert "runs every call" in text
    assert 'mode = "auto-approve"' in printed
    path.write_text("toolConfirmation:\n  mode: sometimes\n")
    assert main(words) != 0
    assert "[[routes]]" not in capsys.readouterr().out
