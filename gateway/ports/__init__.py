"""Ports: what the core offers adapters, and what it asks of them and of its surroundings.

An adapter, ours or somebody else's, imports from here, from `gateway.models` and from
`gateway.errors`, and from nowhere else in the gateway. All protocols are structural: nothing needs
a base class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.domain.clock import Clock, SystemClock
from gateway.domain.devices import PushDevice, QuietHours
from gateway.domain.http_body import BodyTooLarge, BodyTooSlow, read_whole
from gateway.domain.records import (
    Approvers,
    AuditEvent,
    Click,
    Identity,
    MessageRef,
    Page,
    Paused,
    Person,
    Query,
    Record,
    Remember,
    Session,
)
from gateway.domain.redaction import bug, mask, render_safe, start_of
from gateway.domain.safe_text import Segment, Visible, make_visible
from gateway.domain.step_up import MOST_GUESSES
from gateway.domain.tasks import cancel_and_wait
from gateway.policy.decider import Decider, Verdict
from gateway.policy.declared_tools import ToolWord
from gateway.policy.grants.grant import Effect, Grant
from gateway.ports.adapters import (
    Adapter,
    HasChecks,
    HasCommands,
    HasMentionChecks,
    HasProblems,
    HasRoutes,
    HasStreams,
)
from gateway.ports.blocks import (
    LABEL_CHARS,
    Block,
    CardSizes,
    Change,
    changes,
    draw,
    headline,
    heavy,
    quote_name,
    warnings,
    weight_of,
)
from gateway.ports.cards import (
    Card,
    Control,
    Field,
    FieldAnswer,
    FullView,
    Style,
    Tone,
    card_of,
    full_view,
    progress_of,
    state_of,
)
from gateway.ports.checks import FAIL, Finding, report_doubt, report_failure, report_ok
from gateway.ports.desk import (
    Desk,
    Feed,
    GrantCalls,
    Groups,
    OperatorCalls,
    QueueCalls,
    RequestCalls,
    SearchCalls,
    SessionCalls,
    ToolCalls,
    Watch,
    address_of,
)
from gateway.ports.device_words import name_device
from gateway.ports.devices import DeviceCalls, Subscription
from gateway.ports.edits import (
    UNCHANGED,
    EditField,
    EditKind,
    WrongField,
    check_edit,
    edit_as_text,
    edit_fields,
    put_together,
)
from gateway.ports.found_above import FoundAbove, choose_found_above
from gateway.ports.grant_cards import GrantCard, backing_of, grant_card_of, people_of, uses_of
from gateway.ports.grants_by_hand import HandCalls, Wish, build_example
from gateway.ports.group_cards import (
    GroupCard,
    group_card_of,
    is_of_group,
    is_simple,
    named_facts,
    posted_group_of,
    read_revisions,
)
from gateway.ports.head_parts import SECRET_NAMED, Head
from gateway.ports.heads import head_of, plain_head
from gateway.ports.leads import leads_to_inbox, names_inbox, say_no_link
from gateway.ports.lists import (
    Found,
    FoundEvents,
    QueueCounts,
    Search,
    Side,
    list_facts,
    name_event,
)
from gateway.ports.logins import (
    CHAT_LINK_SECONDS,
    LONGEST_SECONDS,
    Device,
    LoginLink,
    LoginLinks,
    Logins,
)
from gateway.ports.notices import say_masked, say_step_up
from gateway.ports.open_values import ROLES_ON_CARDS, undeclared_of
from gateway.ports.outgoing import (
    ChecksCopies,
    CopyGone,
    DeliveryFailed,
    DeliveryUncertain,
    Limited,
    Lists,
    Notes,
    Notice,
    NoticeKind,
    Posts,
    PostsGrants,
    PostsGroups,
    Queues,
    RetryLater,
    shows_group,
)
from gateway.ports.passkeys import (
    MOST_PASSKEYS,
    Passkey,
    Passkeys,
    Proof,
    Proofs,
    Prove,
    subject_of,
)
from gateway.ports.proven_masks import COULD_ACT, HIDDEN, NEEDS_ALL_SEEN, hides
from gateway.ports.provider import Provider
from gateway.ports.rate_limit import Pace, Rate, Urgency, rank_edit
from gateway.ports.remember_options import (
    LIFETIME_WORDS,
    LIFETIMES_BY_LENGTH,
    PASS_LIFETIME_WORDS,
    USUAL_LIFETIME,
    RememberOption,
    remember_as,
    scopes_of,
)
from gateway.ports.standing import standing_of
from gateway.ports.words import (
    ANOTHER_PLAN,
    BECAUSE,
    DENIALS,
    LIFT,
    NO_LINK,
    NUMBER_LABEL,
    NUMBER_OPTIONAL,
    SAY_THE_PLAN,
    SECRET_ASKED,
    KillSwitch,
    join_reason,
    say_names,
)
from gateway.ports.worklist import Worklist
from gateway.wire.canonical_json import parse as parse_json
from gateway.wire.codec import JsonObject, plain
from gateway.wire.identifiers import REQUEST_ID

__all__ = [
    "ANOTHER_PLAN",
    "BECAUSE",
    "CHAT_LINK_SECONDS",
    "COULD_ACT",
    "DENIALS",
    "FAIL",
    "HIDDEN",
    "LABEL_CHARS",
    "LIFETIMES_BY_LENGTH",
    "LIFETIME_WORDS",
    "LIFT",
    "LONGEST_SECONDS",
    "MOST_GUESSES",
    "MOST_PASSKEYS",
    "NEEDS_ALL_SEEN",
    "NO_LINK",
    "NUMBER_LABEL",
    "NUMBER_OPTIONAL",
    "PASS_LIFETIME_WORDS",
    "REQUEST_ID",
    "ROLES_ON_CARDS",
    "SAY_THE_PLAN",
    "SECRET_ASKED",
    "SECRET_NAMED",
    "UNCHANGED",
    "USUAL_LIFETIME",
    "Adapter",
    "Approvers",
    "AuditEvent",
    "Block",
    "BodyTooLarge",
    "BodyTooSlow",
    "Card",
    "CardSizes",
    "Change",
    "ChecksCopies",
    "Click",
    "Clock",
    "Control",
    "CopyGone",
    "Credential",
    "Credentials",
    "Decider",
    "DeliveryFailed",
    "DeliveryUncertain",
    "Desk",
    "Device",
    "DeviceCalls",
    "EditField",
    "EditKind",
    "Effect",
    "Feed",
    "Field",
    "FieldAnswer",
    "Finding",
    "Found",
    "FoundAbove",
    "FoundEvents",
    "FullView",
    "Grant",
    "GrantCalls",
    "GrantCard",
    "GroupCard",
    "Groups",
    "HandCalls",
    "HasChecks",
    "HasCommands",
    "HasMentionChecks",
    "HasProblems",
    "HasRoutes",
    "HasStreams",
    "Head",
    "Identity",
    "JsonObject",
    "KillSwitch",
    "Limited",
    "Lists",
    "LoginLink",
    "LoginLinks",
    "Logins",
    "MessageRef",
    "Notes",
    "Notice",
    "NoticeKind",
    "OperatorCalls",
    "Pace",
    "Page",
    "Passkey",
    "Passkeys",
    "Paused",
    "Person",
    "Posts",
    "PostsGrants",
    "PostsGroups",
    "Proof",
    "Proofs",
    "Prove",
    "Provider",
    "PushDevice",
    "Query",
    "QueueCalls",
    "QueueCounts",
    "Queues",
    "QuietHours",
    "Rate",
    "Record",
    "Remember",
    "RememberOption",
    "RequestCalls",
    "RetryLater",
    "Search",
    "SearchCalls",
    "Segment",
    "Session",
    "SessionCalls",
    "Side",
    "Style",
    "Subscription",
    "SystemClock",
    "Tone",
    "ToolCalls",
    "ToolWord",
    "Urgency",
    "Verdict",
    "Visible",
    "Watch",
    "Wish",
    "Worklist",
    "WrongField",
    "address_of",
    "backing_of",
    "bug",
    "build_example",
    "cancel_and_wait",
    "card_of",
    "changes",
    "check_edit",
    "choose_found_above",
    "draw",
    "edit_as_text",
    "edit_fields",
    "full_view",
    "grant_card_of",
    "group_card_of",
    "head_of",
    "headline",
    "heavy",
    "hides",
    "is_of_group",
    "is_simple",
    "join_reason",
    "leads_to_inbox",
    "list_facts",
    "make_visible",
    "mask",
    "name_device",
    "name_event",
    "named_facts",
    "names_inbox",
    "parse_json",
    "people_of",
    "plain",
    "plain_head",
    "posted_group_of",
    "progress_of",
    "put_together",
    "quote_name",
    "rank_edit",
    "read_revisions",
    "read_whole",
    "remember_as",
    "render_safe",
    "report_doubt",
    "report_failure",
    "report_ok",
    "say_masked",
    "say_names",
    "say_no_link",
    "say_step_up",
    "scopes_of",
    "shows_group",
    "standing_of",
    "start_of",
    "state_of",
    "subject_of",
    "undeclared_of",
    "uses_of",
    "warnings",
    "weight_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """Who a credential belongs to. `kind` is agent or approver; `owner` is an agent's person.

    `since` is when the agent was given its name, in ms since the epoch by the server's clock: what
    another holder of the name asked before is not its own.
    """

    kind: str
    name: str
    key_id: str
    owner: str | None = None
    since: int = 0


class Credentials(Protocol):
    """Checks bearer tokens. Tokens are stored hashed and compared in constant time."""

    async def authenticate(self, token: str) -> Credential | None:
        """Return whom the token belongs to; None for anything unknown, malformed or revoked."""

    async def holder(self, agent: str) -> Credential:
        """Return the credential of an agent; raises Unauthorized when it has none."""
