"""Assemble all services that handle requests in `Core`. Each gateway process has one instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.approvals.absences import Absences
from gateway.approvals.agent_service import Approvals, HookReviews
from gateway.approvals.decisions import ClickJudge
from gateway.approvals.duplicates_and_overflow import Grouping, GroupStore
from gateway.approvals.explanation import Explanations
from gateway.approvals.grant_creation import GrantCreation
from gateway.approvals.grant_lifecycle import GrantLifecycle
from gateway.approvals.grant_service import GrantService
from gateway.approvals.operators import OperatorService
from gateway.approvals.request_service import RequestService, SessionService
from gateway.approvals.request_writer import PostedCopies, Writer
from gateway.approvals.suggestions import Suggestions
from gateway.cards.blocks import CardSizes
from gateway.cards.masks import MaskProofs
from gateway.domain.health_and_metrics import Health, Tally
from gateway.domain.store import WritableStore
from gateway.domain.time_and_tasks import Clock
from gateway.policy.chain import Chain
from gateway.policy.grant_book import GrantBook, GrantStore
from gateway.policy.rules import rule_links
from gateway.policy.verdict import Decider
from gateway.ports import Feed
from gateway.ports.outgoing import AdapterStorage, Outbox
from gateway.wire.signatures import Signer


class OtherStores(NamedTuple):
    """The stores other than that of requests: grants, delivery queues, groups of requests, and
    notes about suggestions and absences."""

    grants: GrantStore
    outbox: Outbox
    held: GroupStore
    notes: AdapterStorage


class Core:
    """Creates the services and holds them. Replicas share the contents of the stores."""

    def __init__(
        self,
        store: WritableStore,
        feed: Feed,
        deciders: Sequence[Decider],
        clock: Clock,
        *,
        signer: Signer | None,
        stores: OtherStores,
        denial_minutes: int,
    ) -> None:
        grants, outbox, held, notes = stores
        book = GrantBook(grants, clock)
        self.feed = feed
        self.health = Health()
        self.tally = Tally()
        self.outbox = outbox
        self.held = held
        self.sizes = CardSizes()
        self.proofs = MaskProofs(signer.sign(b"the key of proofs").encode() if signer else b"")
        self.writer = writer = Writer(store, clock, signer, book, tally=self.tally)
        chain = Chain([*book.deciders, *rule_links(writer.policy, store.counted), *deciders])
        self.copies = PostedCopies(store, outbox)
        self.grants = GrantLifecycle(store, book, clock, writer)
        self.remembering = GrantCreation(
            store, chain, clock, writer, self.grants, denial_minutes=denial_minutes
        )
        self.grant_service = GrantService(store, writer, self.grants, self.remembering, self.copies)
        self.reviews = HookReviews(chain, writer, self.grants)
        self.holding = Grouping(store, held, writer)
        self.away = Absences(store, notes, outbox, writer)
        self.approvals = Approvals(
            store, chain, writer, self.grants, self.proofs, self.copies, self.away
        )
        self.explanations = Explanations(store, writer, self.approvals, self.grants)
        self.clicks = ClickJudge(store, chain, writer, self.remembering, self.proofs)
        self.requests = RequestService(
            store,
            writer,
            self.clicks,
            self.remembering,
            self.copies,
            sizes=self.sizes,
            proofs=self.proofs,
        )
        self.suggestions = Suggestions(store, writer, notes)
        self.sessions = SessionService(store, self.approvals, self.grants)
        self.operator = OperatorService(store, writer, held, self.sessions, self.health)
