"""What an agent reads of a request that gave no leave: true, and whole in its text alone."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from itertools import product

import pytest

from gateway.client.approval import exception_for, local_expiry
from gateway.errors import (
    Aborted,
    AlreadyUsed,
    BatchRefused,
    Cancelled,
    Denied,
    Expired,
    NotApproved,
    Pending,
)
from gateway.models import DecidedBy, DeciderKind, Decision, Reason, Status
from tests.world import request

SAYS = {
    Denied: r"denied|another plan",
    Aborted: r"(denied|another plan).*the (turn|agent) must stop",
    Expired: r"expired",
    Cancelled: r"cancelled",
    AlreadyUsed: r"already used.*may have run already.*check what happened",
}
"""What the text of each class must say, whatever else it says."""

BY_STATUS = {
    Status.APPROVED: (Reason.PERSON, Reason.GRANT, Reason.RULE, Reason.HOOK),
    Status.DENIED: (
        Reason.PERSON,
        Reason.FEEDBACK,
        Reason.GRANT,
        Reason.RULE,
        Reason.HOOK,
        Reason.UNDELIVERABLE,
        Reason.STOPPED,
        Reason.BREAKER,
        Reason.WRONG_NUMBER,
    ),
    Status.EXPIRED: (Reason.TIMEOUT,),
    Status.CANCELLED: (
        Reason.CANCELLED_BY_AGENT,
        Reason.CANCELLED_BY_OPERATOR,
        Reason.ABANDONED,
        Reason.SUPERSEDED,
        Reason.RESOLVED_ELSEWHERE,
    ),
}


def classes(above: type[NotApproved] = NotApproved) -> Iterator[type[NotApproved]]:
    """Yield every way to end without leave, from the tree of classes."""
    for kind in above.__subclasses__():
        yield kind
        yield from classes(kind)


def decision(status: Status, reason: Reason | str, **more: str | None) -> Decision:
    """Return a decision of bob's, or of something that is called so."""
    return Decision(
        request_id="0" * 32,
        revision=2,
        status=status,
        action=None,
        reason=reason,  # type: ignore[arg-type]  # a newer gateway's
        digest="0" * 64,
        decided_by=DecidedBy(kind=DeciderKind.PERSON, name="bob"),
        decided_at=1,
        expires_at=2,
        **more,  # type: ignore[arg-type]
    )


def endings() -> Iterator[NotApproved]:
    """Yield each class with every decision that it can come with, with words and without, and with
    a reason that only a newer gateway knows."""
    for status, message in product(BY_STATUS, ("", "not on a Friday")):
        for reason in (*BY_STATUS[status], "of_next_year"):
            told = decision(status, reason, message=message)
            if status is Status.APPROVED:
                yield AlreadyUsed(told)
                continue
            yield exception_for(told)
            if status is Status.DENIED:
                for abort in ("turn", "agent"):
                    yield exception_for(decision(status, reason, message=message, abort=abort))
    yield Expired(local_expiry(request()))


ENDINGS = tuple(endings())


def test_every_class_and_every_reason_is_looked_at() -> None:
    """A new class, status or reason needs its words here."""
    assert set(classes()) == set(SAYS) == {type(error) for error in ENDINGS}
    assert set(BY_STATUS) == set(Status) - {Status.PENDING}
    assert {one for many in BY_STATUS.values() for one in many} == set(Reason)


@pytest.mark.parametrize("error", ENDINGS, ids=lambda one: type(one).__name__)
def test_the_text_alone_says_why_nothing_ran(error: NotApproved) -> None:
    """Put after "not deleted:", as agents do, none reads as leave, and each says what it is; also
    when it comes out of a pickle."""
    for told in (error, pickle.loads(pickle.dumps(error))):
        text = str(told)
        assert re.search(SAYS[type(error)], text), text
        assert not text.startswith("approved")
        assert ("approved" in text) is isinstance(error, AlreadyUsed)
        if error.decision.message:
            assert error.decision.message in text


def test_who_approved_what_was_used_is_said() -> None:
    """And that it is neither done nor denied, for a model that reads nothing else."""
    text = str(AlreadyUsed(decision(Status.APPROVED, Reason.PERSON)))
    assert "this approval was already used (approved by bob)" in text
    assert "may have run" in text


def test_what_still_waits_says_so() -> None:
    """`Pending` is no ending: it names the request, and says that there is no answer."""
    asked = request()
    assert str(Pending(asked)) == f"request {asked.id} is still pending"


def test_a_reason_that_many_share_is_said_once() -> None:
    """A refused batch says how many requests a reason is about; one alone is named."""
    reasons = {"a" * 32: "it ended", "b" * 32: "it ended", "c" * 32: "not yours"}
    said = "nothing was decided; 2 requests: it ended; cccccccc: not yours"
    assert str(BatchRefused(reasons)) == said
