"""A hundred calls that look like those of an approved plan, and are none: each asks people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gateway.domain.policy_document import ToolRow
from gateway.models import Context, Kind, Origin, Question, Risk, RiskLevel, Status
from tests.approvals.planning import HERE, grants, planned
from tests.world import World

EDIT: dict[str, Any] = {"path": "/srv/app/notes.txt"}
MAIL: dict[str, Any] = {"to": "ana@example.com", "subject": "Report"}
LINES: tuple[dict[str, Any], ...] = (
    {"tool": "shell", "kind": "command", "arguments": {"command": "make test"}, "times": 9},
    {"tool": "send_email", "arguments": MAIL, "any_text": ["body"], "times": 9},
    {"tool": "write_file", "arguments": EDIT, "any_text": ["content"], "times": 9},
    {
        "tool": "Bash",
        "arguments": {"command": "make docs"},
        "any_text": ["description"],
        "times": 9,
    },
    {"tool": "pay", "arguments": {"to": "ana", "amount": 5}, "times": 9},
    {"tool": "note", "arguments": {"book": "b1"}, "any_text": ["text"], "times": 9},
)


@dataclass
class Attempt:
    """A call, and what else its request says."""

    tool: str
    arguments: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)


def shell(command: Any, **arguments: Any) -> Attempt:
    """Return a command that is not the planned one."""
    return Attempt("shell", {"command": command, **arguments}, {"kind": Kind.COMMAND})


def mail(body: Any = "Fine.", **changes: Any) -> Attempt:
    """Return a message that is not the planned one."""
    return Attempt("send_email", {**MAIL, "body": body, **changes})


def write(**changes: Any) -> Attempt:
    """Return a change of a file that is not the planned one."""
    return Attempt("write_file", {**EDIT, "content": "x", **changes})


def bash(command: Any = "make docs", **changes: Any) -> Attempt:
    """Return a command with a remark that is not the planned one."""
    return Attempt("Bash", {"command": command, "description": "Build", **changes})


def without(attempt: Attempt, name: str) -> Attempt:
    """Return an attempt that misses an argument."""
    left = {key: value for key, value in attempt.arguments.items() if key != name}
    return replace(attempt, arguments=left)


def with_more(attempt: Attempt, **more: Any) -> Attempt:
    """Return an attempt whose request says more."""
    return replace(attempt, more={**attempt.more, **more})


def elsewhere(**changes: Any) -> dict[str, Any]:
    """Return another place where the call would run."""
    return {"context": replace(HERE, **changes)}


def commands() -> Iterator[Attempt]:
    """Yield commands near `make test`."""
    for text in (
        "make test ", " make test", "make  test", "make test;", "make test; rm x",
        "make test && id", "make test\n", "make test\nid", "make test #",
        "make test | sh", "make tests", "make Test",
        "MAKE test", "make test -j9", "make -f x test", "'make' test", "make test > /etc/passwd",
        "$(id) make test", "make test &", "ma\u200bke test", "m\u0430ke test",
        "make\ttest", "/bin/make test",
        "make", "", "sudo make test", "env X=1 make test", "make test CFLAGS=-x",
    ):  # fmt: skip
        yield shell(text)
    yield from (shell(["make", "test"]), shell({"make": "test"}), shell(None), shell(True))
    yield shell("make test", cwd="/tmp")
    yield shell("make test", timeout=1)
    yield shell("make test", description="x")
    same = shell("make test")
    yield Attempt("shell", {"cmd": "make test"}, same.more)
    yield Attempt("shell", {"Command": "make test"}, same.more)
    yield replace(same, more={"kind": Kind.TOOL})
    yield replace(same, more={"kind": Kind.FILE_CHANGE})
    yield from (replace(same, tool=name) for name in ("Shell", "shell ", "sh", "mcp__x__shell"))
    yield with_more(same, **elsewhere(cwd="/"))
    yield with_more(same, **elsewhere(host="build-2"))
    yield with_more(same, **elsewhere(cwd=None))
    yield with_more(same, **elsewhere(env={"PATH": "/tmp"}))
    yield with_more(same, **elsewhere(files={"/srv/app/Makefile": "0" * 64}))
    yield with_more(same, context=Context())
    yield with_more(same, payload={"command": "id"})
    yield with_more(same, human=True)
    yield with_more(same, risk=Risk(level=RiskLevel.HIGH))
    yield with_more(same, session="other")


def messages() -> Iterator[Attempt]:
    """Yield messages near the report to ana."""
    yield from (mail(to=to) for to in ("ben@example.com", "Ana@example.com", "ana@example.com "))
    yield mail(to="ana@example.com,ben@example.com")
    yield mail(to=["ana@example.com"])
    yield mail(to=["ana@example.com", "ben@example.com"])
    yield from (mail(subject=one) for one in ("report", "Report\nBcc: ben@example.com", "", None))
    yield from (mail(**{name: "ben@example.com"}) for name in ("cc", "bcc", "reply_to", "from"))
    yield mail(attachments=["/etc/passwd"])
    yield mail(html=True)
    yield mail(_to="ben@example.com")
    yield from (mail(body) for body in (None, 5, True, ["x"], {"text": "x"}))
    yield from (
        mail(body) for body in ("@here now", "/merge", "deploy it", "--flag", "/etc/passwd")
    )
    yield mail("AKIA" + "IOSFODNN7EXAMPLE")
    yield mail("safe\u202etxt")
    yield without(mail(), "body")
    yield without(mail(), "subject")
    yield from (replace(mail(), tool=name) for name in ("send_mail", "sendemail", "send_email2"))
    yield with_more(mail(), payload={"to": "ben@example.com"})
    yield with_more(mail(), **elsewhere(host="build-2"))
    yield with_more(mail(), **elsewhere(files={"/etc/passwd": "0" * 64}))
    yield with_more(mail(), roles={"body": "action"})


def files() -> Iterator[Attempt]:
    """Yield changes of files near that of the notes."""
    for path in (
        "/srv/app/notes.txt/x", "/srv/app/notes.txt/../x", "/srv/app/./notes.txt", "/srv/app/notes",
        "notes.txt", "/srv/app//notes.txt", "~/notes.txt", "file:///srv/app/notes.txt",
        "/srv/app/Notes.txt", "/srv/app/.env", "/srv/app/.git/config", "/srv/other/notes.txt",
    ):  # fmt: skip
        yield write(path=path)
    yield write(mode="append")
    yield write(target="/etc/passwd")
    yield write(content=["x"])
    yield without(write(), "content")
    yield with_more(write(), **elsewhere(files={"/etc/passwd": "0" * 64}))
    yield replace(write(), tool="edit_file")
    yield replace(write(), tool="delete_file")


def others() -> Iterator[Attempt]:
    """Yield calls near the rest of the plan."""
    yield from (
        bash(text) for text in ("make docs; id", "make test", "make docs ", ["make", "docs"])
    )
    yield bash(run_in_background=True)
    yield bash(timeout=9)
    yield bash(dangerouslyDisableSandbox=True)
    yield bash(cwd="/")
    yield bash(description=["x"])
    yield without(bash(), "description")
    yield with_more(bash(), **elsewhere(env={"A": "1"}))
    for amount in (5.5, 6, "5", -5, [5], True, None):
        yield Attempt("pay", {"to": "ana", "amount": amount})
    yield Attempt("pay", {"to": "ana"})
    yield Attempt("pay", {"to": "ana", "amount": 5, "currency": "USD"})
    yield Attempt("pay", {"amount": 5, "to": "ana", "": ""})
    yield Attempt("note", {"book": "b2", "text": "x"})
    yield Attempt("note", {"book": "b1", "text": "x", "title": "y"})
    yield Attempt("note", {"book": ["b1"], "text": "x"})
    yield Attempt("note", {"book": "b1", "text": {"x": "y"}})
    yield Attempt("plan", {"calls": [{"tool": "shell", "arguments": {}}]})
    yield Attempt("exec", {"tool": "shell", "arguments": {"command": "make test"}})
    question = (Question(id="a", text="b"),)
    yield Attempt("shell", {"command": "make test"}, {"kind": Kind.QUESTION, "questions": question})


ATTEMPTS = [*commands(), *messages(), *files(), *others()]


async def start(world: World) -> None:
    """Have ann approve the plan."""
    await world.put(tools=(ToolRow(name="note", harmless=False, arguments={"text": "data"}),))
    await planned(world, *LINES)


async def submit(world: World, attempt: Attempt) -> Any:
    """Submit an attempt where the plan was made, unless it says otherwise."""
    members = {"context": HERE, **attempt.more}
    return await world.submit(tool=attempt.tool, arguments=attempt.arguments, **members)


def test_there_are_a_hundred() -> None:
    """Each another one."""
    assert len({repr(one) for one in ATTEMPTS}) == len(ATTEMPTS) >= 100


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=range(len(ATTEMPTS)))
async def test_nothing_gets_through_that_the_plan_does_not_name(
    world: World, attempt: Attempt
) -> None:
    """People are asked, and no use is counted."""
    await start(world)
    assert (await submit(world, attempt)).status is Status.PENDING
    assert not any(one.used for one in (await grants(world)).values())


async def test_what_the_plan_names_gets_through(world: World) -> None:
    """So that the attempts fail for what they are, and not for how they are asked."""
    await start(world)
    near = (
        shell("make test"),
        mail(),
        mail("Another text."),
        write(),
        write(content="a\nb"),
        bash(),
    )
    named = (
        Attempt("pay", {"amount": 5, "to": "ana"}),
        Attempt("note", {"book": "b1", "text": "x"}),
    )
    origin = Origin(channel="slack", sender="U1")
    for attempt in (*near, *named, with_more(mail(), hint="said so", turn="7", origin=origin)):
        assert (await submit(world, attempt)).status is Status.APPROVED
