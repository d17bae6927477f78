"""Send cards and their updates, reminders, webhooks and hook events.

This package reads requests and calls adapters through `ports`; it never decides a request. Start
with `outbox_worker` (the loop) or `request_cards` (the handling of a request).
"""
