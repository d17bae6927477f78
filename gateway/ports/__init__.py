"""Define the public interface between the gateway and adapters. Start reading at `Adapter` and
`AdapterApi`.

An adapter extends `Adapter` and calls the gateway through an `AdapterApi`. It may import only from
this package, `gateway.cards`, `gateway.chat`, `gateway.models` and `gateway.errors`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.cards.card import Card
from gateway.cards.grant_cards import GrantCard
from gateway.domain.event_sentences import list_facts, name_event, say_event
from gateway.domain.records import (
    AUDITOR,
    Approvers,
    AuditEvent,
    Click,
    Identity,
    MessageRef,
    Page,
    Paused,
    Person,
    Query,
    Remember,
    Session,
    StoredRequest,
)
from gateway.domain.redaction import bug, mask, render_safe, start_of
from gateway.domain.risk import MOST_GUESSES
from gateway.domain.safe_text import Segment, Visible, make_visible
from gateway.domain.time_and_tasks import Clock, SystemClock, cancel_and_wait, run_to_end
from gateway.domain.web_limits import BodyTooLarge, BodyTooSlow, read_whole
from gateway.policy.declared_tools import ToolWord
from gateway.policy.grants.grant import Effect, Grant
from gateway.policy.verdict import Decider, Verdict
from gateway.ports.adapter_api import (
    AdapterApi,
    Feed,
    Found,
    FoundEvents,
    GatewayStatus,
    GrantCalls,
    Groups,
    ManualGrantRequest,
    OperatorCalls,
    QueueCounts,
    QueueFilter,
    RequestCalls,
    Search,
    SuggestionCalls,
    Wait,
    address_of,
    build_example,
)
from gateway.ports.adapters import (
    FAIL,
    Adapter,
    Called,
    Finding,
    LiveTrial,
    WebPages,
    report_doubt,
    report_failure,
    report_ok,
)
from gateway.ports.claims import (
    ChatSetup,
    Claimant,
    ClaimCalls,
    ClaimedPlace,
    RoutePlaces,
    SetupTerminal,
)
from gateway.ports.devices import DeviceCalls, PushDevice, QuietHours, Subscription, name_device
from gateway.ports.outgoing import (
    AdapterStorage,
    CopyGone,
    DeliveryFailed,
    DeliveryUncertain,
    Limited,
    Notice,
    NoticeKind,
    RetryLater,
    Shown,
)
from gateway.ports.rate_limit import Priority, Rate, RateLimiter, rank_edit
from gateway.ports.sign_in import (
    CHAT_LINK_SECONDS,
    LONGEST_SECONDS,
    MOST_PASSKEYS,
    Device,
    LoginLink,
    LoginLinks,
    Logins,
    Passkey,
    Passkeys,
    Proof,
    Prove,
    Provider,
    subject_of,
)
from gateway.wire.canonical_json import parse as parse_json
from gateway.wire.codec import JsonObject, plain
from gateway.wire.schema import REQUEST_ID

__all__ = [
    "AUDITOR",
    "CHAT_LINK_SECONDS",
    "FAIL",
    "LONGEST_SECONDS",
    "MOST_GUESSES",
    "MOST_PASSKEYS",
    "REQUEST_ID",
    "Adapter",
    "AdapterApi",
    "AdapterStorage",
    "Approvers",
    "AuditEvent",
    "BodyTooLarge",
    "BodyTooSlow",
    "Called",
    "Card",
    "ChatSetup",
    "ClaimCalls",
    "Claimant",
    "ClaimedPlace",
    "Click",
    "Clock",
    "CopyGone",
    "Credential",
    "Credentials",
    "Decider",
    "DeliveryFailed",
    "DeliveryUncertain",
    "Device",
    "DeviceCalls",
    "Effect",
    "Feed",
    "Finding",
    "Found",
    "FoundEvents",
    "GatewayStatus",
    "Grant",
    "GrantCalls",
    "GrantCard",
    "Groups",
    "Identity",
    "JsonObject",
    "Limited",
    "LiveTrial",
    "LoginLink",
    "LoginLinks",
    "Logins",
    "ManualGrantRequest",
    "MessageRef",
    "Notice",
    "NoticeKind",
    "OperatorCalls",
    "Page",
    "Passkey",
    "Passkeys",
    "Paused",
    "Person",
    "Priority",
    "Proof",
    "Prove",
    "Provider",
    "PushDevice",
    "Query",
    "QueueCounts",
    "QueueFilter",
    "QuietHours",
    "Rate",
    "RateLimiter",
    "Remember",
    "RequestCalls",
    "RetryLater",
    "RoutePlaces",
    "Search",
    "Segment",
    "Session",
    "SetupTerminal",
    "Shown",
    "StoredRequest",
    "Subscription",
    "SuggestionCalls",
    "SystemClock",
    "ToolWord",
    "Verdict",
    "Visible",
    "Wait",
    "WebPages",
    "address_of",
    "bug",
    "build_example",
    "cancel_and_wait",
    "list_facts",
    "make_visible",
    "mask",
    "name_device",
    "name_event",
    "parse_json",
    "plain",
    "rank_edit",
    "read_whole",
    "render_safe",
    "report_doubt",
    "report_failure",
    "report_ok",
    "run_to_end",
    "say_event",
    "start_of",
    "subject_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The owner of a bearer token. `kind` is `agent` or `approver`.

    `owner` is the person who owns the agent. `since` is when the agent got its name, in ms since
    the epoch (server clock). Requests made earlier under the same name belong to a previous holder.
    """

    kind: str
    name: str
    key_id: str
    owner: str | None = None
    since: int = 0


class Credentials(Protocol):
    """Checks bearer tokens. Tokens are stored hashed and compared in constant time."""

    async def authenticate(self, token: str) -> Credential | None:
        """Return the credential of a token, or None if the token is unknown, malformed or
        revoked."""

    async def holder(self, agent: str) -> Credential:
        """Return the credential of an agent. Raises Unauthorized if it has none."""
