"""Approval gateway: AI agents submit requests, people approve or deny them.

Importing this package loads nothing else. Agents use `gateway.client`.
"""

__version__ = "0.1.0"
