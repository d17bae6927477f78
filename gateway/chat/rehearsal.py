"""Test a chat for `gateway doctor --live` with sample requests, changes and actions of the
operator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from gateway.models import (
    Action,
    ApprovalRequest,
    FieldKind,
    Kind,
    Option,
    Question,
    Risk,
    RiskLevel,
    Status,
)
from gateway.ports import (
    Finding,
    LiveTrial,
    StoredRequest,
    report_doubt,
    report_failure,
    report_ok,
)

COPY, SAMPLE_ID = "rehearsal", "0" * 32
ACT_SECONDS = 90.0
_MOST_TOLD, _LONGEST = 5, 60
Act = Callable[[], Awaitable[Awaitable[object]]]
"""Waits for an action of the operator; the result answers it when awaited."""
T = TypeVar("T")
_CHOICES = (FieldKind.CHOICE, FieldKind.CHOICES)


def build_sample(*, long: bool = False, **details: Any) -> StoredRequest:
    """Return a sample request with markup that a chat must not interpret."""
    command = "echo '<!channel> <@U0> *bold* ```fence``` <https://example.com|here>' 😀\n"
    values: dict[str, Any] = {
        "kind": Kind.COMMAND,
        "arguments": {"command": command * (200 if long else 1)},
        "allowed": (Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT),
        **details,
    }
    request = ApprovalRequest(
        id=SAMPLE_ID,
        agent="doctor",
        tool="this is a sample; nothing runs",
        digest="0" * 64,
        hint="This is a test message from `gateway doctor --live`. It will be deleted at once.",
        **values,
    )
    return StoredRequest(
        request=request,
        status=Status.PENDING,
        revision=1,
        shown_since=1,
        digest=request.digest,
        created=0,
        deadline=0,
        route="default",
        risk=Risk(level=RiskLevel.LOW),
    )


def build_samples() -> tuple[StoredRequest, ...]:
    """Return one sample for each kind of card, from a plain one to a form."""
    plain, options = build_sample(), (Option(value="one"), Option(value="two"))
    risk = Risk(level=RiskLevel.HIGH, reasons=("a sample of a reason",))
    high = replace(plain, risk=risk, findings=("a sample of what was found",), quorum=2)
    asked = [Question(id=kind, text=f"A {kind}?", kind=kind, options=options) for kind in _CHOICES]
    answers, asks = (Action.ANSWER, Action.DENY), (*asked, Question(id="why", text="Why?"))
    question = build_sample(kind=Kind.QUESTION, arguments={}, questions=asks, allowed=answers)
    return plain, build_sample(long=True), high, question


def end_sample(record: StoredRequest) -> StoredRequest:
    """Return the sample as cancelled."""
    return replace(record, status=Status.CANCELLED, revision=2)


def find_changes(sent: Any, got: Any, path: str = "") -> Iterator[str]:
    """Yield the differences between the message that was sent and the one that the platform
    returned. Members that the platform added, and the addresses of files, do not count."""
    if isinstance(sent, dict) and isinstance(got, dict):
        for name, value in sent.items():
            yield from find_changes(value, got.get(name), f"{path}.{name}" if path else name)
    elif isinstance(sent, list) and isinstance(got, list) and len(sent) == len(got):
        for number, (one, other) in enumerate(zip(sent, got, strict=True)):
            yield from find_changes(one, other, f"{path}[{number}]")
    elif (sent or None) != (got or None) and not str(sent).startswith("attachment://"):
        pairs = zip(str(sent), str(got), strict=False)
        at = next((at for at, (one, other) in enumerate(pairs) if one != other), 0)
        begin = max(0, at - _LONGEST // 2)
        before, after = (repr(str(one)[begin : begin + _LONGEST]) for one in (sent, got))
        yield f"{path} from {before} to {after}"


@asynccontextmanager
async def shown(
    post: Coroutine[Any, Any, T], delete: Callable[[T], Awaitable[object]]
) -> AsyncIterator[T]:
    """Post a message, yield it, and delete it afterwards, even after an interruption."""
    posting = asyncio.ensure_future(post)
    try:
        yield await asyncio.shield(posting)
    finally:
        await delete(await posting)


def report_changes(what: str, changes: Sequence[str]) -> Finding:
    """Return a finding on whether a platform returned everything as it was sent."""
    if not changes:
        return report_ok(f"{what}: the platform returned everything as sent")
    more = f"; {len(changes) - _MOST_TOLD} more" if len(changes) > _MOST_TOLD else ""
    said = f"{what}: changed {'; '.join(changes[:_MOST_TOLD])}{more}"
    return report_doubt(said, "report this as a bug, with the file from --record")


async def run_steps(*steps: Callable[[], Awaitable[Finding]]) -> list[Finding]:
    """Run the steps and return a finding for each. A failed step does not stop the others."""
    found = []
    for step in steps:
        try:
            found.append(await step())
        except Exception as error:  # a platform's library may raise anything
            remedy = "if all other checks pass, report this as a bug, with this sentence"
            found.append(report_failure(f"with you: {str(error) or type(error).__name__}", remedy))
    return found


async def ask(trial: LiveTrial, acts: Sequence[tuple[str, Act]]) -> Finding:
    """Ask the operator for one action after another, and report how long each response took."""
    clock, wrong = asyncio.get_running_loop().time, []
    for asked, act in acts:
        trial.say(f"→ {asked}")
        try:
            async with asyncio.timeout(ACT_SECONDS):
                answer = await act()
                began = clock()
                await answer
            trial.say(f"  ✓ answered in {(clock() - began) * 1000:.0f} ms")
        except Exception as error:  # as above
            late = isinstance(error, TimeoutError)
            why = f"no click arrived within {ACT_SECONDS:.0f} s" if late else str(error)
            trial.say(f"  ✗ {why}")
            wrong.append(f"{asked} ({why})")
    if wrong:
        remedy = "stop every other gateway that uses these tokens, and try again"
        return report_failure(f"{len(wrong)} of {len(acts)} acts: {'; '.join(wrong)}", remedy)
    return report_ok(f"{len(acts)} actions arrived and were answered")
