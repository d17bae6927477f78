"""The HTTP API for agents, approvers and operators, and the agents' intake from Redis streams.

It authenticates callers, validates messages and calls `approvals`; it keeps no state. Start at
`api.routes` (one line a route) or `agent_verbs` (the agents' verbs, over HTTP and streams).
"""
