"""Approval gateway: AI agents ask, a person answers, the agent goes on.

Importing this package loads nothing else. Agents use `gateway.client`.
"""

__version__ = "0.1.0"
