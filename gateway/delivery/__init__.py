"""Everything that the gateway sends: posted cards and their updates, reminders, webhooks, hook
events.

Reads requests and calls adapters through `ports`; never decides a request. Start with
`outbox_worker` (the loop) or `request_cards` (the handling of a request).
"""
