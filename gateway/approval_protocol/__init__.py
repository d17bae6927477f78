"""The Agent Approval Protocol over HTTP, so that its clients can use this gateway unchanged.

A protocol request is a normal request of the agent whose token it carries. Only the original
wording is stored in addition. Start with `requests` (operations) or `routes` (HTTP paths).
"""
