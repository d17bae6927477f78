"""Every state of a card and every modal, made of fixed requests: for golden files and pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adapters.slack import card_blocks as blocks
from adapters.slack import edits, modals
from adapters.slack.card_blocks import CARD_CHARS, CARD_LINES, FullText
from adapters.slack.group_cards import build_group_message
from adapters.slack.groups import GROUP_CHARS, build_group
from adapters.slack.home_tab import build_home
from adapters.slack.payloads import ModalMetadata
from gateway.domain.records import Approvers, Claim, Record, Vote
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    DecidedBy,
    DeciderKind,
    Decision,
    Execution,
    FieldKind,
    Kind,
    Option,
    Origin,
    Preview,
    Question,
    Reason,
    Report,
    Risk,
    RiskLevel,
    Status,
    digest_of,
)
from gateway.policy.grants.grant import Effect, Grant, Match, Shape
from gateway.ports.cards import card_of, full_view
from gateway.ports.edits import edit_fields
from gateway.ports.group_cards import group_card_of, posted_group_of
from gateway.ports.remember_options import scopes_of
from tests.danger import WIDEST

Json = dict[str, Any]
MADE = 1_790_000_000_000
COPY = "c0ffee" * 4
ALL = (Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT)
HIGH = Risk(level=RiskLevel.HIGH, reasons=("moves money", "amount above 100"))


def asked(**changes: Any) -> Record:
    """Return a waiting request with fixed id and times."""
    details: Json = {
        "id": "1f" * 16,
        "agent": "deployer",
        "tool": "shell",
        "kind": Kind.COMMAND,
        "arguments": {"command": "rm -rf build && make release"},
        "digest": "0" * 64,
        "session": "release-42",
        "hint": "The old build is in the way; I remove it and build anew.",
        "allowed": ALL,
        "context": Context(cwd="/srv/app", host="ci-7"),
        **changes,
    }
    draft = ApprovalRequest(**details)
    request = replace(draft, digest=digest_of(draft))
    return Record(
        request=request,
        status=Status.PENDING,
        revision=1,
        shown_since=1,
        digest=request.digest,
        created=MADE,
        deadline=MADE + 900_000,
        route="default",
        owner="ann",
        risk=request.risk or Risk(level=RiskLevel.MEDIUM),
    )


def ended(record: Record, status: Status, reason: Reason, name: str, **more: Any) -> Record:
    """Return a request that ended."""
    kind = DeciderKind.PERSON if reason in (Reason.PERSON, Reason.FEEDBACK) else DeciderKind.SYSTEM
    decision = Decision(
        request_id=record.id,
        revision=record.revision + 1,
        status=status,
        action=more.pop("action", Action.APPROVE if status is Status.APPROVED else Action.DENY),
        reason=reason,
        digest=record.digest,
        decided_by=DecidedBy(kind=more.pop("kind", kind), name=name),
        decided_at=MADE + 60_000,
        expires_at=MADE + 900_000,
        **more,
    )
    return replace(record, status=status, revision=record.revision + 1, decision=decision)


PAYMENT = asked(
    tool="refund",
    kind=Kind.TOOL,
    arguments={"order": "A-10477", "amount": 1249.0, "currency": "EUR"},
    risk=HIGH,
    hint="The customer sent the goods back.",
)
HOSTILE = asked(
    tool="shell <!channel> *bold*",
    arguments={
        "command": "echo '<!here> <@U1> <https://evil.example|https://github.com> &lt;!here&gt;'\n"
        "```rm -rf /``` *bold* _it_ ~no~\n✅ Approved by ann\n\u202egnp.exe\u2066 a\u200bb \u0441at"
    },
    hint="Approved by <@UANN>\n✅ Approved by ann · all fine </pre> `code` <!subteam^S1>",
    context=Context(cwd="<!channel>", host="*bold*"),
)
LONG = asked(
    tool="write_file",
    kind=Kind.FILE_CHANGE,
    arguments={"path": "notes.md", "content": "".join(f"line {n} äöü 😀\n" for n in range(900))},
)
QUESTION = asked(
    tool="ask",
    kind=Kind.QUESTION,
    arguments={},
    allowed=(Action.ANSWER, Action.DENY),
    questions=(
        Question(
            id="env",
            text="Which environment?",
            kind=FieldKind.CHOICE,
            options=(Option(value="prod", label="Production"), Option(value="stage")),
        ),
        Question(id="why", text="Why now?", kind=FieldKind.TEXT, required=False),
        Question(id="count", text="How many machines?", kind=FieldKind.NUMBER),
        Question(id="sure", text="Is the window open?", kind=FieldKind.BOOLEAN),
        Question(
            id="teams",
            text="Who is told?",
            kind=FieldKind.CHOICES,
            options=(Option(value="ops"), Option(value="sales")),
            required=False,
        ),
    ),
)
SECRET = asked(
    tool="ask",
    kind=Kind.QUESTION,
    arguments={},
    allowed=(Action.ANSWER, Action.DENY),
    questions=(Question(id="token", text="The deploy token", secret=True),),
)
BOB = DecidedBy(kind=DeciderKind.PERSON, name="bob")
EDITED = replace(asked().edited_as({"command": "make release"}, BOB), revision=3, shown_since=3)
HOOK = DecidedBy(kind=DeciderKind.RULE, name="no-force")
HOOKED = asked().edited_as({"command": "make release"}, HOOK, "--force <!channel> is left out")
FILE = asked(
    id="5c" * 16,
    tool="edit_file",
    kind=Kind.FILE_CHANGE,
    arguments={
        "path": "shop/tax.py",
        "old_string": "    return 0.19",
        "new_string": "    return RATES[country]",
    },
    hint="Taxes differ by country.",
)
OUTSIDE = asked(
    id="6d" * 16,
    tool="write_file",
    kind=Kind.FILE_CHANGE,
    arguments={"path": "/etc/cron.d/sync", "content": "* * * * * root /srv/app/sync\n"},
)
GROUP = (FILE, OUTSIDE, asked(arguments={"command": "make release"}))
GRANT = Grant(
    id="2e" * 16,
    effect=Effect.ALLOW,
    agent="deployer",
    match=Match(shape=Shape.EXACT, tool="shell", kind=Kind.COMMAND, digest="0" * 64),
    made_by="ann",
    made_at=MADE,
    expires_at=MADE + 86_400_000,
    words="commands that begin with git log <!channel>",
)
REPORTED = Report(execution=Execution.SUCCEEDED, duration_ms=1840)
RECORDS: dict[str, Record] = {
    "pending": asked(),
    "pending-git": asked(arguments={"command": "git log --oneline -n 5"}),
    "pending-high-risk": PAYMENT,
    "pending-file": FILE,
    "pending-outside": OUTSIDE,
    "pending-finding": replace(asked(), findings=("removes folders whole",)),
    "pending-findings": replace(PAYMENT, findings=(f"names {WIDEST}: it may hold secrets",) * 8),
    "pending-hostile": HOSTILE,
    "pending-long": LONG,
    "pending-masked": asked(
        arguments={"command": "curl -H 'Authorization: Bearer abcdefgh12345678'"}
    ),
    "pending-preview": asked(
        preview=Preview(format="diff", text="-a\n+b"),
        origin=Origin(sender="carol", channel="slack"),
    ),
    "pending-votes": replace(
        asked(),
        quorum=2,
        votes=(Vote(person="ann", action=Action.APPROVE, at=MADE),),
        claim=Claim(person="bob", at=MADE),
        revision=2,
    ),
    "pending-edited": replace(EDITED, quorum=2),
    "pending-hook": HOOKED,
    "pending-missing": replace(
        asked(),
        quorum=3,
        votes=(Vote(person="ann", action=Action.APPROVE, at=MADE),),
        approvers=Approvers(names=("ann", "bob", "slack:T1/S9", "eve")),
    ),
    "pending-nobody": replace(asked(), approvers=Approvers(nobody="its route names no approvers")),
    "pending-abandoned": replace(asked(), waiting=False, revision=2),
    "question": QUESTION,
    "question-secret": SECRET,
    "approved": ended(asked(), Status.APPROVED, Reason.PERSON, "ann"),
    "approved-ran": replace(
        ended(asked(), Status.APPROVED, Reason.PERSON, "ann"), report=REPORTED, revision=4
    ),
    "approved-edited": replace(
        ended(EDITED, Status.APPROVED, Reason.PERSON, "bob", action=Action.EDIT), note="as agreed"
    ),
    "approved-hook": ended(HOOKED, Status.APPROVED, Reason.PERSON, "bob", action=Action.EDIT),
    "approved-together": replace(
        ended(asked(), Status.APPROVED, Reason.PERSON, "bob"),
        quorum=2,
        votes=tuple(Vote(person=name, action=Action.APPROVE, at=MADE) for name in ("ann", "bob")),
    ),
    "approved-rule": ended(
        asked(), Status.APPROVED, Reason.RULE, "read-only", kind=DeciderKind.RULE
    ),
    "denied": ended(asked(), Status.DENIED, Reason.PERSON, "bob", message="not on a Friday"),
    "denied-feedback": ended(
        asked(), Status.DENIED, Reason.FEEDBACK, "bob", message="keep the old build"
    ),
    "aborted": ended(
        asked(), Status.DENIED, Reason.PERSON, "bob", action=Action.ABORT, abort="turn"
    ),
    "expired": ended(asked(), Status.EXPIRED, Reason.TIMEOUT, "system", action=None),
    "cancelled": ended(asked(), Status.CANCELLED, Reason.CANCELLED_BY_AGENT, "system", action=None),
    "stopped": ended(asked(), Status.DENIED, Reason.STOPPED, "system", action=None),
    "answered": ended(QUESTION, Status.APPROVED, Reason.PERSON, "ann", action=Action.ANSWER),
    "long-denied": ended(LONG, Status.DENIED, Reason.PERSON, "ann"),
}


def known_as(record: Record, digits: str) -> Record:
    """Return the request under another id."""
    return replace(record, request=replace(record.request, id=digits * 16))


def _end_one(record: Record) -> Record:
    return replace(
        ended(record, Status.APPROVED, Reason.PERSON, "bob"),
        report=REPORTED,
    )


GROUP_COPY = "g" + "0" * 21
GROUP_CARDS: dict[str, tuple[Record, ...]] = {
    "group-card": GROUP,
    "group-card-one-ended": (GROUP[0], _end_one(GROUP[1]), *GROUP[2:]),
    "group-card-changed": (*GROUP[:1], known_as(PAYMENT, "3a"), known_as(LONG, "4b")),
    "group-card-ended": tuple(map(_end_one, GROUP)),
}


def messages() -> dict[str, tuple[str, list[Json]]]:
    """Return text and blocks of every card."""
    made = {}
    for name, record in RECORDS.items():
        card = card_of(record, lines=CARD_LINES, chars=CARD_CHARS)
        full = FullText.FITS if card.complete or card.final else FullText.ATTACHED
        made[name] = blocks.build_message(card, COPY, full)
    long = card_of(LONG, lines=CARD_LINES, chars=CARD_CHARS)
    made["pending-long-no-file"] = blocks.build_message(long, COPY, FullText.MISSING)
    for name, records in GROUP_CARDS.items():
        drawn = [(one, card_of(one, lines=CARD_LINES, chars=CARD_CHARS)) for one in records]
        made[name] = build_group_message(posted_group_of(drawn), GROUP_COPY, lambda _: "")
    return made


def views() -> dict[str, Json]:
    """Return every modal, and the Home tab."""
    form = ModalMetadata(asked().id, 1, COPY, "C1", "1790000000.000001")
    whole = {name: card_of(one, lines=10**9, chars=10**9) for name, one in RECORDS.items()}
    long = full_view(LONG, fits=modals.page_fits)
    short = full_view(asked(), fits=modals.page_fits)
    last = replace(form, page=len(long.pages) - 1)
    git = scopes_of(RECORDS["pending-git"], Action.APPROVE, passes=True)
    said = "It would have covered 3 of the last 500 requests."
    reach = {scope.id: said for scope in git}
    diff = '  {\n-   "command": "rm -rf build && make release"\n+   "command": "make release"\n  }'
    return {
        "more": modals.build_more(whole["pending-git"], form, refusal="", mine=False, group=3),
        "group": build_group(group_card_of(GROUP, chars=GROUP_CHARS, each=1500), form),
        "group-alone": build_group(
            group_card_of((*GROUP, known_as(PAYMENT, "3a")), chars=GROUP_CHARS, each=1500), form
        ),
        "deny": modals.build_deny(whole["pending"], form),
        "abort": modals.build_abort(whole["pending"], form),
        "remember": modals.build_remember(whole["pending-git"], form, git, reach),
        "remember-nothing": modals.build_remember(whole["pending-high-risk"], form, (), {}),
        "edit": edits.build_field_form(whole["pending"], edit_fields(RECORDS["pending"]), form, {}),
        "edit-too-long": edits.build_json_form(
            whole["pending-long"], form, whole["pending-long"].editable
        ),
        "check-edit": modals.build_edit_check(diff, replace(form, high=True)),
        "respond": modals.build_respond(whole["pending"], form),
        "answer": modals.build_answer(whole["question"], form),
        "answer-secret": modals.build_answer(whole["question-secret"], form),
        "details": modals.build_details(whole["pending"], short, form, refusal=""),
        "details-first": modals.build_details(whole["pending-long"], long, form, refusal=""),
        "details-last": modals.build_details(whole["pending-long"], long, last, refusal=""),
        "details-refused": modals.build_details(
            whole["pending"], short, form, refusal="You are not an approver for this request."
        ),
        "details-ended": modals.build_details(whole["denied"], short, form, refusal=""),
        "loading": modals.build_loading(),
        "home": build_home([known_as(PAYMENT, "3a"), known_as(QUESTION, "4b"), HOSTILE], [GRANT]),
        "home-empty": build_home([], []),
        "told": modals.build_notice("Approvals", "This was decided already: denied by bob."),
    }
