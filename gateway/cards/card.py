"""Build the card of a request in one way for all platforms. Start reading at `card_of`.

Adapters convert a card to their platform's format and add nothing. Everything in a card is either
the gateway's words or `Visible` text, with deceptive characters escaped and secrets masked. Each
adapter still has to escape its platform's markup and mentions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from typing import Any

from gateway.cards.blocks import (
    Block,
    Change,
    Fits,
    blocks_of,
    call_name,
    changes,
    cut,
    headline,
    paginate,
    pretty,
    quote_name,
    same,
    short_warnings,
    warnings,
    why_asked,
)
from gateway.cards.command_summary import CallSummary
from gateway.cards.masks import HIDDEN, NEEDS_ALL_SEEN, MaskProofs
from gateway.cards.remember_options import may_remember, say_undeclared, wishes
from gateway.cards.shared_texts import (
    NO_LINK,
    SECRET_ASKED,
    ApprovalProgress,
    say_name,
    standing_of,
)
from gateway.cards.summary import discreet_notice, notice_of, plain_summary, summarize
from gateway.domain.records import Edit, StoredRequest, describe_duplicates, told_outcome
from gateway.domain.redaction import render_safe, start_of
from gateway.domain.risk import MOST_GUESSES, StepUp, finding_sign, say_ways
from gateway.domain.safe_text import Segment, Visible, ascii_escaped
from gateway.models import (
    KIND_WORDS,
    Action,
    DeciderKind,
    Execution,
    FieldKind,
    Kind,
    Origin,
    Question,
    Reason,
    RiskLevel,
    Status,
)
from gateway.policy.grants.offers import kept_words
from gateway.wire.codec import JsonObject
from gateway.wire.outcome_text import join_names, say_unverified

# The notices of a card: masks, edits, an agent that is gone, the step-up that approving requires.
#
# The inbox shows some of these with the state and the controls instead.

_NOBODY_WAITS = "The agent stopped waiting. "
_STRIKE = "A high-risk plan cannot be approved. Edit it and remove the lines that raise the risk."
_EACH_TIME = "Lines with a finding still require approval for each call."
_COMES_BACK = "If the agent asks again, it gets your decision."


def _say_edited(record: StoredRequest) -> str:
    """Return a sentence on what a person's edit of a pending request means; "" if nobody edited
    it."""
    if record.edited is None or record.final:
        return ""
    if record.editors and all(one.by.kind is not DeciderKind.PERSON for one in record.editors):
        return ""
    return f"Approvals from before the change no longer count.{_say_handed_on(record)}"


def _say_handed_on(record: StoredRequest) -> str:
    """Return a sentence on who must approve a request if the person who last edited it may not;
    else ""."""
    may, last = record.approvers, record.editors[-1:]
    if may is None or not may.names or record.votes or not last:
        return ""
    by = last[0].by
    if by.kind is not DeciderKind.PERSON or by.name in may.names:
        return ""
    return (
        f" {by.name} may not approve this version, which is of {record.risk.level} risk. "
        f"It needs {join_names(tuple(dict.fromkeys(map(say_name, may.names))), 'or')}."
    )


def list_notices(
    record: StoredRequest,
    whole: Sequence[Block],
    tool: Visible,
    standing: ApprovalProgress,
    *,
    hides: bool,
    here: bool,
) -> tuple[str, ...]:
    """Return a card's warnings, the most important first. `here` means that the card is in the
    inbox."""
    request = record.request
    texts = [block.text for block in whole] + [tool, render_safe(request.hint)]
    for question in request.questions:
        texts += [
            render_safe(question.text),
            *(render_safe(o.label or o.value) for o in question.options),
        ]
    masked = sum(block.text.masked for block in whole)
    them = "it" if masked == 1 else "them"
    steps, tries = say_step_up(record)
    gone = _COMES_BACK if here and not standing.nobody else f"{_NOBODY_WAITS}{_COMES_BACK}"
    notices = {
        HIDDEN: hides and not here,
        (nobody := standing.say_nobody(here=here)): nobody,
        "Hidden or reordering characters are shown as escapes.": any(t.hidden for t in texts),
        "Some letters look like others; they are marked.": any(t.mixed_script for t in texts),
        f"{say_masked(masked)}; the inbox can reveal {them}.": masked and not (hides or here),
        gone: not record.waiting and not record.final,
        (edited := _say_edited(record)): edited,
        "Escalated: nobody answered in time.": record.tier > 0 and not record.final,
        f"{steps} {tries}".strip(): steps and not here,
        **{f"{one}.": not record.final for one in record.away},
        _STRIKE: _must_strike(record) and not record.final,
        _EACH_TIME: request.kind is Kind.CALLS and bool(record.findings) and not record.final,
    }
    return (*(text for text, holds in notices.items() if holds), *describe_duplicates(record))


def say_masked(count: int) -> str:
    """Return a sentence on how many secrets are masked."""
    return f"{count} secret{'' if count == 1 else 's'} masked"


def say_step_up(record: StoredRequest, *, here: bool = False) -> tuple[str, str]:
    """Return two sentences: on the step-up that an approval of a pending request requires, and on
    the number of wrong verification codes.

    Each is "" if there is nothing to tell. Both are "" if only more people are needed, because the
    progress counts them. `here` means that the reader is in the inbox.
    """
    may = record.approvers
    if record.final or may is None or may.nobody or not may.step_up:
        return "", ""
    if may.step_up == (StepUp.PERSON,) and record.quorum > 1:
        return "", ""
    tries = f"{record.guesses} of {MOST_GUESSES} wrong numbers typed; the third denies the request."
    takes = f"Approving requires {say_ways(may.step_up, here=here)}."
    return takes, tries if record.guesses else ""


HEADLINE_CHARS = 240
SHORT_ID_CHARS = 8
_WHY_CHARS = 300
TO_ORIGIN = "Open the message the agent names"
_READ = "Have you read all of it?"
_READ_ALL = f"This is high risk. {_READ}"
_MOST_ANSWERS = 300
_MOST_EDITABLE = 200_000  # nobody edits more on a card, and each view would have to escape it


class Tone(StrEnum):
    """The colour of an outcome: approved or answered as intended, denied, approved with a problem
    in the run, or none of these."""

    GOOD = "good"
    REFUSED = "refused"
    TROUBLED = "troubled"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class CardState:
    """The state of a request: an icon, a word, and the colour of its outcome. `idle` means that the
    request is pending, but an approval is not possible or not awaited."""

    icon: str
    word: str
    tone: Tone = Tone.QUIET
    idle: bool = False


class Style(StrEnum):
    """How prominent a control is."""

    PRIMARY = "primary"
    PLAIN = "plain"
    DANGER = "danger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A control that an approver can press. If the action must be confirmed, `confirm` is the whole
    text of the confirmation, with the summary and the findings. `question` is the text without
    these, for platforms that show them next to it. `yes` is the label of the button that confirms.
    If several approvals are needed, the label also counts them.

    With `number`, the person types the verification code that is shown where the agent waits; it
    becomes the click's `number`. With `passkey`, they can use a passkey in the inbox. With
    `optional`, they may use neither, and then a second person must approve too.
    """

    action: Action
    label: str
    yes: str = ""
    style: Style = Style.PLAIN
    confirm: str | None = None
    question: str = ""
    number: bool = False
    passkey: bool = False
    optional: bool = False

    @property
    def by_passkey_alone(self) -> bool:
        """Whether the control requires a passkey, which only the inbox can check."""
        return self.passkey and not self.number and not self.optional


@dataclass(frozen=True, slots=True)
class Fact:
    """A short text with a label."""

    label: str
    text: Visible


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice for a form's field: the value to send, and the text that people read."""

    value: str
    label: Visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a form. A secret field can be answered only in the inbox."""

    id: str
    text: Visible
    kind: FieldKind
    choices: tuple[Choice, ...] = ()
    required: bool = True
    secret: bool = False


@dataclass(frozen=True, slots=True)
class FieldAnswer:
    """One question of a form with its answer, both as people read them.

    If the answer may not or cannot be shown, `given` has no value (None) and `words` says why.
    """

    question: Visible
    given: Visible | None
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One request in its current state, for people.

    `summary` is one sentence on the call, and comes first. `icon` and `word` name the `state`;
    `title` has both, and the tool. `notification` is one line with the agent and the summary.
    `blocks` show the call, as far as it fits; `complete` says that nothing was cut. If something
    was cut, the card has no control to approve: the full view has it. `masked` counts masks. If a
    mask `hides` a value that could act, the card has no control to approve either. The inbox has
    this control, after the mask is revealed. `notices` are warnings in the gateway's words; in the
    inbox (`here`) they leave out facts that the state and the controls show. `findings` come from
    the guardrails, with the agent's paths quoted; `shorts` are their short forms, which are shown
    before the call. With `alarms` the findings raised the risk and are red, else amber.
    `asks_because` says why no grant or rule covered the request. `changed` compares the call with
    the submitted one, `changed_by` says who changed it. `progress` counts the approvals of a quorum
    and names who is missing. `outcome` says who decided and why. `ending` also says this, as the
    first line of a decided card, beginning with the state's word. `short_ending` is that line
    without the answers, for cards that list `answers` below. `result` is the reported outcome of
    the run, and who reported it. `editable` is the text to edit, or None if it may not be shown.
    `calls` lists the people to mention, as identities and groups of the platform. `deciders` lists
    those who decided, as identities of the platform, to be named without a mention. If `ask` is
    false, the card is for requests without cards, or says until when an agent is `paused`. `inbox`
    is the address for actions that the card does not have. `origin` is the address of the message
    that the agent names as the origin, or "". `people` lists the names in the
    gateway's sentences: only these become mentions. A card that `disarms` replaces one with
    outdated buttons, and is sent before other edits. Times are in ms.
    """

    request_id: str
    short_id: str
    revision: int
    status: Status
    kind: Kind
    state: CardState
    tool: Visible
    summary: CallSummary
    notification: str
    headline: Visible
    facts: tuple[Fact, ...]
    risk: RiskLevel
    reasons: tuple[Visible, ...]
    says: Visible | None
    blocks: tuple[Block, ...]
    complete: bool
    hides: bool = False
    masked: int = 0
    size: str
    preview: Block | None
    changed: tuple[Change, ...]
    changed_by: Visible | None = None
    fields: tuple[Field, ...]
    notices: tuple[str, ...]
    progress: str
    claimed: str
    created: int
    deadline: int
    digest: str
    outcome: Visible | None
    decided_at: int | None
    note: Visible | None
    result: Visible | None
    editable: str | None
    controls: tuple[Control, ...]
    ending: Visible | None = None
    short_ending: Visible | None = None
    answers: tuple[FieldAnswer, ...] = ()
    findings: tuple[Visible, ...] = ()
    shorts: tuple[Visible, ...] = ()
    alarms: bool = False
    asks_because: Visible | None = None
    asks: bool = True
    paused: int | None = None
    inbox: str = ""
    origin: str = ""
    people: frozenset[str] = frozenset()
    remembers: frozenset[Action] = frozenset()
    calls: tuple[str, ...] = ()
    deciders: tuple[str, ...] = ()
    disarms: bool = False

    @property
    def title(self) -> str:
        """The card's state and tool, in one line."""
        return f"{self.icon} {self.word} · {self.tool.text}"

    @property
    def icon(self) -> str:
        """The icon of the card's state."""
        return self.state.icon

    @property
    def word(self) -> str:
        """The word for the card's state."""
        return self.state.word

    @property
    def idle(self) -> bool:
        """Whether no approval is possible or awaited, because nobody may approve or the agent is
        gone."""
        return self.state.idle

    @property
    def sign(self) -> str:
        """The sign before each finding: red if the findings raised the risk, else amber."""
        return finding_sign(alarms=self.alarms)

    @property
    def unverified(self) -> str:
        """The warning next to the agent's texts: that they are unverified, or about an earlier
        call."""
        return say_unverified(changed=self.changed_by is not None)

    @property
    def unsaid(self) -> tuple[Field, ...]:
        """The fields of a form, without the first field if the summary shows all of it."""
        said = {part.text.text for part in self.summary if part.named}
        first = bool(self.fields) and self.fields[0].text.text in said
        return self.fields[1:] if first else self.fields

    @property
    def changed_aside(self) -> Visible | None:
        """The person or hook that changed the call; None if the first line of a decided card
        already names them."""
        told = self.ending is not None and self.ending.text.startswith(_BOTH)
        return None if told else self.changed_by

    @property
    def final(self) -> bool:
        """Whether the card's request has nothing left to decide."""
        return not self.asks or self.status is not Status.PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class FullView:
    """The whole call, in pages. `digest` is the request's digest, over the real bytes.

    `undeclared` names the arguments that a grant must fix because nobody declared them.
    """

    pages: tuple[Visible, ...]
    chars: int
    digest: str
    undeclared: Visible | None = None

    @property
    def text(self) -> str:
        """All pages as one text, for an attachment."""
        return "".join(page.text for page in self.pages)


_WORDS = {
    Status.PENDING: ("⏳", "Approval needed"),
    Status.APPROVED: ("✅", "Approved"),
    Status.DENIED: ("❌", "Denied"),
    Status.EXPIRED: ("⌛", "Expired"),
    Status.CANCELLED: ("🚫", "Cancelled"),
}
_REPORTS = {
    Execution.STARTED: "The agent reports that the call is running",
    Execution.SUCCEEDED: "The agent reports that the call ran and succeeded",
    Execution.FAILED: "The agent reports that the call ran and failed",
    Execution.SKIPPED: "The agent reports that the call did not run",
    Execution.REFUSED_LATE: "The agent reports that the call did not run: the approval came too "
    "late",
    Execution.NEVER_FETCHED: "The agent never claimed the approval and can no longer use it",
}
_TIMED = {Execution.SUCCEEDED: "ran for", Execution.FAILED: "failed after"}
_LABELS = {
    Action.APPROVE: ("Approve", Style.PRIMARY),
    Action.EDIT: ("Edit", Style.PLAIN),
    Action.RESPOND: ("Respond instead", Style.PLAIN),
    Action.ANSWER: ("Answer", Style.PRIMARY),
    Action.DENY: ("Deny", Style.DANGER),
    Action.ABORT: ("Deny and stop", Style.DANGER),
}
_BOTH = "Changed and approved"
_NOT_RUN_BUT = "not run: answered instead"
_DONE = {Action.EDIT: "Approved with changes", Action.RESPOND: "Not run: answered instead"}
_ANSWERED, _TROUBLED = "💬", "⚠️"
_NOT_RUN = frozenset(
    (Execution.FAILED, Execution.SKIPPED, Execution.REFUSED_LATE, Execution.NEVER_FETCHED)
)
"""Reports that an approved call did not run well."""


def card_of(
    record: StoredRequest, *, lines: int, chars: int, reveal: bool = False,
    proofs: MaskProofs | None = None, reader: str = "", here: bool = False,
) -> Card:  # fmt: skip
    """Return a request's card for one `reader`, or for many; `proofs` caches mask checks."""
    blocks = cut(whole := blocks_of(record, reveal=reveal), lines=lines, chars=chars)
    complete = same(blocks, whole)
    hidden = not reveal and not record.final and (proofs or MaskProofs()).hides(record)
    tool, summary, standing = (
        _name_tool(record, reveal),
        summarize(record),
        standing_of(record, reader),
    )
    return Card(
        request_id=record.id,
        short_id=record.id[:SHORT_ID_CHARS],
        revision=record.revision,
        status=record.status,
        kind=record.request.kind,
        state=state_of(record),
        tool=tool,
        summary=summary,
        notification=notice_of(record, _end_word(record)),
        headline=headline(record, HEADLINE_CHARS),
        facts=_facts(record, reveal=reveal),
        risk=record.risk.level,
        reasons=tuple(record.show(reason) for reason in record.risk.reasons),
        says=record.show(record.request.hint) if record.request.hint else None,
        blocks=tuple(blocks),
        complete=complete,
        hides=hidden,
        size=_size(blocks, whole),
        preview=_preview(record, lines, chars),
        changed=() if record.edited is None else changes(record.request.arguments, record.edited),
        changed_by=_say_changed_by(record),
        fields=_fields(record),
        notices=list_notices(record, whole, tool, standing, hides=hidden, here=here),
        masked=sum(block.text.masked for block in whole),
        progress=progress_of(record, standing),
        claimed=f"{say_name(record.claim.person)} is looking at it" if record.claim else "",
        created=record.created,
        deadline=record.deadline,
        digest=record.digest,
        outcome=_outcome(record),
        ending=_say_ending(record),
        short_ending=_say_ending(record, answers=False),
        answers=_list_answers(record, max(chars, _MOST_ANSWERS)),
        decided_at=record.decision.decided_at if record.decision else None,
        note=record.show(record.note) if record.note else None,
        result=_result(record),
        editable=_editable(record, reveal=reveal),
        controls=_controls(record, summary, standing, seen=complete and not hidden),
        people=_people(record),
        findings=warnings(record),
        shorts=short_warnings(record, blocks),
        alarms=record.alarms,
        asks_because=why_asked(record),
        remembers=frozenset() if hidden else _remembers(record, standing, complete=complete),
    )


def _name_tool(record: StoredRequest, reveal: bool) -> Visible:
    return call_name(record.request.tool, reveal=reveal)


def discreet_notification(record: StoredRequest) -> str:
    """Return a notification that does not describe the call."""
    return discreet_notice(record.request.agent, _end_word(record), record.risk.level)


def _end_word(record: StoredRequest) -> str:
    return state_of(record).word if record.final else ""


def _people(record: StoredRequest) -> frozenset[str]:
    """Return the people whom the gateway names in its own sentences about a request."""
    decided = (record.decision.decided_by,) if record.decision else ()
    named = (*decided, *(one.by for one in record.edits))
    return frozenset(
        (
            *(one.name for one in named if one.kind is DeciderKind.PERSON),
            *(vote.person for vote in record.votes),
            *((record.claim.person,) if record.claim else ()),
            *(record.approvers.names if record.approvers else ()),
        )
    )


def _remembers(
    record: StoredRequest, standing: ApprovalProgress, *, complete: bool
) -> frozenset[Action]:
    may = complete and not standing.nobody
    actions = (Action.APPROVE, Action.DENY) if may else (Action.DENY,)
    return frozenset(action for action in actions if may_remember(record, action))


def full_view(record: StoredRequest, *, fits: Fits | None = None, reveal: bool = False) -> FullView:
    """Return the whole call in pages, each of which `fits` accepts as shown whole, or in one
    page."""
    whole = blocks_of(record, reveal=reveal)
    segments: list[Segment] = []
    headings: dict[int, int] = {}
    at = 0
    for block in whole:
        # These brackets are escaped in every text, so that no text can imitate a heading.
        gap, heading = "\n\n" if segments else "", f"── ⟨{block.label}⟩ ──\n"
        segments += [(gap, False), (heading, False), *block.text.segments]
        headings[at + len(gap) + len(heading)] = at + len(gap)
        at += len(gap) + len(heading) + len(block.text.text)
    pages = [segments] if fits is None else paginate(segments, headings, fits)
    return FullView(
        pages=tuple(Visible(tuple(page)) for page in pages),
        chars=sum(block.chars for block in whole),
        digest=record.digest,
        undeclared=say_undeclared(record),
    )


def state_of(record: StoredRequest) -> CardState:
    """Return the state of a request."""
    if not record.final:
        return _waiting_state(record)
    tone = _tone_of(record)
    icon, word = _WORDS[record.status]
    if _responded(record):
        icon = _ANSWERED
    elif tone is Tone.TROUBLED:
        icon = _TROUBLED
    decision = record.decision
    if record.request.questions and record.status is Status.APPROVED:
        word = "Answered"
    elif decision and decision.action is Action.ABORT:
        icon, word = "🛑", f"Denied, and the {decision.abort or 'turn'} stopped"
    elif decision and decision.reason is Reason.BREAKER:
        word = "Denied without asking anybody"
    elif decision and decision.action in _DONE:
        word = _DONE[decision.action]
    return CardState(icon, word, tone)


def _waiting_state(record: StoredRequest) -> CardState:
    question = bool(record.request.questions)
    if standing_of(record).nobody:
        return CardState("⛔", f"Cannot be {'answered' if question else 'approved'}", idle=True)
    if not record.waiting:
        return CardState("💤", "Agent gone", idle=True)
    return CardState("❓", "Question") if question else CardState(*_WORDS[Status.PENDING])


def _tone_of(record: StoredRequest) -> Tone:
    if record.status is Status.DENIED:
        return Tone.REFUSED
    if record.status is not Status.APPROVED or _responded(record):
        return Tone.QUIET
    report = record.report
    return Tone.TROUBLED if report and report.execution in _NOT_RUN else Tone.GOOD


def _responded(record: StoredRequest) -> bool:
    """Whether a person replied to the agent instead of letting the call run."""
    return record.decision is not None and record.decision.action is Action.RESPOND


def _facts(record: StoredRequest, *, reveal: bool) -> tuple[Fact, ...]:
    """Return who submitted the request, its kind, and where the call would run. The agent's words
    are quoted."""
    request, origin = record.request, record.request.origin
    ours = (("Asked by", record.owner), ("Kind", KIND_WORDS.get(request.kind)))
    plain = [Fact(label, render_safe(text, reveal=reveal)) for label, text in ours if text]
    named = (
        ("Agent", request.agent),
        ("Tool", request.tool),
        ("On behalf of (says the agent)", origin.sender or None),
        ("Chat (says the agent)", _chat(origin)),
        ("Parent agent", origin.parent_agent or None),
        ("Session", request.session),
        ("Turn", request.turn or None),
        ("Host", request.context.host),
        ("Folder", request.context.cwd),
    )
    quoted = [
        Fact(label, call_name(text, reveal=reveal)) for label, text in named if text is not None
    ]
    return tuple(quoted[:1] + plain + quoted[1:])


def _chat(origin: Origin) -> str | None:
    """Return the chat that the agent names as the origin of the request, or None."""
    return " / ".join(part for part in (origin.channel, origin.chat) if part) or None


def _size(blocks: Sequence[Block], whole: Sequence[Block]) -> str:
    seen = sum(len(block.text.text) for block in blocks)
    chars, lines = sum(b.chars for b in whole), sum(b.lines for b in whole)
    if seen >= chars:
        unit = "line" if lines == 1 else "lines"
        return f"{_group_digits(chars)} characters, {_group_digits(lines)} {unit}"
    return f"{_group_digits(seen)} of {_group_digits(chars)} characters shown"


def _group_digits(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _preview(record: StoredRequest, lines: int, chars: int) -> Block | None:
    preview = record.request.preview
    if preview is None:
        return None
    text = record.show(preview.text)
    whole = Block("the agent's preview", preview.format, text, text.count_lines(), len(text.text))
    return cut([whole], lines=lines, chars=chars)[0]


def _fields(record: StoredRequest) -> tuple[Field, ...]:
    return tuple(
        Field(
            id=question.id,
            text=render_safe(question.text),
            kind=question.kind,
            choices=tuple(
                Choice(option.value, render_safe(option.label or option.value))
                for option in question.options
            ),
            required=question.required,
            secret=question.secret,
        )
        for question in record.request.questions
    )


def _say_changed_by(record: StoredRequest) -> Visible | None:
    """Return who changed the call and, for a hook, the hook's reason; None if nobody did."""
    if record.edited is None:
        return None
    if not record.editors:
        return render_safe("Changed since it was submitted")
    return record.show(f"Changed by {', then by '.join(map(_name_editor, record.editors))}")


def _changed_alone(record: StoredRequest) -> bool:
    """Whether the person who changed the call was also the only one to approve it."""
    editors, decision = record.editors, record.decision
    if decision is None or len(editors) != 1 or len(record.votes) > 1:
        return False
    return editors[0].by.kind is DeciderKind.PERSON and editors[0].by == decision.decided_by


def _name_editor(edit: Edit) -> str:
    if edit.by.kind is DeciderKind.PERSON:
        return edit.by.name
    # Quoted, because it may contain the agent's words, which must not pass for the gateway's.
    said = f": {quote_name(start_of(edit.why, _WHY_CHARS)).text}" if edit.why else ""
    return f"the policy hook {quote_name(edit.by.name).text}{said}"


def progress_of(record: StoredRequest, standing: ApprovalProgress) -> str:
    """Return who approved, who is missing, and which grants the voters want, in words."""
    wished = [] if record.final else wishes(record)
    return "; ".join([standing.words, *wished] if standing.words else wished)


def _outcome(record: StoredRequest, *, answers: bool = True) -> Visible | None:
    """Return who decided and why, in words, with the answers to a form."""
    if record.decision is None:
        return None
    rule = record.decision.host_rule
    kept = "" if rule is None else f"; {kept_words(record, rule)}"
    told = told_outcome(record)
    if _responded(record):
        told = f"{_NOT_RUN_BUT} {told.removeprefix(record.status.value).strip()}{_response(record)}"
    return record.show(f"{told}{_answers(record) if answers else ''}{kept}")


def _say_ending(record: StoredRequest, *, answers: bool = True) -> Visible | None:
    """Return how the request was decided, in words that begin with the state's word."""
    outcome = _outcome(record, answers=answers)
    if outcome is None:
        return None
    first, rest = outcome.segments[0][0], outcome.segments[1:]
    status = _NOT_RUN_BUT if _responded(record) else record.status.value
    said = first.removeprefix(status) if first.startswith(status) else f" · {first}"
    state, _, stopped = state_of(record).word.partition(", and ")
    if record.decision and record.decision.reason is Reason.BREAKER:
        state = "Denied"  # the outcome says that nobody was asked
    if record.decision and record.decision.action is Action.EDIT:
        # Not "approved with changes by": the approver and the editor may be two people.
        state = _BOTH if _changed_alone(record) else "Approved"
    if stopped:
        rest = (*rest, (f" · {stopped}", False))
    return replace(outcome, segments=((f"{state}{said}", False), *rest))


def _answers(record: StoredRequest) -> str:
    """Return each question's answer on one line, quoted, because an agent and a person wrote
    them."""
    given = record.decision.answers if record.decision else None
    if not given:
        return ""
    said = [(one.text, _quote_answer(one, given)) for one in record.request.questions]
    listed = (
        [f"{_quote(text)}: {answer}" for text, answer in said] if len(said) > 1 else [said[0][1]]
    )
    return f": {start_of('; '.join(listed), _MOST_ANSWERS)}"


def _quote_answer(question: Question, given: JsonObject) -> str:
    if question.id not in given:
        return "not answered"
    return "a secret" if question.secret else _quote(_say_answer(question, given[question.id]))


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _list_answers(record: StoredRequest, most: int) -> tuple[FieldAnswer, ...]:
    """Return each question's answer, shortened to `most` characters."""
    given = record.decision.answers if record.decision else None
    if given is None:
        return ()
    return tuple(_answer(record, one, given, most) for one in record.request.questions)


def _answer(record: StoredRequest, question: Question, given: JsonObject, most: int) -> FieldAnswer:
    asked = record.show(question.text)
    if question.id not in given:
        return FieldAnswer(asked, None, "Not answered")
    if question.secret:
        return FieldAnswer(asked, None, "A secret was entered; only the agent gets it")
    said = _say_answer(question, given[question.id])
    begun = start_of(said, most)
    return FieldAnswer(asked, record.show(begun if begun == said else f"{begun}…"))


def _say_answer(question: Question, value: Any) -> str:
    """Return an answer in the words that the person chose or typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    labels = {one.value: one.label or one.value for one in question.options}
    chosen = value if isinstance(value, list) else [value]
    return ", ".join(
        labels.get(one, one) if isinstance(one, str) else json.dumps(one) for one in chosen
    )


def _response(record: StoredRequest) -> str:
    """Return the reply that the agent got instead of a run, quoted, because a person wrote it."""
    given = record.decision.result if record.decision else None
    if given is None:
        return ""
    return f": {start_of(json.dumps(given, ensure_ascii=False), _MOST_ANSWERS)}"


def _result(record: StoredRequest) -> Visible | None:
    """Return how the run ended, in words: as the agent reports it, or as the gateway knows it."""
    report = record.report
    if report is None:
        return None
    said = _REPORTS[report.execution]
    if report.duration_ms is not None and (timed := _TIMED.get(report.execution)):
        said = f"The agent says: {timed} {report.duration_ms / 1000:.1f} s"
    detail = f": {report.detail}" if report.detail else ""
    return record.show(f"{said}{detail}")


def _editable(record: StoredRequest, *, reveal: bool) -> str | None:
    text = pretty(record.arguments)
    if len(text) > _MOST_EDITABLE:
        return None
    return ascii_escaped(text) if reveal or not record.find_secrets(text) else None


def _controls(
    record: StoredRequest, summary: CallSummary, standing: ApprovalProgress, *, seen: bool
) -> tuple[Control, ...]:
    if record.final:
        return ()
    allowed = dict.fromkeys((*record.request.allowed, Action.DENY))
    if _must_strike(record):
        allowed.pop(Action.APPROVE, None)
    return tuple(
        _control(action, record, summary, standing)
        for action in _LABELS
        if action in allowed and (seen or action not in NEEDS_ALL_SEEN) and standing.offers(action)
    )


def _must_strike(record: StoredRequest) -> bool:
    """Whether the request is a high-risk plan, which must be edited before it can be approved."""
    return record.request.kind is Kind.CALLS and record.risk.level is RiskLevel.HIGH


def _control(
    action: Action, record: StoredRequest, summary: CallSummary, standing: ApprovalProgress
) -> Control:
    label, style = _LABELS[action]
    if style is Style.PRIMARY and not record.waiting:
        style = Style.PLAIN  # it can still be decided, but nothing waits for it
    high = record.risk.level is RiskLevel.HIGH
    ways = record.approvers.step_up if record.approvers else ()
    planned = record.request.kind is Kind.CALLS and action is Action.APPROVE
    confirms = (high or planned or bool(ways)) and action not in (Action.DENY, Action.ABORT)
    number, passkey = (confirms and way in ways for way in (StepUp.NUMBER, StepUp.PASSKEY))
    sign = finding_sign(alarms=record.alarms)
    found = "".join(f" {sign} {one.text}." for one in warnings(record))
    # An edit is confirmed below its diff, which the summary of the earlier call does not describe.
    about = "" if action is Action.EDIT else f"{plain_summary(summary)}. "
    approves = action in (Action.APPROVE, Action.EDIT)
    share = _say_share(standing, voids=action is Action.EDIT) if confirms and approves else ""
    question = f"{_READ_ALL if high else _READ}{_say_more(share)}"
    return Control(
        action=action,
        label=label,
        yes=f"{label}, {share}" if share else label,
        style=style,
        confirm=f"{about}{question}{found}" if confirms else None,
        question=question if confirms else "",
        number=number,
        passkey=passkey,
        optional=(number or passkey) and StepUp.PERSON in ways,
    )


def _say_share(standing: ApprovalProgress, *, voids: bool) -> str:
    """Return which of several approvals this one is, such as "2 of 3", else "". An edit (`voids`)
    restarts the count."""
    number = 1 if voids else len(standing.approved) + 1
    if standing.quorum <= 1 or standing.nobody or number > standing.quorum:
        return ""
    return f"{number} of {standing.quorum}"


def _say_more(share: str) -> str:
    return f" Yours is approval {share}." if share else ""


# Chooses the findings and reasons that are shown between the summary and the call.

MOST_BEFORE = 12
"""The most words before the first character of the call, not counting findings."""
_MOST_FOUND = 3  # findings before the call
_MOST_LINE = 130  # characters of each
_HIGH_RISK, _LOOK_CLOSER = "High risk", "Look closer"


@dataclass(frozen=True, slots=True)
class FoundAbove:
    """The part of a card above the call: a `mark` of two words, or "", and the first findings and
    reasons in short form. All others are shown below the call."""

    mark: str
    findings: tuple[Visible, ...]
    reasons: tuple[Visible, ...]

    def findings_below(self, card: Card) -> tuple[Visible, ...]:
        """Return the findings that are not shown above the call."""
        return card.findings[len(self.findings) :]

    def reasons_below(self, card: Card) -> tuple[Visible, ...]:
        """Return the reasons for the risk that are not shown above the call."""
        return () if card.final else card.reasons[len(self.reasons) :]


def choose_found_above(card: Card, *before: str) -> FoundAbove:
    """Return the first short findings of a pending card, and the reasons for its risk that fit.

    The reasons share the available words with the summary and the texts `before` the call. A
    decided card has none.
    """
    if card.final:
        return FoundAbove("", (), ())
    reasons = () if card.risk is RiskLevel.LOW else card.reasons
    mark = _HIGH_RISK if card.risk is RiskLevel.HIGH else ""
    said = (*before, mark, "".join(part.text.text for part in card.summary))
    left = MOST_BEFORE - sum(len(text.split()) for text in said)
    findings = tuple(takewhile(_is_line, card.shorts[:_MOST_FOUND]))
    told = _take(reasons, left)
    closer = _LOOK_CLOSER if (card.shorts or reasons) and not (findings or told) else ""
    return FoundAbove(mark or closer, findings, told)


def choose_above(card: Card) -> FoundAbove:
    """Return the findings and reasons to show above the call in a chat. The label of the first
    block uses some of the available words."""
    return choose_found_above(card, card.blocks[0].label if card.blocks else "")


def tell_above(card: Card, above: FoundAbove) -> list[tuple[str, str]]:
    """Return the part above the call as lines, each with a sign and words: the risk and its
    reasons, then the findings."""
    reasons = "; ".join(one.text for one in above.reasons)
    mark = above.mark or (f"{card.risk.value} risk".capitalize() if reasons else "")
    said = ": ".join(filter(None, (mark, reasons)))
    lines = [("🔴" if card.risk is RiskLevel.HIGH else card.sign, said)] if said else []
    return lines + [(card.sign, one.text) for one in above.findings]


def _is_line(text: Visible) -> bool:
    return len(text.text) <= _MOST_LINE


def _take(texts: Iterable[Visible], left: int) -> tuple[Visible, ...]:
    """Return the first texts that together have at most `left` words."""
    taken: list[Visible] = []
    for text in texts:
        left -= len(text.text.split()) if _is_line(text) else MOST_BEFORE
        if left < 0:
            break
        taken.append(text)
    return tuple(taken)


# Actions on a card that are possible only in the inbox, and how people get there.


def names_inbox(card: Card) -> bool:
    """Whether a pending card's notices mention the inbox, to reveal a mask or to use a passkey."""
    passkey = any(one.passkey for one in card.controls)
    return not card.final and (card.hides or card.masked > 0 or passkey)


def leads_to_inbox(card: Card) -> bool:
    """Whether a pending card has an action that some chats cannot offer."""
    return _needs_inbox(card) or (not card.final and any(one.number for one in card.controls))


def say_no_link(card: Card) -> str:
    """Return how people get to the inbox if the card sends them there but has no link to it; else
    ""."""
    return NO_LINK if _needs_inbox(card) and not card.inbox else ""


def list_warnings(card: Card) -> list[str]:
    """Return a chat's warnings. These are the notices, that a secret can be answered only in the
    inbox, and how people get to the inbox without a link."""
    secret = not card.final and any(field.secret for field in card.fields)
    told = (*card.notices, SECRET_ASKED if secret else "", say_no_link(card))
    return [one for one in told if one]


def _needs_inbox(card: Card) -> bool:
    secret = any(field.secret for field in card.fields)
    return names_inbox(card) or (secret and not card.final)
