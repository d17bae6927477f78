"""Each condition of a remembered answer has a call that is covered when the condition is gone."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from gateway.models import Action, Context, Kind, Question, Risk, RiskLevel
from gateway.policy.calls.known_commands import Operands, read_text
from gateway.policy.calls.paths import components, delicate, delicate_word, within
from gateway.policy.grants.coverage import covers, runs_only, what_differs
from gateway.policy.grants.grant import (
    ANY_TOOL,
    CommandPattern,
    Effect,
    Match,
    MatchResult,
    Shape,
)
from gateway.policy.grants.offers import offers
from gateway.policy.grants.variations import is_message_text
from tests.grants.making import CWD, allowed, asked, command, granted, remembered

C, F, T = Kind.COMMAND, Kind.FILE_CHANGE, Kind.TOOL
CAT = CommandPattern(program="cat", operands=Operands.PATHS)
PATCH_OF_ANOTHER = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def call(tool: str, kind: Kind, /, **arguments: Any) -> StoredRequest:
    """Return a request for a tool."""
    return asked(tool, kind=kind, arguments=arguments)


def exact(record: StoredRequest) -> Match:
    """Return the match of exactly this request, whether it is offered or not."""
    request = record.request
    return Match(shape=Shape.EXACT, tool=request.tool, kind=request.kind, digest=record.digest)


def test_a_question_is_answered_by_nothing_remembered() -> None:
    """Neither by a pass nor by a denied tool: it asks for an answer, not for leave."""
    fields = (Question(id="a", text="Which one?"),)
    one = asked("ask", kind=Kind.QUESTION, questions=fields, allowed=(Action.ANSWER,))
    everything = granted(Match(shape=Shape.WORK, tool=ANY_TOOL), session="default", expires_at=1000)
    denied = granted(Match(shape=Shape.TOOL, tool="ask", kind=T), Effect.DENY)
    assert [covers(grant, one) for grant in (everything, denied)] == [MatchResult.NO] * 2
    look = asked("read_file", arguments={"path": "/ws/a"})
    assert [covers(everything, look), covers(denied, asked("ask"))] == [MatchResult.YES] * 2
    assert [offers(one, effect) for effect in Effect] == [(), ()]


@pytest.mark.parametrize(
    "more", [{"human": True}, {"risk": Risk(level=RiskLevel.HIGH)}], ids=["demanded", "high risk"]
)
def test_what_is_for_people_is_offered_no_approval(more: dict[str, Any]) -> None:
    """Exactly the same is asked about as well; a denial of it may be remembered."""
    one = asked("read", arguments={"path": "/ws/a"}, **more)
    assert offers(one) == ()
    assert offers(one, Effect.DENY)
    assert not allowed([granted(exact(one))], one)


@pytest.mark.parametrize(
    "context",
    [Context(cwd=CWD, host="prod"), Context(cwd="/srv"), Context()],
    ids=["host", "folder", "no folder"],
)
def test_a_pattern_is_bound_to_its_place(context: Context) -> None:
    """Another host or folder asks, whichever of the two was remembered."""
    here, there = command("cat a"), command("cat a", context=context)
    assert allowed([remembered(here)], here)
    assert not allowed([remembered(here)], there)
    for elsewhere in [remembered(there)] if context.cwd else []:
        assert not allowed([elsewhere], here)


def test_a_pattern_is_bound_to_the_folder_in_which_the_agent_works() -> None:
    """Also where an argument says that the call runs elsewhere, in the same folder as before."""
    arguments = {"command": "cat a", "workdir": "/srv/app"}
    here = command("", arguments=arguments)
    there = command("", arguments=arguments, context=Context(cwd="/home/ann"))
    assert allowed([remembered(here)], here)
    assert not allowed([remembered(here)], there)
    said = what_differs(remembered(here), there)
    assert said == "its folder is /home/ann, remembered /ws"


@pytest.mark.parametrize("tool", ["exec_shell", "Run_Shell", "shell", "bash"])
def test_a_pattern_is_of_one_tool(tool: str) -> None:
    """Another shell with the same words is another call, and so is another spelling."""
    here = asked("run_shell", kind=C, arguments={"command": "cat a"})
    there = asked(tool, kind=C, arguments={"command": "cat a"})
    assert allowed([remembered(here)], here)
    assert not allowed([remembered(here)], there)
    assert not allowed([remembered(there)], here)


def test_a_text_that_is_not_known_to_run_as_a_command_fits_no_pattern() -> None:
    """The same words, in a tool of which nobody knows that it is a shell."""
    record = command("cat a")
    for proven in (True, False):
        program = read_text("cat a", CWD, "command", proven=proven)
        assert runs_only(CAT, [program], record) is proven


def test_a_payload_asks() -> None:
    """It runs like arguments do, and no words of the offer speak of it."""
    assert allowed([remembered(command("cat a"))], command("cat b"))
    assert not allowed([remembered(command("cat a"))], command("cat b", payload={"x": "y"}))


@pytest.mark.parametrize(
    "inner",
    [
        {"tool_name": "rm", "arguments": {"n": 1}},
        {"tool_name": "rm", "arguments": '{"n": 1}'},
        {"recipient_name": "rm", "parameters": {"n": "x"}},
    ],
    ids=str,
)
def test_a_call_that_hands_on_another_is_no_harmless_one(inner: dict[str, Any]) -> None:
    """A tool that is declared harmless is remembered whole, but not with a call within."""
    oslo = {"city": "Oslo"}
    whole = asked("get_weather", arguments=oslo, harmless=True)
    handing = asked("get_weather", arguments={**oslo, **inner}, harmless=True)
    assert Shape.PATTERN in [one.match.shape for one in offers(whole)]
    assert [one.match.shape for one in offers(handing)] == [Shape.EXACT]


@pytest.mark.parametrize("said", ['{"command": "rm x"}', '["rm x"]'])
def test_a_remark_that_can_be_taken_otherwise_leaves_nothing_open(said: str) -> None:
    """Some hosts read JSON in a text as what it says."""
    assert allowed([remembered(call("Bash", C, command="ls", description="look"))],
                   call("Bash", C, command="ls -a", description="look again"))  # fmt: skip
    made = offers(call("Bash", C, command="ls", description=said))
    assert [one.match.shape for one in made] == [Shape.EXACT]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit_file", {"path": "/ws/a", "patch": PATCH_OF_ANOTHER}),
        ("delete_file", {"path": "/ws/a"}),
        ("move_file", {"path": "/ws/a"}),
        ("edit", {"path": "/ws/a", "type": "delete"}),
        ("apply_patch", {"path": "/ws/a", "type": "delete_file"}),
        ("edit_file", {"path": "/ws/a", "operation": "unlink"}),
        ("write_file", {"destination": "/ws/a", "content": "x"}),
    ],
)
def test_a_folder_is_for_reading_and_writing_one_file(tool: str, arguments: dict[str, Any]) -> None:
    """What names a second file, deletes, moves or links is remembered exactly or not."""
    made = offers(call(tool, F, **arguments))
    assert [one.match.shape for one in made] == [Shape.EXACT]


@pytest.mark.parametrize("path", ["/ws/..", "/ws/../x", "..", "../x", "/..", "/ws/.. /x", "/ws/x."])
def test_a_path_that_climbs_has_no_components(path: str) -> None:
    """Behind a link `..` leads elsewhere; and some systems drop a dot or a blank at an end."""
    assert components("/ws/.../x", CWD) == ("ws", "...", "x")
    assert components(path, CWD) is None


def test_a_name_in_two_spellings_has_no_components() -> None:
    """Some disks take them for one file, others for two."""
    composed = "/ws/\u00c4"
    assert components(composed) == ("ws", "\u00c4")
    assert components(unicodedata.normalize("NFD", composed)) is None


def test_a_folder_with_a_longer_name_is_another_folder() -> None:
    """Paths are compared by components, not by letters."""
    assert [within(path, "/ws") for path in ("/ws", "/ws/a", "/wsx", "/wsx/a")] == [
        True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["cron.d/job", "autostart/x", "crontab", "mcp.json", "a/x.pth"])
def test_what_runs_later_asks_though_no_dot_tells_of_it(path: str) -> None:
    """Also when it is only read, and also as a word of a text."""
    assert delicate(f"/ws/{path}", written=False) == "its content runs later"
    assert delicate_word(path) == "its content runs later"


@pytest.mark.parametrize("cwd", ["/home/ann/.ssh", "/ws/.git/hooks", "ws", "/ws/.."])
def test_where_secrets_lie_or_nobody_knows_where_nothing_is_left_open(cwd: str) -> None:
    """Whatever the answer: here a text, in a tool that reads and writes no file."""
    message = {"channel": "#ops", "text": "It is green again, have a look."}
    here, there = (
        asked("post_message", arguments=message, context=Context(cwd=one)) for one in (CWD, cwd)
    )
    assert Shape.PATTERN in [one.match.shape for one in offers(here)]
    assert [one.match.shape for one in offers(there)] == [Shape.EXACT]


LEAVES_NOTHING_OPEN: list[tuple[str, StoredRequest]] = [
    ("a command in the system's folder", command("git log", context=Context(cwd="/etc"))),
    ("a command in the root", command("git log", context=Context(cwd="/"))),
    ("a second path beside a command",
     call("Bash", C, command="ls", output_path="/ws/out.txt")),
    ("something unknown beside a message",
     call("post_message", T, channel="#ops", text="It is green again.", urgency="high")),
    ("no plain fact in a look-up", call("get_weather", T, city="Oslo", owner="ann")),
    ("a path in a harmless tool",
     asked("get_item", harmless=True, arguments={"id": 1, "where": "/srv/x"})),
    ("a delicate file in a harmless tool",
     asked("get_item", harmless=True, arguments={"id": 1},
           context=Context(cwd=CWD, files={"/ws/.env": "0" * 64}))),
    ("more that varies than can be said",
     asked("get_item", harmless=True, arguments={letter * 60: 1 for letter in "abcdefgh"})),
]  # fmt: skip
CONTROLS = [
    command("git log"),
    call("post_message", T, channel="#ops", text="It is green again."),
    call("get_weather", T, city="Oslo"),
    asked("get_item", harmless=True, arguments={"id": 1}),
]


@pytest.mark.parametrize("record", [row[1] for row in LEAVES_NOTHING_OPEN],
                         ids=[row[0] for row in LEAVES_NOTHING_OPEN])  # fmt: skip
def test_such_a_call_leaves_nothing_open(record: StoredRequest) -> None:
    """Exactly the same may be remembered, and no more."""
    assert [one.match.shape for one in offers(record)] == [Shape.EXACT]


@pytest.mark.parametrize("record", CONTROLS)
def test_the_like_of_it_leaves_something_open(record: StoredRequest) -> None:
    """The control: without that, each of these has a wider offer."""
    assert Shape.PATTERN in [one.match.shape for one in offers(record)]


@pytest.mark.parametrize("text", ["/etc/passwd", "https://example.com/x", "-rf", "~/.ssh"])
def test_a_text_that_is_something_else_is_none_for_people(text: str) -> None:
    """Whoever declared the argument as data."""
    assert is_message_text("text", "It is green again.")
    assert not is_message_text("text", text)
