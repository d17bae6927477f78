"""Values that the server keeps, and the interfaces to its durable state. No I/O.

Whoever keeps a request, a person or a policy speaks in these. Enter at `records` (a request as it
stands), `policy_document` (what an operator wrote) or `store` (what the core asks of Redis).
"""
