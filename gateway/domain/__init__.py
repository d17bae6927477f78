"""Values that the server stores, and the interfaces to its durable state. No I/O.

Start at `records` (a request and its events), `policy_document` (what an operator configures) or
`store` (the operations that the core needs from Redis).
"""
