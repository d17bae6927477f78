"""The two ways in for agents: Redis streams and HTTP; and HTTP for approvers and operators.

Checks who speaks and in what form, then calls `approvals`; keeps no state. Enter at
`api.routes` (one line a route) or `agent_verbs` (the same five verbs from streams).
"""
