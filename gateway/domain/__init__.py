"""Values that the server stores, and the interfaces to its durable state. No I/O.

Start reading at `records` (a request and its events), `policy_document` (the operator's
configuration) or `store` (the operations that the core needs from Redis).
"""
