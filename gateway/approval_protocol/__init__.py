"""The Agent Approval Protocol over HTTP, so that its clients ask this gateway unchanged.

A request of the protocol is one of ours, asked by the agent whose token it carries; only what ours
does not keep, its own spelling, is noted beside it. Begin with `requests`; `routes` is the door.
"""
