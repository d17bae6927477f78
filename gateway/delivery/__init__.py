"""Everything that goes out: posted cards kept true, reminders, webhooks, events for hooks.

Reads requests and calls adapters through `ports`; never decides anything. Enter at `outbox_worker`
(the loop) or `request_cards` (what it does for a request).
"""
