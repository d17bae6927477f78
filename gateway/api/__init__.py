"""The two ways in for agents: Redis streams and HTTP; and HTTP for approvers and operators.

Checks who speaks and in what form, then calls `approvals`; keeps no state. Enter at
`routes_and_access` (one line a route) or `redis_intake` (the same five verbs from streams).
"""
