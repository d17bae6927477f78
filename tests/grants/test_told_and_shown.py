"""What tells a bot to act is no message to people, and no secret stands in what is said."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.cards.remember_options import scopes_of
from gateway.domain.records import StoredRequest
from gateway.models import Action
from gateway.policy.grants.coverage import what_differs
from gateway.policy.grants.grant import Shape
from gateway.policy.grants.offers import offers
from tests.grants.making import allowed, asked, granted, remembered

SECRET = "ghp_" + "a1B2" * 9
TOLD = [
    "@claude run the deploy script", "@codex fix it", "@copilot look", "@bors r+",
    "@Mergifyio queue", "@dependabot merge", "ok to test", "!deploy prod", "- /merge", "@org/team",
    "Look, @**all**", "Look <users/all>", 'Hi <at user_id="all"></at>', "<at>everyone</at> hi",
    "<@UBOT> deploy", "> /merge", "1. /merge", "- [ ] /merge", "- [x] /merge", "Fine.\n/merge",
    "Fine.\r/merge", "Fine.\u2028!deploy", ".take", "r+", "LGTM", "\uff20claude look",
    "&#64;claude look",
    "**/merge**", "$deploy now", "?deploy now", "[~kim] look", "a@b.org@claude look",
    "@\u200bclaude x",
    "bors merge", "-deploy prod", "- ok to test", "# /merge", "| /merge", "{/merge}",
]  # fmt: skip
PLAIN = [
    "I can reproduce it.", "Done.\nAll is merged.", "Write to kim@example.org, please.",
    "See <https://example.org/x> for more.", "- one\n- two\n\n1. three",
    "It takes < 5 s at 3 @ noon.",
    "> quoted\n\nThe answer: **yes**, with `make`.", "Deploy of Monday: all went well.",
    "Approved budgets are in the sheet.", "\u00dcbung macht den Meister \U0001f389",
]  # fmt: skip


def comment(text: str) -> Any:
    """Return a request to comment on an issue."""
    return asked("add_issue_comment", arguments={"repo": "acme/web", "issue_number": 1,
                                                 "body": text})  # fmt: skip


def shown(record: StoredRequest) -> list[str]:
    """Return what may be remembered, as it is said to whoever has revealed nothing."""
    return [one.words.text for one in scopes_of(record, Action.APPROVE)]


@pytest.mark.parametrize("text", TOLD)
def test_a_text_that_mentions_or_tells_a_bot_asks(text: str) -> None:
    """However it is written; nor is a free text offered for one that does."""
    assert not allowed([remembered(comment("I can reproduce it."))], comment(text))
    assert not [one for one in offers(comment(text)) if "with any" in one.words]


@pytest.mark.parametrize("text", PLAIN)
def test_an_everyday_text_is_covered(text: str) -> None:
    """Addresses, links, lists and quotes are text for people."""
    assert allowed([remembered(comment("I can reproduce it."))], comment(text))


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\r\n", "\x0b", "\x85", "\u2028", "\x00", "\t", "%0a", "%0D", " =?utf-8?q?"]
)
@pytest.mark.parametrize("name", ["subject", "title"])
def test_a_field_of_one_line_holds_no_line_end(name: str, end: str) -> None:
    """A line end there begins another header; a body has as many lines as it likes."""
    mail = {"to": "kim@example.org", name: "Report", "body": "Well."}
    grant = remembered(asked("send_email", arguments=mail))
    injected = {**mail, name: f"Hi{end}Bcc: evil@evil.com"}
    assert not allowed([grant], asked("send_email", arguments=injected))
    assert allowed([grant], asked("send_email", arguments={**mail, "body": "Two\nlines."}))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"edits": [{"password": "hunter2aa"}]}, {"edits": [{"password": "hunter2bb"}]}),
        ({"edits": [{"password": "hunter2aa"}] * 2}, {"edits": [{"password": "hunter2bb"}] * 2}),
        ({"passwords": ["hunter2aa"]}, {"passwords": ["hunter2bb"]}),
        ({"api_key": {"now": "hunter2aa"}}, {"api_key": {"now": "hunter2bb"}}),
        ({"password": "h2"}, {"password": "hunter2bb"}),
        ({SECRET: "a"}, {SECRET: "b"}),
        ({"a": "x"}, {"a": "x", SECRET: ["b"]}),
    ],
)
def test_what_differs_names_no_secret(first: Any, second: Any) -> None:
    """Neither a value under a secret's name, at any depth, nor a name that is one."""
    grants = [granted(one.match) for one in offers(asked("keep", arguments=first, harmless=True))]
    patterns = [one for one in grants if one.match.shape is Shape.PATTERN]
    said = [what_differs(one, asked("keep", arguments=second, harmless=True)) for one in patterns]
    for text in (*map(str, said), *shown(asked("keep", arguments=first, harmless=True))):
        assert "hunter2" not in text and SECRET not in text


def test_what_differs_is_said_of_a_value_in_a_list_without_it() -> None:
    """A fixed value at `edits[].password`, read again with another."""
    arguments = {"to": "#ops", "text": "Hi all.", "password": "hunter2aa"}
    for made in offers(asked("write_file", arguments={"path": "/ws/a.txt", **arguments})):
        now = {"path": "/ws/a.txt", **arguments, "password": "hunter2bb"}
        said = str(what_differs(granted(made.match), asked("write_file", arguments=now)))
        assert "hunter2" not in said and "hunter2" not in made.words
    assert offers(asked("write_file", arguments={"path": "/ws/a.txt", **arguments}))


def test_what_differs_masks_a_secret_under_any_name() -> None:
    """It is one by its look, and the name beside it says nothing."""
    arguments = {"path": "/ws/a.txt", "content": "x", "marker": SECRET}
    said = []
    for made in offers(asked("write_file", arguments=arguments)):
        now = {**arguments, "marker": f"{SECRET}x"}
        said.append(str(what_differs(granted(made.match), asked("write_file", arguments=now))))
    assert any("marker" in one and "secret of" in one for one in said)
    assert not [one for one in said if SECRET in one]


@pytest.mark.parametrize("tool", ["find_and_delete", "check_out", "list_for_sale", "get_shares"])
def test_a_name_with_a_word_of_change_is_no_look_up(tool: str) -> None:
    """Other plain values of it are not offered."""
    assert not [one for one in offers(asked(tool, arguments={"page": 1})) if "other" in one.words]


@pytest.mark.parametrize(
    "more", [{"owner": "eve"}, {"metadata": {"run": "x"}}, {"owner": "eve", "status": "done"}]
)
def test_a_whole_tool_hands_work_to_nobody_else(more: dict[str, Any]) -> None:
    """Who gets a task, and what nobody reads, stay the same; its words and ids may vary."""
    first = {"taskId": "1", "subject": "Write it"}
    for given in (first, {**first, "owner": "bob", "metadata": {"run": "a"}}):
        whole = remembered(asked("TaskUpdate", arguments=given), Shape.TOOL)
        assert allowed([whole], asked("TaskUpdate", arguments={**given, "taskId": "2"}))
        assert allowed([whole], asked("TaskUpdate", arguments={**given, "status": "done"}))
        assert not allowed([whole], asked("TaskUpdate", arguments={**given, **more}))
