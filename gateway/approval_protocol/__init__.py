"""Serve the Agent Approval Protocol over HTTP, so that its clients can use this gateway unchanged.

A request made through the protocol becomes a normal request of the agent whose token it carries.
Only its original text is stored in addition. Start with `requests` (operations) or `routes` (HTTP
paths).
"""
