"""How far a grant would have reached."""

from dataclasses import replace

from gateway.domain.records import StoredRequest
from gateway.models import DecidedBy, DeciderKind, Decision, Reason, Status
from gateway.policy.grants.coverage import blast
from tests.grants.making import command, offer_of
from tests.world import AGENT


def decided(record: StoredRequest, status: Status, reason: Reason = Reason.PERSON) -> StoredRequest:
    """Return the record with a decision."""
    decision = Decision(
        request_id=record.id,
        revision=2,
        status=status,
        action=None,
        reason=reason,
        digest=record.digest,
        decided_by=DecidedBy(kind=DeciderKind.PERSON, name="ann"),
        decided_at=1,
        expires_at=2,
    )
    return replace(record, status=status, decision=decision)


def test_it_counts_what_would_have_been_covered_and_what_people_said() -> None:
    """Denials by people stand out; rules and other agents' requests are no people's votes."""
    recent = [
        decided(command("ls"), Status.APPROVED),
        decided(command("ls -l"), Status.DENIED),
        decided(command("ls -a"), Status.DENIED, Reason.FEEDBACK),
        decided(command("ls -R"), Status.APPROVED, Reason.RULE),
        decided(command("rm x"), Status.DENIED),
        command("ls src"),
    ]
    found = blast(offer_of(command("ls")).match, AGENT, recent)
    assert (found.looked_at, found.covered, found.approved, found.denied) == (6, 5, 1, 2)
    assert "5 of the last 6 requests" in found.words()
    assert blast(offer_of(command("ls")).match, "other", recent).looked_at == 0


def test_an_edited_request_counts_as_it_was_asked() -> None:
    """What a person made of it says nothing about what the agent would do next."""
    edited = replace(decided(command("ls"), Status.APPROVED), edited={"command": "rm x"})
    assert blast(offer_of(command("ls")).match, AGENT, [edited]).covered == 1


def test_an_erased_request_says_nothing() -> None:
    """Without its arguments nobody can tell."""
    gone = replace(decided(command("ls"), Status.APPROVED), erased=True)
    assert blast(offer_of(command("ls")).match, AGENT, [gone]).looked_at == 0
