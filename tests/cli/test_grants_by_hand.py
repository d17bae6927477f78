"""`gateway grant add`: first the offers of an example, then one of them, in the gateway's words."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell

GIT = ("--tool", "shell", "--kind", "command", "--arguments", '{"command": "git log -n 5"}')


@pytest.fixture
def agent(up: Shell) -> str:
    """Return the name of the agent that asks, once it has asked."""
    up.run("ask", "shell", "--session", "s1", "--no-wait", "--", "git", "log", code=6)
    return str(json.loads(up.run("pending", "--json"))["request"]["agent"])


def test_an_example_is_offered_and_then_remembered(up: Shell, agent: str) -> None:
    """Without an offer nothing is written, and the exit code says so."""
    said = up.run("grant", "add", agent, *GIT, code=2)
    assert "nothing was saved yet" in said
    offers = [line.split("  ", 1) for line in said.splitlines() if len(line.split()[0]) == 16]
    assert offers[0][1] == 'exactly this: "git log -n 5"'
    assert up.run("grant", "list") == "there are no grants\n"
    offer, words = offers[-1]
    more = ("--for", "1d", "--uses", "3", "--session", "s9")
    assert words in up.run("grant", "add", agent, *GIT, "--offer", offer, *more)
    (grant,) = (json.loads(line) for line in up.run("grant", "list", "--json").splitlines())
    assert (grant["words"], grant["session"], grant["max_uses"]) == (words, "s9", 3)
    assert grant["expires_at"] - grant["made_at"] == 86_400_000


def test_a_request_is_an_example_and_a_denial_is_one_too(up: Shell, agent: str) -> None:
    """By the first characters of its id; the next such call is denied at once."""
    asked = json.loads(up.run("pending", "--json"))["request"]["id"]
    like = ("grant", "add", agent, "--like", asked[:8], "--deny")
    offer = up.run(*like, code=2).split()[0]
    assert "deny" in up.run(*like, "--offer", offer)
    assert up.run("pending") == "nothing waits\n"
    up.run("ask", "shell", "--", "git", "log", code=1)


MISFITS: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), "required"),
    (("--tool", "t", "--like", "a"), "not allowed with"),
    (("--like", "0" * 32, "--cwd", "/srv"), "the request already states"),
    (("--tool", "t", "--arguments", "[]"), "must be a JSON object"),
    (("--tool", "t", "--arguments", "{"), "--arguments"),
    (("--tool", "t", "--uses", "3"), "need --offer"),
    (("--tool", "t", "--offer", "0" * 16), "unknown offer"),
)


def test_what_does_not_fit_is_a_usage_error(up: Shell, agent: str) -> None:
    """With a sentence, and nothing remembered."""
    for words, why in MISFITS:
        assert why in up.run("grant", "add", agent, *words, code=2), words
    offer = up.run("grant", "add", agent, *GIT, code=2).split()[0]
    assert "choose one of" in up.run(
        "grant", "add", agent, *GIT, "--offer", offer, "--for", "9y", code=2
    )
    assert up.run("grant", "list") == "there are no grants\n"
